"""How far an approval reaches: the waivers that a later gate begins with."""

from collections.abc import Iterable

from gatewright_analysis.kinds.run import RunWaiver
from gatewright_analysis.ledger import EntryKind, Waiver, grants
from gatewright_operator.plan.actions import AppendLedger
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.snapshot import Snapshot

MOST_WAIVERS = 32
"""As many as a GateRun can name; those that last the longest count."""


def reaching(d: Draft, step: str, world: str, checks: Iterable[str]) -> tuple[RunWaiver, ...]:
    """Approvals of earlier gates whose span holds this one: of the same revision, attempt, contract and world, with as
    many people behind them as the contract asks for. One item for each person."""
    contract, canary = d.s.pinned, d.canary
    if contract is None:
        return ()
    here = (canary.revision, d.status.attempt, canary.contract_digest, world)
    mine = [
        waiver
        for waiver in d.s.memory.waivers
        if (waiver.revision, waiver.attempt, waiver.contract_digest, waiver.world_snapshot) == here
    ]
    judged = set(checks)
    found = [
        RunWaiver(
            review=waiver.review,
            reviewer=waiver.reviewer,
            checks=named,
            evidence_digest=waiver.evidence_digest,
            granted_at=grant.granted_at,
            expires_at=grant.expires_at,
        )
        for grant in grants(mine, contract.spec.hold.min_approvals, d.now)
        if grant.reaches(step) and (named := tuple(c for c in grant.checks if c in judged))
        for waiver in grant.waivers
    ]
    return tuple(sorted(found, key=lambda w: (w.expires_at, w.review), reverse=True)[:MOST_WAIVERS])


def waivers_active(s: Snapshot) -> tuple[Waiver, ...]:
    """Approvals in force of the attempt on its way, one person's each; none at rest."""
    begun = s.memory.open
    if begun is None:
        return ()
    here = (begun.revision, begun.attempt)
    return tuple(w for w in s.memory.waivers if (w.revision, w.attempt) == here and w.in_force(s.now))


def approved_just_now(d: Draft) -> bool:
    """This plan writes an approval that the ledger's memory does not hold yet: a gate begins with the next one."""
    return any(
        entry.kind == EntryKind.REVIEW
        for action in d.actions
        if isinstance(action, AppendLedger)
        for entry in action.entries
    )
