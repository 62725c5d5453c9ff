"""Phase Promoting: un-pause, and let the native rolling update do the rest while the canary keeps serving its weight."""

from gatewright_analysis.kinds.base import format_duration
from gatewright_analysis.kinds.review import OrderKind
from gatewright_analysis.kinds.rollout import AfterBack, Phase, WeightStatus
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.names import IN_FLIGHT, PINNED, RESUMED_BY
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.actions import PatchDeployment, Plan, SetFinalizer, SetSelector
from gatewright_operator.plan.adopt import as_stable, serving
from gatewright_operator.plan.back import canary_gone, rolling_back, route_to_rest, unobeyed_seconds
from gatewright_operator.plan.bake import begin_bake
from gatewright_operator.plan.breaches import breach_of, keep, let_be, run_entry, seconds_let_be
from gatewright_operator.plan.draft import PROPAGATION, PROPAGATION_TO_THE_SECOND, Draft, summary
from gatewright_operator.plan.holding import hold_without_verdict
from gatewright_operator.plan.marks import unmark_if_deleting
from gatewright_operator.plan.pausing import is_paused, order_pause, order_resume, say_paused
from gatewright_operator.plan.people import hear
from gatewright_operator.plan.restore import begin_restore
from gatewright_operator.plan.snapshot import Snapshot
from gatewright_operator.plan.standing import watched_run
from gatewright_operator.plan.widening import late_breached
from gatewright_operator.traffic.services import pinned_selector

STALLED_SECONDS = 10.0
"""After this long without an event, the new pods are looked at one by one."""


def promote(d: Draft, reason: Reason, message: str) -> Plan:
    """The decision: ledger, then the mark by compare-and-swap from the very snapshot that was judged. Effects come next."""
    d.record(d.entry("Promoted", body={"reason": reason, "message": message}))
    d.decide(d.mark("PROMOTE"))
    d.set(phase=Phase.PROMOTING, previous=d.status.stable, hold=None, run="", progress_at=d.now)
    d.say(Reason.PROMOTING, message)
    return d.again()


def promoting(s: Snapshot) -> Plan:
    d = Draft(s)
    deployment = s.deployment
    if deployment is None or deployment.deleting:
        return begin_restore(d, Reason.WORKLOAD_NOT_FOUND, "The Deployment is gone; clearing up.")
    if deployment.revision != d.canary.revision:
        return _another_template(d)
    if (late := late_breached(d)) is not None and (back := _breached_late(d, late)) is not None:
        return back
    # What is un-paused and settled is through: a mark put on now would only have to come off again.
    if deployment.paused or not (deployment.in_flight or deployment.settled):
        if s.memory.open is None or not s.memory.open.promoted:
            # Status only reports. What it says alone un-pauses nothing.
            return hold_without_verdict(
                d,
                Reason.LEDGER_BROKEN,
                f"Status says that {d.canary.revision} is promoted, and the ledger does not. Retry to judge it again, or abort.",
            )
        if deployment.paused and (stopped := _before_it_begins(d)) is not None:
            return stopped
        d.decide(d.mark("PROMOTE"))
        _unpause(d)
        # Nothing to report: only the Deployment's generation is another.
        return Plan(tuple(d.actions), None, 0.0, again=True)
    heard = hear(d, orders=(OrderKind.ABORT,), revision=d.canary.revision)
    if heard is not None:
        d.record(heard.entry(d), required=False)
        message = f"{heard.person} aborted the promotion of {d.canary.revision}: {heard.why}"
        heard.accept(d, Reason.ABORTED, message)
        return begin_restore(d, Reason.ABORTED, message)
    if not deployment.settled:
        return _rolling(d)
    return _clear_up(d)


def _before_it_begins(d: Draft) -> Plan | None:
    """Nothing is un-paused yet, so a Pause still stops it; and while that stands, a breach or an Abort turns it back."""
    orders = (OrderKind.ABORT, OrderKind.PAUSE, OrderKind.RESUME, OrderKind.OVERRIDE)
    heard = hear(d, orders=orders, revision=d.canary.revision)
    if heard is not None and heard.order is not None:
        match heard.order.spec.order:
            case OrderKind.PAUSE:
                return order_pause(d, heard)
            case OrderKind.RESUME:
                return order_resume(d, heard)
            case OrderKind.OVERRIDE:
                return keep(d, heard)
            case _:
                d.record(heard.entry(d), required=False)
                message = f"{heard.person} aborted {d.canary.revision}: {heard.why}"
                heard.accept(d, Reason.ABORTED, message)
                return _take_back(
                    d, Reason.ABORTED, message, AfterBack.ROLLED_BACK, heard.order.metadata.name
                )
    pause = is_paused(d)
    if pause is None:
        return None
    run = watched_run(d.s, d.status)
    verdict = breach_of(run) if run is not None else None
    if run is not None and verdict is not None:
        entry = run_entry(d, run, verdict)
        if not let_be(d, verdict.run_id, verdict.reason, verdict.message, entry):
            d.set(verdict=summary(verdict))
            d.record(entry, required=False)
            return _take_back(
                d, Reason(verdict.reason), verdict.message, AfterBack.ROLLED_BACK, verdict.run_id
            )
    _pin_again(d)
    say_paused(d, pause)
    return d.done(seconds_let_be(d))


def _another_template(d: Draft) -> Plan:
    """The Deployment carries a template that nobody judged: it is never un-paused. What serves says how far we had come."""
    s, deployment = d.s, d.s.deployment
    assert deployment is not None
    found = serving(s.replica_sets or (), deployment)
    if found is not None and found.revision == d.canary.revision:
        return _clear_up(d)
    if found is None or not deployment.paused:
        return begin_restore(
            d,
            Reason.HALF_ROLLED,
            f"{deployment.revision} came in the middle of the rolling update of {d.canary.revision}.",
        )
    return _take_back(
        d,
        Reason.SUPERSEDED,
        f"{deployment.revision} came before {d.canary.revision} was rolled out, and supersedes it.",
        AfterBack.START,
    )


