"""From a step to the GateRun that judges it: what is judged, by what, and when. Pure."""

from collections.abc import Iterable

from gatewright_analysis.kinds.contract import Check, GateContractSpec, Pool, Stage
from gatewright_analysis.kinds.rollout import Gate, OnInconclusive, RolloutSpec
from gatewright_analysis.kinds.run import ArmRef, GateRun, GateRunSpec, ImageRef, RunClock
from gatewright_analysis.ledger import world_snapshot
from gatewright_analysis.task import count_e_processes
from gatewright_operator.plan.draft import PROPAGATION, Draft
from gatewright_operator.plan.fingerprints import pins
from gatewright_operator.plan.reach import reaching
from gatewright_operator.plan.samples import pooled_for_samples
from gatewright_operator.plan.snapshot import CanaryPods
from gatewright_operator.workload import canary_name, config_of, declared_world, pod_prefix

MOST_POOLED = 16
MOST_EARLIER = 64
"""As many runs as a GateRun can name; the newest count."""


def run_name(d: Draft) -> str:
    """One GateRun per (revision, step, attempt)."""
    return _name(d, d.status.attempt)


def _name(d: Draft, attempt: int) -> str:
    return f"{d.s.rollout.metadata.name}-{d.canary.revision}-{d.step_key()}-{attempt}"


def bound(d: Draft, run: GateRun) -> bool:
    """A verdict counts for exactly this Rollout, revision, step, attempt, contract and world."""
    spec = run.spec
    status = run.status
    given = (v for v in (status.verdict, status.held, status.breach) if v is not None)
    return (
        spec.step == d.step_key()
        and of_this_attempt(d, run)
        and all(verdict.change.world_snapshot == spec.world_snapshot for verdict in given)
    )


def of_this_attempt(d: Draft, run: GateRun) -> bool:
    """Of this Rollout, revision and attempt, and so by the same contract, in the same world of models and judges."""
    spec = run.spec
    return (spec.rollout_uid, spec.revision, spec.attempt, spec.contract_digest, spec.fingerprints) == (
        d.s.rollout.metadata.uid,
        d.canary.revision,
        d.status.attempt,
        d.canary.contract_digest,
        pins(d),
    )


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


def _attempts_before(d: Draft, world: str) -> tuple[str, ...]:
    """Earlier runs of this step, revision and contract, oldest first."""
    runs = ((name, d.s.runs.get(name)) for n in range(1, d.status.attempt) for name in (_name(d, n),))
    return tuple(name for name, run in runs if run is not None and _same_release(d, run, world))[
        -MOST_POOLED:
    ]


def _steps_before(d: Draft, world: str) -> tuple[str, ...]:
    """Runs of earlier steps of this revision that left evidence, over all attempts, in the order of the steps."""
    here = d.status.current_step
    before = [
        (int(run.spec.step), run.spec.attempt, name)
        for name, run in d.s.runs.items()
        if run.spec.stage is Stage.CANARY
        and int(run.spec.step) < here
        and run.status.evidence is not None
        and _same_release(d, run, world)
    ]
    return tuple(name for _, _, name in sorted(before))[-MOST_EARLIER:]


def _same_release(d: Draft, run: GateRun, world: str) -> bool:
    """Evidence is pooled only where it was asked for in the same words, and seen in the same world."""
    spec = run.spec
    return (spec.rollout_uid, spec.revision, spec.contract_digest, spec.world_snapshot) == (
        d.s.rollout.metadata.uid,
        d.canary.revision,
        d.canary.contract_digest,
        world,
    )


def _is_last_gate(d: Draft, checks: Iterable[Check]) -> bool:
    """No gate comes after this one before 100 %, at least for one of the checks that pool over the rollout: it has to
    pass here. Where several do, the strictest counts."""
    assert d.s.pinned is not None
    later = [s.gate for s in d.spec.steps[d.status.current_step + 1 :] if s.gate is not None]
    again = {c.id for gate in later for c in checks_at(d.s.pinned.spec, Stage.CANARY, gate.checks)}
    pooled = [c.id for c in checks if c.pool is Pool.ROLLOUT]
    return not later or any(id_ not in again for id_ in pooled)


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
    attempt, step, gated = d.status.attempt, d.step_key(), stage is Stage.CANARY
    bound_to = pins(d)
    declared = {} if d.s.deployment is None else declared_world(d.s.deployment.template)
    snapshot = world_snapshot(
        ((i.container, i.digest or i.image) for i in images),
        ((f.name, f.value) for f in bound_to),
        declared,
    )
    before = _attempts_before(d, snapshot)
    pools = gated and any(c.pool is Pool.ROLLOUT for c in checks)
    spec = GateRunSpec(
        rollout=d.s.rollout.metadata.name,
        rollout_uid=d.s.rollout.metadata.uid,
        revision=d.canary.revision,
        step=step,
        weight=weight,
        attempt=attempt,
        stage=stage,
        contract=contract.name,
        contract_generation=contract.generation,
        contract_digest=contract.digest,
        world_snapshot=snapshot,
        images=images,
        config_digest=config_of(d.s.deployment.template) if d.s.deployment is not None else None,
        world=declared,
        initiator=d.canary.initiator,
        checks=tuple(c.id for c in checks),
        clock=clock,
        canary=canary,
        stable=stable,
        e_processes=e_processes(contract.spec, d.spec),
        pooled_from=before,
        earlier_runs=_steps_before(d, snapshot) if pools else (),
        last_gate=_is_last_gate(d, checks) if gated else True,
        more_samples=d.s.memory.more_samples_ordered(d.canary.revision, step, attempt),
        fingerprints=bound_to,
        on_inconclusive=on_inconclusive,
        waivers=reaching(d, step, snapshot, (c.id for c in checks)),
    )
    pooled = tuple(dict.fromkeys((*pooled_for_samples(d, spec), *before)))
    return spec.model_copy(update={"pooled_from": pooled[-MOST_POOLED:]})


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
