"""Whatever the bytes are: a record or an ImportProblem, and never more memory than the bounds."""

import json
import sys
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gatewright_analysis.results import EvidenceRecord, Format, ImportProblem, reading
from gatewright_analysis.results import archive as archive_module
from gatewright_analysis.results.archive import MAX_TOTAL_BYTES, Archive
from tests.unit.result_files import changed, content, packed, record_of_bytes, repacked

LOG, LIMITED, SIMPLE = "inspect/refunds.eval", "inspect/refunds-limited.json", "promptfoo/simple.json"
LINES = b'{"item_id": "a", "pass": true}\n{"item_id": "b", "score": 0.5, "judge": {"id": "j"}}\n'
ITEM = b'{"item_id": "a", "pass": true}'


def problem(data: bytes, form: Format | None = None, **options: Any) -> str:
    with pytest.raises(ImportProblem) as caught:
        record_of_bytes(data, form, **options)
    return str(caught.value)


@pytest.mark.parametrize("form", list(Format))
@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "The file is empty"),
        (b" \n\t", "The file is empty"),
        (b"\xff\xfe{\x00", "is no UTF-8"),
        (b'{"item_id": "\xc3"}', "is no UTF-8"),
        (b"[" * 1_000_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b'{"a": 1e999}', "beyond what a double holds"),
        (b'{"a": Infinity}', "is no JSON number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too long to be one"),
        (b'{"a": 1, "a": 2}', "The key 'a' stands twice"),
        (b"{'a': 1}", "It is no JSON"),
        (b'{"a": 1', "It is no JSON"),
        (b"\x00", "It is no JSON"),
    ],
)
def test_bytes_that_are_no_file_of_the_format_are_told_so(form: Format, data: bytes, complaint: str) -> None:
    assert complaint in problem(data, form)


@pytest.mark.parametrize("data", [b"null", b"[]", b"1", b'"text"', b"{}", b'{"version": 3}'])
def test_a_file_of_no_known_format_is_told_where_the_formats_are(data: bytes) -> None:
    assert "docs/reference/evidence-files.md" in problem(data)


@pytest.mark.parametrize("form", list(Format))
def test_a_file_beyond_the_bound_is_refused_before_it_is_read(
    form: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_FILE_BYTES", 8 * 2**20)
    assert "The file has 9 MiB; up to 8 MiB are read" in problem(b" " * (9 * 2**20), form)


def test_very_many_tiny_values_are_refused_before_they_take_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_VALUES", 1_000)
    assert "It has more than 1,000 values" in problem(b"[" + b"[]," * 1_000 + b"0]", Format.PROMPTFOO)
    assert "stands where an object is wanted" in problem(b"[" + b"[]," * 400 + b"0]", Format.PROMPTFOO)


def test_very_many_members_are_refused_before_they_take_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "MAX_MEMBERS", 2)
    assert "The archive has more than 2 members" in problem(packed(dict.fromkeys("abc", b"")))


WRONG = [None, True, -1, 1.5, 2**60, "x", [], {}, [[]], {"a": 1}]


