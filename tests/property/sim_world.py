"""The world around the operator, crudely: controllers, pods, a gateway, admission, a clock, and people who act.

`World.step` is one round of every controller. Nothing here is fast or fair; it only never does what the real ones never do.
"""

import copy
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from gatewright_analysis.kinds.base import format_time
from gatewright_analysis.kinds.rollout import Rollout
from gatewright_analysis.ledger import Entry, Ledger, Segment, segment_index
from gatewright_analysis.names import (
    CHANGED_BY,
    GATED_LABEL,
    IN_FLIGHT,
    LEDGER_LABEL,
    PINNED,
    POD_TEMPLATE_HASH,
    RESUMED_BY,
)
from gatewright_operator.errors import Refused
from gatewright_operator.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    GATE_CONTRACTS,
    GATE_ORDERS,
    GATE_REVIEWS,
    GATE_RUNS,
    HTTPROUTES,
    METRIC_SOURCES,
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    NAMESPACES,
    PODS,
    REPLICASETS,
    ROLLOUTS,
    SERVICES,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
    Resource,
)
from gatewright_operator.workload import revision_of
from tests.property import sim_objects as objects
from tests.property.sim_api import OPERATOR, Object, SimApi
from tests.property.sim_objects import CANARY, NAME, NAMESPACE

START = datetime(2030, 1, 1, tzinfo=UTC)
DEVELOPER = "developer-a"
CONTROLLER = "kube-controller-manager"
OVERRIDER = "sre-on-call"
"""The one user with the verb `override`."""
STEP_SECONDS = 0.5
_POLICY_KINDS = {
    "mutating": MUTATING_POLICIES,
    "mutating-binding": MUTATING_BINDINGS,
    "validating": VALIDATING_POLICIES,
    "validating-binding": VALIDATING_BINDINGS,
}
REVISIONS = {v: revision_of({"spec": {"template": objects.template(v)}}) for v in ("v1", "v2", "v3", "crash")}


def paused(deployment: Object) -> bool:
    return bool(deployment["spec"].get("paused", False))


def admit(actor: str, old: Object, new: Object) -> Object:
    """P1 to P5 of the chart, for the actors of this simulation."""
    gated = "true" in ((o["metadata"].get("labels") or {}).get(GATED_LABEL) for o in (old, new))
    if actor in (OPERATOR, CONTROLLER) or not gated:
        return new
    new = copy.deepcopy(new)
    new["metadata"]["labels"] = {**(new["metadata"].get("labels") or {}), GATED_LABEL: "true"}
    marks = old["metadata"].get("annotations") or {}
    if new["spec"]["template"] != old["spec"]["template"]:
        if IN_FLIGHT in marks:
            raise Refused("Gatewright is rolling this Deployment out at this moment.", status=403)
        new["spec"]["paused"] = True
        new["metadata"].setdefault("annotations", {})[CHANGED_BY] = actor
    elif paused(old) and not paused(new):
        if actor != OVERRIDER:
            new["spec"]["paused"] = True
        elif PINNED in marks and PINNED in (new["metadata"].get("annotations") or {}):
            raise Refused("The stable Service is pinned to the old version.", status=403)
        else:
            new["metadata"].setdefault("annotations", {})[RESUMED_BY] = actor
    return new


