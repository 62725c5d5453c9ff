"""Phase Baking: after 100 %, the promoted pods are watched; a breach restores the version before, silence never does."""

from gatewright_analysis.kinds.base import format_duration
from gatewright_analysis.kinds.review import OrderKind
from gatewright_analysis.kinds.rollout import OnInconclusive, Phase
from gatewright_analysis.reasons import Reason
from gatewright_analysis.verdict import Decision
from gatewright_operator.plan.actions import CreateRun, Plan
from gatewright_operator.plan.breaches import keep, let_be, run_entry, seconds_let_be
from gatewright_operator.plan.draft import Draft, summary
from gatewright_operator.plan.fingerprints import never_known, unpinned
from gatewright_operator.plan.holding import hold, hold_without_verdict
from gatewright_operator.plan.people import answer_late_ones, hear
from gatewright_operator.plan.restore import begin_restore
from gatewright_operator.plan.runspec import bake_spec, bound, run_name
from gatewright_operator.plan.snapshot import Problem, Snapshot
from gatewright_operator.plan.widening import late_breached


def begin_bake(d: Draft) -> Plan:
    """From Promoting: bake where the Rollout asks for it, else the release is complete."""
    if d.spec.bake is None:
        return complete(d, f"{d.stable.revision} is promoted and serves all traffic.")
    d.set(phase=Phase.BAKING)
    d.say(
        Reason.BAKING,
        f"{d.stable.revision} serves all traffic; baking for {format_duration(d.spec.bake.duration)}.",
    )
    return d.again()


def baking(s: Snapshot) -> Plan:
    d = Draft(s)
    if (interruption := bake_interrupted(d)) is not None:
        return interruption
    heard = hear(d, orders=(OrderKind.ABORT, OrderKind.OVERRIDE), revision=d.canary.revision)
    if heard is not None and heard.order is not None and heard.order.spec.order is OrderKind.OVERRIDE:
        return keep(d, heard)
    if heard is not None:
        d.record(heard.entry(d), required=False)
        message = f"{heard.person} aborted {d.canary.revision} in its bake: {heard.why}"
        heard.accept(d, Reason.ABORTED, message)
        return begin_restore(d, Reason.ABORTED, message)
    if d.spec.bake is None:
        return complete(d, "The Rollout no longer asks for a bake.")
    run = s.runs.get(run_name(d))
    if run is None:
        return _begin_run(d)
    if not bound(d, run):
        return d.wait(
            f"GateRun {run.metadata.name} belongs to another rollout; waiting until it is deleted.",
            seconds=5.0,
        )
    verdict = run.status.verdict
    if verdict is None:
        return d.done((run.spec.clock.interval * 2).total_seconds() + 30.0)
    d.set(verdict=summary(verdict))
    entry = run_entry(d, run, verdict)
    if verdict.decision is Decision.ROLLBACK and let_be(
        d, run.metadata.name, verdict.reason, verdict.message, entry
    ):
        return d.done(seconds_let_be(d))
    d.record(entry, required=verdict.decision is not Decision.ROLLBACK)
    match verdict.decision:
        case Decision.ROLLBACK:
            return begin_restore(d, Reason(verdict.reason), verdict.message)
        case Decision.HOLD:
            return hold(d, run, verdict)
        case Decision.PROMOTE:
            return complete(d, f"{d.stable.revision} is baked: {verdict.message}")


def bake_interrupted(d: Draft) -> Plan | None:
    """What ends a bake, held or not, before its verdict or a person does; None when nothing does."""
    deployment, run = d.s.deployment, d.s.runs.get(run_name(d))
    if deployment is None or deployment.deleting:
        return complete(d, "The Deployment is gone; the bake ends.")
    if deployment.revision != d.stable.revision:
        return complete(d, f"A new template ends the bake of {d.stable.revision}.")
    here = run if run is not None and bound(d, run) and run.status.breach is not None else late_breached(d)
    breach = here.status.breach if here is not None else None
    if here is None or breach is None:
        return None
    d.set(verdict=summary(breach))
    entry = run_entry(d, here, breach)
    if let_be(d, breach.run_id, breach.reason, breach.message, entry):
        return None
    d.record(entry, required=False)
    return begin_restore(d, Reason(breach.reason), breach.message)


def _begin_run(d: Draft) -> Plan:
    if d.s.pinned is None:
        return complete(
            d, "The pinned contract cannot be read; absence of data never reverts a finished release."
        )
    # Of this attempt: who retries a bake has seen that the tag moved, and wants what runs now to be judged.
    gates = (
        r.spec for r in d.s.runs.values() if r.spec.step != "bake" and r.spec.attempt == d.status.attempt
    )
    judged = next((spec.images for spec in gates if spec.images), ())
    by_container = {i.container: i.digest for i in judged if i.digest}
    changed = [
        (c, digest)
        for c, _, digest in d.s.promoted.images
        if digest and by_container.get(c, digest) != digest
    ]
    if changed:
        container, digest = changed[0]
        return hold_without_verdict(
            d,
            Reason.DIGEST_CHANGED,
            f"Container {container} runs {digest}, but {by_container[container]} was judged: the tag moved. Abort to go back, or retry to judge what runs.",
        )
    spec = bake_spec(d)
    waits = unpinned(d, late=lambda problem: _never_known(d, problem)) if spec is not None else None
    if waits is not None:
        return waits
    if spec is None:
        return complete(d, "No check has evidence for Bake.")
    d.do(CreateRun(run_name(d), spec))
    d.set(run=run_name(d))
    return d.done()


def _never_known(d: Draft, problem: Problem) -> Plan:
    sentence = never_known(d, problem)
    if d.spec.bake is not None and d.spec.bake.on_inconclusive is OnInconclusive.COMPLETE:
        return complete(d, f"The bake ends without a verdict. {sentence}")
    return hold_without_verdict(d, problem.reason, sentence)


def complete(d: Draft, message: str) -> Plan:
    """The release is over. The version that serves is stable; nothing of the rollout is left but its records."""
    d.record(d.entry("Completed", body={"message": message}), required=d.waits_for_its_end)
    d.set(
        phase=Phase.IDLE,
        canary=None,
        previous=None,
        hold=None,
        back=None,
        run="",
        originals=None,
        progress_at=d.now,
    )
    answer_late_ones(d)
    d.say(Reason.COMPLETED, message)
    return d.again()
