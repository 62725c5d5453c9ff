"""One check at one gate: what its result is, and when (statistics.md R2, R3)."""

import math

import pytest

from gatewright_analysis.evidence.model import Counts, PodFacts, Window
from gatewright_analysis.judge import CheckEvidence, judge
from gatewright_analysis.kinds.contract import Stage
from gatewright_analysis.reasons import Reason
from gatewright_analysis.task import Bounds, CheckTask, Prior, count_e_processes
from gatewright_analysis.verdict import CheckResult, CheckStatus
from tests.judging import (
    OUTAGE,
    at,
    check,
    contract,
    judged,
    monitored,
    pods,
    sampled,
    task,
    ticks,
    windows,
)


def outcome(result: CheckResult) -> tuple[str, str]:
    return result.status.value, result.reason


class TestPassing:
    def test_a_flawless_canary_passes_at_duration_and_not_before(self) -> None:
        flawless = windows(20, (0, 50))
        assert outcome(judged(task(), flawless[:19])) == ("pending", "Collecting")
        assert outcome(judged(task(), flawless)) == ("pass", "Passed")

    def test_an_interim_pass_leaves_the_planned_look_unspent(self) -> None:
        result = judged(task(), windows(20, (0, 50)))
        assert result.statistics is not None
        assert not result.statistics.ticket_used
        assert result.statistics.log_e_pass is not None
        assert result.statistics.log_e_pass >= math.log(50)

    def test_too_few_requests_extend_the_gate_until_the_planned_look_at_the_last_window(self) -> None:
        slow = windows(40, (0, 2))
        assert outcome(judged(task(), slow[:39])) == ("pending", "Collecting")
        result = judged(task(), slow)
        assert outcome(result) == ("pass", "Passed"), "80 of 80 is a Wilson lower bound of 95.4 %"
        assert result.statistics is not None
        assert result.statistics.ticket_used

    def test_the_planned_look_is_taken_at_the_first_window_with_the_planned_samples(self) -> None:
        asked = task(check(plannedSamples=660))
        given = windows(40, (1, 30))
        assert not _ticket(judged(asked, given[:21])), "630 samples, but 660 are planned"
        assert _ticket(judged(asked, given[:22]))

    def test_a_spent_look_leaves_the_interim_rule_until_the_end(self) -> None:
        asked = task(check(plannedSamples=100))
        doubtful = windows(20, (1, 5 * 5))
        later = judged(asked, doubtful)
        assert outcome(later) == ("pending", "Collecting")
        assert _ticket(later)
        assert "planned look is spent" in later.message
        assert outcome(judged(asked, [*doubtful, *windows(20, (0, 25), start=20)])) == ("pass", "Passed")

    def test_a_drifted_tail_does_not_pass(self) -> None:
        drifted = [*windows(13, (0, 50)), *windows(7, (4, 50), start=13)]
        then = judged(task(), drifted)
        assert then.ci_lower is not None
        assert then.ci_lower >= 0.95, "on the whole it is good enough"
        assert then.status is CheckStatus.PENDING
        result = judged(task(), [*drifted, *windows(20, (3, 50), start=20)])
        assert outcome(result) == ("below_threshold", "DriftedTail")

    def test_evidence_that_was_enough_before_duration_must_be_enough_then(self) -> None:
        early = windows(15, (0, 50))
        worse = windows(5, (9, 50), stable=(40, 500), start=15)
        assert judged(task(), [*early, *worse]).status is CheckStatus.PENDING

    def test_below_eighty_percent_the_interim_rule_asks_for_a_hundred_to_one(self) -> None:
        assert task(check(limit={"minGoodRatio": 0.8})).terms.log_e_pass == pytest.approx(math.log(50))
        assert task(check(limit={"minGoodRatio": 0.79})).terms.log_e_pass == pytest.approx(math.log(100))

    @pytest.mark.parametrize(("ratio", "least"), [(0.01, 381), (0.05, 73), (0.2, 40)])
    def test_least_samples_follow_from_the_limit_and_are_never_below_forty(
        self, ratio: float, least: int
    ) -> None:
        assert task(check(limit={"maxBadRatio": ratio})).terms.min_samples == least

    def test_a_gate_that_its_windows_do_not_divide_still_has_a_last_look(self) -> None:
        bounds = Bounds(duration=100, max_duration=100, window=30)
        monitor = monitored(task(), windows(3, (0, 400)), bounds)
        assert monitor.find(at(95, duration=100, max_duration=100)).status is CheckStatus.PENDING
        assert monitor.find(at(100, duration=100, max_duration=100)).status is CheckStatus.PASS

    def test_windows_after_the_deadline_pass_nothing(self) -> None:
        assert outcome(judged(task(), [*windows(40, (0, 1)), *windows(40, (0, 500), start=40)])) == (
            "below_threshold",
            "LowTraffic",
        )


