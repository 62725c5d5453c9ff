"""Files that a person names: manifests as kubectl prints or takes them, and lines."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from gatewright_cli.errors import GateError
from gatewright_cli.output import clean


@contextmanager
def opened(file: str) -> Iterator[IO[str]]:
    """The file, or standard input for `-`. Raises GateError when it can't be read."""
    try:
        if file == "-":
            yield sys.stdin
        else:
            with Path(file).open(encoding="utf-8") as stream:
                yield stream
    except (OSError, UnicodeDecodeError) as error:
        raise GateError(f"{file} can't be read: {error}.") from error


def documents(file: str) -> list[Any]:
    """All documents of a JSON or YAML file. Raises GateError."""
    with opened(file) as stream:
        text = stream.read()
    try:
        return [json.loads(text)]
    except ValueError:
        import yaml  # takes longer to import than JSON takes to read

        try:
            return list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        except yaml.YAMLError as error:
            raise GateError(f"{file} is neither JSON nor YAML: {clean(error)[:200]}.") from error


def objects(documents: Iterable[Any]) -> Iterator[Any]:
    """The Kubernetes objects in documents, those in lists too."""
    for document in documents:
        if isinstance(document, list):
            yield from objects(document)
        elif isinstance(document, dict) and isinstance(document.get("items"), list):
            yield from objects(document["items"])
        elif isinstance(document, dict) and isinstance(document.get("metadata"), dict):
            yield document


def manifest(file: str, *kinds: str) -> Any:
    """The one object of these kinds in a file. Raises GateError when there is none, or several."""
    found = [one for one in objects(documents(file)) if one.get("kind") in kinds]
    if len(found) != 1:
        count = "no" if not found else f"{len(found)} objects of the kind"
        raise GateError(f"{file} holds {count} {' or '.join(kinds)}, and exactly one is wanted.")
    return found[0]
