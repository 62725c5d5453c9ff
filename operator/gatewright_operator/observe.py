"""Takes the picture that `plan` decides on: from the cache of what was watched, with a few reads where nothing is watched."""

import logging
from datetime import datetime
from typing import Any

from gatewright_analysis.kinds.review import GateOrder, GateReview
from gatewright_analysis.kinds.rollout import Phase, Rollout
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.names import FIELD_MANAGER, REVISION_LABEL, ROLLOUT_LABEL
from gatewright_analysis.reasons import Reason
from gatewright_operator.api import Api
from gatewright_operator.authorise import Authoriser
from gatewright_operator.cache import Cache, Writer
from gatewright_operator.clock import Clock, utc_now
from gatewright_operator.contracts import Contracts
from gatewright_operator.guard import Gaps, Guard, Installed
from gatewright_operator.keys import GUARD_POLICIES
from gatewright_operator.ledger_store import LedgerStore
from gatewright_operator.lookups import Lookups
from gatewright_operator.plan.snapshot import (
    Authorised,
    Problem,
    Snapshot,
)
from gatewright_operator.pods import summary
from gatewright_operator.resources import (
    DEPLOYMENTS,
    GATE_ORDERS,
    GATE_REVIEWS,
    GATE_RUNS,
    HTTPROUTES,
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    PODS,
    ROLLOUTS,
    SELF_SUBJECT_REVIEWS,
    SERVICES,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
    Resource,
)
from gatewright_operator.shipped import AS_THE_CHART, DECISION_POLICIES, Controllers, shipped
from gatewright_operator.source_health import source_states
from gatewright_operator.traffic.gateway_api import route_view
from gatewright_operator.traffic.services import ServiceView, service_view
from gatewright_operator.workload import (
    canary_manifest,
    canary_name,
    deployment_view,
)
from gatewright_operator.world import World
from gatewright_operator.world_watch import WorldWatch

log = logging.getLogger(__name__)

Json = dict[str, Any]


KEPT_RUNS = 60
"""GateRuns that a Rollout keeps, with their evidence: the last dozens of gates, to look at and to pool from."""


