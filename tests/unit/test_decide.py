"""From results to one verdict (statistics.md R3, release rule)."""

from typing import Any

import pytest

from gatewright_analysis.decide import Outcome, apply_waivers, decide
from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.kinds.contract import GateContractSpec
from gatewright_analysis.kinds.rollout import OnInconclusive
from gatewright_analysis.reasons import Reason
from gatewright_analysis.verdict import CheckResult, CheckStatus, Decision
from tests.judging import at, check, contract, pods, sampled

CONTRACT = contract(
    check("errors"),
    check("slow", onBreach="Hold"),
    check("rare", require="NoBreach"),
    check("shown", require="Advisory"),
    sampled("answers"),
    pods("ready"),
)
IDS = tuple(entry.id for entry in CONTRACT.checks)


def result(id_: str, status: str, reason: Reason = Reason.PASSED, **fields: Any) -> CheckResult:
    entry = next(entry for entry in CONTRACT.checks if entry.id == id_)
    return CheckResult(
        id=id_,
        oracle_kind=entry.oracle_kind,
        require=entry.require,
        status=CheckStatus(status),
        on_breach=CONTRACT.on_breach(entry).value,
        reason=reason,
        message=f"{id_} is {status}.",
        **fields,
    )


def good(**instead: CheckResult) -> list[CheckResult]:
    """Every check passed, but for those given by id."""
    return [instead.get(id_, result(id_, "pass")) for id_ in IDS]


def decided(results: list[CheckResult], now: float = 600, **options: Any) -> Outcome:
    return decide(results, CONTRACT, at(now), expected=options.pop("expected", IDS), **options)


def breach(id_: str, reason: Reason = Reason.BREACH_ABSOLUTE) -> CheckResult:
    return result(id_, "fail", reason, breach=True)


class TestPromote:
    def test_all_passed_and_duration_over(self) -> None:
        outcome = decided(good())
        assert (outcome.decision, outcome.reason) == (Decision.PROMOTE, Reason.ALL_CHECKS_PASSED)
        assert outcome.blocking == ()

    def test_never_before_duration(self) -> None:
        assert decided(good(), 599).decision is None

    def test_no_breach_is_enough_where_no_breach_is_asked(self) -> None:
        outcome = decided(good(rare=result("rare", "not_proven", Reason.NOT_PROVEN)))
        assert outcome.decision is Decision.PROMOTE
        assert "not proven: rare" in outcome.message

    def test_not_proven_is_not_enough_where_a_pass_is_asked(self) -> None:
        outcome = decided(good(errors=result("errors", "not_proven", Reason.NOT_PROVEN)), 1200)
        assert outcome.decision is Decision.HOLD

    @pytest.mark.parametrize("status", ["fail", "inconclusive", "error", "pending", "below_threshold"])
    def test_advisory_changes_nothing(self, status: str) -> None:
        shown = result("shown", status, Reason.BREACH_ABSOLUTE, breach=status == "fail")
        assert decided(good(shown=shown)).decision is Decision.PROMOTE

    def test_a_gate_without_a_check_that_must_pass_proves_nothing(self) -> None:
        outcome = decided([result("rare", "pass")], expected=["rare"])
        assert (outcome.decision, outcome.reason) == (Decision.HOLD, Reason.NOT_PROVEN)


