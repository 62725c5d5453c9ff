"""Every kind of evidence against every kind of input: a typed result, never an exception, and no pass without proof."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from gatewright_analysis.decide import decide
from gatewright_analysis.evidence.model import Cluster, Counts, Fault, JobFacts, JobPhase, Window
from gatewright_analysis.judge import CheckEvidence, judge
from gatewright_analysis.reasons import Reason
from gatewright_analysis.task import CheckTask
from gatewright_analysis.verdict import CheckStatus, Decision
from tests import judging

END = judging.at(judging.MAX_DURATION)
BEYOND = judging.at(judging.MAX_DURATION * 2)
LAST = 40
QUICK = settings(max_examples=60, deadline=None)
SUITE = {"source": "results", "suite": "s"}
VALUE = {"source": "p", "query": "heap{$arm}", "min": 10.0, "max": 100.0, "minWindows": 5}
BURN = {"source": "p", "bad": ["bad"], "total": ["all"], "objective": 0.99, "maxBurn": 5}


def entry(kind: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"stages": ["Canary"], kind: body}]


def without_limit(given: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key != "limit"}


TASKS: dict[str, CheckTask] = {
    "counts": judging.task(judging.check()),
    "counts against stable": judging.task(judging.check(versusStable={})),
    "counts, pooled": judging.task(judging.check(pool="Rollout")),
    "counts, more confident": judging.task(judging.check(confidence=0.99)),
    "burnRate": judging.task(without_limit(judging.check(evidence=entry("burnRate", BURN)))),
    "sampled counts": judging.task(judging.sampled()),
    "a schedule": judging.task(judging.sampled(spending={"looks": 5, "function": "OBrienFleming"})),
    "result files": judging.task(judging.sampled(evidence=entry("samples", SUITE))),
    "scores": judging.task(judging.sampled(evidence=entry("scores", SUITE))),
    "paired": judging.task(without_limit(judging.sampled(evidence=entry("paired", SUITE)))),
    "value": judging.task(without_limit(judging.check(evidence=entry("value", VALUE)))),
}
SAMPLED = ("sampled counts", "a schedule", "result files", "scores", "paired")


def windows_of(kind: str, good: int, bad: int, missing: int = 0, *, clusters: int = 0) -> list[Window]:
    """A whole gate whose first window holds all of it."""
    rest = [Window(n, Counts(0, 0), Counts(0, 0)) for n in range(1, LAST)]
    match kind:
        case "scores":
            scores = (1.0,) * min(good, 2000) + (0.0,) * min(bad, 2000)
            return [Window(0, Counts(0, 0), missing=min(missing, 2000), scores=scores), *rest]
        case "value":
            return [
                Window(n, Counts(0, 0), value=50.0 if good > bad else 500.0)
                for n in range(LAST if good + bad else 0)
            ]
        case "result files" if clusters:
            each = [
                Cluster(f"{n:016x}", good // clusters, bad // clusters, missing // clusters)
                for n in range(clusters)
            ]
            counts = Counts(sum(c.good for c in each), sum(c.bad for c in each))
            lost = sum(c.missing for c in each)
            return [Window(0, counts, missing=lost, clusters=tuple(each)), *rest]
        case _:
            return [Window(0, Counts(good, bad), Counts(1000, 0), missing=missing), *rest]


def decided(task: CheckTask, windows: list[Window]) -> Decision | None:
    result = judge(task, CheckEvidence(tuple(windows)), BEYOND)
    return decide([result], task.contract, BEYOND, expected=[task.check.id]).decision


@pytest.mark.parametrize("kind", TASKS)
class TestEveryKind:
    def test_nothing_at_all_is_held(self, kind: str) -> None:
        assert decided(TASKS[kind], []) is Decision.HOLD
        assert decided(TASKS[kind], windows_of(kind, 0, 0)) is Decision.HOLD

    def test_all_good_passes_and_all_bad_does_not(self, kind: str) -> None:
        assert decided(TASKS[kind], windows_of(kind, 2000, 0)) is Decision.PROMOTE
        assert decided(TASKS[kind], windows_of(kind, 0, 2000)) is not Decision.PROMOTE

    def test_huge_counts(self, kind: str) -> None:
        billion = 10**9
        # A schedule of exact limits can't be worked out for so many, and what can't be worked out is no pass.
        end = Decision.HOLD if kind == "a schedule" else Decision.PROMOTE
        assert decided(TASKS[kind], windows_of(kind, billion, 0)) is end
        assert decided(TASKS[kind], windows_of(kind, 0, billion)) is not Decision.PROMOTE
        assert decided(TASKS[kind], windows_of(kind, billion // 2, billion // 2)) is not Decision.PROMOTE

    def test_windows_that_can_not_be_used_are_held(self, kind: str) -> None:
        fault = Fault(Reason.NOT_A_NUMBER, "a counter has the value NaN")
        lost = [Window(n, Counts(10**6, 0), Counts(1000, 0), fault=fault) for n in range(LAST)]
        assert decided(TASKS[kind], lost) is Decision.HOLD

    def test_more_than_five_percent_missing_is_held(self, kind: str) -> None:
        if kind == "value":
            values: list[Window] = [
                Window(n, Counts(0, 0), value=50.0 if n % 3 else math.nan) for n in range(LAST)
            ]
            assert decided(TASKS[kind], values) is Decision.HOLD
            return
        assert decided(TASKS[kind], windows_of(kind, 1000, 0, missing=60)) is Decision.HOLD


@pytest.mark.parametrize("clusters", [1, 29])
def test_few_clusters_are_held_however_many_samples(clusters: int) -> None:
    windows = windows_of("result files", 50 * clusters, 0, clusters=clusters)
    result = judge(TASKS["result files"], CheckEvidence(tuple(windows)), END)
    assert (result.status, result.reason) == (CheckStatus.INCONCLUSIVE, Reason.TOO_FEW_CLUSTERS)


@pytest.mark.parametrize("clusters", [30, 100])
def test_enough_clusters_are_judged(clusters: int) -> None:
    windows = windows_of("result files", 50 * clusters, 0, clusters=clusters)
    result = judge(TASKS["result files"], CheckEvidence(tuple(windows)), END)
    assert result.status is (CheckStatus.PASS if clusters == 100 else CheckStatus.BELOW_THRESHOLD)


@pytest.mark.parametrize("ratio", [0, 1, -0.5, 1.5, math.nan, math.inf])
@pytest.mark.parametrize("field", ["maxBadRatio", "minGoodRatio"])
def test_thresholds_outside_zero_and_one_are_no_contract(ratio: float, field: str) -> None:
    with pytest.raises(ValidationError, match=f"{field}|limit"):
        judging.task(judging.check(limit={field: ratio}))


@pytest.mark.parametrize("confidence", [0, 0.5, 1, 1.5, math.nan])
def test_confidence_outside_its_range_is_no_contract(confidence: float) -> None:
    with pytest.raises(ValidationError, match="confidence"):
        judging.task(judging.check(confidence=confidence))


counts = st.integers(0, 400)


@pytest.mark.parametrize("kind", SAMPLED)
@QUICK
@given(st.lists(st.tuples(counts, counts, st.integers(0, 20)), min_size=1, max_size=LAST))
def test_what_is_sampled_never_rolls_back(kind: str, given_: list[tuple[int, int, int]]) -> None:
    task = TASKS[kind]
    windows = [
        Window(n, Counts(0, 0), missing=lost, scores=(1.0,) * good + (0.0,) * bad)
        if kind == "scores"
        else Window(n, Counts(good, bad), missing=lost)
        for n, (good, bad, lost) in enumerate(given_)
    ]
    result = judge(task, CheckEvidence(tuple(windows)), END)
    assert not result.breach
    outcome = decide([result], task.contract, END, expected=[task.check.id])
    assert outcome.decision is not Decision.ROLLBACK


@pytest.mark.parametrize("kind", ["counts", "sampled counts", "result files", "scores", "paired", "burnRate"])
@QUICK
@given(good=st.integers(0, 800), bad=st.integers(0, 60), more=st.integers(1, 5))
def test_a_further_failure_never_makes_a_pass(kind: str, good: int, bad: int, more: int) -> None:
    task = TASKS[kind]
    before = judge(task, CheckEvidence(tuple(windows_of(kind, good, bad))), END)
    after = judge(task, CheckEvidence(tuple(windows_of(kind, good, bad + more))), END)
    if after.status is CheckStatus.PASS:
        # A sample below the least that may pass can grow into one; with enough there, failures only cost.
        assert before.status is CheckStatus.PASS or good + bad < task.terms.min_samples


@pytest.mark.parametrize("kind", sorted(set(TASKS) - {"value"}))
@QUICK
@given(
    st.lists(st.tuples(counts, st.integers(0, 30)), min_size=2, max_size=12),
    st.randoms(use_true_random=False),
)
def test_folding_window_by_window_is_judging_all_at_once(
    kind: str, given_: list[tuple[int, int]], draw: Any
) -> None:
    """And where a restart falls does not matter."""
    task = TASKS[kind]
    windows = [
        Window(n, Counts(0, 0), scores=(1.0,) * good + (0.5,) * bad)
        if kind == "scores"
        else Window(n, Counts(good, bad), Counts(500, 1))
        for n, (good, bad) in enumerate(given_)
    ]
    whole = judge(task, CheckEvidence(tuple(windows)), END)
    cut = draw.randrange(len(windows))
    monitor = judging.monitored(task, windows[:cut])
    for window in windows[cut:]:
        monitor.add(window)
    assert monitor.result(END) == whole


JOB = judging.task(judging.check(evidence=entry("job", {"cronJob": "load", "report": "Counts"})))
EXIT = judging.task(
    without_limit(judging.check(evidence=entry("job", {"cronJob": "smoke", "report": "ExitCode"})))
)


@pytest.mark.parametrize(
    ("good", "bad", "status"),
    [
        (0, 0, CheckStatus.INCONCLUSIVE),
        (None, None, CheckStatus.INCONCLUSIVE),
        (39, 0, CheckStatus.BELOW_THRESHOLD),
        (72, 0, CheckStatus.BELOW_THRESHOLD),
        (73, 0, CheckStatus.PASS),
        (0, 20, CheckStatus.FAIL),
        (950, 50, CheckStatus.BELOW_THRESHOLD),
        (10**9, 0, CheckStatus.PASS),
        (0, 10**9, CheckStatus.FAIL),
    ],
)
def test_counts_that_a_job_reports(good: int | None, bad: int | None, status: CheckStatus) -> None:
    facts = JobFacts("load-1", JobPhase.SUCCEEDED, good=good, bad=bad)
    result = judge(JOB, CheckEvidence(job=facts), END)
    assert result.status is status
    assert result.breach is (status is CheckStatus.FAIL)


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        (None, CheckStatus.INCONCLUSIVE),
        (JobFacts("smoke-1", JobPhase.WAITING), CheckStatus.INCONCLUSIVE),
        (JobFacts("smoke-1", JobPhase.RUNNING), CheckStatus.INCONCLUSIVE),
        (JobFacts("smoke-1", JobPhase.SUCCEEDED), CheckStatus.PASS),
        (JobFacts("smoke-1", JobPhase.FAILED, exit_code=3), CheckStatus.FAIL),
        (JobFacts("smoke-1", JobPhase.FAILED, trouble=judging.OUTAGE), CheckStatus.INCONCLUSIVE),
    ],
)
def test_a_jobs_exit_code(facts: JobFacts | None, status: CheckStatus) -> None:
    result = judge(EXIT, CheckEvidence(job=facts), END)
    assert result.status is status
    assert result.breach is (status is CheckStatus.FAIL)
