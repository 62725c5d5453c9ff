"""The targets behind the counters: what one scrape held tells about each of its series.

All samples of one scrape carry the same time. So a series that is missing from a scrape of its target did not
exist then (a counter for the first 500 starts at 0, statistics.md 7.6), and a hole shows in the target's
scrapes, not in the single series. Samples are taken in as they come, and read in order of time up to where
nothing can change any more.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gatewright_analysis.evidence.counters import Last, increment, read_count
from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.question import Labels, Series
from gatewright_analysis.evidence.windows import Grid
from gatewright_analysis.kinds.source import Arms, ArmsBy


class Counter(NamedTuple):
    """One counter as one question saw it: the index of its stream, and its labels."""

    stream: int
    labels: Labels


class TargetKey(NamedTuple):
    """What Prometheus attaches to everything from one scrape target, and the pod (addresses are used again by
    other pods).
    """

    job: str
    instance: str
    pod: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What one sample adds: `amount` events, or a fault. `gap_since` is the scrape before, when too much time
    lies between.
    """

    counter: Counter
    at: float
    amount: int = 0
    reset: bool = False
    fault: Fault | None = None
    gap_since: float | None = None

    @property
    def tells(self) -> bool:
        """False for a sample that adds nothing: no event, no reset, no fault, no gap."""
        return bool(self.amount or self.reset or self.fault or self.gap_since is not None)


def target_key(series: Series, arms: Arms) -> TargetKey:
    """The target of a series. One target may serve both arms, as a gateway does.

    Without `instance` (aggregated or federated series) the arm's own label stands for it.
    """
    pod = series.label(arms.label if arms.by is ArmsBy.POD_NAME else "pod")
    instance = series.label("instance")
    if instance is None:
        pod = pod or series.label(arms.label)
    return TargetKey(series.label("job") or "", instance or "", pod or "")


@dataclass(slots=True)
class _Target:
    """`pending` holds scrapes not yet read: time → counter → value."""

    born: float | None = None
    last_scrape: float | None = None
    last_restart: float | None = None
    counters: dict[Counter, Last] = field(default_factory=dict)
    pending: dict[float, dict[Counter, float]] = field(default_factory=dict)

    def copy(self) -> "_Target":
        return replace(self, counters=dict(self.counters), pending=dict(self.pending))


class Targets:
    """All targets that one check's questions have met."""

    def __init__(self, grid: Grid, start: float) -> None:
        """Samples at or before `start` (Unix seconds) are left out."""
        self._grid = grid
        self._settled = start
        self._targets: dict[TargetKey, _Target] = {}

    def add(self, stream: int, key: TargetKey, series: Series, born: float | None = None) -> None:
        """Take in samples; those known already, or from before what has been read, change nothing.

        `born` is when the series' pod was created, if that is known.
        """
        target = self._targets.setdefault(key, _Target())
        if born is not None:
            target.born = born
        counter = Counter(stream, series.labels)
        for sample in series.samples:
            if sample.at > self._settled:
                target.pending.setdefault(sample.at, {})[counter] = sample.value

    def settle(self, until: float) -> list[Reading]:
        """Read everything up to `until` for good, in order of time per target."""
        self._settled = max(self._settled, until)
        readings: list[Reading] = []
        for target in self._targets.values():
            readings.extend(self._read(target, until))
            for at in [at for at in target.pending if at <= until]:
                del target.pending[at]
        return readings

    def preview(self) -> Iterable[Reading]:
        """What the samples that are not settled yet would add as things stand; changes nothing."""
        for target in self._targets.values():
            if target.pending:
                yield from self._read(target.copy(), float("inf"))

    def _read(self, target: _Target, until: float) -> Iterator[Reading]:
        for at in sorted(at for at in target.pending if at <= until):
            yield from self._read_scrape(target, at, target.pending[at])

    def _read_scrape(self, target: _Target, at: float, scrape: dict[Counter, float]) -> Iterator[Reading]:
        before = target.last_scrape
        gap_since = before if before is not None and at - before > self._grid.gap else None
        counts = {counter: read_count(value) for counter, value in scrape.items()}
        if any(_dropped(target.counters.get(counter), count) for counter, count in counts.items()):
            target.last_restart = at
        for counter, count in counts.items():
            if isinstance(count, Fault):
                yield Reading(counter, at, fault=count, gap_since=gap_since)
                continue
            last = target.counters.get(counter)
            step = increment(
                last, at, count, born_after=self._born_after(target, at), restarted=_came_back(target, last)
            )
            target.counters[counter] = Last(at, count)
            yield Reading(counter, at, step.amount, step.reset, gap_since=gap_since)
        target.last_scrape = at

    def _born_after(self, target: _Target, at: float) -> float | None:
        """When a counter first seen at `at` is known not to have existed: the target's scrape before, else
        the pod's start.

        A pod older than the window proves nothing: the source may have lost what it scraped before.
        """
        if target.last_scrape is not None:
            return target.last_scrape
        if target.born is not None and self._grid.window_at(target.born) >= self._grid.window_at(at):
            return target.born
        return None


def _dropped(last: Last | None, count: int | Fault) -> bool:
    return last is not None and not isinstance(count, Fault) and count < last.value


def _came_back(target: _Target, last: Last | None) -> bool:
    """True for a counter that was missing from scrapes of its target while another one there began anew.

    Only then: a proxy may reset the counters of one backend alone, and those that were there all along go on
    counting.
    """
    return (
        last is not None
        and target.last_scrape is not None
        and target.last_restart is not None
        and last.at < target.last_scrape
        and last.at < target.last_restart
    )