class TestRollback:
    @pytest.mark.parametrize(
        "reason",
        [Reason.BREACH_ABSOLUTE, Reason.BREACH_TWO_ARM, Reason.TOTAL_FAILURE, Reason.POD_FAILURE],
    )
    def test_a_proven_breach_at_any_time(self, reason: Reason) -> None:
        outcome = decided(good(errors=breach("errors", reason)), 45)
        assert (outcome.decision, outcome.reason, outcome.blocking) == (
            Decision.ROLLBACK,
            reason,
            ("errors",),
        )

    def test_it_wins_over_a_hold(self) -> None:
        failed = result("answers", "fail", Reason.FAILED_THRESHOLD)
        assert decided(good(errors=breach("errors"), answers=failed)).decision is Decision.ROLLBACK

    def test_a_check_that_only_asks_for_no_breach_rolls_back_too(self) -> None:
        assert decided(good(rare=breach("rare"))).decision is Decision.ROLLBACK

    def test_the_gravest_breach_gives_the_reason(self) -> None:
        outcome = decided(good(errors=breach("errors"), ready=breach("ready", Reason.TOTAL_FAILURE)))
        assert outcome.reason is Reason.TOTAL_FAILURE
        assert outcome.blocking == ("errors", "ready")

    def test_never_for_a_failure_that_is_no_breach(self) -> None:
        shared = result("errors", "fail", Reason.SHARED_OUTAGE)
        outcome = decided(good(errors=shared))
        assert (outcome.decision, outcome.reason) == (Decision.HOLD, Reason.SHARED_OUTAGE)

    def test_never_for_a_sampled_check_whatever_its_result_claims(self) -> None:
        forged = result("answers", "fail", Reason.FAILED_THRESHOLD, breach=True).model_copy(
            update={"on_breach": "Rollback", "oracle_kind": "Deterministic"}
        )
        assert decided(good(answers=forged)).decision is Decision.HOLD

    def test_the_contracts_fail_mode_decides(self) -> None:
        lenient = contract(check("errors"), failMode="Hold")
        outcome = decide([breach("errors")], lenient, at(100), expected=["errors"])
        assert outcome.decision is Decision.HOLD


class TestHold:
    def test_a_breach_of_a_check_that_holds_is_a_hold_at_once(self) -> None:
        outcome = decided(good(slow=breach("slow")), 45)
        assert (outcome.decision, outcome.reason) == (Decision.HOLD, Reason.BREACH_ABSOLUTE)

    def test_a_failed_sample_is_a_hold_at_once(self) -> None:
        failed = result("answers", "fail", Reason.FAILED_THRESHOLD)
        assert decided(good(answers=failed), 45).decision is Decision.HOLD

    def test_a_judge_that_drifted_is_a_hold_at_once_also_in_a_bake(self) -> None:
        drifted = result("answers", "inconclusive", Reason.WORLD_DRIFTED)
        for rule in OnInconclusive:
            outcome = decided(good(answers=drifted), 45, on_inconclusive=rule)
            assert (outcome.decision, outcome.reason) == (Decision.HOLD, Reason.WORLD_DRIFTED)

    @pytest.mark.parametrize("status", ["inconclusive", "error"])
    def test_evidence_that_cannot_be_used_waits_for_the_deadline(self, status: str) -> None:
        results = good(errors=result("errors", status, Reason.UNREACHABLE))
        assert decided(results, 1199).decision is None
        outcome = decided(results, 1200)
        assert (outcome.decision, outcome.reason) == (Decision.HOLD, Reason.UNREACHABLE)
        assert outcome.blocking == ("errors",)

    def test_a_pending_check_may_come_a_little_late(self) -> None:
        results = good(errors=result("errors", "pending", Reason.COLLECTING))
        assert decided(results, 1259).decision is None
        assert decided(results, 1260).decision is Decision.HOLD

    def test_a_check_that_was_not_judged_is_not_passed(self) -> None:
        outcome = decided(good()[1:], 1260)
        assert (outcome.decision, outcome.reason) == (Decision.HOLD, Reason.NO_DATA)
        assert outcome.blocking == ("errors",)

    def test_no_results_at_all_are_a_hold(self) -> None:
        outcome = decided([], 5000)
        assert outcome.decision is Decision.HOLD
        assert set(outcome.blocking) == set(IDS) - {"shown"}

    def test_blocking_names_every_check_that_a_waiver_must_name(self) -> None:
        waiting = result("rare", "pending", Reason.COLLECTING)
        outcome = decided(good(slow=breach("slow"), rare=waiting), 100)
        assert outcome.blocking == ("rare", "slow")

    def test_the_sentence_says_why_what_would_change_it_and_by_when(self) -> None:
        low = result("errors", "below_threshold", Reason.LOW_TRAFFIC)
        assert decided(good(errors=low), 1200).message == (
            "errors: errors is below_threshold. A person's approval promotes it, a rejection rolls it "
            "back, a Retry gathers more evidence for this step; without either within 24 h, it stays held."
        )

    def test_the_sentence_says_when_the_timeout_rolls_back(self) -> None:
        strict = contract(check("slow", onBreach="Hold"), hold={"timeout": "1h", "onTimeout": "Rollback"})
        outcome = decide([breach("slow")], strict, at(100), expected=["slow"])
        assert outcome.message.endswith("without either within 60 min, it is rolled back.")
        shared = result("slow", "fail", Reason.SHARED_OUTAGE)
        outcome = decide([shared], strict, at(100), expected=["slow"])
        assert outcome.message.endswith("without either within 60 min, it stays held."), "not a proven breach"

    def test_a_sentence_is_never_longer_than_its_field(self) -> None:
        many = [check(f"check-{i}") for i in range(60)]
        spec = contract(*many)
        outcome = decide([], spec, at(5000), expected=[entry.id for entry in spec.checks])
        assert len(outcome.message) <= 1024


