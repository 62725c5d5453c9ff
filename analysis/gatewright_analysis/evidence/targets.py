"""The targets behind the counters: what one scrape held tells about each of its series.

All samples of one scrape carry the same time. So a series that is missing from a scrape of its target did not
exist then (a counter for the first 500 starts at 0, statistics.md 7.6), and a hole shows in the target's
scrapes, not in the single series. Samples are taken in as they come, and read in order of time up to where
nothing can change any more.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gatewright_analysis.evidence.buckets import without_bucket
from gatewright_analysis.evidence.counters import Last, increment, read_count
from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.native import NativeCount, began_anew, split
from gatewright_analysis.evidence.question import Histogram, Labels, Series
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
    good: int = 0
    """Of a native histogram only: how many of `amount` are at or below `le`."""
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
    """`pending` holds scrapes not yet read: time → counter → value, or state of a native histogram."""

    born: float | None = None
    last_scrape: float | None = None
    last_restart: float | None = None
    counters: dict[Counter, Last] = field(default_factory=dict)
    natives: dict[Counter, NativeCount] = field(default_factory=dict)
    pending: dict[float, dict[Counter, float | Histogram]] = field(default_factory=dict)

    def copy(self) -> "_Target":
        return replace(
            self, counters=dict(self.counters), natives=dict(self.natives), pending=dict(self.pending)
        )


class Targets:
    """All targets that one check's questions have met."""

    def __init__(self, grid: Grid, start: float, le: float | None = None) -> None:
        """Samples at or before `start` (Unix seconds) are left out; `le` is where native histograms are split."""
        self._grid = grid
        self._le = le
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
        for state in series.histograms:
            if state.at > self._settled:
                target.pending.setdefault(state.at, {})[counter] = state

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

    def _read_scrape(
        self, target: _Target, at: float, scrape: dict[Counter, float | Histogram]
    ) -> Iterator[Reading]:
        before = target.last_scrape
        gap_since = before if before is not None and at - before > self._grid.gap else None
        counts = self._counts(target, scrape)
        natives = self._natives(target, scrape, counts)
        fell = any(_dropped(target.counters.get(counter), count) for counter, count in counts.items())
        if fell or any(_anew(target.natives.get(counter), now) for counter, now in natives.items()):
            target.last_restart = at
        born_after = self._born_after(target, at)
        for counter, count in counts.items():
            if isinstance(count, Fault):
                yield Reading(counter, at, fault=count, gap_since=gap_since)
                continue
            last = target.counters.get(counter)
            step = increment(last, at, count, born_after=born_after, restarted=_came_back(target, last))
            target.counters[counter] = Last(at, count)
            yield Reading(counter, at, step.amount, reset=step.reset, gap_since=gap_since)
        for counter, now in natives.items():
            if isinstance(now, Fault):
                yield Reading(counter, at, fault=now, gap_since=gap_since)
                continue
            last, state = target.counters.get(counter), target.natives.get(counter)
            anew = _anew(state, now) or _came_back(target, last)
            step = increment(last, at, now.total, born_after=born_after, restarted=anew)
            # What a first state or a new start holds is all new, or all old: the good ones like the rest.
            good = 0 if step.amount == 0 else now.good
            if last is not None and state is not None and not step.reset:
                good = now.good - state.good
            target.counters[counter], target.natives[counter] = Last(at, now.total), now
            yield Reading(counter, at, step.amount, good, step.reset, gap_since=gap_since)
        target.last_scrape = at

    def _counts(
        self, target: _Target, scrape: dict[Counter, float | Histogram]
    ) -> dict[Counter, int | Fault]:
        """The counters of a scrape, without those of a histogram that is counted as a native one already."""
        native = {without_bucket(counter.labels) for counter in target.natives}
        return {
            counter: read_count(value)
            for counter, value in scrape.items()
            if not isinstance(value, Histogram) and not (native and without_bucket(counter.labels) in native)
        }

    def _natives(
        self,
        target: _Target,
        scrape: dict[Counter, float | Histogram],
        counts: Iterable[Counter],
    ) -> dict[Counter, NativeCount | Fault]:
        """The native histograms of a scrape, split. One that the target exposes as a classic one too is left out:
        its events are counted there.
        """
        states = {counter: value for counter, value in scrape.items() if isinstance(value, Histogram)}
        if not states or self._le is None:
            return {}
        known = (*counts, *(counter for counter in target.counters if counter not in target.natives))
        classic = {without_bucket(counter.labels) for counter in known}
        return {
            counter: split(state, self._le)
            for counter, state in states.items()
            if without_bucket(counter.labels) not in classic
        }

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


def _anew(before: NativeCount | None, now: NativeCount | Fault) -> bool:
    return before is not None and not isinstance(now, Fault) and began_anew(before, now)


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
