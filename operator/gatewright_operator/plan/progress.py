"""Phases Progressing and Paused: the canary's weights and gates, one step after the other."""

from dataclasses import replace
from datetime import datetime, timedelta

from gatewright_analysis.kinds.base import format_duration
from gatewright_analysis.kinds.review import OrderKind
from gatewright_analysis.kinds.rollout import AfterBack, Gate, Phase, Step
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.ledger import StandingPause
from gatewright_analysis.reasons import Reason
from gatewright_analysis.verdict import Decision
from gatewright_operator.plan.actions import CreateRun, Plan
from gatewright_operator.plan.approvals import lapsed
from gatewright_operator.plan.back import rolling_back
from gatewright_operator.plan.breaches import breach_of, let_be, run_entry, seconds_let_be
from gatewright_operator.plan.contest import contested
from gatewright_operator.plan.draft import Draft, summary
from gatewright_operator.plan.duties import unseparated
from gatewright_operator.plan.fingerprints import never_known, unpinned
from gatewright_operator.plan.holding import hold, hold_for_lapsed, hold_without_verdict
from gatewright_operator.plan.overriding import STANDING, obey, step_after, unpaused_by_kubectl
from gatewright_operator.plan.pausing import enter_step, is_paused, say_paused, step_seconds_left, waived_at
from gatewright_operator.plan.people import hear
from gatewright_operator.plan.promote import promote
from gatewright_operator.plan.reach import approved_just_now
from gatewright_operator.plan.runspec import bound, gate_spec, run_name
from gatewright_operator.plan.snapshot import Snapshot
from gatewright_operator.plan.standing import watched_run
from gatewright_operator.plan.weight import is_written, set_weight
from gatewright_operator.plan.widening import late_breached


def progressing(s: Snapshot) -> Plan:
    d = Draft(s)
    return interrupted(d) or unseparated(d) or _step(d)


def paused(s: Snapshot) -> Plan:
    d = Draft(s)
    if (interruption := interrupted(d)) is not None:
        return interruption
    if is_paused(d) is not None or d.status.current_step >= len(d.spec.steps):
        return _step(d)
    pause = d.spec.steps[d.status.current_step].pause
    if pause is None:
        # A Pause was ordered, and has ended.
        d.set(phase=Phase.PROGRESSING, progress_at=d.now)
        return _step(d)
    left = step_seconds_left(d, pause)
    if left is None or left > 0:
        return d.done(left)
    d.set(phase=Phase.PROGRESSING)
    return next_step(d)


def interrupted(d: Draft) -> Plan | None:
    """What ends or turns a rollout before its own course does; None when nothing does."""
    s, deployment = d.s, d.s.deployment
    canary, stable = d.canary.revision, d.stable.revision
    begun = s.memory.open
    if (begun is None or begun.revision != canary) and not s.ledger_broken:
        # The ledger is read anew after a conflict, and what is watched may lag behind it.
        return d.wait("The ledger is ahead of what is seen here; looking again.", seconds=2.0, since=d.now)
    if (decided := _decided(d)) is not None:
        return decided
    if deployment is None or deployment.deleting:
        d.go_back(
            Reason.WORKLOAD_NOT_FOUND,
            f"Deployment {d.spec.workload_ref.name} is gone; clearing up.",
            then=AfterBack.IDLE,
        )
    elif deployment.revision == stable:
        d.go_back(
            Reason.REVERTED,
            f"The template is that of stable {stable} again; {canary} goes.",
            then=AfterBack.IDLE,
        )
    elif deployment.revision != canary:
        d.go_back(
            Reason.SUPERSEDED,
            f"{deployment.revision} supersedes {canary}; its approvals and evidence are void.",
            then=AfterBack.START,
        )
    elif not deployment.paused and not deployment.in_flight:
        # Its pods are being replaced already: a breach or an Abort now is one of a promoted version.
        return unpaused_by_kubectl(d)
    elif (run := _breached(d)) is not None and not _let_be(d, run):
        verdict = breach_of(run)
        assert verdict is not None
        d.set(verdict=summary(verdict))
        d.record(run_entry(d, run, verdict), required=False)
        d.go_back(Reason(verdict.reason), verdict.message, then=AfterBack.ROLLED_BACK, cause=verdict.run_id)
    elif (obeyed := _obey_order(d)) is not None:
        return obeyed
    else:
        return _unsafe(d) or contested(d)
    return rolling_back(s, d)


