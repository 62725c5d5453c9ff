"""Checks that a Job answers: its exit code, or one look at the counts that it reports (statistics.md R2, R3, M6)."""

import itertools
import math
from typing import Any

import pytest

from gatewright_analysis.decide import decide
from gatewright_analysis.evidence.model import Clock, Counts, Fault, JobFacts, JobPhase, Window
from gatewright_analysis.facts import judge_job
from gatewright_analysis.judge import CheckEvidence, judge
from gatewright_analysis.kinds.contract import OnBreach, Require, Stage
from gatewright_analysis.reasons import Reason
from gatewright_analysis.task import CheckTask, Prior, count_e_processes
from gatewright_analysis.verdict import CheckResult, CheckStatus, Decision
from tests import judging

EARLY = judging.at(30.0)
END = judging.at(judging.MAX_DURATION)
NO_ROOM = Fault(Reason.PODS_UNSCHEDULABLE, "smoke-x: 0/1 nodes are available")


def job_check(report: str = "ExitCode", id_: str = "smoke", **fields: Any) -> dict[str, Any]:
    """A check on a Job; counts have a limit of 5 %."""
    entry = {"stages": ["Canary", "Bake"], "job": {"cronJob": "smoke", "report": report}}
    limit = {"limit": {"maxBadRatio": 0.05}} if report == "Counts" else {}
    return {"id": id_, "oracleKind": "Deterministic", "evidence": [entry]} | limit | fields


def counting(
    oracle: str = "Deterministic", require: str = "Pass", prior: tuple[Prior, ...] = ()
) -> CheckTask:
    """The other check keeps the contract valid where this one needs no pass. m = 10: a breach at p ≤ 0.001."""
    asked = job_check("Counts", oracleKind=oracle, require=require)
    spec = judging.contract(asked, judging.check())
    return CheckTask(spec.checks[0], spec, Stage.CANARY, 10, True, prior)


def reported(good: int, bad: int) -> JobFacts:
    return JobFacts("smoke", JobPhase.SUCCEEDED, good=good, bad=bad)


def said(result: CheckResult) -> tuple[str, str]:
    return result.status.value, result.reason


def decision(task: CheckTask, result: CheckResult, clock: Clock) -> Decision | None:
    return decide([result], task.contract, clock, expected=["smoke"]).decision


class TestExitCode:
    task = judging.task(job_check())

    @pytest.mark.parametrize("clock", [EARLY, END])
    def test_an_exit_code_other_than_0_is_a_breach_at_any_time(self, clock: Clock) -> None:
        result = judge_job(self.task, JobFacts("smoke", JobPhase.FAILED, exit_code=3), clock)
        assert said(result) == ("fail", "JobFailed")
        assert result.breach and result.on_breach == OnBreach.ROLLBACK
        assert result.message == "The Job smoke failed with exit code 3; see its log."
        assert result.statistics is not None and result.statistics.exit_code == 3
        assert decision(self.task, result, clock) is Decision.ROLLBACK

    def test_exit_code_0_passes_and_promotes_when_the_duration_is_over(self) -> None:
        facts = JobFacts("smoke", JobPhase.SUCCEEDED)
        result = judge_job(self.task, facts, EARLY)
        assert said(result) == ("pass", "Passed")
        assert decision(self.task, result, EARLY) is None
        after = judging.at(judging.DURATION)
        assert decision(self.task, judge_job(self.task, facts, after), after) is Decision.PROMOTE

    def test_a_contract_that_only_holds_is_not_rolled_back_by_an_exit_code(self) -> None:
        task = judging.task(job_check(onBreach="Hold"))
        result = judge_job(task, JobFacts("smoke", JobPhase.FAILED, exit_code=1), EARLY)
        assert (result.breach, result.on_breach) == (True, OnBreach.HOLD)
        assert decision(task, result, EARLY) is Decision.HOLD

    @pytest.mark.parametrize("phase", JobPhase)
    @pytest.mark.parametrize("code", [None, 0, 1, 137])
    def test_trouble_of_the_cluster_is_never_a_breach_whatever_else_is_seen(
        self, phase: JobPhase, code: int | None
    ) -> None:
        facts = JobFacts("smoke", phase, exit_code=code, trouble=NO_ROOM)
        early, late = judge_job(self.task, facts, EARLY), judge_job(self.task, facts, END)
        assert said(early) == ("pending", "PodsUnschedulable")
        assert said(late) == ("inconclusive", "PodsUnschedulable")
        assert "0/1 nodes are available" in late.message
        assert decision(self.task, early, EARLY) is None
        assert decision(self.task, late, END) is Decision.HOLD

    @pytest.mark.parametrize("phase", [JobPhase.WAITING, JobPhase.RUNNING])
    def test_a_job_that_is_not_over_is_waited_for_until_the_gate_ends(self, phase: JobPhase) -> None:
        facts = JobFacts("smoke", phase)
        assert said(judge_job(self.task, facts, EARLY)) == ("pending", "Collecting")
        late = judge_job(self.task, facts, END)
        assert said(late) == ("inconclusive", "JobUnfinished")
        assert decision(self.task, late, END) is Decision.HOLD

    def test_no_job_at_all_is_no_evidence(self) -> None:
        assert said(judge_job(self.task, None, EARLY)) == ("pending", "NoData")
        assert said(judge(self.task, CheckEvidence(), END)) == ("inconclusive", "NoData")

    def test_a_fault_of_the_newest_reading_is_said_in_place_of_what_was_known(self) -> None:
        fault = Fault(Reason.JOB_TROUBLE, "CronJob smoke does not exist in shop: create it")
        late = judge(self.task, CheckEvidence(fault=fault), END)
        assert said(late) == ("inconclusive", "JobTrouble")
        assert late.message == "The Job can't be judged: CronJob smoke does not exist in shop: create it."


