"""Kinds of evidence beyond plain counts: clusters, scores, pairs, burn rates, gauges; and what a contract may ask of a check."""

import math
from collections.abc import Iterable
from typing import Any

import pytest

from gatewright_analysis.evidence.model import Cluster, Counts, Fault, Window
from gatewright_analysis.judge import CheckEvidence, judge
from gatewright_analysis.kinds.contract import OnBreach, Require
from gatewright_analysis.reasons import Reason
from gatewright_analysis.task import CheckTask
from gatewright_analysis.verdict import CheckResult, CheckStatus
from tests import judging

END = judging.at(judging.MAX_DURATION)
LAST = 40
"""Windows of a whole gate."""


def suite(kind: str, id_: str = "faithfulness", **fields: Any) -> dict[str, Any]:
    given = {
        "id": id_,
        "oracleKind": "Sampled",
        "limit": {"minGoodRatio": 0.9},
        "evidence": [{"stages": ["Canary"], kind: {"source": "results", "suite": "s"}}],
    }
    return {key: value for key, value in (given | fields).items() if value is not None}


def in_one_file(
    clusters: Iterable[Cluster] = (), *, scores: Iterable[float] = (), pairs: tuple[int, int] | None = None
) -> list[Window]:
    """Result files are there at the first window; nothing comes after."""
    found = tuple(clusters)
    counts = Counts(*pairs) if pairs else Counts(sum(c.good for c in found), sum(c.bad for c in found))
    missing = sum(c.missing for c in found)
    first = Window(0, counts, missing=missing, clusters=found, scores=tuple(scores))
    return [first, *(Window(index, Counts(0, 0)) for index in range(1, LAST))]


def items(good: int, bad: int, missing: int = 0) -> list[Cluster]:
    """Each item once."""
    outcomes = [(1, 0, 0)] * good + [(0, 1, 0)] * bad + [(0, 0, 1)] * missing
    return [Cluster(f"{n:016x}", *outcome) for n, outcome in enumerate(outcomes)]


def repeated(count: int, good: int, bad: int) -> list[Cluster]:
    """`count` items, each of them judged `good` + `bad` times."""
    return [Cluster(f"{n:016x}", good, bad) for n in range(count)]


def judged(task: CheckTask, windows: list[Window]) -> CheckResult:
    return judge(task, CheckEvidence(tuple(windows)), END)


class TestSingleItems:
    def test_items_that_come_once_are_judged_as_counts(self) -> None:
        task = judging.task(suite("samples"))
        result = judged(task, in_one_file(items(294, 21)))
        plain = judged(judging.task(judging.sampled()), [Window(0, Counts(294, 21)), *in_one_file()[1:]])
        assert result.status is CheckStatus.PASS
        assert result.statistics is not None
        assert plain.statistics is not None
        assert (result.ci_lower, result.statistics.log_e_pass) == (
            plain.ci_lower,
            plain.statistics.log_e_pass,
        )
        assert result.ci_lower == pytest.approx(0.900239, abs=1e-6)
        assert result.statistics.clusters is None, "nothing is repeated"

    def test_more_than_five_percent_missing_cannot_be_used(self) -> None:
        result = judged(judging.task(suite("samples")), in_one_file(items(320, 2, missing=20)))
        assert (result.status, result.reason) == (CheckStatus.INCONCLUSIVE, Reason.MISSING_TOO_MANY)


