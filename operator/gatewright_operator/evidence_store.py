"""One bounded ConfigMap per verdict: the integer counts that it rests on, for replay, plots and later attempts."""

import gzip
from base64 import b64decode, b64encode
from typing import Any

from gatewright_analysis.evidence.model import Window
from gatewright_analysis.evidence.record import CheckRecord, RunRecord, read, write
from gatewright_analysis.ledger import canonical, digest_of_bytes
from gatewright_analysis.names import EVIDENCE_LABEL, ROLLOUT_LABEL
from gatewright_operator.resources import CONFIGMAPS

Json = dict[str, Any]

DATA_KEY = "evidence.json.gz"
MAX_BYTES = 900_000
"""Of the compressed record: a ConfigMap holds 1 MiB, base64 included."""


def encode(record: RunRecord) -> tuple[bytes, str]:
    """Canonical JSON of the evidence, and its digest. The same counts give the same bytes."""
    raw = canonical(write(record))
    return raw, digest_of_bytes(raw)


def decode(config_map: Json) -> RunRecord:
    """The record in a stored ConfigMap. Raises UnreadableRecord, and KeyError where it is none of ours."""
    return read(gzip.decompress(b64decode(config_map["binaryData"][DATA_KEY])))


def record_of(config_map: Json, check: str) -> CheckRecord | None:
    """What was stored of one check; None where the record does not speak of it."""
    return decode(config_map).checks.get(check)


def windows_of(config_map: Json, check: str) -> tuple[Window, ...]:
    """The closed windows of one check from a stored record; none where the record does not speak of it."""
    found = record_of(config_map, check)
    return () if found is None else found.counted


def manifest(name: str, namespace: str, rollout: str, owner: Json, raw: bytes, digest: str) -> Json:
    """The ConfigMap. Raises ValueError when the record does not fit: then it is no evidence that could be replayed."""
    packed = gzip.compress(raw, mtime=0)
    if len(packed) > MAX_BYTES:
        raise ValueError(
            f"the evidence of {name} takes {len(packed)} bytes, more than {MAX_BYTES}: use longer windows"
        )
    return {
        "apiVersion": CONFIGMAPS.api_version,
        "kind": CONFIGMAPS.kind,
        "immutable": True,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {EVIDENCE_LABEL: "true", ROLLOUT_LABEL: rollout},
            "annotations": {f"{EVIDENCE_LABEL}-digest": digest},
            "ownerReferences": [owner],
        },
        "binaryData": {DATA_KEY: b64encode(packed).decode()},
    }