def _ticket(result: CheckResult) -> bool:
    assert result.statistics is not None
    return result.statistics.ticket_used


class TestBreach:
    def test_a_canary_over_the_limit_is_convicted_while_stable_keeps_it(self) -> None:
        result = judged(task(), windows(8, (10, 50)))
        assert outcome(result) == ("fail", "BreachAbsolute")
        assert result.breach
        assert result.on_breach == "Rollback"

    def test_one_bad_window_convicts_nobody(self) -> None:
        burst = [*windows(10, (0, 50)), *windows(1, (50, 50), start=10), *windows(1, (0, 50), start=11)]
        assert judged(task(), burst).status is CheckStatus.PENDING

    def test_a_breach_stays_proven_when_the_canary_recovers(self) -> None:
        result = judged(task(), [*windows(8, (10, 50)), *windows(32, (0, 500), start=8)])
        assert outcome(result) == ("fail", "BreachAbsolute")

    def test_a_breach_after_an_early_pass_convicts_all_the_same(self) -> None:
        passed = windows(20, (0, 50))
        assert outcome(judged(task(), passed)) == ("pass", "Passed")
        result = judged(task(), [*passed, *windows(12, (40, 50), start=20)])
        assert outcome(result) == ("fail", "BreachAbsolute")

    def test_a_breach_after_the_deadline_convicts_all_the_same(self) -> None:
        result = judged(task(), [*windows(40, (0, 1)), *windows(10, (40, 50), start=40)], at(1500))
        assert outcome(result) == ("fail", "BreachAbsolute")
        assert result.samples == 540, "told with all that led to it"

    def test_when_stable_breaks_the_limit_too_it_is_a_shared_outage_and_no_breach(self) -> None:
        result = judged(task(), windows(8, (10, 50), stable=(100, 500)))
        assert outcome(result) == ("fail", "SharedOutage")
        assert not result.breach
        assert result.on_breach == "Hold"

    def test_stable_is_judged_over_the_whole_step_not_over_its_last_windows(self) -> None:
        outage = windows(6, (30, 50), stable=(300, 500))
        after = windows(12, (3, 50), stable=(0, 500), start=6)
        assert outcome(judged(task(), [*outage, *after])) == ("fail", "SharedOutage")

    def test_stable_without_requests_excludes_no_shared_cause(self) -> None:
        assert outcome(judged(task(), windows(8, (10, 50), stable=(0, 0)))) == ("fail", "SharedOutage")

    def test_in_bake_the_absolute_limit_convicts_alone(self) -> None:
        asked = task(stage=Stage.BAKE, has_stable=False)
        assert outcome(judged(asked, windows(8, (10, 50), stable=None))) == ("fail", "BreachAbsolute")

    def test_worse_than_stable_convicts_below_the_absolute_limit(self) -> None:
        given = windows(20, (8, 400), stable=(2, 1200))
        assert outcome(judged(task(), given)) == ("pass", "Passed"), "2 % is within the limit of 5 %"
        result = judged(task(check(versusStable={})), given)
        assert outcome(result) == ("fail", "BreachTwoArm")
        assert result.statistics is not None
        assert result.statistics.log_e_two_arm is not None
        assert result.statistics.log_e_two_arm >= math.log(1000)

    def test_an_increase_below_the_least_one_convicts_nobody(self) -> None:
        given = windows(20, (8, 400), stable=(2, 1200))
        asked = task(check(versusStable={"minIncrease": 0.02}))
        assert outcome(judged(asked, given)) == ("pass", "Passed")

    def test_an_outage_of_both_arms_convicts_nobody_by_comparison(self) -> None:
        given = windows(20, (30, 50), stable=(300, 500))
        assert outcome(judged(task(check(versusStable={})), given)) == ("fail", "SharedOutage")

    def test_the_threshold_grows_with_the_number_of_processes(self) -> None:
        given = windows(3, (8, 50))
        assert outcome(judged(task(e_processes=1), given)) == ("fail", "BreachAbsolute")
        assert judged(task(e_processes=10**6), given).status is CheckStatus.PENDING

    def test_a_check_that_holds_shows_its_breach_all_the_same(self) -> None:
        result = judged(task(check(onBreach="Hold")), windows(8, (10, 50)))
        assert (result.status, result.breach, result.on_breach) == (CheckStatus.FAIL, True, "Hold")

    def test_faulted_windows_convict_nobody(self) -> None:
        given = windows(10, (50, 50), fault=OUTAGE)
        assert judged(task(), given).status is CheckStatus.PENDING


