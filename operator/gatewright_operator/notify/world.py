"""What stands, as the cache has it: Rollouts and MetricSources as notices, worked out anew only where they changed."""

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import Any

from pydantic import ValidationError

from gatewright_analysis.kinds.rollout import Rollout
from gatewright_analysis.kinds.sink import NotificationSink
from gatewright_analysis.kinds.source import LabelSelector, MetricSource
from gatewright_analysis.notify.notices import Notice, of_rollout
from gatewright_operator.api import Api
from gatewright_operator.cache import Cache
from gatewright_operator.resources import METRIC_SOURCES, NAMESPACES, NOTIFICATION_SINKS, ROLLOUTS

log = logging.getLogger(__name__)

Json = dict[str, Any]

LABELS_SECONDS = 60.0
"""So long the labels of a namespace are taken as they were."""
TURN = 20
"""Rollouts read before others get their turn on the loop."""


class NoticeBoard:
    """Notices of all Rollouts, and what sinks select by."""

    def __init__(self, api: Api, cache: Cache, *, clock: Callable[[], float] = monotonic) -> None:
        self._api = api
        self._cache = cache
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[str, tuple[Notice, ...] | None]] = {}
        self._labels: dict[str, tuple[float, dict[str, str]]] = {}

    def sinks(self) -> dict[str, Json]:
        """All sinks as they were last seen, by name."""
        return {raw["metadata"]["name"]: raw for raw in self._cache.all(NOTIFICATION_SINKS)}

    async def notices(self) -> tuple[list[Notice], set[str]]:
        """All that stands for all Rollouts, and NAMESPACE/NAME of those that can't be read."""
        known, read = self._known, 0
        # Built aside: while this one gives way, another sink's round must not see half of it.
        result: dict[tuple[str, str], tuple[str, tuple[Notice, ...] | None]] = {}
        for raw in self._cache.all(ROLLOUTS):
            meta = raw["metadata"]
            key, version = (meta["namespace"], meta["name"]), meta["resourceVersion"]
            found = known.get(key)
            if found is None or found[0] != version:
                found = (version, _read(raw))
                read += 1
                if read % TURN == 0:
                    await asyncio.sleep(0)
            result[key] = found
        self._known = result
        unread = {"/".join(key) for key, (_, notices) in result.items() if notices is None}
        return [notice for _, notices in result.values() for notice in notices or ()], unread

    def sources(self) -> list[MetricSource]:
        """All MetricSources that parse."""
        found = []
        for raw in self._cache.all(METRIC_SOURCES):
            try:
                found.append(MetricSource.model_validate(raw))
            except ValidationError:
                # Its own reconcile says so.
                continue
        return found

    def became(self, rollout: str) -> str:
        """What a Rollout (NAMESPACE/NAME) says of itself now."""
        raw = self._cache.get(ROLLOUTS, *rollout.split("/", 1))
        return "The Rollout is gone." if raw is None else str((raw.get("status") or {}).get("message", ""))

    async def selected(self, selector: LabelSelector | None, notices: list[Notice]) -> list[Notice]:
        """Those of the namespaces that a sink selects. Raises ApiError when a namespace can't be read now."""
        if selector is None:
            return notices
        wanted = selector.match_labels.items()
        chosen = {n.namespace: wanted <= (await self._labels_of(n.namespace)).items() for n in notices}
        return [n for n in notices if chosen[n.namespace]]

    async def _labels_of(self, namespace: str) -> dict[str, str]:
        known = self._labels.get(namespace)
        if known is not None and self._clock() < known[0] + LABELS_SECONDS:
            return known[1]
        raw = await self._api.get(NAMESPACES, "", namespace)
        labels: dict[str, str] = (raw or {}).get("metadata", {}).get("labels") or {}
        self._labels[namespace] = (self._clock(), labels)
        return labels


def _read(raw: Json) -> tuple[Notice, ...] | None:
    try:
        rollout = Rollout.model_validate(raw)
    except ValidationError:
        # Its own reconcile says so.
        return None
    return of_rollout(rollout.metadata, rollout.status, len(rollout.spec.steps))


def parsed(raw: Json) -> NotificationSink | None:
    """The sink, or None when it does not parse."""
    try:
        return NotificationSink.model_validate(raw)
    except ValidationError as error:
        log.warning(
            "NotificationSink does not parse",
            extra={"sink": raw["metadata"]["name"], "error": str(error)},
        )
        return None
