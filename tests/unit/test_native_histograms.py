"""Native histograms as counts: what is read from their JSON, what counts as new, and when `le` can't be told."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewright_analysis.evidence.model import Counts, Fault, Window
from gatewright_analysis.evidence.native import NativeCount, began_anew, split
from gatewright_analysis.evidence.question import Answered, Bucket, Expect, Histogram, Question
from gatewright_analysis.providers.answers import read_answer
from gatewright_analysis.providers.fake import FakeReader
from gatewright_analysis.reasons import Reason
from tests.unit.evidence_world import (
    CANARY,
    LATENCY,
    NAMESPACE,
    STABLE,
    T0,
    canary_pod,
    collector,
    look,
    run_seconds,
    stable_pod,
)

INF = float("inf")
NAME = "http_request_duration_seconds"
ASKED = Question("prometheus", f"{NAME}[10000ms]", T0, T0 - 10, Expect.HISTOGRAMS)


def bucket(low: float, high: float, count: float, ends: str = "(]") -> Bucket:
    return Bucket(low, high, ends[0] == "[", ends[1] == "]", count)


def state(count: float, *buckets: Bucket) -> Histogram:
    return Histogram(T0, count, buckets)


def counted(count: float, *buckets: Bucket, le: float = 0.5) -> NativeCount:
    found = split(state(count, *buckets), le)
    assert isinstance(found, NativeCount), found
    return found


# From JSON


def answer(*pairs: Any, metric: Any = None, **item: Any) -> Any:
    own = {"metric": metric or {"__name__": NAME}, "histograms": list(pairs)} | item
    return read_answer(ASKED, {"data": {"resultType": "matrix", "result": [own]}})


def test_exponential_and_custom_buckets_are_read_as_prometheus_writes_them() -> None:
    found = answer(
        [T0 - 1, {"count": "25", "sum": "12.5", "buckets": [
            [1, "-2", "-1", "3"], [3, "-1e-128", "1e-128", "1"], [0, "0.25", "0.5", "4"], [0, "4", "8", "2"],
        ]}],
        [T0, {"count": "132", "sum": "313.5", "buckets": [[3, "-Inf", "0.25", "66"], [0, "1", "+Inf", "33"]]}],
        [T0 - 2, {"count": "0", "sum": "0"}],
    )  # fmt: skip
    assert isinstance(found, Answered)
    (series,) = found.series
    assert series.histograms == (
        Histogram(T0 - 2, 0, ()),
        Histogram(
            T0 - 1,
            25,
            (
                bucket(-2, -1, 3, "[)"),
                bucket(-1e-128, 1e-128, 1, "[]"),
                bucket(0.25, 0.5, 4),
                bucket(4, 8, 2),
            ),
        ),
        Histogram(T0, 132, (bucket(-INF, 0.25, 66, "[]"), bucket(1, INF, 33))),
    )
    assert found.samples == 9, "a histogram weighs as much as its buckets"


def test_states_outside_the_question_are_left_out() -> None:
    found = answer(*([T0 + at, {"count": "1"}] for at in (-10, -9, 0, 1)))
    assert isinstance(found, Answered)
    assert [own.at - T0 for own in found.series[0].histograms] == [-9, 0]


def test_plain_numbers_under_the_same_name_are_no_histograms() -> None:
    body = {"data": {"resultType": "matrix", "result": [{"metric": {}, "values": [[T0, "1"]]}]}}
    assert read_answer(ASKED, body) == Answered(())


@pytest.mark.parametrize(
    "pair",
    [
        [T0],
        [T0, []],
        [T0, {}],
        [T0, {"count": 3}],
        [T0, {"count": "many"}],
        [True, {"count": "1"}],
        [float("inf"), {"count": "1"}],
        [T0, {"count": "1", "buckets": {}}],
        [T0, {"count": "1", "buckets": [[0, "0", "1"]]}],
        [T0, {"count": "1", "buckets": [[4, "0", "1", "1"]]}],
        [T0, {"count": "1", "buckets": [[True, "0", "1", "1"]]}],
        [T0, {"count": "1", "buckets": [["0", "0", "1", "1"]]}],
        [T0, {"count": "1", "buckets": [[0, "1", "0", "1"]]}],
        [T0, {"count": "1", "buckets": [[0, "NaN", "1", "1"]]}],
        [T0, {"count": "1", "buckets": [[0, "+Inf", "+Inf", "1"]]}],
        [T0, {"count": "1", "buckets": [[0, "0", "1", 1]]}],
        [T0, {"count": "2", "buckets": [[0, "0", "1", "1"], [0, "0", "1", "1"]]}],
    ],
)
def test_what_is_not_of_the_documented_form_is_a_fault(pair: Any) -> None:
    found = answer(pair)
    assert isinstance(found, Fault)
    assert found.reason is Reason.WRONG_RESULT_TYPE


def test_a_series_that_is_both_is_a_fault() -> None:
    found = answer([T0, {"count": "1"}], values=[[T0 - 1, "1"]])
    assert isinstance(found, Fault)
    assert found.reason is Reason.WRONG_RESULT_TYPE


def test_the_same_series_twice_is_a_fault() -> None:
    item = {"metric": {}, "histograms": [[T0, {"count": "1"}]]}
    found = read_answer(ASKED, {"data": {"resultType": "matrix", "result": [item, item]}})
    assert isinstance(found, Fault)
    assert found.reason is Reason.UNEXPECTED_SERIES


# Split at le


@pytest.mark.parametrize(
    ("buckets", "good"),
    [
        ((bucket(0.25, 0.5, 4), bucket(0.5, 1, 2)), 4),
        ((bucket(0.25, 0.5, 4), bucket(4, 8, 2)), 4),
        ((bucket(-2, -1, 3, "[)"), bucket(-0.001, 0.001, 1, "[]"), bucket(0.4, 0.5, 2)), 6),
        ((bucket(-INF, 0.5, 6, "[]"),), 6),
        ((bucket(0.5, INF, 6),), 0),
        ((bucket(0.25, 1, 0), bucket(-INF, 0.25, 6, "[]")), 6),
        ((), 0),
    ],
)
def test_only_whole_buckets_at_or_below_le_are_good(buckets: tuple[Bucket, ...], good: int) -> None:
    found = counted(6, *buckets)
    assert (found.total, found.good) == (6, good)


@pytest.mark.parametrize(
    ("own", "named"),
    [
        (bucket(0.25, 1, 1), "0.25 and 1;"),
        (bucket(0.5, 1, 1, "[)"), "0.5 and 1;"),
        (bucket(-INF, 1, 1, "[]"), "boundaries are 1;"),
        (bucket(0.25, INF, 1), "boundaries are 0.25;"),
        (bucket(-INF, INF, 1, "[]"), "one bucket only"),
    ],
)
def test_a_bucket_with_le_inside_it_names_its_ends(own: Bucket, named: str) -> None:
    found = split(state(1, own), 0.5)
    assert isinstance(found, Fault)
    assert found.reason is Reason.BUCKET_RESOLUTION
    assert named in found.detail


@pytest.mark.parametrize(
    ("count", "own", "reason"),
    [
        (float("nan"), bucket(0, 0.5, 1), Reason.NOT_A_NUMBER),
        (INF, bucket(0, 0.5, 1), Reason.INFINITE),
        (-1, bucket(0, 0.5, 0), Reason.NEGATIVE_COUNT),
        (2.5, bucket(0, 0.5, 1), Reason.NOT_A_COUNTER),
        (2, bucket(0, 0.5, 1.5), Reason.NOT_A_COUNTER),
        (2, bucket(0, 0.5, -1), Reason.NEGATIVE_COUNT),
        (2, bucket(0, 0.5, float("nan")), Reason.NOT_A_NUMBER),
        (2, bucket(0, 0.5, 3), Reason.NOT_A_COUNTER),
    ],
)
def test_a_count_that_is_none_is_a_fault(count: float, own: Bucket, reason: Reason) -> None:
    found = split(state(count, own), 0.5)
    assert isinstance(found, Fault)
    assert found.reason is reason


# Resets


@pytest.mark.parametrize(
    ("before", "now", "anew"),
    [
        ((6, bucket(0, 0.5, 6)), (6, bucket(0, 0.5, 6)), False),
        ((6, bucket(0, 0.5, 6)), (5, bucket(0, 0.5, 5)), True),
        ((6, bucket(0, 0.5, 6)), (9, bucket(0, 0.5, 5), bucket(1, 2, 4)), True),
        ((6, bucket(0, 0.5, 6)), (9, bucket(1, 2, 9)), True),
        ((6, bucket(0.125, 0.25, 2), bucket(0.25, 0.5, 4)), (7, bucket(0, 0.5, 7)), False),
        ((6, bucket(0.125, 0.25, 2), bucket(0.25, 0.5, 4)), (7, bucket(0, 0.5, 5), bucket(1, 2, 2)), True),
        ((6, bucket(0, 0.5, 6)), (7, bucket(0, 0.25, 4), bucket(0.25, 0.5, 3)), True),
        ((6, bucket(0.001, 0.002, 6)), (6, bucket(-0.002, 0.002, 6, "[]")), False),
        ((6, bucket(0, 0.5, 6, "[]")), (6, bucket(0, 0.5, 6)), True),
        ((0,), (0,), False),
    ],
)
def test_gone_observations_are_a_new_start_and_wider_buckets_are_none(
    before: tuple[Any, ...], now: tuple[Any, ...], anew: bool
) -> None:
    assert began_anew(counted(*before), counted(*now)) is anew


GROWTH = st.lists(st.tuples(st.integers(-6, 3), st.integers(1, 50)), max_size=8)


@given(GROWTH, GROWTH)
def test_a_histogram_that_grows_and_halves_its_resolution_never_began_anew(
    first: list[tuple[int, int]], then: list[tuple[int, int]]
) -> None:
    """Schema 0 has the boundaries 2^k; schema -1 joins each two of them."""

    def exponential(observed: list[tuple[int, int]], *, wide: bool) -> NativeCount:
        sums: dict[int, int] = {}
        for index, amount in observed:
            index = index // 2 if wide else index
            sums[index] = sums.get(index, 0) + amount
        base = 4.0 if wide else 2.0
        buckets = [bucket(base**i, base ** (i + 1), amount) for i, amount in sums.items()]
        return counted(sum(sums.values()), *buckets, le=1024.0)

    before = exponential(first, wide=False)
    assert not began_anew(before, exponential(first + then, wide=False))
    assert not began_anew(before, exponential(first + then, wide=True))
    if first:
        assert began_anew(before, exponential(first[1:], wide=True))


# Through the collector


def native(
    reader: FakeReader, pod: str, at: float, fast: int, slow: int, *more: Bucket, extra: int = 0
) -> None:
    labels = {"namespace": NAMESPACE, "job": "pods", "instance": f"{pod}:8080", "pod": pod}
    buckets = [bucket(-INF, 0.5, fast, "[]"), bucket(0.5, INF, slow), *more]
    used = tuple(own for own in buckets if own.held)
    reader.put_histogram(NAME, labels, T0 + at, fast + slow + extra, *used)


CANARY_POD, STABLE_POD = f"{CANARY.pod_prefix}aaaaa", f"{STABLE.pod_prefix}zzzzz"


def steady(until: int = 32) -> FakeReader:
    """Each second the canary answers two requests fast and one slowly, stable eight fast."""
    reader = FakeReader()
    for second in range(-20, until):
        passed = second + 21
        native(reader, CANARY_POD, second + 0.5, 1000 + 2 * passed, passed)
        native(reader, STABLE_POD, second + 0.2, 8 * passed, 0)
    return reader


def arms(windows: tuple[Window, ...]) -> list[tuple[Counts, Counts | None]]:
    assert [window.fault for window in windows] == [None] * len(windows)
    return [(window.canary, window.stable) for window in windows]


def test_native_histograms_are_counted_window_by_window() -> None:
    own = collector(LATENCY)
    assert arms(look(own, steady(), 31.0)) == [(Counts(20, 10), Counts(80, 0))] * 3
    assert sum((tick.canary for tick in own.ticks(T0 + 31)), Counts(0, 0)).n > 0


def test_the_time_of_looks_and_a_restart_change_no_window() -> None:
    reader, own = steady(), collector(LATENCY)
    seen: tuple[Window, ...] = ()
    for tenths in range(0, 310, 13):
        seen += look(own, reader, tenths / 10)
    assert seen + look(own, reader, 31.0) == look(collector(LATENCY), reader, 31.0)


def test_a_restarted_process_counts_from_zero_also_when_it_has_more_than_before() -> None:
    reader = FakeReader()
    for second in range(-20, 12):
        fast, slow = (10, 2) if second < 5 else (4, 40)
        native(reader, CANARY_POD, second + 0.5, fast, slow)
        native(reader, STABLE_POD, second + 0.5, 100, 0)
    (window,) = look(collector(LATENCY), reader, 11.0)
    assert (window.canary, window.resets, window.fault) == (Counts(4, 40), 1, None)


def test_a_new_pod_starts_at_zero_where_its_birth_is_known_and_else_at_its_first_sample() -> None:
    reader = steady()
    young = f"{CANARY.pod_prefix}bbbbb"
    for second in (4, 5, 6, 7, 8, 9):
        native(reader, young, second + 0.5, 5, 3 if second < 7 else 4)
    (known, _, _) = look(collector(LATENCY), reader, 31.0, births={young: T0 + 3})
    assert known.canary == Counts(25, 14)
    (unknown, _, _) = look(collector(LATENCY), reader, 31.0)
    assert unknown.canary == Counts(20, 11)


def test_observations_that_were_nan_are_never_good() -> None:
    reader = FakeReader()
    for second in range(-20, 12):
        native(reader, CANARY_POD, second + 0.5, 100, 0, extra=0 if second < 5 else 3)
        native(reader, STABLE_POD, second + 0.5, 100, 0)
    assert arms(look(collector(LATENCY), reader, 11.0)) == [(Counts(0, 3), Counts(0, 0))]


def test_a_histogram_that_is_classic_and_native_is_counted_once_as_a_classic_one() -> None:
    reader = steady()
    pods = canary_pod(), stable_pod(offset=0.2)
    for pod, ok in zip(pods, (3, 4), strict=True):
        for second in range(-20, 32):
            for name, labels in (("bucket", {"le": "0.5"}), ("bucket", {"le": "+Inf"}), ("count", {})):
                pod.count(f"{NAME}_{name}", ok, **labels)
            pod.scrape_into(reader, T0 + second + pod.offset)
    assert arms(look(collector(LATENCY), reader, 31.0)) == [(Counts(30, 0), Counts(40, 0))] * 3


def test_a_histogram_that_becomes_classic_too_goes_on_as_a_native_one() -> None:
    """Else its first classic sample would be taken for new requests, all of them."""
    reader = steady()
    pod = canary_pod()
    for second in range(12, 32):
        pod.count(f"{NAME}_bucket", 5000, le="0.5")
        pod.count(f"{NAME}_count", 5000)
        pod.scrape_into(reader, T0 + second + pod.offset)
    assert arms(look(collector(LATENCY), reader, 31.0)) == [(Counts(20, 10), Counts(80, 0))] * 3


def test_a_native_canary_and_a_classic_stable_are_compared() -> None:
    reader = FakeReader()
    pod = stable_pod()
    for second in range(-20, 12):
        native(reader, CANARY_POD, second + 0.5, 2 * (second + 20), second + 20)
        pod.count(f"{NAME}_bucket", 7, le="0.5")
        pod.count(f"{NAME}_count", 8)
        pod.scrape_into(reader, T0 + second + pod.offset)
    assert arms(look(collector(LATENCY), reader, 11.0)) == [(Counts(20, 10), Counts(70, 10))]


def test_from_the_first_observation_that_le_divides_no_window_can_be_used() -> None:
    reader = steady(12)
    for second in range(12, 45):
        between = 1 if 12 <= second < 14 else 2
        native(reader, CANARY_POD, second + 0.5, 2000, 40, bucket(0.25, 1, between), extra=between)
        native(reader, STABLE_POD, second + 0.2, 300, 0)
    first, *rest = look(collector(LATENCY), reader, 41.0)
    assert first.fault is None
    assert [window.fault and window.fault.reason for window in rest] == [Reason.BUCKET_RESOLUTION] * 3
    assert rest[0].fault is not None
    assert "0.25 and 1" in rest[0].fault.detail


def test_no_series_of_either_form_names_both() -> None:
    reader = FakeReader()
    run_seconds(reader, [(canary_pod(), 1, 0), (stable_pod(), 1, 0)], -20, 12)
    own = collector(LATENCY)
    look(own, reader, 11.0)
    assert own.fault is not None
    assert own.fault.reason is Reason.NO_DATA
    assert f"{NAME}_count or {NAME} has no series" in own.fault.detail


def test_counters_that_turn_out_to_be_native_histograms_are_a_fault() -> None:
    plain = Question("prometheus", f"{NAME}[10000ms]", T0, T0 - 10)
    item = {"metric": {}, "histograms": [[T0, {"count": "1"}]]}
    found = read_answer(plain, {"data": {"resultType": "matrix", "result": [item]}})
    assert isinstance(found, Fault)
    assert found.reason is Reason.WRONG_RESULT_TYPE
