"""The changing screens of `status --watch` and `get --watch`. Alone in importing rich: it takes half as long as a `status`."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from rich.console import Console
from rich.live import Live
from rich.text import Text

from gatewright_cli.output import Style
from gatewright_cli.report import render
from gatewright_cli.view import View
from gatewright_cli.wait import Finding


def screen(looks: Iterator[tuple[View | None, Finding]], repeated: str) -> Finding:
    """Show look after look in place; the last one stays. Returns what ended it."""
    ended = Finding(None, "")
    style = Style(colour=not Console().no_color)

    def frames() -> Iterator[list[str]]:
        nonlocal ended
        for view, ended in looks:
            yield [ended.sentence] if view is None else render(view, datetime.now(UTC), style, repeated)

    redraw(frames())
    return ended


def redraw(frames: Iterable[list[str]]) -> None:
    """Show one list of lines after the other in place; the last one stays."""
    with Live(console=Console(), auto_refresh=False) as live:
        for lines in frames:
            live.update(Text.from_ansi("\n".join(lines)), refresh=True)
