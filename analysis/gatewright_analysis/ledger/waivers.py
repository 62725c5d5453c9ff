"""Approvals as the ledger keeps them: what each is good for, and when several of them are enough."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gatewright_analysis.kinds.review import GateReviewSpec, ReviewDecision
from gatewright_analysis.ledger.entry import Entry
from gatewright_analysis.waiver import waiver_in_force

REMAINING: Final = "Remaining"
BAKE: Final = "bake"


@dataclass(frozen=True, slots=True)
class Waiver:
    """One person's approval, for exactly this evidence, until `expires_at`."""

    revision: str
    step: str
    attempt: int
    run: str
    evidence_digest: str
    reviewer: str
    expires_at: datetime
    granted_at: datetime
    """When its entry was written."""
    review: str = ""
    """Name of the GateReview."""
    checks: tuple[str, ...] = ()
    world_snapshot: str | None = None
    through: str | None = None
    """Index of the last step that it reaches to, or Remaining; None: its own step alone."""
    contract_digest: str | None = None
    """Version of the contract that its attempt is judged by."""

    def in_force(self, at: datetime) -> bool:
        return waiver_in_force(self.granted_at, self.expires_at, at)

    def reaches(self, step: str) -> bool:
        """Whether its span holds a later gate, at the step of this index or the bake. Its own gate is behind it."""
        if self.through is None or self.step == BAKE or not self.step.isdecimal():
            return False
        if step == BAKE:
            return self.through == REMAINING
        if not step.isdecimal() or int(step) <= int(self.step):
            return False
        return self.through == REMAINING or int(step) <= int(self.through)


@dataclass(frozen=True, slots=True)
class Grant:
    """As many people's approvals of one evidence as are needed: together one waiver, as narrow as the narrowest."""

    waivers: tuple[Waiver, ...]
    granted_at: datetime
    expires_at: datetime

    def reaches(self, step: str) -> bool:
        return all(waiver.reaches(step) for waiver in self.waivers)

    @property
    def checks(self) -> tuple[str, ...]:
        """Those that every one of them names."""
        named = [set(waiver.checks) for waiver in self.waivers]
        return tuple(sorted(set.intersection(*named)))


def people(waivers: Iterable[Waiver], at: datetime) -> tuple[Waiver, ...]:
    """Of each person the approval that is in force the longest, in the order in which they were given; one that has
    ended is nobody's."""
    best = dict[str, Waiver]()
    for waiver in waivers:
        known = best.get(waiver.reviewer)
        if waiver.in_force(at) and waiver is _longer(known, waiver):
            best[waiver.reviewer] = waiver
    return tuple(sorted(best.values(), key=lambda one: (one.granted_at, one.reviewer)))


def _longer(known: Waiver | None, waiver: Waiver) -> Waiver:
    return waiver if known is None else max(known, waiver, key=lambda one: one.expires_at)


def granted(waivers: Iterable[Waiver], needed: int, at: datetime) -> Grant | None:
    """The waiver that approvals of one evidence make at a time; None while there are not enough."""
    found = people(waivers, at)
    if len(found) < max(1, needed):
        return None
    return Grant(found, max(w.granted_at for w in found), min(w.expires_at for w in found))


def grants(waivers: Iterable[Waiver], needed: int, at: datetime) -> tuple[Grant, ...]:
    """Every evidence's approvals by themselves: those of one count nothing for another."""
    of = dict[tuple[str, int, str, str], list[Waiver]]()
    for waiver in waivers:
        key = (waiver.revision, waiver.attempt, waiver.run, waiver.evidence_digest)
        of.setdefault(key, []).append(waiver)
    found = (granted(one, needed, at) for one in of.values())
    return tuple(grant for grant in found if grant is not None)


def reviewed(
    waivers: tuple[Waiver, ...], entry: Entry, spec: GateReviewSpec, contract_digest: str | None
) -> tuple[Waiver, ...]:
    """The approvals after one more review. Who asks for changes or rejects withdraws what they approved of that run."""
    if spec.decision is not ReviewDecision.APPROVE:
        return tuple(w for w in waivers if (w.reviewer, w.run) != (spec.reviewer, spec.run))
    if spec.expires_at is None:
        return waivers
    waiver = Waiver(
        revision=spec.revision,
        step=spec.step,
        attempt=entry.key.attempt,
        run=spec.run,
        evidence_digest=spec.evidence_digest,
        reviewer=spec.reviewer,
        expires_at=spec.expires_at,
        granted_at=entry.at,
        review=_name(entry.body),
        checks=spec.checks,
        world_snapshot=spec.world_snapshot,
        through=spec.through,
        contract_digest=contract_digest,
    )
    return (*waivers, waiver)


def _name(body: Mapping[str, object]) -> str:
    return str(body.get("name", ""))


def voided(waivers: tuple[Waiver, ...], entry: Entry) -> tuple[Waiver, ...]:
    """The approvals after more was found that blocks what they are for."""
    key = entry.key
    gone = (key.revision, key.step, key.attempt)
    return tuple(w for w in waivers if (w.revision, w.step, w.attempt) != gone)
