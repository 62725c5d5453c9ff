"""What is asked of a metric source, and what comes back: raw samples or one value, or the fault that stands
for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from gatewright_analysis.evidence.model import Fault

Labels = frozenset[tuple[str, str]]
"""A series' identity: its label names and values, `__name__` included."""


class Sample(NamedTuple):
    """One scraped value at a Unix time in seconds. `value` may be NaN or infinite: the source said so."""

    at: float
    value: float


class Bucket(NamedTuple):
    """A bucket of a native histogram: what lies between `low` and `high`, each end in it or not."""

    low: float
    high: float
    low_closed: bool
    high_closed: bool
    held: float
    """Observations in this bucket alone."""


class Histogram(NamedTuple):
    """One scraped state of a native histogram at a Unix time in seconds, exponential or with custom buckets.

    Counts are what the source said: whether they can be counts is for the reader. Prometheus leaves out buckets
    without an observation, so a boundary that is not named may exist all the same.
    """

    at: float
    total: float
    buckets: tuple[Bucket, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """One series with its samples in order of time: plain numbers, or states of a native histogram."""

    labels: Labels
    samples: tuple[Sample, ...] = ()
    histograms: tuple[Histogram, ...] = ()

    def label(self, name: str) -> str | None:
        return next((value for key, value in self.labels if key == name), None)


class Expect(StrEnum):
    """What kind of answer a question wants."""

    SAMPLES = "samples"
    """Raw samples of any number of series (a range selector)."""
    HISTOGRAMS = "histograms"
    """Raw states of native histograms (a range selector); series of plain numbers are left out."""
    VALUE = "value"
    """One finite number: an instant vector of exactly one series, or a scalar."""
    VALUES = "values"
    """Finite numbers: an instant vector of at least one series, or a scalar."""


@dataclass(frozen=True, slots=True)
class Question:
    """One query at an explicit evaluation time. Equal questions have equal answers, so they may be asked once
    for all checks.

    `source` is the MetricSource's name; `time` Unix seconds; samples at or before `start` are not wanted
    (Prometheus 2 includes the left end of a range, Prometheus 3 does not).
    """

    source: str
    query: str
    time: float
    start: float
    expect: Expect = Expect.SAMPLES
    lookback: float | None = None
    """Seconds that an instant query may look back for a series' newest sample; the source's own when None."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A usable answer. No series is an answer too: what it means is for the asker to say."""

    series: tuple[Series, ...] = ()

    @property
    def samples(self) -> int:
        """How much was answered: a histogram is as much as its buckets and its count."""
        return sum(
            len(series.samples) + sum(1 + len(state.buckets) for state in series.histograms)
            for series in self.series
        )


Answer = Answered | Fault
Answers = Mapping[Question, Answer]


def labels_of(metric: Mapping[str, str]) -> Labels:
    """The identity of a series from the mapping that the HTTP API gives."""
    return frozenset(metric.items())