class TestTotalFailure:
    def test_a_canary_that_fails_everything_goes_after_fifteen_seconds(self) -> None:
        quiet = ticks(-45, 0, (0, 10))
        failing = ticks(5, 15, (10, 10))
        asked = task()
        assert judged(asked, ticks=[*quiet, *failing[:2]]).status is CheckStatus.PENDING
        result = judged(asked, ticks=[*quiet, *failing])
        assert outcome(result) == ("fail", "TotalFailure")
        assert result.breach
        assert result.samples == 30
        assert "100 % of 30 requests" in result.message

    def test_a_failure_that_begins_late_is_found_as_fast(self) -> None:
        given = [*ticks(-45, 300, (0, 10)), *ticks(305, 315, (10, 10))]
        assert outcome(judged(task(), ticks=given)) == ("fail", "TotalFailure")

    def test_a_failure_shorter_than_for_is_tolerated(self) -> None:
        given = [*ticks(-45, 100, (0, 10)), *ticks(105, 110, (10, 10)), *ticks(115, 130, (0, 10))]
        assert judged(task(), ticks=given).status is CheckStatus.PENDING

    def test_a_tick_below_the_ratio_breaks_the_run(self) -> None:
        given = [*ticks(-45, 5, (10, 10)), *ticks(10, 10, (4, 10)), *ticks(15, 20, (10, 10))]
        assert judged(task(), ticks=given).status is CheckStatus.PENDING

    def test_fewer_than_twenty_requests_prove_nothing(self) -> None:
        assert judged(task(), ticks=ticks(-45, 15, (6, 6))).status is CheckStatus.PENDING
        assert judged(task(), ticks=ticks(-45, 15, (7, 7))).status is CheckStatus.FAIL

    def test_stable_failing_a_quarter_as_much_is_the_edge(self) -> None:
        assert judged(task(), ticks=ticks(-45, 15, (10, 10), (25, 100))).status is CheckStatus.FAIL
        assert judged(task(), ticks=ticks(-45, 15, (10, 10), (26, 100))).status is CheckStatus.PENDING

    def test_an_outage_of_stable_one_window_before_counts_against_it(self) -> None:
        before = ticks(-45, -5, (10, 10), (90, 100))
        given = [*before, *ticks(0, 15, (10, 10), (0, 100))]
        assert judged(task(), ticks=given).status is CheckStatus.PENDING

    def test_an_outage_of_both_arms_that_has_just_begun_is_not_thinned_out_by_the_time_before(self) -> None:
        before = ticks(-45, 0, (0, 10), (0, 100))
        given = [*before, *ticks(5, 15, (10, 10), (60, 100))]
        longer = sum(60 for _ in range(3)) / (3 * 100 + 6 * 100)
        assert longer < 0.25, "over one window more stable seems to keep a quarter"
        assert judged(task(), ticks=given).status is CheckStatus.PENDING

    def test_without_a_stable_arm_it_takes_twice_as_long(self) -> None:
        asked = task(has_stable=False, stage=Stage.BAKE)
        given = ticks(-30, 30, (10, 10), None)
        assert judged(asked, ticks=given[:-1]).status is CheckStatus.PENDING
        assert outcome(judged(asked, ticks=given)) == ("fail", "TotalFailure")

    def test_what_the_canary_did_before_t0_does_not_count(self) -> None:
        given = ticks(-60, 10, (10, 10))
        assert judged(task(), ticks=given).status is CheckStatus.PENDING

    def test_ticks_that_do_not_reach_back_far_enough_judge_nothing(self) -> None:
        assert judged(task(), ticks=ticks(90, 115, (10, 10))).status is CheckStatus.PENDING

    def test_a_limit_above_the_ratio_is_the_contracts_word(self) -> None:
        asked = task(check(limit={"maxBadRatio": 0.8}))
        assert judged(asked, ticks=ticks(-45, 15, (14, 20))).status is CheckStatus.PENDING
        assert judged(asked, ticks=ticks(-45, 15, (18, 20))).status is CheckStatus.FAIL

    def test_overlapping_ticks_of_several_looks_give_the_answer_of_one(self) -> None:
        given = [*ticks(-45, 100, (0, 10)), *ticks(105, 130, (10, 10))]
        monitor = monitored(task(), [])
        for first in range(0, len(given), 2):
            monitor.add_ticks(tuple(given[max(0, first - 10) : first + 2]))
        assert monitor.find(at(130)) == monitored_with(given).find(at(130))
        assert monitor.find(at(130)).reason is Reason.TOTAL_FAILURE

    def test_where_only_windows_are_known_two_in_a_row_are_enough(self) -> None:
        asked = task(check(limit={"maxBadRatio": 0.3}), by_windows=True, e_processes=10**9)
        given = [*windows(3, (0, 12)), *windows(2, (8, 12), start=3)]
        assert judged(asked, given[:4]).status is CheckStatus.PENDING
        assert outcome(judged(asked, given)) == ("fail", "TotalFailure")

    def test_the_earliest_proof_gives_the_reason_whatever_came_first(self) -> None:
        given = [*ticks(-45, 60, (0, 10)), *ticks(65, 240, (10, 10))]
        monitor = monitored(task(), windows(8, (10, 50)))
        assert monitor.find(at(240)).reason is Reason.BREACH_ABSOLUTE
        monitor.add_ticks(tuple(given))
        assert monitor.find(at(240)).reason is Reason.TOTAL_FAILURE, "proven at 80 s, E⁻ came later"


