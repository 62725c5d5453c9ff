"""The status of a pod, computed from what its containers do: the same words and rules as the kubelet's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from devcluster.kubeapi import Json
from devcluster.node.environment import HOST_IP

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]


def timestamp(now: datetime | None = None) -> str:
    """A moment (default: this one) as Kubernetes writes it, to the second."""
    return (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class ContainerView:
    """One container at one moment. ``state`` and ``last_state`` are as in ``containerStatuses``."""

    name: str
    image: str
    image_id: str
    container_id: str
    state: Json
    last_state: Json
    ready: bool
    started: bool
    restart_count: int

    @property
    def exit_code(self) -> int | None:
        """The exit code of a container that is terminated now, not of an earlier run."""
        terminated = self.state.get("terminated")
        return None if terminated is None else int(terminated["exitCode"])

    def as_status(self) -> Json:
        """The entry in ``containerStatuses``."""
        status: Json = {
            "name": self.name,
            "image": self.image,
            "imageID": self.image_id,
            "state": self.state,
            "lastState": self.last_state,
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restart_count,
        }
        if self.container_id:
            status["containerID"] = self.container_id
        return status


@dataclass(frozen=True)
class PodFacts:
    """What is known about a pod on this node."""

    pod_ip: str
    start_time: str
    initialized: bool
    finished: bool
    """No container runs and none will again."""
    init_views: Sequence[ContainerView] = ()
    views: Sequence[ContainerView] = ()
    gates: Mapping[str, str] = field(default_factory=dict)
    """Status of the conditions that the pod's readiness gates name."""


def phase(facts: PodFacts, restart_policy: str) -> Phase:
    """The pod's phase by the kubelet's rule."""
    init_failed = any(view.exit_code not in (None, 0) for view in facts.init_views)
    if facts.finished:
        codes = [view.exit_code for view in facts.views]
        return "Succeeded" if not init_failed and all(code == 0 for code in codes) else "Failed"
    if not facts.initialized:
        return "Failed" if init_failed and restart_policy == "Never" else "Pending"
    if any("waiting" in view.state and not view.last_state for view in facts.views):
        return "Pending"
    return "Running"


def pod_status(pod: Json, facts: PodFacts, previous: Sequence[Json], now: str) -> Json:
    """The part of ``status`` that the node writes.

    ``previous``: the conditions as last written; a condition keeps its transition time while its status is
    the same.
    """
    spec = pod["spec"]
    views = sorted(facts.views, key=lambda view: view.name)
    current = phase(facts, spec.get("restartPolicy", "Always"))
    status: Json = {
        "phase": current,
        "hostIP": HOST_IP,
        "hostIPs": [{"ip": HOST_IP}],
        "podIP": facts.pod_ip,
        "podIPs": [{"ip": facts.pod_ip}],
        "startTime": facts.start_time,
        "conditions": _conditions(pod, facts, current, previous, now),
        "containerStatuses": [view.as_status() for view in views],
    }
    if facts.init_views:
        status["initContainerStatuses"] = [view.as_status() for view in facts.init_views]
    if "generation" in pod["metadata"]:
        status["observedGeneration"] = pod["metadata"]["generation"]
    return status


def _conditions(pod: Json, facts: PodFacts, current: Phase, previous: Sequence[Json], now: str) -> list[Json]:
    initialized = _initialized(facts, current)
    containers = _containers_ready(facts, current)
    ready = containers
    if containers["status"] == "True":
        failed = [
            gate["conditionType"]
            for gate in pod["spec"].get("readinessGates") or []
            if facts.gates.get(gate["conditionType"]) != "True"
        ]
        if failed:
            message = f"the status of pod readiness gate {', '.join(map(repr, failed))} is not True"
            ready = _condition("False", "ReadinessGatesNotReady", message)
    conditions = {
        "PodReadyToStartContainers": _condition("False" if facts.finished else "True"),
        "Initialized": initialized,
        "Ready": ready,
        "ContainersReady": containers,
    }
    before = {condition["type"]: condition for condition in previous}
    result = []
    for kind, condition in conditions.items():
        last = before.get(kind)
        same = last is not None and last["status"] == condition["status"]
        moment = last["lastTransitionTime"] if last is not None and same else now
        result.append({"type": kind, "lastProbeTime": None, "lastTransitionTime": moment, **condition})
    return result


def _condition(status: str, reason: str | None = None, message: str | None = None) -> Json:
    return {"status": status, "reason": reason, "message": message}


def _initialized(facts: PodFacts, current: Phase) -> Json:
    if facts.initialized or current == "Succeeded":
        return _condition("True", "PodCompleted" if current == "Succeeded" else None)
    waiting = [view.name for view in facts.init_views if view.exit_code != 0]
    return _condition(
        "False", "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(waiting)}]"
    )


def _containers_ready(facts: PodFacts, current: Phase) -> Json:
    if current == "Succeeded":
        return _condition("False", "PodCompleted")
    if current == "Failed":
        return _condition("False", "PodFailed")
    unready = [view.name for view in facts.views if not view.ready]
    if unready:
        return _condition(
            "False", "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
        )
    return _condition("True")
