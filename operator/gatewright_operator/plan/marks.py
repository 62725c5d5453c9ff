"""Our marks on the user's Deployment, and how they come off. Pure."""

from gatewright_analysis.names import CHANGED_BY, DECISION, GATED_LABEL, IN_FLIGHT, PINNED, RESUMED_BY
from gatewright_operator.plan.actions import PatchDeployment
from gatewright_operator.plan.draft import Draft
from gatewright_operator.workload import DeploymentView

MARKS = (DECISION, CHANGED_BY, RESUMED_BY, IN_FLIGHT, PINNED)


def unmark(deployment: DeploymentView, stable_revision: str) -> PatchDeployment:
    """Takes every mark off; un-pauses only when the template is the one that serves. Else it stays paused, as it is."""
    present: dict[str, str | None] = {m: None for m in MARKS if m in deployment.annotations}
    release = deployment.paused and deployment.revision == stable_revision
    return PatchDeployment(labels={GATED_LABEL: None}, annotations=present, paused=False if release else None)


def unmark_if_deleting(d: Draft) -> None:
    """The last thing before the finalizer goes, when the Rollout is being deleted."""
    deployment = d.s.deployment
    if (
        d.s.rollout.metadata.deletion_timestamp is not None
        and deployment is not None
        and d.status.stable is not None
    ):
        d.do(unmark(deployment, d.status.stable.revision))
