"""Whether a MetricSource answers: asked now and then, reported once per source in its own status."""

from collections.abc import Callable
from datetime import datetime
from time import monotonic
from typing import Any

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.question import Expect, Question
from gatewright_analysis.kinds.base import Condition
from gatewright_analysis.kinds.source import MetricSource, MetricSourceStatus
from gatewright_analysis.reasons import Reason
from gatewright_operator.api import Api
from gatewright_operator.cache import Cache
from gatewright_operator.plan.snapshot import SourceState
from gatewright_operator.resources import METRIC_SOURCES
from gatewright_operator.sources import Sources

Json = dict[str, Any]

WELL_SECONDS = 300.0
ILL_SECONDS = 30.0
DOUBTED_SECONDS = 10.0
"""Between two questions that looks without an answer gave rise to."""


class SourceHealth:
    """Writes `status.conditions[Ready]` of MetricSources, when it changes and not otherwise."""

    def __init__(
        self, api: Api, cache: Cache, sources: Sources, *, clock: Callable[[], float] = monotonic
    ) -> None:
        self._api = api
        self._cache = cache
        self._sources = sources
        self._clock = clock
        self._doubted: dict[str, float] = {}

    def doubt(self, name: str) -> bool:
        """Whether a source that has just not answered a look is to be asked now: it is reported as well, and was not asked
        for that a moment ago."""
        state, now = source_states(self._cache).get(name), self._clock()
        if (state is not None and state.down) or now - self._doubted.get(
            name, -DOUBTED_SECONDS
        ) < DOUBTED_SECONDS:
            return False
        self._doubted[name] = now
        return True

    async def check(self, name: str, now: datetime) -> float | None:
        """Asks the source for a constant; one of result files has no address to ask. Seconds until it is asked again, None when it is gone."""
        source = self._sources.get(name)
        raw = self._cache.get(METRIC_SOURCES, "", name)
        if source is None or raw is None:
            self._sources.forget(name)
            self._doubted.pop(name, None)
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


def source_states(cache: Cache) -> dict[str, SourceState]:
    """Every source that was asked at least once, by name. From raw objects: there may be a thousand Rollouts that wait."""
    found: dict[str, SourceState] = {}
    for raw in cache.all(METRIC_SOURCES):
        for condition in (raw.get("status") or {}).get("conditions") or ():
            if condition.get("type") == "Ready" and condition.get("lastTransitionTime"):
                since = datetime.fromisoformat(condition["lastTransitionTime"])
                down = condition.get("status") == "False"
                found[raw["metadata"]["name"]] = SourceState(down, since, str(condition.get("reason", "")))
    return found
