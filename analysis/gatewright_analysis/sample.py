"""What a proportion check has seen so far, as one noun with three shapes: events, clusters of samples, scores.

Missing verdicts count against either side: as bad where a pass is asked about, as good where a failure is.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from gatewright_analysis.evidence.model import Cluster, Fault, Window
from gatewright_analysis.reasons import Reason
from gatewright_analysis.statistics.clustered import LEAST_CLUSTERS, Clustered, clustered_interval
from gatewright_analysis.statistics.evalue import anytime_lower_bound, log_e_fail, log_e_pass
from gatewright_analysis.statistics.scores import ScoreEvidence
from gatewright_analysis.statistics.wilson import wilson_limits, worst_case_interval
from gatewright_analysis.task import Terms


class Sample(Protocol):
    """A fold over windows without a fault."""

    good: int
    bad: int
    missing: int
    takes_planned_look: bool
    """Its planned look is one by the Wilson bound; else only e-values may pass it."""

    @property
    def n(self) -> int: ...

    @property
    def bad_share_is_low(self) -> bool:
        """A pass is not out of reach: cheap, and asked before anything that costs."""
        ...

    @property
    def bad_share_is_high(self) -> bool:
        """A failure is not out of reach."""
        ...

    @property
    def share(self) -> float:
        """The good share, 0 … 1; n is at least 1."""
        ...

    def add(self, window: Window) -> None: ...

    def interval(self) -> tuple[float, float]:
        """Limits of the good share; n + missing is at least 1."""
        ...

    def log_e_pass(self) -> float: ...

    def log_e_fail(self) -> float: ...

    def anytime_bound(self) -> float | None:
        """The good ratio that holds as a lower bound at every look at once; None where it can't be worked out from
        sums. Takes about a millisecond."""
        ...

    def fault(self) -> Fault | None:
        """Why nothing can be said of it, however much there is."""
        ...


class Events:
    """Independent events: counts suffice."""

    takes_planned_look = True

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self.good = 0
        self.bad = 0
        self.missing = 0

    @property
    def n(self) -> int:
        return self.good + self.bad

    @property
    def share(self) -> float:
        return self.good / self.n

    @property
    def bad_share_is_low(self) -> bool:
        return self.bad + self.missing <= self._terms.limit * (self.n + self.missing)

    @property
    def bad_share_is_high(self) -> bool:
        return self.bad > self._terms.limit * self.n

    def add(self, window: Window) -> None:
        self.good += window.canary.good
        self.bad += window.canary.bad
        self.missing += window.missing

    def interval(self) -> tuple[float, float]:
        return worst_case_interval(self.good, self.bad, self.missing, self._terms.z)

    def log_e_pass(self) -> float:
        return log_e_pass(self.good, self.bad + self.missing, self._terms.threshold)

    def log_e_fail(self) -> float:
        return log_e_fail(self.good + self.missing, self.bad, self._terms.threshold)

    def anytime_bound(self) -> float | None:
        return anytime_lower_bound(self.good, self.bad + self.missing, 1.0 - self._terms.level)

    def fault(self) -> Fault | None:
        return None


@dataclass(frozen=True, slots=True)
class _Clustered:
    """What clusters come to with missing verdicts counted one way."""

    interval: Clustered
    scores: ScoreEvidence


class Clusters(Events):
    """Samples that hang together (M4): bounds from the effective sample size, e-values from the clusters' means.

    Where no cluster has two samples they are independent, and counts suffice. What was worked out is kept until the
    next sample: result files come once, and are looked at often.
    """

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._clusters: dict[str, Cluster] = {}
        self._known: dict[int, _Clustered] = {}
        self.repeated = False
        """Some cluster has two samples."""
        self._tells = False
        """Clusters say how they differ: at least two of them have a verdict."""

    @property
    def count(self) -> int:
        return len(self._clusters)

    def add(self, window: Window) -> None:
        super().add(window)
        for new in window.clusters:
            own = self._clusters.get(new.key)
            if own is not None:
                new = Cluster(new.key, own.good + new.good, own.bad + new.bad, own.missing + new.missing)
            self._clusters[new.key] = new
            self.repeated = self.repeated or new.good + new.bad + new.missing > 1
        if window.clusters:
            self._known.clear()
            self._tells = self.repeated and len(self._pairs(None)) > 1

    def design_effect(self) -> tuple[float, float] | None:
        """(deff, n_eff) with missing verdicts left out; None where samples are independent, or nothing is there."""
        if not self._tells:
            return None
        found = (
            clustered_interval(self._pairs(None), self._terms.level) if self.missing else self._as(0).interval
        )
        return found.deff, found.n_eff

    def interval(self) -> tuple[float, float]:
        if not self._tells:
            return super().interval()
        return self._as(0).interval.low, self._as(1).interval.high

    def log_e_pass(self) -> float:
        return self._as(0).scores.log_e_pass() if self._tells else super().log_e_pass()

    def log_e_fail(self) -> float:
        return self._as(1).scores.log_e_fail() if self._tells else super().log_e_fail()

    def anytime_bound(self) -> float | None:
        return None if self.repeated else super().anytime_bound()

    def fault(self) -> Fault | None:
        if self.repeated and self.count < LEAST_CLUSTERS:
            return Fault(
                Reason.TOO_FEW_CLUSTERS,
                f"samples are repeats of {self.count} items, and nothing can be said of fewer than {LEAST_CLUSTERS}: "
                "evaluate more items rather than each of them more often",
            )
        return None

    def _as(self, missing: int) -> _Clustered:
        """With missing verdicts counted as `missing`: 0 is bad, 1 is good."""
        key = missing if self.missing else 0
        found = self._known.get(key)
        if found is None:
            pairs = self._pairs(missing)
            scores = ScoreEvidence(self._terms.threshold)
            scores.add_many([good / n for good, n in pairs])
            found = _Clustered(clustered_interval(pairs, self._terms.level), scores)
            self._known[key] = found
        return found

    def _pairs(self, missing: int | None) -> list[tuple[int, int]]:
        """(good, n) of each cluster that has any; missing verdicts left out, or counted as 0 or 1."""
        pairs = []
        for own in self._clusters.values():
            lost = 0 if missing is None else own.missing
            n = own.good + own.bad + lost
            if n:
                pairs.append((own.good + lost * (missing or 0), n))
        return pairs


class Scores:
    """Scores in [0, 1], one for each independent item (M3)."""

    takes_planned_look = False

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._evidence = ScoreEvidence(terms.threshold)
        self.good = 0
        self.bad = 0
        self.missing = 0
        self.total = 0.0
        self._n = 0

    @property
    def n(self) -> int:
        return self._n

    @property
    def share(self) -> float:
        return self.total / self._n

    @property
    def bad_share_is_low(self) -> bool:
        return self.total >= self._terms.threshold * (self._n + self.missing)

    @property
    def bad_share_is_high(self) -> bool:
        return self.total + self.missing < self._terms.threshold * (self._n + self.missing)

    def add(self, window: Window) -> None:
        self._add(window.scores)
        self.missing += window.missing

    def _add(self, scores: Iterable[float]) -> None:
        new = list(scores)
        self._evidence.add_many(new)
        self.total += sum(new)
        self._n += len(new)

    def interval(self) -> tuple[float, float]:
        """Wilson's on the mean: scores vary at most as much as events with that mean, so it is not too narrow."""
        total = self._n + self.missing
        return (
            wilson_limits(self.total / total, total, self._terms.z)[0],
            wilson_limits((self.total + self.missing) / total, total, self._terms.z)[1],
        )

    def log_e_pass(self) -> float:
        return self._with_missing(0.0).log_e_pass()

    def log_e_fail(self) -> float:
        return self._with_missing(1.0).log_e_fail()

    def anytime_bound(self) -> float | None:
        return None

    def _with_missing(self, score: float) -> ScoreEvidence:
        if not self.missing:
            return self._evidence
        whole = ScoreEvidence(self._terms.threshold)
        whole.merge(self._evidence)
        whole.add(score, self.missing)
        return whole

    def fault(self) -> Fault | None:
        return None


def sample_of(kind: str, terms: Terms) -> Events | Scores:
    """An empty sample for one kind of evidence."""
    match kind:
        case "scores":
            return Scores(terms)
        case "samples" | "paired":
            return Clusters(terms)
        case _:
            return Events(terms)
