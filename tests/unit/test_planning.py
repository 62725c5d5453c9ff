"""What a plan says of a contract: samples, power, minutes, and what can't be done within the gates."""

import json
from typing import Any

import pytest

from gatewright_analysis.planning.model import Plan
from gatewright_analysis.planning.plan import plan_contract
from gatewright_analysis.planning.problems import length, minutes_to_breach
from gatewright_analysis.statistics.plan import power_at
from gatewright_analysis.task import Terms
from tests.judging import sampled
from tests.unit.test_feasibility import check, contract, rollout


def said(found: Plan) -> str:
    return "\n".join(problem.sentence for problem in found.problems)


def test_without_a_rollout_there_are_samples_and_power_only() -> None:
    found = plan_contract(contract(check(), sampled()))
    [gate] = found.gates
    http, judged = gate.checks
    assert (http.n_min, http.planned) == (381, 3445) and (judged.n_min, judged.planned) == (35, 315)
    assert http.power == pytest.approx(power_at(3445, 0.99, 0.995)) and http.power > 0.9
    assert (http.per_minute, http.minutes, http.expected, gate.weight) == (None, None, None, None)
    assert found.joint_power == pytest.approx((http.power or 0) * (judged.power or 0))
    assert found.problems == () and not found.never_passes


def test_at_a_rate_each_gate_has_its_minutes() -> None:
    found = plan_contract(contract(), rollout({}, {}, weight=50), {"success": 1000.0})
    first, second = (gate.checks[0] for gate in found.gates)
    assert (first.per_minute, second.per_minute) == (500.0, 510.0)
    assert (first.minutes, first.expected) == (pytest.approx(6.89), 5000)
    assert first.power_in_gate == first.power
    assert found.problems == ()


def test_what_takes_longer_than_the_gate_says_how_long_and_what_to_do() -> None:
    found = plan_contract(contract(), rollout({"maxDuration": "20m"}, weight=5), {"success": 200.0})
    [slow] = [problem for problem in found.problems if problem.slow]
    assert slow.never and found.never_passes and slow.gate == "the gate at step 1"
    assert slow.sentence == (
        "The check success needs 5.7 hours at this rate (10 events a minute at the canary), and the gate at step 1 ends "
        "after 20 minutes with 200 of the 381 samples that it takes at least: pool over the rollout, lengthen the gate, "
        "loosen the limit or ask for NoBreach."
    )
    some = plan_contract(contract(), rollout({"maxDuration": "20m"}, weight=5), {"success": 1000.0})
    [slow] = [problem for problem in some.problems if problem.slow]
    assert not slow.never
    assert "passes with a probability of 26.4 %: pool over" in slow.sentence


def test_nobody_waits_for_what_is_not_asked() -> None:
    little = {"success": 200.0}
    ask = {"maxDuration": "20m"}
    no_breach = [check("other"), check(require="NoBreach")]
    assert not [p for p in plan_contract(contract(*no_breach), rollout(ask), little).problems if p.slow]
    advisory = [check("other"), check(require="Advisory")]
    assert not [p for p in plan_contract(contract(*advisory), rollout(ask), little).problems if p.slow]
    few = plan_contract(contract(*no_breach), rollout(ask), {"success": 20.0})
    assert "needs 40 minutes at this rate (1 events a minute at the canary)" in said(few)
    assert "with 20 of the 40 samples that it takes at least: lengthen the gate." in said(few)


def test_a_pooled_check_counts_the_gates_before() -> None:
    gates = ({"maxDuration": "20m"}, {"maxDuration": "20m"})
    pooled = plan_contract(contract(check(pool="Rollout")), rollout(*gates, weight=50), {"success": 200.0})
    first, last = (gate.checks[0] for gate in pooled.gates)
    assert (first.require, first.expected) == ("NoBreach", 2000)
    assert (last.require, last.expected) == ("Pass", 2000 + 2040)
    assert not [p for p in pooled.problems if p.slow], (
        "4,040 samples are enough, and the first gate asks for no proof"
    )
    alone = plan_contract(contract(check()), rollout(*gates, weight=50), {"success": 200.0})
    assert len([p for p in alone.problems if p.slow]) == 2


