"""The evidence record: what adds up, what fits into a ConfigMap, and pairs of two files."""

import base64
import dataclasses
import gzip
import hashlib
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gatewright_analysis.results import (
    MAX_ITEMS,
    MAX_PACKED_BYTES,
    EvidenceRecord,
    ImportProblem,
    Options,
    RecordKind,
    RecordTooLarge,
    Source,
    Subject,
    Tool,
    import_pair,
    pack,
    tally,
    unpack,
)
from gatewright_analysis.results import record as record_module
from gatewright_analysis.results.record import cluster_key
from gatewright_analysis.results.tally import Reading, Row
from tests.unit.result_files import by_value, content, record_of

LOG, STABLE = "inspect/refunds.eval", "inspect/refunds-stable.eval"
IDS = tuple(f"refund-{number}" for number in range(1, 6))


def wire(**changes: Any) -> dict[str, Any]:
    """A record of two clusters, as it stands in a ConfigMap."""
    return {
        "schema": "gatewright.dev/evidence/v1",
        "suite": "refunds",
        "kind": "samples",
        "tool": {"name": "inspect"},
        "source": {"name": "a.json", "digest": f"sha256:{'0' * 64}", "bytes": 1},
        "expected": 4,
        "missing": 1,
        "items": [["0" * 16, 2, 0, 1], ["1" * 16, 0, 1, 0]],
    } | changes


def pair(name: str, other: str, **options: Any) -> EvidenceRecord:
    return import_pair(
        content(name), name, content(other), other, suite="refunds", options=Options(**options)
    )


def of_items(number: int) -> EvidenceRecord:
    """A record of so many clusters, whose keys are as hard to compress as real ones."""
    clusters = sorted(hashlib.sha256(b"%d" % item).hexdigest()[:16] for item in range(number))
    items = [[cluster, 1, 0, 0] for cluster in clusters]
    return EvidenceRecord.model_validate(wire(items=items, expected=number, missing=0))


def test_the_wire_form_is_read_back_as_it_was() -> None:
    record = EvidenceRecord.model_validate(wire())
    assert record.wire() == wire() | {"subject": {"images": [], "world": {}}}
    assert (record.good, record.bad, record.scored, record.clusters) == (2, 1, 3, 2)


@pytest.mark.parametrize(
    "name_and_options",
    [
        (LOG, {"scorer": "rubric", "kind": RecordKind.SCORES}),
        (LOG, {"scorer": "passed"}),
        ("promptfoo/simple.json", {}),
    ],
)
def test_a_record_is_packed_the_same_each_time_and_unpacked_whole(name_and_options: Any) -> None:
    name, options = name_and_options
    record = record_of(name, **options)
    packed = pack(record)
    assert packed == pack(record_of(name, **options))
    assert packed.digest == record.digest
    assert unpack(packed.data, packed.digest) == record


def test_nothing_that_was_asked_or_answered_is_in_the_record() -> None:
    plain = record_of("promptfoo/simple.json").canonical_bytes()
    assert b"30 days" not in plain and b"question" not in plain


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"schema": "gatewright.dev/evidence/v2"}, "schema"),
        ({"suite": "Refunds"}, "suite"),
        ({"kind": "votes"}, "kind"),
        ({"expected": 5}, "3 verdicts and 1 missing are not the 5 expected"),
        ({"missing": 0, "expected": 3}, "the items miss more verdicts than the record says"),
        ({"items": [["1" * 16, 0, 1, 0], ["0" * 16, 2, 0, 1]]}, "not sorted by cluster"),
        ({"items": [["0" * 16, 2, 0, 1], ["0" * 16, 0, 1, 0]]}, "a cluster stands twice"),
        ({"items": [["0" * 16, 2, 1, 1], ["1" * 16, 0, 0, 0]]}, "counts nothing"),
        ({"items": [["0" * 16, 2, 0.5, 1], ["1" * 16, 0, 1, 0]]}, "no whole number of bad samples"),
        ({"items": [["0" * 16, 2, 0, 0, 1], ["1" * 16, 0, 1, 0]]}, "another length"),
        ({"kind": "scores", "items": [["0" * 16, 2, 2.5, 1], ["1" * 16, 1, 1, 0]]}, "at most 1 each"),
        ({"items": [["0" * 16, "2", 0, 1], ["1" * 16, 0, 1, 0]]}, "items"),
        ({"items": [["0" * 16, True, 1, 1], ["1" * 16, 0, 1, 0]]}, "items"),
        ({"items": [["0" * 16, -1, 3, 1], ["1" * 16, 0, 1, 0]]}, "items"),
        ({"items": [["x" * 16, 2, 0, 1], ["1" * 16, 0, 1, 0]]}, "items"),
    ],
)
def test_a_record_that_does_not_add_up_can_not_be_built(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        EvidenceRecord.model_validate(wire(**changes))


def test_pairs_count_wins_losses_and_ties_item_by_item() -> None:
    record = pair(LOG, STABLE, scorer="letters")
    assert record.kind is RecordKind.PAIRS
    assert by_value(record, *IDS) == {
        "refund-1": (1, 0, 1, 0),  # C C against C I
        "refund-2": (1, 0, 1, 0),  # C I against I I
        "refund-3": (0, 2, 0, 0),  # P N against C P
        "refund-4": (0, 1, 1, 0),  # I I against I C
        "refund-5": (0, 0, 0, 2),  # the version before was not asked
    }
    assert (record.good, record.bad, record.ties, record.missing, record.expected) == (2, 3, 3, 2, 10)
    assert record.compared_with is not None and record.compared_with.name == "refunds-stable.eval"


def test_pairs_turned_round_turn_the_counts_round() -> None:
    one, other = pair(LOG, STABLE, scorer="letters"), pair(STABLE, LOG, scorer="letters")
    assert (one.good, one.bad, one.ties, one.missing) == (other.bad, other.good, other.ties, other.missing)


def test_pairs_of_promptfoo_take_repeats_in_their_order() -> None:
    record = pair("promptfoo/simple.json", "promptfoo/simple.json")
    assert [item[1:] for item in record.items] == [(0, 0, 3, 0)] * 3


def test_files_without_an_item_in_common_are_no_pair() -> None:
    with pytest.raises(ImportProblem, match="The two files have no item in common"):
        import_pair(
            b'{"item_id": 1, "pass": true}', "a", b'{"item_id": 2, "pass": true}', "b", suite="refunds"
        )


def test_a_complaint_about_the_other_file_names_it() -> None:
    with pytest.raises(
        ImportProblem, match=r"^inspect/refunds-edited\.eval: samples/.*: The score was edited"
    ):
        pair(LOG, "inspect/refunds-edited.eval", scorer="letters")


def test_two_judges_make_no_pair() -> None:
    data = b'{"item_id": 1, "pass": true, "judge": {"id": "%s"}}'
    with pytest.raises(ImportProblem, match="judged by different judges"):
        import_pair(data % b"one", "a", data % b"two", "b", suite="refunds")


def test_verdicts_whose_rows_are_in_neither_file_are_missing_pairs() -> None:
    data = b'{"header": {"expected": %d}}\n{"item_id": 1, "pass": true}'
    record = import_pair(data % 3, "a", data % 6, "b", suite="refunds")
    assert (record.expected, record.missing, record.ties) == (6, 5, 1)


def test_more_items_than_a_record_has_are_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_ITEMS == 200_000
    monkeypatch.setattr(tally, "MAX_ITEMS", 2)
    with pytest.raises(RecordTooLarge, match=r"has 3 items.*draw a sample of the data set"):
        record_of("promptfoo/simple.json")


def test_sixty_thousand_items_fit_into_a_config_map() -> None:
    """About two seconds: so many items are the point."""
    assert 700_000 < len(pack(of_items(60_000)).data) < MAX_PACKED_BYTES == 900_000


def test_a_record_that_fits_into_no_config_map_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_module, "MAX_PACKED_BYTES", 1_000)
    with pytest.raises(
        RecordTooLarge, match=r"500 items takes .* up to 1,000 fit.*draw a sample of the data set"
    ):
        pack(of_items(500))


