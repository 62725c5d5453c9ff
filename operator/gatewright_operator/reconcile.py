"""Observe, plan, apply: what a worker does with a key."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from gatewright_analysis.kinds.rollout import RolloutStatus
from gatewright_analysis.reasons import Reason
from gatewright_operator.api import Api
from gatewright_operator.apply import Applier
from gatewright_operator.authorise import Authoriser
from gatewright_operator.cache import Cache
from gatewright_operator.clock import Clock, utc_now
from gatewright_operator.errors import ApiError, LedgerUnwritable
from gatewright_operator.forecast import Forecasts
from gatewright_operator.hold_metrics import forget_hold, measure_hold
from gatewright_operator.keys import Key
from gatewright_operator.ledger_store import LedgerStore
from gatewright_operator.metrics import Metrics
from gatewright_operator.observe import Observer
from gatewright_operator.orphans import release_orphans
from gatewright_operator.plan.actions import Plan
from gatewright_operator.plan.conditions import finished
from gatewright_operator.plan.core import plan
from gatewright_operator.plan.reach import waivers_active
from gatewright_operator.plan.snapshot import Snapshot
from gatewright_operator.posting import Recorder
from gatewright_operator.queue import WorkQueue
from gatewright_operator.resources import GATE_RUNS, ROLLOUTS
from gatewright_operator.runs import RunTicker
from gatewright_operator.shipped import AS_THE_CHART, Controllers
from gatewright_operator.world import World

log = logging.getLogger(__name__)

Json = dict[str, Any]

MAX_TRANSITIONS = 12
"""Transitions in one reconcile; then the key goes back into the queue, so that one Rollout never keeps a worker."""


class Reconciler:
    """One per term of leadership; holds nothing that a restart could not work out again."""

    def __init__(
        self,
        *,
        api: Api,
        cache: Cache,
        recorder: Recorder,
        metrics: Metrics,
        ticker: RunTicker,
        forecasts: Forecasts | None = None,
        queue: WorkQueue[Key] | None = None,
        clock: Clock = utc_now,
        controllers: Controllers = AS_THE_CHART,
    ) -> None:
        """`forecasts` and `queue` go together; without them nothing is said of the traffic."""
        self._cache = cache
        self._api = api
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock
        self._ledger = LedgerStore(api, clock=clock)
        self._observer = Observer(
            api, cache, self._ledger, Authoriser(api), ticker.watch, clock=clock, controllers=controllers
        )
        self._applier = Applier(api, cache, self._ledger, recorder)
        self._ticker = ticker
        self._forecasts = forecasts
        self._queue = queue
        ticker.contract_by_digest = self._observer.contracts.by_digest
        ticker.draws = self._ledger.draws

    async def __call__(self, key: Key) -> float | None:
        """Seconds until the key is due again, None when only an event makes it so."""
        match key.kind:
            case "rollout":
                return await self._rollout(key)
            case "run":
                return await self._run(key)
            case "source":
                return await self._ticker.health.check(key.name, self._clock())
            case "forecast":
                return await self._forecast(key)
            case "workload":
                await release_orphans(self._api, self._cache, self._recorder, key.namespace)
                return None

    async def _rollout(self, key: Key) -> float | None:
        for _ in range(MAX_TRANSITIONS):
            raw = self._cache.get(ROLLOUTS, key.namespace, key.name)
            if raw is None:
                self._ledger.forget(key.namespace, key.name)
                if self._forecasts is not None:
                    self._forecasts.forget(key.namespace, key.name)
                forget_hold(self._metrics, key.namespace, key.name)
                self._metrics.waivers_active.remove(namespace=key.namespace, rollout=key.name)
                await release_orphans(self._api, self._cache, self._recorder, key.namespace)
                return None
            try:
                world, snapshot = await self._observer.observe(raw)
            except ValidationError as error:
                log.error("Rollout does not parse", extra={"key": str(key), "error": str(error)})
                return None
            if self._forecasts is not None:
                snapshot = replace(snapshot, forecast=self._forecasts.known(snapshot))
            todo = plan(snapshot)
            await self._apply(world, snapshot, todo)
            if not todo.again:
                self._ask_forecast(key, snapshot)
                return todo.requeue_seconds
        return 0.0

    def _ask_forecast(self, key: Key, snapshot: Snapshot) -> None:
        """With a key of its own: a source that hangs delays no Rollout."""
        if self._forecasts is None or self._queue is None:
            return
        due = self._forecasts.due_in(snapshot)
        if due is not None:
            self._queue.add_after(Key("forecast", key.namespace, key.name), due)

    async def _forecast(self, key: Key) -> float | None:
        raw = self._cache.get(ROLLOUTS, key.namespace, key.name)
        if raw is None or self._forecasts is None or self._queue is None:
            return None
        try:
            _, snapshot = await self._observer.observe(raw)
        except ValidationError:
            return None
        due = self._forecasts.due_in(snapshot)
        if due is None or due > 0:
            return due
        if await self._forecasts.ask(snapshot):
            self._queue.add(Key("rollout", key.namespace, key.name))
        return self._forecasts.due_in(snapshot)

    async def _apply(self, world: World, snapshot: Snapshot, todo: Plan) -> None:
        status = finished(snapshot, todo)
        try:
            await self._applier.apply(world, todo, status)
        except LedgerUnwritable as error:
            await self._report_ledger(world, snapshot, error)
            raise
        if status is not None and todo.actions:
            log.info(
                "transition",
                extra={
                    "rollout": world.name,
                    "namespace": world.namespace,
                    "phase": status.phase,
                    "did": status.message,
                },
            )
        self._measure(world, snapshot, todo, status)
        self._wake_watched(snapshot, status)

    def _wake_watched(self, snapshot: Snapshot, status: RolloutStatus | None) -> None:
        """A run that has its verdict looks for breaches again from the moment at which a Pause names it."""
        paused = status.paused if status is not None else None
        if (
            paused is None
            or not paused.run
            or self._queue is None
            or paused == snapshot.rollout.status.paused
        ):
            return
        self._queue.add(Key("run", snapshot.rollout.metadata.namespace, paused.run))

    async def _report_ledger(self, world: World, snapshot: Snapshot, error: ApiError) -> None:
        """What stops a promotion must be seen where people look, even when it is the API server's own trouble."""
        message = f"Nothing goes on until the ledger can be written: {error.message}"
        waiting = Plan(
            (),
            snapshot.rollout.status.model_copy(update={"message": message[:1024]}),
            None,
            Reason.LEDGER_UNWRITABLE,
        )
        try:
            await self._applier.apply(world, waiting, finished(snapshot, waiting))
        except ApiError:
            log.warning("the status cannot be written either", extra={"rollout": world.name})

    def _measure(self, world: World, snapshot: Snapshot, todo: Plan, status: RolloutStatus | None) -> None:
        names = {"namespace": world.namespace, "rollout": world.name}
        if status is None:
            return
        measure_hold(self._metrics, snapshot, todo, status)
        self._metrics.waivers_active.set(len(waivers_active(snapshot)), **names)
        self._metrics.ledger_sequence.set(self._ledger.head(world.namespace, world.name).sequence, **names)

    async def _run(self, key: Key) -> float | None:
        raw = self._cache.get(GATE_RUNS, key.namespace, key.name)
        if raw is None:
            self._ticker.forget(key)
            return None
        return await self._ticker.tick(key, raw)


def build(
    *,
    api: Api,
    cache: Cache,
    queue: WorkQueue[Key],
    recorder: Recorder,
    metrics: Metrics,
    namespace: str,
    identity: str,
    controllers: Controllers = AS_THE_CHART,
) -> Callable[[Key], Awaitable[float | None]]:
    """The reconcile function of one term."""
    ticker = RunTicker(api=api, cache=cache, queue=queue, metrics=metrics, namespace=namespace)
    return Reconciler(
        api=api,
        cache=cache,
        recorder=recorder,
        metrics=metrics,
        ticker=ticker,
        forecasts=ticker.forecasts,
        queue=queue,
        controllers=controllers,
    )
