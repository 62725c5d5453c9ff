"""The panel on a terminal."""

from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from devcluster.demo.look import CANARY, STABLE, Look
from devcluster.demo.view import arm, share

_BAR = 50
_COLOURS = {
    "Held": "yellow",
    "RollingBack": "red",
    "RolledBack": "red",
    "Restoring": "red",
    "Baking": "green",
    "Promoting": "green",
}


class PanelView:
    """Keeps one panel below everything that was said."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._live = Live(Group(), console=self._console, auto_refresh=False, transient=True)
        self._title = ""

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def say(self, text: str = "") -> None:
        self._console.print(Text(text))

    def quote(self, text: str) -> None:
        # A table that is too wide stays a table: its last column is cut.
        self._console.print(Text(f"{text.rstrip()}\n", no_wrap=True, overflow="ellipsis"))

    def title(self, text: str) -> None:
        self._title = text
        self._console.print()
        self._console.rule(Text(text, style="bold"), align="left")

    def show(self, look: Look) -> None:
        self._live.update(panel(self._title, look), refresh=True)

    def clear(self) -> None:
        self._live.update(Group(), refresh=True)


def panel(title: str, look: Look) -> RenderableType:
    """Step, weight, each check's estimate against bound and threshold, what the gateway counts, the message."""
    colour = _COLOURS.get(look.phase, "cyan")
    head = Text.assemble((look.phase, f"bold {colour}"), f"  {look.step}  {look.seconds:.0f} s")
    return Panel(
        Group(head, _weight(look), Text(), _checks(look), Text(), _gateway(look), Text(), Text(look.message)),
        title=Text(title),
        title_align="left",
        border_style=colour,
    )


def _weight(look: Look) -> Text:
    actual = round(look.actual * _BAR / 100)
    wanted = max(round(look.desired * _BAR / 100) - actual, 0)
    return Text.assemble(
        ("canary ", "dim"),
        ("█" * actual, "magenta"),
        ("▒" * wanted, "magenta"),
        ("░" * (_BAR - actual - wanted), "dim"),
        (f" {look.actual} % of the traffic, {look.desired} % wanted", ""),
    )


def _checks(look: Look) -> RenderableType:
    if not look.checks:
        return Text("no numbers of a gate now", style="dim")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("check", "good", "lower bound", "must reach", "upper bound", "n"):
        table.add_column(column, justify="left" if column == "check" else "right")
    for check in look.checks:
        proven = check.lower_bound >= check.threshold
        breached = check.upper_bound < check.threshold
        table.add_row(
            check.check,
            share(check.good_ratio),
            Text(share(check.lower_bound), style="green" if proven else "red" if breached else "yellow"),
            share(check.threshold),
            share(check.upper_bound),
            str(check.samples),
        )
    return table


def _gateway(look: Look) -> Text:
    return Text.assemble(
        ("gateway  ", "dim"),
        f"stable {arm(look.arms[STABLE])}\n",
        ("         ", "dim"),
        f"canary {arm(look.arms[CANARY])}\n",
        ("users    ", "dim"),
        f"{look.requests} requests so far, {look.lost} lost",
    )
