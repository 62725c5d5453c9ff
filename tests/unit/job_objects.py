"""CronJobs, Jobs and their pods as the API serves them, and the GateRun that they are for."""

from datetime import UTC, datetime, timedelta
from typing import Any

from gatewright_analysis.kinds.run import GateRun

Json = dict[str, Any]

T0 = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
"""Start of the gate's clock; the weight was accepted six seconds before."""
RUN = "checkout-0123456789-1-1"
NAME = f"{RUN}-smoke"


def gate_run(name: str = RUN, **spec: Any) -> Json:
    at = T0.isoformat().replace("+00:00", "Z")
    weight_at = (T0 - timedelta(seconds=6)).isoformat().replace("+00:00", "Z")
    return {
        "apiVersion": "gatewright.dev/v1alpha1",
        "kind": "GateRun",
        "metadata": {"name": name, "namespace": "shop", "uid": "run-uid", "resourceVersion": "7"},
        "spec": {
            "rollout": "checkout",
            "rolloutUID": "rollout-uid",
            "revision": "0123456789",
            "step": "1",
            "weight": 25,
            "attempt": 1,
            "stage": "Canary",
            "contract": "checkout",
            "contractGeneration": 1,
            "contractDigest": f"sha256:{'0' * 64}",
            "worldSnapshot": f"sha256:{'1' * 64}",
            "checks": ["smoke"],
            "clock": {
                "startsAt": at,
                "weightAt": weight_at,
                "duration": "60s",
                "maxDuration": "2m",
                "window": "30s",
                "interval": "1s",
            },
            "canary": {"podPrefix": "checkout-canary-abc-", "service": "checkout-canary"},
            "stable": {"podPrefix": "checkout-def-", "service": "checkout"},
            "eProcesses": 1,
            **spec,
        },
    }


def parsed(raw: Json) -> GateRun:
    return GateRun.model_validate(raw)


def cron_job(*containers: Json, **spec: Any) -> Json:
    """A suspended CronJob with a template; `spec` goes to the Job's spec."""
    pod = {
        "restartPolicy": "Never",
        "containers": list(containers) or [{"name": "smoke", "image": "smoke:1"}],
    }
    return {
        "metadata": {"name": "smoke", "namespace": "shop", "uid": "cron-uid"},
        "spec": {
            "schedule": "0 0 31 2 *",
            "suspend": True,
            "jobTemplate": {
                "metadata": {"labels": {"team": "payments"}, "annotations": {"note": "kept"}},
                "spec": {"backoffLimit": 0, "template": {"spec": pod}, **spec},
            },
        },
    }


def job(*conditions: Json, owner: str = "run-uid", backoff_limit: int | None = 0, **status: Any) -> Json:
    spec = {} if backoff_limit is None else {"backoffLimit": backoff_limit}
    return {
        "metadata": {
            "name": NAME,
            "namespace": "shop",
            "uid": "job-uid",
            "ownerReferences": [{"uid": owner}],
        },
        "spec": spec,
        "status": {"conditions": list(conditions), **status},
    }


def condition(kind: str, reason: str = "", status: str = "True") -> Json:
    return {"type": kind, "status": status, "reason": reason}


def complete(**fields: Any) -> Json:
    return job(condition("SuccessCriteriaMet"), condition("Complete"), **{"succeeded": 1, **fields})


def failed(reason: str = "BackoffLimitExceeded", **fields: Any) -> Json:
    return job(condition("FailureTarget", reason), condition("Failed", reason), **fields)


def ended(
    code: int = 0, message: str | None = None, *, at: int = 0, reason: str = "", name: str = "smoke"
) -> Json:
    """The status of a container that has ended, `at` seconds after the gate's t0."""
    finished = (T0 + timedelta(seconds=at)).isoformat().replace("+00:00", "Z")
    terminated: Json = {
        "exitCode": code,
        "reason": reason or ("Error" if code else "Completed"),
        "finishedAt": finished,
    }
    if message is not None:
        terminated["message"] = message
    return {"name": name, "state": {"terminated": terminated}}


def waiting(reason: str, message: str = "") -> Json:
    return {"name": "smoke", "state": {"waiting": {"reason": reason, "message": message}}}


def pod(phase: str, *statuses: Json, number: int = 0, owner: str = "job-uid", **status: Any) -> Json:
    created = (T0 + timedelta(seconds=number)).isoformat().replace("+00:00", "Z")
    return {
        "metadata": {
            "name": f"smoke-{number}",
            "namespace": "shop",
            "creationTimestamp": created,
            "ownerReferences": [{"uid": owner}],
            "labels": {"batch.kubernetes.io/job-name": NAME},
        },
        "status": {"phase": phase, "containerStatuses": list(statuses), **status},
    }
