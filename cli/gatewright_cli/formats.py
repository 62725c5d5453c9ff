"""What `-o` makes of an answer: text for people, JSON or YAML for programs, names for the next command.

Which of them a command has is in its parser; a command asks for `Output.for_programs` and prints with `show`.
"""

import json
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from gatewright_analysis.names import GROUP
from gatewright_cli.output import print_json, print_lines


class Output(StrEnum):
    """A word after `-o`; TEXT when there is none."""

    TEXT = ""
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"
    JSONL = "jsonl"

    @property
    def for_programs(self) -> bool:
        """The whole answer as data."""
        return self in (Output.JSON, Output.YAML, Output.JSONL)


DATA = (Output.JSON, Output.YAML)
"""What every command has that answers with more than a sentence."""

EXPORTED = ("jsonl", "in-toto", "test-result", "svr")
"""Of `ledger export`, which has no text: entries as stored, or statements of one predicate type or of both."""

HELP: dict[str, str] = {
    Output.WIDE: "more columns",
    Output.NAME: "only names, for other commands",
    Output.JSON: "JSON for programs",
    Output.YAML: "the same as YAML",
    Output.JSONL: "JSON, one entry a line",
    "in-toto": "both kinds of in-toto statements",
    "test-result": "a statement for each verdict",
    "svr": "a statement for each PROMOTE",
}


def show(value: Any, output: Output) -> None:
    """Print data as JSON or YAML; a list as lines of JSON where they were asked for."""
    if output is Output.YAML:
        print(yaml_of(value), end="")
    elif output is Output.JSONL:
        print_lines(json.dumps(each, ensure_ascii=False) for each in value)
    else:
        print_json(value)


def show_names(kind: str, names: Iterable[str]) -> None:
    """As kubectl prints them and takes them: `rollout.gatewright.dev/checkout`."""
    print_lines(f"{kind}.{GROUP}/{name}" for name in names)


_LIKE_A_NUMBER = re.compile(r"[-+.]?\d[\w.+-]*", re.ASCII)


def yaml_of(value: Any) -> str:
    """JSON data as YAML. What kubectl would read as a number (a revision such as `3e12345678`) stays a string."""
    import yaml  # takes as long to import as the rest of a command

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        """With the strings quoted that YAML 1.2 reads otherwise than the 1.1 that PyYAML knows."""

    def text(dumper: Any, written: str) -> Any:
        style = '"' if _LIKE_A_NUMBER.fullmatch(written) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", written, style=style)

    Dumper.add_representer(str, text)
    plain = json.loads(json.dumps(value))  # tuples and words of an enum become what they are in JSON
    return str(yaml.dump(plain, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=4096))
