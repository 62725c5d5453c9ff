"""Whatever is done to a ledger, it is found; whatever is asked of it twice, it does once."""

import json
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gatewright_analysis.ledger import (
    Entry,
    EntryKey,
    Head,
    Ledger,
    NewEntry,
    Segment,
    canonical,
    verify,
)

T0 = datetime(2030, 1, 1, tzinfo=UTC)
KINDS = ["WeightSet", "Held", "Order", "Promoted", "Frozen"]

texts = st.text(max_size=12)
numbers = st.one_of(st.integers(), st.floats(), st.integers(min_value=2**52, max_value=2**70))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=8,
)
bodies = st.dictionaries(texts, values, max_size=4)
keys = st.builds(
    EntryKey,
    rollout_uid=st.sampled_from(["u1", "u2"]),
    revision=st.sampled_from(["1111111111", "2222222222"]),
    step=st.sampled_from(["", "0", "1", "bake"]),
    attempt=st.integers(0, 3),
    kind=st.sampled_from(KINDS),
    cause=st.text(max_size=5),
)
news = st.builds(
    NewEntry,
    key=keys,
    at=st.integers(0, 10**6).map(lambda ms: T0 + timedelta(milliseconds=ms)),
    body=bodies,
    late=st.booleans(),
)


def grown(batches: list[list[NewEntry]]) -> Ledger:
    ledger = Ledger()
    for batch in batches:
        ledger = ledger.append(batch).ledger
    return ledger


ledgers = st.lists(st.lists(news, min_size=1, max_size=4), min_size=1, max_size=5).map(grown)


