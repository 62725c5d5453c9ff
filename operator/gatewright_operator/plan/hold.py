"""Phase Held: a person decides. No way leads from here to promotion without one."""

from gatewright_analysis.kinds.contract import OnBreach
from gatewright_analysis.kinds.review import OrderKind, ReviewDecision
from gatewright_analysis.kinds.rollout import AfterBack, HoldStatus, Phase
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.actions import Plan
from gatewright_operator.plan.approvals import Count, counted, given_before, refusal_while_lapsed, shown
from gatewright_operator.plan.back import rolling_back
from gatewright_operator.plan.bake import bake_interrupted, complete
from gatewright_operator.plan.breaches import seconds_let_be
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.hold_clock import beyond, escalate_by_order, policy, waits, wound
from gatewright_operator.plan.holding import hold_without_verdict
from gatewright_operator.plan.overriding import STANDING, obey
from gatewright_operator.plan.people import Heard, hear
from gatewright_operator.plan.progress import interrupted, next_step
from gatewright_operator.plan.restore import begin_restore
from gatewright_operator.plan.samples import refusal_of_more_samples
from gatewright_operator.plan.snapshot import Snapshot
from gatewright_operator.plan.widening import widened


def held(s: Snapshot) -> Plan:
    d = Draft(s)
    hold = d.status.hold
    assert hold is not None, "Held without a hold"
    baking = hold.step == "bake"
    if (interruption := bake_interrupted(d) if baking else interrupted(d)) is not None:
        return interruption
    if d.s.fingerprints.drifted and hold.reason != Reason.WORLD_DRIFTED:
        # Other evidence to decide about: whoever approved what was seen before has not approved this.
        hold_without_verdict(d, Reason.WORLD_DRIFTED, d.s.fingerprints.drifted, breach=hold.breach)
        return d.again()
    if (more := widened(d, hold)) is not None:
        return more
    count = counted(d, hold)
    if (counts := shown(hold, count)) != hold:
        d.set(hold=counts)
    hold = wound(d, counts)
    orders = (OrderKind.RETRY, OrderKind.MORE_SAMPLES, OrderKind.ABORT, OrderKind.ESCALATE, *STANDING)
    heard = hear(d, hold=hold, orders=orders, revision=d.canary.revision)
    if heard is not None:
        return _obey(d, hold, heard)
    if hold.blocking and count.enough:
        # Cut short between the ledger and its effect, or an approval that was one too few has become enough.
        return _go_on(d, hold, _approved(d, hold, count))
    return waits(d, hold) or _timed_out(d, hold)


def _obey(d: Draft, hold: HoldStatus, heard: Heard) -> Plan:
    person, why = heard.person, heard.why
    if heard.review is not None:
        match heard.review.spec.decision:
            case ReviewDecision.APPROVE:
                return _approve(d, hold, heard)
            case ReviewDecision.REQUEST_CHANGES:
                d.record(heard.entry(d))
                message = f"{person} asks for changes before {d.canary.revision} goes on: {why}"
                heard.accept(d, Reason.CHANGES_REQUESTED, message)
                d.set(hold=hold.model_copy(update={"note": f"{person}: {why}"[:1024]}))
                d.say(Reason.CHANGES_REQUESTED, message)
                return d.again()
            case ReviewDecision.REJECT:
                return _turn_back(
                    d, hold, heard, Reason.REJECTED, f"{person} rejected {d.canary.revision}: {why}"
                )
    assert heard.order is not None
    if heard.order.spec.order in STANDING:
        return obey(d, heard)
    if heard.order.spec.order is OrderKind.ABORT:
        return _turn_back(d, hold, heard, Reason.ABORTED, f"{person} aborted {d.canary.revision}: {why}")
    if heard.order.spec.order is OrderKind.ESCALATE:
        return escalate_by_order(d, hold, heard)
    if heard.order.spec.order is OrderKind.MORE_SAMPLES:
        if (refusal := refusal_of_more_samples(d, hold)) is not None:
            heard.refuse(d, *refusal)
            return d.again()
        return _retry(d, hold, heard, "orders more samples at")
    return _retry(d, hold, heard, "retries")