def _take_back(d: Draft, reason: Reason, message: str, then: AfterBack, cause: str = "") -> Plan:
    """Decided, and not yet un-paused: the way back is that of a version that was never promoted."""
    _pin_again(d)
    d.set(previous=None)
    d.go_back(reason, message, then=then, cause=cause)
    return rolling_back(d.s, d)


def _pin_again(d: Draft) -> None:
    """The pin may be off already, and the canary's pods must not stand behind the stable Service."""
    service, originals = d.s.stable_service, d.status.originals
    if d.spec.traffic.gateway_api is None or originals is None or service is None:
        return
    pinned = pinned_selector(originals.stable_selector, d.stable.pod_template_hash)
    if service.selector != pinned:
        d.do(SetSelector("stable", pinned, d.mark("BACK")))


def _breached_late(d: Draft, run: GateRun) -> Plan | None:
    """An approval let it go on while the breach was found. What was not un-paused yet never is. None: it is let be."""
    deployment, breach = d.s.deployment, run.status.breach
    assert deployment is not None
    assert breach is not None
    entry = run_entry(d, run, breach)
    if let_be(d, run.metadata.name, breach.reason, breach.message, entry):
        return None
    d.set(verdict=summary(breach))
    d.record(entry, required=False)
    if not deployment.paused:
        return begin_restore(d, Reason(breach.reason), breach.message)
    return _take_back(d, Reason(breach.reason), breach.message, AfterBack.ROLLED_BACK, breach.run_id)


def _unpause(d: Draft) -> None:
    """Unpin and unmark, then in-flight and un-pause in one write: a pinned Service would be left without endpoints."""
    _unpin(d)
    annotations: dict[str, str | None] = {IN_FLIGHT: d.canary.revision}
    if d.s.deployment is not None and d.s.deployment.pinned:
        annotations[PINNED] = None
    d.do(PatchDeployment(annotations=annotations, paused=False))


def _unpin(d: Draft) -> None:
    service, originals = d.s.stable_service, d.status.originals
    if d.spec.traffic.gateway_api is None or originals is None or service is None:
        return
    if service.selector != originals.stable_selector or service.decision:
        d.do(SetSelector("stable", originals.stable_selector, None))


def _rolling(d: Draft) -> Plan:
    """The native rolling update is on its way, or stuck: quota makes room first, failing pods are a breach, the rest waits."""
    s, deployment = d.s, d.s.deployment
    assert deployment is not None
    late = d.status.progress_at is not None and d.now - d.status.progress_at > d.spec.progress_deadline
    if s.promoted.failing:
        message = f"Promoted containers fail again and again: {', '.join(s.promoted.failing[:3])}."
        if not let_be(d, "promoted-pods", Reason.POD_FAILURE, message):
            return begin_restore(d, Reason.POD_FAILURE, message)
    if deployment.replica_failure or s.promoted.trouble:
        _make_room(d)
        why = deployment.replica_failure or s.promoted.trouble
        return d.wait(
            f"The rolling update is short of room ({why}); the canary goes first.", seconds=STALLED_SECONDS
        )
    if late:
        d.problem = Reason.PROGRESS_DEADLINE
        return d.wait(
            f"The rolling update of {d.canary.revision} made no progress for {format_duration(d.spec.progress_deadline)}; mend it, or abort to go back to {d.stable.revision}.",
            seconds=60.0,
        )
    return d.wait(
        f"Rolling {d.canary.revision} out to all pods.", seconds=STALLED_SECONDS, since=d.status.progress_at
    )


def _make_room(d: Draft) -> None:
    if d.spec.traffic.gateway_api is not None and route_to_rest(d):
        d.set(weight=WeightStatus(desired=0, actual=0, since=d.now))
    elif unobeyed_seconds(d) == 0:
        canary_gone(d)


def _clear_up(d: Draft) -> Plan:
    """All pods are new. Weights to rest, canary gone, its Service as it was, then the marks come off."""
    s, originals = d.s, d.status.originals
    if route_to_rest(d):
        return d.wait(f"All pods are {d.canary.revision}.", seconds=PROPAGATION.total_seconds(), since=d.now)
    written = s.route.written_at if s.route is not None else None
    rested = written + PROPAGATION_TO_THE_SECOND if written is not None else None
    if (left := unobeyed_seconds(d)) > 0:
        return d.wait(f"All pods are {d.canary.revision}.", seconds=left, since=d.now)
    if not canary_gone(d):
        return d.wait("Waiting until the canary's pods are gone.", seconds=5.0, since=rested)
    assert s.deployment is not None
    found = serving(s.replica_sets or (), s.deployment)
    if found is None:
        return d.wait("Waiting until one ReplicaSet has all pods.", seconds=2.0, since=rested)
    if (
        originals is not None
        and s.canary_service is not None
        and d.spec.traffic.gateway_api is not None
        and (s.canary_service.selector != originals.canary_selector or s.canary_service.decision)
    ):
        d.do(SetSelector("canary", originals.canary_selector, None))
    # Who overrides may have taken off the pin alone.
    _unpin(d)
    stamp = {RESUMED_BY: None} if s.deployment.resumed_by else {}
    d.do(PatchDeployment(annotations={IN_FLIGHT: None, **stamp}))
    unmark_if_deleting(d)
    d.do(SetFinalizer(False))
    d.set(
        stable=as_stable(found, s.deployment),
        weight=WeightStatus(),
        originals=None,
        rejected=None,
        progress_at=d.now,
    )
    return begin_bake(d)
