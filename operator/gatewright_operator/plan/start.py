"""The move Start: from a held new template to a canary without weight. Every write in the order of docs/explanation/guard.md."""

from typing import Literal

from gatewright_analysis.kinds.rollout import CanaryStatus, Originals, Phase, StableStatus, WeightStatus
from gatewright_analysis.names import PINNED, RESUMED_BY, REVISION_LABEL
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.actions import (
    CreateCanary,
    DeleteReplicaSets,
    DeleteRuns,
    PatchDeployment,
    Plan,
    SetFinalizer,
    SetSelector,
    StoreTemplate,
)
from gatewright_operator.plan.adopt import refuse
from gatewright_operator.plan.back import canary_gone
from gatewright_operator.plan.checks import first_problem
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.duties import disclosed
from gatewright_operator.plan.recover import begun_unnoticed
from gatewright_operator.plan.snapshot import PinnedContract, Problem
from gatewright_operator.traffic.services import ServiceView, canary_selector, pinned_selector


def start(d: Draft) -> Plan:
    """Begins the rollout of the Deployment's present template, or goes on with a beginning that a crash cut short."""
    s, deployment, contract = d.s, d.s.deployment, d.s.contract
    if (problem := first_problem(s)) is not None:
        return refuse(d, problem)
    assert deployment is not None and s.replica_sets is not None
    if not s.guarded:
        return refuse(
            d,
            Problem(
                Reason.GUARD_MISSING,
                "The admission policies that hold a new template are missing or altered; install the chart again. Nothing starts without them.",
            ),
        )
    if deployment.observed_generation < deployment.generation:
        # Its controller is about to write; a compare-and-swap now would only meet that.
        return d.wait("Waiting until the new template is observed.", seconds=2.0, since=d.now)
    assert contract is not None
    stable = stable_now(d)
    serving = next((r for r in s.replica_sets if r.pod_template_hash == stable.pod_template_hash), None)
    if serving is None or (serving.total == 0 and deployment.total > 0):
        return refuse(
            d,
            Problem(
                Reason.WORKLOAD_NOT_READY,
                f"The pods that serve are not those of stable {stable.revision}, and its Service cannot be pinned to nothing. Put the stable template back, or delete this Rollout and create it again.",
            ),
        )
    begun = begun_unnoticed(d)
    if begun is not None and begun.revision != deployment.revision:
        begun = None
    begun_here = (
        begun is not None and s.canary is not None and s.canary.labels.get(REVISION_LABEL) == begun.revision
    )
    if (s.canary is not None or s.pods.total > 0) and not begun_here:
        canary_gone(d)
        return d.wait("Waiting until the canary of the version before is gone.", seconds=2.0, since=d.now)
    attempt = begun.attempt if begun else s.memory.attempts.get(deployment.revision, 0) + 1
    originals = begun.originals if begun else originals_now(d)
    canary = (
        begun.canary
        if begun
        else CanaryStatus(
            revision=deployment.revision,
            initiator=deployment.initiator,
            contract_digest=contract.digest,
            contract_written_by=contract.written_by,
            images=deployment.images,
        )
    )
    d.set(
        phase=Phase.PROGRESSING,
        stable=stable,
        canary=canary,
        attempt=attempt,
        originals=originals,
        current_step=0,
        step_started_at=d.now,
        progress_at=d.now,
        run="",
        weight=WeightStatus(),
        verdict=None,
        hold=None,
        back=None,
        previous=None,
        rejected=None,
    )
    # First, because it is refused where this picture of the Rollout is old: then nothing of it comes into the ledger.
    d.do(SetFinalizer(True))
    record_start(d, contract, stable, canary, originals)
    gateway = d.spec.traffic.gateway_api
    mark = d.mark("START")
    # Only what does not stand already is written: a beginning that was cut short is gone on with, not done twice.
    marks: dict[str, str | None] = {RESUMED_BY: None} if deployment.resumed_by else {}
    if gateway and not deployment.pinned:
        marks[PINNED] = gateway.stable_service
    d.decide(mark, annotations=marks)
    idle_sets = tuple(
        (r.name, r.resource_version)
        for r in s.replica_sets
        if r.replicas == 0 and r.total == 0 and r.pod_template_hash != stable.pod_template_hash
    )
    if s.old_runs:
        d.do(DeleteRuns(s.old_runs))
    if idle_sets:
        d.do(DeleteReplicaSets(idle_sets))
    d.do(StoreTemplate(stable.revision, serving.template))
    if gateway is not None:
        pins: tuple[tuple[Literal["stable", "canary"], ServiceView | None, dict[str, str]], ...] = (
            (
                "stable",
                s.stable_service,
                pinned_selector(originals.stable_selector, stable.pod_template_hash),
            ),
            ("canary", s.canary_service, canary_selector(s.rollout.metadata.name, canary.revision)),
        )
        for which, service, wanted in pins:
            if service is None or (service.selector, service.decision) != (wanted, mark):
                d.do(SetSelector(which, wanted, mark))
    if not begun_here:
        assert s.canary_manifest is not None
        d.do(CreateCanary(s.canary_manifest))
    who = canary.initiator or "an unproven writer"
    d.say(
        Reason.STARTED,
        f"Revision {canary.revision} by {who} starts against {stable.revision}, attempt {attempt}, contract {contract.name}@{contract.generation}{disclosed(d)}.",
    )
    return d.again()


def stable_now(d: Draft) -> StableStatus:
    """Stable with its size at this moment: what the way back must at least restore."""
    assert d.s.deployment is not None
    return d.stable.model_copy(update={"replicas": d.s.deployment.replicas})


def originals_now(d: Draft) -> Originals:
    s = d.s
    if s.route is None or s.stable_service is None or s.canary_service is None:
        return Originals()
    return Originals(
        stable_selector=s.stable_service.selector,
        canary_selector=s.canary_service.selector,
        stable_weight=s.route.stable_weight,
        canary_weight=s.route.canary_weight,
    )


def record_start(
    d: Draft, contract: PinnedContract, stable: StableStatus, canary: CanaryStatus, originals: Originals
) -> None:
    entries = []
    if contract.digest not in d.s.memory.contracts:
        entries.append(
            d.entry(
                "Contract",
                cause=contract.digest,
                step="",
                body={"name": contract.name, "generation": contract.generation, "spec": contract.spec.wire()},
            )
        )
    entries.append(
        d.entry(
            "Started",
            step="",
            body={"stable": stable.wire(), "canary": canary.wire(), "originals": originals.wire()},
        )
    )
    d.record(*entries)


def half_rolled(d: Draft) -> bool:
    """Two live ReplicaSets on a Deployment at rest: a template got past the guard, or a promotion was cut in two."""
    return sum(1 for r in d.s.replica_sets or () if r.replicas > 0) > 1


def hold_template(d: Draft) -> bool:
    """A new template that is not paused got past the guard: pause it now. True when that had to be done."""
    deployment = d.s.deployment
    if deployment is None or deployment.paused or deployment.in_flight:
        return False
    d.do(PatchDeployment(paused=True))
    d.say(
        Reason.GUARD_MISSING,
        f"A new template reached {deployment.name} without being held; it is paused now. Install the admission policies again.",
        warning=True,
    )
    return True
