"""One check over its looks, as a picture and as the same numbers in rows. Pure.

The picture carries classes and no colours: the style sheet gives them, for light and for dark. Lines differ by their
dashes too, and the numbers stand beside it: nothing is told by colour or by shape alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from html import escape
from typing import Final

from gatewright_analysis.backtest.fold import Look
from gatewright_cli.output import share, span

WIDTH: Final = 360
"""Units of the picture's width: a phone's, so that its letters stay legible there."""
HEIGHT: Final = 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 10, 12, 30
_ROWS: Final = 24
_POINTS: Final = 400


@dataclass(frozen=True, slots=True)
class Chart:
    """`svg` is markup of our own making; everything else is text."""

    svg: str
    described: str
    rows: tuple[tuple[str, ...], ...]
    left_out: int
    """Looks that have no row."""
    gauge: bool
    """One curve of readings; no share, no bounds."""


def chart(check_id: str, looks: Sequence[Look]) -> Chart:
    """Needs at least one look."""
    gauge = looks[-1].value is not None
    said = _described(looks, gauge)
    shown = _thinned(looks, _ROWS)
    rows = tuple(_row(look, gauge) for look in shown)
    drawn = _thinned(looks, _POINTS)
    return Chart(_svg(check_id, said, drawn, gauge), said, rows, len(looks) - len(shown), gauge)


def _described(looks: Sequence[Look], gauge: bool) -> str:
    last = looks[-1]
    count = f"{len(looks)} looks" if len(looks) > 1 else "1 look"
    over = f"{count} in {span(timedelta(seconds=last.t))}"
    if gauge:
        values = [look.value for look in looks if look.value is not None]
        return f"{over}: readings from {min(values):g} to {max(values):g}, the last {last.value:g}."
    proven = (
        f"proven is {share(last.ci_lower, last.threshold)} to {share(last.ci_upper, last.threshold)}"
        if last.ci_lower is not None or last.ci_upper is not None
        else "nothing is proven"
    )
    return (
        f"{over}, {last.n} samples at the last: good are {share(last.score, last.threshold)}, {proven}, "
        f"the threshold is {share(last.threshold)}."
    )


def _row(look: Look, gauge: bool) -> tuple[str, ...]:
    at = span(timedelta(seconds=look.t))
    if gauge:
        return (at, "–" if look.value is None else f"{look.value:g}", look.status.value)
    ratios = (look.score, look.ci_lower, look.ci_upper)
    return (at, str(look.n), *(share(ratio, look.threshold) for ratio in ratios), look.status.value)


def _svg(check_id: str, said: str, looks: Sequence[Look], gauge: bool) -> str:
    series = [[look.value for look in looks]] if gauge else _ratios(looks)
    known = [y for ys in series for y in ys if y is not None and math.isfinite(y)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 0.5
    low, high = low - margin, high + margin
    if not gauge:
        low, high = max(low, 0.0), min(high, 1.0)
    end = max(looks[-1].t, 1e-9)
    wide, tall = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

    def x(second: float) -> float:
        return _LEFT + wide * max(second, 0.0) / end

    def y(value: float) -> float:
        return _TOP + tall * (high - value) / (high - low)

    def line(name: str, ys: Sequence[float | None]) -> str:
        known = [
            (look.t, value)
            for look, value in zip(looks, ys, strict=True)
            if value is not None and math.isfinite(value)
        ]
        if len(known) == 1:
            return f'<circle class="{name}" cx="{x(known[0][0]):.1f}" cy="{y(known[0][1]):.1f}" r="3"/>'
        return f'<polyline class="{name}" points="{" ".join(f"{x(t):.1f},{y(v):.1f}" for t, v in known)}"/>'

    identity = f"plot-{check_id}"
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{escape(identity)}-t" aria-describedby="{escape(identity)}-d">',
        f'<title id="{escape(identity)}-t">{escape(check_id)}: estimate against bounds over the looks</title>',
        f'<desc id="{escape(identity)}-d">{escape(said)}</desc>',
        f'<rect class="frame" x="{_LEFT}" y="{_TOP}" width="{wide}" height="{tall}"/>',
    ]
    for k in range(4):
        value, second = low + k * (high - low) / 3, k * end / 3
        label = f"{value:.4g}" if gauge else f"{100 * value:.4g} %"
        anchor = ("start", "middle", "middle", "end")[k]
        parts.append(f'<text x="{_LEFT - 5}" y="{y(value) + 4:.1f}" text-anchor="end">{label}</text>')
        when = span(timedelta(seconds=second))
        parts.append(f'<text x="{x(second):.1f}" y="{HEIGHT - 10}" text-anchor="{anchor}">{when}</text>')
    if gauge:
        parts.append(line("estimate", series[0]))
    else:
        lower, estimate, upper, threshold = series
        both = [
            (look.t, a, b)
            for look, a, b in zip(looks, lower, upper, strict=True)
            if a is not None and b is not None
        ]
        outline = [f"{x(t):.1f},{y(b):.1f}" for t, _, b in both] + [
            f"{x(t):.1f},{y(a):.1f}" for t, a, _ in reversed(both)
        ]
        if len(both) > 1:
            parts.append(f'<polygon class="band" points="{" ".join(outline)}"/>')
        parts += [
            line("bound", lower),
            line("bound", upper),
            line("threshold", threshold),
            line("estimate", estimate),
        ]
    return "".join([*parts, "</svg>"])


def _ratios(looks: Sequence[Look]) -> list[list[float | None]]:
    return [
        [look.ci_lower for look in looks],
        [look.score for look in looks],
        [look.ci_upper for look in looks],
        [look.threshold for look in looks],
    ]


def _thinned(looks: Sequence[Look], most: int) -> Sequence[Look]:
    """Evenly, the last always with them."""
    step = -(-len(looks) // most)
    return looks if step <= 1 else [*reversed(looks[::-1][::step])]
