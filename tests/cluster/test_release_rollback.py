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
    """At the last step a second canary pod joins, and what it reads at its start is bad by then."""
    shop = Release.create(cluster, namespace, steps=TWO_STEPS, replicas=3)
    before = shop.stable_pods()
    with shop.traffic() as traffic:
        shop.release_with_setting("ERROR_RATE", "0" if step == 3 else "0.9")
        shop.phase("Progressing", step=1)
        if step == 3:
            shop.set_setting("ERROR_RATE", "0.9")
        status = shop.phase("RolledBack", timeout=150)
        report = traffic.report()
    assert status["currentStep"] == step, status["message"]
    assert status["weight"] == {"desired": 0, "actual": 0}
    assert shop.stable_pods() == before, "a rollback before promotion touches no stable pod"
    assert lost(report, report.versions["v2"].get("500", 0)) == 0, report
    verdicts = [(e["key"]["step"], e["body"]["verdict"]["decision"]) for e in shop.entries("Verdict")]
    assert verdicts == {1: [("1", "ROLLBACK")], 3: [("1", "PROMOTE"), ("3", "ROLLBACK")]}[step]
    shop.clean_at_rest()
    shop.verify_ledger()


def test_a_canary_whose_containers_crash_again_and_again_goes_back(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    pods = {
        "id": "pods-healthy",
        "oracleKind": "Deterministic",
        "evidence": [{"stages": ["Canary"], "pods": {}}],
    }
    shop = Release.create(cluster, namespace, contract_spec=contract([check(), pods]))
    before = shop.stable_pods()
    with shop.traffic():
        shop.release(VERSION="v2", CRASH_AFTER_SECONDS="3")
        status = shop.phase("RolledBack", timeout=150)
    assert status["rejected"]["reason"] == "PodFailure", status["rejected"]
    assert shop.stable_pods() == before
    shop.clean_at_rest()
    shop.verify_ledger()


def test_a_subtler_failure_is_convicted_against_stable(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    spec = contract([check(versusStable={"maxRatio": 1.25})])
    gate = {"warmup": "3s", "duration": "20s", "maxDuration": "40s", "window": "2s", "interval": "1s"}
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