def test_an_unpacked_record_must_be_the_one_of_its_digest() -> None:
    packed = pack(EvidenceRecord.model_validate(wire()))
    with pytest.raises(ImportProblem, match="it was changed after the push"):
        unpack(packed.data, f"sha256:{'0' * 64}")


@pytest.mark.parametrize(
    ("plain", "complaint"),
    [
        (b"[]", "It is no evidence record"),
        (b"{", "it can't be read as JSON"),
        (b"[" * 100_000, "it can't be read as JSON"),
        (json.dumps(wire(expected=9)).encode(), "are not the 9 expected"),
        (b" " * (33 * 1024 * 1024), "larger than any record"),
    ],
)
def test_what_is_no_record_is_not_unpacked(plain: bytes, complaint: str) -> None:
    data = base64.b64encode(gzip.compress(plain)).decode()
    with pytest.raises(ImportProblem, match=complaint):
        unpack(data, f"sha256:{hashlib.sha256(plain).hexdigest()}")


@pytest.mark.parametrize("data", ["", "not base64!", "aGVsbG8="])
def test_what_is_no_gzip_is_not_unpacked(data: str) -> None:
    with pytest.raises(ImportProblem, match=r"no gzip in base64|cut off"):
        unpack(data, f"sha256:{'0' * 64}")


def test_a_cluster_is_the_value_and_not_its_spelling() -> None:
    assert cluster_key({"a": 1, "b": 2}) == cluster_key({"b": 2, "a": 1.0})
    assert cluster_key("1") != cluster_key(1)


ROWS = st.lists(
    st.builds(
        lambda item, cluster, value: Row(f"{item}", f"{cluster:016x}", value, f"row {item}"),
        item=st.integers(0, 10**6),
        cluster=st.integers(0, 8),
        value=st.none() | st.floats(0, 1),
    ),
    min_size=1,
    max_size=30,
    unique_by=lambda row: row.item,
)


@given(rows=ROWS, absent=st.integers(0, 5), data=st.data())
def test_any_rows_add_up_and_their_order_does_not_show(
    rows: list[Row], absent: int, data: st.DataObject
) -> None:
    def built(order: list[Row], kind: RecordKind) -> EvidenceRecord:
        found = Reading(Tool(name="t"), kind, tuple(order), expected=len(rows) + absent)
        return tally.record(
            "refunds", found, Source(name="f", digest=f"sha256:{'0' * 64}", bytes=1), Subject()
        )

    scores = built(rows, RecordKind.SCORES)
    values = [row.value for row in rows if row.value is not None]
    assert scores.scored == len(values) and scores.missing == len(rows) - len(values) + absent
    assert math.isclose(scores.total_of_scores, math.fsum(values), abs_tol=1e-9)
    assert scores.clusters == len({row.cluster for row in rows})
    shuffled = data.draw(st.permutations(rows))
    assert built(shuffled, RecordKind.SCORES).digest == scores.digest
    rounded = [dataclasses.replace(row, value=row.value and float(round(row.value))) for row in rows]
    samples = built(rounded, RecordKind.SAMPLES)
    assert samples.good + samples.bad == len(values)
    assert samples.good == sum(round(value) for value in values)