def monitored_with(given: list) -> object:
    monitor = monitored(task(), [])
    monitor.add_ticks(tuple(given))
    return monitor


class TestFaults:
    def test_no_evidence_at_all_is_inconclusive_at_the_deadline(self) -> None:
        assert outcome(judged(task(), [], at(1199))) == ("pending", "Collecting")
        assert outcome(judged(task(), [], at(1200))) == ("inconclusive", "NoData")

    def test_a_canary_without_requests_is_inconclusive(self) -> None:
        assert outcome(judged(task(), windows(40, (0, 0)))) == ("inconclusive", "NoData")

    def test_a_source_that_is_down_is_named(self) -> None:
        result = judged(task(), windows(10, (0, 50)), at(310), fault=OUTAGE)
        assert outcome(result) == ("pending", "Collecting")
        assert "the source does not answer" in result.message
        at_end = judged(task(), windows(10, (0, 50)), at(1200), fault=OUTAGE)
        assert outcome(at_end) == ("inconclusive", "SourceUnreachable")

    def test_a_pass_needs_a_usable_window(self) -> None:
        given = [*windows(19, (0, 50)), *windows(1, (0, 0), start=19, fault=OUTAGE)]
        assert judged(task(), given).status is CheckStatus.PENDING
        assert judged(task(), [*given, *windows(1, (0, 50), start=20)]).status is CheckStatus.PASS

    def test_losing_more_than_a_fifth_of_the_windows_passes_nothing(self) -> None:
        fifth = [*windows(4, (0, 0), fault=OUTAGE), *windows(16, (0, 50), start=4)]
        more = [*windows(5, (0, 0), fault=OUTAGE), *windows(15, (0, 50), start=5)]
        assert judged(task(), fifth).status is CheckStatus.PASS
        assert judged(task(), more).status is CheckStatus.PENDING

    def test_lost_windows_at_the_deadline_are_inconclusive_with_their_reason(self) -> None:
        given = [*windows(9, (0, 0), fault=OUTAGE), *windows(31, (0, 50), start=9)]
        asked = task()
        bounds = Bounds(1200, 1200, 30)
        result = monitored(asked, given, bounds).result(at(1200, duration=1200))
        assert outcome(result) == ("inconclusive", "SourceUnreachable")

    def test_a_fault_in_the_last_window_is_inconclusive_and_spends_no_look(self) -> None:
        given = [*windows(39, (0, 2)), *windows(1, (0, 0), start=39, fault=OUTAGE)]
        result = judged(task(), given)
        assert outcome(result) == ("inconclusive", "SourceUnreachable")
        assert not _ticket(result)

    def test_windows_that_were_never_read_count_as_lost(self) -> None:
        gap = [*windows(10, (0, 50)), *windows(5, (0, 50), start=16)]
        assert judged(task(), [*gap, *windows(1, (0, 50), start=21)]).status is CheckStatus.PENDING
        assert monitored(task(), gap).next_index == 21

    def test_a_window_cannot_be_given_twice(self) -> None:
        monitor = monitored(task(), windows(3, (0, 50)))
        with pytest.raises(ValueError, match="append-only"):
            monitor.add(windows(1, (0, 50), start=2)[0])

    def test_the_last_window_may_be_on_its_way_for_two_windows(self) -> None:
        given = windows(39, (0, 2))
        assert judged(task(), given, at(1259), window_pending=True).status is CheckStatus.PENDING
        assert judged(task(), given, at(1260), window_pending=True).status is CheckStatus.INCONCLUSIVE

    def test_more_than_five_percent_missing_is_inconclusive(self) -> None:
        asked = task(sampled())
        few = judged(asked, windows(40, (0, 19), missing=1))
        assert few.status is CheckStatus.PASS
        result = judged(asked, windows(40, (0, 18), missing=1))
        assert outcome(result) == ("inconclusive", "MissingTooMany")

    def test_missing_verdicts_count_against_either_side(self) -> None:
        result = judged(task(sampled()), [Window(0, Counts(95, 3), missing=2)])
        assert result.ci_lower == pytest.approx(0.888250, abs=1e-6)
        assert result.ci_upper == pytest.approx(0.989745, abs=1e-6)

    def test_a_check_without_evidence_at_this_stage_is_inconclusive(self) -> None:
        result = judged(task(sampled(), stage=Stage.BAKE), [], at(10))
        assert outcome(result) == ("inconclusive", "NoEvidenceForStage")


