"""Puts a verdict together from a run, its results and the decision. Pure."""

from datetime import datetime

from gatewright_analysis.decide import Outcome
from gatewright_analysis.kinds.contract import Tier
from gatewright_analysis.kinds.run import GateRun, ImageRef
from gatewright_analysis.recall import judged_artifact, surroundings
from gatewright_analysis.verdict import Change, CheckResult, Decision, Verdict
from gatewright_operator.run_state import RunState


def verdict_of(
    run: GateRun, state: RunState, results: tuple[CheckResult, ...], outcome: Outcome, now: datetime
) -> Verdict:
    """The verdict of one gate; its evidence digest is put in when the evidence is stored."""
    spec = run.spec
    assert outcome.decision is not None
    return Verdict(
        decision=outcome.decision,
        run_id=run.metadata.name,
        stage=spec.stage,
        step=spec.step,
        attempt=spec.attempt,
        tier=Tier.FULL if any(r.tier is Tier.FULL for r in results) else Tier.FAST,
        started_at=spec.clock.starts_at,
        finished_at=now,
        target=f"{run.metadata.namespace}/{spec.rollout}",
        change=Change(
            revision=spec.revision,
            images=tuple(f"{i.container}={_pinned(i)}" for i in spec.images),
            initiator=spec.initiator,
            contract_version=f"{spec.contract}@{spec.contract_generation}",
            contract_digest=spec.contract_digest,
            world_snapshot=spec.world_snapshot,
            artifact_digest=judged_artifact(spec),
            config_digest=spec.config_digest,
            surroundings=surroundings(spec),
        ),
        blocking=outcome.blocking,
        checks=tuple(r.model_copy(update={"producer": state.producer(r.id)}) for r in results),
        next_actions=_next_actions(
            outcome,
            spec.rollout,
            run.metadata.namespace,
            more=any(state.more_samples_may_come(r) for r in results if r.id in outcome.blocking),
        ),
        reason=outcome.reason,
        message=outcome.message,
    )


def _pinned(image: ImageRef) -> str:
    """The image with the digest that the node pulled; as it is named where that is not known.

    `docker-pullable://REPOSITORY@sha256:…` is one; a bare `sha256:…` is the image's configuration on that node.
    """
    _, at, digest = image.digest.partition("@")
    return image.image if "@" in image.image or not at else f"{image.image}@{digest}"


def _next_actions(outcome: Outcome, rollout: str, namespace: str, *, more: bool) -> tuple[str, ...]:
    """Commands for a person; `more`: samples may be added to those that were spent."""
    gate = f"kubectl gate {{}} {rollout} -n {namespace}"
    match outcome.decision:
        case None:
            return ()
        case Decision.HOLD:
            # Without a blocking check there is nothing that an approval could waive.
            approve = (gate.format("approve") + " --expires 24h --reason '…'",) if outcome.blocking else ()
            return (
                gate.format("review"),
                *approve,
                gate.format("reject") + " --reason '…'",
                gate.format("more-samples" if more else "retry") + " --reason '…'",
            )
        case Decision.ROLLBACK:
            return (gate.format("status"), gate.format("retry") + " --reason '…'")
        case Decision.PROMOTE:
            return ()
