"""The clocks of a HOLD: when it is escalated, when its wait ends, and when neither of them runs. No clock promotes.

All of it stands in `status.hold`, and the escalation in the ledger as well: an operator that starts anew goes on by what it
finds there, and no deadline moves because it was away. Before a clock acts, whatever people wrote is heard
(`hold.held`): of a decision and a time-out, the first to be written counts.
"""

from datetime import datetime, timedelta

from gatewright_analysis.kinds.base import format_duration, format_time
from gatewright_analysis.kinds.contract import Stage
from gatewright_analysis.kinds.policy import Hold
from gatewright_analysis.kinds.rollout import EscalationStatus, HoldStatus, RolloutStatus
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.actions import Entry, Plan
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.people import Heard
from gatewright_operator.plan.snapshot import SourceState


def policy(d: Draft) -> Hold:
    """How long a HOLD waits: by the pinned contract; by the defaults, where that cannot be read."""
    return d.s.pinned.spec.hold if d.s.pinned is not None else Hold()


def escalates_at(d: Draft, hold: HoldStatus) -> datetime:
    """When it is escalated unless somebody decides before; at the end of the wait at the latest."""
    return min(hold.escalate_at or hold.since + policy(d).escalate_after, hold.deadline)


def wound(d: Draft, hold: HoldStatus) -> HoldStatus:
    """The hold with its clocks stopped or set going again by the sources that it rests on, and with an escalation that a
    crash kept out of status."""
    entered = d.s.memory.escalated.get(hold.evidence_digest)
    if hold.escalated_at is None and entered is not None:
        hold = escalate(d, hold, "It stands in the ledger that this was escalated", at=entered)
    elif hold.escalated_at is not None and entered is None and not d.s.ledger_broken:
        # The ledger was away when it was escalated, and perhaps this operator too since then.
        d.record(_entry(d, hold), required=False)
    turned = _turned(hold, _rests_on(d, hold), d.now)
    if turned != hold:
        d.set(hold=turned)
        d.set(message=_sentence(d, turned))
    return turned


def waits(d: Draft, hold: HoldStatus) -> Plan | None:
    """Escalates when that is due, and waits on; None when the wait is over, and `hold.held` says what follows."""
    if _passed(hold, hold.deadline, d.now):
        return None
    at = escalates_at(d, hold)
    if hold.escalated_at is None and _passed(hold, at, d.now):
        escalate(d, hold, f"Nobody decided within {format_duration(policy(d).escalate_after)}")
        return d.again()
    if hold.clock_stopped_since is not None:
        # Its sources wake it.
        return d.done()
    return d.done(((hold.deadline if hold.escalated_at is not None else at) - d.now).total_seconds())


def beyond(d: Draft, hold: HoldStatus) -> Plan:
    """The wait is over and nothing reverts it: escalated if it was not, and held until somebody decides."""
    if hold.escalated_at is None:
        escalate(d, hold, f"Nobody decided by {format_time(hold.deadline)}")
        return d.again()
    return d.wait(
        f"Escalated, and held beyond its deadline: nobody has decided, and it stays held until somebody does. {hold.message}"
    )


def escalate_by_order(d: Draft, hold: HoldStatus, heard: Heard) -> Plan:
    """A person calls the next one now, whether or not the clocks run."""
    entry = heard.entry(d)
    if hold.escalated_at is not None and not d.known(entry):
        heard.refuse(d, Reason.ESCALATED, f"It was escalated already, at {format_time(hold.escalated_at)}.")
        return d.again()
    # Not `required`: a call for help does not wait for a ledger that cannot be written.
    d.record(entry, required=False)
    message = f"{heard.person} escalated {d.step_name()} of {d.canary.revision}: {heard.why}"
    heard.accept(d, Reason.ESCALATED, message)
    if hold.escalated_at is None:
        escalate(d, hold, message)
    return d.again()


def escalate(d: Draft, hold: HoldStatus, why: str, *, at: datetime | None = None) -> HoldStatus:
    """The second, louder call: once for each hold. `at`: when the ledger says that it was."""
    hold = hold.model_copy(update={"escalated_at": at or d.now})
    d.record(_entry(d, hold), required=False)
    d.set(hold=hold, escalation=EscalationStatus(opened_at=at or d.now, cause=hold.reason))
    d.say(
        Reason.ESCALATED,
        f"Escalated. {why.rstrip('.')}. Held at {d.step_name()}: {hold.message}",
        warning=True,
    )
    return hold


