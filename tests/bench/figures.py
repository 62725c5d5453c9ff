"""What a benchmark found: figures with their spread, as Markdown for people and as JSON for the report.

    Figure("from decision to restoring write", "s", (0.11, 0.09, 0.13), goal="≤ 0.3")

Every script `bench_*.py` has a function `measure(runs, say)` that returns a `Result`, and ends with
`raise SystemExit(main(measure, runs=5))`.
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

Say = Callable[[str], None]
"""Takes a line about how far a benchmark is."""


@dataclass(frozen=True)
class Figure:
    """One quantity, measured several times; `values` are in `unit`, and `goal` is what it is meant to be."""

    name: str
    unit: str
    values: tuple[float, ...]
    goal: str = ""
    digits: int = 2

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError(f"{self.name}: nothing was measured")

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def row(self) -> tuple[str, ...]:
        """Name, unit, median, least, most, number of measurements, goal."""
        numbers = (self.median, min(self.values), max(self.values))
        written = (f"{number:.{self.digits}f}" for number in numbers)
        return (self.name, self.unit, *written, str(len(self.values)), self.goal)


@dataclass(frozen=True)
class Table:
    """Anything else that is told in columns."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Result:
    """What one benchmark has to say: how it was measured, its figures, and further tables."""

    title: str
    text: str
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...] = ()
    load: float = 0.0
    """The machine's load average just before, so that a reader sees whether it had other work."""

    def markdown(self) -> str:
        """A section of a page."""
        parts = [f"## {self.title}", self.text, figures_table(self.figures)]
        for table in self.tables:
            parts += [table.caption, markdown_table(table.header, table.rows)]
        return "\n\n".join(parts) + "\n"

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw: dict[str, Any] = json.loads(text)
        return cls(
            title=raw["title"],
            text=raw["text"],
            load=raw["load"],
            figures=tuple(Figure(**{**one, "values": tuple(one["values"])}) for one in raw["figures"]),
            tables=tuple(
                Table(one["caption"], tuple(one["header"]), tuple(tuple(row) for row in one["rows"]))
                for one in raw["tables"]
            ),
        )


def figures_table(figures: Sequence[Figure]) -> str:
    """Median, least, most and number of measurements; a column for goals where there are any."""
    header = ("measured", "unit", "median", "min", "max", "n", "goal")
    columns = len(header) if any(figure.goal for figure in figures) else len(header) - 1
    return markdown_table(header[:columns], [figure.row()[:columns] for figure in figures])


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns are padded, so that it reads well in a terminal too."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    return "\n".join([line(header), line(["-" * width for width in widths]), *map(line, rows)])


def main(measure: Callable[[int, Say], Result], *, runs: int) -> int:
    """The command line of a benchmark: measures, prints Markdown, and writes JSON where it is told to."""
    parser = argparse.ArgumentParser(description=(measure.__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=runs, help=f"how often to measure (default {runs})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every single value there too")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    load = os.getloadavg()[0]
    result = measure(options.runs, lambda line: print(line, file=sys.stderr, flush=True))
    result = replace(result, load=load)
    if options.json is not None:
        options.json.write_text(result.as_json())
    print(result.markdown())
    return 0
