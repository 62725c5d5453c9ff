"""What the ledger remembers: everything of a Rollout's status that must not be lost when status is."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from pydantic import ValidationError

from gatewright_analysis.kinds.base import Model
from gatewright_analysis.kinds.contract import GateContractSpec, OracleKind
from gatewright_analysis.kinds.review import GateOrderSpec, GateReviewSpec
from gatewright_analysis.kinds.rollout import AfterBack, CanaryStatus, Originals, StableStatus
from gatewright_analysis.ledger import waivers
from gatewright_analysis.ledger.draws import Draws
from gatewright_analysis.ledger.entry import Entry, EntryKey, EntryKind, LedgerContentError
from gatewright_analysis.ledger.lineage import Lineage, followed
from gatewright_analysis.ledger.standing import StandingOrders, heeded, unpaused
from gatewright_analysis.ledger.waivers import Waiver
from gatewright_analysis.verdict import Verdict

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class OpenRollout:
    """An attempt that began and has not ended: where to go on, and what to put back."""

    revision: str
    attempt: int
    stable: StableStatus
    canary: CanaryStatus
    originals: Originals
    started_at: datetime
    step: int = 0
    """The last step that an entry speaks of."""
    promoted: bool = False
    """Its promotion stands in the ledger: the way is on, unless `restoring`."""
    restoring: bool = False
    """The promoted version failed: the way is back to `stable`."""
    back: AfterBack | None = None
    """Traffic was sent back before a promotion; and what was to follow."""
    back_reason: str = ""
    back_message: str = ""
    back_cause: str = ""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A revision that is not tried again without an order Retry."""

    reason: str
    message: str
    at: datetime


@dataclass(frozen=True, slots=True)
class LedgerMemory:
    """The ledger, folded. `attempts`, `draws` and `lineage`: over all Rollouts of this name; the rest: of this one alone."""

    keys: frozenset[EntryKey] = frozenset()
    attempts: Mapping[str, int] = field(default_factory=dict)
    """Highest attempt of each revision."""
    contracts: Mapping[str, GateContractSpec] = field(default_factory=dict)
    """By digest: what attempts are pinned to."""
    stable: StableStatus | None = None
    """The version that serves, as far as the ledger knows."""
    open: OpenRollout | None = None
    rejected: Mapping[str, Rejection] = field(default_factory=dict)
    """By revision."""
    tickets: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    """Ids of checks whose one Wilson look is spent, by (revision, step)."""
    escalated: Mapping[str, datetime] = field(default_factory=dict)
    """When a HOLD was escalated, by the digest of the evidence that is held."""
    waivers: tuple[Waiver, ...] = ()
    """Approvals that nothing has made void, in force or not."""
    verdict: Verdict | None = None
    """The last one."""
    more_samples: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """By revision: the step at which a person ordered more samples, and the attempt that was held then."""
    draws: Draws = field(default_factory=Draws)
    """What sampled checks have come to."""
    lineage: Lineage = field(default_factory=Lineage)
    """The revisions that were tried since one stayed."""
    orders: StandingOrders = field(default_factory=StandingOrders)
    """What people ordered about the version on its way, as far as it still counts."""

    def more_samples_ordered(self, revision: str, step: str, attempt: int) -> bool:
        """`attempt` at `step` goes on because a person ordered more samples."""
        ordered = self.more_samples.get(revision)
        return ordered is not None and ordered[0] == step and ordered[1] < attempt


def fold(entries: Iterable[Entry], *, rollout_uid: str) -> LedgerMemory:
    """Walk verified entries from the first to the last, in the eyes of the Rollout with this UID.

    Raises LedgerContentError for an entry of a known kind that can't be read.
    """
    memory, keys, attempts = LedgerMemory(), set[EntryKey](), dict[str, int]()
    draws, lineage, sampled = Draws(), Lineage(), dict[str, Verdict]()
    for entry in entries:
        lineage = followed(lineage, entry)
        draws = _drawn(draws, entry, sampled)
        # Names of GateRuns hold the attempt: a Rollout made anew under the same name must not count from 1.
        attempts[entry.key.revision] = max(entry.key.attempt, attempts.get(entry.key.revision, 0))
        if entry.key.rollout_uid == rollout_uid:
            keys.add(entry.key)
            memory = _remember(memory, entry)
    return replace(memory, keys=frozenset(keys), attempts=attempts, draws=draws, lineage=lineage)


