"""Time in a HOLD, with the real operator: it calls louder, it ends, it stands still, and people are heard before it acts."""

from datetime import UTC, datetime

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.metric_sources import metric_source, outage
from tests.cluster.operators import OperatorKeeper
from tests.cluster.releases import DOUBTFUL, Person, Release, check, contract
from tests.cluster.support import Manifest, eventually

pytestmark = pytest.mark.timeout(300)

BAD = {"VERSION": "v2", "ERROR_RATE": "0.9"}
"""A breach; the checks below may only hold for it."""


def _held(cluster: Instance, namespace: str, spec: Manifest, **env: str) -> Release:
    shop = Release.create(cluster, namespace, contract_spec=spec)
    with shop.traffic():
        shop.release(**(env or DOUBTFUL))
        shop.phase("Held")
    return shop


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _bad_held(cluster: Instance, namespace: str, **hold: str) -> Release:
    spec = contract([check(onBreach="Hold")], hold=hold)
    shop = _held(cluster, namespace, spec, **BAD)
    assert shop.status["hold"]["breach"] is True
    return shop


def test_it_escalates_by_itself_once_and_after_its_end_stays_held_until_somebody_decides(
    cluster: Instance, operator: Operator, namespace: str, as_user: Person
) -> None:
    spec = contract(hold={"escalateAfter": "3s", "timeout": "6s"})
    shop = _held(cluster, namespace, spec)
    status = eventually(
        lambda: "beyond its deadline" in shop.status["message"] and shop.status, 60, "it times out"
    )
    hold = status["hold"]
    assert status["phase"] == "Held"
    assert _moment(hold["escalateAt"]) <= _moment(hold["escalatedAt"]) <= _moment(hold["deadline"])
    assert status["escalation"]["openedAt"] == hold["escalatedAt"]
    [condition] = [c for c in status["conditions"] if c["type"] == "Held"]
    assert condition["reason"] == "Escalated"
    [entry] = shop.entries("Escalated")
    assert entry["key"]["cause"] == hold["evidenceDigest"]
    events = eventually(
        lambda: [e for e in shop.all("events") if e["reason"] == "Escalated"], 30, "an Event says so"
    )
    assert {(e["type"], e["count"] if e.get("count") else 1) for e in events} == {("Warning", 1)}
    shown = shop.gate("status", "checkout")
    assert "somebody has to decide" in shown.out, shown.out
    reviewer = as_user("reviewer-a", roles=("gatewright-reviewer",))
    answer = shop.review("Approve", who=reviewer)
    assert answer.ok, answer.err
    status = shop.phase("Idle")
    assert "reviewer-a approved" in status["escalation"]["resolution"]
    shop.verify_ledger()


def test_a_person_escalates_by_the_plugin_and_only_once(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = _held(cluster, namespace, contract())
    assert "escalates in 14m" in shop.gate("status", "checkout").out
    first = shop.gate("escalate", "checkout", "--reason", "these errors are not mine to judge", "--yes")
    assert first.ok, first.err
    assert "these errors are not mine to judge" in first.out
    at = shop.status["hold"]["escalatedAt"]
    again = shop.gate("escalate", "checkout", "--reason", "is anybody still awake?", "--yes")
    assert not again.ok
    assert "It was escalated already" in again.err
    assert shop.status["hold"]["escalatedAt"] == at
    assert [e["body"]["spec"]["order"] for e in shop.entries("Order")] == ["Escalate"]
    assert len(shop.entries("Escalated")) == 1
    assert shop.status["phase"] == "Held"


def test_a_time_out_reverts_what_is_proven_bad_where_the_contract_says_so(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = _bad_held(cluster, namespace, timeout="4s", onTimeout="Rollback")
    status = shop.phase("RolledBack")
    assert status["rejected"]["reason"] == "HoldTimedOut"
    shop.clean_at_rest()
    shop.verify_ledger()


def test_the_clock_stands_still_while_prometheus_is_away(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    one = check()
    one["evidence"][0]["counts"]["source"] = namespace
    with (
        outage(cluster.prometheus_url) as between,
        metric_source(cluster, namespace, address=between.address),
    ):
        shop = _held(cluster, namespace, contract([one]))
        before = shop.status["hold"]
        between.down()
        stopped = eventually(
            lambda: "clockStoppedSince" in shop.status["hold"] and shop.status, 60, "the clock stops"
        )
        assert stopped["hold"]["clockStoppedBy"] == f"{namespace} (SourceUnreachable)"
        assert "The wait does not count since" in stopped["message"]
        shown = shop.gate("status", "checkout")
        assert "clock stopped since" in shown.out, shown.out
        between.up()
        going = eventually(
            lambda: "clockStoppedSince" not in shop.status["hold"] and shop.status, 90, "the clock goes on"
        )
    spent = {_moment(going["hold"][key]) - _moment(before[key]) for key in ("deadline", "escalateAt")}
    since = _moment(stopped["hold"]["clockStoppedSince"])
    [moved] = spent
    assert moved.total_seconds() > 0
    assert since + moved <= datetime.now(UTC)
    assert not [e for e in shop.all("events") if "does not count" in e["message"]], "each Rollout reports it"


def test_an_approval_that_was_written_while_the_operator_was_down_is_heard_before_the_time_out_acts(
    cluster: Instance, operators: OperatorKeeper, namespace: str, as_user: Person
) -> None:
    shop = _bad_held(cluster, namespace, timeout="25s", onTimeout="Rollback")
    reviewer = as_user("reviewer-a", roles=("gatewright-reviewer",))
    deadline = _moment(shop.status["hold"]["deadline"])
    operators.stop()
    answer = shop.review("Approve", who=reviewer)
    assert answer.ok, answer.err
    assert _moment(answer.json["metadata"]["creationTimestamp"]) < deadline, (
        "the machine was too slow for this test"
    )
    eventually(lambda: datetime.now(UTC) > deadline, 60, "the wait is over")
    operators.ensure()
    shop.phase("Idle")
    assert "Back" not in shop.kinds()
    assert shop.answer("gatereviews.gatewright.dev", answer)["outcome"] == "Accepted"


def test_checks_go_on_after_the_wait_is_over_and_under_another_operator(
    cluster: Instance, operators: OperatorKeeper, namespace: str
) -> None:
    shop = Release.create(cluster, namespace, contract_spec=contract(hold={"timeout": "3s"}))
    with shop.traffic():
        shop.release_with_setting("ERROR_RATE", DOUBTFUL["ERROR_RATE"])
        shop.phase("Held")
        eventually(lambda: "beyond its deadline" in shop.status["message"], 60, "it times out")
        held = shop.status["hold"]
        operators.kill()
        operators.ensure()
        assert shop.status["hold"] == held, "a restart changes nothing about a hold"
        shop.set_setting("ERROR_RATE", "0.9")
        answer = shop.kubectl("delete", "pods", "-l", "gatewright.dev/rollout=checkout", "--wait=false")
        assert answer.ok, answer.err
        status = shop.phase("RolledBack", timeout=120)
    assert status["rejected"]["reason"] in ("TotalFailure", "BreachAbsolute", "BreachTwoArm")
    assert [
        e["key"]["kind"] for e in shop.ledger() if e["key"]["kind"] in ("Escalated", "Breach", "Back")
    ] == [
        "Escalated",
        "Breach",
        "Back",
    ]
    shop.verify_ledger()