def test_too_few_planned_samples_can_never_pass() -> None:
    found = plan_contract(contract(check(plannedSamples=300)))
    assert found.never_passes
    assert "can never pass: it plans 300 samples" in said(found) and "plan at least 381" in said(found)
    strict = plan_contract(contract(check(plannedSamples=381, confidence=0.99)))
    assert strict.never_passes, "a higher confidence needs more"


def test_many_checks_pass_seldom_together() -> None:
    checks = [check(f"check-{k}", limit={"maxBadRatio": 0.2}) for k in range(8)]
    found = plan_contract(contract(*checks))
    assert found.joint_power == pytest.approx((found.gates[0].checks[0].power or 0) ** 8)
    assert f"a joint power of {round((found.joint_power or 0) * 100)} %" in said(found)
    assert "plan each for 98.7 %" in said(found)
    assert plan_contract(contract(*checks[:3])).problems == ()


def test_a_gauge_needs_room_for_its_readings() -> None:
    gauge: dict[str, Any] = {
        "id": "files",
        "oracleKind": "Deterministic",
        "evidence": [{"stages": ["Canary"], "value": {"source": "p", "query": "max(fds{$arm})", "max": 9}}],
    }
    found = plan_contract(contract(gauge), rollout({"duration": "4m"}))
    assert found.never_passes
    assert "it asks for 10 readings, and there are 8 in 4 minutes; lengthen the gate to 5 minutes" in said(
        found
    )
    assert plan_contract(contract(gauge), rollout({"duration": "5m"})).problems == ()


def test_what_can_not_be_found_within_a_gate_is_said() -> None:
    two_arm = contract(check(versusStable={}, require="NoBreach"), check("other"))
    slow = said(plan_contract(two_arm, rollout(weight=25), {"success": 10.0}))
    assert "finds within a gate that errors rose from 0.1 % to 1 %" in slow
    assert "finds within a gate that errors rose from 1 % to 10 %" in slow
    assert (
        "A canary with 10 % bad events, where success allows 1 %, is not found within the gate at step 1"
        in slow
    )
    mid = said(plan_contract(two_arm, rollout(weight=25), {"success": 100.0}))
    assert "from 0.1 % to 1 %" in mid and "from 1 % to 10 %" not in mid and "is not found" not in mid
    held = contract(check(versusStable={}, onBreach="Hold"))
    assert "finds within a gate" not in said(plan_contract(held, rollout(weight=25), {"success": 10.0}))


def test_the_time_to_a_breach_falls_with_the_rate() -> None:
    own = contract().checks[0]
    limit = own.limit
    assert limit is not None
    terms = Terms.of(own, own.evidence[0], limit, 10)
    minutes = [minutes_to_breach(rate, 0.1, terms, 30.0) for rate in (0.0, 1.0, 10.0, 1000.0)]
    assert minutes[0] == float("inf") and minutes[3] == 1.0, "two bad windows at least"
    assert minutes[1] > minutes[2] > minutes[3]


def test_a_bake_that_completes_without_proof_is_no_never() -> None:
    bake = {"duration": "5m"}
    both = check(stages=("Canary", "Bake"))
    found = plan_contract(contract(both), rollout(weight=50, bake=bake), {"success": 60.0})
    [own] = [p for p in found.problems if p.gate == "the bake" and p.slow]
    assert not own.never and "it completes without proof" in own.sentence
    hold = bake | {"onInconclusive": "Hold"}
    assert plan_contract(contract(both), rollout(bake=hold), {"success": 60.0}).never_passes


def test_the_wire_form_is_json() -> None:
    wire = plan_contract(contract(), rollout(), {"success": 0.0}).wire()
    assert json.loads(json.dumps(wire, allow_nan=False)) == wire
    assert wire["gates"][0]["checks"][0]["minutes"] is None and wire["neverPasses"] is True
    assert "needs forever" in wire["warnings"][0]["sentence"]


@pytest.mark.parametrize(
    ("minutes", "text"),
    [
        (0.5, "30 seconds"),
        (45, "45 minutes"),
        (192, "3.2 hours"),
        (60 * 72, "3.0 days"),
        (float("inf"), "forever"),
    ],
)
def test_lengths_are_told_in_one_unit(minutes: float, text: str) -> None:
    assert length(minutes) == text
