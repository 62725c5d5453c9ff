"""Puts Gatewright into a development cluster: the chart by Helm, the two metric sources, and the operator.

The operator runs as a process of the cluster instead of a pod, with the token of the very service account
that it would have as a pod: the admission policies and RBAC see no difference.
"""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devcluster.bootstrap import request_token
from devcluster.cache import Report
from devcluster.client import ApiRefused, Client
from devcluster.errors import DevclusterError
from devcluster.parts import GATEWAY, PROMETHEUS
from devcluster.ports import free_ports
from devcluster.startup import answers, log_tail
from devcluster.supervision import REPOSITORY

if TYPE_CHECKING:
    from devcluster.instance import Instance

NAMESPACE = "gatewright-system"
SERVICE_ACCOUNT = "gatewright"
RELEASE = "gatewright"
CHART = REPOSITORY / "charts" / "gatewright"
OPERATOR = "operator"
"""The operator's name among the cluster's parts."""

_SERVED_SECONDS = 30.0


def install(instance: "Instance", *, operator: bool = True, report: Report) -> None:
    """Installs the chart and the metric sources, and runs the operator; may be repeated after any change.

    Args:
        instance: The cluster, which must be running.
        operator: Whether the operator is started (anew, if it runs already).
        report: Gets a line for each step.

    Raises:
        DevclusterError: Helm refused, or the operator did not come up; the message holds their own words.
    """
    report("Installing the chart by Helm.")
    _helm(instance)
    with Client(instance.kubeconfig) as client:
        for source in metric_sources(instance):
            _apply_when_served(client, source)
        if operator:
            # Asked for here, so that a missing service account is told as what it is.
            request_token(client, NAMESPACE, SERVICE_ACCOUNT, 600)
            report("Starting the operator.")
            wait_until_ready(instance, start_operator(instance))


def _helm(instance: "Instance") -> None:
    command: list[str | Path] = [
        *(instance.program("helm"), "upgrade", "--install", RELEASE, CHART),
        *("--kubeconfig", instance.kubeconfig, "--namespace", NAMESPACE, "--create-namespace"),
        *("--set", "operator.enabled=false"),
    ]
    # Helm keeps caches and plugins in the user's folders; a cluster of its own must not read or change them.
    home = {
        f"HELM_{name}_HOME": str(instance.dir / "helm" / name.lower()) for name in ("CACHE", "CONFIG", "DATA")
    }
    result = subprocess.run(command, env=os.environ | home, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise DevclusterError(f"Helm could not install the chart: {(result.stderr or result.stdout).strip()}")


def metric_sources(instance: "Instance") -> list[dict[str, Any]]:
    """The MetricSources of a cluster: ``prometheus``, the pods' own numbers; ``gateway``, Envoy's.

    A source is there only if the cluster runs what it asks.
    """
    sources = []
    if PROMETHEUS in instance.parts:
        sources.append(_source(instance, "prometheus", by="PodName", label="pod", producer="Workload"))
        if GATEWAY in instance.parts:
            sources.append(_source(instance, "gateway", by="Service", label="service", producer="Platform"))
    return sources


def _source(instance: "Instance", name: str, *, by: str, label: str, producer: str) -> dict[str, Any]:
    return {
        "apiVersion": "gatewright.dev/v1alpha1",
        "kind": "MetricSource",
        "metadata": {"name": name},
        "spec": {
            "address": instance.prometheus_url,
            "scrapeInterval": f"{round(instance.scrape_interval_seconds * 1000)}ms",
            "arms": {"by": by, "label": label, "namespaceLabel": "namespace"},
            "producer": producer,
        },
    }


def _apply_when_served(client: Client, source: dict[str, Any]) -> None:
    """A kind is served a moment after its definition was created, and known to mutating policies (503) after another."""
    path = f"/apis/{source['apiVersion']}/metricsources/{source['metadata']['name']}"
    deadline = time.monotonic() + _SERVED_SECONDS
    while True:
        try:
            client.apply(path, source)
        except ApiRefused as error:
            if error.status not in (404, 503) or time.monotonic() > deadline:
                raise DevclusterError(
                    f"The API server refused MetricSource {source['metadata']['name']}: {error}"
                ) from error
            time.sleep(0.05)
        else:
            return


@dataclass(frozen=True)
class Operator:
    """An operator that runs as part ``name``; ``url`` serves ``/healthz``, ``/readyz`` and ``/metrics``.

    ``identity`` begins the holder's name in its Lease, and no other process's.
    """

    name: str
    identity: str
    pid: int
    url: str


def start_operator(
    instance: "Instance",
    *,
    name: str = OPERATOR,
    kubeconfig: Path | None = None,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Operator:
    """Runs an operator as part ``name`` of the cluster; one that runs under that name is ended first.

    It returns at once; :func:`wait_until_ready` waits until it leads and has seen everything.

    Args:
        instance: The cluster, with the chart installed.
        name: Its name among the parts; with a second name, two operators run at once.
        kubeconfig: As whom it acts; None: as the chart's service account, with a fresh token.
        args: Further arguments of the operator.
        env: Further environment variables.
    """
    running = instance.status().get(name)
    if running is not None and running.running:
        instance.kill_part(name, signal.SIGTERM, wait_seconds=30.0)
    credentials = kubeconfig or instance.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    argv: list[str | Path] = [
        *(sys.executable, "-m", "gatewright_operator", "--kubeconfig", credentials, "--listen", listen),
        *args,
    ]
    # As in the chart: numpy would start one thread per core, each with its own memory.
    identity = f"{name}-{secrets.token_hex(3)}"
    environment = {
        "POD_NAMESPACE": NAMESPACE,
        "POD_NAME": identity,
        "OPENBLAS_NUM_THREADS": "1",
        **(env or {}),
    }
    # Long enough for the operator to end the reconciles that it has begun.
    pid = instance.start_part(name, argv, environment, stop_seconds=20.0)
    return Operator(name, identity, pid, f"http://{listen}")


def wait_until_ready(instance: "Instance", operator: Operator, *, seconds: float = 120.0) -> None:
    """Returns when the operator holds its Lease and has seen every object that it watches.

    Raises:
        DevclusterError: it stopped, or was not ready in time; the message holds its last output.
    """
    deadline = time.monotonic() + seconds
    while not (answers(f"{operator.url}/readyz") and _leads(instance, operator)):
        part = instance.status()[operator.name]
        log = log_tail(instance.log_path(operator.name))
        if not part.running:
            raise DevclusterError(f"The operator stopped (exit code {part.exit_code}). Its output:\n{log}")
        if time.monotonic() > deadline:
            raise DevclusterError(f"The operator is not ready after {seconds:.0f} s. Its output:\n{log}")
        time.sleep(0.05)


def _leads(instance: "Instance", operator: Operator) -> bool:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    with Client(instance.kubeconfig) as client:
        leases = client.request("GET", path)["items"]
    # The operator adds a suffix of its own making.
    return any((lease["spec"].get("holderIdentity") or "").startswith(operator.identity) for lease in leases)
