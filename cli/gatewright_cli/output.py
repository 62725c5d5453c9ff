"""How things look on a terminal: colour, tables, ages, shares. Pure but for `Style.of` and the printing."""

import json
import math
import os
import re
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import IO, Any

WIDTH = 100
"""Columns that prose is folded to."""

_CODES = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}
_HALF = "\0"
"""Stands for the second column of a wide character; none in cleaned text."""
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Style:
    """Colours where they help: on a terminal, unless NO_COLOR is set."""

    colour: bool = False

    @classmethod
    def of(cls, stream: IO[str]) -> "Style":
        plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        return cls(colour=stream.isatty() and not plain)

    def paint(self, text: str, *looks: str) -> str:
        codes = ";".join(_CODES[look] for look in looks if look)
        return f"\x1b[{codes}m{text}\x1b[0m" if self.colour and codes and text else text


PLAIN = Style()


def width(text: str) -> int:
    """Columns of `text`, escape sequences aside; Chinese characters and emoji take two."""
    plain = _ANSI.sub("", text)
    return len(plain) if plain.isascii() else len(plain) + sum(map(_wide, plain))


def _wide(char: str) -> bool:
    return unicodedata.east_asian_width(char) in ("W", "F")


def clean(text: object) -> str:
    """One line without control characters: what others wrote must not steer a reviewer's terminal."""
    return "".join(char if char.isprintable() else " " for char in str(text)).strip()


def table(
    rows: Sequence[Sequence[str]], indent: str = "", gap: int = 2, columns: int | None = None
) -> list[str]:
    """Lines of a left-aligned table; the last column is not padded, and cut where it would pass `columns`."""
    if not rows:
        return []
    padded = range(len(rows[0]) - 1)
    widths = [max(width(row[column]) for row in rows) for column in padded]
    left = len(indent) + sum(widths) + gap * len(widths)
    return [
        indent
        + "".join(row[column] + " " * (widths[column] - width(row[column]) + gap) for column in padded)
        # A painted cell is a title, which is short; cutting it could cut an escape sequence.
        + (row[-1] if columns is None or "\x1b" in row[-1] else shorten(row[-1], columns - left))
        for row in rows
    ]


def fold(text: str, indent: str = "  ", lines: int | None = None, columns: int = WIDTH) -> list[str]:
    """Prose folded to `columns`; past `lines` it ends with an ellipsis."""
    # textwrap counts characters, so a wide one counts as two of them; a cut between the two may cost one column.
    said = clean(text)
    doubled = "".join(f"{char}{_HALF}" if _wide(char) else char for char in said)
    folded = textwrap.wrap(
        doubled,
        columns - (doubled != said),
        initial_indent=indent,
        subsequent_indent=indent,
        max_lines=lines,
        placeholder=" …",
        break_on_hyphens=False,
    )
    return [line.replace(_HALF, "") for line in folded]


def shorten(text: str, columns: int) -> str:
    text = clean(text)
    if width(text) <= columns:
        return text
    kept = text[: max(columns - 1, 0)]
    while width(kept) > columns - 1 and kept:
        kept = kept[:-1]
    return kept + "…"


def parse_time(text: object) -> datetime | None:
    """RFC 3339 → aware datetime in UTC; None for anything else."""
    if not isinstance(text, str) or not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def span(length: timedelta) -> str:
    """The two largest units: 90 s → `1m30s`, 26 h → `1d2h`; negative lengths as 0s."""
    seconds = max(int(length.total_seconds()), 0)
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count or parts:
            parts.append(f"{count}{unit}")
        if len(parts) == 2:
            break
    return "".join(part for part in parts if not part.startswith("0")) or "0s"


def ago(text: object, now: datetime) -> str:
    moment = parse_time(text)
    return "at an unknown time" if moment is None else f"{span(now - moment)} ago"


def until(text: object, now: datetime) -> str:
    """`in 5m`, or `5m ago` once it has passed."""
    moment = parse_time(text)
    if moment is None:
        return "without end"
    return f"in {span(moment - now)}" if moment > now else f"{span(now - moment)} ago"


def share(ratio: object, other: float | None = None) -> str:
    """0.99712 → `99.71 %`; – for none. With `other`, up to four digits to tell the two apart."""
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not math.isfinite(ratio):
        return "–"
    text = f"{100 * ratio:.2f}"
    for digits in (3, 4):
        if other is None or ratio == other or text != f"{100 * other:.{digits - 1}f}":
            break
        text = f"{100 * ratio:.{digits}f}"
    whole, _, decimals = text.partition(".")
    if not decimals.strip("0"):
        text = whole
    return f"{text} %"


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_lines(lines: Iterable[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
