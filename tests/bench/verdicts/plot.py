"""The page's picture, as SVG written by hand: the same bytes for the same figures, and no library for it.

Left: false ROLLBACK by traffic. Right: how fast a version at twice the limit is found at the same rate of it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import numpy as np

from gatewright_analysis.statistics.wilson import wilson_interval
from tests.bench.verdicts.comparison import NAMES, OURS, Found, having
from tests.bench.verdicts.rules import NEVER, Call
from tests.bench.verdicts.traffic import CANDIDATES, EVERYDAY, KINDS, MAX_DURATION, Truth

COLOURS: Final = ("#0b6e4f", "#c1121f", "#e36414", "#d9a520", "#4361ee", "#7b2cbf", "#6c757d")
WIDTH, HEIGHT, TOP = 1120, 560, 40
STEP_SECONDS: Final = 15


@dataclass(frozen=True, slots=True)
class Panel:
    """A rectangle of the picture and what its edges stand for."""

    left: float
    right: float
    bottom: float
    most_x: float
    most_y: float

    def x(self, value: float) -> float:
        return self.left + (self.right - self.left) * value / self.most_x

    def y(self, value: float) -> float:
        return self.bottom - (self.bottom - TOP) * value / self.most_y


def draw_plot(found: Found, path: Path) -> None:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        *_false_rollbacks(found, Panel(150, 560, 470, 100, len(KINDS))),
        *_found_by_second(found, Panel(640, 1085, 470, MAX_DURATION, 100)),
        *_legend(),
        "</svg>",
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def _false_rollbacks(found: Found, panel: Panel) -> Iterable[str]:
    yield _text(150, 22, "Healthy versions rolled back, usual settings", weight="bold")
    for value in (0, 20, 40, 60, 80, 100):
        yield _line(panel.x(value), TOP, panel.x(value), panel.bottom, "#ddd")
        yield _text(panel.x(value), panel.bottom + 18, f"{value} %", anchor="middle")
    for row, kind in enumerate(KINDS):
        middle = panel.y(len(KINDS) - row - 0.5)
        yield _text(panel.left - 8, middle + 4, kind.name, anchor="end")
        if row:
            yield _line(panel.left, panel.y(len(KINDS) - row), panel.right, panel.y(len(KINDS) - row), "#eee")
        for index, name in enumerate(NAMES):
            rate = found.rate(name, Call.ROLLBACK, [kind], having(Truth.HEALTHY))
            low, high = (100 * side for side in wilson_interval(rate.count, rate.n))
            at = middle + 5 * (index - 3)
            yield _line(panel.x(low), at, panel.x(high), at, COLOURS[index])
            yield _dot(panel.x(100 * rate.share), at, index)


def _found_by_second(found: Found, panel: Panel) -> Iterable[str]:
    yield _text(
        panel.left, 22, "At our rate of false ROLLBACK: a version at twice the limit is found", weight="bold"
    )
    for value in (0, 20, 40, 60, 80, 100):
        yield _line(panel.left, panel.y(value), panel.right, panel.y(value), "#ddd")
        yield _text(panel.left - 8, panel.y(value) + 4, f"{value} %", anchor="end")
    for value in range(0, MAX_DURATION + 1, 240):
        yield _text(panel.x(value), panel.bottom + 18, f"{value} s", anchor="middle")
    worse = next(one for one in CANDIDATES if one.name == "twice the limit")
    for index, name in reversed(list(enumerate(NAMES))):
        answers = [found.tuned_answers[kind.name, worse.name].get(name) for kind in EVERYDAY]
        known = [answer for answer in answers if answer is not None]
        if not known:
            continue
        times = np.concatenate([np.where(one.calls == Call.ROLLBACK, one.seconds, NEVER) for one in known])
        points: list[tuple[float, float]] = []
        height = 0.0
        for second in range(0, MAX_DURATION + 1, STEP_SECONDS):
            share = 100 * float(np.mean(times <= second))
            points += [(second, height), (second, share)]
            height = share
        yield _path([(panel.x(x), panel.y(y)) for x, y in points], COLOURS[index], 3 if name == OURS else 1.5)


def _legend() -> Iterable[str]:
    for index, name in enumerate(NAMES):
        x, y = 100 + 255 * (index % 4), HEIGHT - 44 + 22 * (index // 4)
        yield _dot(x, y, index)
        yield _text(x + 12, y + 4, name)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _dot(x: float, y: float, index: int) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{4.5 if index == 0 else 3.5}" fill="{COLOURS[index]}"/>'


def _path(points: Sequence[tuple[float, float]], colour: str, width: float) -> str:
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _text(x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'
    )
