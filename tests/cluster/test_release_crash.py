"""The operator dies, or stands still: whoever takes over comes to the same end, and nothing happens twice."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import pytest

from devcluster import Instance
from tests.cluster.denial import deployment_denied, ledger_denied
from tests.cluster.operators import OperatorKeeper
from tests.cluster.releases import GOOD, TWO_STEPS, Release, lost
from tests.cluster.sampling import sampled
from tests.cluster.support import Manifest, eventually

pytestmark = pytest.mark.timeout(400)

SLOW_TO_START = {"VERSION": "v2", "START_DELAY_SECONDS": "4"}
GATE: Manifest = {"warmup": "3s", "duration": "10s", "maxDuration": "14s", "window": "2s", "interval": "1s"}
"""Long enough for a denial to be in force before the verdict."""


def _canary_scales(shop: Release) -> bool:
    canary = shop.get("deployment", "checkout-canary")
    return bool(canary and canary["spec"]["replicas"] > 0 and not canary["status"].get("readyReplicas"))


def _gate_runs(shop: Release) -> bool:
    status = shop.status
    return bool(status.get("phase") == "Progressing" and status.get("currentStep") == 1 and status.get("run"))


def _judged(shop: Release) -> bool:
    return any((run.get("status") or {}).get("verdict") for run in shop.all("gateruns"))


def _rolls(shop: Release) -> bool:
    """The user's Deployment has pods of both versions."""
    versions = {shop.version_of(pod) for pod in shop.pods()}
    return "gatewright.dev/in-flight" in shop.deployment["metadata"]["annotations"] and versions == {
        "v1",
        "v2",
    }


@dataclass(frozen=True)
class Point:
    """A point of a release: how the world looks there, and what the operator is kept from doing next."""

    reached: Callable[[Release], object]
    env: dict[str, str]
    denial: Callable[[Release], AbstractContextManager[None]] | None = None
    """Where two writes follow each other too fast to be seen apart, the second is refused until the operator is dead."""
    denied_from_gate: bool = False
    """The denial begins when the gate runs; else before the new template is written."""


POINTS = {
    "when-the-start-is-recorded": Point(lambda shop: shop.entries("Started"), GOOD, deployment_denied),
    "when-the-canary-scales": Point(_canary_scales, SLOW_TO_START),
    "when-the-gate-runs": Point(_gate_runs, GOOD),
    "when-the-verdict-is-given": Point(_judged, GOOD, ledger_denied, denied_from_gate=True),
    "when-the-promotion-is-recorded": Point(
        lambda shop: shop.entries("Promoted"), GOOD, deployment_denied, denied_from_gate=True
    ),
    "when-the-native-rolling-update-runs": Point(_rolls, SLOW_TO_START),
}


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS.keys())
def test_an_operator_that_is_killed_and_started_again_comes_to_the_same_end(
    cluster: Instance, operators: OperatorKeeper, namespace: str, point: Point
) -> None:
    shop = Release.create(cluster, namespace, steps=[{"setWeight": 50}, {"gate": GATE}])
    with shop.traffic() as traffic:
        if point.denied_from_gate:
            shop.release(**point.env)
            eventually(lambda: _gate_runs(shop), 60, "the gate runs", interval=0.05)
        with nullcontext() if point.denial is None else point.denial(shop):
            if not point.denied_from_gate:
                shop.release(**point.env)
            eventually(lambda: point.reached(shop), 90, "the operator is where it is to die", interval=0.05)
            operators.kill()
        operators.start()
        shop.promoted("v2")
        shop.clean_at_rest()
        report = traffic.report()
    assert lost(report) == 0, f"requests were lost: {report.statuses} {report.errors}"
    assert shop.kinds() == [
        *("Adopted", "Contract", "Started", "WeightSet", "Verdict", "Promoted", "Completed"),
    ], "an event is missing from the ledger, or stands there twice"
    shop.verify_ledger()


def test_an_operator_killed_on_the_way_back_is_followed_by_one_that_brings_all_traffic_home(
    cluster: Instance, operators: OperatorKeeper, namespace: str
) -> None:
    shop = Release.create(cluster, namespace)
    before = shop.stable_pods()
    with shop.traffic() as traffic:
        shop.release(VERSION="v2", ERROR_RATE="0.9")
        shop.phase("RollingBack")
        operators.kill()
        operators.start()
        shop.phase("RolledBack")
        report = traffic.report()
    assert lost(report, report.versions["v2"].get("500", 0)) == 0, report
    assert shop.stable_pods() == before
    assert len(shop.entries("Back")) == len(shop.entries("RolledBack")) == 1
    shop.clean_at_rest()
    shop.verify_ledger()


def test_a_frozen_operator_that_wakes_after_another_rolled_back_moves_nothing_up_again(
    cluster: Instance, operators: OperatorKeeper, namespace: str
) -> None:
    """It sleeps in the first gate of a good version: what it saw would have raised the weight."""
    shop = Release.create(cluster, namespace, steps=[TWO_STEPS[0], {"gate": GATE}, *TWO_STEPS[2:]])
    with operators.second() as second, shop.traffic() as traffic:
        shop.release(**GOOD)
        eventually(lambda: _gate_runs(shop), 60, "the gate runs")
        operators.freeze()
        assert shop.order("Abort").ok
        second.wait_until_leading()
        status = shop.phase("RolledBack")
        assert status["rejected"]["reason"] == "Aborted"
        shop.clean_at_rest()
        before = shop.deployment["metadata"]["annotations"]["gatewright.dev/decision"]
        with sampled(lambda: (shop.weights(), bool(shop.get("deployment", "checkout-canary")))) as seen:
            operators.wake()
            eventually(operators.has_given_up, 60, "the one that wakes knows that it leads no more")
            # What it had in hand is refused or given up by now; the one that leads has the last word.
            touched = shop.kubectl("annotate", "deployment", "checkout", "example.com/touched=yes")
            assert touched.ok, touched.err
            abort = shop.order("Abort", revision=status["rejected"]["revision"])
            assert shop.answer("gateorders", abort)["outcome"] == "Refused"
        report = traffic.report()
    assert seen.values == [((100, 0), False)], f"weights, and whether there is a canary: {seen.values}"
    assert shop.deployment["metadata"]["annotations"]["gatewright.dev/decision"] == before
    assert shop.status["phase"] == "RolledBack"
    assert lost(report) == 0, f"requests were lost: {report.statuses} {report.errors}"
    assert not shop.entries("Promoted")
    shop.verify_ledger()
