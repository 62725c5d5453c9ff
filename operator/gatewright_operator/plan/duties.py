"""Separation of duties: the one who started a change has not written what judges it."""

from gatewright_analysis.kinds.policy import SeparationOfDuties
from gatewright_analysis.ledger import digest_of_json, people
from gatewright_analysis.names import is_person
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.actions import Plan
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.holding import hold_before_gates

SEPARATION = "separation-of-duties"
"""What an approval names where no check blocks: it stands in hold.blocking like the id of a check."""


def same_author(initiator: str, contract_written_by: str) -> bool:
    """One proven person did both. Who is not proven is never the same as anybody."""
    return is_person(initiator) and initiator == contract_written_by


def disclosed(d: Draft) -> str:
    """Half a sentence for the start of a rollout; empty where there is nothing to say."""
    canary = d.canary
    if not same_author(canary.initiator, canary.contract_written_by):
        return ""
    return f"; {canary.initiator} also wrote the contract last"


def unseparated(d: Draft) -> Plan | None:
    """HOLD before the first step where the contract wants two people and there was one; None where it may go on."""
    contract, canary = d.s.pinned, d.canary
    if contract is None or contract.spec.hold.separation_of_duties is not SeparationOfDuties.ENFORCE:
        return None
    begun = d.status.current_step > 0 or d.status.weight.desired > 0 or bool(d.status.run)
    if begun or not same_author(canary.initiator, canary.contract_written_by):
        return None
    evidence = digest_of_json([SEPARATION, canary.revision, str(canary.contract_digest), canary.initiator])
    if _approved(d, evidence, contract.spec.hold.min_approvals):
        return None
    meta = d.s.rollout.metadata
    return hold_before_gates(
        d,
        Reason.SAME_AUTHOR,
        f"{canary.initiator} started this change and wrote contract {contract.name}, by which it is judged; the contract wants two people (hold.separationOfDuties). "
        f"Somebody else approves it, or writes the contract and then: kubectl gate retry {meta.name} -n {meta.namespace} --reason '…'",
        evidence,
        (SEPARATION,),
    )


def _approved(d: Draft, evidence: str, needed: int) -> bool:
    """By enough people, for this contract and revision, in whatever attempt."""
    mine = [
        waiver
        for waiver in d.s.memory.waivers
        if (waiver.revision, waiver.evidence_digest) == (d.canary.revision, evidence)
        and SEPARATION in waiver.checks
        and is_person(waiver.reviewer)
        and waiver.reviewer != d.canary.initiator
    ]
    return len(people(mine, d.now)) >= needed