class Observer:
    """Reads for one operator process."""

    def __init__(
        self,
        api: Api,
        cache: Cache,
        ledger: LedgerStore,
        authoriser: Authoriser,
        watch: WorldWatch,
        *,
        clock: Clock = utc_now,
        controllers: Controllers = AS_THE_CHART,
    ) -> None:
        self._api = api
        self._controllers = controllers
        self._guard: Guard | None = None
        self._clock = clock
        self._cache = cache
        self._ledger = ledger
        self._authoriser = authoriser
        self._lookups = Lookups(api, cache, clock, watch)
        self.contracts = Contracts(cache, ledger)

    async def observe(self, raw: Json) -> tuple[World, Snapshot]:
        """The world around one Rollout, and the picture of it. Raises ApiError when a read that is needed fails."""
        now, look = self._clock(), self._lookups
        rollout = Rollout.model_validate(raw)
        world = World(rollout=raw, parsed=rollout)
        namespace, workload = rollout.metadata.namespace, rollout.spec.workload_ref.name
        world.deployment = await look.deployment(namespace, workload)
        world.canary = self._cache.get(DEPLOYMENTS, namespace, canary_name(workload))
        deployment = deployment_view(world.deployment) if world.deployment else None
        pods = [
            p for p in self._cache.all(PODS, namespace) if _label(p, ROLLOUT_LABEL) == rollout.metadata.name
        ]
        if deployment is not None and not deployment.gated and world.canary is None:
            # Not adopted yet: a canary of somebody else's carries no label that is watched.
            world.canary = await self._api.get(DEPLOYMENTS, namespace, canary_name(workload))
        memory, broken = await self._ledger.memory(world)
        contract, contract_problem = self.contracts.present(rollout)
        found: tuple[Problem, ...] = ()
        if contract is not None:
            found = self.contracts.findings(contract, rollout, await look.namespace_labels(namespace))
            if any(problem.reason is Reason.SOURCE_NOT_ALLOWED for problem in found):
                # Who lets a namespace in by a label expects that it counts.
                labels = await look.namespace_labels(namespace, fresh=True)
                found = self.contracts.findings(contract, rollout, labels)
        status, gaps = rollout.status, await self._gaps()
        pinned, runs, waiting = (
            self.contracts.pinned(world, contract),
            self._runs(rollout),
            await self._waiting(rollout, now),
        )
        return world, Snapshot(
            now=now,
            rollout=rollout,
            contract=contract,
            pinned=pinned,
            contract_problem=contract_problem,
            findings=found,
            rivals=self._rivals(rollout),
            services=tuple(service_view(s) for s in self._cache.all(SERVICES, namespace)),
            deployment=deployment,
            replica_sets=await look.replica_sets(rollout, deployment, has_canary=bool(world.canary or pods)),
            canary=deployment_view(world.canary) if world.canary else None,
            canary_manifest=canary_manifest(world.deployment, rollout.metadata.name)
            if world.deployment
            else None,
            pods=summary(pods),
            promoted=await look.promoted(rollout, deployment, now),
            fingerprints=await look.fingerprints(
                rollout, pinned, runs, asked=any(w.review is not None for w in waiting)
            ),
            runs=runs,
            old_runs=self._old_runs(rollout),
            sources=source_states(self._cache) if status.phase is Phase.HELD else {},
            waiting=waiting,
            memory=memory,
            ledger_broken=broken,
            guarded=not gaps.guard,
            guard_gap=gaps.guard,
            waivers_unavailable=gaps.decisions,
            proven_since=self._proven_since(),
            restore=await look.restore(world) if status.phase is Phase.RESTORING else None,
            namespace_terminating=await look.terminating(rollout),
            **self._traffic(world),
        )

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

    def _runs(self, rollout: Rollout) -> dict[str, GateRun]:
        raws = self._cache.all(GATE_RUNS, rollout.metadata.namespace)
        mine = [r for r in raws if _label(r, ROLLOUT_LABEL) == rollout.metadata.name]
        canary = rollout.status.canary
        wanted = [r for r in mine if canary is not None and _label(r, REVISION_LABEL) == canary.revision]
        return {r["metadata"]["name"]: GateRun.model_validate(r) for r in wanted}

    def _old_runs(self, rollout: Rollout) -> tuple[tuple[str, str], ...]:
        raws = [
            r["metadata"]
            for r in self._cache.all(GATE_RUNS, rollout.metadata.namespace)
            if _label(r, ROLLOUT_LABEL) == rollout.metadata.name
        ]
        newest_first = sorted(raws, key=lambda m: m["creationTimestamp"], reverse=True)
        return tuple((m["name"], m["uid"]) for m in newest_first[KEPT_RUNS:])

    async def _waiting(self, rollout: Rollout, now: datetime) -> tuple[Authorised, ...]:
        namespace, name = rollout.metadata.namespace, rollout.metadata.name
        found: list[tuple[str, Authorised]] = []
        for resource in (GATE_REVIEWS, GATE_ORDERS):
            for raw in await self._written(resource, rollout, now):
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

    async def _written(self, resource: Resource, rollout: Rollout, now: datetime) -> list[Json]:
        """Reviews or orders of the namespace. Where a time-out may revert they are read anew: what was written before it
        counts, though no watch has told of it yet."""
        namespace, hold = rollout.metadata.namespace, rollout.status.hold
        if hold is not None and hold.breach and hold.deadline <= now:
            return await self._api.list(resource, namespace)
        return list(self._cache.all(resource, namespace))

    async def _gaps(self) -> Gaps:
        """How the cluster's policies differ from the chart's; who the operator is there, the API server says."""
        if self._guard is None:
            body = {"apiVersion": SELF_SUBJECT_REVIEWS.api_version, "kind": SELF_SUBJECT_REVIEWS.kind}
            answer = await self._api.create(SELF_SUBJECT_REVIEWS, "", body)
            self._guard = Guard(shipped(answer["status"]["userInfo"]["username"], self._controllers))
        return self._guard.gaps(
            Installed(
                self._cache.all(MUTATING_POLICIES),
                self._cache.all(MUTATING_BINDINGS),
                self._cache.all(VALIDATING_POLICIES),
                self._cache.all(VALIDATING_BINDINGS),
            )
        )

    def _proven_since(self) -> datetime | None:
        """When the last of the policies that prove who decides, or of their bindings, was written."""
        found = []
        for resource in GUARD_POLICIES:
            for raw in self._cache.all(resource):
                metadata = raw["metadata"]
                if metadata["name"] in DECISION_POLICIES:
                    writers = self._cache.writers(resource, "", metadata["name"])
                    found.append(metadata.get("creationTimestamp", ""))
                    found += [w.at for w in writers if not w.subresource]
        return max((datetime.fromisoformat(at) for at in found if at), default=None)


def _other(writers: tuple[Writer, ...]) -> str:
    """Who beside us wrote last. Times are known to the second: ours may seem to be the last of two."""
    found = (w.manager for w in writers if not w.subresource and w.manager != FIELD_MANAGER)
    return next(found, "an unknown writer")


def _label(obj: Json, name: str) -> str:
    return str((obj["metadata"].get("labels") or {}).get(name, ""))