class TestRepeatedItems:
    def test_twenty_nine_items_prove_nothing_and_thirty_may(self) -> None:
        task = judging.task(suite("samples"))
        few = judged(task, in_one_file(repeated(29, 20, 0)))
        assert (few.status, few.reason) == (CheckStatus.INCONCLUSIVE, Reason.TOO_FEW_CLUSTERS)
        assert "29 items" in few.message
        enough = judged(task, in_one_file(repeated(60, 20, 0)))
        assert enough.status is CheckStatus.PASS
        thirty = judged(task, in_one_file(repeated(30, 20, 0)))
        # All equal: each item counts once, and 30 flawless ones don't prove 0.9.
        assert (thirty.status, thirty.reason) == (CheckStatus.BELOW_THRESHOLD, Reason.BELOW_THRESHOLD)
        assert thirty.statistics is not None
        assert (thirty.statistics.clusters, thirty.statistics.deff, thirty.statistics.n_eff) == (
            30,
            20.0,
            30.0,
        )

    def test_repeats_are_worth_less_than_items(self) -> None:
        """300 samples at 95 %: proven when they are independent, not when they are ten whole items that fail."""
        task = judging.task(suite("samples"))
        spread = [Cluster(f"{n:016x}", 9, 1) if n % 2 else Cluster(f"{n:016x}", 10, 0) for n in range(60)]
        lumped = [Cluster(f"{n:016x}", 0, 10) if n < 3 else Cluster(f"{n:016x}", 10, 0) for n in range(60)]
        assert judged(task, in_one_file(spread)).status is CheckStatus.PASS
        result = judged(task, in_one_file(lumped))
        assert result.status is CheckStatus.BELOW_THRESHOLD
        assert result.statistics is not None
        assert result.statistics.deff == pytest.approx(10.17, abs=0.01)

    def test_repeats_of_an_item_in_a_later_window_join_it(self) -> None:
        task = judging.task(suite("samples"))
        halves = [Cluster(f"{n:016x}", 5, 0) for n in range(60)]
        twice = [
            Window(0, Counts(300, 0), clusters=tuple(halves)),
            Window(1, Counts(300, 0), clusters=tuple(halves)),
            *in_one_file()[2:],
        ]
        once = in_one_file(repeated(60, 10, 0))
        first, second = judged(task, twice).statistics, judged(task, once).statistics
        assert first is not None
        assert second is not None
        assert (first.n, first.clusters, first.deff, first.lb) == (
            second.n,
            second.clusters,
            second.deff,
            second.lb,
        )


class TestScores:
    def test_good_scores_pass_and_bad_ones_fail_by_their_e_value_alone(self) -> None:
        task = judging.task(suite("scores", limit={"minGoodRatio": 0.8}))
        good = judged(task, in_one_file(scores=[0.95] * 100))
        assert good.status is CheckStatus.PASS
        assert good.statistics is not None
        assert good.statistics.log_e_pass is not None
        assert good.statistics.log_e_pass >= math.log(20)
        assert good.score == pytest.approx(0.95)
        assert good.samples == 100
        bad = judged(task, in_one_file(scores=[0.3] * 100))
        assert (bad.status, bad.breach, bad.on_breach) == (CheckStatus.FAIL, False, OnBreach.HOLD)

    def test_scores_near_the_threshold_prove_nothing(self) -> None:
        result = judged(judging.task(suite("scores")), in_one_file(scores=[0.9] * 200))
        assert result.status is CheckStatus.BELOW_THRESHOLD

    def test_missing_scores_count_against_either_side(self) -> None:
        task = judging.task(suite("scores", limit={"minGoodRatio": 0.8}))
        window = Window(0, Counts(0, 0), missing=40, scores=(0.95,) * 100)
        result = judged(task, [window, *in_one_file()[1:]])
        assert (result.status, result.reason) == (CheckStatus.INCONCLUSIVE, Reason.MISSING_TOO_MANY)


class TestPairs:
    """Only pairs that differ say something; the limit is one half where the contract says nothing."""

    @pytest.mark.parametrize(
        ("wins", "losses", "status"),
        [
            (70, 10, CheckStatus.PASS),
            (10, 70, CheckStatus.FAIL),
            (40, 40, CheckStatus.BELOW_THRESHOLD),
            (8, 0, CheckStatus.BELOW_THRESHOLD),
            (0, 0, CheckStatus.INCONCLUSIVE),
        ],
    )
    def test_wins_against_losses(self, wins: int, losses: int, status: CheckStatus) -> None:
        task = judging.task(suite("paired", limit=None))
        result = judged(task, in_one_file(pairs=(wins, losses)))
        assert (result.status, result.breach) == (status, False)
        assert result.threshold == 0.5


class TestBurnRate:
    def test_the_limit_follows_from_objective_and_burn(self) -> None:
        evidence = {"source": "p", "bad": ["bad"], "total": ["all"], "objective": 0.99, "maxBurn": 5}
        task = judging.task(
            judging.check(limit=None, evidence=[{"stages": ["Canary"], "burnRate": evidence}])
            | {"limit": None}
        )
        assert task.terms.limit == 0.05
        assert task.terms.threshold == 0.95
        broken = judging.judged(task, judging.windows(20, (40, 200)))
        assert (broken.status, broken.reason, broken.breach) == (
            CheckStatus.FAIL,
            Reason.BREACH_ABSOLUTE,
            True,
        )
        fine = judging.judged(task, judging.windows(40, (2, 200)), END)
        assert fine.status is CheckStatus.PASS


