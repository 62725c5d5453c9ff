"""Phases Idle and RolledBack: nothing is on its way. A new template starts; a reverted one is released; a refused one waits."""

from gatewright_analysis.kinds.review import OrderKind
from gatewright_analysis.kinds.rollout import Phase, RejectedStatus
from gatewright_analysis.names import FINALIZER, GATED_LABEL, IN_FLIGHT, PINNED, ROLLOUT_LABEL
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.actions import DeleteCanary, PatchDeployment, Plan, SetFinalizer
from gatewright_operator.plan.adopt import UNWATCHED_PROBLEM_SECONDS, refuse
from gatewright_operator.plan.budget import resolve, still_held, used_up
from gatewright_operator.plan.checks import first_problem
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.overriding import unpaused_at_rest
from gatewright_operator.plan.people import answer_late_ones, hear
from gatewright_operator.plan.recover import begun_unnoticed, recover
from gatewright_operator.plan.restore import begin_restore
from gatewright_operator.plan.snapshot import Problem, Snapshot
from gatewright_operator.plan.start import half_rolled, hold_template, start


def idle(s: Snapshot) -> Plan:
    d = Draft(s)
    answer_late_ones(d)
    if _begun_for_another(d):
        return recover(d)
    if s.deployment is None or s.deployment.deleting:
        return _workload_gone(d)
    if s.deployment.revision == d.stable.revision:
        return _at_rest(d)
    return _new_template(d)


def rolled_back(s: Snapshot) -> Plan:
    d = Draft(s)
    rejected = d.status.rejected
    deployment = s.deployment
    if _begun_for_another(d):
        return recover(d)
    if deployment is None or deployment.deleting:
        return _workload_gone(d)
    if deployment.revision == d.stable.revision and (deployment.paused or _taken_back(d)):
        return _at_rest(d)
    if deployment.revision == d.stable.revision or rejected is None:
        answer_late_ones(d)
        _sweep(d)
        return d.done()
    if deployment.revision != rejected.revision:
        answer_late_ones(d)
        return _new_template(d)
    if half_rolled(d):
        return _new_template(d)
    if (overridden := unpaused_at_rest(d)) is not None:
        return overridden
    if hold_template(d):
        return d.again()
    heard = hear(d, orders=(OrderKind.RETRY,), revision=rejected.revision)
    if heard is not None or begun_unnoticed(d) is not None:
        started = start(d)
        if heard is not None and d.status.phase is Phase.PROGRESSING:
            d.record(heard.entry(d))
            heard.accept(
                d, Reason.RETRIED, f"{rejected.revision} is tried again, attempt {d.status.attempt}."
            )
            resolve(d, f"{heard.person} ordered a Retry of {rejected.revision}: {heard.why}")
            return d.again()
        return started
    still_held(d)
    _sweep(d)
    return d.done()


def _sweep(d: Draft) -> None:
    """What is left of a start that never came into the ledger, or was made after another operator had cleared up."""
    canary, deployment = d.s.canary, d.s.deployment
    if deployment is not None and deployment.pinned:
        d.do(PatchDeployment(annotations={PINNED: None}))
    if FINALIZER in d.s.rollout.metadata.finalizers:
        d.do(SetFinalizer(False))
    if (
        canary is not None
        and not canary.deleting
        and canary.labels.get(ROLLOUT_LABEL) == d.s.rollout.metadata.name
    ):
        d.do(DeleteCanary())


def _begun_for_another(d: Draft) -> bool:
    """A start was cut short by a crash, and the template that it was for is not there any more."""
    begun, deployment = begun_unnoticed(d), d.s.deployment
    present = deployment.revision if deployment is not None and not deployment.deleting else ""
    return begun is not None and (begun.revision != present or begun.back is not None)


def _taken_back(d: Draft) -> bool:
    """The Deployment carried the refused template when it was last reported, and carries stable's now."""
    rejected = d.status.rejected
    return rejected is not None and d.status.observed_revision == rejected.revision


def _at_rest(d: Draft) -> Plan:
    """The workload carries the stable version. A pause left by a held template that was taken back is released."""
    deployment = d.s.deployment
    assert deployment is not None
    if deployment.in_flight and deployment.settled:
        d.do(PatchDeployment(annotations={IN_FLIGHT: None}))
    if deployment.paused:
        d.do(PatchDeployment(paused=False))
        d.set(phase=Phase.IDLE, canary=None, back=None)
        d.say(
            Reason.REVERTED,
            f"The template is that of stable {d.stable.revision} again; the guard is released, no pod was touched.",
        )
        return d.again()
    resolve(d, f"The template is that of stable {d.stable.revision} again.")
    d.set(phase=Phase.IDLE)
    _sweep(d)
    if not deployment.gated:
        d.do(PatchDeployment(labels={GATED_LABEL: "true"}))
    problem = first_problem(d.s)
    if problem is not None:
        return refuse(d, problem)
    if not d.s.guarded:
        d.problem = Reason.GUARD_MISSING
        return d.wait("The admission policies are missing or altered; install the chart again.", seconds=30.0)
    before = d.s.rollout.status
    mended = any(c.type == "Stalled" and c.status == "True" for c in before.conditions)
    if not d.status.message or (mended and before.phase is Phase.IDLE):
        d.set(message=f"Revision {d.stable.revision} is stable; waiting for a new template.")
    return d.done()


def _new_template(d: Draft) -> Plan:
    if (overridden := unpaused_at_rest(d)) is not None:
        return overridden
    if half_rolled(d):
        assert d.s.deployment is not None
        return begin_restore(
            d,
            Reason.HALF_ROLLED,
            f"{d.s.deployment.revision} was rolling out past the guard; {d.stable.revision}, the last version in the ledger, is put back.",
            rejected=RejectedStatus(
                revision=d.s.deployment.revision,
                reason=Reason.HALF_ROLLED,
                message="It was never judged.",
                at=d.now,
            ),
        )
    if hold_template(d):
        return d.again()
    assert d.s.deployment is not None
    revision = d.s.deployment.revision
    if (refused := d.s.memory.rejected.get(revision)) is not None:
        d.set(
            phase=Phase.ROLLED_BACK,
            rejected=RejectedStatus(
                revision=revision, reason=refused.reason, message=refused.message, at=refused.at
            ),
        )
        d.say(
            Reason.ROLLED_BACK,
            f"{revision} was refused before and is not tried again without a Retry: {refused.message}",
            warning=True,
        )
        return d.again()
    return used_up(d) or start(d)


def _workload_gone(d: Draft) -> Plan:
    d.set(phase=None, stable=None, canary=None)
    return refuse(
        d,
        Problem(
            Reason.WORKLOAD_NOT_FOUND,
            f"Deployment {d.spec.workload_ref.name} is gone; its next first version is adopted as it is.",
        ),
        seconds=UNWATCHED_PROBLEM_SECONDS,
    )
