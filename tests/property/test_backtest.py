"""A backtest skips most verdicts, and comes to the one that judging and deciding at every look would have come to."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from gatewright_analysis.backtest.fold import Settings, backtest
from gatewright_analysis.backtest.lines import read_lines
from gatewright_analysis.decide import decide
from gatewright_analysis.evidence.model import Clock
from gatewright_analysis.judge import CheckEvidence, judge
from gatewright_analysis.kinds.contract import Stage
from gatewright_analysis.task import CheckTask, count_e_processes
from gatewright_analysis.verdict import Decision
from tests.judging import check, contract, sampled

SPEC = contract(check(limit={"maxBadRatio": 0.1}), sampled(limit={"minGoodRatio": 0.7}))
IDS = ("faithfulness", "http-success")
LOOK = st.tuples(st.integers(0, 60), st.integers(0, 12), st.integers(0, 60), st.integers(0, 3))


@settings(max_examples=30)
@given(st.lists(LOOK, min_size=1, max_size=14), st.integers(0, 14))
def test_the_verdict_is_that_of_every_look_judged_anew(
    looks: list[tuple[int, int, int, int]], turn: int
) -> None:
    """`turn`: from this look on good and bad change places, so that breaches and failures are met, too."""
    window, rows = 30.0, []
    for k, (good, bad, passed, failed) in enumerate(looks):
        if k >= turn:
            good, bad, passed, failed = bad, good, failed, passed
        rows.append({"check": "http-success", "t": window * (k + 1), "good": good, "bad": bad})
        rows.append({"check": "faithfulness", "t": window * (k + 1), "good": passed, "bad": failed})
    recorded = read_lines(map(json.dumps, rows), SPEC, Stage.CANARY)
    found = backtest(SPEC, recorded, Settings())

    m = count_e_processes(SPEC, [(Stage.CANARY, IDS)], has_stable=False)
    tasks = {
        c.id: CheckTask(c, SPEC, Stage.CANARY, m, has_stable=False, by_windows=True) for c in SPEC.checks
    }
    end = window * len(looks)
    for k in range(len(looks)):
        clock = Clock(window * (k + 1), end, end, window)
        results = [
            judge(task, CheckEvidence(tuple(recorded[id_].windows[: k + 1])), clock)
            for id_, task in tasks.items()
        ]
        outcome = decide(results, SPEC, clock, expected=IDS)
        if outcome.decision is not None:
            break
    else:
        raise AssertionError("nothing was decided at the deadline")
    assert (found.ended.decision, found.ended.at_seconds) == (outcome.decision, clock.now)
    assert (found.ended.reason, found.ended.message) == (outcome.reason, outcome.message)
    assert sorted(found.checks, key=lambda c: c.id) == sorted(results, key=lambda c: c.id)
    if found.breach is not None:
        assert found.ended.decision is Decision.HOLD
