"""The door of the package: a file's bytes, its format, and the record of it."""

import json
from typing import Final

from pydantic import ValidationError

from gatewright_analysis.ledger.canonical import digest_of_bytes
from gatewright_analysis.results import inspect, jsonl, promptfoo
from gatewright_analysis.results.options import Format, Options, refuse_unused
from gatewright_analysis.results.problem import ImportProblem
from gatewright_analysis.results.reading import bounded, decoded, parsed
from gatewright_analysis.results.record import EvidenceRecord, Source, Subject, first_error
from gatewright_analysis.results.tally import Reading, paired, record

_READERS: Final = {
    Format.PROMPTFOO: promptfoo.read,
    Format.INSPECT: inspect.read,
    Format.JSONL: jsonl.read,
}
_LONGEST_LINE: Final = 1024 * 1024
"""Of what may be the first item of JSON lines, when nobody says what the format is."""
_NO_SUBJECT: Final = Subject()
_ALL: Final = Options()


def import_file(
    data: bytes,
    name: str,
    *,
    suite: str,
    form: Format | None = None,
    options: Options = _ALL,
    subject: Subject = _NO_SUBJECT,
) -> EvidenceRecord:
    """The record of one file. `name` is shown, without its folders; `form` None: told by the content."""
    reading, source = _read(data, name, form, options)
    return record(suite, reading, source, subject)


def import_pair(
    data: bytes,
    name: str,
    other_data: bytes,
    other_name: str,
    *,
    suite: str,
    form: Format | None = None,
    options: Options = _ALL,
    subject: Subject = _NO_SUBJECT,
) -> EvidenceRecord:
    """The first file against the second, item by item. `options.revision` is that of the first."""
    reading, source = _read(data, name, form, options)
    others = Options(
        kind=options.kind,
        provider=options.provider,
        prompt=options.prompt,
        metric=options.metric,
        scorer=options.scorer,
        cluster_by=options.cluster_by,
    )
    try:
        other, other_source = _read(other_data, other_name, form, others)
    except ImportProblem as problem:
        raise ImportProblem(
            problem.sentence, f"{other_name}: {problem.where}" if problem.where else other_name
        ) from problem
    return paired(suite, reading, other, source, other_source, subject)


def detect(data: bytes) -> Format:
    """The format by what stands in the file. Raises ImportProblem when it is none of those known."""
    if data.startswith(inspect.ZIP_MAGIC):
        return Format.INSPECT
    # A whole JSON document, or JSON lines: those have a whole document in their first line already.
    first = data.lstrip().split(b"\n", 1)[0]
    try:
        line = json.loads(decoded(first)) if len(first) <= _LONGEST_LINE else None
    except (ValueError, RecursionError):
        line = None
    if isinstance(line, dict) and ("item_id" in line or "header" in line):
        return Format.JSONL
    content = parsed(data, "the file", nan=True).value
    keys = content.keys() if isinstance(content, dict) else set()
    if {"eval", "status"} <= keys:
        return Format.INSPECT
    if "results" in keys or "table" in keys:
        return Format.PROMPTFOO
    raise ImportProblem(
        f"The format can't be told from the content; say --format {', '.join(Format)}, or see "
        "docs/reference/evidence-files.md."
    )


def _read(data: bytes, name: str, form: Format | None, options: Options) -> tuple[Reading, Source]:
    bounded(data)
    chosen = detect(data) if form is None else form
    refuse_unused(chosen, options)
    return _READERS[chosen](data, options), _source(data, name)


def _source(data: bytes, name: str) -> Source:
    bare = name.replace("\\", "/").rstrip("/").rpartition("/")[2] or "file"
    try:
        return Source(name=bare[:253], digest=digest_of_bytes(data), bytes=len(data))
    except ValidationError as error:
        raise ImportProblem(f"The file's name can't be recorded: {first_error(error)}.") from error
