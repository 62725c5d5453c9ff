"""Traffic by replicas: canary pods stand beside stable's behind the same Service, and their number makes the share."""

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.releases import GOOD, Release, check, contract, lost
from tests.cluster.sampling import sampled
from tests.cluster.support import Manifest

pytestmark = pytest.mark.timeout(300)

GATE = {"warmup": "3s", "duration": "4s", "maxDuration": "16s", "window": "2s", "interval": "1s"}
STEPS: list[Manifest] = [{"setWeight": 25}, {"gate": GATE}, {"setWeight": 50}, {"gate": GATE}]
REPLICAS = 3


def _create(cluster: Instance, namespace: str) -> Release:
    spec = contract([check(versusStable={"maxRatio": 1.5})])
    return Release.create(
        cluster, namespace, steps=STEPS, contract_spec=spec, replicas=REPLICAS, traffic={"replicas": {}}
    )


def _canaries(shop: Release) -> int:
    return len(shop.pods("gatewright.dev/rollout=checkout"))


def _untouched(shop: Release) -> None:
    """No Service is pinned and no weight is written where the number of pods makes the share."""
    assert shop.weights() == (100, 0)
    assert shop.get("service", "checkout")["spec"]["selector"] == {"app": "checkout"}


def test_the_canarys_share_follows_its_pods_up_to_the_promotion_and_stable_is_never_shrunk(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = _create(cluster, namespace)
    with shop.traffic() as traffic, sampled(lambda: len(shop.pods())) as stable:
        shop.release(**GOOD)
        status = shop.phase("Progressing", step=1)
        assert (_canaries(shop), status["weight"]) == (1, {**status["weight"], "desired": 25, "actual": 25})
        _untouched(shop)
        status = shop.phase("Progressing", step=3)
        assert (_canaries(shop), status["weight"]["actual"]) == (3, 50)
        _untouched(shop)
        shop.promoted("v2")
        report = traffic.report()
    assert min(stable.values) >= REPLICAS - 1, (
        f"stable had fewer pods than a rolling update takes: {stable.values}"
    )
    assert lost(report) == 0, f"requests were lost: {report.statuses} {report.errors}"
    assert {"v1", "v2"} <= report.versions.keys()
    shop.clean_at_rest()
    shop.verify_ledger()


def test_a_bad_version_goes_with_its_pods(cluster: Instance, operator: Operator, namespace: str) -> None:
    shop = _create(cluster, namespace)
    before = shop.stable_pods()
    with shop.traffic() as traffic, sampled(lambda: len(shop.pods())) as stable:
        shop.release(VERSION="v2", ERROR_RATE="0.9")
        status = shop.phase("RolledBack")
        _untouched(shop)
        report = traffic.report()
    assert status["rejected"]["reason"] == "TotalFailure", status["rejected"]
    assert stable.values == [REPLICAS], f"stable was touched: {stable.values}"
    assert shop.stable_pods() == before
    assert _canaries(shop) == 0
    assert lost(report, report.versions["v2"].get("500", 0)) == 0, f"{report.statuses} {report.errors}"
    shop.clean_at_rest()
    shop.verify_ledger()