class TestSampled:
    def test_good_samples_pass_early(self) -> None:
        assert outcome(judged(task(sampled()), windows(20, (0, 20)))) == ("pass", "Passed")

    def test_bad_samples_fail_early_and_are_no_breach(self) -> None:
        result = judged(task(sampled()), windows(5, (10, 20)))
        assert outcome(result) == ("fail", "FailedThreshold")
        assert not result.breach
        assert result.on_breach == "Hold"

    def test_the_planned_look_is_the_last_word(self) -> None:
        asked = task(sampled())
        doubtful = windows(20, (2, 20))
        result = judged(asked, doubtful)
        assert outcome(result) == ("below_threshold", "BelowThreshold")
        assert outcome(judged(asked, [*doubtful, *windows(20, (0, 200), start=20)])) == outcome(result)

    def test_the_planned_look_proves_a_miss_by_the_upper_bound(self) -> None:
        asked = task(sampled(plannedSamples=400))
        result = judged(asked, windows(20, (3, 20)))
        assert result.ci_upper is not None
        assert result.ci_upper < 0.9
        assert outcome(result) == ("fail", "FailedThreshold")

    def test_after_a_spent_look_more_samples_pass_by_evidence_alone(self) -> None:
        first = Prior(tuple(windows(20, (2, 20))), ticket_used=True)
        asked = task(sampled(), prior=(first,))
        enough_for_wilson = judged(asked, windows(40, (1, 15)))
        assert enough_for_wilson.ci_lower is not None
        assert enough_for_wilson.ci_lower >= 0.9
        assert outcome(enough_for_wilson) == ("below_threshold", "BelowThreshold")
        assert judged(asked, windows(40, (0, 40))).status is CheckStatus.PASS

    def test_total_failure_does_not_touch_a_sampled_check(self) -> None:
        assert judged(task(sampled()), ticks=ticks(-45, 60, (10, 10))).status is CheckStatus.PENDING