class TestValue:
    def task(self, **fields: Any) -> CheckTask:
        value = {"source": "p", "query": "max(heap{$arm})", "max": 100.0, "minWindows": 5} | fields
        given = judging.check(evidence=[{"stages": ["Canary"], "value": value}])
        return judging.task({key: own for key, own in given.items() if key != "limit"})

    def read(self, values: Iterable[float | Fault]) -> list[Window]:
        return [
            Window(n, Counts(0, 0), fault=v) if isinstance(v, Fault) else Window(n, Counts(0, 0), value=v)
            for n, v in enumerate(values)
        ]

    def test_three_readings_outside_in_a_row_are_a_breach(self) -> None:
        result = judging.judged(self.task(), self.read([90, 120, 120, 90, 120, 120, 120]))
        assert (result.status, result.reason, result.breach) == (CheckStatus.FAIL, Reason.VALUE_OUTSIDE, True)
        assert result.on_breach is OnBreach.ROLLBACK
        two = judging.judged(self.task(), self.read([90, 120, 120, 90, 120, 120]))
        assert two.status is CheckStatus.PENDING

    def test_a_reading_that_is_missing_breaks_the_row(self) -> None:
        result = judging.judged(self.task(), self.read([120, 120, judging.OUTAGE, 120, 120]))
        assert result.status is CheckStatus.PENDING

    def test_a_value_of_both_arms_never_rolls_back(self) -> None:
        result = judging.judged(self.task(scope="Workload"), self.read([120] * 3))
        assert (result.status, result.on_breach) == (CheckStatus.FAIL, OnBreach.HOLD)

    def test_it_passes_once_the_newest_readings_are_all_inside_and_duration_is_over(self) -> None:
        inside = self.read([90.0] * 21)
        assert judging.judged(self.task(), inside[:19]).status is CheckStatus.PENDING
        assert judging.judged(self.task(), inside).status is CheckStatus.PASS
        late = self.read([90.0] * 36 + [120.0] + [90.0] * 3)
        assert judging.judged(self.task(minWindows=30), late, END).status is CheckStatus.PASS
        outside = self.read([90.0, 120.0] * 20)
        assert judging.judged(self.task(), outside, END).status is CheckStatus.BELOW_THRESHOLD

    def test_readings_nearer_than_the_spacing_count_once(self) -> None:
        result = judging.judged(self.task(spacing="60s"), self.read([120] * 5))
        # Windows end at 30, 60, 90, 120, 150 s: those at 30, 90 and 150 count.
        assert result.samples == 3
        assert result.status is CheckStatus.FAIL
        assert judging.judged(self.task(spacing="60s"), self.read([120] * 4)).status is CheckStatus.PENDING

    def test_no_reading_is_never_a_pass(self) -> None:
        for values in ([], [math.nan] * 40, [math.inf] * 40, [judging.OUTAGE] * 40):
            result = judging.judged(self.task(), self.read(values), END)
            assert result.status is CheckStatus.INCONCLUSIVE, values[:1]

    def test_too_many_missing_readings_are_no_pass(self) -> None:
        values: list[float | Fault] = [90.0, 90.0, judging.OUTAGE] * 10 + [90.0] * 10
        result = judging.judged(self.task(), self.read(values), END)
        assert result.status is CheckStatus.BELOW_THRESHOLD


class TestConfidence:
    def test_more_confidence_asks_for_more(self) -> None:
        usual, strict = (judging.task(judging.sampled(confidence=c)) for c in (0.95, 0.99))
        assert strict.terms.n_min > usual.terms.n_min
        assert strict.terms.planned > usual.terms.planned
        assert strict.terms.log_e_pass > usual.terms.log_e_pass
        given = [Window(0, Counts(294, 21)), *in_one_file()[1:]]
        assert judged(usual, given).status is CheckStatus.PASS
        assert judged(strict, given).status is CheckStatus.BELOW_THRESHOLD

    def test_a_family_shares_its_chance(self) -> None:
        task = judging.task(judging.sampled(), attempts={"errorBudget": "Family"})
        assert task.terms.z == pytest.approx(2.394, abs=1e-3)
        assert task.terms.log_e_pass == pytest.approx(math.log(120))
        deterministic = judging.task(judging.check(), attempts={"errorBudget": "Family"})
        assert deterministic.terms.z == pytest.approx(1.96, abs=1e-3)

    def test_a_judge_that_errs_raises_the_threshold(self) -> None:
        calibration = {"passedGood": 190, "failedGood": 10, "passedBad": 20, "failedBad": 80}
        task = judging.task(judging.sampled(calibration=calibration, limit={"minGoodRatio": 0.8}))
        assert task.terms.threshold > 0.8
        result = judged(task, [Window(0, Counts(270, 45)), *in_one_file()[1:]])
        assert result.threshold == 0.8, "what the contract says"
        assert result.statistics is not None
        assert result.statistics.threshold_adjusted == pytest.approx(task.terms.threshold, abs=1e-6)
        assert result.status is not CheckStatus.PASS
        assert judged(judging.task(judging.sampled(limit={"minGoodRatio": 0.8})), [
            Window(0, Counts(270, 45)), *in_one_file()[1:]
        ]).status is CheckStatus.PASS  # fmt: skip


