"""The budget of attempts: so many revisions in a row may be tried; then a person has to say that another may start."""

from gatewright_analysis.kinds.rollout import AttemptsStatus, EscalationStatus, Phase, RejectedStatus
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.actions import Plan
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.recover import begun_unnoticed
from gatewright_operator.plan.snapshot import Snapshot


def used_up(d: Draft) -> Plan | None:
    """Holds the Deployment's new template when the budget is used up; None when it may start.

    Works from the ledger alone: neither a wiped status nor a Rollout made anew gives another attempt.
    """
    s, deployment = d.s, d.s.deployment
    if s.contract is None or deployment is None or s.ledger_broken or begun_unnoticed(d) is not None:
        return None
    revision, budget = deployment.revision, s.contract.spec.attempts.budget
    tried = s.memory.lineage.without(revision)
    if len(tried) < budget:
        return None
    meta = s.rollout.metadata
    message = (
        f"{_in_a_row(len(tried))} tried and none stayed, as many as attempts.budget of the contract allows: {revision} "
        f"is not started until a person orders it: kubectl gate retry {meta.name} -n {meta.namespace} --reason '…'"
    )
    d.record(
        d.entry(
            "Held",
            step="",
            revision=revision,
            attempt=s.memory.attempts.get(revision, 0),
            cause=Reason.ATTEMPTS_EXHAUSTED,
            body={"reason": Reason.ATTEMPTS_EXHAUSTED, "message": message, "tried": list(tried)},
        )
    )
    d.set(
        phase=Phase.ROLLED_BACK,
        canary=None,
        back=None,
        rejected=RejectedStatus(
            revision=revision, reason=Reason.ATTEMPTS_EXHAUSTED, message=message, at=d.now
        ),
        escalation=EscalationStatus(
            opened_at=s.memory.lineage.held_at or d.now, cause=Reason.ATTEMPTS_EXHAUSTED
        ),
    )
    d.say(Reason.ATTEMPTS_EXHAUSTED, message, warning=True)
    return d.again()


def still_held(d: Draft) -> None:
    """Says of a template at hand that the budget did not let start what its conditions and status are to say."""
    rejected, since = d.status.rejected, d.s.memory.lineage.held_at
    if rejected is None or rejected.reason != Reason.ATTEMPTS_EXHAUSTED:
        return
    d.problem = Reason.ATTEMPTS_EXHAUSTED
    if d.status.escalation is not None and since is not None:
        # As the ledger has it: a status that is made anew says the same.
        d.set(escalation=d.status.escalation.model_copy(update={"opened_at": since}))


def resolve(d: Draft, how: str) -> None:
    """The escalation is over, if there was one."""
    opened = d.status.escalation
    if opened is not None and not opened.resolution:
        d.set(escalation=opened.model_copy(update={"resolution": how[:1024]}))


def attempts(s: Snapshot) -> AttemptsStatus:
    """What status says of it. The revision that is on its way is not used up yet."""
    on_its_way = s.memory.open.revision if s.memory.open is not None else ""
    contract = s.contract or s.pinned
    return AttemptsStatus(
        used=len(s.memory.lineage.without(on_its_way)),
        budget=contract.spec.attempts.budget if contract is not None else 0,
    )


def _in_a_row(count: int) -> str:
    return "One revision was" if count == 1 else f"{count} revisions in a row were"
