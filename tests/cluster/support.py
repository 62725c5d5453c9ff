"""What cluster tests share: wait for a state, speak to the API server as somebody, know why it refused.

Import from here (`from tests.cluster.support import eventually, kubectl`); the fixtures are in `conftest.py`.
"""

import functools
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from devcluster.binaries import ensure
from devcluster.client import Client

Manifest = dict[str, Any]
T = TypeVar("T")

OPERATOR_NAMESPACE = "gatewright-system"
OPERATOR = f"system:serviceaccount:{OPERATOR_NAMESPACE}:gatewright"
"""The user name that the admission policies know the operator by: what the admin gives to `kubectl --as`."""


BRIEF = {"GOGC": "off"}
"""For a kubectl that answers and ends: collecting garbage on the way is a fifth of what a start of it costs."""


@dataclass(frozen=True)
class Answer:
    """What kubectl said: `ok`, its output and its complaint."""

    ok: bool
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output read as JSON (the command must have been given `-o json`)."""
        assert self.ok, f"kubectl was refused, so there is no JSON to read: {self.err}"
        return json.loads(self.out)


def eventually(fn: Callable[[], T], timeout: float = 30.0, message: str = "", interval: float = 0.2) -> T:
    """Call `fn` until it returns something true, and return that.

    `fn` may raise AssertionError to say that it is not so far yet; the last such sentence, or the last
    value, is part of the failure. `timeout` and `interval` are seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            last: object = (value := fn())
            if value:
                return value
        except AssertionError as unmet:
            last = unmet
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {timeout:g} s: {message or fn!r}. Last seen: {last}")
        time.sleep(interval)


@functools.cache
def kubectl_program() -> Path:
    """The kubectl of the dev cluster: found on this machine, or built once."""
    return ensure("kubectl", report=lambda _: None)["kubectl"]


def kubectl(
    args: list[str],
    kubeconfig: Path | str,
    *,
    manifest: Manifest | list[Manifest] | None = None,
    check: bool = False,
) -> Answer:
    """Run kubectl as the user of `kubeconfig`; `manifest` goes to its standard input (for `-f -`).

    With `check` a refusal fails the test with kubectl's own sentence.
    """
    documents = manifest if isinstance(manifest, list) else [manifest] if manifest is not None else []
    # kubectl keeps what it learned of a server in the user's home, under the port: ours come and go.
    environment = os.environ | BRIEF | {"KUBECACHEDIR": str(Path(kubeconfig).parent / "kubectl-cache")}
    run = subprocess.run(
        [kubectl_program(), "--kubeconfig", str(kubeconfig), *args],
        # JSON, not YAML: kubectl would read an unquoted 0123456789 as a number.
        input="\n---\n".join(json.dumps(document) for document in documents),
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    answer = Answer(run.returncode == 0, run.stdout, run.stderr)
    if check:
        assert answer.ok, f"kubectl {' '.join(args)} was refused: {answer.err}"
    return answer


def rest(
    kubeconfig: Path, method: str, path: str, body: Manifest | None = None, **options: str
) -> dict[str, Any]:
    """One call of the API, for setting a stage: a tenth of what a start of kubectl costs. Raises ApiRefused.

    Reading, which tests that wait do many times, goes over a connection that stays open.
    """
    if method != "GET":
        with Client(kubeconfig) as client:
            return client.request(method, path, body, **options)
    kept = _reader(str(kubeconfig), Path(kubeconfig).stat().st_mtime_ns, threading.get_ident())
    try:
        return kept.request(method, path, body, **options)
    except ConnectionError:
        # The server closed, or was started anew, since the last call.
        return kept.request(method, path, body, **options)


class _Reader(Client):
    """Closes its connection when nobody remembers it any more."""

    def __del__(self) -> None:
        self._connection.close()


@functools.lru_cache(maxsize=64)
def _reader(kubeconfig: str, written: int, thread: int) -> Client:
    """One for each thread: a connection carries one call at a time. A file that was written anew names another server."""
    return _Reader(Path(kubeconfig))


def apply(manifest: Manifest | list[Manifest], kubeconfig: Path | str, *extra: str) -> Answer:
    """Server-side apply, which validates strictly: unknown fields are refused."""
    return kubectl(["apply", "--server-side", *extra, "-f", "-"], kubeconfig, manifest=manifest)


def wait_for_policies(kubeconfig: Path) -> None:
    """Until the chart's admission policies are in force; the API server learns of them within a second."""

    def decision(kind: str, **spec: str) -> Manifest:
        common: Manifest = {
            "rollout": "probe",
            "rolloutUID": "probe",
            "revision": "0123456789",
            "reason": "only probing",
        }
        return {
            "apiVersion": "gatewright.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": "probe", "namespace": "default"},
            "spec": common | {"groups": []} | spec,
        }

    ledger: Manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "probe", "namespace": "default", "labels": {"gatewright.dev/ledger": "probe"}},
    }
    review = decision(
        "GateReview",
        run="probe",
        step="0",
        evidenceDigest=f"sha256:{'0' * 64}",
        decision="Reject",
        reviewer="nobody",
    )
    order = decision("GateOrder", order="Retry", orderedBy="nobody")
    gated: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "policy-probe",
            "namespace": "default",
            "labels": {"gatewright.dev/gated": "true"},
        },
        "spec": {
            "replicas": 0,
            "paused": True,
            "selector": {"matchLabels": {"app": "policy-probe"}},
            "template": {
                "metadata": {"labels": {"app": "policy-probe"}},
                "spec": {"containers": [{"name": "app", "image": "probe:v1"}]},
            },
        },
    }
    for manifest, policy in (
        (ledger, "gatewright-ledger"),
        (review, "gatewright-review"),
        (order, "gatewright-order"),
    ):
        eventually(
            lambda m=manifest, p=policy: p in apply(m, kubeconfig, "--dry-run=server").err,  # type: ignore[misc]
            20,
            f"{policy} is in force",
        )
    # The policy that stamps the writer of a contract learns of a new kind a moment after its definition.
    contract: Manifest = {
        "apiVersion": "gatewright.dev/v1alpha1",
        "kind": "GateContract",
        "metadata": {"name": "probe", "namespace": "default"},
        "spec": {
            "checks": [
                {
                    "id": "pods",
                    "oracleKind": "Deterministic",
                    "evidence": [{"stages": ["Canary"], "pods": {}}],
                }
            ]
        },
    }

    def signed() -> bool:
        answer = apply(contract, kubeconfig, "--dry-run=server", "-o", "json")
        assert answer.ok, answer.err
        return "gatewright.dev/written-by" in answer.json["metadata"].get("annotations", {})

    eventually(signed, 30, "the policy that stamps who wrote a contract is in force")
    kubectl(["create", "-f", "-"], kubeconfig, manifest=gated, check=True)
    try:
        change = [
            "-n",
            "default",
            "set",
            "image",
            "deployment/policy-probe",
            "app=probe:v2",
            "--dry-run=server",
        ]

        def stamped() -> bool:
            written = kubectl([*change, "-o", "json"], kubeconfig)
            return written.ok and "gatewright.dev/changed-by" in written.json["metadata"].get(
                "annotations", {}
            )

        eventually(stamped, 20, "the policy that holds new templates is in force")
    finally:
        kubectl(["-n", "default", "delete", "deployment", "policy-probe", "--wait=false"], kubeconfig)
