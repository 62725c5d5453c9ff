"""The pages say what is so: every `kubectl gate` command that they show is understood by the program."""

import re
import shlex
from pathlib import Path

import pytest

from gatewright_cli.flags import take
from gatewright_cli.parser import gate_parser

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("tutorial/*.md")),
    *sorted((ROOT / "docs").glob("how-to/*.md")),
]


def shown(page: Path) -> list[str]:
    """Commands in bash blocks and in code spans, without what follows them on the line."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    commands = [line.split("; echo")[0] for line in [*lines, *spans]]
    return [command for command in commands if re.match(r"kubectl gate \S+ ", command)]


COMMANDS = [(page.name, command) for page in PAGES for command in shown(page)]


def test_the_pages_show_commands() -> None:
    assert len(COMMANDS) > 10


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=[f"{page}: {line}" for page, line in COMMANDS])
def test_a_command_of_the_pages_is_understood(page: str, command: str) -> None:
    words = shlex.split(command, comments=True)
    _, rest = take(words[2:])
    parsed = gate_parser().parse_args(rest)
    assert parsed.command == rest[0]
