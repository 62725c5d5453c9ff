"""The move into HOLD: what is held, why, since when, until when, and what a decision about it must name."""

from gatewright_analysis.kinds.rollout import HoldStatus, Phase
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.ledger import digest_of_json
from gatewright_analysis.reasons import Reason
from gatewright_analysis.verdict import Verdict
from gatewright_operator.plan.actions import Plan
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.hold_clock import policy
from gatewright_operator.plan.runspec import run_name


def hold(d: Draft, run: GateRun, verdict: Verdict) -> Plan:
    """HOLD on a run's verdict: bound to its evidence digest, which is frozen."""
    digest = verdict.evidence_digest or _facts_digest(verdict.reason, verdict.message, run.metadata.name)
    breach = any(c.breach for c in verdict.checks)
    return _held(
        d,
        Reason(verdict.reason),
        verdict.message,
        run.metadata.name,
        digest,
        verdict.blocking,
        breach,
        run.spec.world_snapshot,
    )


def hold_without_verdict(d: Draft, reason: Reason, message: str, *, breach: bool = False) -> Plan:
    """HOLD for a reason outside any gate. There is no verdict to waive: it ends by Retry, Abort, or a new revision.

    `breach`: a breach was proven before.
    """
    name = d.status.run or run_name(d)
    digest = _facts_digest(reason, message, name)
    d.record(d.entry("Held", cause=digest, body={"reason": reason, "message": message}), required=False)
    return _held(d, reason, message, name, digest, (), breach, None)


def hold_before_gates(
    d: Draft, reason: Reason, message: str, evidence: str, blocking: tuple[str, ...]
) -> Plan:
    """HOLD before anything was judged, for a reason that a person's approval of `evidence` ends."""
    d.record(d.entry("Held", cause=evidence, body={"reason": reason, "message": message}), required=False)
    return _held(d, reason, message, run_name(d), evidence, blocking, False, evidence)


def hold_for_lapsed(d: Draft, run: GateRun, verdict: Verdict, checks: tuple[str, ...]) -> Plan:
    """HOLD where a waiver ended between the verdict that rests on it and its effect."""
    message = f"It passed with a waiver for {', '.join(checks)} that has ended before it could go on: approve it again, or retry. {verdict.message}"
    ended = verdict.model_copy(
        update={"reason": Reason.WAIVER_ENDED, "message": message[:1024], "blocking": checks}
    )
    body = {"reason": Reason.WAIVER_ENDED, "message": message}
    d.record(d.entry("Held", cause=str(verdict.evidence_digest), body=body))
    return hold(d, run, ended)


def _facts_digest(*facts: str) -> str:
    return digest_of_json(list(facts))


def _held(
    d: Draft,
    reason: Reason,
    message: str,
    run: str,
    digest: str,
    blocking: tuple[str, ...],
    breach: bool,
    world_snapshot: str | None,
) -> Plan:
    waits = policy(d)
    escalate_after = min(waits.escalate_after, waits.timeout)
    step = d.step_key()
    d.set(
        phase=Phase.HELD,
        hold=HoldStatus(
            run=run,
            evidence_digest=digest,
            step=step,
            initiator=d.canary.initiator,
            world_snapshot=world_snapshot,
            since=d.now,
            reason=reason,
            message=message[:1024],
            blocking=blocking,
            breach=breach,
            deadline=d.now + waits.timeout,
            escalate_at=d.now + escalate_after,
            contract_written_by=d.canary.contract_written_by,
            approvals_needed=waits.min_approvals,
        ),
    )
    d.say(reason, f"Held at {d.step_name()}: {message}", warning=True)
    return d.done(escalate_after.total_seconds())