def _drawn(draws: Draws, entry: Entry, sampled: dict[str, Verdict]) -> Draws:
    """The draws after one more entry; `sampled` keeps each revision's last verdict with a sampled check."""
    match entry.key.kind:
        case EntryKind.VERDICT | EntryKind.BREACH:
            # Most verdicts have no sampled check, and a ledger has many of them.
            checks = _object(entry, "verdict").get("checks") or ()
            if not any(c.get("oracleKind") == OracleKind.SAMPLED for c in checks if isinstance(c, Mapping)):
                return draws
            verdict = _read(entry, "verdict", Verdict)
            sampled[entry.key.revision] = verdict
            return draws.judged(verdict)
        case EntryKind.COMPLETED:
            return draws.completed()
        case EntryKind.ORDER if _ordered(entry) == "Retry" and entry.key.revision in sampled:
            return draws.reopened(sampled[entry.key.revision])
        case _:
            return draws


def _remember(memory: LedgerMemory, entry: Entry) -> LedgerMemory:
    match entry.key.kind:
        case EntryKind.ADOPTED:
            stable = _read(entry, "stable", StableStatus)
            return replace(memory, stable=stable, open=None, orders=StandingOrders())
        case EntryKind.CONTRACT:
            spec = _read(entry, "spec", GateContractSpec)
            return replace(memory, contracts={**memory.contracts, entry.key.cause: spec})
        case EntryKind.STARTED:
            return _started(memory, entry)
        case EntryKind.WEIGHT_SET | EntryKind.HELD:
            return _at_step(memory, entry)
        case EntryKind.VERDICT | EntryKind.BREACH:
            return _judged(_at_step(memory, entry), entry)
        case EntryKind.ESCALATED:
            return replace(memory, escalated={**memory.escalated, entry.key.cause: _escalated_at(entry)})
        case EntryKind.BLOCKED:
            voided = waivers.voided(memory.waivers, entry)
            return replace(_judged(_at_step(memory, entry), entry), waivers=voided)
        case EntryKind.REVIEW:
            return _reviewed(memory, entry)
        case EntryKind.ORDER:
            return _obeyed(memory, entry)
        case EntryKind.OVERRIDDEN:
            return replace(memory, orders=unpaused(memory.orders, entry))
        case EntryKind.PROMOTED:
            return _opened(memory, entry, promoted=True)
        case EntryKind.BACK:
            # Also after `Promoted`: what was never un-paused can still be superseded.
            return _opened(
                _at_step(memory, entry),
                entry,
                promoted=False,
                back=_after(entry),
                back_reason=str(entry.body.get("reason", "")),
                back_message=str(entry.body.get("message", "")),
                back_cause=str(entry.body.get("cause", "")),
            )
        case EntryKind.RESTORING:
            return _opened(_reject(memory, entry), entry, restoring=True)
        case EntryKind.COMPLETED:
            return _completed(memory, entry)
        case EntryKind.ROLLED_BACK:
            return _rolled_back(memory, entry)
        case EntryKind.RESTORED:
            stable = _read(entry, "to", StableStatus)
            return replace(_reject(memory, entry), stable=stable, open=None, orders=StandingOrders())
        case EntryKind.DELETED:
            return replace(memory, open=None, orders=StandingOrders())
        case _:
            return memory


def _obeyed(memory: LedgerMemory, entry: Entry) -> LedgerMemory:
    revision, more = entry.key.revision, dict(memory.more_samples)
    match _ordered(entry):
        case "Retry":
            more.pop(revision, None)
            return replace(memory, rejected=_without(memory.rejected, revision), more_samples=more)
        case "MoreSamples":
            more[revision] = (entry.key.step, entry.key.attempt)
            return replace(memory, more_samples=more)
        case "Pause" | "Resume" | "Override":
            return replace(memory, orders=heeded(memory.orders, entry, _read(entry, "spec", GateOrderSpec)))
        case _:
            return memory


def _ordered(entry: Entry) -> str:
    return str(_object(entry, "spec").get("order"))