def exact_tail(bad: int, n: int, limit: float) -> float:
    """P(at least `bad` of `n`), from the definition."""
    below = sum(math.comb(n, k) * limit**k * (1 - limit) ** (n - k) for k in range(bad))
    return 1.0 - below


COUNTED = [
    # good, bad, what a Deterministic check says, what a Sampled one says
    (0, 0, ("inconclusive", "NoData"), ("inconclusive", "NoData")),
    (1, 0, ("below_threshold", "LowTraffic"), ("below_threshold", "LowTraffic")),
    # n_min = 73: the smallest flawless run that passes.
    (72, 0, ("below_threshold", "LowTraffic"), ("below_threshold", "LowTraffic")),
    (73, 0, ("pass", "Passed"), ("pass", "Passed")),
    (0, 1, ("below_threshold", "LowTraffic"), ("fail", "FailedThreshold")),
    # P(≥ 3 of 3 | 5 %) = 1.25e-4 ≤ 1e-3, and 2 of 2 = 2.5e-3 is not.
    (0, 2, ("below_threshold", "LowTraffic"), ("fail", "FailedThreshold")),
    (0, 3, ("fail", "BreachAbsolute"), ("fail", "FailedThreshold")),
    (15, 5, ("below_threshold", "LowTraffic"), ("fail", "FailedThreshold")),
    (14, 6, ("fail", "BreachAbsolute"), ("fail", "FailedThreshold")),
    (980, 20, ("pass", "Passed"), ("pass", "Passed")),
    (950, 50, ("below_threshold", "BelowThreshold"), ("below_threshold", "BelowThreshold")),
    (940, 60, ("below_threshold", "BelowThreshold"), ("below_threshold", "BelowThreshold")),
    (920, 80, ("fail", "BreachAbsolute"), ("fail", "FailedThreshold")),
    (10**9, 0, ("pass", "Passed"), ("pass", "Passed")),
    (0, 10**9, ("fail", "BreachAbsolute"), ("fail", "FailedThreshold")),
    (960_000_000, 40_000_000, ("pass", "Passed"), ("pass", "Passed")),
    (940_000_000, 60_000_000, ("fail", "BreachAbsolute"), ("fail", "FailedThreshold")),
    (950_000_000, 50_000_000, ("below_threshold", "BelowThreshold"), ("below_threshold", "BelowThreshold")),
]


