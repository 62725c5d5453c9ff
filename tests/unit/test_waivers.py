"""How far approvals reach, how many are enough, what a look adds to a HOLD, and what stands in the verdict for it."""

from datetime import UTC, datetime, timedelta

import pytest

from gatewright_analysis.growing import blocks_more
from gatewright_analysis.kinds.contract import Stage
from gatewright_analysis.kinds.run import RunWaiver
from gatewright_analysis.ledger import Waiver, granted, grants
from gatewright_analysis.names import is_person
from gatewright_analysis.reasons import Reason
from gatewright_analysis.verdict import Change, CheckResult, CheckStatus, Decision, Verdict
from gatewright_analysis.waived import under_waivers
from gatewright_operator.plan.duties import same_author
from tests.judging import check, contract

T0 = datetime(2030, 1, 1, tzinfo=UTC)
DIGEST = "sha256:" + "a" * 64
SPEC = contract(
    check("errors"),
    check("slow", onBreach="Hold"),
    check("late", onBreach="Hold"),
    check("shown", require="Advisory"),
)


def waiver(
    who: str = "reviewer-a", *, step: str = "1", through: str | None = None, hours: float = 1
) -> Waiver:
    end = T0 + timedelta(hours=hours)
    return Waiver(
        "0123456789", step, 1, "run-1", DIGEST, who, end, T0, who, ("slow",), DIGEST, through, DIGEST
    )


@pytest.mark.parametrize(
    ("through", "reached"),
    [
        (None, []),
        ("1", []),
        ("3", ["2", "3"]),
        ("Remaining", ["2", "3", "5", "bake"]),
    ],
)
def test_a_waiver_reaches_as_far_as_it_says(through: str | None, reached: list[str]) -> None:
    steps = ["0", "1", "2", "3", "5", "bake"]
    assert [step for step in steps if waiver(through=through).reaches(step)] == reached


def test_a_waiver_of_the_bake_reaches_no_further() -> None:
    assert not any(waiver(step="bake", through="Remaining").reaches(step) for step in ("2", "bake"))


def test_several_approvals_are_as_narrow_as_the_narrowest() -> None:
    two = (waiver("reviewer-a", through="Remaining", hours=1), waiver("reviewer-b", through="3", hours=2))
    whole = granted(two, 2, T0 + timedelta(minutes=1))
    assert whole is not None
    assert whole.expires_at == T0 + timedelta(hours=1)
    assert [step for step in ("2", "3", "4", "bake") if whole.reaches(step)] == ["2", "3"]
    assert granted(two, 2, T0 + timedelta(hours=1)) is None, "the first has ended, so one is left"


def test_approvals_of_other_evidence_are_not_added_up() -> None:
    one = waiver("reviewer-a")
    other = Waiver(**{f: getattr(one, f) for f in one.__slots__} | {"reviewer": "reviewer-b", "evidence_digest": "sha256:" + "b" * 64})  # fmt: skip
    assert grants((one, other), 2, T0) == ()


def result(id_: str, status: str, *, breach: bool = False) -> CheckResult:
    found = next(c for c in SPEC.checks if c.id == id_)
    return CheckResult(
        id=id_,
        oracle_kind=found.oracle_kind,
        require=found.require,
        status=CheckStatus(status),
        breach=breach,
        reason=Reason.BREACH_ABSOLUTE if breach else Reason.NO_DATA,
        message=f"it is {status}",
    )


def run_waiver(*checks: str) -> RunWaiver:
    return RunWaiver(
        review="checkout-1",
        reviewer="reviewer-a",
        checks=checks,
        evidence_digest=DIGEST,
        granted_at=T0,
        expires_at=T0 + timedelta(hours=1),
    )


def test_a_waived_check_names_its_waiver_and_what_it_came_to() -> None:
    found = [result("slow", "fail", breach=True), result("errors", "fail", breach=True)]
    slow, errors = under_waivers(found, [run_waiver("slow", "errors")], SPEC, T0)
    assert (slow.status, slow.found) == (CheckStatus.WAIVED, CheckStatus.FAIL)
    assert [e.uri for e in slow.evidence] == ["gatereviews.gatewright.dev/checkout-1"]
    assert errors.status is CheckStatus.FAIL, "a breach that rolls back is never waived"
    assert slow.without_waiver == found[0]


def test_a_waiver_that_has_ended_covers_nothing() -> None:
    found = (result("slow", "inconclusive"),)
    assert under_waivers(found, [run_waiver("slow")], SPEC, T0 + timedelta(hours=1)) == found


def held(*blocking: str, checks: tuple[CheckResult, ...] = ()) -> Verdict:
    change = Change(revision="0123456789", contract_digest=DIGEST, world_snapshot=DIGEST)
    return Verdict(
        decision=Decision.HOLD, run_id="run-1", stage=Stage.CANARY, step="1", started_at=T0, finished_at=T0,
        change=change, blocking=blocking, checks=checks, reason=Reason.NO_DATA, message="Held.",
    )  # fmt: skip


def test_a_look_that_confirms_what_blocks_changes_nothing() -> None:
    looked = [result("slow", "fail", breach=True), result("late", "pending"), result("shown", "fail")]
    assert blocks_more(looked, SPEC, held("slow")) is None


def test_a_check_that_newly_ends_badly_blocks_as_well() -> None:
    looked = [result("slow", "fail", breach=True), result("late", "fail", breach=True)]
    outcome = blocks_more(looked, SPEC, held("slow"))
    assert outcome is not None
    assert (outcome.decision, outcome.blocking) == (Decision.HOLD, ("late", "slow"))
    assert "late: it is fail" in outcome.message


def test_a_waiver_that_ends_while_held_leaves_what_it_covered_blocking() -> None:
    [covered] = under_waivers([result("late", "inconclusive")], [run_waiver("late")], SPEC, T0)
    before = held("slow", checks=(covered,))
    outcome = blocks_more([result("late", "inconclusive")], SPEC, before)
    assert outcome is not None
    assert outcome.blocking == ("late", "slow")
    assert blocks_more([covered], SPEC, before) is None


@pytest.mark.parametrize("name", ["", "system:admin", "system:serviceaccount:shop:ci"])
def test_who_is_not_proven_is_never_the_same_person(name: str) -> None:
    assert not is_person(name)
    assert not same_author(name, name)


def test_one_person_who_did_both_is_found() -> None:
    assert same_author("developer-a", "developer-a")
    assert not same_author("developer-a", "developer-b")
