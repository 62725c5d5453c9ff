"""A bad version: traffic goes home, quickly, and the refused template stays where it is."""

import time

import pytest

from devcluster import Instance
from devcluster.install import Operator
from gatewright_analysis.reasons import Reason
from tests.cluster.releases import TWO_STEPS, Release, check, contract, lost
from tests.cluster.support import eventually

pytestmark = pytest.mark.timeout(300)


def test_a_version_that_fails_most_requests_goes_at_once(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(cluster, namespace)
    before = shop.stable_pods()
    with shop.traffic() as traffic:
        shop.release(VERSION="v2", ERROR_RATE="0.9")
        status = shop.phase("RolledBack")
        report = traffic.report()
    assert status["rejected"]["reason"] == "TotalFailure", status["rejected"]
    assert shop.stable_pods() == before, "a rollback before promotion touches no stable pod"
    assert report.versions["v1"].keys() == {"200"}, "every failure came from the bad version"
    assert lost(report, report.versions["v2"].get("500", 0)) == 0, report
    shop.clean_at_rest()
    own = shop.get("deployment", "checkout")
    assert own["spec"]["paused"] is True, "the refused template stays, held"
    unknown = shop.spoken_reasons() - {reason.value for reason in Reason}
    assert not unknown, f"these words are not reasons of docs/reference/reasons.md: {unknown}"
    shop.verify_ledger()


@pytest.mark.parametrize("step", [1, 3])
def test_a_breach_at_any_step_goes_back_to_stable(
    cluster: Instance, operator: Operator, namespace: str, step: int
) -> None:
    """The version turns bad when its gate has begun: at the first step or the last."""
    spec = contract(
        [check(), check("pods-healthy", limit=None, evidence=[{"stages": ["Canary"], "pods": {}}])]
    )
    for one in spec["spec"]["checks"]:
        if one["limit"] is None:
            del one["limit"]
    shop = Release.create(cluster, namespace, steps=TWO_STEPS, contract_spec=spec)
    with shop.traffic():
        shop.release(VERSION="v2", CRASH_AFTER_SECONDS="2" if step == 1 else "14")
        status = shop.phase("RolledBack", timeout=150)
    assert status["weight"] == {"desired": 0, "actual": 0}
    shop.clean_at_rest()
    shop.verify_ledger()


def test_a_subtler_failure_is_convicted_against_stable(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    spec = contract([check(versusStable={"maxRatio": 1.25})])
    gate = {"warmup": "1s", "duration": "20s", "maxDuration": "40s", "window": "2s", "interval": "1s"}
    shop = Release.create(
        cluster,
        namespace,
        steps=[{"setWeight": 50}, {"gate": gate}],
        contract_spec=spec,
        env={"ERROR_RATE": "0.01"},
    )
    with shop.traffic(rate=300):
        shop.release(VERSION="v2", ERROR_RATE="0.15")
        status = shop.phase("RolledBack")
    assert status["rejected"]["reason"] in ("BreachTwoArm", "BreachAbsolute"), status["rejected"]
    verdict = next(e["body"]["verdict"] for e in reversed(shop.ledger()) if e["key"]["kind"] == "Verdict")
    assert verdict["decision"] == "ROLLBACK"
    assert verdict["checks"][0]["breach"] is True


def test_a_check_that_may_only_hold_never_rolls_back(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(cluster, namespace, contract_spec=contract([check(onBreach="Hold")]))
    with shop.traffic():
        shop.release(VERSION="v2", ERROR_RATE="0.9")
        status = shop.phase("Held", "RolledBack")
    assert status["phase"] == "Held"
    assert status["hold"]["breach"] is True


def test_a_canary_that_can_not_start_takes_no_traffic_and_no_stable_pod(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(cluster, namespace, progressDeadline="8s")
    before = shop.stable_pods()
    answer = shop.kubectl("set", "image", "deployment/checkout", "app=shop/missing:v2", who=shop.developer)
    assert answer.ok, answer.err
    status = shop.phase("Held")
    assert status["hold"]["reason"] == "ProgressDeadlineExceeded"
    assert shop.weights() == (100, 0)
    assert shop.stable_pods() == before
    eventually(
        lambda: shop.get("deployment", "checkout-canary")["spec"]["replicas"] == 0,
        10,
        "the canary is scaled to 0",
    )


def test_traffic_is_home_soon_after_the_verdict(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(cluster, namespace)
    with shop.traffic():
        shop.release(VERSION="v2", ERROR_RATE="0.9")
        shop.phase("Progressing", step=1)
        began = time.monotonic()
        eventually(lambda: shop.weights() == (100, 0), 60, "the route is back on stable", interval=0.2)
        assert time.monotonic() - began < 30, "a total failure was left running"
        shop.phase("RolledBack")