@cache
def long_ledger(count: int) -> Ledger:
    """Over several segments where `count` is above 128."""
    entries = [
        NewEntry(EntryKey("u1", "1" * 10, str(n), 1, "WeightSet"), T0, {"weight": n}) for n in range(count)
    ]
    return grown([entries[: count // 2], entries[count // 2 :]])


long_ledgers = st.sampled_from([3, 127, 200, 290]).map(long_ledger)


def replaced(ledger: Ledger, index: int, items: list[tuple[str, str]]) -> list[Segment]:
    return [Segment(index, tuple(items), s.sealed) if s.index == index else s for s in ledger.segments]


@given(values)
@settings(max_examples=40, deadline=None)
def test_canonical_bytes_are_a_fixed_point(value: Any) -> None:
    text = canonical(value)
    assert canonical(json.loads(text)) == text


@given(ledgers)
@settings(max_examples=40, deadline=None)
def test_what_was_appended_verifies_and_reads_back(ledger: Ledger) -> None:
    again = Ledger.read(
        [Segment.of(s.index, s.data, sealed=s.sealed) for s in ledger.segments],
        heads=[ledger.head or Head(0, 0, "")],
    )
    assert again.broken is None, again.broken
    assert again.entries == ledger.entries
    assert [entry.sequence for entry in ledger.entries] == list(range(len(ledger.entries)))


@given(st.lists(st.lists(news, min_size=1, max_size=4), min_size=1, max_size=4), st.data())
@settings(max_examples=40, deadline=None)
def test_asking_again_writes_nothing(batches: list[list[NewEntry]], data: st.DataObject) -> None:
    ledger = grown(batches)
    asked = [item for batch in batches for item in batch]
    again = ledger.append(data.draw(st.permutations(asked)))
    assert again.writes == ()
    assert again.ledger.entries == ledger.entries
    assert len({entry.key for entry in ledger.entries}) == len(ledger.entries), "one event, one entry"


@given(long_ledgers, st.data())
@settings(max_examples=60, deadline=None)
def test_a_changed_byte_is_found(ledger: Ledger, data: st.DataObject) -> None:
    segment = data.draw(st.sampled_from(ledger.segments))
    assume(segment.items)
    place = data.draw(st.integers(0, len(segment.items) - 1))
    key, text = segment.items[place]
    at = data.draw(st.integers(0, len(text.encode()) - 1))
    flipped = bytearray(text.encode())
    flipped[at] ^= data.draw(st.integers(1, 255))
    items = list(segment.items)
    items[place] = (key, flipped.decode(errors="replace"))
    assert ledger.head is not None
    result = verify(replaced(ledger, segment.index, items), heads=[ledger.head])
    assert result.broken is not None, f"byte {at} of entry {key} was changed unseen"
    assert result.entries == ledger.entries[: len(result.entries)] or len(result.entries) >= int(key)


@given(long_ledgers, st.data())
@settings(max_examples=60, deadline=None)
def test_a_removed_entry_is_found(ledger: Ledger, data: st.DataObject) -> None:
    segment = data.draw(st.sampled_from(ledger.segments))
    assume(segment.items)
    place = data.draw(st.integers(0, len(segment.items) - 1))
    items = [item for n, item in enumerate(segment.items) if n != place]
    assert ledger.head is not None
    result = verify(replaced(ledger, segment.index, items), heads=[ledger.head])
    assert result.broken is not None, f"entry {segment.items[place][0]} was removed unseen"


@given(long_ledgers, st.data())
@settings(max_examples=60, deadline=None)
def test_two_entries_that_changed_places_are_found(ledger: Ledger, data: st.DataObject) -> None:
    segment = data.draw(st.sampled_from([s for s in ledger.segments if len(s.items) > 1]))
    one, two = data.draw(
        st.lists(st.integers(0, len(segment.items) - 1), min_size=2, max_size=2, unique=True)
    )
    items = list(segment.items)
    items[one], items[two] = (items[one][0], items[two][1]), (items[two][0], items[one][1])
    broken = verify(replaced(ledger, segment.index, items)).broken
    assert broken is not None, f"entries {one} and {two} changed places unseen"
    assert broken.key == items[min(one, two)][0], "the first of the two is named"


@given(ledgers, st.data())
@settings(max_examples=40, deadline=None)
def test_an_inserted_entry_is_found(ledger: Ledger, data: st.DataObject) -> None:
    """Even one that follows the last rightly, when the head was seen; and any in the middle."""
    place = data.draw(st.integers(0, len(ledger.entries) - 1))
    previous = ledger.entries[place - 1].digest if place else "sha256:" + "0" * 64
    forged = Entry.chained(data.draw(news), sequence=place, previous=previous)
    assume(forged.digest != ledger.entries[place].digest)
    entries = [*ledger.entries[:place], forged, *ledger.entries[place:]]
    items = tuple((Segment.key_of(n), entry.text) for n, entry in enumerate(entries))
    assert not verify([Segment(0, items)]).ok
    assert ledger.head is not None
    cut = items[: place + 1]
    assert not verify([Segment(0, cut)], heads=[ledger.head]).ok, "a shorter chain with a forged end"


@given(st.lists(st.lists(st.integers(1, 60_000), min_size=1, max_size=6), min_size=1, max_size=8))
@settings(max_examples=20, deadline=None)
def test_segments_keep_their_bounds_and_crashes_between_writes_lose_nothing(sizes: list[list[int]]) -> None:
    ledger, number = Ledger(), 0
    for batch in sizes:
        entries = []
        for size in batch:
            entries.append(
                NewEntry(EntryKey("u1", "1" * 10, "", number, "WeightSet"), T0, {"pad": "x" * size})
            )
            number += 1
        written = ledger.append(entries)
        stored, found = {s.index: s for s in ledger.segments}, ledger
        for write in written.writes:
            assert write.create is (write.segment.index not in stored), (
                "a create of what is there, or the reverse"
            )
            assert not (write.segment.index in stored and stored[write.segment.index].sealed), (
                "a sealed segment stays"
            )
            stored[write.segment.index] = write.segment
            found = Ledger.read(stored.values())
            assert found.broken is None, found.broken
            assert found.entries[: len(ledger.entries)] == ledger.entries, "what stood there before stays"
        assert found.entries == written.ledger.entries
        ledger = found
    assert all(len(s.items) <= 128 and s.size <= 256 * 1024 for s in ledger.segments)
    assert all(s.sealed for s in ledger.segments[:-1])
