"""Phase none: a Rollout that has not taken its workload under guard yet, or whose status was lost."""

from gatewright_analysis.kinds.rollout import Phase, StableStatus
from gatewright_analysis.names import FINALIZER, GATED_LABEL
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.actions import PatchDeployment, Plan, SetFinalizer, StoreTemplate
from gatewright_operator.plan.checks import first_problem, user_pause
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.recover import recover
from gatewright_operator.plan.snapshot import Problem, Snapshot
from gatewright_operator.workload import DeploymentView, ReplicaSetView

RECHECK_SECONDS = 30.0
UNWATCHED_SECONDS = 2.0
"""A Deployment is watched once it is gated; until then it is looked at again after this long."""
UNWATCHED_PROBLEM_SECONDS = 5.0
"""The same, where something stands in the way that a person has to mend."""


def refuse(d: Draft, problem: Problem, *, seconds: float = RECHECK_SECONDS) -> Plan:
    """Nothing is done; the condition says why and what to do, and the world is looked at again on any change."""
    d.problem = problem.reason
    return d.wait(problem.message, seconds=seconds)


def serving(replica_sets: tuple[ReplicaSetView, ...], deployment: DeploymentView) -> ReplicaSetView | None:
    """The one ReplicaSet that serves; None while there are two, or none yet. At zero pods it is the template's own."""
    alive = [r for r in replica_sets if r.replicas > 0 or r.total > 0]
    if len(alive) > 1:
        return None
    return alive[0] if alive else next((r for r in replica_sets if r.revision == deployment.revision), None)


def as_stable(found: ReplicaSetView, deployment: DeploymentView) -> StableStatus:
    return StableStatus(
        revision=found.revision,
        pod_template_hash=found.pod_template_hash,
        replicas=deployment.replicas,
        images=found.images,
    )


def adopting(s: Snapshot) -> Plan:
    d = Draft(s)
    if s.memory.open is not None:
        return recover(d)
    if FINALIZER in s.rollout.metadata.finalizers:
        # No rollout stands open: what a lost status left of the last one is its finalizer at most.
        d.do(SetFinalizer(False))
    if (problem := first_problem(s) or user_pause(s)) is not None:
        return refuse(d, problem, seconds=UNWATCHED_PROBLEM_SECONDS)
    deployment = s.deployment
    assert deployment is not None
    found = serving(s.replica_sets or (), deployment)
    settled = deployment.settled or (deployment.gated and deployment.paused)
    if found is None or not settled:
        return refuse(
            d,
            Problem(
                Reason.WORKLOAD_NOT_READY,
                f"Waiting until one ReplicaSet of {deployment.name} has all pods, and all of them are available.",
            ),
            seconds=UNWATCHED_SECONDS,
        )
    stable = as_stable(found, deployment)
    d.set(
        phase=Phase.IDLE, stable=stable, weight=d.status.weight.model_copy(update={"desired": 0, "actual": 0})
    )
    d.record(
        d.entry("Adopted", revision=stable.revision, step="", attempt=0, body={"stable": stable.wire()}),
        required=True,
    )
    # What to go back to when a template gets past the guard before any rollout.
    d.do(StoreTemplate(stable.revision, found.template))
    if not deployment.gated:
        d.do(PatchDeployment(labels={GATED_LABEL: "true"}))
    d.say(Reason.ADOPTED, f"Deployment {deployment.name} is gated; revision {stable.revision} is stable.")
    return d.again()
