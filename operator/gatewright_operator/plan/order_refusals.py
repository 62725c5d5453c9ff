"""Why an order can't be obeyed in this state, in a sentence that says what to do instead."""

from gatewright_analysis.kinds.base import format_time
from gatewright_analysis.kinds.review import GateOrder, OrderKind
from gatewright_analysis.kinds.rollout import Phase
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.refusals import Refusal, of_override
from gatewright_operator.plan.standing import pause_in_force


def not_now(d: Draft, kind: OrderKind) -> Refusal:
    """The order means nothing in the present phase."""
    match kind:
        case OrderKind.PAUSE:
            return Reason.NOTHING_TO_PAUSE, _nothing_to_pause(d)
        case OrderKind.RESUME:
            return Reason.NOTHING_TO_RESUME, _nothing_to_resume(d)
        case OrderKind.OVERRIDE:
            return Reason.NOTHING_TO_OVERRIDE, _nothing_to_override(d)
        case OrderKind.ABORT:
            reason = Reason.NOTHING_TO_ABORT
        case _:
            reason = Reason.NOTHING_TO_RETRY
    return reason, f"{kind} means nothing while the rollout is {d.status.phase}."


def of_standing_order(d: Draft, order: GateOrder) -> Refusal | None:
    """Why a Pause, a Resume or an Override can't be obeyed though such orders are heard; None for all others."""
    if order.spec.order not in (OrderKind.PAUSE, OrderKind.RESUME, OrderKind.OVERRIDE):
        return None
    if _obeyed_before(d, order) or (d.step_key() == "bake" and not _lets_breaches_be(d, order)):
        return not_now(d, order.spec.order)
    match order.spec.order:
        case OrderKind.PAUSE:
            return _of_pause(d)
        case OrderKind.RESUME:
            waits = d.status.phase is Phase.PAUSED or pause_in_force(d.s, d.status) is not None
            return None if waits else not_now(d, OrderKind.RESUME)
        case _:
            return _of_override(d, order)


def command(d: Draft, verb: str) -> str:
    meta = d.s.rollout.metadata
    return f"kubectl gate {verb} {meta.name} -n {meta.namespace} --reason '…'"


def _obeyed_before(d: Draft, order: GateOrder) -> bool:
    """A crash came before its answer, and what it ordered has moved the rollout on: it must not move it twice."""
    places = {k.step for k in d.s.memory.keys if k.kind == "Order" and k.cause == order.metadata.uid}
    return bool(places) and d.step_key() not in places


def _recorded_here(d: Draft, order: GateOrder) -> bool:
    return any(
        k.kind == "Order" and k.cause == order.metadata.uid and k.step == d.step_key()
        for k in d.s.memory.keys
    )


def _of_pause(d: Draft) -> Refusal | None:
    pause = pause_in_force(d.s, d.status)
    if pause is None:
        return None
    return (
        Reason.NOTHING_TO_PAUSE,
        f"{pause.by} has paused it since {format_time(pause.at)}. Go on with: {command(d, 'resume')}",
    )


def _of_override(d: Draft, order: GateOrder) -> Refusal | None:
    """What the admission policies checked, once more; and whether there is anything ahead that it could pass over."""
    spec = order.spec
    if spec.override is None:
        return Reason.EXPIRED, "An Override needs override.to."
    # One that stands in the ledger was in force when it was entered; a crash came before its effect.
    if not _recorded_here(d, order) and (refusal := of_override(d, order)) is not None:
        return refusal
    if d.s.ledger_broken:
        return (
            Reason.LEDGER_BROKEN,
            "The ledger cannot be relied on, so no Override can be recorded in it. In an emergency un-pause the Deployment by kubectl (docs/how-to/emergency.md).",
        )
    return None if spec.override.to == "Promote" else _of_skip(d, int(spec.override.to))


def _of_skip(d: Draft, to: int) -> Refusal | None:
    steps, here = len(d.spec.steps), d.status.current_step
    if to >= steps:
        return (
            Reason.NOTHING_TO_OVERRIDE,
            f"There is no step {to + 1}; the last one is step {steps} of {steps}.",
        )
    if to <= here:
        return (
            Reason.NOTHING_TO_OVERRIDE,
            f"The rollout is at {d.step_name()} already, and an Override goes forward only: to a later step, or to Promote.",
        )
    return None


def _lets_breaches_be(d: Draft, order: GateOrder) -> bool:
    """After 100 % an Override can do one thing more: keep what serves for a while, whatever its bake finds."""
    override = order.spec.override
    return (
        d.status.phase is Phase.BAKING
        and override is not None
        and override.to == "Promote"
        and override.ignore_breach
    )


def _nothing_to_pause(d: Draft) -> str:
    if d.step_key() == "bake":
        return f"{d.canary.revision} serves all traffic already, so there is nothing to stop. To put the version before back: {command(d, 'abort')}"
    if d.status.phase is Phase.PROMOTING:
        return f"{d.canary.revision} is being rolled out to all pods already, so there is nothing to stop. To put the version before back: {command(d, 'abort')}"
    return f"No version is on its way that could be paused; the rollout is {d.status.phase}."


def _nothing_to_resume(d: Draft) -> str:
    if d.status.phase is Phase.HELD:
        meta = d.s.rollout.metadata
        return f"It is held, not paused, and a person decides: kubectl gate review {meta.name} -n {meta.namespace}"
    return f"Nothing is paused; the rollout is {d.status.phase}."


def _nothing_to_override(d: Draft) -> str:
    if d.step_key() == "bake" and d.status.phase is Phase.HELD:
        return f"{d.canary.revision} serves all traffic and is held in its bake: approve it, or reject it to put the version before back."
    if d.step_key() == "bake" or d.status.phase is Phase.PROMOTING:
        return f"{d.canary.revision} is past its gates already. In its bake an Override to Promote with ignoreBreach keeps it until it expires, whatever is found."
    rejected = d.status.rejected
    if d.status.phase is Phase.ROLLED_BACK and rejected is not None:
        return f"{rejected.revision} was refused and is not on its way. Order a Retry first, then the Override: {command(d, 'retry')}"
    return f"No version is on its way; the rollout is {d.status.phase}."
