"""Services: the stable one is pinned to stable's pods during a rollout, the canary one selects the canary's. Pure."""

from dataclasses import dataclass
from typing import Any

from gatewright_analysis.names import DECISION, POD_TEMPLATE_HASH, REVISION_LABEL, ROLLOUT_LABEL

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServiceView:
    name: str
    resource_version: str
    selector: dict[str, str]
    decision: str
    last_writer: str = "an unknown writer"
    """The field manager other than ours that wrote last."""


def service_view(obj: Json, *, last_writer: str = "an unknown writer") -> ServiceView:
    return ServiceView(
        name=obj["metadata"]["name"],
        resource_version=obj["metadata"]["resourceVersion"],
        selector=dict(obj["spec"].get("selector") or {}),
        decision=(obj["metadata"].get("annotations") or {}).get(DECISION, ""),
        last_writer=last_writer,
    )


def pinned_selector(original: dict[str, str], pod_template_hash: str) -> dict[str, str]:
    """Stable's selector, narrowed to the pods of stable's ReplicaSet."""
    return {**original, POD_TEMPLATE_HASH: pod_template_hash}


def canary_selector(rollout: str, revision: str) -> dict[str, str]:
    """Pods of this revision's canary and no others: pods of two revisions never stand behind one Service."""
    return {ROLLOUT_LABEL: rollout, REVISION_LABEL: revision}


def selects(selector: dict[str, str], labels: dict[str, str]) -> bool:
    """Whether a Service with this selector takes pods with these labels (an empty selector takes none)."""
    return bool(selector) and all(labels.get(k) == v for k, v in selector.items())
