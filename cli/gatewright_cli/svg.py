"""Line charts as SVG text, without a library: what a backtest draws."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

_Scale = Callable[[float], float]
"""From data to pixels."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 150, 34, 30
PANEL_WIDTH, PANEL_HEIGHT = 620, 230


@dataclass(frozen=True)
class Line:
    """One curve; y is None where there is nothing. `low` beside `ys` makes a band instead."""

    label: str
    colour: str
    ys: Sequence[float | None]
    low: Sequence[float | None] | None = None
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """Curves over the same seconds; `mark` is a moment to point out."""

    title: str
    seconds: Sequence[float]
    lines: Sequence[Line]
    mark: float


def drawing(title: str, rows: Sequence[Sequence[Panel]]) -> str:
    """A whole SVG document, the panels in rows."""
    columns = max((len(row) for row in rows), default=1)
    wide, high = columns * PANEL_WIDTH, 40 + max(1, len(rows)) * PANEL_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{wide}" height="{high}" fill="white"/>',
        f'<text x="{wide / 2:g}" y="24" text-anchor="middle" font-size="15">{escape(title)}</text>',
    ]
    if not rows:
        parts.append(f'<text x="{wide / 2:g}" y="{high / 2:g}" text-anchor="middle">no evidence</text>')
    for number, row in enumerate(rows):
        for column, panel in enumerate(row):
            at = f"translate({column * PANEL_WIDTH} {40 + number * PANEL_HEIGHT})"
            parts += [f'<g transform="{at}">', *_panel(panel), "</g>"]
    return "\n".join((*parts, "</svg>", ""))


def _panel(panel: Panel) -> list[str]:
    known = [
        y
        for line in panel.lines
        for ys in (line.ys, line.low or ())
        for y in ys
        if y is not None and math.isfinite(y)
    ]
    bottom, top = (min(known), max(known)) if known else (0.0, 1.0)
    margin = 0.05 * (top - bottom) or 0.05 * abs(top) or 0.5
    bottom, top = bottom - margin, top + margin
    start, end = 0.0, max(*panel.seconds, panel.mark, 1e-9)
    width, height = PANEL_WIDTH - _LEFT - _RIGHT, PANEL_HEIGHT - _TOP - _BOTTOM

    def x(second: float) -> float:
        return _LEFT + width * (second - start) / (end - start)

    def y(value: float) -> float:
        return _TOP + height * (top - min(max(value, bottom), top)) / (top - bottom)

    parts = [
        f'<text x="{_LEFT}" y="{_TOP - 10}" font-weight="bold">{escape(panel.title)}</text>',
        f'<rect x="{_LEFT}" y="{_TOP}" width="{width}" height="{height}" fill="none" stroke="#bbb"/>',
    ]
    for k in range(5):
        value = bottom + k * (top - bottom) / 4
        parts.append(f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.4g}</text>')
        second = start + k * (end - start) / 4
        parts.append(
            f'<text x="{x(second):.1f}" y="{_TOP + height + 16}" text-anchor="middle">{second:.4g} s</text>'
        )
    for number, line in enumerate(panel.lines):
        parts += _curve(line, panel.seconds, x, y)
        where = _TOP + 14 + 18 * number
        parts.append(
            f'<text x="{_LEFT + width + 8}" y="{where}" fill="{line.colour}">{escape(line.label)}</text>'
        )
    parts.append(
        f'<path d="M{x(panel.mark):.1f} {_TOP}v{height}" stroke="#555" stroke-dasharray="2 3" fill="none"/>'
    )
    return parts


def _curve(line: Line, seconds: Sequence[float], x: _Scale, y: _Scale) -> list[str]:
    if line.low is not None:
        known = [
            (second, low, high)
            for second, low, high in zip(seconds, line.low, line.ys, strict=True)
            if low is not None and high is not None
        ]
        there = [f"{x(second):.1f},{y(high):.1f}" for second, _, high in known]
        back = [f"{x(second):.1f},{y(low):.1f}" for second, low, _ in reversed(known)]
        return [f'<polygon points="{" ".join(there + back)}" fill="{line.colour}" fill-opacity="0.2"/>']
    points = [
        f"{x(second):.1f},{y(value):.1f}"
        for second, value in zip(seconds, line.ys, strict=True)
        if value is not None and math.isfinite(value)
    ]
    dashes = ' stroke-dasharray="6 4"' if line.dashed else ""
    return [f'<polyline points="{" ".join(points)}" fill="none" stroke="{line.colour}"{dashes}/>']
