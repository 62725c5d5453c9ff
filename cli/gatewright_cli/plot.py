"""A backtest as a picture: estimate, bounds and threshold of each check over its looks, and its e-values.

SVG is written here. PNG needs matplotlib, which nothing else does: it comes with the extra `plot`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gatewright_analysis.backtest.fold import Backtest, Look
from gatewright_cli.errors import GateError, UsageError
from gatewright_cli.svg import Line, Panel, drawing

_MOST_POINTS = 5_000
"""Of one curve: a picture is a thousand pixels wide."""
_LOWEST_LOG_E = -10.0
"""Shown: lower ones only say that nothing speaks for it."""
_BLUE, _GREEN, _RED = "#1f4e79", "#2e7d32", "#b03a2e"


def check_name(file: str) -> None:
    """Raises UsageError for a name that no format belongs to, and where PNG can't be drawn: before anything is judged."""
    suffix = Path(file).suffix
    if suffix not in (".svg", ".png"):
        raise UsageError(f"--plot writes .svg or .png, not {file!r}.")
    if suffix == ".png":
        from importlib.util import find_spec

        if find_spec("matplotlib") is None:
            raise UsageError("A .png needs matplotlib: write an .svg, or `pip install 'gatewright[plot]'`.")


def draw(found: Backtest, file: str) -> None:
    """One row a check: ratios on the left, e-values on the right. Raises GateError when the file can't be written."""
    title, rows = panels(found)
    try:
        if Path(file).suffix == ".svg":
            Path(file).write_text(drawing(title, rows), encoding="utf-8")
        else:
            _figure(title, rows).savefig(file)
    except OSError as error:
        raise GateError(f"{file} can't be written: {error}.") from error


def panels(found: Backtest) -> tuple[str, list[list[Panel]]]:
    """The title, and what each panel shows."""
    looks: dict[str, list[Look]] = {}
    for look in found.looks:
        looks.setdefault(look.check, []).append(look)
    numbers = {check.id: check.statistics for check in found.checks}
    ended = found.ended
    rows = []
    for name, all_of_one in looks.items():
        own = _thinned(all_of_one)
        seconds = [look.t for look in own]
        if own[-1].value is not None:
            line = Line("value", _BLUE, [look.value for look in own])
            rows.append([Panel(name, seconds, [line], ended.at_seconds)])
            continue
        bounds = Line("bounds", _BLUE, [look.ci_upper for look in own], low=[look.ci_lower for look in own])
        ratios = [
            bounds,
            Line("good share", _BLUE, [look.score for look in own]),
            Line("threshold", _RED, [look.threshold for look in own], dashed=True),
        ]
        odds = [
            Line("ln E, pass", _GREEN, [_shown(look.log_e_pass) for look in own]),
            Line("ln E, breach", _RED, [_shown(look.log_e_fail) for look in own]),
        ]
        statistics = numbers.get(name)
        if statistics is not None and statistics.breach_threshold is not None:
            odds.append(Line("convicts", _RED, [statistics.breach_threshold] * len(own), dashed=True))
        rows.append(
            [
                Panel(name, seconds, ratios, ended.at_seconds),
                Panel("e-values", seconds, odds, ended.at_seconds),
            ]
        )
    return f"{ended.decision.value} after {ended.at_seconds:g} s ({ended.reason.value})", rows


def _figure(title: str, rows: Sequence[Sequence[Panel]]) -> Any:
    from matplotlib.figure import Figure

    columns = max((len(row) for row in rows), default=1)
    figure = Figure(figsize=(6.2 * columns, 1 + 2.6 * max(1, len(rows))), layout="constrained")
    figure.suptitle(title)
    if not rows:
        figure.text(0.5, 0.4, "no evidence", ha="center")
        return figure
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for row, shown in zip(axes, rows, strict=True):
        for axis in row[len(shown) :]:
            axis.set_axis_off()
        for axis, panel in zip(row, shown, strict=False):
            _draw_panel(axis, panel)
    return figure


def _draw_panel(axis: Any, panel: Panel) -> None:
    nan = float("nan")
    for line in panel.lines:
        ys = [nan if y is None else y for y in line.ys]
        if line.low is not None:
            low = [nan if y is None else y for y in line.low]
            axis.fill_between(panel.seconds, low, ys, color=line.colour, alpha=0.2, label=line.label)
        else:
            style = "--" if line.dashed else "-"
            axis.plot(panel.seconds, ys, style, color=line.colour, linewidth=1, label=line.label)
    axis.axvline(panel.mark, color="#555555", linestyle=":", linewidth=1)
    axis.set_title(panel.title, loc="left")
    axis.set_xlabel("seconds")
    axis.legend(fontsize="small")


def _shown(log_e: float | None) -> float | None:
    return None if log_e is None else max(log_e, _LOWEST_LOG_E)


def _thinned(looks: Sequence[Look]) -> Sequence[Look]:
    step = -(-len(looks) // _MOST_POINTS)
    return looks if step == 1 else [*looks[::step], looks[-1]]
