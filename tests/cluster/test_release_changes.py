"""The template changes in the middle of a release, or somebody else changes what the release rests on."""

import json
from typing import Any

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.operators import OperatorKeeper
from tests.cluster.releases import (
    DOUBTFUL,
    GOOD,
    LONG,
    LONG_GATE,
    TWO_STEPS,
    Person,
    Release,
    lost,
    rollout,
)
from tests.cluster.sampling import sampled
from tests.cluster.support import eventually

pytestmark = pytest.mark.timeout(300)

BAD = {"VERSION": "v2", "ERROR_RATE": "0.9"}


def test_a_newer_template_in_the_middle_of_a_gate_supersedes_and_is_the_one_promoted(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(cluster, namespace)
    with shop.traffic() as traffic, sampled(shop.canary_revisions) as together:
        shop.release(VERSION="v2")
        older = shop.phase("Progressing", step=1)["canary"]["revision"]
        shop.release(VERSION="v3")
        newer = shop.promoted("v3")["stable"]["revision"]
        report = traffic.report()
    assert newer != older
    assert all(len(revisions) < 2 for revisions in together.values), (
        f"pods of two revisions stood behind the canary Service: {together.values}"
    )
    assert [older] in together.values and [newer] in together.values, (
        "both versions had a canary of their own"
    )
    assert lost(report) == 0, f"requests were lost: {report.statuses} {report.errors}"
    [unfinished] = [r for r in shop.all("gateruns") if r["spec"]["revision"] == older]
    assert "verdict" not in unfinished.get("status", {}), (
        "the version that was superseded still got its verdict"
    )
    assert shop.entries("Back")[0]["body"]["reason"] == "Superseded"
    assert [e["key"]["revision"] for e in shop.entries("Promoted")] == [newer]
    shop.clean_at_rest()
    shop.verify_ledger()


def test_what_was_approved_for_the_version_before_counts_for_nothing(
    cluster: Instance, operators: OperatorKeeper, namespace: str, as_user: Person
) -> None:
    """The approval is written while the operator is down, and the next version comes before it is back."""
    reviewer = as_user("reviewer-a", roles=("gatewright-reviewer",))
    shop = Release.create(cluster, namespace)
    with shop.traffic():
        shop.release(**DOUBTFUL)
        older = shop.phase("Held")["canary"]["revision"]
        operators.kill()
        approval = shop.review("Approve", who=reviewer)
        assert approval.ok, approval.err
        shop.release(VERSION="v3", ERROR_RATE=DOUBTFUL["ERROR_RATE"])
        operators.ensure()

        def newer_is_held() -> bool:
            status = shop.phase("Held", timeout=1.0)
            return bool(status["canary"]["revision"] != older)

        eventually(newer_is_held, 120, "the newer version is held for its own evidence")
        answer = shop.get("gatereviews", approval.json["metadata"]["name"])["status"]
        assert answer["outcome"] == "Refused", f"the approval of the version before was taken: {answer}"
        late = shop.review("Approve", who=reviewer, revision=older)
        assert not late.ok, "an approval of the version before was accepted for the one that is held"
    assert not shop.entries("Promoted"), "nobody has approved what is held now"
    shop.verify_ledger()


@pytest.mark.parametrize("where", ["gate", "hold"])
def test_a_template_taken_back_releases_the_guard_and_touches_no_stable_pod(
    cluster: Instance, operator: Operator, namespace: str, where: str
) -> None:
    shop = Release.create(cluster, namespace, steps=LONG if where == "gate" else None)
    before = shop.stable_pods()
    with shop.traffic() as traffic:
        if where == "gate":
            shop.release(**GOOD)
            shop.phase("Progressing", step=1)
        else:
            shop.release(**DOUBTFUL)
            shop.phase("Held")
        shop.release(VERSION="v1", ERROR_RATE="0")
        shop.phase("Idle")
        shop.clean_at_rest()
        report = traffic.report()
    assert lost(report, report.versions["v2"].get("500", 0)) == 0, report
    assert shop.stable_pods() == before, "a revert must not touch a pod of stable"
    # Idle is reported first; the write that releases the guard is the next.
    eventually(lambda: not shop.deployment["spec"].get("paused", False), 30, "the guard is released")
    [back] = shop.entries("Back")
    assert back["body"]["reason"] == "Reverted"
    shop.verify_ledger()


def test_a_refused_version_is_tried_again_only_when_somebody_orders_it(
    cluster: Instance, operators: OperatorKeeper, namespace: str
) -> None:
    shop = Release.create(cluster, namespace)
    with shop.traffic():
        shop.release(**BAD)
        refused = shop.phase("RolledBack")["rejected"]["revision"]
        # Neither a write to the Deployment, nor a start of the operator.
        assert shop.kubectl("annotate", "deployment", "checkout", "example.com/touched=yes").ok
        operators.kill()
        operators.ensure()
        abort = shop.order("Abort", revision=refused)
        assert abort.ok, abort.err
        answer = shop.answer("gateorders", abort)
        assert answer["outcome"] == "Refused", answer
        assert shop.status["phase"] == "RolledBack"
        assert not shop.get("deployment", "checkout-canary"), "the refused version was started again"
        retry = shop.order("Retry", revision=refused)
        assert retry.ok, retry.err
        eventually(lambda: shop.status.get("attempt") == 2, 30, "the second attempt has begun")
        assert shop.answer("gateorders", retry)["outcome"] == "Accepted"
        status = shop.phase("RolledBack")
    assert status["rejected"]["revision"] == refused
    assert [e["key"]["attempt"] for e in shop.entries("Started")] == [1, 2]
    shop.clean_at_rest()
    shop.verify_ledger()


def test_a_template_change_while_the_operator_is_down_goes_nowhere_until_it_is_back(
    cluster: Instance, operators: OperatorKeeper, namespace: str
) -> None:
    shop = Release.create(cluster, namespace)
    before = shop.stable_pods()
    operators.stop()
    with shop.traffic() as traffic:
        shop.release(**GOOD)
        deployment = shop.deployment
        assert deployment["spec"]["paused"] is True, "the API server itself holds a new template"
        assert deployment["metadata"]["annotations"]["gatewright.dev/changed-by"] == "developer-a"
        eventually(
            lambda: shop.deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"],
            30,
            "the Deployment's controller has seen the new template",
        )
        assert len(shop.all("replicasets")) == 1, "a held template makes no ReplicaSet"
        assert shop.stable_pods() == before
        assert shop.weights() == (100, 0)
        assert traffic.report().versions.keys() <= {"v1"}, "the new version was served without a verdict"
        operators.start()
        status = shop.promoted("v2")
        report = traffic.report()
    assert lost(report) == 0, f"requests were lost: {report.statuses} {report.errors}"
    assert shop.entries("Started")[0]["body"]["canary"]["initiator"] == "developer-a"
    assert status["stable"]["revision"] == shop.entries("Promoted")[0]["key"]["revision"]
    shop.verify_ledger()


def test_of_two_rollouts_for_one_deployment_the_older_one_gates_it(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(cluster, namespace)
    second = rollout()
    second["metadata"]["name"] = "checkout-too"
    shop.apply(second)

    def refused() -> bool:
        status = shop.get("rollouts", "checkout-too").get("status", {})
        stalled: Any = next((c for c in status.get("conditions", ()) if c["type"] == "Stalled"), {})
        assert stalled.get("reason") == "WorkloadClaimed", f"conditions: {status.get('conditions')}"
        return bool(stalled["status"] == "True" and "Rollout checkout is older" in stalled["message"])

    eventually(refused, 30, "the second Rollout says whose the Deployment is")
    with shop.traffic():
        shop.release(**GOOD)
        shop.promoted("v2")
    assert refused(), "the second Rollout took part"
    assert not [r for r in shop.all("gateruns") if r["spec"]["rollout"] == "checkout-too"]
    shop.verify_ledger()


def _write_weights(shop: Release, stable: int, canary: int) -> None:
    """As a tool that does not know of the release would."""
    rules = shop.get("httproute", "checkout")["spec"]["rules"]
    rules[0]["backendRefs"][0]["weight"], rules[0]["backendRefs"][1]["weight"] = stable, canary
    patch = json.dumps({"spec": {"rules": rules}})
    answer = shop.kubectl(
        "patch", "httproute", "checkout", "--type=merge", "-p", patch, "--field-manager=other-tool"
    )
    assert answer.ok, answer.err


def test_a_weight_that_another_writer_raised_comes_down_and_the_release_is_held_with_the_writers_name(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(cluster, namespace, steps=[{"setWeight": 25}, {"gate": LONG_GATE}])
    with shop.traffic():
        shop.release(**GOOD)
        shop.phase("Progressing", step=1)
        _write_weights(shop, 10, 90)
        status = shop.phase("Held")
    assert status["hold"]["reason"] == "RouteContested"
    assert "other-tool changed the canary's weight, to 90" in status["hold"]["message"]
    assert shop.weights() == (75, 25)
    assert status["weight"]["desired"] == 25


def test_a_weight_that_another_writer_lowered_stays_down_until_a_person_says_go_on(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(cluster, namespace)
    with shop.traffic():
        shop.release(**GOOD)
        shop.phase("Progressing", step=1)
        with sampled(lambda: shop.weights()[1]) as canary:
            _write_weights(shop, 90, 10)
            status = shop.phase("Held")
            assert status["hold"]["reason"] == "RouteContested"
        lowered = canary.values[canary.values.index(10) :]
        assert max(lowered) <= 10, f"the canary's weight rose again by itself: {canary.values}"
        assert shop.order("Retry").ok
        shop.promoted("v2")
    assert [e["key"]["attempt"] for e in shop.entries("WeightSet")] == [1, 2]
    shop.verify_ledger()


def test_a_pin_that_another_writer_took_off_costs_the_canary_its_traffic(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(cluster, namespace, steps=[TWO_STEPS[0], {"gate": LONG_GATE}])
    with shop.traffic():
        shop.release(**GOOD)
        shop.phase("Progressing", step=1)
        patch = json.dumps({"spec": {"selector": {"app": "checkout", "pod-template-hash": None}}})
        answer = shop.kubectl(
            "patch", "service", "checkout", "--type=merge", "-p", patch, "--field-manager=other-tool"
        )
        assert answer.ok, answer.err
        status = shop.phase("Held")
    assert status["hold"]["reason"] == "RouteContested"
    assert "other-tool changed the selector of the stable Service" in status["hold"]["message"]
    assert shop.weights() == (100, 0)
    pinned = shop.get("service", "checkout")["spec"]["selector"]
    assert pinned.keys() == {"app", "pod-template-hash"}, f"the pin was not put back: {pinned}"
