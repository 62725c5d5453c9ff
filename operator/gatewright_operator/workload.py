"""Deployments, ReplicaSets and their templates: what they are, and the canary that is made of them. Pure.

Templates are compared live to live: a Deployment's against a ReplicaSet's, less `pod-template-hash` and our own labels.
"""

import copy
import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import rfc8785

from gatewright_analysis.ledger import config_digest
from gatewright_analysis.names import (
    CHANGED_BY,
    DECISION,
    GATED_LABEL,
    IN_FLIGHT,
    PINNED,
    POD_TEMPLATE_HASH,
    RESUMED_BY,
    REVISION_LABEL,
    ROLLOUT_LABEL,
    WORLD_PREFIX,
)

Json = dict[str, Any]

_NOT_THE_VERSION = (POD_TEMPLATE_HASH, ROLLOUT_LABEL, REVISION_LABEL)
MOST_DECLARED = 64
MOST_CHARACTERS = 1024
"""Of the declared world, as a GateRun can hold it."""
GENERATE_NAME_LENGTH = 58
"""The API server cuts `generateName` to this many characters before it adds five of its own."""


def template_of(obj: Json) -> Json:
    """The pod template of a Deployment or ReplicaSet without the labels that tell copies of one version apart."""
    template: Json = copy.deepcopy(obj["spec"]["template"])
    metadata = template.setdefault("metadata", {})
    metadata.pop("creationTimestamp", None)
    labels = metadata.get("labels") or {}
    metadata["labels"] = {k: v for k, v in labels.items() if k not in _NOT_THE_VERSION}
    return template


def revision_of(obj: Json) -> str:
    """A version's name: the first 10 hex digits of the sha256 of its canonical template."""
    return hashlib.sha256(rfc8785.dumps(template_of(obj))).hexdigest()[:10]


def config_of(template: Json) -> str:
    """Digest of what a template tells its containers besides their images."""
    return config_digest(template["spec"])


def images_of(template: Json) -> tuple[str, ...]:
    """`container=image` for each container of a template, in order."""
    return tuple(f"{c['name']}={c.get('image', '')}" for c in template["spec"].get("containers", ()))


def declared_world(template: Json) -> dict[str, str]:
    """What a template says that its version runs with: its annotations `world.gatewright.dev/KEY`, by KEY.

    A GateRun holds up to 64 of up to 1,024 characters. A longer value stands as its digest, and of more than 64 there
    is one digest of all: no result file can say the same, and another one still is another world.
    """
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    found = {
        key.removeprefix(WORLD_PREFIX): value if len(value) <= MOST_CHARACTERS else _digest(value)
        for key, value in sorted(annotations.items())
        if key.startswith(WORLD_PREFIX)
    }
    return found if len(found) <= MOST_DECLARED else {"all": _digest(found)}


def _digest(value: Any) -> str:
    return f"sha256:{hashlib.sha256(rfc8785.dumps(value)).hexdigest()}"