class TestBake:
    def complete(self, results: list[CheckResult], now: float = 1200) -> Outcome:
        return decided(results, now, on_inconclusive=OnInconclusive.COMPLETE)

    @pytest.mark.parametrize(
        ("status", "reason"),
        [
            ("inconclusive", Reason.NO_DATA),
            ("below_threshold", Reason.LOW_TRAFFIC),
            ("error", Reason.TIMEOUT),
        ],
    )
    def test_absence_of_data_completes_a_finished_release(self, status: str, reason: Reason) -> None:
        results = good(errors=result("errors", status, reason))
        assert self.complete(results, 1199).decision is None
        outcome = self.complete(results)
        assert (outcome.decision, outcome.reason) == (Decision.PROMOTE, Reason.NOT_PROVEN)
        assert decided(results, 1200).decision is Decision.HOLD

    def test_enough_data_that_prove_nothing_are_a_hold(self) -> None:
        doubtful = result("errors", "below_threshold", Reason.BELOW_THRESHOLD)
        assert self.complete(good(errors=doubtful)).decision is Decision.HOLD

    def test_a_breach_rolls_back(self) -> None:
        assert self.complete(good(errors=breach("errors")), 60).decision is Decision.ROLLBACK


class TestWaivers:
    def waived(self, results: list[CheckResult], *ids: str) -> list[CheckResult]:
        return list(apply_waivers(results, ids, CONTRACT))

    def test_a_waiver_replaces_a_missing_proof(self) -> None:
        results = good(errors=result("errors", "below_threshold", Reason.LOW_TRAFFIC))
        covered = self.waived(results, "errors")
        assert [entry.status for entry in covered if entry.id == "errors"] == [CheckStatus.WAIVED]
        outcome = decided(covered)
        assert (outcome.decision, outcome.reason) == (Decision.PROMOTE, Reason.WAIVED)
        assert "errors" in outcome.message

    def test_a_waiver_for_one_check_covers_no_other(self) -> None:
        results = good(
            errors=result("errors", "inconclusive", Reason.NO_DATA),
            answers=result("answers", "fail", Reason.FAILED_THRESHOLD),
        )
        outcome = decided(self.waived(results, "answers"), 1200)
        assert (outcome.decision, outcome.blocking) == (Decision.HOLD, ("errors",))

    def test_a_breach_of_a_check_that_holds_stays_waived(self) -> None:
        assert decided(self.waived(good(slow=breach("slow")), "slow")).decision is Decision.PROMOTE

    def test_a_breach_of_a_check_that_rolls_back_rolls_back_all_the_same(self) -> None:
        results = self.waived(good(errors=breach("errors")), "errors")
        assert decided(results).decision is Decision.ROLLBACK

    def test_a_waived_check_is_looked_at_as_long_as_any_other(self) -> None:
        """A waiver stands for a proof, not for the evidence: one bad window too few is no reason to go on."""
        results = self.waived(good(errors=result("errors", "pending", Reason.COLLECTING)), "errors")
        outcome = decided(results)
        assert (outcome.decision, outcome.reason) == (None, Reason.GATE_RUNNING)
        assert "errors" in outcome.message
        assert decided(results, 1300).decision is Decision.PROMOTE, "at the end the waiver counts"
        assert (
            decided(self.waived(good(errors=breach("errors")), "errors"), 900).decision is Decision.ROLLBACK
        )

    def test_what_passed_or_is_only_shown_is_left_as_it_is(self) -> None:
        results = good(shown=result("shown", "fail", Reason.BREACH_ABSOLUTE, breach=True))
        assert self.waived(results, "errors", "shown") == results


