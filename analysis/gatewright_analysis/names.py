"""Names that stand on objects: API group, labels, annotations, verbs. One place, so that chart, operator and plugin agree."""

from typing import Final

GROUP: Final = "gatewright.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

GATED_LABEL: Final = f"{GROUP}/gated"
"""On a gated Deployment: `true` (what the admission policies select). On its canary: `canary`."""
ROLLOUT_LABEL: Final = f"{GROUP}/rollout"
"""On everything the operator creates for a Rollout: canary Deployment and pods, GateRuns, ledger segments."""
REVISION_LABEL: Final = f"{GROUP}/revision"
"""On canary Deployment, its pods and its ControllerRevision: the revision (first 10 hex digits of the template digest)."""
RUN_LABEL: Final = f"{GROUP}/run"
CHECK_LABEL: Final = f"{GROUP}/check"
"""On the Job of a check, beside the Rollout's: the GateRun (cut to 63 characters) and the check that it is for."""
JOB_STARTED: Final = f"jobs.{GROUP}/"
"""Prefix of annotations on a GateRun, followed by the id of a check: its Job was started, and no second one ever is."""
LEDGER_LABEL: Final = f"{GROUP}/ledger"
EVIDENCE_LABEL: Final = f"{GROUP}/evidence"
EVIDENCE_SUITE_LABEL: Final = f"{GROUP}/evidence-suite"
"""On the ConfigMap of a pushed evidence record: the suite it belongs to."""
EVIDENCE_DIGEST: Final = f"{GROUP}/evidence-digest"
"""Annotation there: `sha256:…` of the record's canonical bytes."""
EVIDENCE_RECORD_KEY: Final = "record.json.gz"
"""Key of `binaryData` there."""
WORLD_PREFIX: Final = f"world.{GROUP}/"
"""Of annotations of a pod template: `world.gatewright.dev/model: answers-2026-03` declares what a version runs with."""

CHANGED_BY: Final = f"{GROUP}/changed-by"
WRITTEN_BY: Final = f"{GROUP}/written-by"
"""On a GateContract or MetricSource: who the API server saw write its spec last."""
RESUMED_BY: Final = f"{GROUP}/resumed-by"
"""On a gated Deployment: who the API server saw un-pause it past the gate (by the verb `override`)."""
DECISION: Final = f"{GROUP}/decision"
IN_FLIGHT: Final = f"{GROUP}/in-flight"
PINNED: Final = f"{GROUP}/pinned"

FINALIZER: Final = f"{GROUP}/traffic"

VERB_APPROVE: Final = "approve"
VERB_OPERATE: Final = "operate"
VERB_OVERRIDE: Final = "override"

FIELD_MANAGER: Final = "gatewright"
POD_TEMPLATE_HASH: Final = "pod-template-hash"


def is_person(name: str) -> bool:
    """Whether a user name proves a person. None, a `system:` name and a service account prove nobody: they are never
    the same person as somebody, and never somebody else."""
    return bool(name) and not name.startswith("system:")
