"""The few reads that the watches don't give, each only where the phase needs it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from gatewright_analysis.kinds.policy import Fingerprint
from gatewright_analysis.kinds.rollout import Phase, Rollout
from gatewright_analysis.kinds.run import FingerprintValue, GateRun
from gatewright_operator.api import Api
from gatewright_operator.apply import template_record_name
from gatewright_operator.cache import Cache
from gatewright_operator.clock import Clock
from gatewright_operator.plan.fingerprints import pins_of
from gatewright_operator.plan.promote import STALLED_SECONDS
from gatewright_operator.plan.snapshot import (
    CanaryPods,
    Fingerprints,
    PinnedContract,
    Problem,
    RestoreTemplate,
)
from gatewright_operator.pods import summary
from gatewright_operator.resources import CONTROLLER_REVISIONS, DEPLOYMENTS, NAMESPACES, PODS, REPLICASETS
from gatewright_operator.workload import (
    DeploymentView,
    ReplicaSetView,
    owned_by,
    replica_set_view,
    revision_of,
    template_of,
)
from gatewright_operator.world import World
from gatewright_operator.world_watch import WorldWatch, drift_since, not_read

Json = dict[str, Any]

LABELS_FOR = timedelta(minutes=5)
"""How old a namespace's labels may be."""