def resolved(before: RolloutStatus, after: RolloutStatus, said: str) -> EscalationStatus | None:
    """`after.escalation`, closed with what was `said` first when the hold that was escalated is over."""
    opened, was = after.escalation, before.hold
    if opened is None or opened.resolution or opened.cause == Reason.ATTEMPTS_EXHAUSTED:
        return opened
    over = after.hold is None or after.hold.escalated_at is None
    if was is None or was.escalated_at is None or not over:
        return opened
    return opened.model_copy(update={"resolution": said[:1024]})


def _entry(d: Draft, hold: HoldStatus) -> Entry:
    """Its key names the evidence that is held, so that one hold is escalated once, whoever starts anew."""
    assert hold.escalated_at is not None
    body = {"reason": hold.reason, "message": hold.message, "at": format_time(hold.escalated_at)}
    return d.entry("Escalated", cause=hold.evidence_digest, body=body)


def _passed(hold: HoldStatus, moment: datetime, now: datetime) -> bool:
    """Whether a clock of the hold has come to `moment`; one that stands still has not moved since."""
    return moment <= (hold.clock_stopped_since or now)


def _rests_on(d: Draft, hold: HoldStatus) -> dict[str, SourceState]:
    """The sources that what is held rests on, by name: those of the run's checks and of the fingerprints."""
    contract = d.s.pinned
    if contract is None:
        return {}
    run = d.s.runs.get(hold.run)
    stage = run.spec.stage if run is not None else Stage.BAKE if hold.step == "bake" else Stage.CANARY
    judged = [c for c in contract.spec.checks if run is None or c.id in run.spec.checks]
    entries = (check.evidence_at(stage) for check in judged)
    names = {entry.source for entry in entries if entry is not None}
    names |= {one.source for one in contract.spec.world.fingerprints}
    return {name: state for name, state in d.s.sources.items() if name in names}


def _turned(hold: HoldStatus, sources: dict[str, SourceState], now: datetime) -> HoldStatus:
    """By the times at which each source went and came back, as it is reported: they are the same whenever one looks."""
    down = {name: state for name, state in sources.items() if state.down}
    if down:
        since = hold.clock_stopped_since
        if since is None:
            since = min(now, max(hold.since, min(state.since for state in down.values())))
            if since >= hold.deadline:
                return hold
        by = ", ".join(f"{name} ({state.reason})" for name, state in sorted(down.items()))
        return hold.model_copy(update={"clock_stopped_since": since, "clock_stopped_by": by[:1024]})
    if hold.clock_stopped_since is None:
        return hold
    return _going(hold, hold.clock_stopped_since, sources, now)


def _going(hold: HoldStatus, stopped: datetime, sources: dict[str, SourceState], now: datetime) -> HoldStatus:
    """All are back, or gone for good: what had not passed yet is as far away as it was."""
    back = min(now, max((s.since for s in sources.values() if s.since > stopped), default=now))

    def moved(moment: datetime | None) -> datetime | None:
        return moment if moment is None or moment <= stopped else moment + max(back - stopped, timedelta(0))

    return hold.model_copy(
        update={
            "deadline": moved(hold.deadline),
            "escalate_at": hold.escalate_at if hold.escalated_at is not None else moved(hold.escalate_at),
            "clock_stopped_since": None,
            "clock_stopped_by": "",
        }
    )


def _sentence(d: Draft, hold: HoldStatus) -> str:
    """What status says while it waits: a clock that stands still is said, or a hold could last for ever in silence."""
    escalated = "Escalated. " if hold.escalated_at is not None else ""
    held = f"Held at {d.step_name()}: {hold.message}"
    if hold.clock_stopped_since is None:
        return f"{escalated}{held}"
    return (
        f"{escalated}The wait does not count since {format_time(hold.clock_stopped_since)}, while a source that it rests on "
        f"is down: {hold.clock_stopped_by}. It can be decided and escalated all the same. {held}"
    )
