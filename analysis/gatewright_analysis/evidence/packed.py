"""Evidence records as a ConfigMap carries them: canonical JSON, compressed, in base64."""

import gzip
import zlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Any, Final

from gatewright_analysis.evidence.model import Window
from gatewright_analysis.evidence.record import CheckRecord, RunRecord, UnreadableRecord, read, write
from gatewright_analysis.names import EVIDENCE_LABEL

DATA_KEY: Final = "evidence.json.gz"
DIGEST_ANNOTATION: Final = f"{EVIDENCE_LABEL}-digest"
MAX_BYTES: Final = 900_000
"""Of the compressed record: a ConfigMap holds 1 MiB, base64 included."""
MAX_UNPACKED: Final = 256 * 2**20
"""A file of somebody else's may be made to unpack to anything."""


def encode(record: RunRecord) -> tuple[bytes, str]:
    """Canonical JSON of the evidence, and its digest. The same counts give the same bytes."""
    # Not above: who only reads a record (the plugin) must not wait for the kinds, which the ledger imports.
    from gatewright_analysis.ledger import canonical, digest_of_bytes

    raw = canonical(write(record))
    return raw, digest_of_bytes(raw)


def pack(raw: bytes, name: str) -> dict[str, str]:
    """The `binaryData` of the ConfigMap `name`. Raises ValueError when the record does not fit: then it is no evidence
    that could be replayed."""
    packed = gzip.compress(raw, mtime=0)
    if len(packed) > MAX_BYTES:
        raise ValueError(
            f"the evidence of {name} takes {len(packed)} bytes, more than {MAX_BYTES}: use longer windows"
        )
    return {DATA_KEY: b64encode(packed).decode()}


def unpack(config_map: Mapping[str, Any]) -> bytes:
    """The record's canonical bytes. Raises UnreadableRecord."""
    try:
        packed = b64decode(config_map["binaryData"][DATA_KEY], validate=True)
        unzip = zlib.decompressobj(wbits=31)
        raw = unzip.decompress(packed, MAX_UNPACKED)
    except (KeyError, TypeError, Base64Error, ValueError, zlib.error) as error:
        raise UnreadableRecord(f"the ConfigMap holds no evidence: {type(error).__name__}: {error}") from error
    if not unzip.eof:
        raise UnreadableRecord("the evidence is cut off, or larger than any that was stored")
    return raw


def decode(config_map: Mapping[str, Any]) -> RunRecord:
    """The record in a stored ConfigMap. Raises UnreadableRecord."""
    return read(unpack(config_map))


def record_of(config_map: Mapping[str, Any], check: str) -> CheckRecord | None:
    """What was stored of one check; None where the record does not speak of it."""
    return decode(config_map).checks.get(check)


def windows_of(config_map: Mapping[str, Any], check: str) -> tuple[Window, ...]:
    """The closed windows of one check from a stored record; none where the record does not speak of it."""
    found = record_of(config_map, check)
    return () if found is None else found.pooled_windows
