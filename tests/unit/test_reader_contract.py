"""What every reader of metrics does: the same suite for the one over HTTP and for the fake that tests use.

The HTTP one reads from a server that answers, in Prometheus' form, out of the fake's own samples.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.question import (
    Answered,
    Bucket,
    Expect,
    Histogram,
    Question,
    Sample,
    Series,
    labels_of,
)
from gatewright_analysis.providers.fake import FakeReader
from gatewright_analysis.providers.prometheus import PrometheusReader
from gatewright_analysis.providers.reader import MetricsReader
from gatewright_analysis.reasons import Reason
from tests.unit.http_source import Asked, Reply, reply_json, serving, success

NOW = 1_700_000_000.0


def samples_of(query: str, start: float = NOW - 10.0) -> Question:
    return Question("prometheus", query, NOW, start)


def value_of(query: str) -> Question:
    return Question("prometheus", query, NOW, NOW, Expect.VALUE)


def text(value: float) -> str:
    return {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}.get(str(value), repr(value))


def as_prometheus(store: FakeReader, asked: Asked) -> Reply:
    """The fake's answer in the form of Prometheus' HTTP API."""
    query, time = asked.form["query"], float(asked.form["time"])
    if query.startswith("count("):
        found = _series(store, Question("", query, time, time, Expect.VALUE))
        return success("vector", [{"metric": {}, "value": [time, text(s.samples[0].value)]} for s in found])
    if "[" not in query:
        back = float(asked.form.get("lookback_delta", "300"))
        newest = [
            (series.labels, series.samples[-1])
            for series in _series(store, Question("", f"{query}[{round(back * 1000)}ms]", time, time - back))
        ]
        return success(
            "vector", [{"metric": dict(labels), "value": [time, text(s.value)]} for labels, s in newest]
        )
    answer = store.read(Question("", query, time, time - 1e6))
    if isinstance(answer, Fault):
        return reply_json({"status": "error", "errorType": "bad_data", "error": "parse error"}, 400)
    natives = _series(store, Question("", query, time, time - 1e6, Expect.HISTOGRAMS))
    plain = [
        {
            "metric": dict(series.labels),
            "values": [[sample.at, text(sample.value)] for sample in series.samples],
        }
        for series in answer.series
    ]
    return success(
        "matrix",
        plain
        + [
            {"metric": dict(series.labels), "histograms": [[one.at, _json(one)] for one in series.histograms]}
            for series in natives
        ],
    )


def _json(state: Histogram) -> dict[str, object]:
    ends = {(False, True): 0, (True, False): 1, (False, False): 2, (True, True): 3}
    buckets = [
        [ends[own.low_closed, own.high_closed], text(own.low), text(own.high), text(own.held)]
        for own in state.buckets
    ]
    return {"count": text(state.total), "sum": "0"} | ({"buckets": buckets} if buckets else {})


def _series(store: FakeReader, question: Question) -> tuple[Series, ...]:
    answer = store.read(question)
    return answer.series if isinstance(answer, Answered) else ()


@pytest.fixture
def store() -> FakeReader:
    store = FakeReader()
    for second in range(-20, 5):
        for code, factor in (("200", 10), ("500", 1)):
            labels = {"namespace": "shop", "pod": "checkout-aaaaa", "code": code}
            store.put("http_requests_total", labels, NOW + second, float(factor * (second + 20)))
    store.put("broken", {"kind": "nan"}, NOW - 1, float("nan"))
    store.put("broken", {"kind": "inf"}, NOW - 1, float("inf"))
    labels = {"namespace": "shop", "pod": "checkout-aaaaa"}
    for second in (-2, -1, 0):
        lowest = Bucket(float("-inf"), 0.25, True, True, 3.0)
        store.put_histogram("latency", labels, NOW + second, 5.0, lowest, Bucket(0.25, 0.5, False, True, 2.0))
    store.put("odd", {"text": 'a"b\\c\nd'}, NOW - 1, 1.0)
    return store


@pytest.fixture(params=["fake", "prometheus"])
def reader(request: pytest.FixtureRequest, store: FakeReader) -> Iterator[MetricsReader]:
    if request.param == "fake":
        yield store
        return
    with serving(lambda asked: as_prometheus(store, asked)) as source:
        over_http = PrometheusReader(source.address, timeout_seconds=5.0)
        yield over_http
        over_http.close()


def test_raw_samples_come_with_their_labels_in_order_of_time(reader: MetricsReader) -> None:
    answer = reader.read(samples_of('http_requests_total{code="500"}[3000ms]', NOW - 3.0))
    assert isinstance(answer, Answered)
    assert answer.series[0].labels == labels_of(
        {"__name__": "http_requests_total", "namespace": "shop", "pod": "checkout-aaaaa", "code": "500"}
    )
    assert answer.series[0].samples == tuple(Sample(NOW + at, 20.0 + at) for at in (-2, -1, 0))


def test_several_series_are_an_ordinary_answer_to_a_selector(reader: MetricsReader) -> None:
    answer = reader.read(samples_of("http_requests_total[5000ms]"))
    assert isinstance(answer, Answered)
    assert {series.label("code") for series in answer.series} == {"200", "500"}
    assert answer.samples == 10


def test_samples_at_or_before_the_start_are_left_out(reader: MetricsReader) -> None:
    answer = reader.read(samples_of("http_requests_total[10000ms]", NOW - 2.0))
    assert isinstance(answer, Answered)
    assert {sample.at for series in answer.series for sample in series.samples} == {NOW - 1, NOW}


def test_no_series_is_an_answer_and_no_fault(reader: MetricsReader) -> None:
    assert reader.read(samples_of("nothing_total[5000ms]")) == Answered(())


def test_a_regular_expression_matches_the_whole_value(reader: MetricsReader) -> None:
    assert reader.read(samples_of('http_requests_total{pod=~"checkout-[a-z]{4}"}[5000ms]')) == Answered(())
    answer = reader.read(samples_of('http_requests_total{pod=~"checkout-[a-z0-9]{5}",code!="200"}[5000ms]'))
    assert isinstance(answer, Answered)
    assert len(answer.series) == 1


def test_a_label_value_survives_quotes_backslashes_and_line_ends(reader: MetricsReader) -> None:
    answer = reader.read(samples_of('odd{text="a\\"b\\\\c\\nd"}[5000ms]'))
    assert isinstance(answer, Answered)
    assert answer.series[0].label("text") == 'a"b\\c\nd'


def test_nan_and_infinity_among_raw_samples_are_handed_on(reader: MetricsReader) -> None:
    answer = reader.read(samples_of("broken[5000ms]"))
    assert isinstance(answer, Answered)
    assert {text(series.samples[0].value) for series in answer.series} == {"NaN", "+Inf"}


def test_one_value_is_one_sample(reader: MetricsReader) -> None:
    answer = reader.read(value_of('http_requests_total{code="500"}'))
    assert isinstance(answer, Answered)
    assert [sample.value for series in answer.series for sample in series.samples] == [20.0]


def test_several_values_come_with_their_labels(reader: MetricsReader) -> None:
    answer = reader.read(Question("prometheus", "http_requests_total", NOW, NOW - 2, Expect.VALUES, 2.0))
    assert isinstance(answer, Answered)
    assert {(own.label("code"), own.samples[0].value) for own in answer.series} == {
        ("200", 200.0), ("500", 20.0),
    }  # fmt: skip


@pytest.mark.parametrize(("back", "found"), [(5.0, True), (3.0, False)])
def test_a_value_is_looked_for_no_further_back_than_asked(
    reader: MetricsReader, back: float, found: bool
) -> None:
    asked = Question("prometheus", 'http_requests_total{code="500"}', NOW + 8, NOW, Expect.VALUES, back)
    assert isinstance(reader.read(asked), Answered) is found


def test_how_many_series_had_a_sample_lately_is_a_value(reader: MetricsReader) -> None:
    answer = reader.read(value_of("count(last_over_time(http_requests_total[2000ms]))"))
    assert isinstance(answer, Answered)
    assert answer.series[0].samples[0].value == 2.0
    absent = reader.read(value_of("count(last_over_time(nothing_total[2000ms]))"))
    assert isinstance(absent, Fault)
    assert absent.reason is Reason.NO_DATA


def test_native_histograms_come_with_the_ends_of_their_buckets(reader: MetricsReader) -> None:
    answer = reader.read(Question("prometheus", "latency[2000ms]", NOW, NOW - 2, Expect.HISTOGRAMS))
    assert isinstance(answer, Answered)
    buckets = Bucket(float("-inf"), 0.25, True, True, 3.0), Bucket(0.25, 0.5, False, True, 2.0)
    assert answer.series[0].histograms == (Histogram(NOW - 1, 5.0, buckets), Histogram(NOW, 5.0, buckets))
    counters = Question("prometheus", "http_requests_total[2000ms]", NOW, NOW - 2, Expect.HISTOGRAMS)
    assert reader.read(counters) == Answered(())


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("nothing_total", Reason.NO_DATA),
        ("http_requests_total", Reason.UNEXPECTED_SERIES),
        ('broken{kind="nan"}', Reason.NOT_A_NUMBER),
        ('broken{kind="inf"}', Reason.INFINITE),
    ],
)
def test_a_value_that_is_not_one_number_has_its_own_reason(
    reader: MetricsReader, query: str, reason: Reason
) -> None:
    answer = reader.read(value_of(query))
    assert isinstance(answer, Fault)
    assert answer.reason is reason


def test_raw_samples_asked_for_without_a_range_are_the_wrong_type(reader: MetricsReader) -> None:
    answer = reader.read(samples_of("http_requests_total"))
    assert isinstance(answer, Fault)
    assert answer.reason is Reason.WRONG_RESULT_TYPE


def test_a_query_that_the_source_can_not_read_is_the_askers_fault(reader: MetricsReader) -> None:
    answer = reader.read(samples_of("{{[5000ms]"))
    assert isinstance(answer, Fault)
    assert answer.reason is Reason.CLIENT_ERROR


def test_many_threads_read_at_once(reader: MetricsReader) -> None:
    barrier = threading.Barrier(4)

    def read(_: int) -> object:
        barrier.wait(5)
        return [reader.read(samples_of("http_requests_total[5000ms]")) for _ in range(5)]

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(read, range(4)))
    assert all(answer == answers[0] for answer in answers)


def test_a_reader_says_how_long_it_may_take(reader: MetricsReader) -> None:
    assert 0 < reader.deadline_seconds <= 10