def paths(value: Any, so_far: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document, but in lists only the first element."""
    found = [so_far] if so_far else []
    if isinstance(value, dict):
        for key, inner in value.items():
            found += paths(inner, (*so_far, key))
    elif isinstance(value, list) and value:
        found += paths(value[0], (*so_far, 0))
    return found


def with_wrong(name: str, path: tuple[Any, ...], wrong: Any) -> bytes:
    def put(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = wrong

    return changed(name, put)


def small(name: str, keep: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return [path for path in paths(json.loads(content(name))) if not any(key in path for key in keep)]


@pytest.mark.parametrize("wrong", WRONG, ids=map(repr, WRONG))
def test_a_wrong_type_anywhere_in_a_log_is_a_record_or_a_problem(wrong: Any) -> None:
    for path in small(
        LIMITED, ("events", "events_data", "messages", "output", "reductions", "plan", "stats")
    ):
        record_or_problem(with_wrong(LIMITED, path, wrong), Format.INSPECT, scorer="passed")


@pytest.mark.parametrize("wrong", WRONG, ids=map(repr, WRONG))
def test_a_wrong_type_anywhere_in_results_of_promptfoo_is_a_record_or_a_problem(wrong: Any) -> None:
    for path in small(SIMPLE, ("tokenUsage", "tokensUsed", "response")):
        record_or_problem(with_wrong(SIMPLE, path, wrong), Format.PROMPTFOO)


def record_or_problem(data: bytes, form: Format | None, **options: Any) -> EvidenceRecord | None:
    """None for a problem; anything else that is raised fails the test."""
    try:
        return record_of_bytes(data, form, **options)
    except ImportProblem:
        return None


@settings(max_examples=150)
@given(
    name=st.sampled_from([LOG, SIMPLE, ""]),
    start=st.floats(0, 1),
    length=st.integers(0, 40),
    put=st.binary(max_size=8),
)
@example(name=LOG, start=1.0, length=40, put=b"")
def test_damaged_bytes_are_a_record_or_a_problem(name: str, start: float, length: int, put: bytes) -> None:
    """About two seconds: each example reads a whole file."""
    data = content(name) if name else LINES
    at = int(start * len(data))
    broken = data[:at] + put + data[at + length :]
    record_or_problem(broken, None, scorer="passed" if name == LOG else None)


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_a_problem(data: bytes) -> None:
    for form in (None, *Format):
        record_or_problem(data, form)
    record_or_problem(b"PK" + data, None)


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


def test_a_cluster_nested_deeply_is_refused() -> None:
    line = json.dumps({"item_id": "a", "pass": True, "cluster": deep(100)}).encode()
    assert "No cluster can be made of it" in problem(line, Format.JSONL)


def test_assertions_nested_deeply_are_refused() -> None:
    def nested(document: Any) -> None:
        row = document["results"]["results"][0]
        for _ in range(30):
            row["gradingResult"] = {"componentResults": [row["gradingResult"]]}

    assert "nested too deeply" in problem(changed(SIMPLE, nested))


def test_an_archive_that_lists_a_name_twice_is_refused() -> None:
    both = packed({"header.json": b"{}", "header.jsoN": b"{}"}).replace(b"header.jsoN", b"header.json")
    assert "'header.json': It stands twice in the archive" in problem(both)


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_a_member_that_grows_beyond_the_bound_is_not_unpacked_further(compression: int) -> None:
    archive = Archive.of(packed({"bomb.json": b"0" * 4_000_000}, compression))
    archive.largest = 1_000_000
    with pytest.raises(ImportProblem, match=r"bomb\.json: It grows beyond 0 MiB"):
        archive.read("bomb.json")


def test_all_members_together_have_a_bound() -> None:
    archive = Archive.of(packed(dict.fromkeys("abc", b"0" * 3000000)))
    assert archive.left == MAX_TOTAL_BYTES
    archive.left = 7_000_000
    archive.read("a"), archive.read("b")
    assert archive.left == 1_000_000
    with pytest.raises(ImportProblem, match=r"c: It grows beyond 0 MiB"):
        archive.read("c")


def test_a_zstandard_bomb_is_stopped_at_the_bound() -> None:
    archive = Archive.of(zstandard_member(frames=1, size=64 * 2**20))
    archive.largest = 2**20
    with pytest.raises(ImportProblem, match=r"bomb\.json: It grows beyond 1 MiB"):
        archive.read("bomb.json")


@pytest.mark.parametrize("frames", [1, 3])
def test_a_member_may_have_several_zstandard_frames(frames: int) -> None:
    archive = Archive.of(zstandard_member(frames, size=3_000_000))
    assert archive.read("bomb.json") == b"0" * (frames * 3_000_000)


def test_a_member_of_very_many_frames_is_refused() -> None:
    archive = Archive.of(zstandard_member(frames=100_000, size=0))
    with pytest.raises(ImportProblem, match=r"bomb\.json: It is damaged"):
        archive.read("bomb.json")


def zstandard_member(frames: int, size: int) -> bytes:
    """An archive whose one member is `frames` frames of `size` zeros, as Inspect writes large members."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    frame = zstd.compress(b"0" * size)
    data = frame * frames
    stored = bytearray(packed({"bomb.json": data}, zipfile.ZIP_STORED))
    real = (zlib.crc32(b"0" * (size * frames)), size * frames)
    # Both headers say method 93, and checksum and size of what comes out.
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = stored.index(signature)
        stored[at + offset : at + offset + 2] = (93).to_bytes(2, "little")
        stored[at + offset + 6 : at + offset + 10] = real[0].to_bytes(4, "little")
        stored[at + offset + 14 : at + offset + 18] = real[1].to_bytes(4, "little")
    return bytes(stored)


@pytest.mark.parametrize("cut", [0.2, 0.5, 0.9])
def test_a_zstandard_member_that_is_damaged_is_told_so(cut: float) -> None:
    data = bytearray(content(LOG))
    name = b"samples/refund-3_epoch_1.json"
    start = data.index(name) + len(name)
    at = start + int(2000 * cut)
    data[at : at + 4] = b"\xff\x00\xff\x00"
    assert f"{name.decode()}: It is damaged" in problem(bytes(data), scorer="passed")


def test_a_member_that_is_encrypted_or_packed_strangely_is_told_so() -> None:
    for offset, value in ((6, 1), (8, 97)):
        data = bytearray(packed({"header.json": b"{}"}))
        central = data.index(b"PK\x01\x02")
        data[offset : offset + 2] = value.to_bytes(2, "little")
        data[central + offset + 2 : central + offset + 4] = value.to_bytes(2, "little")
        assert "header.json: It is encrypted, or compressed in a way" in problem(bytes(data))


CHANGES: list[tuple[Callable[[dict[str, bytes]], object], str]] = [
    (lambda members: members.update({"header.json": b"[]"}), "stands where an object is wanted"),
    (lambda members: members.update({"header.json": b"\xff"}), "header.json: Byte 0 is no UTF-8"),
    (lambda members: members.update({"samples/x.json": b"{}"}), "samples/x.json.id"),
    (lambda members: members.update({"samples/x.json": b"NaN"}), "samples/x.json: "),
    (
        lambda members: members.update({"samples/x.json": members["samples/refund-1_epoch_1.json"]}),
        "of the log are without an error, where it counted 9",
    ),
]


@pytest.mark.parametrize(("change", "complaint"), CHANGES)
def test_members_that_were_exchanged_are_told_so(
    change: Callable[[dict[str, bytes]], object], complaint: str
) -> None:
    assert complaint in problem(repacked(LOG, change), scorer="passed")
