"""Phase RollingBack: traffic first, records if need be late; then the canary goes, then the pins, then the marks."""

from datetime import timedelta

from gatewright_analysis.kinds.rollout import AfterBack, Phase, RejectedStatus, WeightStatus
from gatewright_analysis.names import PINNED
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.actions import (
    DeleteCanary,
    Plan,
    ScaleCanary,
    SetFinalizer,
    SetRoute,
    SetSelector,
)
from gatewright_operator.plan.breaches import breach_of, run_entry
from gatewright_operator.plan.draft import PROPAGATION, PROPAGATION_TO_THE_SECOND, Draft
from gatewright_operator.plan.marks import unmark_if_deleting
from gatewright_operator.plan.snapshot import Snapshot

LATE_AFTER = timedelta(seconds=2)
"""A decision whose entry could not be written at once: traffic has moved before it stood in the ledger."""


def rolling_back(s: Snapshot, draft: Draft | None = None) -> Plan:
    """One transition of the way back. `draft` carries the decision to go back that was taken in this very plan."""
    d = draft or Draft(s)
    if draft is not None or not _left(d):
        _record_decision(d, required=False)
    if _traffic_home(d):
        return d.wait(_message(d), seconds=PROPAGATION.total_seconds())
    if not canary_gone(d):
        return d.wait(_message(d), seconds=5.0)
    release_pins(d)
    return _arrive(d)


def _message(d: Draft) -> str:
    back = d.status.back
    assert back is not None
    return back.message


def _left(d: Draft) -> bool:
    """No request meets the canary any more, and it is gone."""
    weight = d.status.weight
    return weight.desired == 0 and weight.since is not None and d.s.canary is None and d.s.pods.total == 0


def _record_decision(d: Draft, *, required: bool) -> None:
    """That traffic goes back, and the verdict that sends it. Traffic never waits for this; arriving does."""
    back = d.status.back
    assert back is not None
    entries = []
    run = d.s.runs.get(back.cause)
    verdict = breach_of(run) if run is not None else None
    if run is not None and verdict is not None:
        entries.append(run_entry(d, run, verdict))
    body = {"reason": back.reason, "message": back.message, "then": back.then, "cause": back.cause}
    d.record(*entries, d.entry("Back", body=body), required=required, late=d.now - back.at > LATE_AFTER)


def _traffic_home(d: Draft) -> bool:
    """Sends traffic to stable; True while that is under way or not yet obeyed by every proxy."""
    s, back = d.s, d.status.back
    assert back is not None
    mark = d.mark("ROLLBACK" if back.then is AfterBack.ROLLED_BACK else "BACK")
    # With the canary gone the marks of an earlier transition have done their work, and may be off again.
    marked = s.rollout.status.phase is Phase.ROLLING_BACK and s.canary is None and s.pods.total == 0
    deployment = s.deployment
    if deployment is not None and not marked:
        recorded = d.stable.replicas
        grow = {"replicas": recorded} if deployment.replicas < recorded else {}
        d.decide(mark, required=False, **grow)
    if s.rollout.status.phase is not Phase.ROLLING_BACK:
        _fence_services(d, mark)
    moved, weight = False, d.status.weight
    if d.spec.traffic.gateway_api is not None and s.route is not None:
        sent = s.route.selected_rules > 0 and (s.route.canary_weight != 0 or s.route.mixed)
        if sent or (s.route.decision != mark and not marked):
            moved = sent
            stable_weight, canary_weight = s.route.weights_for(0)
            d.do(SetRoute(stable_weight, canary_weight, mark))
    elif s.canary is not None and s.canary.replicas > 0:
        d.do(ScaleCanary(0))
        moved = True
    if moved or weight.desired != 0 or weight.since is None:
        d.set(weight=WeightStatus(desired=0, actual=0, since=d.now))
        return True
    return d.now < weight.since + PROPAGATION


