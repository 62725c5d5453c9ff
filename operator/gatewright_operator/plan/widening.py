"""What is found after a HOLD was given: more that blocks, while it is held; and a breach, also when it comes too late."""

from gatewright_analysis.kinds.rollout import HoldStatus
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.actions import Plan
from gatewright_operator.plan.draft import Draft, summary
from gatewright_operator.plan.runspec import bound, of_this_attempt


def widened(d: Draft, hold: HoldStatus) -> Plan | None:
    """The HOLD for more than it was given for; None where nothing new was found.

    The evidence is another one, so every approval so far is void, counted or not. Since when it is held and until when
    stays as it was.
    """
    run = d.s.runs.get(hold.run)
    more = run.status.held if run is not None and bound(d, run) else None
    if more is None or more.evidence_digest is None or not hold.blocking:
        return None
    if more.evidence_digest == hold.evidence_digest:
        return None
    # Required: an approval of what was seen before must not outlive it in the ledger.
    d.record(d.entry("Blocked", cause=more.evidence_digest, body={"verdict": more.wire()}))
    d.set(
        verdict=summary(more),
        hold=hold.model_copy(
            update={
                "evidence_digest": more.evidence_digest,
                "reason": more.reason,
                "message": more.message[:1024],
                "blocking": more.blocking,
                "breach": hold.breach or any(check.breach for check in more.checks),
                "approvals": (),
            }
        ),
    )
    d.say(Reason(more.reason), f"Held at {d.step_name()}: {more.message}", warning=True)
    return d.again()


def late_breached(d: Draft) -> GateRun | None:
    """The run of this attempt that proved a breach while it was held, where that came to light only when a person had let
    it go on: the approval and the look met."""
    found = (
        run
        for _, run in sorted(d.s.runs.items())
        if run.status.breach is not None and of_this_attempt(d, run)
    )
    return next(found, None)
