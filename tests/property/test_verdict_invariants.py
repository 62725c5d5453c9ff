"""What must hold of every verdict, whatever the evidence (design.md section 1: 1, 7, 8; statistics.md R5)."""

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gatewright_analysis.decide import apply_waivers, decide
from gatewright_analysis.evidence.model import Counts, Fault, PodFacts, Tick, Window
from gatewright_analysis.judge import CheckEvidence, judge
from gatewright_analysis.kinds.contract import GateContractSpec, OnBreach, OracleKind, Require, Stage
from gatewright_analysis.kinds.rollout import OnInconclusive
from gatewright_analysis.monitor import CheckMonitor
from gatewright_analysis.reasons import Reason
from gatewright_analysis.task import CheckTask, Prior
from gatewright_analysis.verdict import CheckResult, CheckStatus, Decision
from tests.judging import BOUNDS, at, check, contract, pods, sampled, task

FAULTS = (Reason.UNREACHABLE, Reason.NOT_A_NUMBER, Reason.SCRAPE_GAP, Reason.TIMEOUT, Reason.NO_DATA)
QUICK = settings(max_examples=40, deadline=None)


@st.composite
def counts(draw: st.DrawFn, most: int = 120) -> Counts:
    """An arm of one window: mostly good, sometimes all bad, sometimes silent."""
    n = draw(st.sampled_from([0, 1, 5, 20, 60, most]))
    bad = draw(st.sampled_from([0, 0, 0, 1, 2, n // 10, n // 3, n]))
    return Counts(n - min(bad, n), min(bad, n))


@st.composite
def windows(draw: st.DrawFn, most: int = 45) -> tuple[Window, ...]:
    """Windows 0, 1, … of a gate of 40, with faults and missing verdicts now and then; runs of equal windows
    make the long gates in which something can be proven."""
    out: list[Window] = []
    total = draw(st.integers(0, most))
    while len(out) < total:
        canary, stable = draw(counts()), draw(counts(600))
        fault = draw(st.sampled_from([None] * 8 + [Fault(reason, "as drawn") for reason in FAULTS]))
        missing = draw(st.sampled_from([0] * 6 + [1, 3, canary.n]))
        for _ in range(min(draw(st.sampled_from([1, 2, 8, 20])), total - len(out))):
            out.append(Window(len(out), canary, stable, missing=missing, fault=fault))
    return tuple(out)


@st.composite
def ticks(draw: st.DrawFn) -> tuple[Tick, ...]:
    out: list[Tick] = []
    while len(out) < 30:
        canary, stable = draw(counts(20)), draw(counts(60))
        for _ in range(draw(st.sampled_from([1, 3, 6]))):
            out.append(Tick(-45.0 + 5 * len(out), canary, stable))
    return tuple(out)


REQUIRES = st.sampled_from(["Pass", "Pass", "NoBreach", "Advisory"])


@st.composite
def tasks(draw: st.DrawFn, *, may_be_sampled: bool = True) -> CheckTask:
    require = draw(REQUIRES)
    planned = draw(st.sampled_from([None, 40, 100, 700]))
    extra = {} if planned is None else {"plannedSamples": planned}
    prior = tuple(Prior(earlier, draw(st.booleans())) for earlier in draw(st.lists(windows(20), max_size=2)))
    if may_be_sampled and draw(st.booleans()):
        return task(sampled(require=require, **extra), prior=prior)
    given = check(
        require=require,
        onBreach=draw(st.sampled_from(["Rollback", "Hold"])),
        limit=draw(st.sampled_from([{"maxBadRatio": 0.05}, {"minGoodRatio": 0.8}, {"maxBadRatio": 0.3}])),
        **extra,
    )
    if draw(st.booleans()):
        given["versusStable"] = {}
    return task(given, prior=prior, has_stable=draw(st.booleans()), by_windows=draw(st.booleans()))


def result_at(asked: CheckTask, given: tuple[Window, ...], now: float) -> CheckResult:
    return judge(asked, CheckEvidence(given), at(now))


@QUICK
@given(asked=tasks(), given_=windows(), cuts=st.sets(st.integers(0, 45), max_size=4), seen=ticks())
def test_a_restart_at_any_point_gives_the_same_result(
    asked: CheckTask, given_: tuple[Window, ...], cuts: set[int], seen: tuple[Tick, ...]
) -> None:
    """One monitor that lives through the gate and is looked at after each window, against one that is built
    anew from everything at each cut and at the end."""
    alive = CheckMonitor(asked, BOUNDS)
    for position, window in enumerate(given_):
        now = BOUNDS.end_of(window.index)
        alive.add(window)
        alive.add_ticks(tuple(tick for tick in seen if tick.end <= now))
        looked = alive.result(at(now))
        if position in cuts or position == len(given_) - 1:
            upto = tuple(tick for tick in seen if tick.end <= now)
            again = judge(asked, CheckEvidence(given_[: position + 1], upto), at(now))
            assert again == looked, f"at window {position} a restart changed the result"


@QUICK
@given(asked=tasks(), given_=windows())
def test_what_is_proven_stays_proven_while_evidence_is_appended(
    asked: CheckTask, given_: tuple[Window, ...]
) -> None:
    """A late look sees what an early one saw: pass stays pass unless a failure is proven, and fail stays."""
    alive = CheckMonitor(asked, BOUNDS)
    before = CheckStatus.PENDING
    for window in given_:
        alive.add(window)
        now = alive.find(at(BOUNDS.end_of(window.index))).status
        if before is CheckStatus.FAIL:
            assert now is CheckStatus.FAIL
        if before is CheckStatus.PASS:
            assert now in (CheckStatus.PASS, CheckStatus.FAIL)
        if before is CheckStatus.BELOW_THRESHOLD:
            assert now in (CheckStatus.BELOW_THRESHOLD, CheckStatus.FAIL)
        before = now


@QUICK
@given(asked=tasks(), given_=windows(), now=st.floats(0, 3000), seen=ticks())
def test_a_result_keeps_its_own_rules(
    asked: CheckTask, given_: tuple[Window, ...], now: float, seen: tuple[Tick, ...]
) -> None:
    result = judge(asked, CheckEvidence(given_, seen), at(now))
    assert result.message.endswith(".")
    assert len(result.message) <= 1024
    json.dumps(result.wire(), allow_nan=False)
    numbers = result.statistics
    assert numbers is not None
    if result.status is CheckStatus.PASS:
        assert now >= BOUNDS.duration, "no pass before duration"
        passed_at = result_at(asked, given_[: BOUNDS.last_index + 1], now)
        assert passed_at.samples >= asked.terms.min_samples
    if result.breach:
        assert result.oracle_kind is OracleKind.DETERMINISTIC
        assert result.status is CheckStatus.FAIL
    if asked.sampled:
        assert not result.breach
        assert result.on_breach == "Hold"
    if result.status is CheckStatus.NOT_PROVEN:
        assert asked.check.require is Require.NO_BREACH
    if numbers.lb is not None and numbers.ub is not None and result.score is not None:
        assert 0 <= numbers.lb <= numbers.ub <= 1


@QUICK
@given(asked=tasks(), given_=windows(), kind=st.sampled_from(["silent", "faulted", "missing"]))
def test_no_evidence_never_promotes(asked: CheckTask, given_: tuple[Window, ...], kind: str) -> None:
    """Whatever earlier attempts saw: an attempt that saw nothing usable itself holds at its deadline."""
    lost = Fault(Reason.UNREACHABLE, "the source does not answer")
    unusable = {
        "silent": lambda w: replace(w, canary=Counts(0, 0), missing=0, fault=None),
        "faulted": lambda w: replace(w, fault=lost),
        "missing": lambda w: replace(w, canary=Counts(0, 0), missing=10, fault=None),
    }[kind]
    spec = asked.contract
    result = result_at(asked, tuple(unusable(window) for window in given_), 1300)
    outcome = decide([result], spec, at(1300), expected=[result.id])
    assert result.status not in (CheckStatus.PASS, CheckStatus.NOT_PROVEN)
    assert outcome.decision is Decision.HOLD, outcome.message


@QUICK
@given(asked=tasks(), given_=windows(), where=st.integers(0, 44))
def test_a_good_sample_turned_bad_never_makes_a_sampled_check_pass(
    asked: CheckTask, given_: tuple[Window, ...], where: int
) -> None:
    if not asked.sampled or not given_:
        return
    index = where % len(given_)
    window = given_[index]
    if window.canary.good == 0:
        return
    worse_counts = Counts(window.canary.good - 1, window.canary.bad + 1)
    worse = (*given_[:index], replace(window, canary=worse_counts), *given_[index + 1 :])
    before, after = (result_at(asked, each, 1300).status for each in (given_, worse))
    assert not (
        before in (CheckStatus.FAIL, CheckStatus.INCONCLUSIVE, CheckStatus.BELOW_THRESHOLD)
        and after is CheckStatus.PASS
    )


@QUICK
@given(asked=tasks(), given_=windows(), more=st.integers(1, 50))
def test_more_failures_in_the_newest_window_never_turn_fail_or_inconclusive_into_pass(
    asked: CheckTask, given_: tuple[Window, ...], more: int
) -> None:
    if not given_ or len(given_) > BOUNDS.last_index + 1:
        return
    newest = given_[-1]
    worse = (*given_[:-1], replace(newest, canary=newest.canary + Counts(0, more)))
    before, after = (result_at(asked, each, 1300).status for each in (given_, worse))
    assert not (before in (CheckStatus.FAIL, CheckStatus.INCONCLUSIVE) and after is CheckStatus.PASS)


GATE = contract(
    check("errors"),
    check("slow", onBreach="Hold"),
    check("rare", require="NoBreach"),
    check("shown", require="Advisory"),
    sampled("answers"),
    pods("ready"),
)
GATE_IDS = tuple(entry.id for entry in GATE.checks)


@st.composite
def results(draw: st.DrawFn, spec: GateContractSpec = GATE) -> list[CheckResult]:
    """One result of each of some checks, of any status and any reason: also such as no judge gives."""
    out = []
    for entry in spec.checks:
        if draw(st.integers(0, 9)) == 0:
            continue
        status = draw(st.sampled_from([CheckStatus.PASS] * 6 + list(CheckStatus)))
        out.append(
            CheckResult(
                id=entry.id,
                oracle_kind=entry.oracle_kind,
                require=entry.require,
                status=status,
                breach=draw(st.booleans()),
                on_breach=draw(st.sampled_from(["Rollback", "Hold"])),
                reason=draw(st.sampled_from([*FAULTS, Reason.BREACH_ABSOLUTE, Reason.LOW_TRAFFIC])),
                message="As drawn.",
            )
        )
    return out


SATISFIED = {
    Require.PASS: {CheckStatus.PASS, CheckStatus.WAIVED},
    Require.NO_BREACH: {CheckStatus.PASS, CheckStatus.NOT_PROVEN, CheckStatus.WAIVED},
    Require.ADVISORY: set(CheckStatus),
}


@settings(max_examples=120, deadline=None)
@given(drawn=results(), now=st.floats(0, 3000), data=st.data())
def test_a_decision_keeps_its_rules_in_any_order(
    drawn: list[CheckResult], now: float, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(drawn))
    outcome = decide(drawn, GATE, at(now), expected=GATE_IDS)
    assert decide(shuffled, GATE, at(now), expected=GATE_IDS[::-1]) == outcome
    by_id = {entry.id: entry for entry in drawn}
    rolls_back = any(
        entry.id in by_id
        and by_id[entry.id].status is CheckStatus.FAIL
        and by_id[entry.id].breach
        and entry.oracle_kind is OracleKind.DETERMINISTIC
        and entry.require is not Require.ADVISORY
        and GATE.on_breach(entry) is OnBreach.ROLLBACK
        for entry in GATE.checks
    )
    assert (outcome.decision is Decision.ROLLBACK) == rolls_back
    if outcome.decision is Decision.PROMOTE:
        for entry in GATE.checks:
            if entry.require is not Require.ADVISORY:
                assert by_id[entry.id].status in SATISFIED[entry.require], entry.id
    if now >= 1260:
        assert outcome.decision is not None, "two windows after the deadline there is a verdict"
    if outcome.decision is Decision.HOLD:
        assert outcome.blocking
    assert len(outcome.message) <= 1024


@settings(max_examples=100, deadline=None)
@given(drawn=results(), now=st.floats(0, 3000), ids=st.sets(st.sampled_from(GATE_IDS)))
def test_a_waiver_never_hides_a_breach_that_rolls_back_and_covers_only_what_it_names(
    drawn: list[CheckResult], now: float, ids: set[str]
) -> None:
    before = decide(drawn, GATE, at(now), expected=GATE_IDS)
    waived = apply_waivers(drawn, ids, GATE)
    after = decide(waived, GATE, at(now), expected=GATE_IDS)
    assert (before.decision is Decision.ROLLBACK) == (after.decision is Decision.ROLLBACK)
    for old, new in zip(drawn, waived, strict=True):
        assert new == old or (old.id in ids and new.status is CheckStatus.WAIVED)
    if before.decision is Decision.HOLD and after.decision is Decision.PROMOTE:
        assert set(before.blocking) <= ids, "every check that blocked is named by the waiver"


@QUICK
@given(given_=windows(), now=st.floats(0, 3000), prior=windows(20))
def test_a_sampled_check_never_rolls_back(
    given_: tuple[Window, ...], now: float, prior: tuple[Window, ...]
) -> None:
    asked = task(sampled(), prior=(Prior(prior, ticket_used=False),), failMode="Rollback")
    result = result_at(asked, given_, now)
    for lenient in OnInconclusive:
        outcome = decide([result], asked.contract, at(now), expected=[result.id], on_inconclusive=lenient)
        assert outcome.decision is not Decision.ROLLBACK


@QUICK
@given(
    facts=st.builds(
        PodFacts,
        expected=st.integers(0, 3),
        ready=st.integers(0, 3),
        restarts=st.integers(0, 4),
        failing=st.sampled_from([(), ("shop-1/app",)]),
        infrastructure=st.sampled_from([None, Fault(Reason.PODS_UNSCHEDULABLE, "no node has room")]),
        ready_throughout=st.booleans(),
    ),
    now=st.floats(0, 3000),
)
def test_pods_roll_back_only_for_what_their_containers_did(facts: PodFacts, now: float) -> None:
    asked = CheckTask(GATE.checks[-1], GATE, Stage.CANARY, 1, has_stable=True)
    result = judge(asked, CheckEvidence(pods=facts), at(now))
    assert result.breach == (bool(facts.failing) or facts.restarts >= 2)
    if result.status is CheckStatus.PASS:
        assert now >= BOUNDS.duration
        assert facts.ready_throughout
        assert facts.restarts == 0
        assert facts.infrastructure is None
