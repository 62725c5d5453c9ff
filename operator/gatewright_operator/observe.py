"""Takes the picture that `plan` decides on: from the cache of what was watched, with a few reads where nothing is watched."""

import logging
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from gatewright_analysis.feasibility import findings
from gatewright_analysis.kinds.contract import GateContract, GateContractSpec
from gatewright_analysis.kinds.review import GateOrder, GateReview
from gatewright_analysis.kinds.rollout import Phase, Rollout
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.kinds.source import MetricSource
from gatewright_analysis.ledger import ContractTooLarge, canonical_contract
from gatewright_analysis.names import FIELD_MANAGER, REVISION_LABEL, ROLLOUT_LABEL
from gatewright_analysis.reasons import Reason
from gatewright_operator.api import Api
from gatewright_operator.apply import template_record_name
from gatewright_operator.authorise import Authoriser
from gatewright_operator.cache import Cache, Writer
from gatewright_operator.clock import Clock, utc_now
from gatewright_operator.guard import guard_gap
from gatewright_operator.ledger_store import LedgerStore
from gatewright_operator.plan.promote import STALLED_SECONDS
from gatewright_operator.plan.snapshot import (
    Authorised,
    CanaryPods,
    PinnedContract,
    Problem,
    RestoreTemplate,
    Snapshot,
)
from gatewright_operator.pods import summary
from gatewright_operator.resources import (
    CONTROLLER_REVISIONS,
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
)
from gatewright_operator.traffic.gateway_api import route_view
from gatewright_operator.traffic.services import ServiceView, service_view
from gatewright_operator.workload import (
    DeploymentView,
    ReplicaSetView,
    canary_manifest,
    canary_name,
    deployment_view,
    owned_by,
    replica_set_view,
    revision_of,
    template_of,
)
from gatewright_operator.world import World

log = logging.getLogger(__name__)

Json = dict[str, Any]


LABELS_FOR = timedelta(minutes=5)
"""How old a namespace's labels may be."""


