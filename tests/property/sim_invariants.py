"""What must be true after every single write, whoever made it: section 1 of docs/explanation/design.md, on the simulated world.

Told of each change by the server; a broken promise is an AssertionError in the middle of the write that broke it.
"""

import copy
from datetime import timedelta
from typing import Any

from gatewright_analysis.kinds.base import format_time
from gatewright_analysis.ledger import Entry
from gatewright_analysis.names import (
    CHANGED_BY,
    DECISION,
    FINALIZER,
    GATED_LABEL,
    IN_FLIGHT,
    LEDGER_LABEL,
    PINNED,
    RESUMED_BY,
    REVISION_LABEL,
    ROLLOUT_LABEL,
)
from gatewright_operator.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    GATE_ORDERS,
    GATE_REVIEWS,
    GATE_RUNS,
    HTTPROUTES,
    PODS,
    ROLLOUTS,
    SERVICES,
    Resource,
)
from gatewright_operator.workload import revision_of
from tests.property.sim_api import OPERATOR, Change, Object
from tests.property.sim_objects import CANARY, NAME, NAMESPACE
from tests.property.sim_world import OVERRIDER, REVISIONS, World, paused, ready, version_of

PROPAGATION = timedelta(seconds=3)
MARKS = (DECISION, CHANGED_BY, RESUMED_BY, IN_FLIGHT, PINNED)
_BY_THE_WORLD = {"Superseded", "Reverted", "Deleted", "WorkloadNotFound", "StatusLost", "PodFailure"}
"""Reasons to go back that no verdict and no person gave; each is checked against the world."""


def plain(resource: Resource, obj: Object) -> Object:
    """An object without the fields that are documented as the operator's, and without what the server keeps."""
    metadata = {
        key: {k: v for k, v in obj["metadata"].get(key, {}).items() if k not in (*MARKS, GATED_LABEL)}
        for key in ("labels", "annotations")
    }
    spec = copy.deepcopy(obj["spec"])
    if resource == HTTPROUTES:
        for rule in spec["rules"]:
            for ref in rule["backendRefs"]:
                if ref["name"] in (NAME, CANARY):
                    del ref["weight"]
    elif resource == SERVICES:
        del spec["selector"]
    else:
        spec.pop("paused", None)
        del spec["template"]
    return {**metadata, "spec": spec}