@dataclass
class World:
    """One namespace. Everything that matters is in `api` or in plain fields, so `fork` is a true copy."""

    api: SimApi = field(init=False)
    now: datetime = START
    fingerprints: dict[str, str] = field(default_factory=dict)
    """What models and judges say of themselves, by name; nothing: their source is away."""
    _parsed: tuple[Object | None, Rollout | None] = (None, None)

    def __post_init__(self) -> None:
        self.api = SimApi(lambda: self.now, admit=admit)

    def fork(self) -> "World":
        other = World(now=self.now, fingerprints=dict(self.fingerprints))
        other.api = self.api.fork(lambda: other.now)
        return other

    # The stage

    def furnish(self, rollout: Object, version: str = "v1") -> None:
        """The service as it ran before, settled, and then its Rollout."""
        api = self.api
        api.create("admin", NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
        for kind, policy in objects.policies():
            api.create("admin", _POLICY_KINDS[kind], "", policy)
        # What proves who decides has stood for a while, when somebody first does.
        self.advance(60)
        api.create("admin", METRIC_SOURCES, "", objects.source())
        api.create("admin", GATE_CONTRACTS, NAMESPACE, objects.contract(watched=self.fingerprints))
        api.create(DEVELOPER, SERVICES, NAMESPACE, objects.service(NAME))
        api.create(DEVELOPER, SERVICES, NAMESPACE, objects.service(CANARY))
        api.create(DEVELOPER, HTTPROUTES, NAMESPACE, objects.route())
        body = objects.deployment()
        body["spec"]["template"] = objects.template(version)
        api.create(DEVELOPER, DEPLOYMENTS, NAMESPACE, body)
        while self.step():
            pass
        api.create(DEVELOPER, ROLLOUTS, NAMESPACE, rollout)

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    # What people do

    def deployment(self, name: str = NAME) -> Object | None:
        return self.api.get(DEPLOYMENTS, NAMESPACE, name)

    def rollout(self) -> Rollout | None:
        raw = self.api.get(ROLLOUTS, NAMESPACE, NAME)
        if raw is not None and self._parsed[0] is not raw:
            self._parsed = (raw, Rollout.model_validate(raw))
        return self._parsed[1] if raw is not None else None

    def push(self, version: str, *, user: str = DEVELOPER) -> None:
        """A new template, as `kubectl set image` or a GitOps sync would write it."""
        live = self.deployment()
        assert live is not None
        spec = live["spec"] | {"template": objects.template(version)}
        self.api.replace(user, DEPLOYMENTS, NAMESPACE, NAME, live | {"spec": spec})

    def override(self) -> None:
        """The emergency way of the guard: pin off, then un-paused by kubectl."""
        live = self.deployment()
        assert live is not None
        service = self.api.get(SERVICES, NAMESPACE, NAME)
        assert service is not None
        selector = {k: v for k, v in service["spec"]["selector"].items() if k != POD_TEMPLATE_HASH}
        self.api.replace(
            OVERRIDER, SERVICES, NAMESPACE, NAME, service | {"spec": service["spec"] | {"selector": selector}}
        )
        self.api.patch(
            OVERRIDER, DEPLOYMENTS, NAMESPACE, NAME,
            {"metadata": {"annotations": {PINNED: None}}, "spec": {"paused": None}},
        )  # fmt: skip

    def review(self, decision: str, **changes: Any) -> str:
        """A review of what is held now; `changes` replace fields of its spec."""
        rollout = self.rollout()
        assert rollout is not None
        assert rollout.status.hold is not None
        assert rollout.status.canary is not None
        hold = rollout.status.hold
        spec = {
            "rollout": NAME,
            "rolloutUID": rollout.metadata.uid,
            "run": hold.run,
            "revision": rollout.status.canary.revision,
            "step": hold.step,
            "evidenceDigest": hold.evidence_digest,
            "decision": decision,
            "reviewer": "reviewer-a",
            "reason": "looked at the errors, they are known",
            "worldSnapshot": hold.world_snapshot,
            "checks": list(hold.blocking),
            "expiresAt": format_time(self.now + timedelta(hours=1)),
        } | changes
        return self._say(GATE_REVIEWS, spec)

    def order(self, kind: str, revision: str | None = None, **changes: Any) -> str:
        rollout = self.rollout()
        assert rollout is not None
        status = rollout.status
        at_hand = (
            status.canary.revision if status.canary else status.rejected.revision if status.rejected else ""
        )
        spec = {
            "rollout": NAME,
            "rolloutUID": rollout.metadata.uid,
            "revision": revision or at_hand,
            "order": kind,
            "orderedBy": "sre-a",
            "reason": "because",
        } | changes
        return self._say(GATE_ORDERS, spec)

    def emergency(self, to: str, *, ignore_breach: bool = False, minutes: float = 30.0) -> str:
        """An order Override."""
        target = {"to": to, "ignoreBreach": ignore_breach}
        ends = format_time(self.now + timedelta(minutes=minutes))
        return self.order("Override", override=target, expiresAt=ends, orderedBy=OVERRIDER)

    def _say(self, resource: Resource, spec: Object) -> str:
        name = f"{NAME}-{resource.plural}-{len(self.api.all(resource))}"
        self.api.create("sre-a", resource, NAMESPACE, {"metadata": {"name": name}, "spec": spec})
        return name

    def outcome(self, resource: Resource, name: str) -> str:
        obj = self.api.get(resource, NAMESPACE, name)
        return str(((obj or {}).get("status") or {}).get("outcome", ""))

    def wipe_status(self) -> None:
        self.api.patch("admin", ROLLOUTS, NAMESPACE, NAME, {"status": None}, subresource="status")

    def set_weights(self, stable: int, canary: int, *, user: str = "other-controller") -> None:
        live = self.api.get(HTTPROUTES, NAMESPACE, NAME)
        assert live is not None
        route = copy.deepcopy(live)
        refs = route["spec"]["rules"][0]["backendRefs"]
        refs[0]["weight"], refs[1]["weight"] = stable, canary
        self.api.replace(user, HTTPROUTES, NAMESPACE, NAME, route)

    def touch(self, resource: Resource, name: str, note: str) -> None:
        """Somebody else's annotation: it changes the resourceVersion and nothing that concerns the operator."""
        namespace = "" if resource == NAMESPACES else NAMESPACE
        self.api.patch(
            "other-controller",
            resource,
            namespace,
            name,
            {"metadata": {"annotations": {"example.org/note": note}}},
        )

    # What can be read off

    def ledger(self) -> tuple[Entry, ...]:
        segments = []
        for raw in self.api.all(CONFIGMAPS, NAMESPACE, LEDGER_LABEL):
            index = segment_index(NAME, raw["metadata"]["name"])
            assert index is not None
            segments.append(Segment.of(index, raw.get("data"), sealed=bool(raw.get("immutable"))))
        return _verified(tuple(segments))

    def pods(self, selector: dict[str, str] | None = None) -> list[Object]:
        wanted = ",".join(f"{k}={v}" for k, v in (selector or {}).items())
        return self.api.all(PODS, NAMESPACE, wanted)

    def backend_pods(self, service: str) -> list[Object]:
        """Ready pods behind a Service."""
        raw = self.api.get(SERVICES, NAMESPACE, service)
        selector = (raw or {"spec": {}})["spec"].get("selector")
        return [p for p in self.pods(selector) if ready(p)] if selector else []

    def canary_weight(self) -> int:
        route = self.api.get(HTTPROUTES, NAMESPACE, NAME)
        assert route is not None
        return int(route["spec"]["rules"][0]["backendRefs"][1].get("weight", 1))

    # Controllers

    def step(self) -> bool:
        """One round of all controllers; False when there was nothing to do."""
        before = self.api.version
        self._collect_garbage()
        for raw in self.api.all(DEPLOYMENTS, NAMESPACE):
            self._roll(raw)
        for raw in self.api.all(REPLICASETS, NAMESPACE):
            self._fill(raw)
        for raw in self.api.all(DEPLOYMENTS, NAMESPACE):
            self._report(raw)
        self._accept_route()
        return self.api.version != before

    def _collect_garbage(self) -> None:
        alive = {obj["metadata"]["uid"] for obj in self.api.objects.values()}
        for (resource, namespace, name), obj in list(self.api.objects.items()):
            owners = obj["metadata"].get("ownerReferences")
            if owners and not any(o["uid"] in alive for o in owners):
                if resource == PODS:
                    self._end_pod(obj)
                else:
                    self.api.delete(CONTROLLER, resource, namespace, name)

    def _end_pod(self, pod: Object) -> None:
        """First terminating, a round later gone."""
        name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            self.api._remove(CONTROLLER, PODS, pod)
            return
        metadata = pod["metadata"] | {"deletionTimestamp": format_time(self.now), "finalizers": ["kubelet"]}
        self.api._store(CONTROLLER, "delete", PODS, pod, pod | {"metadata": metadata})
        assert self.api.get(PODS, NAMESPACE, name) is not None

    def _sets(self, deployment: Object) -> list[Object]:
        uid = deployment["metadata"]["uid"]
        return [
            r for r in self.api.all(REPLICASETS, NAMESPACE)
            if any(o["uid"] == uid for o in r["metadata"].get("ownerReferences", ()))
        ]  # fmt: skip

    def _roll(self, raw: Object) -> None:
        sets, wanted = self._sets(raw), raw["spec"].get("replicas", 1)
        digest = _hash(raw["spec"]["template"])
        new = next((r for r in sets if r["metadata"]["labels"][POD_TEMPLATE_HASH] == digest), None)
        alive = [r for r in sets if r["spec"]["replicas"] > 0]
        if paused(raw):
            target = (
                alive[0] if len(alive) == 1 else (new or (sets[-1] if sets else None)) if not alive else None
            )
            if target is not None:
                self._scale(target, wanted)
            return
        if new is None:
            new = self._make_set(raw, digest)
        old = [r for r in alive if r["metadata"]["uid"] != new["metadata"]["uid"]]
        if not old:
            self._scale(new, wanted)
            return
        # Surge by half, then as many old pods go as new ones are ready.
        have = len([p for p in self._pods_of(new) if ready(p)])
        self._scale(new, min(wanted, new["spec"]["replicas"] + max(1, wanted // 2)))
        for r in old:
            self._scale(r, max(0, wanted - have))

    def _make_set(self, deployment: Object, digest: str) -> Object:
        metadata = deployment["metadata"]
        tmpl = copy.deepcopy(deployment["spec"]["template"])
        labels = {**tmpl["metadata"].get("labels", {}), POD_TEMPLATE_HASH: digest}
        tmpl["metadata"]["labels"] = labels
        body = {
            "metadata": {
                "name": f"{metadata['name']}-{digest}",
                "labels": labels,
                "ownerReferences": [_owner(DEPLOYMENTS, metadata)],
            },
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": tmpl},
        }
        return self.api.create(CONTROLLER, REPLICASETS, NAMESPACE, body)

    def _scale(self, replica_set: Object, replicas: int) -> None:
        name = replica_set["metadata"]["name"]
        self.api.patch(CONTROLLER, REPLICASETS, NAMESPACE, name, {"spec": {"replicas": replicas}})

    def _pods_of(self, replica_set: Object) -> list[Object]:
        uid = replica_set["metadata"]["uid"]
        return [p for p in self.pods() if p["metadata"]["ownerReferences"][0]["uid"] == uid]

    def _fill(self, raw: Object) -> None:
        pods = self._pods_of(raw)
        for pod in pods:
            if "deletionTimestamp" in pod["metadata"]:
                self._end_pod(pod)
            elif not (pod.get("status") or {}):
                self._start_pod(pod)
        alive = [p for p in pods if "deletionTimestamp" not in p["metadata"]]
        for pod in alive[raw["spec"]["replicas"] :]:
            self._end_pod(pod)
        for _ in range(raw["spec"]["replicas"] - len(alive)):
            self.api.create(
                CONTROLLER, PODS, NAMESPACE,
                {
                    "metadata": {
                        "name": f"{raw['metadata']['name']}-{self.api.made:05x}",
                        "labels": raw["spec"]["template"]["metadata"]["labels"],
                        "ownerReferences": [_owner(REPLICASETS, raw["metadata"])],
                    },
                    "spec": raw["spec"]["template"]["spec"],
                },
            )  # fmt: skip
        count = {"replicas": len([p for p in self._pods_of(raw) if "deletionTimestamp" not in p["metadata"]])}
        self.api.patch(
            CONTROLLER, REPLICASETS, NAMESPACE, raw["metadata"]["name"], {"status": count}, "status"
        )

    def _start_pod(self, pod: Object) -> None:
        container = pod["spec"]["containers"][0]
        crashes = container["image"].endswith(":crash")
        status: Object = {"name": container["name"], "image": container["image"], "ready": not crashes}
        status["imageID"] = f"sha256:{hashlib.sha256(container['image'].encode()).hexdigest()}"
        if crashes:
            status |= {
                "restartCount": 3,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 1}},
            }
        condition = {"type": "Ready", "status": "False" if crashes else "True"}
        self.api.patch(
            CONTROLLER, PODS, NAMESPACE, pod["metadata"]["name"],
            {"status": {"conditions": [condition], "containerStatuses": [status]}}, "status",
        )  # fmt: skip

    def _report(self, raw: Object) -> None:
        digest = _hash(raw["spec"]["template"])
        pods = [
            p for r in self._sets(raw) for p in self._pods_of(r) if "deletionTimestamp" not in p["metadata"]
        ]
        good = len([p for p in pods if ready(p)])
        status = {
            "observedGeneration": raw["metadata"]["generation"],
            "replicas": len(pods),
            "updatedReplicas": len([p for p in pods if p["metadata"]["labels"][POD_TEMPLATE_HASH] == digest]),
            "readyReplicas": good,
            "availableReplicas": good,
        }
        self.api.patch(
            CONTROLLER, DEPLOYMENTS, NAMESPACE, raw["metadata"]["name"], {"status": status}, "status"
        )

    def _accept_route(self) -> None:
        route = self.api.get(HTTPROUTES, NAMESPACE, NAME)
        if route is None:
            return
        seen = {"status": "True", "observedGeneration": route["metadata"]["generation"]}
        conditions = [{"type": kind} | seen for kind in ("Accepted", "ResolvedRefs")]
        status = {"parents": [{"conditions": conditions}]}
        self.api.patch("gateway-controller", HTTPROUTES, NAMESPACE, NAME, {"status": status}, "status")


@lru_cache(maxsize=256)
def _verified(segments: tuple[Segment, ...]) -> tuple[Entry, ...]:
    ledger = Ledger.read(segments)
    assert ledger.broken is None, f"the ledger does not verify: {ledger.broken}"
    return ledger.entries


def version_of(pod: Object) -> str:
    """The revision that a pod runs."""
    return REVISIONS[pod["spec"]["containers"][0]["image"].rpartition(":")[2]]


def ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return "deletionTimestamp" not in pod["metadata"] and any(c["status"] == "True" for c in conditions)


def _hash(tmpl: Object) -> str:
    return hashlib.sha256(json.dumps(tmpl, sort_keys=True).encode()).hexdigest()[:9]


def _owner(resource: Resource, metadata: Object) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


Judge = Callable[["World", Object], str | None]
"""(world, GateRun) → PROMOTE, HOLD, ROLLBACK, or None: no verdict yet."""


def give_verdict(world: World, run: Object, decision: str, *, breach: bool = False) -> None:
    """Writes a verdict as the operator's own ticker would."""
    spec = run["spec"]
    name = run["metadata"]["name"]
    reasons = {"PROMOTE": "AllChecksPassed", "HOLD": "LowTraffic", "ROLLBACK": "BreachAbsolute"}
    verdict = {
        "decision": decision,
        "runId": name,
        "stage": spec["stage"],
        "step": spec["step"],
        "attempt": spec["attempt"],
        "startedAt": spec["clock"]["startsAt"],
        "finishedAt": format_time(world.now),
        "change": {
            "revision": spec["revision"],
            "contractDigest": spec["contractDigest"],
            "worldSnapshot": spec["worldSnapshot"],
        },
        "blocking": [] if decision == "PROMOTE" else ["http-success"],
        "evidenceDigest": "sha256:" + hashlib.sha256(f"{name}/{breach}".encode()).hexdigest(),
        "reason": reasons[decision],
        "message": f"The judge says {decision}.",
    }
    field_name = "breach" if breach else "verdict"
    world.api.patch(
        OPERATOR, GATE_RUNS, NAMESPACE, name,
        {"status": {"phase": "Decided", field_name: verdict}}, subresource="status",
    )  # fmt: skip