class Observer:
    """Reads for one operator process."""

    def __init__(
        self,
        api: Api,
        cache: Cache,
        ledger: LedgerStore,
        authoriser: Authoriser,
        *,
        clock: Clock = utc_now,
    ) -> None:
        self._api = api
        self._clock = clock
        self._cache = cache
        self._ledger = ledger
        self._authoriser = authoriser
        self._namespace_labels: dict[str, tuple[datetime, dict[str, str]]] = {}

    async def observe(self, raw: Json) -> tuple[World, Snapshot]:
        """The world around one Rollout, and the picture of it. Raises ApiError when a read that is needed fails."""
        now = self._clock()
        rollout = Rollout.model_validate(raw)
        world = World(rollout=raw, parsed=rollout)
        namespace, workload = rollout.metadata.namespace, rollout.spec.workload_ref.name
        world.deployment = await self._deployment(namespace, workload)
        world.canary = self._cache.get(DEPLOYMENTS, namespace, canary_name(workload))
        deployment = deployment_view(world.deployment) if world.deployment else None
        pods = [
            p for p in self._cache.all(PODS, namespace) if _label(p, ROLLOUT_LABEL) == rollout.metadata.name
        ]
        if deployment is not None and not deployment.gated and world.canary is None:
            # Not adopted yet: a canary of somebody else's carries no label that is watched.
            world.canary = await self._api.get(DEPLOYMENTS, namespace, canary_name(workload))
        memory, broken = await self._ledger.memory(world)
        contract, contract_problem = self._contract(rollout)
        sources = {s.metadata.name: s for s in self._sources()}
        found: tuple[Problem, ...] = ()
        if contract is not None:
            labels = await self._labels(namespace)
            found = tuple(Problem(r, m) for r, m in findings(contract.spec, rollout.spec, sources, labels))
        status = rollout.status
        return world, Snapshot(
            now=now,
            rollout=rollout,
            contract=contract,
            pinned=self._pinned(world, contract),
            contract_problem=contract_problem,
            findings=found,
            rivals=self._rivals(rollout),
            services=tuple(service_view(s) for s in self._cache.all(SERVICES, namespace)),
            deployment=deployment,
            replica_sets=await self._replica_sets(rollout, deployment, has_canary=bool(world.canary or pods)),
            canary=deployment_view(world.canary) if world.canary else None,
            canary_manifest=canary_manifest(world.deployment, rollout.metadata.name)
            if world.deployment
            else None,
            pods=summary(pods),
            promoted=await self._promoted(rollout, deployment, now),
            runs=self._runs(rollout),
            waiting=await self._waiting(rollout),
            memory=memory,
            ledger_broken=broken,
            guarded=not self._guard_gap(),
            restore=await self._restore(world) if status.phase is Phase.RESTORING else None,
            namespace_terminating=await self._terminating(rollout),
            **self._traffic(world),
        )

    async def _deployment(self, namespace: str, name: str) -> Json | None:
        known = self._cache.get(DEPLOYMENTS, namespace, name)
        return known if known is not None else await self._api.get(DEPLOYMENTS, namespace, name)

    def _traffic(self, world: World) -> dict[str, Any]:
        gateway = world.parsed.spec.traffic.gateway_api
        if gateway is None:
            return {}
        namespace = world.namespace
        world.stable_service = self._cache.get(SERVICES, namespace, gateway.stable_service)
        world.canary_service = self._cache.get(SERVICES, namespace, gateway.canary_service)
        world.route = self._cache.get(HTTPROUTES, namespace, gateway.http_route)
        writers = self._cache.writers(HTTPROUTES, namespace, gateway.http_route)
        last = next((w for w in writers if not w.subresource), None)
        return {
            "stable_service": self._service(world.stable_service),
            "canary_service": self._service(world.canary_service),
            "route": route_view(
                world.route,
                stable=gateway.stable_service,
                canary=gateway.canary_service,
                last_writer=_other(writers),
                written_at=datetime.fromisoformat(last.at) if last is not None and last.at else None,
            )
            if world.route
            else None,
        }

    def _service(self, raw: Json | None) -> ServiceView | None:
        if raw is None:
            return None
        metadata = raw["metadata"]
        writers = self._cache.writers(SERVICES, metadata["namespace"], metadata["name"])
        return service_view(raw, last_writer=_other(writers))

    def _contract(self, rollout: Rollout) -> tuple[PinnedContract | None, Problem | None]:
        name = rollout.spec.contract_ref.name
        raw = self._cache.get(GATE_CONTRACTS, rollout.metadata.namespace, name)
        if raw is None:
            return None, Problem(
                Reason.CONTRACT_NOT_FOUND,
                f"GateContract {name} does not exist in {rollout.metadata.namespace}; create it or correct contractRef.",
            )
        try:
            parsed = GateContract.model_validate(raw)
            digest = canonical_contract(parsed.spec).digest
        except ContractTooLarge as error:
            return None, Problem(Reason.CONTRACT_TOO_LARGE, str(error))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            return None, Problem(Reason.CONTRACT_INVALID, f"GateContract {name}: {where}: {first['msg']}")
        return PinnedContract(name, parsed.metadata.generation, digest, parsed.spec), None

    def _pinned(self, world: World, present: PinnedContract | None) -> PinnedContract | None:
        canary = world.parsed.status.canary
        if canary is None or canary.contract_digest is None:
            return None
        if present is not None and present.digest == canary.contract_digest:
            return present
        return self.contract_by_digest(world.namespace, world.name, canary.contract_digest)

    def contract_by_digest(self, namespace: str, rollout: str, digest: str) -> PinnedContract | None:
        """A contract as the ledger keeps it; titles and hints are not part of it."""
        body = self._ledger.contract(namespace, rollout, digest)
        if body is None:
            return None
        return PinnedContract(
            body["name"], body["generation"], digest, GateContractSpec.model_validate(body["spec"])
        )

    def _sources(self) -> list[MetricSource]:
        found = []
        for raw in self._cache.all(METRIC_SOURCES):
            try:
                found.append(MetricSource.model_validate(raw))
            except ValidationError as error:
                log.warning(
                    "MetricSource does not parse",
                    extra={"source": raw["metadata"]["name"], "error": str(error)},
                )
        return found

    async def _labels(self, namespace: str) -> dict[str, str]:
        """Labels of a namespace, read again after a while: sources select namespaces by them."""
        known = self._namespace_labels.get(namespace)
        now = self._clock()
        if known is not None and now - known[0] < LABELS_FOR:
            return known[1]
        raw = await self._api.get(NAMESPACES, "", namespace)
        labels = (raw or {}).get("metadata", {}).get("labels") or {}
        self._namespace_labels[namespace] = (now, labels)
        return labels

    def _rivals(self, rollout: Rollout) -> tuple[str, ...]:
        """Older Rollouts for the same workload; raw objects, because there may be a thousand in the namespace."""
        ref = rollout.spec.workload_ref
        mine = (rollout.metadata.creation_timestamp, rollout.metadata.name)
        older = []
        for raw in self._cache.all(ROLLOUTS, rollout.metadata.namespace):
            metadata, theirs = raw["metadata"], raw["spec"]["workloadRef"]
            if metadata["uid"] == rollout.metadata.uid or theirs["name"] != ref.name:
                continue
            if theirs.get("kind", ref.kind) != ref.kind:
                continue
            age = datetime.fromisoformat(metadata["creationTimestamp"])
            if mine[0] is not None and (age, metadata["name"]) < mine:
                older.append(metadata["name"])
        return tuple(sorted(older))

    async def _replica_sets(
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
        turned = (
            status.phase is Phase.PROMOTING
            and status.canary is not None
            and deployment.revision != status.canary.revision
        )
        if not (status.phase is None or starting or closing or turned):
            return None
        labels = ",".join(f"{k}={v}" for k, v in deployment.selector.items())
        raws = await self._api.list(REPLICASETS, deployment.namespace, labels=labels)
        return tuple(replica_set_view(r) for r in raws if owned_by(r, deployment.uid))

    async def _promoted(
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
        raws = await self.pods_of(deployment)
        return summary(raws)

    async def pods_of(self, deployment: DeploymentView) -> list[Json]:
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

    def _runs(self, rollout: Rollout) -> dict[str, GateRun]:
        raws = self._cache.all(GATE_RUNS, rollout.metadata.namespace)
        mine = [r for r in raws if _label(r, ROLLOUT_LABEL) == rollout.metadata.name]
        canary = rollout.status.canary
        wanted = [r for r in mine if canary is not None and _label(r, REVISION_LABEL) == canary.revision]
        return {r["metadata"]["name"]: GateRun.model_validate(r) for r in wanted}

    async def _waiting(self, rollout: Rollout) -> tuple[Authorised, ...]:
        namespace, name = rollout.metadata.namespace, rollout.metadata.name
        found: list[tuple[str, Authorised]] = []
        for resource in (GATE_REVIEWS, GATE_ORDERS):
            for raw in self._cache.all(resource, namespace):
                if raw["spec"].get("rollout") != name or (raw.get("status") or {}).get("outcome"):
                    continue
                if resource is GATE_REVIEWS:
                    review = GateReview.model_validate(raw)
                    allowed = await self._authoriser.may_review(namespace, review)
                    found.append((raw["metadata"]["creationTimestamp"], Authorised(allowed, review=review)))
                else:
                    order = GateOrder.model_validate(raw)
                    allowed = await self._authoriser.may_order(namespace, order)
                    found.append((raw["metadata"]["creationTimestamp"], Authorised(allowed, order=order)))
        return tuple(one for _, one in sorted(found, key=lambda pair: pair[0]))

    def _guard_gap(self) -> str:
        return guard_gap(
            self._cache.all(MUTATING_POLICIES),
            self._cache.all(MUTATING_BINDINGS),
            self._cache.all(VALIDATING_POLICIES),
            self._cache.all(VALIDATING_BINDINGS),
        )

    async def _restore(self, world: World) -> RestoreTemplate | None:
        """The recorded template, as the API server defaults it today."""
        target = world.parsed.status.previous
        if target is None or world.deployment is None:
            return None
        name = template_record_name(world.name, target.revision)
        record = await self._api.get(CONTROLLER_REVISIONS, world.namespace, name)
        if record is None:
            return None
        body = {
            **world.deployment,
            "spec": {**world.deployment["spec"], "template": record["data"]["template"]},
        }
        answer = await self._api.replace(
            DEPLOYMENTS, world.namespace, world.deployment["metadata"]["name"], body, dry_run=True
        )
        return RestoreTemplate(template_of(answer), revision_of(answer))

    async def _terminating(self, rollout: Rollout) -> bool:
        if rollout.metadata.deletion_timestamp is None:
            return False
        raw = await self._api.get(NAMESPACES, "", rollout.metadata.namespace)
        return raw is None or "deletionTimestamp" in raw["metadata"]


def _other(writers: tuple[Writer, ...]) -> str:
    """Who beside us wrote last. Times are known to the second: ours may seem to be the last of two."""
    found = (w.manager for w in writers if not w.subresource and w.manager != FIELD_MANAGER)
    return next(found, "an unknown writer")


def _label(obj: Json, name: str) -> str:
    return str((obj["metadata"].get("labels") or {}).get(name, ""))