class TestRetry:
    def test_evidence_of_earlier_attempts_counts(self) -> None:
        first = Prior(tuple(windows(40, (0, 1))), ticket_used=False)
        result = judged(task(prior=(first,)), windows(40, (0, 1)))
        assert outcome(result) == ("pass", "Passed")
        assert result.samples == 80
        assert result.statistics is not None
        assert result.statistics.attempts == 2

    def test_a_look_that_was_spent_is_spent_for_the_next_attempt(self) -> None:
        given = windows(40, (0, 1))
        unspent = judged(task(prior=(Prior(tuple(given), ticket_used=False),)), given)
        spent = judged(task(prior=(Prior(tuple(given), ticket_used=True),)), given)
        assert unspent.status is CheckStatus.PASS
        assert outcome(spent) == ("below_threshold", "BelowThreshold"), "80 of 80 is not yet fifty to one"

    def test_an_attempt_without_a_request_of_its_own_passes_nothing(self) -> None:
        first = Prior(tuple(windows(20, (0, 50))), ticket_used=False)
        assert outcome(judged(task(prior=(first,)), windows(40, (0, 0)))) == ("inconclusive", "NoData")

    def test_a_canary_that_is_clean_now_is_not_convicted_for_an_earlier_attempt_alone(self) -> None:
        first = Prior(tuple(windows(8, (10, 50))), ticket_used=False)
        asked = task(prior=(first,))
        assert judged(asked, windows(3, (0, 50))).status is CheckStatus.PENDING
        assert outcome(judged(asked, windows(2, (10, 50)))) == ("fail", "BreachAbsolute")


class TestNoBreach:
    def test_forty_requests_without_a_breach_are_enough_and_shown_as_not_proven(self) -> None:
        asked = task(check(require="NoBreach", limit={"maxBadRatio": 0.01}))
        result = judged(asked, windows(20, (0, 2)))
        assert outcome(result) == ("not_proven", "NotProven")
        assert "exclude only about" in result.message

    def test_fewer_than_forty_wait_and_then_are_too_little_traffic(self) -> None:
        asked = task(check(require="NoBreach"))
        few = [*windows(39, (0, 1)), *windows(1, (0, 0), start=39)]
        assert judged(asked, few[:20]).status is CheckStatus.PENDING
        assert outcome(judged(asked, few)) == ("below_threshold", "LowTraffic")

    def test_what_can_be_proven_is_shown_as_passed(self) -> None:
        assert judged(task(check(require="NoBreach")), windows(20, (0, 50))).status is CheckStatus.PASS

    def test_a_breach_is_a_breach(self) -> None:
        assert judged(task(check(require="NoBreach")), windows(8, (10, 50))).breach


