"""The orders Pause and Resume. A Pause stands in the ledger until a Resume: no weight rises, nothing is promoted; breaches
roll back all the same. A step `pause` waits for its time, or for a Resume."""

from gatewright_analysis.kinds.base import format_duration, format_time
from gatewright_analysis.kinds.rollout import Pause, Phase
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.ledger import StandingPause, people
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.actions import Plan
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.order_refusals import command
from gatewright_operator.plan.people import Heard
from gatewright_operator.plan.standing import pause_in_force


def order_pause(d: Draft, heard: Heard) -> Plan:
    """Into the ledger, and nothing else: whatever is planned from there on finds it."""
    d.record(heard.entry(d))
    message = f"{heard.person} paused {d.canary.revision} at weight {d.status.weight.actual}: {heard.why}"
    heard.accept(d, Reason.PAUSED, message)
    d.say(Reason.PAUSED, message)
    return _unreported(d)


def order_resume(d: Draft, heard: Heard) -> Plan:
    """Ends a Pause, and with it a step that waits: one word says that it shall go on."""
    d.record(heard.entry(d))
    message = f"{heard.person} sends {d.canary.revision} on: {heard.why}"
    heard.accept(d, Reason.RESUMED, message)
    d.say(Reason.RESUMED, message)
    index = d.status.current_step
    if d.status.phase is not Phase.PAUSED or index >= len(d.spec.steps) or d.spec.steps[index].pause is None:
        return _unreported(d)
    d.set(phase=Phase.PROGRESSING, current_step=index + 1, step_started_at=d.now, progress_at=d.now, run="")
    return d.again()


def _unreported(d: Draft) -> Plan:
    """Status is written from the ledger as it then is."""
    return Plan(tuple(d.actions), None, 0.0, again=True)


def say_paused(d: Draft, pause: StandingPause) -> None:
    """Who, why, since when; in Progressing and Paused the phase says it too."""
    if d.status.phase is Phase.PROGRESSING:
        d.set(phase=Phase.PAUSED)
    d.set(
        message=f"{d.step_name().capitalize()}: paused by {pause.by} since {format_time(pause.at)} at weight {d.status.weight.actual}: {pause.why} Breaches still roll back. Go on with: {command(d, 'resume')}"
    )


def waived_at(d: Draft, run: GateRun) -> bool:
    """A person approved this run's HOLD, the step after it had to wait for a Resume, and the waiver still counts."""
    here = (d.canary.revision, d.step_key(), d.status.attempt, run.metadata.name)
    given = [w for w in d.s.memory.waivers if (w.revision, w.step, w.attempt, w.run) == here]
    needed = d.s.pinned.spec.hold.min_approvals if d.s.pinned is not None else 1
    return d.s.memory.orders.resumed_at is not None and len(people(given, d.now)) >= needed


def is_paused(d: Draft) -> StandingPause | None:
    return pause_in_force(d.s, d.status)


def enter_step(d: Draft, pause: Pause) -> Plan:
    """A step that waits begins."""
    d.set(phase=Phase.PAUSED)
    until = (
        f"until a Resume: {command(d, 'resume')}"
        if pause.duration is None
        else f"for {format_duration(pause.duration)}."
    )
    d.say(
        Reason.PAUSED,
        f"{d.step_name().capitalize()}: pausing at weight {d.status.weight.actual} {until}",
    )
    return d.done(step_seconds_left(d, pause))


def step_seconds_left(d: Draft, pause: Pause) -> float | None:
    """None: until somebody orders Resume."""
    if pause.duration is None:
        return None
    since = d.status.step_started_at or d.now
    return max(0.0, (since + pause.duration - d.now).total_seconds())
