"""A service under a Rollout, with real traffic: the stage of the tests that watch whole releases.

shop = Release.create(cluster, namespace)      # sample service, route, contract, Rollout; waits until it is gated
shop.release(VERSION="v2", ERROR_RATE="0.9")   # as a developer would: a new template
shop.phase("RolledBack")                       # waits for it; the failure says what was seen instead
"""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster import Instance
from tests.cluster.checkout import (
    GATE,
    LONG,
    LONG_GATE,
    RATE,
    STEPS,
    TWO_STEPS,
    check,
    contract,
    deployment,
    http_route,
    in_hours,
    rollout,
    service,
)
from tests.cluster.decisions import Decisions
from tests.cluster.support import BRIEF, Answer, Manifest, eventually, kubectl_program
from tests.cluster.traffic import Traffic, lost

__all__ = [
    "DOUBTFUL",
    "GATE",
    "GOOD",
    "LONG",
    "LONG_GATE",
    "RATE",
    "STEPS",
    "TWO_STEPS",
    "Person",
    "Release",
    "Traffic",
    "check",
    "contract",
    "deployment",
    "gate",
    "http_route",
    "in_hours",
    "lost",
    "rollout",
    "service",
]

GOOD = {"VERSION": "v2"}
DOUBTFUL = {"VERSION": "v2", "ERROR_RATE": "0.045"}
"""So near to the limit of 5 % that eight seconds prove neither."""
Person = Callable[..., Path]
"""The fixture `as_user`."""