class TestMisuse:
    def test_a_result_that_is_not_expected_is_refused(self) -> None:
        with pytest.raises(ValueError, match="does not judge at this gate"):
            decided(good(), expected=["errors"])

    def test_two_results_of_one_check_are_refused(self) -> None:
        with pytest.raises(ValueError, match="judged twice"):
            decided([*good(), result("errors", "pass")])

    def test_a_check_that_the_contract_lacks_is_refused(self) -> None:
        spec: GateContractSpec = contract(check("errors"))
        with pytest.raises(ValueError, match="has no check ghost"):
            decide([], spec, at(0), expected=["ghost"])


class TestWorld:
    DRIFTED = "judge was v=3 when the attempt began and is v=4 now."
    UNKNOWN = Fault(Reason.UNREACHABLE, "judge can't be read: no connection")

    @pytest.mark.parametrize("now", [0, 300, 600, 5000])
    def test_a_drift_holds_at_once_whatever_the_checks_say(self, now: float) -> None:
        for results in (good(), good(errors=result("errors", "pending", Reason.COLLECTING)), []):
            outcome = decided(results, now, drifted=self.DRIFTED)
            assert (outcome.decision, outcome.reason) == (Decision.HOLD, Reason.WORLD_DRIFTED)
            assert outcome.message == self.DRIFTED
            assert outcome.blocking == (), "no check can be waived for it: the evidence is void"

    def test_a_proven_breach_rolls_back_drift_or_not(self) -> None:
        outcome = decided(good(errors=breach("errors")), drifted=self.DRIFTED, world_unknown=self.UNKNOWN)
        assert (outcome.decision, outcome.reason) == (Decision.ROLLBACK, Reason.BREACH_ABSOLUTE)

    @pytest.mark.parametrize("lenient", OnInconclusive)
    def test_a_drift_is_no_missing_evidence_in_a_bake(self, lenient: OnInconclusive) -> None:
        outcome = decided(good(), drifted=self.DRIFTED, on_inconclusive=lenient)
        assert outcome.decision is Decision.HOLD

    def test_an_unknown_world_is_never_a_pass(self) -> None:
        for now in (600, 1200, 1259):
            waiting = decided(good(), now, world_unknown=self.UNKNOWN)
            assert waiting.decision is None
            assert "judge can't be read" in waiting.message
        held = decided(good(), 1260, world_unknown=self.UNKNOWN)
        assert (held.decision, held.reason) == (Decision.HOLD, Reason.UNREACHABLE)
        assert held.blocking == ("answers", "errors", "rare", "ready", "slow")
        assert "judge can't be read: no connection" in held.message

    def test_an_unknown_world_does_not_stop_a_hold(self) -> None:
        stopped = good(errors=result("errors", "below_threshold", Reason.BELOW_THRESHOLD))
        outcome = decided(stopped, 600, world_unknown=self.UNKNOWN)
        assert (outcome.decision, outcome.reason) == (Decision.HOLD, Reason.BELOW_THRESHOLD)

    def test_a_bake_that_completes_without_proof_does_so_without_knowing_the_world(self) -> None:
        options = {"world_unknown": self.UNKNOWN, "on_inconclusive": OnInconclusive.COMPLETE}
        assert decided(good(), 1200, **options).decision is None
        outcome = decided(good(), 1260, **options)
        assert (outcome.decision, outcome.reason) == (Decision.PROMOTE, Reason.NOT_PROVEN)


class TestKnownBefore:
    """What the ledger knew before the gate began stops it, but keeps no other check from its evidence."""

    CACHED = result("answers", "below_threshold", Reason.BELOW_THRESHOLD, cached_from="run-1")

    def test_it_holds_once_nothing_else_waits(self) -> None:
        collecting = result("slow", "pending", Reason.COLLECTING)
        early = good(answers=self.CACHED, slow=collecting)
        assert decided(early, 30).decision is None
        assert decided(early, 1260).decision is Decision.HOLD
        done = decided(good(answers=self.CACHED))
        assert (done.decision, done.blocking) == (Decision.HOLD, ("answers",))
        assert "the order MoreSamples" in done.message

    def test_what_fails_now_is_not_waited_with(self) -> None:
        fresh = result("answers", "below_threshold", Reason.BELOW_THRESHOLD)
        collecting = result("slow", "pending", Reason.COLLECTING)
        assert decided(good(answers=fresh, slow=collecting), 30).decision is Decision.HOLD

    def test_a_breach_rolls_back_all_the_same(self) -> None:
        assert decided(good(answers=self.CACHED, errors=breach("errors")), 30).decision is Decision.ROLLBACK
