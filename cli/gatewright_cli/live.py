"""The changing screen of `status --watch`. Alone in importing rich: it takes half as long as a `status`."""

from collections.abc import Iterator
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
    finding = Finding(None, "")
    console = Console()
    style = Style(colour=not console.no_color)
    with Live(console=console, auto_refresh=False) as live:
        for view, finding in looks:
            lines = [finding.sentence] if view is None else render(view, datetime.now(UTC), style, repeated)
            live.update(Text.from_ansi("\n".join(lines)), refresh=True)
    return finding
