"""How many revisions in a row were tried, and none of them stayed (docs/explanation/design.md, section 5).

Over all Rollouts that have had the ledger's name: deleting one and making it anew is no new budget.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from gatewright_analysis.kinds.rollout import AfterBack
from gatewright_analysis.ledger.entry import Entry, EntryKind
from gatewright_analysis.reasons import Reason


@dataclass(frozen=True, slots=True)
class Lineage:
    """The revisions since the last that was completed, or since a person's Retry."""

    stable: str = ""
    """The revision that serves, as far as the ledger knows."""
    tried: tuple[str, ...] = ()
    """Different revisions that were judged or sent back, oldest first; the one on its way is among them once it was
    judged."""
    returning: AfterBack | None = None
    """What is to follow when the revision on its way back has arrived."""
    held_at: datetime | None = None
    """Since when no further revision is started."""

    def without(self, revision: str) -> tuple[str, ...]:
        """Those that were tried besides `revision`: whether it may start is not its own fault."""
        return tuple(other for other in self.tried if other != revision)


def followed(lineage: Lineage, entry: Entry) -> Lineage:
    """The lineage after one more entry. What it can't read it leaves as it was: `memory` says what is wrong."""
    revision = entry.key.revision
    match entry.key.kind:
        case EntryKind.ADOPTED:
            # The same version under a Rollout made anew is no release. Another one was released past the gate.
            known = lineage.stable in ("", revision)
            return replace(lineage, stable=revision) if known else Lineage(stable=revision)
        case EntryKind.COMPLETED:
            return Lineage(stable=revision)
        case EntryKind.STARTED:
            return replace(lineage, returning=None)
        case EntryKind.VERDICT | EntryKind.BREACH | EntryKind.RESTORED:
            return _tried(lineage, revision)
        case EntryKind.BACK:
            then = entry.body.get("then", AfterBack.ROLLED_BACK)
            return replace(lineage, returning=AfterBack(then) if then in set(AfterBack) else None)
        case EntryKind.ROLLED_BACK:
            refused = lineage.returning in (None, AfterBack.ROLLED_BACK)
            return _tried(lineage, revision) if refused else lineage
        case EntryKind.HELD if entry.key.cause == Reason.ATTEMPTS_EXHAUSTED:
            return lineage if lineage.held_at is not None else replace(lineage, held_at=entry.at)
        case EntryKind.ORDER if _retried(entry):
            return replace(lineage, tried=(), held_at=None)
        case _:
            return lineage


def _tried(lineage: Lineage, revision: str) -> Lineage:
    known = revision in lineage.tried
    return lineage if known else replace(lineage, tried=(*lineage.tried, revision))


def _retried(entry: Entry) -> bool:
    spec = entry.body.get("spec")
    return isinstance(spec, dict) and spec.get("order") == "Retry"
