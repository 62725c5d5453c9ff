"""One bounded ConfigMap per verdict: the integer counts that it rests on, for replay, plots and later attempts."""

from typing import Any

from gatewright_analysis.evidence.packed import DIGEST_ANNOTATION, pack
from gatewright_analysis.names import EVIDENCE_LABEL, ROLLOUT_LABEL
from gatewright_operator.resources import CONFIGMAPS

Json = dict[str, Any]


def manifest(name: str, namespace: str, rollout: str, owner: Json, raw: bytes, digest: str) -> Json:
    """The ConfigMap. Raises ValueError when the record does not fit."""
    return {
        "apiVersion": CONFIGMAPS.api_version,
        "kind": CONFIGMAPS.kind,
        "immutable": True,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {EVIDENCE_LABEL: "true", ROLLOUT_LABEL: rollout},
            "annotations": {DIGEST_ANNOTATION: digest},
            "ownerReferences": [owner],
        },
        "binaryData": pack(raw, name),
    }


def digest_of(config_map: Json) -> str:
    """sha256 of the record in a stored ConfigMap, as it was written there."""
    return str((config_map["metadata"].get("annotations") or {}).get(DIGEST_ANNOTATION, ""))