class Invariants:
    """Watches one world from now on. `notes` are annotations that the test itself writes on foreign objects."""

    def __init__(self, world: World, *, before: "Invariants | None" = None) -> None:
        self.world = world
        self.promoted: set[str] = set(before.promoted) if before else {REVISIONS["v1"]}
        """Revisions that may run under the user's own Deployment."""
        self.positive_until = before.positive_until if before else None
        self.overridden = before.overridden if before else False
        self.wiped = before.wiped if before else False
        self.entries: tuple[Entry, ...] = before.entries if before else ()
        self._foreign = dict(before._foreign) if before else {}
        self._check = {
            HTTPROUTES: self._route,
            SERVICES: self._service,
            DEPLOYMENTS: self._deployment,
            PODS: self._pod,
            CONFIGMAPS: self._ledger,
        }
        if not before:
            for resource, name in (
                (HTTPROUTES, NAME),
                (SERVICES, NAME),
                (SERVICES, CANARY),
                (DEPLOYMENTS, NAME),
            ):
                self._learn(resource, world.api.get(resource, NAMESPACE, name))
            self.originals = {
                (resource, name): world.api.get(resource, NAMESPACE, name)
                for resource, name in ((HTTPROUTES, NAME), (SERVICES, NAME), (SERVICES, CANARY))
            }
        else:
            self.originals = before.originals
        world.api.watchers.append(self.told)

    def told(self, change: Change) -> None:
        check = self._check.get(change.resource)
        if change.resource == ROLLOUTS and change.actor == "admin":
            self.wiped = True
        if check is not None:
            check(change)

    # Traffic

    def _route(self, change: Change) -> None:
        self._bytes(change)
        if change.after is None or change.before is None:
            return
        weights = [r["spec"]["rules"][0]["backendRefs"][1]["weight"] for r in (change.before, change.after)]
        if weights[0] > 0 and weights[1] == 0:
            self.positive_until = self.world.now
        if change.actor == OPERATOR and weights[1] > weights[0]:
            self._raised(weights[1])
        if weights[1] > 0:
            self.endpoints()

    def _raised(self, weight: int) -> None:
        rollout = self.world.rollout()
        assert rollout is not None, "a weight was raised for a Rollout that is gone"
        canary = self.world.deployment(CANARY)
        assert canary is not None, "a weight was raised without a canary"
        revision = canary["metadata"]["labels"][REVISION_LABEL]
        wanted = [
            e for e in self.entries
            if e.key.kind == "WeightSet" and e.key.revision == revision and e.body["weight"] == weight
        ]  # fmt: skip
        assert wanted, f"weight {weight} for {revision} took effect before its entry stood in the ledger"
        self._still_open(revision, "raise a weight")
        assert not self.paused(revision), f"weight {weight} for {revision} rose while it was paused by order"
        self._passed_until(revision, int(wanted[-1].key.step))

    def _service(self, change: Change) -> None:
        self._bytes(change)

    def endpoints(self) -> None:
        """No request meets nobody, and none meets a version outside its weight."""
        behind = self.world.backend_pods(NAME)
        assert behind or self.world.deployment() is None, "the stable Service has no ready pod"
        for pod in behind:
            revision = version_of(pod)
            assert revision in self._may_serve(), (
                f"{pod['metadata']['name']} of {revision} is behind the stable Service"
            )
        route = self.world.api.get(HTTPROUTES, NAMESPACE, NAME)
        if route is None or self.world.canary_weight() == 0:
            return
        canary = self.world.backend_pods(CANARY)
        assert canary, f"the canary Service has weight {self.world.canary_weight()} and no ready pod"
        versions = {p["metadata"]["labels"].get(REVISION_LABEL) for p in canary}
        assert len(versions) == 1, f"pods of {versions} stand behind one canary Service"

    def _may_serve(self) -> set[str]:
        """With traffic by replicas the canary's pods stand beside stable's, once their share is in the ledger."""
        if self._gateway():
            return self.promoted
        return self.promoted | {e.key.revision for e in self.entries if e.key.kind == "WeightSet"}

    # Pods

    def _pod(self, change: Change) -> None:
        pod = change.after or change.before
        assert pod is not None
        ours = ROLLOUT_LABEL in pod["metadata"]["labels"]
        if change.before is None:
            revision = version_of(pod)
            assert ours or revision in self.promoted, (
                f"a pod of {revision} started, which nobody has promoted"
            )
        ending = change.after is not None and "deletionTimestamp" in change.after["metadata"]
        if ending and change.before is not None and ready(change.before):
            self._ending(pod, ours)

    def _ending(self, pod: Object, ours: bool) -> None:
        name = pod["metadata"]["name"]
        if not ours:
            rollout = self.world.rollout()
            deployment = self.world.deployment()
            if rollout is None or deployment is None or rollout.status.stable is None:
                return
            revision = version_of(pod)
            # Something else must have been promoted, or a promoted version be on its way back.
            assert revision_of(deployment) != revision and revision_of(deployment) in self.promoted, (
                f"{name} of {revision} serves, and ended before anything was promoted"
            )
        elif self.world.api.get(HTTPROUTES, NAMESPACE, NAME) is not None and self._gateway():
            assert self.world.canary_weight() == 0, (
                f"canary pod {name} ended at weight {self.world.canary_weight()}"
            )
            since = self.positive_until
            assert since is None or self.world.now >= since + PROPAGATION, (
                f"canary pod {name} ended {self.world.now - since} after its weight went: proxies still send to it"
            )

    def _gateway(self) -> bool:
        raw = self.world.api.get(ROLLOUTS, NAMESPACE, NAME)
        return raw is None or "gatewayAPI" in raw["spec"]["traffic"]

    # The user's Deployment

    def _deployment(self, change: Change) -> None:
        if change.name != NAME or change.before is None or change.after is None:
            return
        self._bytes(change)
        before, after = change.before, change.after
        if not (paused(before) and not paused(after)):
            return
        revision = revision_of(after)
        if change.actor == OVERRIDER:
            self.overridden = True
            self.promoted.add(revision)
            return
        assert change.actor == OPERATOR, f"{change.actor} un-paused a gated Deployment"
        assert revision in self.promoted, f"{revision} was un-paused, and no entry in the ledger promotes it"
        assert not self.paused(revision), f"{revision} was un-paused while it was paused by order"
        stable = self.world.api.get(SERVICES, NAMESPACE, NAME)
        assert stable is not None
        pinned = "pod-template-hash" in stable["spec"]["selector"]
        rollout = self.world.rollout()
        serving = rollout.status.stable.revision if rollout and rollout.status.stable else ""
        assert not pinned or revision == serving, (
            "un-paused while the stable Service is pinned to the old version"
        )

    # Foreign bytes

    def _learn(self, resource: Resource, obj: Object | None) -> None:
        if obj is not None:
            self._foreign[(resource, obj["metadata"]["name"])] = plain(resource, obj)

    def _bytes(self, change: Change) -> None:
        if change.after is None:
            return
        if change.actor != OPERATOR:
            self._learn(change.resource, change.after)
            return
        known, now = self._foreign.get((change.resource, change.name)), plain(change.resource, change.after)
        if change.resource == DEPLOYMENTS and known is not None:
            # Going back may grow stable to what it was; nothing else of it changes.
            assert now["spec"]["replicas"] >= known["spec"]["replicas"], "stable was shrunk"
            now["spec"]["replicas"] = known["spec"]["replicas"]
        assert now == known, f"{change.resource} {change.name}: the operator changed what is not its own"

    def at_rest(self) -> None:
        """After rollback, promotion or deletion: route, Services and Deployment as they were, and nothing of ours left."""
        for (resource, name), original in self.originals.items():
            live = self.world.api.get(resource, NAMESPACE, name)
            assert original is not None and live is not None
            assert live["spec"] == original["spec"], f"{resource} {name} is not as it was: {live['spec']}"
            assert plain(resource, live) == self._foreign[(resource, name)]
            left = [m for m in MARKS if m in live["metadata"].get("annotations", {})]
            assert not left, f"{resource} {name} still carries {left}"
        assert self.world.deployment(CANARY) is None, "the canary is still there"
        rollout = self.world.rollout()
        assert rollout is None or FINALIZER not in rollout.metadata.finalizers, "the finalizer is still on"
        deployment = self.world.deployment()
        if deployment is None:
            return
        wanted = {DECISION, CHANGED_BY} if rollout is not None else set()
        left = [m for m in MARKS if m in deployment["metadata"].get("annotations", {}) and m not in wanted]
        assert not left, f"the Deployment still carries {left}"
        if rollout is None:
            assert GATED_LABEL not in deployment["metadata"]["labels"], (
                "the Deployment is still gated, by nobody"
            )
        self.endpoints()

    # The ledger

    def _ledger(self, change: Change) -> None:
        labels = (change.after or {"metadata": {}})["metadata"].get("labels") or {}
        if LEDGER_LABEL not in labels:
            return
        known = len(self.entries)
        self.entries = self.world.ledger()
        keys = [e.key for e in self.entries]
        twice = {k for k in keys if keys.count(k) > 1}
        assert not twice, f"two entries with one key: {twice}"
        for entry in self.entries[known:]:
            self._entry(entry)

    def _entry(self, entry: Entry) -> None:
        match entry.key.kind:
            case "Verdict" | "Breach":
                self._given(entry)
            case "Review":
                self._said(GATE_REVIEWS, entry)
            case "Order":
                self._said(GATE_ORDERS, entry)
            case "Promoted":
                self._may_promote(entry)
            case "Back" | "Restoring":
                self._may_go_back(entry)

    def _given(self, entry: Entry) -> None:
        run = self.world.api.get(GATE_RUNS, NAMESPACE, entry.body["verdict"]["runId"])
        if run is None:
            assert self.world.rollout() is None, f"entry {entry.sequence} speaks of a run that is not there"
            return
        status = run["status"]
        said = status["breach"] if entry.key.kind == "Breach" else status.get("breach") or status["verdict"]
        assert entry.body["verdict"]["decision"] in (
            said["decision"],
            status.get("verdict", said)["decision"],
        )
        spec = run["spec"]
        assert (spec["revision"], spec["step"], spec["attempt"]) == (
            entry.key.revision, entry.key.step, entry.key.attempt,
        ), f"the verdict of {run['metadata']['name']} was entered under {entry.key}"  # fmt: skip

    def _said(self, resource: Resource, entry: Entry) -> None:
        found = next(
            (o for o in self.world.api.all(resource) if o["metadata"]["uid"] == entry.key.cause), None
        )
        assert found is not None, f"entry {entry.sequence} speaks of a {resource.kind} that is not there"
        assert entry.body["spec"]["reason"] == found["spec"]["reason"]
        assert found["spec"]["revision"] == entry.key.revision

    def paused(self, revision: str) -> bool:
        """A Pause of this version stands in the ledger, and no Resume, no Override and no end of it came after."""
        standing = False
        for entry in self.entries:
            if entry.key.kind == "Started":
                standing = standing and entry.key.revision == revision
            if entry.key.revision != revision:
                continue
            if entry.key.kind == "Order":
                order = entry.body["spec"]["order"]
                standing = order == "Pause" or (standing and order not in ("Resume", "Override"))
            elif entry.key.kind == "Back":
                standing = standing and entry.body["then"] == "Start"
            elif entry.key.kind in ("Overridden", "Completed", "Restored"):
                standing = False
        return standing

    def _sent_on(self, revision: str) -> list[tuple[int, int]]:
        """Overrides of a version to a step, as (from, to)."""
        return [
            (int(e.key.step), int(to))
            for e in self.entries
            if e.key.kind == "Order" and e.key.revision == revision and e.body["spec"]["order"] == "Override"
            and (to := e.body["spec"]["override"]["to"]) != "Promote"
        ]  # fmt: skip

    def _passed(self, revision: str, step: int) -> bool:
        if any(start <= step < to for start, to in self._sent_on(revision)):
            return True
        for entry in self.entries:
            if (entry.key.revision, entry.key.step) != (revision, str(step)):
                continue
            if entry.key.kind == "Verdict" and entry.body["verdict"]["decision"] == "PROMOTE":
                return True
            if entry.key.kind == "Review" and entry.body["spec"]["decision"] == "Approve":
                return True
        return False

    def _passed_until(self, revision: str, step: int) -> None:
        """Every gate before `step` let the version on: its verdict, or a person's approval, stands in the ledger."""
        rollout = self.world.rollout()
        assert rollout is not None
        missing = [
            index for index, one in enumerate(rollout.spec.steps[:step])
            if one.gate is not None and not self._passed(revision, index)
        ]  # fmt: skip
        assert not missing, f"{revision} went on without a PROMOTE or an approval at the gates {missing}"

    def _still_open(self, revision: str, what: str) -> None:
        """The last word in the ledger about this version is not that it goes back."""
        for entry in reversed(self.entries):
            if entry.key.revision != revision:
                continue
            assert entry.key.kind not in ("Back", "RolledBack", "Restoring", "Restored", "Completed"), (
                f"to {what} for {revision} after {entry.key.kind} stands in the ledger"
            )
            return

    def _may_promote(self, entry: Entry) -> None:
        rollout, deployment = self.world.rollout(), self.world.deployment()
        assert rollout is not None
        assert deployment is not None
        assert not self.paused(entry.key.revision), (
            f"{entry.key.revision} was promoted while it was paused by order"
        )
        if entry.body["reason"] == "Overridden":
            assert self.overridden or self._ordered_promotion(entry), "promoted as overridden, and nobody did"
        else:
            self._passed_until(entry.key.revision, len(rollout.spec.steps))
        self.promoted.add(entry.key.revision)

    def _ordered_promotion(self, promoted: Entry) -> bool:
        """An Override to Promote stands in the ledger ahead of the promotion."""
        return any(
            e.key.kind == "Order" and e.key.revision == promoted.key.revision and e.sequence < promoted.sequence
            and e.body["spec"].get("override", {}).get("to") == "Promote"
            for e in self.entries
        )  # fmt: skip

    def _let_be(self, revision: str) -> bool:
        """An Override that lets breaches be is in force."""
        return any(
            e.key.kind == "Order" and e.key.revision == revision and e.body["spec"].get("override", {}).get("ignoreBreach")
            and format_time(self.world.now) < e.body["spec"]["expiresAt"]
            for e in self.entries
        )  # fmt: skip

    def _may_go_back(self, entry: Entry) -> None:
        """Rollback needs a breach, a person, or a world in which going on means nothing."""
        reason, revision = entry.body.get("reason", entry.key.cause), entry.key.revision
        if self.world.rollout() is None and entry.key.kind == "Restoring":
            return
        if reason in _BY_THE_WORLD:
            self._world_turned(reason, revision)
            return
        if reason == "HoldTimedOut":
            breached = [v for v in self._verdicts(revision) if any(c.get("breach") for c in v["checks"])]
            assert breached, f"{entry.key.kind} of {revision} by the clock, and no breach was proven"
            return
        decisions = {
            **{v["decision"]: True for v in self._verdicts(revision)},
            **{o["spec"].get("decision") or o["spec"]["order"]: True for o in self._decisions(revision)},
        }
        wanted = {"Rejected": "Reject", "Aborted": "Abort", "Retried": "Retry"}.get(reason, "ROLLBACK")
        assert wanted != "ROLLBACK" or not self._let_be(revision), (
            f"{revision} rolled back under an Override that lets breaches be"
        )
        assert wanted in decisions, f"{entry.key.kind} of {revision} for {reason}, and there is no {wanted}"

    def _world_turned(self, reason: str, revision: str) -> None:
        rollout, deployment = self.world.rollout(), self.world.deployment()
        present = revision_of(deployment) if deployment else ""
        true = {
            "Deleted": rollout is None or rollout.metadata.deletion_timestamp is not None,
            "WorkloadNotFound": deployment is None,
            "StatusLost": self.wiped,
            "Superseded": present != revision,
            "Reverted": present != revision,
            "PodFailure": any(not ready(p) and "crash" in str(p["spec"]) for p in self.world.pods()),
        }
        assert true[reason], f"{revision} goes back as {reason}, and that is not so"

    def _verdicts(self, revision: str) -> list[dict[str, Any]]:
        runs = [r for r in self.world.api.all(GATE_RUNS) if r["spec"]["revision"] == revision]
        return [v for r in runs for k in ("verdict", "breach") if (v := (r.get("status") or {}).get(k))]

    def _decisions(self, revision: str) -> list[Object]:
        said = self.world.api.all(GATE_REVIEWS) + self.world.api.all(GATE_ORDERS)
        return [o for o in said if o["spec"]["revision"] == revision]