class TestCounts:
    @pytest.mark.parametrize(("good", "bad", "deterministic", "sampled"), COUNTED)
    @pytest.mark.parametrize("clock", [EARLY, END], ids=["early", "end"])
    def test_one_look_at_the_counts(
        self, good: int, bad: int, deterministic: tuple[str, str], sampled: tuple[str, str], clock: Clock
    ) -> None:
        """The look is the Job's end, not the gate's."""
        for oracle, expected in (("Deterministic", deterministic), ("Sampled", sampled)):
            result = judge_job(counting(oracle), reported(good, bad), clock)
            assert said(result) == expected, (oracle, result.message)
            assert result.breach == (expected[0] == "fail" and oracle == "Deterministic")
            if good + bad:
                assert result.samples == good + bad and result.score == round(good / (good + bad), 6)

    @pytest.mark.parametrize(("good", "bad", "deterministic", "sampled"), COUNTED)
    def test_what_is_only_shown_is_judged_alike_and_decides_nothing(
        self, good: int, bad: int, deterministic: tuple[str, str], sampled: tuple[str, str]
    ) -> None:
        for oracle, expected in (("Deterministic", deterministic), ("Sampled", sampled)):
            task = counting(oracle, "Advisory")
            result = judge_job(task, reported(good, bad), END)
            assert said(result) == expected
            outcome = decide([result], task.contract, EARLY, expected=["smoke", "http-success"])
            assert outcome.decision is None and "smoke" not in outcome.blocking

    @pytest.mark.parametrize(
        ("good", "bad", "expected"),
        [
            (0, 0, ("inconclusive", "NoData")),
            (39, 0, ("below_threshold", "LowTraffic")),
            (40, 0, ("not_proven", "NotProven")),
            (38, 2, ("not_proven", "NotProven")),
            (940, 60, ("not_proven", "NotProven")),
            (73, 0, ("pass", "Passed")),
            (0, 3, ("fail", "BreachAbsolute")),
            (920, 80, ("fail", "BreachAbsolute")),
        ],
    )
    def test_no_breach_is_satisfied_by_40_events_that_break_nothing(
        self, good: int, bad: int, expected: tuple[str, str]
    ) -> None:
        assert said(judge_job(counting(require="NoBreach"), reported(good, bad), END)) == expected

    def test_the_breach_is_where_the_exact_tail_says(self) -> None:
        for n in (3, 10, 20, 60):
            for bad in range(n + 1):
                result = judge_job(counting(), reported(n - bad, bad), END)
                convicted = bad > 0.05 * n and exact_tail(bad, n, 0.05) <= 0.001
                assert result.breach == convicted, (bad, n, result.message)

    def test_a_breach_rolls_back_and_a_sampled_failure_holds(self) -> None:
        for oracle, expected in (("Deterministic", Decision.ROLLBACK), ("Sampled", Decision.HOLD)):
            task = counting(oracle)
            assert decision(task, judge_job(task, reported(800, 200), EARLY), EARLY) is expected

    def test_more_e_processes_ask_for_more(self) -> None:
        spec = judging.contract(job_check("Counts"))
        few, many = (CheckTask(spec.checks[0], spec, Stage.CANARY, m, True) for m in (10, 1000))
        assert judge_job(few, reported(14, 6), END).breach
        assert not judge_job(many, reported(14, 6), END).breach

    @pytest.mark.parametrize("facts", [
        JobFacts("smoke", JobPhase.SUCCEEDED),
        JobFacts("smoke", JobPhase.SUCCEEDED, good=100),
        JobFacts("smoke", JobPhase.FAILED, exit_code=1),
        JobFacts("smoke", JobPhase.FAILED, exit_code=1, good=0, bad=500),
    ])  # fmt: skip
    def test_a_job_that_did_not_report_proves_nothing(self, facts: JobFacts) -> None:
        result = judge_job(counting(), facts, END)
        assert said(result) == ("inconclusive", "NoData")
        assert not result.breach

    def test_the_sentence_names_the_counts_and_the_limit(self) -> None:
        result = judge_job(counting(), reported(920, 80), END)
        assert result.message == (
            "The limit is broken, as shown by the Job smoke: 8 % of 1,000 were bad (5 % allowed)."
        )


def before(good: int, bad: int, *, used: bool) -> Prior:
    """An earlier attempt whose Job reported these counts."""
    return Prior((Window(0, Counts(good, bad)),), used)