@dataclass(frozen=True, slots=True)
class DeploymentView:
    """What `plan` reads of a Deployment."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    generation: int
    observed_generation: int
    revision: str
    template: Json
    images: tuple[str, ...]
    selector: dict[str, str]
    replicas: int
    total: int
    updated: int
    ready: int
    available: int
    paused: bool
    strategy: str
    history_limit: int
    labels: dict[str, str]
    annotations: dict[str, str]
    replica_failure: str
    deleting: bool
    created_at: datetime | None = None

    @property
    def gated(self) -> bool:
        return self.labels.get(GATED_LABEL) == "true"

    @property
    def decision(self) -> str:
        return self.annotations.get(DECISION, "")

    @property
    def in_flight(self) -> bool:
        return IN_FLIGHT in self.annotations

    @property
    def pinned(self) -> bool:
        return PINNED in self.annotations

    @property
    def initiator(self) -> str:
        """Who the API server saw write the template; empty where that proves nobody (a machine's account)."""
        name = self.annotations.get(CHANGED_BY, "")
        return "" if name.startswith("system:") else name

    @property
    def resumed_by(self) -> str:
        """Who the API server saw un-pause it past the gate; empty where nobody did."""
        return self.annotations.get(RESUMED_BY, "")

    @property
    def settled(self) -> bool:
        """One ReplicaSet has all pods, and all of them are available."""
        return (
            self.observed_generation >= self.generation
            and self.updated == self.replicas == self.total
            and self.available == self.replicas
        )


def deployment_view(obj: Json) -> DeploymentView:
    """Parses a live Deployment; missing status counts are zero."""
    spec, status, metadata = obj["spec"], obj.get("status") or {}, obj["metadata"]
    failures = [
        c.get("message", "")
        for c in status.get("conditions", ())
        if c["type"] == "ReplicaFailure" and c["status"] == "True"
    ]
    template = template_of(obj)
    return DeploymentView(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        generation=metadata.get("generation", 0),
        observed_generation=status.get("observedGeneration", 0),
        revision=revision_of(obj),
        template=template,
        images=images_of(template),
        selector=(spec.get("selector") or {}).get("matchLabels") or {},
        replicas=spec.get("replicas", 1),
        total=status.get("replicas", 0),
        updated=status.get("updatedReplicas", 0),
        ready=status.get("readyReplicas", 0),
        available=status.get("availableReplicas", 0),
        paused=spec.get("paused", False),
        strategy=(spec.get("strategy") or {}).get("type", "RollingUpdate"),
        history_limit=spec.get("revisionHistoryLimit", 10),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        replica_failure=failures[0] if failures else "",
        deleting="deletionTimestamp" in metadata,
        created_at=datetime.fromisoformat(created)
        if (created := metadata.get("creationTimestamp"))
        else None,
    )


@dataclass(frozen=True, slots=True)
class ReplicaSetView:
    name: str
    uid: str
    resource_version: str
    pod_template_hash: str
    revision: str
    template: Json
    images: tuple[str, ...]
    replicas: int
    total: int
    """Pods that exist (status), which may lag behind the wish."""


def replica_set_view(obj: Json) -> ReplicaSetView:
    template = template_of(obj)
    return ReplicaSetView(
        name=obj["metadata"]["name"],
        uid=obj["metadata"]["uid"],
        resource_version=obj["metadata"]["resourceVersion"],
        pod_template_hash=(obj["metadata"].get("labels") or {}).get(POD_TEMPLATE_HASH, ""),
        revision=revision_of(obj),
        template=template,
        images=images_of(template),
        replicas=obj["spec"].get("replicas", 0),
        total=(obj.get("status") or {}).get("replicas", 0),
    )


def owned_by(obj: Json, uid: str) -> bool:
    return any(
        o.get("uid") == uid and o.get("controller") for o in obj["metadata"].get("ownerReferences", ())
    )


def canary_name(deployment: str) -> str:
    return f"{deployment}-canary"


def pod_prefix(deployment: str, pod_template_hash: str) -> str:
    """What the names of a ReplicaSet's pods begin with, cut as the API server cuts it; five characters follow."""
    return f"{deployment}-{pod_template_hash}-"[:GENERATE_NAME_LENGTH]


def canary_manifest(deployment: Json, rollout: str) -> Json:
    """The operator's own Deployment with the new template and no pods yet. The user's metadata labels are not copied."""
    view = deployment_view(deployment)
    own = {ROLLOUT_LABEL: rollout, REVISION_LABEL: view.revision}
    template = copy.deepcopy(view.template)
    template["metadata"]["labels"] = {**template["metadata"]["labels"], **own}
    spec: Json = {
        "replicas": 0,
        "selector": {"matchLabels": own},
        "template": template,
        "revisionHistoryLimit": 1,
    }
    for field in ("minReadySeconds", "progressDeadlineSeconds"):
        if field in deployment["spec"]:
            spec[field] = deployment["spec"][field]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": canary_name(view.name),
            "namespace": view.namespace,
            "labels": {GATED_LABEL: "canary", **own},
        },
        "spec": spec,
    }


def canary_size(weight: int, stable_replicas: int) -> int:
    """max(1, ceil(weight × stable replicas / 100)); 0 at weight 0."""
    return 0 if weight == 0 else max(1, -(-weight * stable_replicas // 100))


def canary_size_by_ratio(weight: int, stable_replicas: int) -> int:
    """For `replicas` traffic: the c ≥ 1 whose ratio c / (N + c) is nearest to the weight; 0 at weight 0."""
    return 0 if weight == 0 else max(1, round(weight * stable_replicas / (100 - weight)))
