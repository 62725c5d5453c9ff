"""Phase Restoring: after promotion (or past the guard) the recorded template is put back and rolled out natively."""

from gatewright_analysis.kinds.rollout import AfterBack, BackStatus, Phase, RejectedStatus, WeightStatus
from gatewright_analysis.names import IN_FLIGHT, PINNED
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.actions import Entry, PatchDeployment, Plan, SetFinalizer, SetRoute
from gatewright_operator.plan.adopt import as_stable, serving
from gatewright_operator.plan.back import canary_gone, release_pins, unobeyed_seconds
from gatewright_operator.plan.draft import PROPAGATION, Draft
from gatewright_operator.plan.marks import unmark_if_deleting
from gatewright_operator.plan.snapshot import Snapshot


def begin_restore(d: Draft, reason: Reason, message: str, *, rejected: RejectedStatus | None = None) -> Plan:
    """Decides to put the version before back. Traffic leaves the canary in this very plan."""
    refused = rejected or RejectedStatus(
        revision=d.canary.revision, reason=reason, message=message[:1024], at=d.now
    )
    target = d.status.previous or d.stable
    d.set(
        phase=Phase.RESTORING,
        previous=target,
        rejected=refused,
        hold=None,
        run="",
        back=BackStatus(reason=reason, message=message[:1024], then=AfterBack.ROLLED_BACK, at=d.now),
        progress_at=d.now,
    )
    d.record(_decision(d), required=False)
    d.say(Reason.RESTORING, f"Putting {target.revision} back: {message}", warning=True)
    _leave_canary(d)
    return d.again()


def _decision(d: Draft) -> Entry:
    """That the version before is put back, and why. Putting it back never waits for this; being back does."""
    target, rejected = d.status.previous, d.status.rejected
    assert target is not None and rejected is not None
    body = {"to": target.wire(), "message": rejected.message}
    return d.entry("Restoring", step="", cause=rejected.reason, revision=rejected.revision, body=body)


def _leave_canary(d: Draft) -> bool:
    route = d.s.route
    if d.spec.traffic.gateway_api is None or route is None or d.s.canary is None or route.canary_percent == 0:
        return False
    d.do(SetRoute(*route.weights_for(0), route.decision or None))
    d.set(weight=WeightStatus(desired=0, actual=0, since=d.now))
    return True


def restoring(s: Snapshot) -> Plan:
    d = Draft(s)
    deployment, target, rejected = s.deployment, d.status.previous, d.status.rejected
    assert target is not None and rejected is not None
    if _leave_canary(d):
        return d.wait(d.status.message, seconds=PROPAGATION.total_seconds())
    if s.canary is not None and (left := unobeyed_seconds(d)) > 0:
        return d.done(left)
    if not canary_gone(d):
        return d.wait(d.status.message, seconds=5.0)
    if deployment is None or deployment.deleting:
        return _arrive(d)
    found = serving(s.replica_sets or (), deployment)
    third = deployment.revision not in (rejected.revision, target.revision)
    if third and deployment.paused and found is not None and found.revision == target.revision:
        # All pods are back already, and the next template waits for its turn.
        return _arrive(d)
    there = deployment.revision == (s.restore.revision if s.restore is not None else target.revision)
    if s.restore is None and not there:
        return d.wait(
            f"The recorded template of {target.revision} is missing; put that template on the Deployment by hand.",
            seconds=30.0,
        )
    if not there or deployment.paused:
        mark = f"{rejected.revision}/{d.status.attempt}/restore/ROLLBACK"
        d.decide(
            mark,
            annotations={IN_FLIGHT: target.revision, PINNED: None},
            paused=False,
            template=s.restore.template if s.restore is not None and not there else None,
        )
        return d.again()
    if not deployment.settled:
        return d.wait(
            f"Rolling {target.revision} back out to all pods.", seconds=10.0, since=d.status.progress_at
        )
    return _arrive(d)


def _arrive(d: Draft) -> Plan:
    s, target, rejected = d.s, d.status.previous, d.status.rejected
    assert target is not None and rejected is not None
    stable = target
    if s.deployment is not None:
        found = serving(s.replica_sets or (), s.deployment)
        if found is None:
            return d.wait(
                "Waiting until one ReplicaSet has all pods.", seconds=2.0, since=d.status.progress_at
            )
        stable = as_stable(found, s.deployment)
    release_pins(d)
    if s.deployment is not None and s.deployment.in_flight:
        d.do(PatchDeployment(annotations={IN_FLIGHT: None}))
    unmark_if_deleting(d)
    body = {"to": stable.wire(), "message": rejected.message}
    restored = d.entry("Restored", step="", revision=rejected.revision, body=body)
    d.record(_decision(d), restored, required=d.waits_for_its_end)
    d.do(SetFinalizer(False))
    d.set(
        phase=Phase.ROLLED_BACK,
        stable=stable,
        canary=None,
        previous=None,
        weight=WeightStatus(),
        originals=None,
    )
    d.say(
        Reason.RESTORED,
        f"All pods are {stable.revision} again; {rejected.revision} was refused: {rejected.message}",
        warning=True,
    )
    return d.again()