@dataclass
class Release(Decisions):
    """One service, its Rollout, and what a user sees of both."""

    @classmethod
    def create(
        cls,
        cluster: Instance,
        namespace: str,
        *,
        steps: list[Manifest] | None = None,
        contract_spec: Manifest | None = None,
        replicas: int = 2,
        env: dict[str, str] | None = None,
        gated: bool = True,
        **spec: Any,
    ) -> "Release":
        """Everything applied, the service up, and (unless told otherwise) the Deployment under guard."""
        host = f"{uuid.uuid4().hex[:12]}.shop"
        shop = cls(cluster, namespace, host, cluster.user("developer-a", groups=("system:masters",)))
        shop.apply(
            deployment(replicas, **(env or {})),
            service("checkout"),
            service("checkout-canary"),
            http_route(host),
            contract_spec or contract(),
        )
        eventually(
            lambda: shop.get("deployment", "checkout").get("status", {}).get("availableReplicas") == replicas,
            60,
            "the sample service is up",
        )
        shop.apply(rollout(steps, **spec))
        if gated:
            shop.phase("Idle")
        return shop

    @property
    def deployment(self) -> Any:
        """The user's own Deployment."""
        return self.get("deployment", "checkout")

    def release(self, **env: str) -> None:
        """A new template: environment variables of the sample service, as a developer sets them."""
        pairs = [f"{key}={value}" for key, value in env.items()]
        answer = self.kubectl("set", "env", "deployment/checkout", *pairs, who=self.developer)
        assert answer.ok, answer.err

    def release_with_setting(self, variable: str, value: str, **env: str) -> None:
        """A new template that reads `variable` from a ConfigMap, as each of its processes starts: it may turn bad later."""
        self.set_setting(variable, value)
        reference = {"configMapKeyRef": {"name": "settings", "key": variable}}
        variables = [{"name": name, "value": text} for name, text in ({"VERSION": "v2"} | env).items()]
        container = {
            "name": "app",
            "env": [*variables, {"name": variable, "value": None, "valueFrom": reference}],
        }
        patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
        answer = self.kubectl("patch", "deployment", "checkout", "-p", json.dumps(patch), who=self.developer)
        assert answer.ok, answer.err

    def set_setting(self, variable: str, value: str) -> None:
        """What processes of such a template that start from now on read."""
        settings = {"name": "settings"}
        self.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": settings, "data": {variable: value}})

    def phase(self, *phases: str, timeout: float = 90.0, step: int | None = None) -> Any:
        """Waits until the Rollout is in one of `phases` (and at `step`), and returns its status."""

        def reached() -> Any:
            status = self.status
            seen = (status.get("phase"), status.get("currentStep"))
            there = seen[0] in phases and (step is None or seen[1] == step)
            assert there, f"phase {seen[0]} at step {seen[1]}: {status.get('message')}"
            return status

        return eventually(
            reached,
            timeout,
            f"the Rollout is {' or '.join(phases)}" + ("" if step is None else f" at step {step}"),
        )

    def promoted(self, version: str, timeout: float = 150.0) -> Any:
        """Waits until `version` serves all traffic and the release is over, and returns the status."""

        def over() -> Any:
            status, deployment = self.status, self.deployment
            assert status.get("phase") == "Idle", f"phase {status.get('phase')}: {status.get('message')}"
            assert not deployment["spec"].get("paused"), "the Deployment is paused"
            assert status["observedWorkloadGeneration"] == deployment["metadata"]["generation"]
            serving = {self.version_of(pod) for pod in self.pods()}
            assert serving == {version}, f"pods of {serving} serve"
            return status

        return eventually(over, timeout, f"{version} is promoted")

    def weights(self) -> tuple[int, int]:
        """(stable, canary) of the route's first rule, as they stand."""
        refs = self.get("httproute", "checkout")["spec"]["rules"][0]["backendRefs"]
        return refs[0].get("weight", 1), refs[1].get("weight", 1)

    def ledger(self) -> list[Any]:
        """All entries of the ledger, in order."""
        maps = self.all("configmaps", "gatewright.dev/ledger=checkout")
        texts = {key: text for m in maps for key, text in (m.get("data") or {}).items()}
        return [json.loads(texts[key]) for key in sorted(texts)]

    def kinds(self) -> list[str]:
        """The kinds of the ledger's entries, in order."""
        return [entry["key"]["kind"] for entry in self.ledger()]

    def entries(self, kind: str) -> list[Any]:
        """The ledger's entries of one kind, in order."""
        return [entry for entry in self.ledger() if entry["key"]["kind"] == kind]

    def verify_ledger(self) -> None:
        """The chain holds, no event is recorded twice, and its head is the one that status names."""
        entries = self.ledger()
        keys = [json.dumps(entry["key"], sort_keys=True) for entry in entries]
        assert len(keys) == len(set(keys)), f"an event stands in the ledger twice: {keys}"
        answer = self.gate("ledger", "verify", "checkout")
        assert answer.ok, f"the ledger does not verify: {answer.out}{answer.err}"

    def gate(self, *args: str, who: Path | None = None) -> Answer:
        """`kubectl gate …` as somebody."""
        return gate([*args, "-n", self.namespace], who or self.cluster.kubeconfig)

    def pods(self, labels: str = "app=checkout,!gatewright.dev/rollout") -> list[Any]:
        """Pods that are not on their way out: of the user's own Deployment, unless labels say otherwise."""
        return [p for p in self.all("pods", labels) if "deletionTimestamp" not in p["metadata"]]

    def stable_pods(self) -> set[str]:
        """UIDs of the pods of the user's own Deployment."""
        return {p["metadata"]["uid"] for p in self.pods()}

    def canary_revisions(self) -> list[str]:
        """Revisions of the canary pods that are there now, each once."""
        pods = self.all("pods", "gatewright.dev/rollout=checkout")
        return sorted({p["metadata"]["labels"]["gatewright.dev/revision"] for p in pods})

    @staticmethod
    def version_of(pod: Any) -> str:
        """The version that a pod of the sample service was started as."""
        env = {e["name"]: e.get("value", "") for e in pod["spec"]["containers"][0]["env"]}
        return str(env["VERSION"])

    def spoken_reasons(self) -> set[str]:
        """Every reason that conditions, Events, verdicts and the ledger of this release speak of."""
        spoken = {c["reason"] for c in self.status["conditions"]}
        spoken |= {e["reason"] for e in self.all("events") if e["involvedObject"]["kind"] == "Rollout"}
        for entry in self.ledger():
            body = entry["body"]
            spoken |= {body["reason"]} if "reason" in body else set()
            verdict = body.get("verdict", {})
            spoken |= {one["reason"] for one in (verdict, *verdict.get("checks", ())) if one}
        return spoken

    def clean_at_rest(self) -> None:
        """Nothing of a rollout is left on the user's objects: weights, selectors, marks, canary, finalizer."""

        def at_rest() -> bool:
            assert self.weights() == (100, 0), f"weights {self.weights()}"
            for name in ("checkout", "checkout-canary"):
                found = self.get("service", name)
                assert found["spec"]["selector"] == {"app": "checkout"}, (
                    f"{name}: {found['spec']['selector']}"
                )
                marks = [
                    a for a in found["metadata"].get("annotations", {}) if a.startswith("gatewright.dev/")
                ]
                assert not marks, f"Service {name} still carries {marks}"
            route = self.get("httproute", "checkout")
            assert "gatewright.dev/decision" not in route["metadata"].get("annotations", {}), (
                "the route is marked"
            )
            assert not self.get("deployment", "checkout-canary"), "the canary is still there"
            own = self.get("deployment", "checkout")["metadata"]
            left = {"gatewright.dev/pinned", "gatewright.dev/in-flight"} & own.get("annotations", {}).keys()
            assert not left, f"the Deployment still carries {left}"
            return True

        eventually(at_rest, 30, "the user's objects are as they were")

    @contextmanager
    def traffic(self, rate: float = RATE) -> Iterator["Traffic"]:
        """Requests through the gateway at a fixed rate, for as long as the block lasts."""
        with Traffic(self.cluster.gateway_url, self.host, rate) as running:
            yield running


def gate(args: list[str], kubeconfig: Path) -> Answer:
    """The plugin, as its user runs it."""
    run = subprocess.run(
        [sys.executable, "-m", "gatewright_cli", *args, "--kubeconfig", str(kubeconfig)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env=os.environ | BRIEF | {"KUBECTL": str(kubectl_program()), "NO_COLOR": "1"},
    )
    return Answer(run.returncode == 0, run.stdout, run.stderr)
