"""What pods show: for the planner (ready, failing, in trouble) and for the evidence kind `pods`. Pure, on raw objects."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from gatewright_analysis.evidence.model import Fault, PodFacts
from gatewright_analysis.names import POD_TEMPLATE_HASH
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.snapshot import CanaryPods

Json = dict[str, Any]

_IMAGE_TROUBLE = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
_CONFIG_TROUBLE = {"CreateContainerConfigError", "CreateContainerError"}


def _statuses(pod: Json) -> list[Json]:
    return list((pod.get("status") or {}).get("containerStatuses") or ())


def is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return "deletionTimestamp" not in pod["metadata"] and any(
        c["type"] == "Ready" and c["status"] == "True" for c in conditions
    )


def _exit_code(status: Json) -> int:
    ended = (
        (status.get("lastState") or {}).get("terminated")
        or (status.get("state") or {}).get("terminated")
        or {}
    )
    return int(ended.get("exitCode", 0))


def failing_containers(pod: Json, containers: tuple[str, ...] = ()) -> list[str]:
    """Containers that exit non-zero again and again, as POD/CONTAINER."""
    found = []
    for status in _statuses(pod):
        if containers and status["name"] not in containers:
            continue
        waiting = ((status.get("state") or {}).get("waiting") or {}).get("reason")
        again = waiting == "CrashLoopBackOff" or status.get("restartCount", 0) >= 2
        if again and _exit_code(status) != 0 and not status.get("ready"):
            found.append(f"{pod['metadata']['name']}/{status['name']}")
    return found


def trouble(pod: Json) -> Fault | None:
    """What the cluster, not the version, keeps from running: no room, no image, no configuration."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Fault(
                Reason.PODS_UNSCHEDULABLE, f"{pod['metadata']['name']}: {condition.get('message', '')}"[:300]
            )
    for status in _statuses(pod):
        waiting = (status.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _IMAGE_TROUBLE:
            return Fault(
                Reason.IMAGE_TROUBLE, f"{pod['metadata']['name']}/{status['name']}: {waiting['reason']}"
            )
        if waiting.get("reason") in _CONFIG_TROUBLE:
            detail = f"{pod['metadata']['name']}/{status['name']}: {waiting['reason']}: {waiting.get('message', '')}"
            return Fault(Reason.PODS_NOT_READY, detail[:300])
    return None


def summary(pods: Iterable[Json]) -> CanaryPods:
    """One arm's pods, as `plan` sees them. A pod that is ending still counts in `total`."""
    pods = list(pods)
    ready = [p for p in pods if is_ready(p)]
    alive = [p for p in pods if "deletionTimestamp" not in p["metadata"]]
    failing = [name for p in alive for name in failing_containers(p)]
    troubles = [t for p in alive if (t := trouble(p)) is not None]
    one = ready[0] if ready else None
    hashes = {(p["metadata"].get("labels") or {}).get(POD_TEMPLATE_HASH, "") for p in pods}
    return CanaryPods(
        total=len(pods),
        ready=len(ready),
        pod_template_hash=hashes.pop() if len(hashes) == 1 else "",
        images=tuple((s["name"], s.get("image", ""), s.get("imageID", "")) for s in _statuses(one))
        if one
        else (),
        failing=tuple(failing),
        trouble=troubles[0].detail if troubles else "",
    )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _unready_since(pod: Json, since: datetime) -> bool:
    """Whether the pod lost its readiness after `since` (a pod that was never ready yet is told by `ready`)."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Ready" and condition.get("lastTransitionTime"):
            return _time(condition["lastTransitionTime"]) > since
    return False


def facts(
    pods: Iterable[Json], *, expected: int, since: datetime, containers: tuple[str, ...], baseline: int
) -> PodFacts:
    """The evidence kind `pods` at one look.

    `expected` pods should be ready; `baseline` are the restarts counted when the weight was set; readiness that changed
    after `since` was not held throughout.
    """
    alive = [p for p in pods if "deletionTimestamp" not in p["metadata"]]
    ready = [p for p in alive if is_ready(p)]
    restarts = restart_count(alive, containers)
    troubles = [t for p in alive if (t := trouble(p)) is not None]
    return PodFacts(
        expected=expected,
        ready=len(ready),
        restarts=max(0, restarts - baseline),
        failing=tuple(name for p in alive for name in failing_containers(p, containers)),
        infrastructure=troubles[0] if troubles else None,
        ready_throughout=len(ready) >= expected and not any(_unready_since(p, since) for p in alive),
    )


def restart_count(pods: Iterable[Json], containers: tuple[str, ...]) -> int:
    return sum(
        s.get("restartCount", 0)
        for p in pods
        for s in _statuses(p)
        if not containers or s["name"] in containers
    )
