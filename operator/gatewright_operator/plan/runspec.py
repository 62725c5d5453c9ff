"""From a step to the GateRun that judges it: what is judged, by what, and when. Pure."""

from gatewright_analysis.kinds.contract import Check, GateContractSpec, Stage
from gatewright_analysis.kinds.rollout import Gate, OnInconclusive, RolloutSpec
from gatewright_analysis.kinds.run import ArmRef, GateRun, GateRunSpec, ImageRef, RunClock
from gatewright_analysis.ledger import world_snapshot
from gatewright_analysis.task import count_e_processes
from gatewright_operator.plan.draft import PROPAGATION, Draft
from gatewright_operator.plan.fingerprints import pins
from gatewright_operator.plan.snapshot import CanaryPods
from gatewright_operator.workload import canary_name, pod_prefix


def run_name(d: Draft) -> str:
    """One GateRun per (revision, step, attempt)."""
    return _name(d, d.status.attempt)


def _name(d: Draft, attempt: int) -> str:
    return f"{d.s.rollout.metadata.name}-{d.canary.revision}-{d.step_key()}-{attempt}"


def bound(d: Draft, run: GateRun) -> bool:
    """A verdict counts for exactly this Rollout, revision, step, attempt, contract and world."""
    spec = run.spec
    given = (verdict for verdict in (run.status.verdict, run.status.breach) if verdict is not None)
    return (
        spec.rollout_uid,
        spec.revision,
        spec.step,
        spec.attempt,
        spec.contract_digest,
        spec.fingerprints,
    ) == (
        d.s.rollout.metadata.uid,
        d.canary.revision,
        d.step_key(),
        d.status.attempt,
        d.canary.contract_digest,
        pins(d),
    ) and all(verdict.change.world_snapshot == spec.world_snapshot for verdict in given)


def checks_at(contract: GateContractSpec, stage: Stage, chosen: tuple[str, ...] = ()) -> tuple[Check, ...]:
    """The checks that judge at a stage: those named, or all that have evidence for it."""
    return tuple(
        c for c in contract.checks if c.evidence_at(stage) is not None and (not chosen or c.id in chosen)
    )


def e_processes(contract: GateContractSpec, spec: RolloutSpec) -> int:
    """m of statistics.md R2 for the whole rollout, its bake included."""
    gates = [
        (Stage.CANARY, checks_at(contract, Stage.CANARY, s.gate.checks))
        for s in spec.steps
        if s.gate is not None
    ]
    if spec.bake is not None:
        gates.append((Stage.BAKE, checks_at(contract, Stage.BAKE)))
    return count_e_processes(
        contract, [(stage, [c.id for c in checks]) for stage, checks in gates], has_stable=True
    )


def _images(pods: CanaryPods) -> tuple[ImageRef, ...]:
    return tuple(ImageRef(container=c, image=i, digest=d) for c, i, d in pods.images)


def _spec(
    d: Draft,
    *,
    stage: Stage,
    weight: int,
    clock: RunClock,
    checks: tuple[Check, ...],
    canary: ArmRef,
    stable: ArmRef | None,
    images: tuple[ImageRef, ...],
    on_inconclusive: OnInconclusive,
) -> GateRunSpec:
    contract = d.s.pinned
    assert contract is not None
    bound_to = pins(d)
    snapshot = world_snapshot(
        ((i.container, i.digest or i.image) for i in images), ((f.name, f.value) for f in bound_to)
    )
    # What was seen in another world is no evidence for this one.
    before = (d.s.runs.get(_name(d, n)) for n in range(1, d.status.attempt))
    earlier = tuple(r.metadata.name for r in before if r is not None and r.spec.world_snapshot == snapshot)
    return GateRunSpec(
        rollout=d.s.rollout.metadata.name,
        rollout_uid=d.s.rollout.metadata.uid,
        revision=d.canary.revision,
        step=d.step_key(),
        weight=weight,
        attempt=d.status.attempt,
        stage=stage,
        contract=contract.name,
        contract_generation=contract.generation,
        contract_digest=contract.digest,
        world_snapshot=snapshot,
        images=images,
        initiator=d.canary.initiator,
        checks=tuple(c.id for c in checks),
        clock=clock,
        canary=canary,
        stable=stable,
        e_processes=e_processes(contract.spec, d.spec),
        pooled_from=earlier,
        fingerprints=bound_to,
        on_inconclusive=on_inconclusive,
    )


def gate_spec(d: Draft, gate: Gate) -> GateRunSpec:
    """The run of a gate whose weight has just been accepted: t0 = now + propagation + warm-up."""
    assert d.s.pinned is not None
    gateway = d.spec.traffic.gateway_api
    deployment = d.spec.workload_ref.name
    return _spec(
        d,
        stage=Stage.CANARY,
        weight=d.spec.weight_at(d.status.current_step),
        clock=RunClock(
            weight_at=d.now,
            starts_at=d.now + PROPAGATION + gate.warmup,
            duration=gate.duration,
            max_duration=gate.deadline,
            window=gate.window,
            interval=gate.interval,
        ),
        checks=checks_at(d.s.pinned.spec, Stage.CANARY, gate.checks),
        canary=ArmRef(
            pod_prefix=pod_prefix(canary_name(deployment), d.s.pods.pod_template_hash),
            revision=d.s.pods.pod_template_hash,
            service=gateway.canary_service if gateway else "",
            workload=canary_name(deployment),
        ),
        stable=ArmRef(
            pod_prefix=pod_prefix(deployment, d.stable.pod_template_hash),
            revision=d.stable.pod_template_hash,
            service=gateway.stable_service if gateway else "",
            workload=deployment,
        ),
        images=_images(d.s.pods),
        on_inconclusive=OnInconclusive.HOLD,
    )


def bake_spec(d: Draft) -> GateRunSpec | None:
    """The run of the bake: the promoted pods against the absolute limits. None when no check judges there."""
    bake, contract = d.spec.bake, d.s.pinned
    assert bake is not None and contract is not None
    checks = checks_at(contract.spec, Stage.BAKE)
    if not checks:
        return None
    gateway = d.spec.traffic.gateway_api
    deployment = d.spec.workload_ref.name
    return _spec(
        d,
        stage=Stage.BAKE,
        weight=100,
        clock=RunClock(
            weight_at=d.now,
            starts_at=d.now + bake.warmup,
            duration=bake.duration,
            max_duration=bake.duration,
            window=bake.window,
            interval=bake.interval,
        ),
        checks=checks,
        canary=ArmRef(
            pod_prefix=pod_prefix(deployment, d.stable.pod_template_hash),
            revision=d.stable.pod_template_hash,
            service=gateway.stable_service if gateway else "",
            workload=deployment,
        ),
        stable=None,
        images=_images(d.s.promoted),
        on_inconclusive=bake.on_inconclusive,
    )
