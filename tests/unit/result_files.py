"""The result files that the real tools wrote (tests/fixtures/results), and changed copies of them."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gatewright_analysis.results import EvidenceRecord, Format, Options, import_file
from gatewright_analysis.results.archive import Archive
from gatewright_analysis.results.record import cluster_key

FILES = Path(__file__).resolve().parents[1] / "fixtures" / "results"


def content(name: str) -> bytes:
    return (FILES / name).read_bytes()


def record_of(name: str, form: Format | None = None, **options: Any) -> EvidenceRecord:
    return import_file(content(name), name, suite="refunds", form=form, options=Options(**options))


def record_of_bytes(data: bytes, form: Format | None = None, **options: Any) -> EvidenceRecord:
    return import_file(data, "changed", suite="refunds", form=form, options=Options(**options))


def changed(name: str, change: Callable[[Any], object]) -> bytes:
    """The JSON file with `change` made to it in place."""
    document = json.loads(content(name))
    change(document)
    return json.dumps(document).encode()


def repacked(
    name: str,
    change: Callable[[dict[str, bytes]], object] = lambda members: None,
    compression: int = zipfile.ZIP_DEFLATED,
) -> bytes:
    """The .eval file packed as versions of Inspect before Zstandard did, with `change` made to its members."""
    archive = Archive.of(content(name))
    members = {member: archive.read(member) for member in archive.members}
    change(members)
    return packed(members, compression)


def packed(members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as file:
        for member, data in members.items():
            file.writestr(member, data)
    return out.getvalue()


def keys(*values: Any) -> dict[str, Any]:
    """Cluster key → the value that it was made of."""
    return {cluster_key(value): value for value in values}


def by_value(record: EvidenceRecord, *values: Any) -> dict[Any, tuple[Any, ...]]:
    """The record's items by what their clusters were made of; every cluster must be among `values`."""
    names = keys(*values)
    return {str(names[item[0]]): item[1:] for item in record.items}
