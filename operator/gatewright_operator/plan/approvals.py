"""Approvals of what is held: what each must name, who has given one, and whether they are enough."""

from dataclasses import dataclass

from gatewright_analysis.kinds.review import GateReview, GateReviewSpec
from gatewright_analysis.kinds.rollout import HoldStatus
from gatewright_analysis.kinds.status import Approval
from gatewright_analysis.ledger import Waiver, people
from gatewright_analysis.names import is_person
from gatewright_analysis.reasons import Reason
from gatewright_analysis.verdict import CheckStatus, Verdict
from gatewright_analysis.waived import in_force
from gatewright_operator.plan.draft import Draft

Refusal = tuple[Reason, str]

MOST_SHOWN = 10
"""As many approvals as a status holds."""


@dataclass(frozen=True, slots=True)
class Count:
    """Who has approved exactly what is held now, and how many must."""

    given: tuple[Waiver, ...]
    """One of each person, in force now, in the order in which they were given."""
    needed: int
    lapsed: tuple[str, ...] = ()
    """Checks that an earlier waiver covered when the HOLD was given, and covers no more."""

    @property
    def enough(self) -> bool:
        return len(self.given) >= self.needed and not self.lapsed

    @property
    def people(self) -> str:
        return " and ".join(waiver.reviewer for waiver in self.given)

    def __str__(self) -> str:
        return f"{len(self.given)} of {self.needed} approval{'s' if self.needed > 1 else ''}"


def counted(d: Draft, hold: HoldStatus, review: GateReview | None = None) -> Count:
    """The approvals that stand in the ledger for what is held, and `review`, which is about to."""
    known = tuple(waiver for waiver in d.s.memory.waivers if _for(d, hold, waiver))
    if review is not None and review.metadata.name not in {waiver.review for waiver in known}:
        known = (*known, _waiver(d, review))
    contract = d.s.pinned
    needed = contract.spec.hold.min_approvals if contract is not None else 1
    return Count(people(known, d.now), needed, lapsed(d, hold.run, hold.blocking))


def shown(hold: HoldStatus, count: Count) -> HoldStatus:
    """What status says of them."""
    approvals = tuple(
        Approval(reviewer=w.reviewer, review=w.review, expires_at=w.expires_at)
        for w in count.given[:MOST_SHOWN]
    )
    return hold.model_copy(update={"approvals": approvals, "approvals_needed": count.needed})


def given_before(d: Draft, hold: HoldStatus, review: GateReview) -> Waiver | None:
    """The approval that the same person has given before, for the same evidence, and that is in force."""
    mine = [w for w in d.s.memory.waivers if _for(d, hold, w) and w.reviewer == review.spec.reviewer]
    names = [waiver.review for waiver in mine]
    # In the order of the ledger, where this one may stand already: a crash came before its answer.
    upto = names.index(review.metadata.name) if review.metadata.name in names else len(mine)
    return next((w for w in mine[:upto] if w.in_force(d.now)), None)


def lapsed(d: Draft, run: str, blocking: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Checks of a run's verdict that count as waived there, by waivers that have ended since, beside those that block."""
    found = d.s.runs.get(run)
    verdict = (found.status.held or found.status.verdict) if found is not None else None
    if found is None or verdict is None:
        return ()
    covered = {check for waiver in in_force(found.spec.waivers, d.now) for check in waiver.checks}
    return tuple(check for check in waived(verdict) if check not in covered and check not in blocking)


def waived(verdict: Verdict) -> tuple[str, ...]:
    return tuple(result.id for result in verdict.checks if result.status is CheckStatus.WAIVED)


def refusal_of_scope(d: Draft, spec: GateReviewSpec, hold: HoldStatus) -> Refusal | None:
    """What only the operator can see of an approval: how many steps there are, and who is somebody else."""
    if hold.reason == Reason.SAME_AUTHOR and not is_person(spec.reviewer):
        return (
            Reason.NOT_ALLOWED,
            f"{spec.reviewer} proves no person, and somebody else than {hold.initiator} has to approve this.",
        )
    steps = len(d.spec.steps)
    if spec.through is None or not spec.through.isdecimal() or int(spec.through) < steps:
        return None
    return (
        Reason.NOT_HELD,
        f"The Rollout has no step {spec.through} for the waiver to end with: the last one is {steps - 1}, and Remaining is all that follow.",
    )


def refusal_while_lapsed(count: Count) -> Refusal | None:
    """An approval that would let checks through whose waiver has ended since the HOLD was given."""
    if not count.lapsed:
        return None
    return (
        Reason.EXPIRED,
        f"An earlier waiver for {', '.join(count.lapsed)} has ended since this was held; the next look says what blocks now, then approve that.",
    )


def overtaken(spec: GateReviewSpec, hold: HoldStatus | None) -> bool:
    """It stands in the ledger and had no effect: what is held by the same run is more than it was for."""
    if hold is None or spec.decision != "Approve":
        return False
    return (spec.run, spec.step) == (hold.run, hold.step) and spec.evidence_digest != hold.evidence_digest


def _for(d: Draft, hold: HoldStatus, waiver: Waiver) -> bool:
    """Given for exactly this: the same attempt, run, step and evidence, and every check that blocks."""
    return (waiver.revision, waiver.attempt, waiver.run, waiver.step, waiver.evidence_digest) == (
        d.canary.revision,
        d.status.attempt,
        hold.run,
        hold.step,
        hold.evidence_digest,
    ) and set(hold.blocking) <= set(waiver.checks)


def _waiver(d: Draft, review: GateReview) -> Waiver:
    spec = review.spec
    assert spec.expires_at is not None, "an approval without an end was let through"
    return Waiver(
        revision=spec.revision,
        step=spec.step,
        attempt=d.status.attempt,
        run=spec.run,
        evidence_digest=spec.evidence_digest,
        reviewer=spec.reviewer,
        expires_at=spec.expires_at,
        granted_at=d.now,
        review=review.metadata.name,
        checks=spec.checks,
        world_snapshot=spec.world_snapshot,
        through=spec.through,
    )
