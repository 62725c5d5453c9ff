"""The stage of the benchmarks: a development cluster of their own with Gatewright in it, and a service."""

from collections.abc import Iterator
from contextlib import contextmanager

from devcluster import Instance
from devcluster.install import OPERATOR, install
from tests.bench.figures import Say
from tests.cluster.releases import Release
from tests.cluster.support import Manifest, eventually, rest, wait_for_policies

PATIENCE_SECONDS = 300.0
"""For what has to happen sometime: a benchmark measures slowness, it does not fail by it."""


@contextmanager
def gatewright(say: Say, *, scrape_interval_seconds: float = 1.0) -> Iterator[Instance]:
    """A fresh cluster with all its parts, the chart, and an operator that leads."""
    say("starting a development cluster")
    with Instance(scrape_interval_seconds=scrape_interval_seconds, report=say) as cluster:
        install(cluster, report=say)
        wait_for_policies(cluster.kubeconfig)
        yield cluster


def namespace(cluster: Instance, name: str) -> str:
    """A new namespace."""
    rest(cluster.kubeconfig, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return name


def operator_pid(cluster: Instance) -> int:
    """The process that runs as the cluster's operator."""
    return cluster.status()[OPERATOR].pid


def wait_until_promoted(shop: Release, before: Manifest) -> None:
    """Until the Rollout is idle again on another stable version than in the status `before`."""

    def promoted() -> bool:
        status = shop.status
        phase = status.get("phase")
        if phase in ("Held", "RolledBack"):
            raise RuntimeError(f"the good version was not promoted but is {phase}: {status.get('message')}")
        assert phase == "Idle", f"phase {phase} at step {status.get('currentStep')}"
        return bool(status["stable"]["revision"] != before["stable"]["revision"])

    eventually(promoted, PATIENCE_SECONDS, "the new version is promoted")
