"""What is asked for a gauge, and which readings come of the answers."""

from itertools import pairwise
from typing import Any

import pytest

from gatewright_analysis.evidence.gauges import GaugeCollector, aggregated
from gatewright_analysis.evidence.model import Fault, Window
from gatewright_analysis.evidence.question import Answered, Answers, Expect, Sample, Series, labels_of
from gatewright_analysis.gauge import ValueMonitor
from gatewright_analysis.kinds.contract import Evidence
from gatewright_analysis.kinds.evidence import Aggregate
from gatewright_analysis.kinds.source import ArmsBy
from gatewright_analysis.providers.fake import FakeReader
from gatewright_analysis.reasons import Reason
from gatewright_analysis.task import Bounds
from gatewright_analysis.verdict import CheckStatus
from tests import judging
from tests.unit.evidence_world import CANARY, NAMESPACE, STABLE, T0, source

POD = f"{CANARY.pod_prefix}aaaaa"
OTHER = f"{CANARY.pod_prefix}bbbbb"
SELECTOR = f'queue_depth{{namespace="{NAMESPACE}",pod=~"{CANARY.pod_prefix}[a-z0-9]{{5}}"}}'
OUTAGE = Fault(Reason.UNREACHABLE, "the source can't be reached")


def gauge(**fields: Any) -> Evidence:
    value = {"source": "prometheus", "query": "queue_depth{$arm}", "max": 100.0, "spacing": "10s"} | fields
    return Evidence.model_validate({"stages": ["Canary"], "value": value})


def collector(evidence: Evidence | None = None, **changes: Any) -> GaugeCollector:
    """10 s windows and 1 s scrapes, unless `changes` say otherwise."""
    given = {
        "evidence": evidence or gauge(),
        "source": source(),
        "namespace": NAMESPACE,
        "canary": CANARY,
        "t0": T0,
        "window_seconds": 10.0,
    }
    return GaugeCollector(**given | changes)


def depth(reader: FakeReader, at: float, value: float, pod: str = POD, namespace: str = NAMESPACE) -> None:
    reader.put("queue_depth", {"namespace": namespace, "pod": pod}, T0 + at, value)


def steady(seconds: int, value: float = 7.0, **where: str) -> FakeReader:
    reader = FakeReader()
    for second in range(-5, seconds):
        depth(reader, second + 0.5, value + second, **where)
    return reader


def look(own: GaugeCollector, reader: FakeReader, now: float) -> tuple[Window, ...]:
    answers = {question: reader.read(question) for question in own.questions(T0 + now)}
    early = own.windows()
    own.absorb(answers, T0 + now)
    return early + own.windows()


def readings(windows: tuple[Window, ...]) -> dict[int, float | Reason | None]:
    return {w.index: w.value if w.fault is None else w.fault.reason for w in windows}


def answers_to(own: GaugeCollector, now: float, *values: float) -> Answers:
    """The query has these values, and its series are all fresh."""
    series = [Series(labels_of({"n": str(n)}), (Sample(T0, value),)) for n, value in enumerate(values)]
    return {
        question: Answered(tuple(series))
        if question.expect is Expect.VALUES
        else Answered((Series(frozenset(), (Sample(T0, 1.0),)),))
        for question in own.questions(T0 + now)
    }


def test_the_value_at_the_end_of_each_window_is_read() -> None:
    assert readings(look(collector(), steady(31), 31.0)) == {0: 16.0, 1: 26.0, 2: 36.0}


def test_a_reading_is_asked_for_once_at_an_explicit_time_one_scrape_after_the_window() -> None:
    own = collector()
    assert own.questions(T0 + 10.9) == ()
    value, fresh = own.questions(T0 + 11.0)
    assert (value.query, value.time, value.expect, value.lookback) == (SELECTOR, T0 + 10, Expect.VALUES, 2.0)
    assert fresh.query == f"count(last_over_time({SELECTOR}[2000ms]))"
    assert (fresh.time, fresh.expect) == (T0 + 10, Expect.VALUE)
    own.absorb(answers_to(own, 11.0, 5.0), T0 + 11)
    assert readings(own.windows()) == {0: 5.0}
    assert own.questions(T0 + 12) == ()


def test_only_windows_whose_reading_counts_are_asked_for() -> None:
    own, reader = collector(gauge(spacing="25s")), steady(75)
    windows = look(own, reader, 71.0)
    assert readings(windows) == {0: 16.0, 1: None, 2: None, 3: 46.0, 4: None, 5: None, 6: 76.0}
    assert {question.time - T0 for question in reader.asked} == {10.0, 40.0, 70.0}


