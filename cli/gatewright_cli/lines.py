"""YAML (and JSON, which is YAML) with the line of every field."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from gatewright_cli.errors import GateError
from gatewright_cli.files import opened
from gatewright_cli.output import clean


@dataclass(frozen=True)
class Written:
    """One document of a file: its value, and the nodes that know their lines."""

    file: str
    value: Any
    node: yaml.Node

    def line_of(self, path: Sequence[str | int]) -> int:
        """The line of the field at `path`, or of the nearest thing around it that is there; counted from 1."""
        node, line = self.node, self.node.start_mark.line
        for part in path:
            found = _below(node, part)
            if found is None:
                break
            line, node = found
        return int(line) + 1


def read(file: str) -> list[Written]:
    """All documents of a file, those in a List too. Raises GateError with the line for what is no YAML."""
    with opened(file) as stream:
        text = stream.read()
    loader = yaml.SafeLoader(text)
    try:
        found = []
        while loader.check_node():
            node = loader.get_node()
            found += list(_objects(file, loader.construct_document(node), node))
        return found
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise GateError(
            f"{file}{line}: it is neither JSON nor YAML: {clean(error.problem or error)[:200]}."
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise GateError(f"{file}: it is neither JSON nor YAML: {clean(error)[:200]}.") from error
    finally:
        loader.dispose()


def _objects(file: str, value: Any, node: yaml.Node) -> Iterator[Written]:
    items = _below(node, "items")
    if isinstance(value, dict) and isinstance(value.get("items"), list) and items is not None:
        for each, below in zip(value["items"], items[1].value, strict=True):
            yield from _objects(file, each, below)
    elif isinstance(value, dict):
        yield Written(file, value, node)


def _below(node: yaml.Node, part: str | int) -> tuple[int, yaml.Node] | None:
    """(line of the key or item, its value)."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return key.start_mark.line, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part].start_mark.line, node.value[part]
    return None
