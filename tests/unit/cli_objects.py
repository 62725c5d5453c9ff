"""Kubernetes objects as the plugin reads them: plain JSON, built by the kinds' own models so that names can't drift."""

from datetime import UTC, datetime, timedelta
from typing import Any

from gatewright_analysis.kinds.rollout import RolloutSpec, RolloutStatus
from gatewright_analysis.verdict import CheckResult

NOW = datetime(2030, 5, 1, 12, 0, tzinfo=UTC)
DIGEST = "sha256:" + "ab12" * 16
WORLD = "sha256:" + "cd34" * 16
CANARY = "3f2a9c1d0e"
STABLE = "91bd22ac07"
OTHER = "77777ccccc"

STEPS: list[dict[str, Any]] = [
    {"setWeight": 5},
    {"gate": {"duration": "10m", "maxDuration": "20m"}},
    {"setWeight": 25},
    {"gate": {"duration": "10m"}},
]


def at(**shift: float) -> str:
    """RFC 3339 of NOW shifted by a timedelta's keywords."""
    return (NOW + timedelta(**shift)).strftime("%Y-%m-%dT%H:%M:%SZ")


def rollout(
    name: str = "checkout", *, generation: int = 3, spec: dict[str, Any] | None = None, **status: Any
) -> dict[str, Any]:
    """A Rollout; `status` in camelCase. Unknown fields fail: the plugin must not read what nobody writes."""
    full_spec = {
        "workloadRef": {"name": name},
        "contractRef": {"name": name},
        "traffic": {"replicas": {}},
        "steps": STEPS,
        "bake": {"duration": "30m"},
        **(spec or {}),
    }
    full_status = {"observedGeneration": generation, **status}
    _check_fields(RolloutStatus, full_status)
    RolloutSpec.model_validate(full_spec)
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": "uid-1", "generation": generation},
        "spec": full_spec,
        "status": RolloutStatus.model_validate(full_status).wire(),
    }


def hold(**changes: Any) -> dict[str, Any]:
    return {
        "run": f"checkout-{CANARY}-1-1",
        "evidenceDigest": DIGEST,
        "worldSnapshot": WORLD,
        "step": "1",
        "initiator": "dev-1",
        "since": at(minutes=-12),
        "reason": "BelowThreshold",
        "message": "http-success is neither proven nor disproven.",
        "blocking": ["http-success"],
        "deadline": at(hours=20),
        **changes,
    }


def arm(revision: str, image: str, **more: Any) -> dict[str, Any]:
    return {"revision": revision, "images": [image], **more}


def stable(revision: str = STABLE) -> dict[str, Any]:
    return arm(revision, "shop/checkout:1.7.3", podTemplateHash="5d8f", replicas=3)


def canary(revision: str = CANARY, **more: Any) -> dict[str, Any]:
    return arm(revision, "shop/checkout:1.8.0", **{"initiator": "dev-1", **more})


def held(**changes: Any) -> dict[str, Any]:
    """A Rollout that is held at its first gate."""
    status = {
        "phase": "Held",
        "message": "Held at step 2.",
        "currentStep": 1,
        "attempt": 1,
        "run": f"checkout-{CANARY}-1-1",
        "weight": {"desired": 5, "actual": 5},
        "stable": stable(),
        "canary": canary(),
        "hold": hold(),
        "verdict": {
            "decision": "HOLD",
            "run": f"checkout-{CANARY}-1-1",
            "step": "1",
            "reason": "BelowThreshold",
            "at": at(minutes=-12),
        },
        "ledger": {"segment": 0, "sequence": 4, "head": DIGEST},
        "observedWorkloadGeneration": 7,
        "observedRevision": CANARY,
        **changes,
    }
    return rollout(**status)


def check(check_id: str = "http-success", **changes: Any) -> dict[str, Any]:
    """A check's result as it stands in a verdict."""
    result = {
        "id": check_id,
        "oracleKind": "Deterministic",
        "require": "Pass",
        "status": "below_threshold",
        "score": 0.9948,
        "ciLower": 0.9871,
        "ciUpper": 0.998,
        "threshold": 0.99,
        "samples": 812,
        "planned": 1038,
        "reason": "BelowThreshold",
        "message": "99.48 % of 812 requests were good.",
        "fixHint": "Look at the error log of the canary pods.",
        **changes,
    }
    _check_fields(CheckResult, result)
    return CheckResult.model_validate(result).wire()


def run(*checks: dict[str, Any], name: str = f"checkout-{CANARY}-1-1", **spec: Any) -> dict[str, Any]:
    """A decided GateRun with these checks."""
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "rollout": "checkout",
            "revision": CANARY,
            "step": "1",
            "attempt": 1,
            "contract": "checkout",
            "contractGeneration": 3,
            "contractDigest": DIGEST,
            "clock": {"startsAt": at(minutes=-20), "duration": "10m", "maxDuration": "20m"},
            **spec,
        },
        "status": {
            "phase": "Decided",
            "verdict": {
                "decision": "HOLD",
                "reason": "BelowThreshold",
                "finishedAt": at(minutes=-12),
                "checks": list(checks),
            },
        },
    }


def deployment(generation: int = 7, image: str = "shop/checkout:1.8.0") -> dict[str, Any]:
    return {
        "metadata": {"name": "checkout", "namespace": "shop", "generation": generation},
        "spec": {"template": {"spec": {"containers": [{"name": "app", "image": image}]}}},
    }


def _check_fields(model: Any, value: dict[str, Any]) -> None:
    known = {field.alias or name for name, field in model.model_fields.items()}
    unknown = set(value) - known
    assert not unknown, f"{model.__name__} has no fields {sorted(unknown)}"
