"""Recorded evidence comes to the verdict that the operator would have given, and what is unknown never passes."""

import json
from typing import Any

import pytest

from gatewright_analysis.backtest.fold import Backtest, NothingToJudge, Settings, backtest
from gatewright_analysis.backtest.lines import read_lines
from gatewright_analysis.kinds.contract import GateContractSpec, Stage, Tier
from gatewright_analysis.task import Bounds
from gatewright_analysis.verdict import CheckStatus, Decision
from tests.judging import check, contract, pods, sampled

STRICT = check(limit={"maxBadRatio": 0.05})
JOB = {
    "id": "smoke",
    "oracleKind": "Deterministic",
    "evidence": [{"stages": ["Canary"], "job": {"cronJob": "smoke", "report": "ExitCode"}}],
}


def lines(
    good: int, bad: int, *, looks: int = 20, every: float = 30.0, id_: str = "http-success", **fields: Any
) -> list[str]:
    body = {"check": id_, "good": good, "bad": bad, **fields}
    return [json.dumps({**body, "t": every * (k + 1)}) for k in range(looks)]


def tried(spec: GateContractSpec, given: list[str], **settings: Any) -> Backtest:
    asked = Settings(**settings)
    return backtest(spec, read_lines(given, spec, asked.stage), asked)


def test_a_good_canary_is_promoted_at_the_end_of_the_gate() -> None:
    found = tried(contract(STRICT), lines(100, 1))
    assert (found.ended.decision, found.ended.at_seconds) == (Decision.PROMOTE, 600.0)
    [one] = found.checks
    assert (one.status, one.samples, one.statistics and one.statistics.windows) == (
        CheckStatus.PASS,
        2020,
        20,
    )
    assert [look.t for look in found.looks] == [30.0 * (k + 1) for k in range(20)]
    assert [look.n for look in found.looks] == [101 * (k + 1) for k in range(20)]
    assert {look.status for look in found.looks[:-1]} == {CheckStatus.PENDING}
    assert found.looks[-1].status is CheckStatus.PASS and found.looks[-1].ci_lower == pytest.approx(
        one.ci_lower, abs=1e-6
    )


def test_a_breach_rolls_back_at_the_look_that_proves_it() -> None:
    healthy = {"good": 500, "bad": 1}
    given = [*lines(100, 0, looks=5, stable=healthy), *(
        json.dumps({"check": "http-success", "t": 150 + 30 * (k + 1), "good": 75, "bad": 25, "stable": healthy})
        for k in range(10)
    )]  # fmt: skip
    found = tried(contract(STRICT), given)
    assert found.ended.decision is Decision.ROLLBACK
    assert 180 < found.ended.at_seconds < 450
    assert found.looks[-1].t == 450.0, "the looks after it are shown as well"
    short = backtest(
        contract(STRICT), read_lines(given, contract(STRICT), Stage.CANARY), Settings(), keep_looks=False
    )
    assert short.ended == found.ended and short.checks == found.checks and short.looks == ()


def test_a_canary_that_fails_outright_goes_by_two_windows() -> None:
    found = tried(contract(STRICT), lines(0, 100, stable={"good": 300, "bad": 0}))
    assert (found.ended.reason, found.ended.at_seconds) == ("TotalFailure", 60.0)


def test_one_gate_is_judged_so_m_counts_its_own_processes() -> None:
    found = tried(contract(check(versusStable={})), lines(100, 1, stable={"good": 300, "bad": 2}))
    [one] = found.checks
    assert one.statistics is not None and one.statistics.breach_threshold == pytest.approx(
        5.298317, abs=1e-6
    ), "ln(100 · 2)"


@pytest.mark.parametrize(
    ("spec", "given"),
    [
        (contract(STRICT), []),
        (contract(STRICT, sampled()), lines(100, 0)),
        (contract(STRICT, pods()), lines(100, 0)),
        (contract(STRICT, JOB), lines(100, 0)),
        (contract(STRICT), lines(0, 0)),
        (contract(sampled()), lines(100, 0, id_="faithfulness", missing=10)),
        (contract(STRICT), lines(5, 0, looks=4)),
    ],
    ids=["no line", "a check without a line", "pods", "job", "no events", "missing", "few events"],
)
def test_what_is_unknown_is_a_hold(spec: GateContractSpec, given: list[str]) -> None:
    found = tried(spec, given)
    assert found.ended.decision is Decision.HOLD, found.ended
    assert found.ended.blocking