def _approve(d: Draft, hold: HoldStatus, heard: Heard) -> Plan:
    assert heard.review is not None
    before, count = given_before(d, hold, heard.review), counted(d, hold, heard.review)
    if (refusal := refusal_while_lapsed(count)) is not None:
        heard.refuse(d, *refusal)
        return d.again()
    d.record(heard.entry(d))
    of = f" ({count})" if count.needed > 1 else ""
    message = f"{_approved(d, hold, count, by=heard.person)}{of}: {heard.why}"
    if count.enough:
        heard.accept(d, Reason.APPROVED, message)
        return _go_on(d, hold, message)
    if before is not None:
        message = f"{heard.person} has approved this before, by {before.review}: it counts once, and there are {count}."
    heard.accept(d, Reason.APPROVED, message)
    d.set(hold=shown(hold, count))
    d.say(Reason.APPROVED, message)
    return d.again()


def _approved(d: Draft, hold: HoldStatus, count: Count, by: str = "") -> str:
    where = "the bake" if hold.step == "bake" else d.step_name()
    return f"{by or count.people} approved {where} of {d.canary.revision} against {', '.join(hold.blocking)}"


def _go_on(d: Draft, hold: HoldStatus, message: str) -> Plan:
    """Enough people have approved exactly what is held, and it stands in the ledger."""
    d.set(phase=Phase.BAKING if hold.step == "bake" else Phase.PROGRESSING, hold=None, progress_at=d.now)
    d.say(Reason.APPROVED, message)
    if hold.reason == Reason.SAME_AUTHOR:
        # Nothing was judged yet: the first step begins.
        return d.again()
    return complete(d, message) if hold.step == "bake" else next_step(d)


def _turn_back(d: Draft, hold: HoldStatus, heard: Heard, reason: Reason, message: str) -> Plan:
    d.record(heard.entry(d), required=False)
    heard.accept(d, reason, message)
    return _go_back(d, hold, reason, message)


def _go_back(d: Draft, hold: HoldStatus, reason: Reason, message: str) -> Plan:
    if hold.step == "bake":
        return begin_restore(d, reason, message)
    d.go_back(reason, message, then=AfterBack.ROLLED_BACK, cause=hold.run)
    return rolling_back(d.s, d)


def _retry(d: Draft, hold: HoldStatus, heard: Heard, does: str) -> Plan:
    """The held step again, as a new attempt: from the weight that leads to it, with the evidence so far pooled."""
    d.record(heard.entry(d))
    attempt = max(d.status.attempt, d.s.memory.attempts.get(d.canary.revision, 0)) + 1
    where = "the bake" if hold.step == "bake" else d.step_name()
    message = f"{heard.person} {does} {where} of {d.canary.revision}, attempt {attempt}: {heard.why}"
    heard.accept(d, Reason.RETRIED, message)
    if hold.reason == Reason.SAME_AUTHOR:
        # From the beginning, by the contract as it is now and whoever wrote it.
        d.go_back(Reason.RETRIED, message, then=AfterBack.START)
        return rolling_back(d.s, d)
    if hold.step == "bake":
        d.set(phase=Phase.BAKING, attempt=attempt, hold=None, run="", progress_at=d.now)
    else:
        index = min(d.status.current_step, len(d.spec.steps) - 1)
        first = next(i for i in range(index, -1, -1) if d.spec.steps[i].set_weight is not None or i == 0)
        d.set(
            phase=Phase.PROGRESSING,
            attempt=attempt,
            current_step=first,
            step_started_at=d.now,
            progress_at=d.now,
            hold=None,
            run="",
        )
    d.say(Reason.RETRIED, message)
    return d.again()


def _timed_out(d: Draft, hold: HoldStatus) -> Plan:
    """The clock alone never reverts: `onTimeout: Rollback` acts only on a hold that rests on a proven breach."""
    if policy(d).on_timeout is OnBreach.ROLLBACK and hold.breach and seconds_let_be(d) is None:
        return _go_back(
            d,
            hold,
            Reason.HOLD_TIMED_OUT,
            f"Nobody decided by {hold.deadline.isoformat()}, and a breach was proven: {hold.message}",
        )
    return beyond(d, hold)
