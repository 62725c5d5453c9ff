"""The world around the operator, crude and quick: controllers, gateway, admission, people, and a judge who follows a script."""

import copy
import hashlib
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from gatewright_analysis.kinds.base import format_time
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.ledger import digest_of_json
from gatewright_analysis.names import (
    CHANGED_BY,
    DECISION,
    GATED_LABEL,
    IN_FLIGHT,
    PINNED,
    POD_TEMPLATE_HASH,
    ROLLOUT_LABEL,
)
from gatewright_analysis.verdict import Change, Decision, Verdict
from gatewright_operator.errors import Refused
from gatewright_operator.guard import MUTATING, VALIDATING
from gatewright_operator.resources import (
    DEPLOYMENTS,
    GATE_CONTRACTS,
    GATE_ORDERS,
    GATE_REVIEWS,
    GATE_RUNS,
    HTTPROUTES,
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
from gatewright_operator.workload import owned_by, revision_of
from tests.property.rollouts.server import OPERATOR, Object, SimServer, clone

NS = "shop"
NAME = "checkout"
CANARY = "checkout-canary"
CONTROLLER = "system:serviceaccount:kube-system:deployment-controller"
DEVELOPER = "developer"
SRE = "sre-1"

GATE: Object = {"warmup": "0s", "duration": "10s", "window": "5s", "interval": "5s"}
STEPS: tuple[Object, ...] = (
    {"setWeight": 10},
    {"gate": GATE},
    {"pause": {"duration": "2s"}},
    {"setWeight": 50},
    {"gate": GATE},
)
Judge = Callable[[GateRun], Decision | None]


def template(tag: str) -> Object:
    return {
        "metadata": {"labels": {"app": "checkout"}, "annotations": {"shop/scrape": "true"}},
        "spec": {"containers": [{"name": "app", "image": f"shop/checkout:{tag}"}]},
    }


def revision(tag: str) -> str:
    return version_of({"spec": {"template": template(tag)}})


_VERSIONS: dict[str, str] = {}


def version_of(obj: Object) -> str:
    """The revision of a Deployment, a ReplicaSet or a simulated pod; templates here differ by their image alone."""
    image = obj["spec"]["template"]["spec"]["containers"][0]["image"]
    if image not in _VERSIONS:
        _VERSIONS[image] = revision_of(obj)
    return _VERSIONS[image]


def _promote(run: GateRun) -> Decision | None:
    return Decision.PROMOTE


class SimWorld:
    """The namespace `shop` with the Deployment `checkout` at v1, and everybody who acts there but the operator."""

    def __init__(
        self,
        *,
        traffic: str = "gatewayAPI",
        steps: tuple[Object, ...] = STEPS,
        bake: Object | None = GATE,
        third_backend: bool = False,
        replicas: int = 2,
        hold: Object | None = None,
    ) -> None:
        self.server = SimServer()
        self.server.admission = self._admit
        self.traffic = traffic
        self.steps = steps
        self.bake = bake
        self.guard = True
        self.overriders: set[str] = set()
        self.broken: set[str] = set()
        """Revisions whose pods never become ready."""
        self.judge: Judge = _promote
        self.names = 0
        self.pods_were_touched = False
        """A person took pods away, or asked for fewer."""
        self._still_at = -1
        """Version of the server at which no controller has anything to do."""
        create = self._create
        create(NAMESPACES, {"metadata": {"name": NS}})
        create(DEPLOYMENTS, self.deployment_manifest(replicas))
        create(SERVICES, self._service("checkout", {"app": "checkout"}))
        create(SERVICES, self._service(CANARY, {"app": "checkout", "track": "canary"}))
        create(HTTPROUTES, self._route(third_backend))
        create(GATE_CONTRACTS, self._contract(hold))
        self.put_guard()
        for _ in range(3):
            self.step()
        create(ROLLOUTS, self.rollout_manifest())
        named = ((SERVICES, "checkout"), (SERVICES, CANARY), (HTTPROUTES, NAME), (DEPLOYMENTS, NAME))
        self.originals = {(r, n): self.server.get(r, NS, n) for r, n in named}

    def fork(self) -> "SimWorld":
        """The same world at the same moment, to go on in another way."""
        twin = copy.copy(self)
        twin.server = self.server.fork()
        twin.server.admission = twin._admit
        twin.overriders, twin.broken = set(self.overriders), set(self.broken)
        return twin

    # ---- what users wrote

    def _create(self, resource: Resource, body: Object, user: str = SRE) -> Object:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        return self.server.create(user, resource, NS if resource.namespaced else "", body)

    def deployment_manifest(self, replicas: int, tag: str = "v1") -> Object:
        return {
            "metadata": {
                "name": NAME,
                "labels": {"app": "checkout"},
                "annotations": {"shop/owner": "payments"},
            },
            "spec": {
                "replicas": replicas,
                "revisionHistoryLimit": 10,
                "strategy": {"type": "RollingUpdate"},
                "selector": {"matchLabels": {"app": "checkout"}},
                "template": template(tag),
            },
        }

    def _service(self, name: str, selector: dict[str, str]) -> Object:
        return {
            "metadata": {"name": name, "annotations": {"shop/note": "hands off"}},
            "spec": {"selector": selector, "ports": [{"port": 80}]},
        }

    def _route(self, third_backend: bool) -> Object:
        pair: list[Object] = [
            {"name": NAME, "port": 80, "weight": 100},
            {"name": CANARY, "port": 80, "weight": 0},
        ]
        if third_backend:
            pair = [{**pair[0], "weight": 180}, pair[1], {"name": "legacy", "port": 80, "weight": 20}]
        other = [{"name": NAME, "port": 80}, {"name": "legacy", "port": 80, "weight": 3}]
        return {
            "metadata": {"name": NAME, "annotations": {"shop/route": "public"}},
            "spec": {
                "rules": [
                    {"matches": [{"path": {"value": "/"}}], "backendRefs": pair},
                    {"matches": [{"path": {"value": "/api"}}], "backendRefs": clone(pair)},
                    {"matches": [{"path": {"value": "/old"}}], "backendRefs": other},
                ]
            },
        }

    def _contract(self, hold: Object | None) -> Object:
        check = {
            "id": "healthy",
            "oracleKind": "Deterministic",
            "evidence": [{"stages": ["Canary", "Bake"], "pods": {}}],
        }
        return {"metadata": {"name": NAME}, "spec": {"checks": [check], "hold": hold or {}}}

    def rollout_manifest(self) -> Object:
        gateway = {"httpRoute": NAME, "stableService": NAME, "canaryService": CANARY}
        spec: Object = {
            "workloadRef": {"name": NAME},
            "contractRef": {"name": NAME},
            "traffic": {self.traffic: gateway if self.traffic == "gatewayAPI" else {}},
            "steps": list(self.steps),
        }
        if self.bake is not None:
            spec["bake"] = self.bake
        return {"metadata": {"name": NAME, "annotations": {"shop/team": "sre"}}, "spec": spec}

    def put_guard(self) -> None:
        chart = {"app.kubernetes.io/name": "gatewright"}
        for names, policies, bindings in (
            (MUTATING, MUTATING_POLICIES, MUTATING_BINDINGS),
            (VALIDATING, VALIDATING_POLICIES, VALIDATING_BINDINGS),
        ):
            for name in names:
                metadata = {"name": name, "labels": chart}
                self._create(policies, {"metadata": metadata, "spec": {"failurePolicy": "Fail"}})
                spec = {"policyName": name, "validationActions": ["Deny"]}
                self._create(bindings, {"metadata": metadata, "spec": spec})
        self.guard = True

    def take_guard_away(self) -> None:
        for resource in (MUTATING_POLICIES, MUTATING_BINDINGS, VALIDATING_POLICIES, VALIDATING_BINDINGS):
            for obj in self.server.list(resource):
                self.server.delete(SRE, resource, "", obj["metadata"]["name"])
        self.guard = False

    # ---- what is there

    @property
    def rollout(self) -> Object | None:
        return self.server.get(ROLLOUTS, NS, NAME)

    @property
    def status(self) -> Object:
        return (self.rollout or {}).get("status") or {}

    @property
    def phase(self) -> str | None:
        found = self.status.get("phase")
        return None if found is None else str(found)

    @property
    def deployment(self) -> Object:
        found = self.server.get(DEPLOYMENTS, NS, NAME)
        assert found is not None, "the Deployment is gone"
        return found

    @property
    def route(self) -> Object:
        found = self.server.get(HTTPROUTES, NS, NAME)
        assert found is not None, "the route is gone"
        return found

    def runs(self) -> list[GateRun]:
        return [GateRun.model_validate(r) for r in self.server.list(GATE_RUNS, NS)]

    # ---- what people do

    def set_image(self, tag: str, user: str = DEVELOPER) -> None:
        self.server.patch(user, DEPLOYMENTS, NS, NAME, {"spec": {"template": template(tag)}})

    def resume(self, user: str) -> None:
        self.server.patch(user, DEPLOYMENTS, NS, NAME, {"spec": {"paused": None}})

    def scale(self, replicas: int) -> None:
        if replicas < self.deployment["spec"]["replicas"]:
            self.pods_were_touched = True
        self.server.patch(DEVELOPER, DEPLOYMENTS, NS, NAME, {"spec": {"replicas": replicas}})

    def set_weights(self, stable: int, canary: int, rule: int = 0) -> None:
        route = clone(self.route)
        refs = route["spec"]["rules"][rule]["backendRefs"]
        refs[0]["weight"], refs[1]["weight"] = stable, canary
        self.server.replace(DEVELOPER, HTTPROUTES, NS, NAME, route)

    def touch(self, resource: Resource, name: str) -> None:
        """Somebody else writes to an object, so that its resourceVersion is another."""
        self.names += 1
        note = {"metadata": {"annotations": {"shop/touched": str(self.names)}}}
        self.server.patch(DEVELOPER, resource, NS, name, note)

    def delete_rollout(self) -> None:
        self.server.delete(SRE, ROLLOUTS, NS, NAME)

    def create_rollout(self) -> None:
        self._create(ROLLOUTS, self.rollout_manifest())

    def wipe_status(self) -> None:
        rollout = self.rollout
        assert rollout is not None
        self.server.replace(OPERATOR, ROLLOUTS, NS, NAME, rollout | {"status": {}}, subresource="status")

    def review(self, decision: str, *, expires_in_seconds: float = 3600, **changes: Any) -> str:
        """A review of what is held now, or, with `changes`, of something else."""
        assert self.rollout is not None
        hold = self.status["hold"]
        spec = {
            "rollout": NAME,
            "rolloutUID": self.rollout["metadata"]["uid"],
            "run": hold["run"],
            "revision": self.status["canary"]["revision"],
            "step": hold["step"],
            "evidenceDigest": hold["evidenceDigest"],
            "decision": decision,
            "reviewer": SRE,
            "reason": "looked at it",
            **changes,
        }
        if decision == "Approve":
            spec["expiresAt"] = format_time(self.server.now + timedelta(seconds=expires_in_seconds))
        return self._decision(GATE_REVIEWS, spec)

    def order(self, kind: str, revision: str, **changes: Any) -> str:
        spec = {
            "rollout": NAME,
            "rolloutUID": self.rollout["metadata"]["uid"] if self.rollout else "uid-gone",
            "revision": revision,
            "order": kind,
            "orderedBy": SRE,
            "reason": "it must be",
            **changes,
        }
        return self._decision(GATE_ORDERS, spec)

    def _decision(self, resource: Resource, spec: Object) -> str:
        self.names += 1
        name = f"{resource.plural}-{self.names}"
        self._create(resource, {"metadata": {"name": name}, "spec": spec})
        return name

    def outcome(self, name: str) -> tuple[str, str]:
        """(outcome, reason) of a review or an order; empty while nobody has answered."""
        resource = GATE_REVIEWS if name.startswith(GATE_REVIEWS.plural) else GATE_ORDERS
        found = self.server.get(resource, NS, name)
        assert found is not None
        status = found.get("status") or {}
        return status.get("outcome", ""), status.get("reason", "")

    # ---- admission

    def _admit(self, user: str, resource: Resource, old: Object | None, new: Object) -> None:
        if resource != DEPLOYMENTS or old is None or not self.guard or user in (OPERATOR, CONTROLLER):
            return
        labels = [(o["metadata"].get("labels") or {}).get(GATED_LABEL) for o in (old, new)]
        if "true" not in labels:
            return
        before = old["metadata"].get("annotations") or {}
        new["metadata"].setdefault("labels", {})[GATED_LABEL] = "true"
        if old["spec"]["template"] != new["spec"]["template"]:
            if IN_FLIGHT in before:
                raise Refused("Gatewright is rolling this Deployment out at this moment.", status=422)
            new["spec"]["paused"] = True
            new["metadata"].setdefault("annotations", {})[CHANGED_BY] = user
        elif old["spec"].get("paused") and not new["spec"].get("paused"):
            if PINNED in before:
                raise Refused("The stable Service is pinned to the old version.", status=422)
            if user not in self.overriders:
                new["spec"]["paused"] = True
        marks = new["metadata"].get("annotations") or {}
        for mark in (DECISION, IN_FLIGHT, PINNED):
            if before.get(mark) != marks.get(mark):
                raise Refused("The marks are the operator's.", status=422)

    # ---- controllers

    def step(self, seconds: float = 1.0) -> None:
        """A second passes, and every controller does the next thing."""
        self.server.pass_time(seconds)
        before = self.server.version
        if before == self._still_at:
            return
        self._collect_garbage()
        self._ready_pods()
        self._accept_routes()
        self._write_verdicts()
        for deployment in self.server.list(DEPLOYMENTS, NS):
            self._deploy(deployment)
        for replica_set in self.server.list(REPLICASETS, NS):
            self._replicate(replica_set)
        self._report()
        waits_for_time = any("status" not in p for p in self.server.list(PODS, NS)) or any(
            run.status.verdict is None for run in self.runs()
        )
        if before == self.server.version and not waits_for_time:
            self._still_at = before

    def _collect_garbage(self) -> None:
        gone = True
        while gone:
            uids = {obj["metadata"]["uid"] for _, obj in self.server.all()}
            gone = False
            for resource, obj in self.server.all():
                owners = obj["metadata"].get("ownerReferences") or ()
                if owners and not any(o["uid"] in uids for o in owners):
                    self.server.delete(CONTROLLER, resource, NS, obj["metadata"]["name"])
                    gone = True

    def _ready_pods(self) -> None:
        for pod in self.server.list(PODS, NS):
            age = self.server.now - datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
            if "status" in pod or age < timedelta(seconds=1) or version_of(pod) in self.broken:
                continue
            image = pod["spec"]["template"]["spec"]["containers"][0]["image"]
            container = {"name": "app", "image": image, "imageID": f"sha256:{image}", "ready": True}
            ready = [{"type": "Ready", "status": "True"}]
            self._report_on(PODS, pod, {"conditions": ready, "containerStatuses": [container]})

    def _accept_routes(self) -> None:
        for route in self.server.list(HTTPROUTES, NS):
            seen = route["metadata"]["generation"]
            conditions = [
                {"type": kind, "status": "True", "observedGeneration": seen}
                for kind in ("Accepted", "ResolvedRefs")
            ]
            self._report_on(HTTPROUTES, route, {"parents": [{"conditions": conditions}]})

    def sets_of(self, deployment: Object) -> list[Object]:
        return [r for r in self.server.list(REPLICASETS, NS) if owned_by(r, deployment["metadata"]["uid"])]

    def _deploy(self, deployment: Object) -> None:
        """Paused: heals and scales what is there. Else: the template's ReplicaSet, one pod more at a time."""
        wanted = deployment["spec"].get("replicas", 1)
        sets = self.sets_of(deployment)
        new = next((r for r in sets if version_of(r) == version_of(deployment)), None)
        live = [r for r in sets if r["spec"]["replicas"] > 0]
        if deployment["spec"].get("paused"):
            if len(live) > 1:
                return
            # Kubernetes starts the template's set, else the newest, never mind which one served before.
            one = live[0] if live else new or (sets[-1] if sets else None)
            if one is not None:
                self._resize(one, wanted)
            return
        if new is None:
            new = self._make_set(deployment, 0 if live else wanted)
        old = [r for r in live if r["metadata"]["uid"] != new["metadata"]["uid"]]
        if not old:
            self._resize(new, wanted)
            return
        size, ready = new["spec"]["replicas"], self._ready_of(new)
        total = sum(r["spec"]["replicas"] for r in old) + size
        if ready >= size > 0 and (size >= wanted or total > wanted):
            self._resize(old[0], old[0]["spec"]["replicas"] - 1)
        elif size < wanted and total <= wanted:
            self._resize(new, size + 1)

    def _make_set(self, deployment: Object, replicas: int) -> Object:
        metadata, spec = deployment["metadata"], deployment["spec"]
        text = json.dumps(spec["template"], sort_keys=True)
        hash_ = hashlib.sha256(text.encode()).hexdigest()[:8]
        labels = {**spec["template"]["metadata"]["labels"], POD_TEMPLATE_HASH: hash_}
        made = clone(spec["template"])
        made["metadata"]["labels"] = labels
        owner = {"kind": "Deployment", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
        body = {
            "metadata": {
                "name": f"{metadata['name']}-{hash_}",
                "labels": labels,
                "ownerReferences": [owner],
            },
            "spec": {"replicas": replicas, "template": made},
        }
        return self._create(REPLICASETS, body, CONTROLLER)

    def _resize(self, replica_set: Object, replicas: int) -> None:
        name = replica_set["metadata"]["name"]
        self.server.patch(CONTROLLER, REPLICASETS, NS, name, {"spec": {"replicas": replicas}})

    def pods_of(self, replica_set: Object) -> list[Object]:
        return [p for p in self.server.list(PODS, NS) if owned_by(p, replica_set["metadata"]["uid"])]

    def _ready_of(self, replica_set: Object) -> int:
        return sum(1 for p in self.pods_of(replica_set) if "status" in p)

    def _replicate(self, replica_set: Object) -> None:
        pods, wanted = self.pods_of(replica_set), replica_set["spec"]["replicas"]
        for _ in range(wanted - len(pods)):
            self.names += 1
            owner = {"kind": "ReplicaSet", "uid": replica_set["metadata"]["uid"], "controller": True}
            made = replica_set["spec"]["template"]
            body = {
                "metadata": {
                    "name": f"{replica_set['metadata']['name']}-{self.names:05d}",
                    "labels": made["metadata"]["labels"],
                    "ownerReferences": [owner],
                },
                "spec": {"template": made},
            }
            self._create(PODS, body, CONTROLLER)
        # Pods that are not ready go first, then the oldest.
        for pod in sorted(pods, key=lambda p: "status" in p)[: max(0, len(pods) - wanted)]:
            self.server.delete(CONTROLLER, PODS, NS, pod["metadata"]["name"])

    def _report(self) -> None:
        for replica_set in self.server.list(REPLICASETS, NS):
            self._report_on(REPLICASETS, replica_set, {"replicas": len(self.pods_of(replica_set))})
        for deployment in self.server.list(DEPLOYMENTS, NS):
            sets = self.sets_of(deployment)
            new = [r for r in sets if version_of(r) == version_of(deployment)]
            ready = sum(self._ready_of(r) for r in sets)
            counts = {
                "observedGeneration": deployment["metadata"]["generation"],
                "replicas": sum(len(self.pods_of(r)) for r in sets),
                "updatedReplicas": sum(len(self.pods_of(r)) for r in new),
                "readyReplicas": ready,
                "availableReplicas": ready,
            }
            self._report_on(DEPLOYMENTS, deployment, counts)

    def _report_on(self, resource: Resource, obj: Object, status: Object) -> None:
        if obj.get("status") != status:
            name, body = obj["metadata"]["name"], {**obj, "status": status}
            self.server.replace(CONTROLLER, resource, NS, name, body, subresource="status")

    # ---- the judge

    def _write_verdicts(self) -> None:
        """Every run gets the verdict of the script, also one that nobody waits for any more."""
        for run in self.runs():
            if run.status.verdict is None and self.server.now >= run.spec.clock.starts_at:
                decision = self.judge(run)
                if decision is not None:
                    self.give(run, decision)

    def give(self, run: GateRun, decision: Decision, *, as_breach: bool = False, **changes: Any) -> None:
        """Writes a verdict (or a breach after one) into a GateRun, as the operator's ticker would."""
        name = run.metadata.name
        reasons = {Decision.ROLLBACK: "BreachAbsolute", Decision.HOLD: "LowTraffic"}
        verdict = Verdict(
            decision=decision,
            run_id=name,
            stage=run.spec.stage,
            step=run.spec.step,
            attempt=run.spec.attempt,
            started_at=run.spec.clock.starts_at,
            finished_at=self.server.now,
            change=Change(
                revision=run.spec.revision,
                contract_digest=run.spec.contract_digest,
                world_snapshot=run.spec.world_snapshot,
            ),
            blocking=() if decision is Decision.PROMOTE else ("healthy",),
            evidence_digest=digest_of_json([name, decision]),
            reason=reasons.get(decision, "AllChecksPassed"),
            message=f"{decision} by the script",
        ).model_copy(update=changes)
        status = {"breach" if as_breach else "verdict": verdict.wire(), "phase": "Decided"}
        self.server.patch(OPERATOR, GATE_RUNS, NS, name, {"status": status}, subresource="status")

    # ---- what users meet

    def endpoints(self, service: str) -> list[Object]:
        """Ready pods behind a Service."""
        found = self.server.get(SERVICES, NS, service)
        selector = (found or {"spec": {}})["spec"].get("selector") or {}
        return [
            p
            for p in self.server.list(PODS, NS)
            if selector
            and "status" in p
            and all(p["metadata"]["labels"].get(k) == v for k, v in selector.items())
        ]

    def shares(self) -> list[tuple[int, int]]:
        """(stable, canary) weights of each rule that has both."""
        found = []
        for rule in self.route["spec"]["rules"]:
            weights = {r["name"]: r["weight"] for r in rule["backendRefs"]}
            if NAME in weights and CANARY in weights:
                found.append((weights[NAME], weights[CANARY]))
        return found

    def canary_percent(self) -> int:
        return max((round(100 * c / (s + c)) if s + c else 0 for s, c in self.shares()), default=0)


def is_canary(pod: Object) -> bool:
    return ROLLOUT_LABEL in pod["metadata"]["labels"]