@pytest.mark.parametrize("spacing", [1, 10, 11, 25, 30, 31, 45])
@pytest.mark.parametrize("window", [10.0, 30.0])
def test_collector_and_judge_mean_the_same_windows(spacing: int, window: float) -> None:
    """Every reading that the judge counts was asked for, and no other was."""
    evidence = gauge(spacing=f"{spacing}s", minWindows=3)
    own, reader = collector(evidence, window_seconds=window), steady(int(12 * window) + 2)
    windows = look(own, reader, 12 * window + 1)
    check = {"id": "queue", "oracleKind": "Deterministic", "evidence": [evidence.model_dump(mode="json", by_alias=True, exclude_none=True)]}  # fmt: skip
    monitor = ValueMonitor(judging.task(check), Bounds(12 * window, 12 * window, window))
    for one in windows:
        monitor.add(one)
    statistics = monitor.result(judging.at(0.0)).statistics
    assert statistics is not None
    assert (
        statistics.n == sum(one.value is not None for one in windows) == len({q.time for q in reader.asked})
    )
    assert statistics.missing == 0
    ends = sorted({question.time for question in reader.asked})
    assert all(later - earlier >= spacing for earlier, later in pairwise(ends))


def test_the_time_of_looks_and_a_restart_change_no_window() -> None:
    reader = steady(95)
    patient = look(collector(gauge(spacing="15s")), reader, 93.0)
    own = collector(gauge(spacing="15s"))
    seen: tuple[Window, ...] = ()
    for tenths in range(0, 930, 7):
        seen += look(own, reader, tenths / 10)
    assert seen + look(own, reader, 93.0) == patient
    assert len(patient) == 9


def test_a_long_backlog_is_caught_up_over_several_looks() -> None:
    own, reader = collector(), steady(1003)
    assert len(look(own, reader, 1001.0)) == 60
    assert own.window_pending(T0 + 1001)
    assert len(look(own, reader, 1001.0)) == 40
    assert not own.window_pending(T0 + 1001)


def test_stable_and_other_namespaces_are_not_read() -> None:
    reader = steady(12)
    for second in range(12):
        depth(reader, second + 0.5, 1e6, pod=f"{STABLE.pod_prefix}zzzzz")
        depth(reader, second + 0.5, 1e6, namespace="other")
    assert readings(look(collector(), reader, 11.0)) == {0: 16.0}


def test_a_value_of_the_workload_is_read_over_both_arms_of_the_namespace() -> None:
    reader = steady(12)
    for second in range(12):
        depth(reader, second + 0.5, 100.0, pod=f"{STABLE.pod_prefix}zzzzz")
        depth(reader, second + 0.5, 1e6, namespace="other")
    own = collector(gauge(scope="Workload", aggregate="Sum"))
    assert readings(look(own, reader, 11.0)) == {0: 116.0}
    assert {q.query for q in reader.asked if q.expect is Expect.VALUES} == {
        f'queue_depth{{namespace="{NAMESPACE}"}}'
    }


# What can't be used


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), Reason.NOT_A_NUMBER),
        (float("inf"), Reason.INFINITE),
        (float("-inf"), Reason.INFINITE),
    ],
)
def test_what_is_no_number_is_a_fault(value: float, reason: Reason) -> None:
    reader = FakeReader()
    for second in range(12):
        depth(reader, second + 0.5, value)
    assert readings(look(collector(), reader, 11.0)) == {0: reason}


def test_a_negative_or_fractional_value_is_a_value() -> None:
    reader = FakeReader()
    depth(reader, 9.5, -2.25)
    assert readings(look(collector(), reader, 11.0)) == {0: -2.25}


@pytest.mark.parametrize(("age", "found"), [(1.9, 3.0), (2.1, Reason.NO_DATA)])
def test_a_sample_older_than_two_scrapes_is_no_reading(age: float, found: object) -> None:
    reader = FakeReader()
    depth(reader, 10 - age, 3.0)
    assert readings(look(collector(), reader, 15.0)) == {0: found}


def test_a_source_that_looks_back_further_all_the_same_is_found_out() -> None:
    """As one that doesn't know lookback_delta, or a query over `[5m]` of a target that is gone."""
    own = collector()
    value, fresh = own.questions(T0 + 15)
    old = Answered((Series(frozenset(), (Sample(T0 + 10, 3.0),)),))
    own.absorb({value: old, fresh: Fault(Reason.NO_DATA, "the query has no result")}, T0 + 15)
    (window,) = own.windows()
    assert window.value is None
    assert window.fault is not None
    assert window.fault.reason is Reason.STALE
    assert "queue_depth" in window.fault.detail


def test_no_series_is_waited_for_a_little_and_then_a_fault() -> None:
    own, reader = collector(), FakeReader()
    assert look(own, reader, 11.0) == ()
    assert own.fault is not None
    assert own.fault.reason is Reason.NO_DATA
    depth(reader, 9.5, 4.0)  # stored late
    assert readings(look(own, reader, 12.0)) == {0: 4.0}
    assert look(own, reader, 23.9) == ()
    assert readings(look(own, reader, 24.0)) == {1: Reason.NO_DATA}


