"""What a proportion check has seen so far, as one noun with three shapes: events, clusters of samples, scores.

Missing verdicts count against either side: as bad where a pass is asked about, as good where a failure is.
"""

from collections.abc import Iterable
from typing import Protocol

from gatewright_analysis.evidence.model import Cluster, Fault, Window
from gatewright_analysis.reasons import Reason
from gatewright_analysis.statistics.clustered import LEAST_CLUSTERS, clustered_interval
from gatewright_analysis.statistics.evalue import anytime_lower_bound, log_e_fail, log_e_pass
from gatewright_analysis.statistics.scores import ScoreEvidence
from gatewright_analysis.statistics.wilson import wilson_interval, wilson_limits
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
        total, z = self.n + self.missing, self._terms.z
        worst = wilson_interval(self.good, total, z)
        best = wilson_interval(self.good + self.missing, total, z) if self.missing else worst
        return worst[0], best[1]

    def log_e_pass(self) -> float:
        return log_e_pass(self.good, self.bad + self.missing, self._terms.threshold)

    def log_e_fail(self) -> float:
        return log_e_fail(self.good + self.missing, self.bad, self._terms.threshold)

    def anytime_bound(self) -> float | None:
        return anytime_lower_bound(self.good, self.bad + self.missing, 1.0 - self._terms.level)

    def fault(self) -> Fault | None:
        return None


class Clusters(Events):
    """Samples that hang together (M4): bounds from the effective sample size, e-values from the clusters' means.

    Where no cluster has two samples they are independent, and counts suffice.
    """

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._clusters: dict[str, Cluster] = {}

    @property
    def count(self) -> int:
        return len(self._clusters)

    @property
    def repeated(self) -> bool:
        return any(own.good + own.bad + own.missing > 1 for own in self._clusters.values())

    def add(self, window: Window) -> None:
        super().add(window)
        for new in window.clusters:
            own = self._clusters.get(new.key)
            if own is not None:
                new = Cluster(new.key, own.good + new.good, own.bad + new.bad, own.missing + new.missing)
            self._clusters[new.key] = new

    def design_effect(self) -> tuple[float, float] | None:
        """(deff, n_eff) of the counts as they are; None where samples are independent, or nothing is there."""
        if not self.repeated or self.n == 0 or self.count < 2:
            return None
        found = clustered_interval(self._pairs(), self._terms.level)
        return found.deff, found.n_eff

    def interval(self) -> tuple[float, float]:
        if not self.repeated or self.count < 2:
            return super().interval()
        level = self._terms.level
        low = clustered_interval(self._pairs(missing_are_bad=True), level).low
        return low, clustered_interval(self._pairs(missing_are_good=True), level).high

    def log_e_pass(self) -> float:
        if not self.repeated:
            return super().log_e_pass()
        return self._scores(missing_are_bad=True).log_e_pass()

    def log_e_fail(self) -> float:
        if not self.repeated:
            return super().log_e_fail()
        return self._scores(missing_are_good=True).log_e_fail()

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

    def _pairs(
        self, *, missing_are_bad: bool = False, missing_are_good: bool = False
    ) -> list[tuple[int, int]]:
        """(good, n) of each cluster that has any."""
        pairs = []
        for own in self._clusters.values():
            good = own.good + (own.missing if missing_are_good else 0)
            n = own.good + own.bad + (own.missing if missing_are_good or missing_are_bad else 0)
            if n:
                pairs.append((good, n))
        return pairs

    def _scores(self, *, missing_are_bad: bool = False, missing_are_good: bool = False) -> ScoreEvidence:
        evidence = ScoreEvidence(self._terms.threshold)
        pairs = self._pairs(missing_are_bad=missing_are_bad, missing_are_good=missing_are_good)
        evidence.add_many([good / n for good, n in pairs])
        return evidence


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