READY = PodFacts(expected=2, ready=2, restarts=0)


class TestPods:
    def judged(
        self, facts: PodFacts | None, now: float = 600, given: dict | None = None, fault: object = None
    ) -> CheckResult:
        asked = task(given or pods())
        return judge(asked, CheckEvidence(pods=facts, fault=fault), at(now))  # type: ignore[arg-type]  # a test's shorthand

    def test_pods_that_were_ready_throughout_pass_at_duration(self) -> None:
        assert self.judged(READY, 599).status is CheckStatus.PENDING
        assert outcome(self.judged(READY)) == ("pass", "Passed")

    def test_a_crash_loop_is_a_breach_at_once(self) -> None:
        facts = PodFacts(expected=2, ready=1, restarts=1, failing=("shop-canary-1/app",))
        result = self.judged(facts, 5)
        assert outcome(result) == ("fail", "PodFailure")
        assert result.breach
        assert "shop-canary-1/app" in result.message

    def test_two_restarts_above_the_allowed_are_a_breach_and_one_is_not(self) -> None:
        given = pods(pods={"maxRestarts": 1})
        assert self.judged(PodFacts(2, 2, 3), 5, given).breach
        once = self.judged(PodFacts(2, 2, 2), 1200, given)
        assert outcome(once) == ("below_threshold", "PodsNotReady")
        assert self.judged(PodFacts(2, 2, 1), 600, given).status is CheckStatus.PASS

    def test_trouble_of_the_infrastructure_is_never_the_versions(self) -> None:
        trouble = PodFacts(2, 0, 0, infrastructure=OUTAGE, ready_throughout=False)
        assert self.judged(trouble, 30).status is CheckStatus.PENDING
        result = self.judged(trouble, 1200)
        assert outcome(result) == ("inconclusive", "SourceUnreachable")
        assert not result.breach

    def test_pods_that_were_not_ready_once_do_not_pass(self) -> None:
        facts = PodFacts(2, 2, 0, ready_throughout=False)
        assert self.judged(facts, 900).status is CheckStatus.PENDING
        assert outcome(self.judged(facts, 1200)) == ("below_threshold", "PodsNotReady")

    def test_pods_that_were_not_read_are_inconclusive_at_the_deadline(self) -> None:
        assert self.judged(None, 30).status is CheckStatus.PENDING
        assert outcome(self.judged(None, 1200)) == ("inconclusive", "NoData")
        assert outcome(self.judged(READY, 1200, fault=OUTAGE)) == ("inconclusive", "SourceUnreachable")

    def test_no_pods_at_all_pass_nothing(self) -> None:
        assert self.judged(PodFacts(0, 0, 0), 1200).status is CheckStatus.BELOW_THRESHOLD

    def test_no_breach_is_satisfied_with_ready_pods(self) -> None:
        facts = PodFacts(2, 2, 0, ready_throughout=False)
        assert self.judged(facts, 600, pods(require="NoBreach")).status is CheckStatus.NOT_PROVEN


