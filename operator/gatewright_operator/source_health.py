"""Whether a MetricSource answers: asked now and then, reported once per source in its own status."""

from datetime import datetime
from typing import Any

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.question import Expect, Question
from gatewright_analysis.kinds.base import Condition
from gatewright_analysis.kinds.source import MetricSource, MetricSourceStatus
from gatewright_analysis.reasons import Reason
from gatewright_operator.api import Api
from gatewright_operator.cache import Cache
from gatewright_operator.resources import METRIC_SOURCES
from gatewright_operator.sources import Sources

Json = dict[str, Any]

WELL_SECONDS = 300.0
ILL_SECONDS = 30.0


class SourceHealth:
    """Writes `status.conditions[Ready]` of MetricSources, when it changes and not otherwise."""

    def __init__(self, api: Api, cache: Cache, sources: Sources) -> None:
        self._api = api
        self._cache = cache
        self._sources = sources

    async def check(self, name: str, now: datetime) -> float | None:
        """Asks the source for a constant; one of result files has no address to ask. Seconds until it is asked again, None when it is gone."""
        source = self._sources.get(name)
        raw = self._cache.get(METRIC_SOURCES, "", name)
        if source is None or raw is None:
            self._sources.forget(name)
            return None
        answer = None if source.spec.evidence is not None else await self._ask(name, now)
        well = not isinstance(answer, Fault)
        status = MetricSourceStatus(
            observed_generation=source.metadata.generation,
            conditions=(self._ready(source, answer, now),),
        )
        if status != source.status:
            body = {**raw, "status": status.wire()}
            written = await self._api.replace(METRIC_SOURCES, "", name, body, subresource="status")
            self._cache.put(METRIC_SOURCES, written)
        return WELL_SECONDS if well else ILL_SECONDS

    async def _ask(self, name: str, now: datetime) -> object:
        at = now.timestamp()
        question = Question(name, "vector(1)", at, at - 1, Expect.VALUE)
        return (await self._sources.read_all((question,)))[question]

    @staticmethod
    def _ready(source: MetricSource, answer: object, now: datetime) -> Condition:
        fault = answer if isinstance(answer, Fault) else None
        state = "True" if fault is None else "False"
        known = next((c for c in source.status.conditions if c.type == "Ready"), None)
        unchanged = known is not None and known.status == state
        return Condition(
            type="Ready",
            status=state,
            reason=Reason.ANSWERS if fault is None else fault.reason,
            message=_well(source) if fault is None else fault.detail[:1024],
            last_transition_time=known.last_transition_time if known is not None and unchanged else now,
            observed_generation=source.metadata.generation,
        )


def _well(source: MetricSource) -> str:
    files = source.spec.evidence
    if files is None:
        return "The source answers."
    where = "the namespace of each Rollout" if files.namespace is None else f"the namespace {files.namespace}"
    return f"Result files are read from ConfigMaps in {where}, where `gatewright evidence push` puts them."
