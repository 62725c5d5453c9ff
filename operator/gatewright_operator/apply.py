"""Carries a plan out: action by action, each write by compare-and-swap; then the status, then answers and Events.

A conflict ends it at once: the world is not the one that was planned from, so observe and plan again, never send again.
"""

import copy
import logging
from typing import Any, assert_never

from gatewright_analysis.kinds.rollout import RolloutStatus
from gatewright_analysis.names import (
    DECISION,
    FINALIZER,
    GATED_LABEL,
    GROUP,
    REVISION_LABEL,
    ROLLOUT_LABEL,
)
from gatewright_operator.api import Api
from gatewright_operator.cache import Cache
from gatewright_operator.errors import (
    AlreadyExists,
    Conflict,
    LedgerUnwritable,
    NotFound,
    NotLeading,
    Refused,
    Unavailable,
)
from gatewright_operator.ledger_store import LedgerStore
from gatewright_operator.plan import actions as a
from gatewright_operator.posting import Recorder
from gatewright_operator.resources import (
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    GATE_ORDERS,
    GATE_REVIEWS,
    GATE_RUNS,
    HTTPROUTES,
    REPLICASETS,
    ROLLOUTS,
    SERVICES,
    Resource,
)
from gatewright_operator.traffic.gateway_api import with_weights
from gatewright_operator.world import World

log = logging.getLogger(__name__)

Json = dict[str, Any]


def owner_reference(obj: Json, *, controller: bool = False) -> Json:
    """An ownerReference to `obj`, so that it takes what it owns with it."""
    return {
        "apiVersion": obj.get("apiVersion", f"{GROUP}/v1alpha1"),
        "kind": obj.get("kind", "Rollout"),
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": controller,
    }


def template_record_name(rollout: str, revision: str) -> str:
    return f"{rollout}-{revision}"


