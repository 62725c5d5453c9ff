"""What a run found that sends traffic back; and where an Override lets breaches be, how that is recorded and said."""

from gatewright_analysis.kinds.base import format_time
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.reasons import Reason
from gatewright_analysis.verdict import Decision, Verdict
from gatewright_operator.plan.actions import Entry, Plan
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.people import Heard
from gatewright_operator.plan.standing import ignoring_breaches


def let_be(d: Draft, cause: str, reason: str, message: str, *entries: Entry) -> str:
    """A sentence where an Override in force says that breaches do not roll back; empty where none does.

    `entries` record the breach itself, and go ahead of the one that says why it had no effect.
    """
    given = ignoring_breaches(d.s, d.status)
    if given is None:
        return ""
    until = format_time(given.expires_at)
    sentence = (
        f"A breach is let be until {until}, by the Override of {given.by}; then it rolls back: {message}"
    )
    body = {"reason": reason, "message": message, "order": given.order, "by": given.by, "until": until}
    ignored = d.entry("BreachIgnored", cause=f"{given.order}/{cause}", body=body)
    if not d.known(ignored):
        d.say(Reason.BREACH_IGNORED, sentence, warning=True)
    # Whoever aborts in the meantime does not wait for these either.
    d.record(*entries, ignored, required=False)
    return sentence


def seconds_let_be(d: Draft) -> float | None:
    """How long breaches are let be from now on; None where they are not."""
    given = ignoring_breaches(d.s, d.status)
    return None if given is None else (given.expires_at - d.now).total_seconds()


def breach_of(run: GateRun) -> Verdict | None:
    """The run's ROLLBACK: of a look after its verdict, or its verdict itself."""
    verdict = run.status.breach or run.status.verdict
    return verdict if verdict is not None and verdict.decision is Decision.ROLLBACK else None


def run_entry(d: Draft, run: GateRun, verdict: Verdict) -> Entry:
    """A run's verdict in the ledger, at the run's own step: what came after its verdict is a Breach."""
    spec, kind = run.spec, "Breach" if verdict is run.status.breach else "Verdict"
    body = {"verdict": verdict.wire()}
    return d.entry(kind, cause=verdict.run_id, step=spec.step, attempt=spec.attempt, body=body)


def keep(d: Draft, heard: Heard) -> Plan:
    """After 100 % an Override can still keep what serves, until it ends, whatever its bake finds."""
    d.record(heard.entry(d))
    message = f"{heard.person} keeps {d.canary.revision}{as_for_breaches(heard)}. {heard.why}"
    heard.accept(d, Reason.OVERRIDDEN, message)
    d.say(Reason.OVERRIDDEN, message, warning=True)
    return d.again()


def as_for_breaches(heard: Heard) -> str:
    """Until when an Override lets breaches be, as the end of a sentence; empty where it does not."""
    assert heard.order is not None
    spec = heard.order.spec
    if spec.override is None or not spec.override.ignore_breach or spec.expires_at is None:
        return ""
    return f"; until {format_time(spec.expires_at)} breaches are recorded and do not roll back"
