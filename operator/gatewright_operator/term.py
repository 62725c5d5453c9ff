"""One term of leadership: from the Lease won to the Lease lost or given up. Each starts with an empty cache
and queue.

Nothing that was remembered in an earlier term counts in a later one: another operator may have led in
between.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gatewright_operator.api import Api
from gatewright_operator.cache import Cache
from gatewright_operator.handlers import watch
from gatewright_operator.hold_metrics import oldest_hold_seconds
from gatewright_operator.intake import Intake
from gatewright_operator.keys import Key
from gatewright_operator.metrics import Metrics
from gatewright_operator.posting import Recorder
from gatewright_operator.probes import Vitals
from gatewright_operator.queue import WorkQueue
from gatewright_operator.resources import Resource
from gatewright_operator.resync import Resync
from gatewright_operator.thread import Restarting
from gatewright_operator.workers import Reconcile, Workers

log = logging.getLogger(__name__)

SINKS_DRAIN_SECONDS = 2.0
"""How long a notification on its way may take to arrive when a term ends; then the next operator repeats it."""


class Build(Protocol):
    """Makes the reconcile function of a term from the adapters (`gatewright_operator.reconcile.build`)."""

    def __call__(
        self,
        *,
        api: Api,
        cache: Cache,
        queue: WorkQueue[Key],
        recorder: Recorder,
        metrics: Metrics,
        namespace: str,
        identity: str,
    ) -> Reconcile: ...


@dataclass(frozen=True)
class TermOptions:
    """How a term works: namespaces watched (none: all), workers, seconds between full re-lists, the
    operator's namespace."""

    namespace: str
    namespaces: Sequence[str] = ()
    workers: int = 16
    resync_seconds: float = 300.0


class Term:
    """Cache, queue, watches, workers and Events of one leadership."""

    def __init__(
        self, api: Api, metrics: Metrics, build: Build, options: TermOptions, *, identity: str
    ) -> None:
        self._api = api
        self._metrics = metrics
        self._options = options
        self._identity = identity
        self._loop = asyncio.get_running_loop()
        self._filled = False
        cache = Cache()
        self._queue: WorkQueue[Key] = WorkQueue()
        self._recorder = Recorder(api, metrics, identity=identity)
        self._intake = Intake(cache, self._queue, metrics)
        self._resync = Resync(
            api, self._intake, namespaces=options.namespaces, interval_seconds=options.resync_seconds
        )
        # Here, not above: `main` has imported it by now, when --help had no need of it.
        from gatewright_operator.notify.notifier import Notifier

        self._notifier = Notifier(
            api=api,
            cache=cache,
            queue=self._queue,
            recorder=self._recorder,
            metrics=metrics,
            namespace=options.namespace,
        )
        self._watches = Restarting(self._watch, name="watches", on_restart=metrics.watch_restarts.inc)
        reconcile = build(
            api=api,
            cache=cache,
            queue=self._queue,
            recorder=self._recorder,
            metrics=metrics,
            namespace=options.namespace,
            identity=identity,
        )
        self._workers = Workers(self._queue, reconcile, metrics, count=options.workers)
        metrics.queue_due.read = lambda: float(self._queue.due_count)
        metrics.held_age.read = lambda: oldest_hold_seconds(metrics)

    async def run(self) -> None:
        """Fill the cache, then watch and work until cancelled.

        Nothing is decided on half a cache: the workers start when every kind was listed. The watches start
        before that, so that nothing falls between the listing and them.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._recorder.run(), name="events")
            self._watches.start()
            await self._resync.fill()
            self._filled = True
            log.info("cache filled; working", extra={"keys": self._queue.due_count})
            self._workers.start(tasks)
            tasks.create_task(self._notifier.run(), name="notifier")
            await self._resync.run()

    async def drain(self, seconds: float) -> bool:
        """Let running reconciles end, and cancel what has not ended in time.

        Returns False when some work would not end even so: then the process must.
        """
        # Sinks get less time than verdicts: whoever comes next waits for both.
        drained, _ = await asyncio.gather(
            self._workers.drain(seconds), self._notifier.drain(min(seconds, SINKS_DRAIN_SECONDS))
        )
        self._intake.close()
        return drained

    async def flush(self, seconds: float) -> None:
        """After `drain`: post the last Events."""
        await self._recorder.flush(seconds)

    async def end(self) -> None:
        """End the watches; `run` is cancelled by the caller afterwards."""
        if not await self._watches.stop(seconds=3.0):
            # They only read, and the intake no longer listens: harmless.
            log.info("the watches take long to end")

    def vitals(self) -> Vitals:
        """What the probes report."""
        return Vitals(
            filled=self._filled,
            watching=self._watches.running,
            watch_age_seconds=self._intake.age_seconds,
            oldest_due_seconds=self._queue.oldest_due_age(),
            oldest_processing_seconds=self._queue.oldest_processing_age(),
        )

    async def _watch(self, stop: asyncio.Event) -> None:
        await watch(
            self._api,
            self._saw,
            self._listed,
            namespaces=self._options.namespaces,
            identity=self._identity,
            stop=stop,
        )

    def _saw(self, resource: Resource, type_: str | None, obj: dict[str, Any]) -> None:
        """Called in the watches' thread: hand over to the workers' loop."""
        if self._loop.is_closed():
            return
        if type_ == "DELETED":
            self._loop.call_soon_threadsafe(self._gone, resource, obj)
        else:
            self._loop.call_soon_threadsafe(self._changed, resource, obj, type_ is None)

    def _listed(self, path: str) -> None:
        """Called in the watches' thread: a watch has begun with a listing."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._resync.watch_began, path)

    def _changed(self, resource: Resource, obj: dict[str, Any], listed: bool) -> None:
        self._intake.changed(resource, obj, listed=listed)
        self._notifier.saw(resource)

    def _gone(self, resource: Resource, obj: dict[str, Any]) -> None:
        self._intake.gone(resource, obj)
        self._notifier.saw(resource)