class TestSpending:
    def task(self, **fields: Any) -> CheckTask:
        spending = {"looks": 5, "function": "Pocock"}
        return judging.task(judging.sampled(spending=spending, plannedSamples=100, minSamples=40) | fields)

    def test_looks_come_by_the_schedule_with_exact_limits(self) -> None:
        """Reference: n = 20, 40, 60, 80, 100 against 0.9 with Pocock needs 21, 40, 59, 78, 96."""
        windows = [Window(n, Counts(4, 0)) for n in range(LAST)]
        clean = judge(self.task(), CheckEvidence(tuple(windows)), END)
        assert clean.status is CheckStatus.PASS
        one_bad = [Window(0, Counts(3, 1)), *windows[1:]]
        assert judge(self.task(), CheckEvidence(tuple(one_bad)), END).status is CheckStatus.PASS
        five_bad = [Window(n, Counts(3, 1)) if n % 5 == 0 else windows[n] for n in range(25)]
        rest = [Window(n, Counts(0, 0)) for n in range(25, LAST)]
        failed = judge(self.task(), CheckEvidence((*five_bad, *rest)), END)
        assert failed.status is CheckStatus.BELOW_THRESHOLD
        assert failed.statistics is not None
        assert (failed.statistics.s, failed.statistics.n, failed.statistics.ticket_used) == (95, 100, True)


class TestAsked:
    def test_what_was_judged_already_is_given_again(self) -> None:
        before = judged(judging.task(judging.sampled()), [Window(0, Counts(200, 60)), *in_one_file()[1:]])
        task = judging.task(judging.sampled())
        again = CheckTask(task.check, task.contract, task.stage, 10, True, cached=before)
        assert judged(again, [Window(0, Counts(400, 0))]) is before

    def test_a_pooled_check_waits_for_the_last_gate(self) -> None:
        pooled = judging.check(pool="Rollout")
        task = judging.task(pooled)
        early = CheckTask(task.check, task.contract, task.stage, 10, True, last_gate=False)
        assert early.require is Require.NO_BREACH
        clean = judging.windows(40, (0, 100))
        assert judging.judged(early, clean, END).status is CheckStatus.NOT_PROVEN
        assert judging.judged(task, clean, END).status is CheckStatus.PASS

    def test_at_the_last_gate_the_steps_before_count_and_this_one_must_keep_the_limit_itself(self) -> None:
        task = judging.task(judging.check(pool="Rollout", limit={"maxBadRatio": 0.01}))
        before = tuple(judging.windows(40, (0, 50)))
        last = CheckTask(task.check, task.contract, task.stage, 10, True, earlier=before)
        alone = judging.windows(40, (0, 5))
        assert judging.judged(task, alone, END).status is CheckStatus.BELOW_THRESHOLD
        assert judging.judged(last, alone, END).status is CheckStatus.PASS
        worse = judging.windows(1, (4, 5)) + judging.windows(39, (0, 5), start=1)
        hidden = judging.judged(last, worse, END)
        assert hidden.status is CheckStatus.BELOW_THRESHOLD
        assert hidden.statistics is not None
        assert hidden.statistics.step_bad_ratio == pytest.approx(0.02)

    def test_a_breach_that_no_step_shows_alone_is_found_over_the_rollout(self) -> None:
        task = judging.task(judging.check(pool="Rollout"))
        before = tuple(judging.windows(40, (9, 100), stable=(0, 500)))
        last = CheckTask(task.check, task.contract, task.stage, 10, True, earlier=before)
        now = judging.windows(4, (9, 100))
        assert judging.judged(task, now).status is CheckStatus.PENDING
        found = judging.judged(last, now)
        assert (found.status, found.reason, found.breach) == (CheckStatus.FAIL, Reason.BREACH_ABSOLUTE, True)