def _decided(d: Draft) -> Plan | None:
    """A decision that stands in the ledger and was cut short before status could say so: go on with it."""
    begun = d.s.memory.open
    if begun is None or begun.revision != d.canary.revision:
        return None
    if (verdict := d.s.memory.verdict) is not None and verdict.change.revision == begun.revision:
        d.set(verdict=summary(verdict))
    if begun.promoted:
        return promote(
            d, Reason.PROMOTED, f"All gates are passed or waived; {d.canary.revision} is promoted."
        )
    if begun.back is not None:
        d.go_back(Reason(begun.back_reason), begun.back_message, then=begun.back, cause=begun.back_cause)
        return rolling_back(d.s, d)
    return None


def _unsafe(d: Draft) -> Plan | None:
    """What the rollout rests on is gone: it holds where it is until that is mended."""
    if d.status.phase is Phase.HELD:
        return None
    if d.s.ledger_broken or d.s.pinned is None:
        why = d.s.ledger_broken or "the contract that this attempt is judged by is not in it"
        return hold_without_verdict(d, Reason.LEDGER_BROKEN, f"The ledger cannot be relied on: {why}.")
    if not d.s.guarded:
        return hold_without_verdict(
            d,
            Reason.GUARD_MISSING,
            "The admission policies are missing or altered; install the chart again, then retry.",
        )
    if d.s.fingerprints.drifted and not _at_a_gate(d):
        return hold_without_verdict(d, Reason.WORLD_DRIFTED, d.s.fingerprints.drifted)
    return None


def _at_a_gate(d: Draft) -> bool:
    """A gate has begun here, and its own verdict says that the world drifted, with the evidence."""
    return run_name(d) in d.s.runs


def _obey_order(d: Draft) -> Plan | None:
    """An order in force. Held rollouts listen to reviews as well and do not use this."""
    if d.status.phase is Phase.HELD:
        return None
    heard = hear(d, orders=(OrderKind.ABORT, *STANDING), revision=d.canary.revision)
    if heard is None or heard.order is None:
        return None
    if heard.order.spec.order is not OrderKind.ABORT:
        return obey(d, heard)
    d.record(heard.entry(d), required=False)
    message = f"{heard.person} aborted {d.canary.revision}: {heard.why}"
    heard.accept(d, Reason.ABORTED, message)
    d.go_back(Reason.ABORTED, message, then=AfterBack.ROLLED_BACK, cause=heard.order.metadata.name)
    return rolling_back(d.s, d)


def _breached(d: Draft) -> GateRun | None:
    """The run that sends traffic back, whatever else stands in the way: by a breach during a HOLD or a pause, also one that
    comes to light late, or by the gate's own verdict."""
    here = d.s.runs.get(run_name(d))
    waiting = d.status.phase is Phase.PAUSED or is_paused(d) is not None
    found = (
        here if here is not None and bound(d, here) else None,
        watched_run(d.s, d.status) if waiting else None,
        late_breached(d),
    )
    return next((run for run in found if run is not None and breach_of(run) is not None), None)


def _let_be(d: Draft, run: GateRun) -> bool:
    verdict = breach_of(run)
    assert verdict is not None
    if not let_be(d, run.metadata.name, verdict.reason, verdict.message, run_entry(d, run, verdict)):
        return False
    d.set(verdict=summary(verdict))
    return True


def _steps_changed(d: Draft) -> Plan:
    return hold_without_verdict(
        d,
        Reason.INVALID_SPEC,
        "The Rollout's steps were changed in the middle of a rollout and the present step is no longer there. Retry to begin again, or abort.",
    )


def _step(d: Draft) -> Plan:
    if d.status.current_step >= len(d.spec.steps):
        return _steps_changed(d)
    step = d.spec.steps[d.status.current_step]
    if (pause := is_paused(d)) is not None:
        return _stand(d, pause, step)
    if step.set_weight is not None:
        return set_weight(d, step.set_weight) or next_step(d)
    if step.gate is not None:
        return _gate(d, step.gate)
    assert step.pause is not None
    return enter_step(d, step.pause)