def test_evidence_that_ends_before_the_gate_does_is_a_hold() -> None:
    """A source that fell silent must not pass by the part that was good."""
    found = tried(contract(STRICT), lines(100, 0), duration=900.0)
    assert (found.ended.decision, found.ended.at_seconds) == (Decision.HOLD, 900.0)
    assert "the evidence ends at 600 s, before the gate's duration of 900 s" in found.ended.message
    silent = [*lines(100, 0), *lines(100, 0, id_="other", looks=10)]
    both = contract(STRICT, check("other"))
    given = sorted(silent, key=lambda line: float(json.loads(line)["t"]))
    assert tried(both, given).ended.decision is Decision.HOLD
    assert tried(both, given).ended.blocking == ("other",)


def test_checks_that_are_left_out_are_named() -> None:
    spec = contract(STRICT, pods())
    found = tried(spec, lines(100, 0), checks=("http-success",))
    assert found.ended.decision is Decision.PROMOTE
    assert found.ended.message.endswith("Not judged, as asked: pods.")
    assert found.left_out == ("pods",)


def test_only_the_fast_checks_judge_when_asked() -> None:
    spec = contract(STRICT, sampled())
    found = tried(spec, lines(100, 0), tier=Tier.FAST)
    assert found.ended.decision is Decision.PROMOTE and found.left_out == ("faithfulness",)
    with pytest.raises(NothingToJudge, match="No check is left to judge at the stage Canary"):
        tried(contract(sampled()), [], tier=Tier.FAST)


def test_a_breach_after_a_hold_is_told_beside_it() -> None:
    spec = contract(STRICT, sampled())
    rows = [*lines(100, 0, looks=5), *lines(10, 90, id_="faithfulness", looks=3)]
    rows += [
        json.dumps({"check": "http-success", "t": 300 + 30 * k, "good": 40, "bad": 60}) for k in range(8)
    ]
    found = tried(spec, sorted(rows, key=lambda line: float(json.loads(line)["t"])))
    assert (found.ended.decision, found.ended.reason) == (Decision.HOLD, "FailedThreshold")
    assert found.breach is not None and found.breach.decision is Decision.ROLLBACK
    assert found.breach.at_seconds > found.ended.at_seconds


def test_windows_of_any_length_are_judged_in_order() -> None:
    rows, t = [], 0.0
    for k in range(40):
        t += 1 + 7 * (k % 5)
        rows.append(json.dumps({"check": "http-success", "t": t, "good": 30, "bad": 0}))
    found = tried(contract(STRICT), rows)
    assert (found.ended.decision, found.ended.at_seconds) == (Decision.PROMOTE, t)


def test_bounds_with_ends_find_the_windows_that_may_pass() -> None:
    bounds = Bounds(50.0, 90.0, 20.0, (10.0, 45.0, 50.0, 88.0, 95.0))
    assert (bounds.first_pass_index, bounds.last_index, bounds.end_of(3)) == (2, 3, 88.0)
    assert Bounds(60.0, 60.0, 20.0, (10.0, 45.0)).first_pass_index == 1, "less than a window is missing"
    assert Bounds(60.0, 60.0, 20.0, (80.0,)).last_index == 0


def test_the_wire_form_is_json_that_says_what_was_found() -> None:
    wire = tried(contract(STRICT), lines(100, 1, looks=3)).wire()
    assert json.loads(json.dumps(wire, allow_nan=False)) == wire
    assert (wire["decision"], wire["decidedAtSeconds"]) == ("PROMOTE", 90.0)
    assert wire["checks"][0]["ciLower"] == pytest.approx(wire["looks"][-1]["ciLower"])
    assert set(wire["looks"][0]) == {
        "t", "check", "n", "score", "ciLower", "ciUpper", "threshold", "logEPass", "logEFail", "status"
    }  # fmt: skip


def test_the_warmup_moves_the_begin_of_the_gate_and_not_the_times_told() -> None:
    bad_start = [json.dumps({"check": "http-success", "t": 30, "good": 0, "bad": 100})]
    rest = [
        json.dumps({"check": "http-success", "t": 30 * (k + 2), "good": 100, "bad": 0}) for k in range(10)
    ]
    found = tried(contract(STRICT), [*bad_start, *rest], warmup=30.0)
    assert (found.ended.decision, found.ended.at_seconds) == (Decision.PROMOTE, 330.0)
    assert found.checks[0].samples == 1000