class Applier:
    """Writes on behalf of one operator process."""

    def __init__(self, api: Api, cache: Cache, ledger: LedgerStore, recorder: Recorder) -> None:
        self._api = api
        self._cache = cache
        self._ledger = ledger
        self._recorder = recorder
        self._stored: set[tuple[str, str]] = set()
        self._owed: dict[str, dict[tuple[str, str, int, str, str], a.Entry]] = {}
        """Entries that did not keep traffic on its way back waiting, by UID of the Rollout and key."""

    async def apply(self, world: World, plan: a.Plan, status: RolloutStatus | None) -> None:
        """Raises Conflict when the world moved, LedgerUnwritable when a promotion has to wait for its entry."""
        last = [action for action in plan.actions if isinstance(action, a.Answer | a.Emit)]
        for action in plan.actions:
            if not isinstance(action, a.Answer | a.Emit):
                await self._act(world, action)
        if status is not None:
            head = self._ledger.head(world.namespace, world.name)
            if head.head is not None:
                # One that could not be read or written just now keeps the head that was last known.
                status = status.model_copy(update={"ledger": head})
            if world.deployment is not None:
                # What the plan wrote itself is observed too: an annotation raises a Deployment's generation.
                generation = world.deployment["metadata"]["generation"]
                status = status.model_copy(update={"observed_workload_generation": generation})
            if status != world.parsed.status:
                await self._report(world, status)
        for action in last:
            await self._act(world, action)
        if not world.ledger_refused and self._owed.get(world.parsed.metadata.uid):
            await self._append(world, a.AppendLedger((), required=False))

    async def _act(self, world: World, action: a.Action) -> None:
        match action:
            case a.AppendLedger():
                await self._append(world, action)
            case a.PatchDeployment():
                await self._patch_deployment(world, action)
            case a.SetRoute():
                await self._set_route(world, action)
            case a.SetSelector():
                await self._set_selector(world, action)
            case a.CreateCanary(manifest):
                world.canary = await self._create(DEPLOYMENTS, world.namespace, manifest)
            case a.ScaleCanary(replicas):
                if world.canary is not None:
                    world.canary = await self._patch(
                        DEPLOYMENTS, world.canary, {"spec": {"replicas": replicas}}
                    )
            case a.DeleteCanary():
                if world.canary is not None:
                    metadata = world.canary["metadata"]
                    await self._api.delete(
                        DEPLOYMENTS, world.namespace, metadata["name"], uid=metadata["uid"]
                    )
            case a.DeleteReplicaSets(sets):
                for name, version in sets:
                    await self._api.delete(REPLICASETS, world.namespace, name, resource_version=version)
            case a.DeleteRuns(runs):
                for name, uid in runs:
                    await self._api.delete(GATE_RUNS, world.namespace, name, uid=uid)
            case a.StoreTemplate():
                await self._store_template(world, action)
            case a.CreateRun():
                await self._create_run(world, action)
            case a.SetFinalizer(present):
                await self._set_finalizer(world, present)
            case a.Answer():
                await self._answer(world, action)
            case a.Emit(warning, reason, message):
                self._recorder.event(
                    world.rollout, "Warning" if warning else "Normal", reason, message, "Rollout"
                )
            case _:
                assert_never(action)

    async def _append(self, world: World, action: a.AppendLedger) -> None:
        """What is owed comes first, marked `late`: entries stand in the order in which things happened."""
        uid = world.parsed.metadata.uid
        owed = self._owed.get(uid, {})
        try:
            if world.ledger_refused and not action.required:
                raise Unavailable("the ledger has just refused an entry")
            if owed:
                await self._ledger.append(
                    world, a.AppendLedger((*owed.values(),), action.required, late=True)
                )
                self._owed.pop(uid)
            if action.entries:
                await self._ledger.append(world, action)
        except (Conflict, NotLeading):
            raise
        except (Refused, Unavailable, NotFound, ValueError) as error:
            if action.required:
                raise LedgerUnwritable(str(error)) from error
            # Going back never waits for its entry.
            world.ledger_refused = True
            self._owed[uid] = owed | {entry.key: entry for entry in action.entries}
            log.warning(
                "ledger entry not written yet", extra={"rollout": world.name, "namespace": world.namespace}
            )

    async def _patch_deployment(self, world: World, action: a.PatchDeployment) -> None:
        if world.deployment is None:
            return
        try:
            if action.template is not None:
                world.deployment = await self._replace_template(world.deployment, action)
                return
            spec: Json = {}
            if action.paused is not None:
                spec["paused"] = action.paused or None
            if action.replicas is not None:
                spec["replicas"] = action.replicas
            metadata: Json = {}
            if action.annotations:
                metadata["annotations"] = dict(action.annotations)
            if action.labels:
                metadata["labels"] = dict(action.labels)
            body = ({"metadata": metadata} if metadata else {}) | ({"spec": spec} if spec else {})
            world.deployment = await self._patch(DEPLOYMENTS, world.deployment, body)
        except (Refused, Unavailable, NotFound) as error:
            if action.required:
                raise
            log.warning(
                "Deployment refuses the mark; traffic goes back all the same", extra={"error": str(error)}
            )

    async def _replace_template(self, deployment: Json, action: a.PatchDeployment) -> Json:
        """A whole replace: a merge patch could not take fields of the newer template away."""
        body = copy.deepcopy(deployment)
        body["spec"]["template"] = copy.deepcopy(action.template)
        body["spec"]["paused"] = bool(action.paused)
        annotations = body["metadata"].setdefault("annotations", {})
        for name, value in action.annotations.items():
            annotations.pop(name, None) if value is None else annotations.__setitem__(name, value)
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        return self._known(DEPLOYMENTS, await self._api.replace(DEPLOYMENTS, namespace, name, body))

    async def _set_route(self, world: World, action: a.SetRoute) -> None:
        gateway = world.parsed.spec.traffic.gateway_api
        if world.route is None or gateway is None:
            return
        body = with_weights(
            world.route,
            stable=gateway.stable_service,
            canary=gateway.canary_service,
            stable_weight=action.stable_weight,
            canary_weight=action.canary_weight,
            decision=action.decision,
        )
        body.pop("status", None)
        answer = await self._api.replace(HTTPROUTES, world.namespace, body["metadata"]["name"], body)
        world.route = self._known(HTTPROUTES, answer)

    async def _set_selector(self, world: World, action: a.SetSelector) -> None:
        service = world.stable_service if action.service == "stable" else world.canary_service
        if service is None:
            return
        present = service["spec"].get("selector") or {}
        selector: Json = {**dict.fromkeys(present.keys() - action.selector.keys()), **action.selector}
        body = {
            "metadata": {"annotations": {DECISION: action.decision}},
            "spec": {"selector": selector or None},
        }
        written = await self._patch(SERVICES, service, body)
        if action.service == "stable":
            world.stable_service = written
        else:
            world.canary_service = written

    async def _store_template(self, world: World, action: a.StoreTemplate) -> None:
        name = template_record_name(world.name, action.revision)
        if (world.namespace, name) in self._stored:
            return
        await self._create(
            CONTROLLER_REVISIONS,
            world.namespace,
            {
                "apiVersion": CONTROLLER_REVISIONS.api_version,
                "kind": CONTROLLER_REVISIONS.kind,
                "metadata": {
                    "name": name,
                    "namespace": world.namespace,
                    "labels": {ROLLOUT_LABEL: world.name, REVISION_LABEL: action.revision},
                    "ownerReferences": [owner_reference(world.rollout)],
                },
                "data": {"template": action.template},
                "revision": 1,
            },
        )
        self._stored.add((world.namespace, name))

    async def _create_run(self, world: World, action: a.CreateRun) -> None:
        body = {
            "apiVersion": GATE_RUNS.api_version,
            "kind": GATE_RUNS.kind,
            "metadata": {
                "name": action.name,
                "namespace": world.namespace,
                "labels": {ROLLOUT_LABEL: world.name, REVISION_LABEL: action.spec.revision},
                "ownerReferences": [owner_reference(world.rollout, controller=True)],
            },
            "spec": action.spec.wire(),
        }
        await self._create(GATE_RUNS, world.namespace, body)

    async def _set_finalizer(self, world: World, present: bool) -> None:
        finalizers = list(world.rollout["metadata"].get("finalizers") or ())
        if (FINALIZER in finalizers) == present:
            return
        wanted = [*finalizers, FINALIZER] if present else [f for f in finalizers if f != FINALIZER]
        try:
            world.rollout = await self._patch(
                ROLLOUTS, world.rollout, {"metadata": {"finalizers": wanted or None}}
            )
        except NotFound as error:
            if present:
                # Deleted since it was observed: nothing begins that nobody would end.
                raise Conflict(error.message, status=error.status) from error

    async def _answer(self, world: World, action: a.Answer) -> None:
        resource = GATE_REVIEWS if action.kind == "review" else GATE_ORDERS
        try:
            written = await self._api.patch(
                resource, world.namespace, action.name, {"status": action.status.wire()}, subresource="status"
            )
        except NotFound:
            return
        self._known(resource, written)

    async def _report(self, world: World, status: RolloutStatus) -> None:
        """The one place that writes a Rollout's status."""
        if world.rollout["metadata"].get("deletionTimestamp") and not world.rollout["metadata"].get(
            "finalizers"
        ):
            return
        body = {**world.rollout, "status": status.wire()}
        try:
            answer = await self._api.replace(
                ROLLOUTS, world.namespace, world.name, body, subresource="status"
            )
        except NotFound:
            return
        world.rollout = self._known(ROLLOUTS, answer)

    async def _patch(self, resource: Resource, obj: Json, body: Json) -> Json:
        metadata = obj["metadata"]
        answer = await self._api.patch(
            resource,
            metadata["namespace"],
            metadata["name"],
            body,
            resource_version=metadata["resourceVersion"],
        )
        return self._known(resource, answer)

    async def _create(self, resource: Resource, namespace: str, body: Json) -> Json | None:
        """A create has no precondition: one that was done before, by us before a crash, is as good."""
        try:
            answer = await self._api.create(resource, namespace, body)
        except AlreadyExists:
            return await self._api.get(resource, namespace, body["metadata"]["name"])
        return self._known(resource, answer)

    def _known(self, resource: Resource, answer: Json) -> Json:
        if resource == DEPLOYMENTS and GATED_LABEL not in (answer["metadata"].get("labels") or {}):
            # No longer watched: what the cache kept of it would never be brought up to date.
            self._cache.drop(resource, answer)
        elif resource != CONTROLLER_REVISIONS:
            self._cache.put(resource, answer)
        return answer