class TestAttempts:
    def test_a_spent_look_is_not_taken_again(self) -> None:
        """980 of 1,000 would pass by itself; after a look that failed its counts add up and E⁺ has to suffice."""
        again = reported(73, 0)
        assert said(judge_job(counting(), again, END)) == ("pass", "Passed")
        after = judge_job(counting(prior=(before(940, 60, used=True),)), again, END)
        assert said(after) == ("below_threshold", "BelowThreshold")
        assert after.samples == 1073 and after.statistics is not None and after.statistics.attempts == 2

    def test_enough_more_evidence_passes_by_the_e_value(self) -> None:
        task = counting(prior=(before(69, 4, used=True),))
        assert said(judge_job(task, reported(240, 0), END)) == ("pass", "Passed")

    def test_a_look_that_could_not_be_taken_is_not_spent(self) -> None:
        first = judge_job(counting(), reported(50, 0), END)
        assert first.statistics is not None and first.statistics.ticket_used is False
        second = judge_job(counting(prior=(before(50, 0, used=False),)), reported(23, 0), END)
        assert said(second) == ("pass", "Passed")
        assert second.statistics is not None and second.statistics.ticket_used is True

    def test_a_good_past_does_not_hide_a_bad_job(self) -> None:
        task = counting(prior=(before(2000, 0, used=False),))
        result = judge_job(task, reported(90, 10), END)
        assert result.status is CheckStatus.BELOW_THRESHOLD, "10 % of the newest Job's events were bad"

    def test_counts_of_two_attempts_break_the_limit_together(self) -> None:
        """12 % of 100 has an exact tail of 4.3e-3; of 300 E⁻ is above 1,000, and of 200 it is not."""
        again = reported(88, 12)
        assert not judge_job(counting(), again, END).breach
        assert not judge_job(counting(prior=(before(88, 12, used=True),)), again, END).breach
        three = (before(88, 12, used=True), before(88, 12, used=True))
        assert judge_job(counting(prior=three), again, END).breach

    def test_a_sampled_check_fails_again_only_by_the_e_value(self) -> None:
        task = counting("Sampled", prior=(before(68, 5, used=True),))
        assert said(judge_job(task, reported(18, 3), END))[0] == "below_threshold"
        assert said(judge_job(task, reported(60, 40), END)) == ("fail", "FailedThreshold")


def test_every_input_has_a_result_that_is_safe() -> None:
    """Over the whole table of inputs: a pass needs a Job that succeeded, a breach one whose own word proves it."""
    numbers = [None, 0, 3, 73, 10**9]
    troubles = [None, NO_ROOM]
    for report, require, oracle in itertools.product(
        ("ExitCode", "Counts"), Require, ("Deterministic", "Sampled")
    ):
        spec = judging.contract(job_check(report, oracleKind=oracle, require=require), judging.check())
        task = CheckTask(spec.checks[0], spec, Stage.CANARY, 10, True)
        inputs = itertools.product(JobPhase, (None, 1), numbers, numbers, troubles, (EARLY, END))
        for phase, code, good, bad, trouble, clock in inputs:
            result = judge_job(task, JobFacts("smoke", phase, code, good, bad, trouble), clock)
            if result.status is CheckStatus.PASS:
                assert phase is JobPhase.SUCCEEDED and trouble is None
            if result.breach:
                assert trouble is None and oracle == "Deterministic"
                assert phase is (JobPhase.FAILED if report == "ExitCode" else JobPhase.SUCCEEDED)
            assert result.status is not CheckStatus.PENDING or clock is EARLY


def test_a_counting_job_is_one_e_process_at_each_gate_and_an_exit_code_none() -> None:
    spec = judging.contract(
        job_check("Counts", "counted"),
        job_check("Counts", "held", onBreach="Hold"),
        job_check("Counts", "shown", require="Advisory"),
        job_check("Counts", "sampled", oracleKind="Sampled"),
        job_check("ExitCode", "exit"),
        judging.check(versusStable={"maxRatio": 1.5}),
    )
    both = [(Stage.CANARY, ["counted", "exit"]), (Stage.BAKE, ["counted", "exit"])]
    assert count_e_processes(spec, both, has_stable=True) == 2
    assert count_e_processes(spec, [(Stage.CANARY, ["exit"])], has_stable=True) == 1, "at least 1"
    everything = [(Stage.CANARY, [c.id for c in spec.checks])]
    assert count_e_processes(spec, everything, has_stable=True) == 1 + 2
