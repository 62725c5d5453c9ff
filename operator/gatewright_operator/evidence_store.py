"""One bounded ConfigMap per verdict: the integer counts that it rests on, for replay, plots and later attempts."""

import gzip
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gatewright_analysis.evidence.model import Counts, Fault, PodFacts, Tick, Window
from gatewright_analysis.ledger import canonical, digest_of_bytes
from gatewright_analysis.names import EVIDENCE_LABEL, ROLLOUT_LABEL
from gatewright_analysis.reasons import Reason
from gatewright_operator.resources import CONFIGMAPS

Json = dict[str, Any]

DATA_KEY = "evidence.json.gz"
MAX_BYTES = 900_000
"""Of the compressed record: a ConfigMap holds 1 MiB, base64 included."""


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """Everything that was counted for one check at one gate."""

    windows: tuple[Window, ...] = ()
    ticks: tuple[Tick, ...] = ()
    pods: PodFacts | None = None
    rendered: str = ""
    """sha256 of the queries as they were asked."""


def _counts(counts: Counts | None) -> list[int] | None:
    return None if counts is None else [counts.good, counts.bad]


def _window(w: Window) -> Json:
    fault = None if w.fault is None else [w.fault.reason.value, w.fault.detail]
    return {
        "index": w.index,
        "canary": _counts(w.canary),
        "stable": _counts(w.stable),
        "missing": w.missing,
        "fault": fault,
        "resets": w.resets,
    }


def _read_window(body: Json) -> Window:
    stable, fault = body["stable"], body["fault"]
    return Window(
        index=body["index"],
        canary=Counts(*body["canary"]),
        stable=None if stable is None else Counts(*stable),
        missing=body["missing"],
        fault=None if fault is None else Fault(Reason(fault[0]), fault[1]),
        resets=body["resets"],
    )


def _record(record: CheckRecord) -> Json:
    pods = record.pods
    return {
        "windows": [_window(w) for w in record.windows],
        "ticks": [
            {"end": t.end, "canary": _counts(t.canary), "stable": _counts(t.stable)} for t in record.ticks
        ],
        "pods": None
        if pods is None
        else {
            "expected": pods.expected,
            "ready": pods.ready,
            "restarts": pods.restarts,
            "failing": list(pods.failing),
        },
        "rendered": record.rendered,
    }


def encode(run: str, records: Mapping[str, CheckRecord]) -> tuple[bytes, str]:
    """Canonical JSON of the evidence, and its digest. The same counts give the same bytes."""
    body = {"run": run, "checks": {check: _record(r) for check, r in sorted(records.items())}}
    raw = canonical(body)
    return raw, digest_of_bytes(raw)


def windows_of(config_map: Json, check: str) -> tuple[Window, ...]:
    """The closed windows of one check from a stored record; none where the record does not speak of it."""
    raw = gzip.decompress(b64decode(config_map["binaryData"][DATA_KEY]))
    found = json.loads(raw)["checks"].get(check)
    return () if found is None else tuple(_read_window(w) for w in found["windows"])


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