def test_several_series_need_an_aggregate() -> None:
    reader = steady(12)
    depth(reader, 9.5, 4.0, pod=OTHER)
    (window,) = look(collector(), reader, 11.0)
    assert window.fault is not None
    assert window.fault.reason is Reason.UNEXPECTED_SERIES
    assert "gives 2 values: say with aggregate" in window.fault.detail
    by_sum = collector(gauge(aggregate="Sum"))
    assert readings(look(by_sum, reader, 11.0)) == {0: 20.0}


@pytest.mark.parametrize(
    ("how", "values", "value"),
    [
        (Aggregate.SUM, [1e16, 1.0, -1e16, 1.0], 2.0),
        (Aggregate.AVG, [0.1] * 10, 0.1),
        (Aggregate.MIN, [3.0, -1.0, 2.0], -1.0),
        (Aggregate.MAX, [3.0, -1.0, 2.0], 3.0),
        (None, [5.0], 5.0),
    ],
)
def test_several_values_become_one_exactly_and_in_any_order(
    how: Aggregate | None, values: list[float], value: float
) -> None:
    assert aggregated(values, how) == value
    assert aggregated(reversed(values), how) == value


@pytest.mark.parametrize("values", [[], [1.7e308] * 2, [1.0, 2.0]])
def test_values_that_do_not_become_one_are_a_fault(values: list[float]) -> None:
    how = Aggregate.SUM if len(set(values)) < 2 else None
    assert isinstance(aggregated(values, how), Fault)


def test_an_outage_is_asked_again_and_at_the_end_of_the_gate_a_fault() -> None:
    own, reader = collector(), steady(60)
    reader.fault = OUTAGE
    assert look(own, reader, 31.0) == ()
    assert own.fault == OUTAGE
    assert own.window_pending(T0 + 31)
    reader.fault = None
    assert readings(look(own, reader, 32.0)) == {0: 16.0, 1: 26.0, 2: 36.0}
    assert own.fault is None
    reader.fault = OUTAGE
    look(own, reader, 51.0)
    assert [(w.index, w.fault) for w in own.finish(T0 + 50)] == [(3, OUTAGE), (4, OUTAGE)]


def test_half_an_answer_closes_no_window() -> None:
    own = collector()
    value, fresh = own.questions(T0 + 11)
    whole = answers_to(own, 11.0, 5.0)
    own.absorb({value: whole[value]}, T0 + 11)
    assert own.windows() == ()
    assert own.questions(T0 + 12) == (fresh,)
    own.absorb({fresh: whole[fresh]}, T0 + 12)
    assert readings(own.windows()) == {0: 5.0}


@pytest.mark.parametrize("query", ["queue_depth + x{$arm}", 'queue_depth{pod="x",$arm}'])
def test_a_query_that_reads_beside_its_arm_can_not_be_collected(query: str) -> None:
    with pytest.raises(ValueError, match=r"no \$arm|sets the label"):
        collector(gauge(query=query))


def test_an_arm_without_the_name_that_the_source_tells_by_can_not_be_collected() -> None:
    with pytest.raises(ValueError, match="tells arms apart by Workload"):
        collector(source=source(ArmsBy.WORKLOAD, "workload"))


# From the collector to a verdict


@pytest.mark.parametrize(
    ("values", "status", "reason"),
    [
        ([50.0] * 6, CheckStatus.PASS, Reason.PASSED),
        ([500.0] * 6, CheckStatus.FAIL, Reason.VALUE_OUTSIDE),
        ([50.0, 500.0] * 3, CheckStatus.BELOW_THRESHOLD, Reason.BELOW_THRESHOLD),
        ([float("nan")] * 6, CheckStatus.INCONCLUSIVE, Reason.NOT_A_NUMBER),
        ([], CheckStatus.INCONCLUSIVE, Reason.NO_DATA),
    ],
)
def test_a_gate_on_a_gauge(values: list[float], status: CheckStatus, reason: Reason) -> None:
    evidence, reader = gauge(minWindows=3), FakeReader()
    for index, value in enumerate(values):
        depth(reader, 10 * index + 9.5, value)
    check = {"id": "queue", "oracleKind": "Deterministic", "evidence": [evidence.model_dump(mode="json", by_alias=True, exclude_none=True)]}  # fmt: skip
    monitor = ValueMonitor(judging.task(check), Bounds(60.0, 60.0, 10.0))
    for window in look(collector(evidence), reader, 65.0):
        monitor.add(window)
    result = monitor.result(judging.at(65.0, duration=60.0, max_duration=60.0))
    assert (result.status, result.reason) == (status, reason), result.message
