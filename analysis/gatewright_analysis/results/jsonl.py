"""JSON lines of our own, for tools that have no importer (statistics.md section 9).

One item a line: `item_id`, `pass` or `score`, and if needed `cluster`, `status`, `judge`, `ts`. The first line may be
`{"header": {…}}`: how many there should be, and what made them.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from gatewright_analysis.results.options import Options
from gatewright_analysis.results.problem import ImportProblem
from gatewright_analysis.results.reading import Part, decoded, parsed, same_commit, shown
from gatewright_analysis.results.record import Judge, RecordKind, Revision, Tool, cluster_key
from gatewright_analysis.results.tally import Reading, Row

MAX_LINES: Final = 2_000_000


class Status(StrEnum):
    """What became of an item. All but ok are verdicts that are missing."""

    OK = "ok"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass
class Found:
    """What the lines share, gathered while they are read."""

    measure: str | None = None
    judge: Judge | None = None
    newest: datetime | None = None
    rows: list[Row] = field(default_factory=list)


def read(data: bytes, options: Options) -> Reading:
    """Raises ImportProblem, always with the line."""
    lines = [(number, line) for number, line in enumerate(decoded(data).split("\n"), 1) if line.strip()]
    if len(lines) > MAX_LINES:
        raise ImportProblem(f"The file has {len(lines):,} lines; up to {MAX_LINES:,} are read.")
    found = Found()
    header: Part | None = None
    for number, line in lines:
        part = parsed(line.encode("utf-8"), f"line {number}")
        if "header" in part.mapping():
            if found.rows or header is not None:
                raise ImportProblem("The header is the first line, and there is one.", part.where)
            header = part.at("header")
            continue
        _add(found, part, options)
    if not found.rows:
        raise ImportProblem("The file has no items: the evaluation wrote nothing.")
    return _reading(found, Part({}, "line 1.header") if header is None else header, options)


def _reading(found: Found, header: Part, options: Options) -> Reading:
    tool, seed, expected = header.at("tool"), header.at("seed"), header.at("expected")
    name = "jsonl" if tool.value is None else tool.at("name").name(253)
    version = None if tool.value is None else tool.at("version").optional_name()
    by_measure = RecordKind.SCORES if found.measure == "score" else RecordKind.SAMPLES
    return Reading(
        tool=Tool(name=name, version=version),
        kind=options.kind or by_measure,
        rows=tuple(found.rows),
        expected=len(found.rows) if expected.value is None else expected.count(),
        created_at=header.at("createdAt").moment() or found.newest,
        revision=_revision(header.at("revision"), options.revision),
        judge=found.judge,
        seed=None if seed.value is None else seed.count(),
    )


def _revision(part: Part, wanted: str | None) -> Revision | None:
    if part.value is None:
        if wanted is not None:
            raise ImportProblem(
                f"The file names no commit, so it can't be of {wanted}: write a header with the revision.",
                part.where,
            )
        return None
    commit, dirty = part.at("commit").name(), part.at("dirty")
    revision = Revision(commit=commit, dirty=None if dirty.value is None else dirty.flag())
    if wanted is not None and not same_commit(commit, wanted):
        raise ImportProblem(
            f"The file is of commit {shown(commit)}, not of {wanted}: evaluate that one.", part.where
        )
    if wanted is not None and revision.dirty is not False:
        raise ImportProblem(f"The file does not say that the work tree was clean at {wanted}.", part.where)
    return revision


def _add(found: Found, part: Part, options: Options) -> None:
    item = _key(part.at("item_id"))
    judge = _judge(part.at("judge"))
    if judge is not None and found.judge not in (None, judge):
        raise ImportProblem(
            "Another judge gave this verdict than those before: one file is of one judge in one version.",
            part.where,
        )
    found.judge = found.judge or judge
    moment = part.at("ts").moment()
    if moment is not None and (found.newest is None or moment > found.newest):
        found.newest = moment
    found.rows.append(Row(item, _cluster(part, item, options.cluster_by), _value(found, part), part.where))


def _value(found: Found, part: Part) -> float | None:
    measures = [key for key in ("pass", "score") if part.at(key).value is not None]
    status = part.at("status")
    if status.value is not None and status.value not in list(Status):
        raise ImportProblem(f"{shown(status.value)} is none of {', '.join(Status)}.", status.where)
    if status.value in (Status.ERROR, Status.SKIPPED):
        return None
    if len(measures) != 1:
        raise ImportProblem(
            "A line has either pass or score; an item without a verdict has the status error or skipped.",
            part.where,
        )
    if found.measure not in (None, measures[0]):
        raise ImportProblem(
            f"It has {measures[0]} where lines before have {found.measure}: keep to one.", part.where
        )
    found.measure = measures[0]
    return float(part.at("pass").flag()) if measures[0] == "pass" else part.at("score").share()


def _cluster(part: Part, item: str, key: str | None) -> str:
    if key is not None and part.at(key).value is None:
        raise ImportProblem(f"It has no {shown(key)} to cluster by.", part.where)
    shared: Any = part.at(key or "cluster").value
    return item if shared is None else cluster_key(shared)


def _key(part: Part) -> str:
    if isinstance(part.value, bool) or not isinstance(part.value, str | int) or part.value == "":
        raise ImportProblem("An item has an item_id: a string or a whole number.", part.where)
    return cluster_key(part.value)


def _judge(part: Part) -> Judge | None:
    if part.value is None:
        return None
    name, version, fingerprint = (part.at(key) for key in ("id", "version", "fingerprint"))
    return Judge(id=name.name(), version=version.optional_name(), fingerprint=fingerprint.optional_name())