def _fence_services(d: Draft, mark: str) -> None:
    """A Service that was never pinned still has the resourceVersion that a slower operator would pin it with."""
    s, originals = d.s, d.status.originals
    if d.spec.traffic.gateway_api is None or originals is None:
        return
    if s.stable_service is not None and s.stable_service.selector == originals.stable_selector:
        d.do(SetSelector("stable", originals.stable_selector, mark))
    if s.canary_service is not None and s.canary_service.selector == originals.canary_selector:
        d.do(SetSelector("canary", originals.canary_selector, mark))


def unobeyed_seconds(d: Draft) -> float:
    """How long some proxy may still obey the weights that were before. The route itself says since when: status may have missed it."""
    since, route = d.status.weight.since, d.s.route
    if d.spec.traffic.gateway_api is not None and route is not None and route.written_at is not None:
        return max(0.0, (route.written_at + PROPAGATION_TO_THE_SECOND - d.now).total_seconds())
    return max(0.0, (since + PROPAGATION - d.now).total_seconds()) if since is not None else 0.0


def canary_gone(d: Draft) -> bool:
    """Deletes the canary once no request can reach it; True when its pods are gone too."""
    if d.s.canary is not None and not d.s.canary.deleting:
        d.do(DeleteCanary())
    return d.s.canary is None and d.s.pods.total == 0


def release_pins(d: Draft) -> None:
    """Puts selectors and weights back as they were found, and takes every mark off but the decision."""
    s, originals = d.s, d.status.originals
    if d.spec.traffic.gateway_api is not None and originals is not None:
        if s.stable_service is not None and (
            s.stable_service.selector != originals.stable_selector or s.stable_service.decision
        ):
            d.do(SetSelector("stable", originals.stable_selector, None))
        if s.canary_service is not None and (
            s.canary_service.selector != originals.canary_selector or s.canary_service.decision
        ):
            d.do(SetSelector("canary", originals.canary_selector, None))
        route_to_rest(d)
    if s.deployment is not None and s.deployment.pinned:
        d.decide(s.deployment.decision, annotations={PINNED: None})


def route_to_rest(d: Draft) -> bool:
    """The weights that stood before the rollout, without a mark; True when it had to change something."""
    route, originals = d.s.route, d.status.originals
    if route is None or originals is None:
        return False
    resting = (
        originals.stable_weight if originals.stable_weight is not None else 1,
        originals.canary_weight or 0,
    )
    changed = (route.stable_weight, route.canary_weight) != resting or route.mixed
    if not (route.selected_rules and changed) and not route.decision:
        return False
    d.do(SetRoute(*resting, None))
    return True


def _arrive(d: Draft) -> Plan:
    """Everything is home: what comes next was decided when the way back began."""
    back = d.status.back
    assert back is not None
    unmark_if_deleting(d)
    # Users have stable again; from here on nothing is in a hurry but a Rollout that is being deleted.
    required = d.waits_for_its_end
    _record_decision(d, required=required)
    # Before the finalizer goes: nobody comes back to write it for a Rollout that is gone.
    d.record(d.entry("RolledBack", body={"reason": back.reason, "message": back.message}), required=required)
    d.do(SetFinalizer(False))
    revision = d.canary.revision
    home = {"weight": WeightStatus(), "originals": None, "hold": None, "run": "", "progress_at": d.now}
    match back.then:
        case AfterBack.ROLLED_BACK:
            d.set(
                phase=Phase.ROLLED_BACK,
                rejected=RejectedStatus(
                    revision=revision, reason=back.reason, message=back.message, at=d.now
                ),
                **home,
            )
            d.say(
                Reason.ROLLED_BACK,
                f"All traffic is on {d.stable.revision}; {revision} was refused: {back.message}",
                warning=True,
            )
        case AfterBack.IDLE:
            d.set(phase=Phase.IDLE, canary=None, back=None, **home)
            d.say(Reason.REVERTED, f"All traffic is on {d.stable.revision}; {revision} is gone.")
        case AfterBack.START:
            d.set(phase=Phase.IDLE, canary=None, back=None, **home)
    return d.again()
