"""Rows of a result file → the record: one row is one verdict on one item, or the lack of it."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from gatewright_analysis.results.problem import ImportProblem
from gatewright_analysis.results.record import (
    MAX_ITEMS,
    CountedItem,
    EvidenceRecord,
    Judge,
    PairItem,
    RecordKind,
    Revision,
    Source,
    Subject,
    Tool,
    first_error,
    too_many,
)


@dataclass(frozen=True, slots=True)
class Row:
    """One verdict. `item` tells it from all others of the file, `cluster` is shared by those that depend on each
    other, `value` is from 0 to 1 and None where the verdict is missing."""

    item: str
    cluster: str
    value: float | None
    where: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What an importer found in one file. `expected` is the number of rows that the tool says there should be."""

    tool: Tool
    kind: RecordKind
    rows: tuple[Row, ...]
    expected: int
    created_at: datetime | None = None
    revision: Revision | None = None
    judge: Judge | None = None
    seed: int | None = None


def record(suite: str, reading: Reading, source: Source, subject: Subject) -> EvidenceRecord:
    """The record of one file. Raises ImportProblem when the rows contradict what the tool says."""
    rows = _checked(reading)
    if reading.kind is RecordKind.SAMPLES:
        _refuse_shares(rows)
    items = _grouped(rows, _samples if reading.kind is RecordKind.SAMPLES else _scores)
    absent = sum(row.value is None for row in rows)
    missing = absent + reading.expected - len(rows)
    return _record(suite, reading, reading.kind, source, subject, reading.expected, missing, items)


def paired(
    suite: str, reading: Reading, other: Reading, source: Source, other_source: Source, subject: Subject
) -> EvidenceRecord:
    """The record of the same items in two files: `reading` wins where its value is higher than `other`'s.

    An item that one of the files lacks, or without a verdict in one of them, is a missing pair. Raises
    ImportProblem when no item is in both.
    """
    if reading.judge != other.judge:
        raise ImportProblem("The two files were judged by different judges: evaluate both versions with one.")
    rows, others = _checked(reading), {row.item: row for row in _checked(other)}
    matched = {row.item for row in rows} & others.keys()
    if not matched:
        raise ImportProblem(
            "The two files have no item in common: evaluate both versions on the same data set, and import "
            "both with the same options."
        )
    pairs = [
        (row.cluster, row.value, others[row.item].value if row.item in matched else None) for row in rows
    ]
    pairs += [(row.cluster, None, row.value) for item, row in others.items() if item not in matched]
    # Rows that are in neither file, by the tools' own word, can't be told apart: the larger number of them.
    unseen = max(reading.expected - len(rows), other.expected - len(others))
    compared = [
        Row("", cluster, None if one is None or two is None else float((one > two) - (one < two)), "")
        for cluster, one, two in pairs
    ]
    items = _grouped(compared, _pairs)
    missing = sum(row.value is None for row in compared) + unseen
    pair_count = len(compared) + unseen
    built = _record(suite, reading, RecordKind.PAIRS, source, subject, pair_count, missing, items)
    return built.model_copy(update={"compared_with": other_source})


def _checked(reading: Reading) -> tuple[Row, ...]:
    """The rows, when they are not more than said, and each item is there once."""
    if len(reading.rows) > reading.expected:
        raise ImportProblem(
            f"There are {len(reading.rows)} rows where the tool says {reading.expected}: the file was changed, or two "
            "runs were put into one."
        )
    if not reading.expected:
        raise ImportProblem("The evaluation has no rows: nothing was evaluated.")
    seen: dict[str, Row] = {}
    for row in reading.rows:
        before = seen.setdefault(row.item, row)
        if before is not row:
            raise ImportProblem(f"It is the same item as {before.where}: each may stand once.", row.where)
    return reading.rows


def _refuse_shares(rows: tuple[Row, ...]) -> None:
    for row in rows:
        if row.value not in (None, 0.0, 1.0):
            raise ImportProblem(
                f"The score {row.value:g} is neither 0 nor 1: import the file with --kind scores.", row.where
            )


def _record(
    suite: str,
    reading: Reading,
    kind: RecordKind,
    source: Source,
    subject: Subject,
    expected: int,
    missing: int,
    items: tuple[CountedItem | PairItem, ...],
) -> EvidenceRecord:
    try:
        return EvidenceRecord(
            suite=suite,
            kind=kind,
            tool=reading.tool,
            created_at=reading.created_at,
            source=source,
            subject=subject,
            revision=reading.revision,
            judge=reading.judge,
            seed=reading.seed,
            expected=expected,
            missing=missing,
            items=items,
        )
    except ValidationError as error:
        raise ImportProblem(f"No evidence record can be made of it: {first_error(error)}.") from error


Item = CountedItem | PairItem


def _grouped(rows: Iterable[Row], count: Callable[[str, list[float], int], Item]) -> tuple[Item, ...]:
    values: dict[str, list[float]] = {}
    missing: dict[str, int] = {}
    for row in rows:
        found = values.setdefault(row.cluster, [])
        if row.value is None:
            missing[row.cluster] = missing.get(row.cluster, 0) + 1
        else:
            found.append(row.value)
    if len(values) > MAX_ITEMS:
        raise too_many(len(values))
    return tuple(count(cluster, values[cluster], missing.get(cluster, 0)) for cluster in sorted(values))


def _samples(cluster: str, values: list[float], missing: int) -> CountedItem:
    good = sum(value == 1 for value in values)
    return cluster, good, len(values) - good, missing


def _scores(cluster: str, values: list[float], missing: int) -> CountedItem:
    # fsum: the order of the rows must not show in the digest.
    return cluster, len(values), math.fsum(values), missing


def _pairs(cluster: str, values: list[float], missing: int) -> PairItem:
    return cluster, values.count(1.0), values.count(-1.0), values.count(0.0), missing