def _stand(d: Draft, pause: StandingPause, step: Step) -> Plan:
    """Paused by order. A weight that was sent out already is followed by its gate, so that what has traffic is judged;
    its verdict is taken up after the Resume."""
    say_paused(d, pause)
    if step.set_weight is not None and is_written(d, step.set_weight):
        return set_weight(d, step.set_weight) or next_step(d)
    if step.gate is not None and d.status.weight.desired > 0 and run_name(d) not in d.s.runs:
        begun = _gate(d, step.gate)
        if begun.status is None or d.status.phase is not Phase.PAUSED:
            return begun
        say_paused(d, pause)
        return replace(begun, status=d.status)
    return d.done(seconds_let_be(d))


def next_step(d: Draft, since: datetime | None = None) -> Plan:
    """The step after this one; after the last, promotion. `since`: when the verdict that leads here was given (default now)."""
    index = step_after(d)
    pause = is_paused(d)
    if index >= len(d.spec.steps):
        if pause is not None:
            # Approved, and not yet to be promoted: after the Resume the waiver is asked for again.
            say_paused(d, pause)
            return d.done()
        return promote(
            d, Reason.PROMOTED, f"All gates are passed or waived; {d.canary.revision} is promoted."
        )
    resumed = d.s.memory.orders.resumed_at
    if since is not None and resumed is not None:
        # No step was late while it was kept waiting.
        since = max(since, resumed)
    d.set(current_step=index, step_started_at=since or d.now, progress_at=since or d.now, run="")
    return _step(d)


def _gate(d: Draft, gate: Gate) -> Plan:
    name = run_name(d)
    run = d.s.runs.get(name)
    if run is None and approved_just_now(d):
        return d.again()
    if run is None:
        waits = unpinned(
            d, late=lambda problem: hold_without_verdict(d, problem.reason, never_known(d, problem))
        )
        if waits is not None:
            return waits
        # What the run takes from the ledger must stand there before it begins.
        d.record()
        d.do(CreateRun(name, gate_spec(d, gate)))
        d.set(run=name)
        span = (
            f"{format_duration(gate.duration)}"
            if gate.deadline == gate.duration
            else f"{format_duration(gate.duration)} to {format_duration(gate.deadline)}"
        )
        return d.wait(f"{d.step_name().capitalize()}: gate at weight {d.status.weight.actual}, {span}.")
    if not bound(d, run):
        return d.wait(f"GateRun {name} belongs to another rollout; waiting until it is deleted.", seconds=5.0)
    verdict = run.status.verdict
    if verdict is None:
        return d.done(_gate_patience(run))
    d.set(verdict=summary(verdict))
    entry = run_entry(d, run, verdict)
    match verdict.decision:
        case Decision.PROMOTE if not d.known(entry) and (ended := lapsed(d, name)):
            return hold_for_lapsed(d, run, verdict, ended)
        case Decision.PROMOTE if d.s.fingerprints.drifted:
            d.record(entry)
            return hold_without_verdict(d, Reason.WORLD_DRIFTED, d.s.fingerprints.drifted)
        case Decision.PROMOTE:
            passed = f"{d.canary.revision} passed {d.step_name()} at weight {d.status.weight.actual}: {verdict.message}"
            if d.status.current_step + 1 == len(d.spec.steps):
                d.record(entry)
                return promote(d, Reason.PROMOTED, f"{passed} It is promoted.")
            if not d.known(entry):
                d.say(Reason.STEP_PROMOTED, passed)
            d.record_with_next(entry)
            return next_step(d, since=verdict.finished_at)
        case Decision.HOLD if waived_at(d, run):
            return next_step(d)
        case Decision.HOLD:
            d.record(entry)
            return hold(d, run, verdict)
        case Decision.ROLLBACK if (seconds := seconds_let_be(d)) is not None:
            return d.done(seconds)
        case Decision.ROLLBACK:
            d.record(entry, required=False)
            d.go_back(Reason(verdict.reason), verdict.message, then=AfterBack.ROLLED_BACK, cause=name)
            return rolling_back(d.s, d)


def _gate_patience(run: GateRun) -> float:
    """The verdict arrives as an event; this is only how long to wait for one that was missed."""
    return max(30.0, (run.spec.clock.interval + timedelta(seconds=5)).total_seconds())
