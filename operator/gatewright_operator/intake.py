"""Where everything that is seen comes in: into the cache, and as keys into the queue."""

import logging
import random
from collections.abc import Callable
from time import monotonic
from typing import Any

from gatewright_analysis.names import GATED_LABEL
from gatewright_operator.api import Listing
from gatewright_operator.cache import Cache
from gatewright_operator.keys import Key, Kind, RolloutIndex, key_of
from gatewright_operator.metrics import Metrics
from gatewright_operator.queue import WorkQueue
from gatewright_operator.resources import DEPLOYMENTS, GATE_RUNS, METRIC_SOURCES, ROLLOUTS, Resource

log = logging.getLogger(__name__)

Object = dict[str, Any]

_KEYED: dict[Resource, Kind] = {ROLLOUTS: "rollout", GATE_RUNS: "run", METRIC_SOURCES: "source"}


class Intake:
    """Takes in what watches and re-lists tell. All methods are called on the event loop that the workers run
    on."""

    def __init__(
        self,
        cache: Cache,
        queue: WorkQueue[Key],
        metrics: Metrics,
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._metrics = metrics
        self._clock = clock
        self._index = RolloutIndex()
        self._closed = False
        self._last = clock()

    @property
    def age_seconds(self) -> float:
        """Seconds since anything was told: an event, or a complete re-list."""
        return self._clock() - self._last

    def close(self) -> None:
        """Take in nothing more: a watch that is still on its way out speaks to nobody."""
        self._closed = True

    def changed(self, resource: Resource, obj: Object, *, listed: bool = False) -> None:
        """A watch says that an object is new or changed, or (`listed`) that it is there as the watch
        starts."""
        if self._closed:
            return
        self._seen(resource)
        if self._cache.put(resource, obj):
            self._take(resource, obj)
        # The answer to our own write came first. Its keys are woken all the same: who wrote may not be who
        # waits for it.
        elif not listed and self._is_news_of_own_write(resource, obj):
            self._wake(resource, obj)

    def gone(self, resource: Resource, obj: Object) -> None:
        """A watch says that an object is deleted, or no longer selected."""
        if self._closed:
            return
        self._seen(resource)
        if self._cache.drop(resource, obj):
            self._take_away(resource, obj)

    def relisted(self, resource: Resource, listing: Listing, *, namespace: str | None, first: bool) -> None:
        """A complete listing (of one namespace, or of all): repairs what the watches missed.

        On the `first` one everything is new and nothing was missed.
        """
        if self._closed:
            return
        relist = self._cache.replace_all(
            resource, listing.items, namespace=namespace, resource_version=listing.resource_version
        )
        for obj in relist.changed:
            self._take(resource, obj)
        for obj in relist.gone:
            self._take_away(resource, obj)
        missed = len(relist.changed) + len(relist.gone)
        if missed and not first:
            self._metrics.missed_events.inc(missed, resource=resource.plural)
            log.info(
                "re-list found what no watch had told", extra={"resource": str(resource), "objects": missed}
            )

    def everything(self, *, spread_seconds: float) -> None:
        """Have every known Rollout, run and source reconciled, spread at random over some seconds; marks a
        full re-list."""
        self._last = self._clock()
        for resource, kind in _KEYED.items():
            for obj in self._cache.all(resource):
                self._queue.add_after(key_of(kind, obj), random.random() * spread_seconds)
        for obj in self._cache.all(DEPLOYMENTS):
            if (obj["metadata"].get("labels") or {}).get(GATED_LABEL) != "true":
                continue
            key = key_of("workload", obj)
            if not self._index.naming(DEPLOYMENTS, key.namespace, key.name):
                self._queue.add_after(key, random.random() * spread_seconds)

    def _is_news_of_own_write(self, resource: Resource, obj: Object) -> bool:
        known = self._cache.get(resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        return (
            known is not None and known["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]
        )

    def _take(self, resource: Resource, obj: Object) -> None:
        if resource == ROLLOUTS:
            self._index.put(obj)
        self._wake(resource, obj)

    def _take_away(self, resource: Resource, obj: Object) -> None:
        self._wake(resource, obj)
        if resource == ROLLOUTS:
            self._index.drop(obj)

    def _wake(self, resource: Resource, obj: Object) -> None:
        for key in self._index.concerned(resource, obj, runs=self._cache.all(GATE_RUNS)):
            self._queue.add(key)

    def _seen(self, resource: Resource) -> None:
        self._last = self._clock()
        self._metrics.watch_events.inc(resource=resource.plural)
