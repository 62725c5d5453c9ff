"""JSON lines of our own become records, and every complaint names the line."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from gatewright_analysis.results import (
    EvidenceRecord,
    Format,
    ImportProblem,
    Judge,
    RecordKind,
    Revision,
    Tool,
)
from tests.unit.result_files import by_value, record_of_bytes


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def read(*rows: Any, **options: Any) -> EvidenceRecord:
    return record_of_bytes(lines(*rows), Format.JSONL, **options)


def test_passes_count_as_samples_and_every_item_is_a_cluster() -> None:
    record = read(
        {"item_id": "a", "pass": True}, {"item_id": "b", "pass": False}, {"item_id": 3, "pass": True}
    )
    assert record.kind is RecordKind.SAMPLES
    assert by_value(record, "a", "b", 3) == {"a": (1, 0, 0), "b": (0, 1, 0), "3": (1, 0, 0)}


def test_scores_count_as_scores() -> None:
    record = read(
        {"item_id": "a1", "cluster": "a", "score": 0.25},
        {"item_id": "a2", "cluster": "a", "score": 1},
        {"item_id": "b", "score": 0},
    )
    assert record.kind is RecordKind.SCORES
    assert by_value(record, "a", "b") == {"a": (2, 1.25, 0), "b": (1, 0.0, 0)}


@pytest.mark.parametrize("status", ["error", "skipped"])
def test_an_item_without_a_verdict_is_missing_whatever_stands_beside_it(status: str) -> None:
    record = read(
        {"item_id": "a", "pass": True, "status": "ok"}, {"item_id": "b", "pass": True, "status": status}
    )
    assert (record.good, record.missing, record.expected) == (1, 1, 2)


def test_a_header_says_how_many_there_should_be_and_what_made_them() -> None:
    header = {
        "expected": 3,
        "tool": {"name": "own-judge", "version": "2"},
        "seed": 7,
        "createdAt": "2026-03-01T12:00:00Z",
        "revision": {"commit": "0123456789abcdef", "dirty": False},
    }
    record = read({"header": header}, {"item_id": "a", "pass": True}, revision="0123456")
    assert (record.expected, record.missing, record.seed) == (3, 2, 7)
    assert record.tool == Tool(name="own-judge", version="2")
    assert record.created_at == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert record.revision == Revision(commit="0123456789abcdef", dirty=False)


def test_without_a_header_the_newest_item_says_when() -> None:
    times = ["2026-03-01T12:00:00+01:00", "2026-03-01T11:30:00Z", "2026-03-01T10:00:00"]
    record = read(*({"item_id": at, "pass": True, "ts": at} for at in times))
    assert record.created_at == datetime(2026, 3, 1, 11, 30, tzinfo=UTC)


def test_one_judge_in_one_version() -> None:
    judge = {"id": "judge-model", "version": "2026-03", "fingerprint": "fp1"}
    rows = [{"item_id": name, "pass": True, "judge": judge} for name in "ab"]
    assert read(*rows).judge == Judge(id="judge-model", version="2026-03", fingerprint="fp1")
    rows[1] = rows[1] | {"judge": judge | {"version": "2026-04"}}
    with pytest.raises(ImportProblem, match=r"line 2: Another judge gave this verdict"):
        read(*rows)


def test_items_cluster_by_any_key() -> None:
    rows = [{"item_id": name, "pass": True, "conversation": name[0]} for name in ("a1", "a2", "b1")]
    assert by_value(read(*rows, cluster_by="conversation"), "a", "b") == {"a": (2, 0, 0), "b": (1, 0, 0)}
    with pytest.raises(ImportProblem, match=r"line 1: It has no 'customer' to cluster by"):
        read(*rows, cluster_by="customer")


GOOD = {"item_id": "a", "pass": True}


@pytest.mark.parametrize(
    ("second", "complaint"),
    [
        (GOOD, "line 2: It is the same item as line 1"),
        ({"item_id": "b", "score": 1}, "line 2: It has score where lines before have pass"),
        ({"item_id": "b"}, "line 2: A line has either pass or score"),
        ({"item_id": "b", "pass": True, "score": 1}, "line 2: A line has either pass or score"),
        ({"item_id": "b", "pass": "yes"}, "line 2.pass: 'yes' stands where true or false is wanted"),
        ({"item_id": "b", "pass": 1}, "line 2.pass: 1 stands where true or false is wanted"),
        (
            {"item_id": "b", "pass": True, "status": "fine"},
            "line 2.status: 'fine' is none of ok, error, skipped",
        ),
        ({"item_id": "b", "pass": True, "status": ["ok"]}, "line 2.status: .* is none of ok"),
        ({"pass": True}, "line 2.item_id: An item has an item_id"),
        ({"item_id": "", "pass": True}, "line 2.item_id: An item has an item_id"),
        ({"item_id": True, "pass": True}, "line 2.item_id: An item has an item_id"),
        ({"item_id": 1.5, "pass": True}, "line 2.item_id: An item has an item_id"),
        ({"item_id": "b", "pass": True, "ts": "yesterday"}, "line 2.ts: 'yesterday' stands where a time"),
        ({"item_id": "b", "pass": True, "ts": 5}, "line 2.ts: 5 stands where a time"),
        ({"item_id": "b", "pass": True, "judge": {"version": "1"}}, "line 2.judge.id: it is missing"),
        ({"item_id": "b", "pass": True, "judge": "me"}, "line 2.judge: 'me' stands where an object"),
        ({"header": {}}, "line 2: The header is the first line"),
        ([1], r"line 2: \[1\] stands where an object is wanted"),
        (None, "line 2: it is missing; an object is wanted"),
    ],
)
def test_every_complaint_names_the_line(second: Any, complaint: str) -> None:
    with pytest.raises(ImportProblem, match=complaint):
        read(GOOD, second)


@pytest.mark.parametrize("score", [-0.1, 1.1, 10**400, True, "0.5", [0.5]])
def test_a_score_is_a_number_from_0_to_1(score: Any) -> None:
    with pytest.raises(ImportProblem, match=r"line 1.score: .* stands where a score from 0 to 1"):
        read({"item_id": "a", "score": score})


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ({"expected": 0}, "There are 1 rows where the tool says 0"),
        ({"expected": -1}, "line 1.header.expected: -1 stands where a whole number"),
        ({"expected": 1.5}, "line 1.header.expected: 1.5 stands where a whole number"),
        ({"expected": 2**60}, "line 1.header.expected: .* stands where a whole number"),
        ({"tool": {"name": "x" * 254}}, "line 1.header.tool.name: .* a string of 1 to 253 characters"),
        ({"tool": {"name": "\ud800"}}, "line 1.header.tool.name: .* a string of 1 to 253 characters"),
        ({"seed": "x"}, "line 1.header.seed: 'x' stands where"),
    ],
)
def test_a_header_that_says_nonsense_is_refused(header: Any, complaint: str) -> None:
    with pytest.raises(ImportProblem, match=complaint):
        read({"header": header}, GOOD)


def test_a_commit_must_be_named_to_be_checked() -> None:
    with pytest.raises(ImportProblem, match=r"names no commit, so it can't be of 0123456"):
        read(GOOD, revision="0123456")
    header = {"header": {"revision": {"commit": "fedcba9876"}}}
    with pytest.raises(ImportProblem, match=r"is of commit 'fedcba9876', not of 0123456"):
        read(header, GOOD, revision="0123456")
    with pytest.raises(ImportProblem, match=r"does not say that the work tree was clean"):
        read(header, GOOD, revision="fedcba9")


def test_empty_lines_and_windows_line_ends_are_no_matter() -> None:
    data = b'\xef\xbb\xbf{"item_id": "a", "pass": true}\r\n\r\n{"item_id": "b", "pass": false}'
    assert record_of_bytes(data).scored == 2


def test_a_cut_line_is_named() -> None:
    with pytest.raises(ImportProblem, match=r"line 2, column \d+: It is no JSON"):
        record_of_bytes(lines(GOOD) + b'{"item_id": "b", "pa', Format.JSONL)
