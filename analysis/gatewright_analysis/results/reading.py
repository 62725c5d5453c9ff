"""Bytes that others wrote → JSON values whose types are asked for one by one, each with its place in the file."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NoReturn, TypeGuard

from gatewright_analysis.results.problem import ImportProblem

MAX_FILE_BYTES: Final = 256 * 1024 * 1024
"""Of one result file, and of one member of an archive."""
MAX_VALUES: Final = 20_000_000
"""Of one JSON document. Many tiny values take sixty times their size in memory; evaluations are text for the most part."""
MAX_TEXT: Final = 1024
"""Characters of what is taken over into a record: names, versions."""
_SAFE_INTEGER: Final = 2**53 - 1
_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Part:
    """A JSON value and where it stands. Each method gives the value as the type asked for, or raises ImportProblem."""

    value: Any
    where: str

    def at(self, key: str) -> "Part":
        """The value under `key` of an object; null when it isn't there."""
        return Part(self.mapping().get(key), f"{self.where}.{key}")

    def mapping(self) -> dict[str, Any]:
        return self.value if isinstance(self.value, dict) else self._no("an object")

    def elements(self) -> Iterator["Part"]:
        """The elements of a list, counted from 0 as in the path."""
        values = self.value if isinstance(self.value, list) else self._no("a list")
        return (Part(value, f"{self.where}[{number}]") for number, value in enumerate(values))

    def text(self) -> str:
        return self.value if isinstance(self.value, str) else self._no("a string")

    def name(self, limit: int = MAX_TEXT) -> str:
        """A string of 1 to `limit` characters."""
        text = self.text()
        return text if is_name(text, limit) else self._no(f"a string of 1 to {limit} characters")

    def optional_name(self) -> str | None:
        return None if self.value is None else self.name()

    def flag(self) -> bool:
        return self.value if isinstance(self.value, bool) else self._no("true or false")

    def count(self) -> int:
        """A whole number of at least 0 that JSON carries exactly."""
        value = self.value
        whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _SAFE_INTEGER
        return int(value) if whole else self._no("a whole number of at least 0")

    def number(self) -> float:
        """A finite number that a double holds."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _SAFE_INTEGER:
            self._no("a number")
        return float(value)

    def share(self) -> float:
        """A score: a number from 0 to 1."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            self._no("a score from 0 to 1: scale it in the evaluation")
        return float(value)

    def moment(self) -> datetime | None:
        """RFC 3339 → aware datetime in UTC; null stays None."""
        if self.value is None:
            return None
        try:
            moment = datetime.fromisoformat(self.text())
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, OverflowError):
            self._no("a time as in 2026-01-31T12:00:00Z")

    def _no(self, wanted: str) -> NoReturn:
        if self.value is None:
            raise ImportProblem(f"it is missing; {wanted} is wanted here.", self.where)
        raise ImportProblem(f"{shown(self.value)} stands where {wanted} is wanted.", self.where)


def is_name(value: object, limit: int = MAX_TEXT) -> TypeGuard[str]:
    """A string of 1 to `limit` characters that UTF-8 can carry: JSON may spell half a character."""
    if not isinstance(value, str) or not 0 < len(value) <= limit:
        return False
    return not any("\ud800" <= char <= "\udfff" for char in value)


def shown(value: object) -> str:
    """The beginning of a value that others wrote, on one line."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        # Python writes no integer of more than 4,300 digits.
        text = f"a {type(value).__name__}"
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def bounded(data: bytes) -> None:
    """Raises ImportProblem for a file beyond the bound, and for an empty one."""
    if len(data) > MAX_FILE_BYTES:
        raise ImportProblem(
            f"The file has {len(data) // 2**20} MiB; up to {MAX_FILE_BYTES // 2**20} MiB are read. "
            "Sample the data set, or leave transcripts out of the file."
        )
    if not data.strip():
        raise ImportProblem("The file is empty: the evaluation wrote nothing.")


def decoded(data: bytes, where: str = "") -> str:
    """UTF-8, with or without a byte order mark."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ImportProblem(
            f"Byte {error.start} is no UTF-8: write the file as UTF-8 (PowerShell's `>` writes UTF-16).",
            where,
        ) from error


def parsed(data: bytes, where: str, *, nan: bool = False) -> Part:
    """The one JSON value of `data`. `nan`: NaN may stand for a number, as Inspect writes it.

    A key that stands twice in one object is refused: readers differ in which one they take.
    """
    # At least as many as there are values, since strings have commas and brackets too.
    if len(data) > MAX_VALUES and sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise ImportProblem(
            f"It has more than {MAX_VALUES:,} values: sample the data set, or leave token probabilities out.",
            where,
        )
    try:
        value = json.loads(
            decoded(data, where),
            object_pairs_hook=_object,
            parse_constant=_nan if nan else _constant,
            parse_float=_float,
        )
    except RecursionError as error:
        raise ImportProblem("It is nested too deeply to be a result file.", where) from error
    except ImportProblem as problem:
        raise ImportProblem(problem.sentence, problem.where or where) from problem
    except json.JSONDecodeError as error:
        place = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        raise ImportProblem(
            f"It is no JSON ({error.msg}): the file may have been cut off.", f"{where}, {place}"
        ) from error
    except ValueError as error:
        # int() takes at most 4,300 digits.
        raise ImportProblem("It holds a number that is too long to be one.", where) from error
    return Part(value, where)


def same_commit(logged: str, wanted: str) -> bool:
    """Two spellings of one commit, of which either may be shortened to 7 digits or more."""
    ours, theirs = logged.lower(), wanted.lower()
    if min(len(ours), len(theirs)) < 7 or not re.fullmatch(r"[0-9a-f]+", ours + theirs):
        return False
    return ours.startswith(theirs) or theirs.startswith(ours)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ImportProblem(f"The key {shown(twice)} stands twice in one object.")
    return result


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ImportProblem(f"{shown(text)} is a number beyond what a double holds.")
    return value


def _nan(name: str) -> float:
    return math.nan if name == "NaN" else _constant(name)


def _constant(name: str) -> NoReturn:
    raise ImportProblem(f"{name} is no JSON number.")