class Lookups:
    """Reads from the API server. Each method raises ApiError when it is not to be had."""

    def __init__(self, api: Api, cache: Cache, clock: Clock, watch: WorldWatch) -> None:
        self._api = api
        self._cache = cache
        self._clock = clock
        self._watch = watch
        self._namespace_labels: dict[str, tuple[datetime, dict[str, str]]] = {}

    async def namespace_labels(self, namespace: str, *, fresh: bool = False) -> dict[str, str]:
        """Labels of a namespace, read again after a while, or now: sources select namespaces by them."""
        known = self._namespace_labels.get(namespace)
        now = self._clock()
        if known is not None and not fresh and now - known[0] < LABELS_FOR:
            return known[1]
        raw = await self._api.get(NAMESPACES, "", namespace)
        labels = (raw or {}).get("metadata", {}).get("labels") or {}
        self._namespace_labels[namespace] = (now, labels)
        return labels

    async def deployment(self, namespace: str, name: str) -> Json | None:
        """From the cache once it is gated; before that it is not watched."""
        known = self._cache.get(DEPLOYMENTS, namespace, name)
        return known if known is not None else await self._api.get(DEPLOYMENTS, namespace, name)

    async def replica_sets(
        self, rollout: Rollout, deployment: DeploymentView | None, *, has_canary: bool
    ) -> tuple[ReplicaSetView, ...] | None:
        """Looked up only where the phase needs them: to adopt, to start, and to close a rolling update."""
        if deployment is None:
            return None
        status = rollout.status
        starting = (
            status.phase in (Phase.IDLE, Phase.ROLLED_BACK)
            and status.stable is not None
            and deployment.revision != status.stable.revision
        )
        closing = status.phase in (Phase.PROMOTING, Phase.RESTORING) and deployment.settled and not has_canary
        going_to = {
            Phase.PROMOTING: (status.canary,),
            # Until its template is written back, the Deployment carries the version that failed.
            Phase.RESTORING: (status.canary, status.previous),
        }
        ours = {v.revision for v in going_to.get(status.phase or Phase.IDLE, ()) if v is not None}
        turned = status.phase in going_to and deployment.revision not in ours
        if not (status.phase is None or starting or closing or turned):
            return None
        labels = ",".join(f"{k}={v}" for k, v in deployment.selector.items())
        raws = await self._api.list(REPLICASETS, deployment.namespace, labels=labels)
        return tuple(replica_set_view(r) for r in raws if owned_by(r, deployment.uid))

    async def promoted(
        self, rollout: Rollout, deployment: DeploymentView | None, now: datetime
    ) -> CanaryPods:
        """Pods of the new version under the user's Deployment: at the start of the bake, and when promotion stalls."""
        status = rollout.status
        since = status.progress_at
        stalled = (
            status.phase is Phase.PROMOTING
            and since is not None
            and (now - since).total_seconds() >= STALLED_SECONDS
            and deployment is not None
            and not deployment.settled
        )
        baking = status.phase is Phase.BAKING and not status.run
        if deployment is None or not (stalled or baking):
            return CanaryPods()
        raws = await self._pods_of(deployment)
        return summary(raws)

    async def _pods_of(self, deployment: DeploymentView) -> list[Json]:
        """Pods of the Deployment's present template, by the ReplicaSet that the template matches."""
        labels = ",".join(f"{k}={v}" for k, v in deployment.selector.items())
        sets = await self._api.list(REPLICASETS, deployment.namespace, labels=labels)
        mine = {
            r["metadata"]["uid"]
            for r in sets
            if owned_by(r, deployment.uid) and revision_of(r) == deployment.revision
        }
        raws = await self._api.list(PODS, deployment.namespace, labels=labels)
        return [p for p in raws if any(owned_by(p, uid) for uid in mine)]

    async def fingerprints(
        self, rollout: Rollout, contract: PinnedContract | None, runs: Mapping[str, GateRun], *, asked: bool
    ) -> Fingerprints:
        """Models and judges: read where an attempt begins its first gate, compared wherever one goes on.

        `asked`: somebody's review waits. Whatever runs on its own is not delayed by a source that hangs: while
        a gate is judged, only what its looks have found is known here.
        """
        status, phase = rollout.status, rollout.status.phase
        wanted = () if contract is None else contract.spec.world.fingerprints
        if not wanted or phase not in (Phase.PROGRESSING, Phase.PAUSED, Phase.HELD, Phase.BAKING):
            return Fingerprints()
        pinned = pins_of(rollout.metadata.uid, status, runs)
        at_gate = status.current_step < len(rollout.spec.steps) and (
            rollout.spec.steps[status.current_step].gate is not None
        )
        if pinned is None:
            begins = phase is Phase.BAKING or (phase is Phase.PROGRESSING and at_gate)
            return await self._present(wanted) if begins else Fingerprints()
        run = runs.get(status.run)
        judging = phase is Phase.HELD or (run is not None and run.status.verdict is None)
        if judging and not asked:
            readings = self._watch.known(wanted)
        else:
            readings = await self._watch.read(wanted, self._clock())
        return Fingerprints(drifted=drift_since(pinned, readings))

    async def _present(self, wanted: tuple[Fingerprint, ...]) -> Fingerprints:
        """All values, or the first that is missing and why."""
        readings = await self._watch.read(wanted, self._clock())
        values = []
        for one in wanted:
            reading = readings.get(one.name)
            if reading is None or reading.read_at is None or reading.fault is not None:
                fault = not_read(one.name, reading)
                return Fingerprints(problem=Problem(fault.reason, f"{fault.detail.rstrip('.')}."))
            values.append(FingerprintValue(name=one.name, value=reading.value))
        return Fingerprints(values=tuple(values))

    async def restore(self, world: World) -> RestoreTemplate | None:
        """The recorded template, as the API server defaults it today."""
        target = world.parsed.status.previous
        if target is None or world.deployment is None:
            return None
        template = await self._template(world, world.deployment, target.revision)
        if template is None:
            return None
        body = {**world.deployment, "spec": {**world.deployment["spec"], "template": template}}
        answer = await self._api.replace(
            DEPLOYMENTS, world.namespace, world.deployment["metadata"]["name"], body, dry_run=True
        )
        return RestoreTemplate(template_of(answer), revision_of(answer))

    async def _template(self, world: World, deployment: Json, revision: str) -> Json | None:
        """A revision's template: its record, or its ReplicaSet where somebody deleted the record."""
        name = template_record_name(world.name, revision)
        record = await self._api.get(CONTROLLER_REVISIONS, world.namespace, name)
        if record is not None:
            recorded: Json = record["data"]["template"]
            return recorded
        selector = (deployment["spec"].get("selector") or {}).get("matchLabels") or {}
        labels = ",".join(f"{k}={v}" for k, v in selector.items())
        sets = await self._api.list(REPLICASETS, world.namespace, labels=labels)
        uid = deployment["metadata"]["uid"]
        found = (r for r in sets if owned_by(r, uid) and revision_of(r) == revision)
        return next((template_of(r) for r in found), None)

    async def terminating(self, rollout: Rollout) -> bool:
        """Whether the namespace of a Rollout that is being deleted goes with it."""
        if rollout.metadata.deletion_timestamp is None:
            return False
        raw = await self._api.get(NAMESPACES, "", rollout.metadata.namespace)
        return raw is None or "deletionTimestamp" in raw["metadata"]
