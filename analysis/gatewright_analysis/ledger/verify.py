"""Walk the chain again: the first entry that does not fit, and why."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gatewright_analysis.ledger.entry import GENESIS, Entry, LedgerContentError
from gatewright_analysis.ledger.segment import Segment


@dataclass(frozen=True, slots=True)
class Head:
    """A place in the ledger: number and digest of an entry, as status, Events and the metric show it."""

    segment: int
    sequence: int
    digest: str


@dataclass(frozen=True, slots=True)
class Break:
    """Where the chain breaks: `key` in the ConfigMap of `segment`, and one sentence."""

    segment: int
    key: str
    why: str


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """`entries` are those before the break; all of them when there is none."""

    entries: tuple[Entry, ...]
    head: Head | None
    """None for a ledger without entries."""
    broken: Break | None = None
    unsealed: tuple[int, ...] = ()
    """Segments before the last that are not sealed: a crash between two writes; the next append mends it."""

    @property
    def ok(self) -> bool:
        return self.broken is None


class _Broken(Exception):
    """Carries a Break out of the walk."""

    def __init__(self, segment: int, key: str, why: str) -> None:
        self.at = Break(segment, key, why)


def verify(segments: Iterable[Segment], *, heads: Sequence[Head] = ()) -> VerifyResult:
    """Re-walk the whole ledger, given all its segments in any order.

    `heads` are places that were seen before (status, Events, a metric, an export). The chain alone can't show
    that its end was cut off or rewritten; a head that it no longer holds does.
    """
    ordered = sorted(segments, key=lambda segment: segment.index)
    entries: list[Entry] = []
    where: list[int] = []
    broken = None
    try:
        for place, segment in enumerate(ordered):
            _check_segment(segment, place, last=place == len(ordered) - 1)
            for key, text in segment.items:
                entries.append(_next(entries, segment.index, key, text))
                where.append(segment.index)
        _check_heads(entries, ordered, heads)
    except _Broken as stop:
        broken = stop.at
    head = Head(where[-1], entries[-1].sequence, entries[-1].digest) if entries else None
    unsealed = tuple(s.index for s in ordered[:-1] if not s.sealed)
    return VerifyResult(tuple(entries), head, broken, unsealed)


def _check_segment(segment: Segment, place: int, *, last: bool) -> None:
    if segment.index != place:
        raise _Broken(place, "", f"segment {place:04d} is missing")
    if not segment.items and not last:
        raise _Broken(place, "", f"segment {place:04d} is empty, and others follow it")


def _next(before: Sequence[Entry], segment: int, key: str, text: str) -> Entry:
    expected = len(before)
    if key != Segment.key_of(expected):
        raise _Broken(segment, key, f"entry {Segment.key_of(expected)} is missing; {key} stands in its place")
    try:
        entry = Entry.parse(text)
    except LedgerContentError as error:
        raise _Broken(segment, key, str(error)) from error
    if entry.sequence != expected:
        raise _Broken(segment, key, f"it says that it is entry {entry.sequence}: it was moved or copied")
    previous = before[-1].digest if before else GENESIS
    if entry.previous != previous:
        why = "the entry before it was changed" if before else "the first entry must follow nothing"
        raise _Broken(segment, key, f"it follows {entry.previous}, not {previous}: {why}")
    return entry


def _check_heads(entries: Sequence[Entry], segments: Sequence[Segment], heads: Sequence[Head]) -> None:
    last = segments[-1].index if segments else 0
    for head in heads:
        if head.sequence >= len(entries):
            raise _Broken(
                last,
                Segment.key_of(len(entries)),
                f"entry {head.sequence} was seen before and is gone: the end was cut off",
            )
        if entries[head.sequence].digest != head.digest:
            raise _Broken(
                head.segment,
                Segment.key_of(head.sequence),
                f"its digest was {head.digest} when it was seen before: it was changed",
            )