class TestNumbers:
    def test_every_number_is_finite(self) -> None:
        result = judged(task(check(limit={"maxBadRatio": 0.1})), windows(20, (500, 500)))
        assert result.statistics is not None
        assert result.statistics.log_e_pass == -999.0
        assert "Infinity" not in result.model_dump_json()
        assert "NaN" not in result.model_dump_json()

    def test_statistics_hold_what_the_result_rests_on(self) -> None:
        result = judged(task(check(versusStable={})), windows(10, (1, 50), stable=(4, 500)))
        numbers = result.statistics
        assert numbers is not None
        assert (numbers.s, numbers.f, numbers.n) == (490, 10, 500)
        assert (numbers.stable_s, numbers.stable_f) == (4960, 40)
        assert (numbers.windows, numbers.bad_windows) == (10, 0)
        assert (numbers.planned_n, numbers.n_min) == (660, 73)
        assert numbers.breach_threshold == pytest.approx(math.log(1000), abs=1e-6)
        assert numbers.phi == 1.0
        assert numbers.tail_bad_ratio == pytest.approx(0.02)
        assert result.score == pytest.approx(0.98)
        assert result.ci_lower == numbers.lb

    def test_limits_survive_the_rounding_of_one_minus(self) -> None:
        for ratio in (0.1, 0.05, 0.01, 0.001, 0.3):
            terms = task(check(limit={"minGoodRatio": 1 - ratio})).terms
            assert terms.limit == ratio

    def test_a_ratio_exactly_at_the_limit_is_not_above_it(self) -> None:
        result = judged(task(check(limit={"minGoodRatio": 0.9})), windows(10, (5, 50)))
        assert result.statistics is not None
        assert result.statistics.bad_windows == 0


class TestSentences:
    def message(self, asked: CheckTask, given: list[Window], now: float | None = None) -> str:
        return judged(asked, given, None if now is None else at(now)).message

    def test_waiting_says_what_is_missing_and_how_long_that_takes(self) -> None:
        text = self.message(task(sampled()), windows(10, (1, 20)))
        assert text == (
            "95 % of 200 samples passed (at least 91 % by the bound, threshold 90 %); "
            "a pass needs about 101 more samples at this ratio, 3 min at today's rate."
        )

    def test_waiting_says_when_the_gate_is_too_short(self) -> None:
        text = self.message(task(sampled()), windows(38, (0, 1)), 1170)
        assert text.endswith("2 more samples at this ratio, 60 s at today's rate, but the gate ends in 30 s.")

    def test_a_hopeless_ratio_is_said_to_be_hopeless(self) -> None:
        text = self.message(task(sampled()), windows(10, (2, 20)))
        assert text.endswith("at this ratio no number of them can pass.")

    def test_a_breach_gives_both_arms_and_the_odds(self) -> None:
        text = self.message(task(check(versusStable={})), windows(8, (4, 100), stable=(2, 500)))
        assert text.startswith("Fails more than 1.25 times as often as stable, evidence ")
        assert "(needs 1,000 : 1): 4 % of 800 requests were bad" in text
        assert text.endswith("stable over the same time: 0.4 % of 4,000 requests were bad.")

    def test_low_traffic_says_how_many_requests_are_the_least(self) -> None:
        text = self.message(task(), windows(40, (0, 1)))
        assert "too little traffic, fewer than 73 requests prove nothing" in text

    def test_latency_is_told_as_slow_requests(self) -> None:
        slow = check(
            limit={"minGoodRatio": 0.9},
            evidence=[{"stages": ["Canary"], "latency": {"source": "p", "histogram": "seconds", "le": 0.5}}],
        )
        assert self.message(task(slow), windows(2, (1, 50))).startswith(
            "98 % of 100 requests were fast enough (at least 93 % by the bound, threshold 90 %)"
        )


class TestProcesses:
    def test_they_are_counted_over_checks_gates_and_routes(self) -> None:
        spec = contract(
            check("errors", versusStable={}),
            check("slow", onBreach="Hold"),
            check("shown", require="Advisory"),
            sampled(),
            pods(),
        )
        ids = [entry.id for entry in spec.checks]
        gates = [(Stage.CANARY, ids)] * 3 + [(Stage.BAKE, ids)]
        assert count_e_processes(spec, gates, has_stable=True) == 3 * 2 + 1
        assert count_e_processes(spec, gates, has_stable=False) == 4

    def test_they_are_at_least_one(self) -> None:
        spec = contract(sampled())
        assert count_e_processes(spec, [(Stage.CANARY, ["faithfulness"])], has_stable=True) == 1
        with pytest.raises(ValueError, match="at least 1"):
            task(e_processes=0)
