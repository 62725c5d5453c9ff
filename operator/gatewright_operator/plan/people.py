"""Reviews and orders: who may be heard now, what each is bound to, and the one answer each of them gets."""

from dataclasses import dataclass

from gatewright_analysis.kinds.review import (
    DecisionStatus,
    GateOrder,
    GateReview,
    OrderKind,
    Outcome,
    ReviewDecision,
)
from gatewright_analysis.kinds.rollout import HoldStatus
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan import refusals
from gatewright_operator.plan.actions import Answer, Entry
from gatewright_operator.plan.approvals import overtaken, refusal_of_scope
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.order_refusals import not_now, of_standing_order
from gatewright_operator.plan.snapshot import Authorised


@dataclass(frozen=True, slots=True)
class Heard:
    """The one review or order that counts now."""

    review: GateReview | None = None
    order: GateOrder | None = None

    @property
    def person(self) -> str:
        if self.review is not None:
            return self.review.spec.reviewer
        assert self.order is not None
        return self.order.spec.ordered_by

    @property
    def why(self) -> str:
        spec = (
            self.review.spec
            if self.review is not None
            else self.order.spec
            if self.order is not None
            else None
        )
        assert spec is not None
        return spec.reason

    def entry(self, d: Draft) -> Entry:
        """Its entry in the ledger: the whole decision, keyed by the object's UID."""
        obj = self.review or self.order
        assert obj is not None
        kind = "Review" if self.review is not None else "Order"
        return d.entry(
            kind,
            cause=obj.metadata.uid,
            actor=self.person,
            body={"name": obj.metadata.name, "spec": obj.spec.wire()},
        )

    def accept(self, d: Draft, reason: Reason, message: str) -> None:
        obj = self.review or self.order
        assert obj is not None
        _answer(d, self, obj.metadata.name, Outcome.ACCEPTED, reason, message)

    def refuse(self, d: Draft, reason: Reason, message: str) -> None:
        obj = self.review or self.order
        assert obj is not None
        _answer(d, self, obj.metadata.name, Outcome.REFUSED, reason, message)


def _answer(
    d: Draft, who: Heard | Authorised, name: str, outcome: Outcome, reason: Reason, message: str
) -> None:
    status = DecisionStatus(outcome=outcome, reason=reason, message=message[:1024], observed_at=d.now)
    d.do(Answer("review" if who.review is not None else "order", name, status))


def _recorded(d: Draft, waiting: Authorised) -> bool:
    """A crash came between the ledger and the answer: it was heard, and what it decided is done."""
    obj = waiting.review or waiting.order
    assert obj is not None
    kind = "Review" if waiting.review is not None else "Order"
    return any(key.kind == kind and key.cause == obj.metadata.uid for key in d.s.memory.keys)


def _still_asked(waiting: Authorised, hold: HoldStatus | None) -> bool:
    """What a review decides about is held still: it stands in the ledger, and had no effect before a crash."""
    if waiting.review is None or hold is None:
        return False
    spec = waiting.review.spec
    return (spec.run, spec.step, spec.evidence_digest) == (hold.run, hold.step, hold.evidence_digest)


def _word(waiting: Authorised) -> Reason:
    """What was done when this was obeyed."""
    if waiting.review is not None:
        return {
            ReviewDecision.APPROVE: Reason.APPROVED,
            ReviewDecision.REQUEST_CHANGES: Reason.CHANGES_REQUESTED,
            ReviewDecision.REJECT: Reason.REJECTED,
        }[waiting.review.spec.decision]
    assert waiting.order is not None
    words = {
        OrderKind.ABORT: Reason.ABORTED,
        OrderKind.ESCALATE: Reason.ESCALATED,
        OrderKind.PAUSE: Reason.PAUSED,
        OrderKind.RESUME: Reason.RESUMED,
        OrderKind.OVERRIDE: Reason.OVERRIDDEN,
    }
    return words.get(waiting.order.spec.order, Reason.RETRIED)


def _refusal_of_review(d: Draft, review: GateReview, hold: HoldStatus | None) -> tuple[Reason, str] | None:
    spec = review.spec
    if hold is None:
        return Reason.NOT_HELD, f"Rollout {spec.rollout} is not held now; it is {d.status.phase}."
    if d.canary.revision != spec.revision:
        return (
            Reason.WRONG_REVISION,
            f"What is held now is revision {d.canary.revision}, not {spec.revision}.",
        )
    if (stale := refusals.of_another_hold(spec, hold)) is not None:
        return Reason.NOT_HELD, stale
    if (refusal := refusals.of_account(d, spec.rollout, spec.reviewer)) is not None:
        return refusal
    if spec.decision is not ReviewDecision.APPROVE:
        return None
    return refusals.of_waiver(d, review, hold) or refusal_of_scope(d, spec, hold)


def _refusal_of_order(
    d: Draft, order: GateOrder, kinds: tuple[OrderKind, ...], revision: str | None
) -> tuple[Reason, str] | None:
    spec = order.spec
    if spec.order is OrderKind.ESCALATE and spec.order not in kinds:
        return Reason.NOT_HELD, f"Nothing is held, so there is nothing to escalate; it is {d.status.phase}."
    if spec.order not in kinds:
        return not_now(d, spec.order)
    if revision is not None and spec.revision != revision:
        return (
            Reason.WRONG_REVISION,
            f"The order is for revision {spec.revision}; the one at hand is {revision}.",
        )
    if (refusal := refusals.of_account(d, spec.rollout, spec.ordered_by)) is not None:
        return refusal
    return of_standing_order(d, order)


def hear(
    d: Draft,
    *,
    hold: HoldStatus | None = None,
    orders: tuple[OrderKind, ...] = (),
    revision: str | None = None,
) -> Heard | None:
    """The oldest review or order that may be heard in this state. Those before it that may not are answered with why."""
    answered = {(a.kind, a.name) for a in d.actions if isinstance(a, Answer)}
    for waiting in d.s.waiting:
        obj = waiting.review or waiting.order
        assert obj is not None
        if ("review" if waiting.review is not None else "order", obj.metadata.name) in answered:
            continue
        refusal: tuple[Reason, str] | None
        if obj.spec.rollout_uid != d.s.rollout.metadata.uid:
            refusal = (Reason.WRONG_ROLLOUT, "It names another Rollout of the same name.")
        elif not waiting.allowed:
            overrides = waiting.order is not None and waiting.order.spec.order is OrderKind.OVERRIDE
            verb = "approve" if waiting.review is not None else "override" if overrides else "operate"
            refusal = (
                Reason.NOT_ALLOWED,
                f"Its author lacks the verb {verb} on rollouts.gatewright.dev/{obj.spec.rollout}.",
            )
        elif waiting.review is not None:
            refusal = _refusal_of_review(d, waiting.review, hold)
        else:
            assert waiting.order is not None
            refusal = _refusal_of_order(d, waiting.order, orders, revision)
        if refusal is None:
            return Heard(waiting.review, waiting.order)
        void = waiting.review is not None and overtaken(waiting.review.spec, hold)
        if _recorded(d, waiting) and not _still_asked(waiting, hold) and not void:
            _answer(
                d,
                waiting,
                obj.metadata.name,
                Outcome.ACCEPTED,
                _word(waiting),
                "It stands in the ledger and was obeyed.",
            )
            continue
        _answer(d, waiting, obj.metadata.name, Outcome.REFUSED, *refusal)
    return None


def answer_late_ones(d: Draft) -> None:
    """Nothing can be decided in this state: whatever waits is refused with the sentence that says so."""
    hear(d)
