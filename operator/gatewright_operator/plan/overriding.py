"""The emergency: a version past its gates, by an order Override, or by a person with that verb who un-paused the Deployment.

An Override is obeyed after its entry stands in the ledger, whoever started the change; and it is said loudly.
"""

from gatewright_analysis.kinds.review import OrderKind
from gatewright_analysis.kinds.rollout import CanaryStatus, Phase
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.actions import Emit, Plan, StoreTemplate
from gatewright_operator.plan.adopt import refuse
from gatewright_operator.plan.breaches import as_for_breaches
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.pausing import order_pause, order_resume
from gatewright_operator.plan.people import Heard
from gatewright_operator.plan.promote import promote
from gatewright_operator.plan.snapshot import Problem
from gatewright_operator.plan.standing import override_given
from gatewright_operator.plan.start import originals_now, record_start, stable_now

STANDING = (OrderKind.PAUSE, OrderKind.RESUME, OrderKind.OVERRIDE)
"""Orders that are heard before a promotion, besides those that end a rollout or judge it again."""


def obey(d: Draft, heard: Heard) -> Plan:
    """One of `STANDING`, before the version is promoted; whether it may be obeyed was asked before."""
    assert heard.order is not None
    match heard.order.spec.order:
        case OrderKind.PAUSE:
            return order_pause(d, heard)
        case OrderKind.RESUME:
            return order_resume(d, heard)
        case _:
            return _override(d, heard)


def _override(d: Draft, heard: Heard) -> Plan:
    assert heard.order is not None
    target = heard.order.spec.override
    assert target is not None
    promotes = target.to == "Promote"
    goes = "promoted now" if promotes else f"sent on to step {int(target.to) + 1} of {len(d.spec.steps)}"
    message = f"{heard.person} overrides the gates: {d.canary.revision} is {goes}{as_for_breaches(heard)}. {heard.why}"
    d.record(heard.entry(d))
    heard.accept(d, Reason.OVERRIDDEN, message)
    d.do(Emit(True, Reason.OVERRIDDEN, message))
    if promotes:
        return promote(d, Reason.OVERRIDDEN, message)
    index = _landing(d, int(target.to))
    d.set(
        phase=Phase.PROGRESSING,
        current_step=index,
        step_started_at=d.now,
        progress_at=d.now,
        hold=None,
        run="",
        message=message,
    )
    return d.again()


def _weight_step(d: Draft, to: int) -> int | None:
    """The step that sets the weight which holds at step `to`; None before the first."""
    weights = [i for i, step in enumerate(d.spec.steps[: to + 1]) if step.set_weight is not None]
    return weights[-1] if weights else None


def _landing(d: Draft, to: int) -> int:
    """Where to go on for step `to`: at the weight that it needs, when that is not in force (somebody may have lowered it)."""
    needed = _weight_step(d, to)
    if needed is None or d.status.weight.desired == d.spec.steps[needed].set_weight:
        return to
    return needed


def step_after(d: Draft) -> int:
    """The step after the present one: the next, or the one that an Override names once its weight is in force."""
    here, given = d.status.current_step, override_given(d.s, d.status)
    if given is None or given.to == "Promote" or given.attempt != d.status.attempt:
        return here + 1
    to = int(given.to)
    return to if here < to < len(d.spec.steps) and here == _weight_step(d, to) else here + 1


def unpaused_by_kubectl(d: Draft) -> Plan:
    """Somebody with the verb un-paused the Deployment in the middle of a rollout; the operator may have been down."""
    assert d.s.deployment is not None
    who = d.s.deployment.resumed_by
    named = who or "Somebody with the verb override"
    message = f"{named} un-paused {d.canary.revision} past the gate, by kubectl; it is promoted."
    body = {"by": who, "how": "kubectl", "message": message}
    d.record(d.entry("Overridden", cause="kubectl", actor=who or "operator", body=body))
    d.do(Emit(True, Reason.OVERRIDDEN, message))
    return promote(d, Reason.OVERRIDDEN, message)


def unpaused_at_rest(d: Draft) -> Plan | None:
    """A held template was un-paused on purpose while no rollout of it was on its way: the operator was down when it came,
    or had sent it back. It is rolling out already, so it is entered and watched to its end. None when that is not so."""
    s, deployment, contract = d.s, d.s.deployment, d.s.contract
    if deployment is None or deployment.paused or deployment.in_flight or not deployment.resumed_by:
        return None
    if deployment.revision == d.stable.revision:
        return None
    if contract is None:
        return refuse(
            d,
            s.contract_problem
            or Problem(Reason.CONTRACT_NOT_FOUND, "The GateContract does not exist; create it."),
        )
    stable, originals = stable_now(d), originals_now(d)
    canary = CanaryStatus(
        revision=deployment.revision,
        initiator=deployment.initiator,
        contract_digest=contract.digest,
        images=deployment.images,
    )
    d.set(
        stable=stable,
        canary=canary,
        attempt=s.memory.attempts.get(deployment.revision, 0) + 1,
        originals=originals,
        current_step=0,
        step_started_at=d.now,
        verdict=None,
        back=None,
        rejected=None,
    )
    record_start(d, contract, stable, canary, originals)
    serving = next((r for r in s.replica_sets or () if r.pod_template_hash == stable.pod_template_hash), None)
    if serving is not None:
        # What a breach in its bake puts back.
        d.do(StoreTemplate(stable.revision, serving.template))
    return unpaused_by_kubectl(d)
