"""Memory of the operator at rest, with 0, 1, 20 and 100 Rollouts, and after releases.

python tests/bench/bench_operator_memory.py [--runs N]
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from devcluster import Client, Instance
from devcluster.install import start_operator, wait_until_ready
from tests.bench.figures import Figure, Result, Say, main
from tests.bench.stage import (
    PATIENCE_SECONDS,
    gatewright,
    namespace,
    operator_pid,
    wait_until_promoted,
)
from tests.cluster import checkout
from tests.cluster.releases import Release
from tests.cluster.support import Manifest, eventually

ROLLOUTS = (0, 1, 20, 100)
SETTLED_SECONDS = 10.0
NAMESPACE = "many"
PATHS = {
    "Deployment": "/apis/apps/v1/namespaces/many/deployments",
    "Service": "/api/v1/namespaces/many/services",
    "HTTPRoute": "/apis/gateway.networking.k8s.io/v1/namespaces/many/httproutes",
    "Rollout": "/apis/gatewright.dev/v1alpha1/namespaces/many/rollouts",
    "GateContract": "/apis/gatewright.dev/v1alpha1/namespaces/many/gatecontracts",
}

TEXT = """\
Resident memory (`VmRSS`) of the operator's process, ten seconds after a new one leads and has seen everything. Each Rollout has a Deployment without
pods, two Services and an HTTPRoute of its own, and is at rest; all share one contract. The last row is one operator, at the end of each of several releases of one
more Rollout under real traffic, beside the hundred at rest."""


def measure(runs: int, say: Say) -> Result:
    """Reads the memory of operators at rest, and of one at work."""
    figures = []
    with gatewright(say) as cluster:
        namespace(cluster, NAMESPACE)
        with Client(cluster.kubeconfig) as client:
            client.create(PATHS["GateContract"], checkout.contract())
        there = 0
        for count in ROLLOUTS:
            for number in range(there, count):
                create_rollout(cluster, f"shop-{number}")
            there = count
            wait_until_idle(cluster, count)
            name = "1 Rollout" if count == 1 else f"{count} Rollouts"
            figures.append(Figure(name, "MiB", tuple(at_rest(cluster) for _ in range(runs)), digits=0))
            say(f"{name}: {figures[-1].median:.0f} MiB")
        after = tuple(after_releases(cluster, runs))
        figures.append(Figure(f"{ROLLOUTS[-1]} Rollouts, after a release", "MiB", after, digits=0))
        say(f"after releases: {', '.join(f'{one:.0f}' for one in after)} MiB")
    return Result(title="Memory of the operator", text=TEXT, figures=tuple(figures))


def create_rollout(cluster: Instance, name: str) -> None:
    """A service without pods, and the Rollout that gates it."""
    with Client(cluster.kubeconfig) as client:
        for manifest in manifests(name):
            client.create(PATHS[manifest["kind"]], manifest)


def manifests(name: str) -> list[Manifest]:
    """What `checkout` has, under another name."""
    labels = {"app": name}
    deployment = checkout.deployment(replicas=0)
    deployment["metadata"] |= {"name": name, "labels": labels}
    deployment["spec"]["selector"]["matchLabels"] = labels
    deployment["spec"]["template"]["metadata"]["labels"] = labels
    canary = f"{name}-canary"
    route = checkout.http_route(f"{name}.shop")
    route["metadata"]["name"] = name
    # Not the development cluster's gateway: Envoy takes an inotify instance for each Service, and a user has 128.
    route["spec"]["parentRefs"] = [{"name": "elsewhere"}]
    stable_backend, canary_backend = route["spec"]["rules"][0]["backendRefs"]
    stable_backend["name"], canary_backend["name"] = name, canary
    rollout = checkout.rollout(
        workloadRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        traffic={"gatewayAPI": {"httpRoute": name, "stableService": name, "canaryService": canary}},
    )
    rollout["metadata"]["name"] = name
    services = [checkout.service(service, labels) for service in (name, canary)]
    return [deployment, *services, route, rollout]


def wait_until_idle(cluster: Instance, count: int) -> None:
    """Until all Rollouts are adopted."""
    with Client(cluster.kubeconfig) as client:

        def idle() -> bool:
            found = client.request("GET", PATHS["Rollout"])["items"]
            phases = [(one.get("status") or {}).get("phase") for one in found]
            assert phases.count("Idle") == count, f"{phases.count('Idle')} of {count} are Idle"
            return True

        eventually(idle, PATIENCE_SECONDS, "all Rollouts are at rest", interval=0.5)


def at_rest(cluster: Instance) -> float:
    """Resident memory of a new operator after it has settled, in MiB."""
    operator = start_operator(cluster)
    wait_until_ready(cluster, operator, seconds=PATIENCE_SECONDS)
    # Nothing tells when the interpreter has given back what a start needs for a moment.
    time.sleep(SETTLED_SECONDS)
    return resident_mebibytes(operator.pid)


def after_releases(cluster: Instance, runs: int) -> Iterator[float]:
    """The memory of the operator that runs, at the end of each of `runs` releases."""
    gate = {**checkout.GATE, "maxDuration": "30s"}
    steps: list[Manifest] = [{"setWeight": 50}, {"gate": gate}]
    shop = Release.create(cluster, namespace(cluster, "released"), steps=steps)
    with shop.traffic():
        for number in range(runs):
            before = shop.status
            shop.release(VERSION=f"v{number + 2}")
            wait_until_promoted(shop, before)
            yield resident_mebibytes(operator_pid(cluster))


def resident_mebibytes(pid: int) -> float:
    """What the kernel says of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kibibytes = next(line.split()[1] for line in lines if line.startswith("VmRSS:"))
    return int(kibibytes) / 1024


if __name__ == "__main__":
    raise SystemExit(main(measure, runs=3))