def _started(memory: LedgerMemory, entry: Entry) -> LedgerMemory:
    stable = _read(entry, "stable", StableStatus)
    begun = OpenRollout(
        revision=entry.key.revision,
        attempt=entry.key.attempt,
        stable=stable,
        canary=_read(entry, "canary", CanaryStatus),
        originals=_read(entry, "originals", Originals),
        started_at=entry.at,
    )
    revision = entry.key.revision
    more = {key: value for key, value in memory.more_samples.items() if key != revision}
    rejected = _without(memory.rejected, revision)
    return replace(
        memory,
        open=begun,
        stable=stable,
        rejected=rejected,
        more_samples=more,
        orders=memory.orders.about(revision),
    )


def _at_step(memory: LedgerMemory, entry: Entry) -> LedgerMemory:
    if not entry.key.step.isascii() or not entry.key.step.isdigit():
        return memory
    return _opened(memory, entry, step=int(entry.key.step))


def _judged(memory: LedgerMemory, entry: Entry) -> LedgerMemory:
    verdict = _read(entry, "verdict", Verdict)
    spent = {c.id for c in verdict.checks if c.statistics is not None and c.statistics.ticket_used}
    place = (entry.key.revision, entry.key.step)
    tickets = (
        {**memory.tickets, place: memory.tickets.get(place, frozenset()) | spent} if spent else memory.tickets
    )
    return replace(memory, verdict=verdict, tickets=tickets)


def _escalated_at(entry: Entry) -> datetime:
    """As status says it: the entry may have been written later."""
    try:
        return datetime.fromisoformat(str(entry.body.get("at")))
    except ValueError as error:
        raise _unreadable(entry, f"its at: {error}") from error


def _reviewed(memory: LedgerMemory, entry: Entry) -> LedgerMemory:
    spec, begun = _read(entry, "spec", GateReviewSpec), memory.open
    contract = begun.canary.contract_digest if begun is not None else None
    return replace(memory, waivers=waivers.reviewed(memory.waivers, entry, spec, contract))


def _completed(memory: LedgerMemory, entry: Entry) -> LedgerMemory:
    done = memory.open
    stable = memory.stable
    if done is not None:
        # Its ReplicaSet is the native rolling update's: what its hash is, only the cluster knows.
        stable = done.stable.model_copy(
            update={"revision": done.revision, "pod_template_hash": "", "images": done.canary.images}
        )
    return replace(memory, open=None, stable=stable, orders=StandingOrders())


def _rolled_back(memory: LedgerMemory, entry: Entry) -> LedgerMemory:
    # Superseded and reverted versions went back too, but were not refused.
    then = None if memory.open is None else memory.open.back
    refused = then in (None, AfterBack.ROLLED_BACK)
    # What starts again after its status was lost is as paused as it was.
    orders = memory.orders if then is AfterBack.START else StandingOrders()
    return replace(_reject(memory, entry) if refused else memory, open=None, orders=orders)


def _reject(memory: LedgerMemory, entry: Entry) -> LedgerMemory:
    reason, message = entry.body.get("reason", entry.key.cause), entry.body.get("message", "")
    rejection = Rejection(str(reason), str(message), entry.at)
    return replace(memory, rejected={**memory.rejected, entry.key.revision: rejection})


def _opened(memory: LedgerMemory, entry: Entry, **changes: Any) -> LedgerMemory:
    """`changes` to the open rollout, when the entry speaks of it: a Retry of a held step goes on under a higher attempt."""
    begun = memory.open
    if begun is None or begun.revision != entry.key.revision or entry.key.attempt < begun.attempt:
        return memory
    return replace(memory, open=replace(begun, attempt=entry.key.attempt, **changes))


def _after(entry: Entry) -> AfterBack:
    try:
        return AfterBack(entry.body.get("then", AfterBack.ROLLED_BACK))
    except ValueError as error:
        raise _unreadable(entry, str(error)) from error


def _read(entry: Entry, name: str, model: type[M]) -> M:
    try:
        return model.model_validate(_object(entry, name))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise _unreadable(entry, f"{name}.{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _object(entry: Entry, name: str) -> Mapping[str, Any]:
    value = entry.body.get(name)
    if not isinstance(value, Mapping):
        raise _unreadable(entry, f"its {name} is missing")
    return value


def _unreadable(entry: Entry, why: str) -> LedgerContentError:
    return LedgerContentError(f"entry {entry.sequence} ({entry.key.kind}) can't be read: {why}")


def _without(rejected: Mapping[str, Rejection], revision: str) -> dict[str, Rejection]:
    return {key: value for key, value in rejected.items() if key != revision}
