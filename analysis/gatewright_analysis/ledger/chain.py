"""The ledger as one value: read from its segments, asked for an entry, appended to."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gatewright_analysis.ledger.entry import GENESIS, Entry, EntryKey, NewEntry
from gatewright_analysis.ledger.segment import (
    SEGMENT_BYTES,
    SEGMENT_ENTRIES,
    Segment,
    segment_index,
    segment_name,
)
from gatewright_analysis.ledger.verify import Break, Head, verify

__all__ = ["Appended", "Ledger", "LedgerBroken", "Segment", "Write", "segment_index", "segment_name"]


class LedgerBroken(ValueError):
    """The chain does not verify: nothing can be appended until its ConfigMaps are as they were."""

    def __init__(self, at: Break) -> None:
        super().__init__(f"segment {at.segment:04d}, entry {at.key or '-'}: {at.why}")
        self.at = at


@dataclass(frozen=True, slots=True)
class Write:
    """One write of one ConfigMap: a create, or a replace with the resourceVersion that was read."""

    segment: Segment
    create: bool


@dataclass(frozen=True)
class Ledger:
    """All entries of a Rollout's name, verified. `broken` says where the chain stops; the rest is not here."""

    segments: tuple[Segment, ...] = ()
    entries: tuple[Entry, ...] = ()
    broken: Break | None = None

    @classmethod
    def read(cls, segments: Iterable[Segment], *, heads: Sequence[Head] = ()) -> "Ledger":
        """From all its segments; see `verify` for `heads`. Never raises: a broken ledger says so."""
        found = tuple(sorted(segments, key=lambda segment: segment.index))
        result = verify(found, heads=heads)
        return cls(found, result.entries, result.broken)

    @property
    def head(self) -> Head | None:
        """The last entry's place, None when there is none."""
        if not self.entries:
            return None
        last = self.entries[-1]
        holders = [
            s.index for s in self.segments if s.items and s.items[0][0] <= Segment.key_of(last.sequence)
        ]
        return Head(holders[-1], last.sequence, last.digest)

    def find(self, key: EntryKey) -> Entry | None:
        """The entry of this event, when it was written already."""
        return self._by_key.get(key)

    def append(self, new: Iterable[NewEntry]) -> "Appended":
        """What to write so that all of `new` stand in the ledger. What is there already is not written again.

        Raises LedgerBroken, and what `Entry.chained` raises.
        """
        if self.broken is not None:
            raise LedgerBroken(self.broken)
        known = dict(self._by_key)
        fresh: list[Entry] = []
        asked: list[EntryKey] = []
        for item in new:
            asked.append(item.key)
            if item.key not in known:
                last = fresh[-1] if fresh else self.entries[-1] if self.entries else None
                entry = Entry.chained(
                    item,
                    sequence=last.sequence + 1 if last else 0,
                    previous=last.digest if last else GENESIS,
                )
                fresh.append(entry)
                known[item.key] = entry
        writes = tuple(_writes(list(self.segments), fresh)) if fresh else ()
        segments = {s.index: s for s in self.segments} | {w.segment.index: w.segment for w in writes}
        ledger = Ledger(tuple(segments[index] for index in sorted(segments)), (*self.entries, *fresh))
        return Appended(ledger, tuple(known[key] for key in asked), tuple(fresh), writes)

    @cached_property
    def _by_key(self) -> dict[EntryKey, Entry]:
        # The first of several counts: nothing that comes later may take an event back.
        return {entry.key: entry for entry in reversed(self.entries)}


@dataclass(frozen=True, slots=True)
class Appended:
    """`writes` in this order, each guarded by the resourceVersion read (or given by the create before it)."""

    ledger: Ledger
    """The ledger once all writes are done."""
    entries: tuple[Entry, ...]
    """One for each that was asked for, written now or found."""
    fresh: tuple[Entry, ...]
    """Those that were not there."""
    writes: tuple[Write, ...]


def _writes(segments: list[Segment], fresh: Sequence[Entry]) -> Iterator[Write]:
    """Entries that belong together go into one segment where they fit, so that they are one write.

    A full segment is left in three writes: the next one is created, empty; the full one is sealed; the next
    one is filled. Whoever still appends to the full one meets the seal, so two writers never share a number.
    """
    if not segments:
        first = Segment(0)
        count = _fits(first, fresh)
        segments.append(_filled(first, fresh[:count]))
        yield Write(segments[0], create=True)
        fresh = fresh[count:]
    yield from _mend(segments)
    while fresh:
        tail = segments[-1]
        if tail.sealed or not tail.has_room(tuple(entry.text for entry in fresh)):
            following = Segment(tail.index + 1)
            yield Write(following, create=True)
            if not tail.sealed:
                segments[-1] = replace(tail, sealed=True)
                yield Write(segments[-1], create=False)
            segments.append(following)
            tail = following
        count = _fits(tail, fresh)
        segments[-1] = _filled(tail, fresh[:count])
        yield Write(segments[-1], create=False)
        fresh = fresh[count:]


def _mend(segments: list[Segment]) -> Iterator[Write]:
    """Seals what a crash left open between the creation of the next segment and the seal."""
    for place, segment in enumerate(segments[:-1]):
        if not segment.sealed:
            segments[place] = replace(segment, sealed=True)
            yield Write(segments[place], create=False)


def _fits(segment: Segment, entries: Sequence[Entry]) -> int:
    """How many of `entries` go into an empty segment or one that has room for all: at least one."""
    count, size = 0, segment.size
    for entry in entries:
        size += len(entry.text.encode())
        if count and (len(segment.items) + count >= SEGMENT_ENTRIES or size > SEGMENT_BYTES):
            break
        count += 1
    return count


def _filled(segment: Segment, entries: Sequence[Entry]) -> Segment:
    more = tuple((Segment.key_of(entry.sequence), entry.text) for entry in entries)
    return replace(segment, items=(*segment.items, *more))
