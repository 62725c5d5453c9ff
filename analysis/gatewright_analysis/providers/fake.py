"""A source in memory: samples are put in, selectors are answered as Prometheus would. For tests and dry runs."""

import math
import re
from collections.abc import Mapping

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.promql import Matcher, Selector, parse_selector
from gatewright_analysis.evidence.question import (
    Answer,
    Answered,
    Bucket,
    Expect,
    Histogram,
    Question,
    Sample,
    Series,
    labels_of,
)
from gatewright_analysis.reasons import Reason

_RANGE = re.compile(r"(?s)(?P<selector>.*)\[(?P<millis>\d+)ms\]")
_FRESH = re.compile(r"(?s)count\(last_over_time\((?P<selector>.*)\[(?P<millis>\d+)ms\]\)\)")
LOOKBACK_SECONDS = 300.0


class FakeReader:
    """A MetricsReader without a network. `fault`, when set, is the answer to everything."""

    def __init__(self, *, deadline_seconds: float = 5.0) -> None:
        self._samples: dict[frozenset[tuple[str, str]], dict[float, float]] = {}
        self._histograms: dict[frozenset[tuple[str, str]], dict[float, Histogram]] = {}
        self._deadline_seconds = deadline_seconds
        self.fault: Fault | None = None
        self.asked: list[Question] = []

    @property
    def deadline_seconds(self) -> float:
        return self._deadline_seconds

    def put(self, metric: str, labels: Mapping[str, str], at: float, value: float) -> None:
        """One scraped sample; a later one for the same series and time replaces it."""
        key = labels_of({"__name__": metric, **labels})
        self._samples.setdefault(key, {})[round(at, 3)] = value

    def put_histogram(
        self, metric: str, labels: Mapping[str, str], at: float, total: float, *buckets: Bucket
    ) -> None:
        """One scraped state of a native histogram."""
        key = labels_of({"__name__": metric, **labels})
        self._histograms.setdefault(key, {})[round(at, 3)] = Histogram(at, total, buckets)

    def read(self, question: Question) -> Answer:
        """See `MetricsReader.read`. Of functions it knows `count(last_over_time(SELECTOR[RANGE]))` alone."""
        self.asked.append(question)
        if self.fault is not None:
            return self.fault
        if question.expect in (Expect.VALUE, Expect.VALUES):
            return self._value(question)
        found = _RANGE.fullmatch(question.query)
        if found is None:
            return Fault(Reason.WRONG_RESULT_TYPE, "the answer is a vector, not raw samples (a matrix)")
        start = max(question.start, question.time - int(found["millis"]) / 1000)
        try:
            selector = parse_selector(found["selector"])
        except ValueError:
            return Fault(Reason.CLIENT_ERROR, "the source refuses the question (HTTP 400) (bad_data)")
        if question.expect is Expect.HISTOGRAMS:
            return Answered(tuple(self._states(selector, start, question.time)))
        series = [self._cut(key, start, question.time) for key in self._matching(selector)]
        return Answered(tuple(one for one in series if one.samples))

    def close(self) -> None:
        """See `MetricsReader.close`."""

    def _value(self, question: Question) -> Answer:
        fresh = _FRESH.fullmatch(question.query)
        text, back = question.query, LOOKBACK_SECONDS if question.lookback is None else question.lookback
        if fresh is not None:
            text, back = fresh["selector"], int(fresh["millis"]) / 1000
        newest = [
            Series(key, (Sample(question.time, cut.samples[-1].value),))
            for key in self._matching(parse_selector(text))
            if (cut := self._cut(key, question.time - back, question.time)).samples
        ]
        if not newest:
            return Fault(Reason.NO_DATA, "the query has no result")
        if fresh is not None:
            return Answered((Series(frozenset(), (Sample(question.time, float(len(newest))),)),))
        if len(newest) > 1 and question.expect is Expect.VALUE:
            return Fault(Reason.UNEXPECTED_SERIES, f"the query must give one value, it gives {len(newest)}")
        values = [series.samples[0].value for series in newest]
        if any(math.isnan(value) for value in values):
            return Fault(Reason.NOT_A_NUMBER, "the query's value is NaN")
        if any(math.isinf(value) for value in values):
            return Fault(Reason.INFINITE, "the query's value is infinite")
        return Answered(tuple(newest))

    def _states(self, selector: Selector, start: float, end: float) -> list[Series]:
        found = []
        for key in self._matching(selector, self._histograms):
            states = self._histograms[key]
            wanted = tuple(states[at] for at in sorted(states) if start < at <= end)
            if wanted:
                found.append(Series(key, histograms=wanted))
        return found

    def _cut(self, key: frozenset[tuple[str, str]], start: float, end: float) -> Series:
        samples = self._samples[key]
        return Series(key, tuple(Sample(at, samples[at]) for at in sorted(samples) if start < at <= end))

    def _matching(
        self, selector: Selector, kept: Mapping[frozenset[tuple[str, str]], object] | None = None
    ) -> list[frozenset[tuple[str, str]]]:
        matchers = (Matcher("__name__", "=", selector.metric), *selector.matchers)
        return [
            key
            for key in (self._samples if kept is None else kept)
            if all(_matches(matcher, dict(key).get(matcher.label, "")) for matcher in matchers)
        ]


def _matches(matcher: Matcher, value: str) -> bool:
    if matcher.operator in ("=", "!="):
        return (value == matcher.value) == (matcher.operator == "=")
    return (re.fullmatch(matcher.value, value) is not None) == (matcher.operator == "=~")
