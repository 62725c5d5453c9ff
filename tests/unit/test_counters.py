"""Increments of counters are whole numbers from raw samples, and what can't be counted is said by name."""

import pytest

from gatewright_analysis.evidence.counters import Increment, Last, increment, read_count
from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.question import Labels, Sample, Series, labels_of
from gatewright_analysis.evidence.targets import Reading, TargetKey, Targets, target_key
from gatewright_analysis.evidence.windows import Grid
from gatewright_analysis.kinds.source import Arms, ArmsBy
from gatewright_analysis.reasons import Reason

GRID = Grid(t0=1000.0, window=30.0, scrape_interval=5.0)
POD = TargetKey("pods", "10.244.0.7:8080", "checkout-aaaaa")
LABELS: Labels = labels_of({"__name__": "http_requests_total", "code": "200"})
FAILED: Labels = labels_of({"__name__": "http_requests_total", "code": "500"})


def series(*samples: tuple[float, float], labels: Labels = LABELS) -> Series:
    return Series(labels, tuple(Sample(at, value) for at, value in samples))


def amounts(readings: list[Reading], labels: Labels = LABELS) -> list[tuple[float, int]]:
    return [(reading.at, reading.amount) for reading in readings if reading.counter.labels == labels]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), Reason.NOT_A_NUMBER),
        (float("inf"), Reason.INFINITE),
        (float("-inf"), Reason.INFINITE),
        (-1.0, Reason.NEGATIVE_COUNT),
        (1.5, Reason.NOT_A_COUNTER),
    ],
)
def test_a_value_that_is_no_count_has_its_own_reason(value: float, reason: Reason) -> None:
    fault = read_count(value)
    assert isinstance(fault, Fault)
    assert fault.reason is reason


def test_a_whole_number_is_an_int() -> None:
    count = read_count(12.0)
    assert count == 12
    assert isinstance(count, int)


def test_the_difference_belongs_to_the_later_sample() -> None:
    assert increment(Last(10.0, 5), 15.0, 8) == Increment(15.0, 3)


def test_a_drop_is_a_reset_and_the_new_value_is_new() -> None:
    assert increment(Last(10.0, 5), 15.0, 3) == Increment(15.0, 3, reset=True)


def test_a_new_counter_starts_at_zero_only_when_it_is_known_to_be_new() -> None:
    assert increment(None, 15.0, 7, born_after=12.0) == Increment(15.0, 7)
    assert increment(None, 15.0, 7) == Increment(15.0, 0)


def test_a_process_known_to_have_restarted_counts_from_zero_even_when_its_value_is_higher() -> None:
    assert increment(Last(10.0, 5), 15.0, 9, restarted=True) == Increment(15.0, 9, reset=True)


def test_the_first_500_of_a_pod_that_was_scraped_before_is_counted() -> None:
    targets = Targets(GRID, 990.0)
    targets.add(0, POD, series((995.0, 10), (1000.0, 20), (1005.0, 30)))
    targets.add(1, POD, series((1005.0, 1), labels=FAILED))
    assert amounts(targets.settle(1005.0), FAILED) == [(1005.0, 1)]


def test_the_first_sample_of_a_target_that_was_never_seen_is_where_counting_begins() -> None:
    targets = Targets(GRID, 990.0)
    targets.add(0, POD, series((1010.0, 1_000_000), (1015.0, 1_000_003)))
    assert amounts(targets.settle(1015.0)) == [(1010.0, 0), (1015.0, 3)]


def test_a_pod_younger_than_the_window_started_at_zero() -> None:
    targets = Targets(GRID, 990.0)
    targets.add(0, POD, series((1010.0, 4)), born=1001.0)
    assert amounts(targets.settle(1010.0)) == [(1010.0, 4)]


def test_a_pod_older_than_the_window_proves_nothing_about_what_was_lost() -> None:
    targets = Targets(GRID, 900.0)
    targets.add(0, POD, series((1010.0, 4)), born=999.0)
    assert amounts(targets.settle(1010.0)) == [(1010.0, 0)]


def test_all_counters_of_a_restarted_pod_begin_anew_even_one_that_was_away_and_came_back_higher() -> None:
    targets = Targets(GRID, 990.0)
    targets.add(0, POD, series((995.0, 90), (1000.0, 100), (1005.0, 5), (1010.0, 9)))
    targets.add(1, POD, series((995.0, 1), (1000.0, 2), (1010.0, 3), labels=FAILED))
    readings = targets.settle(1010.0)
    assert amounts(readings) == [(995.0, 0), (1000.0, 10), (1005.0, 5), (1010.0, 4)]
    assert amounts(readings, FAILED) == [(995.0, 0), (1000.0, 1), (1010.0, 3)]
    assert sum(reading.reset for reading in readings) == 2


def test_a_proxy_that_resets_one_backend_does_not_recount_the_others() -> None:
    targets = Targets(GRID, 990.0)
    targets.add(0, POD, series((995.0, 1_000_000), (1000.0, 1_000_010), (1005.0, 1_000_020)))
    targets.add(1, POD, series((995.0, 50), (1000.0, 0), (1005.0, 4), labels=FAILED))
    readings = targets.settle(1005.0)
    assert amounts(readings) == [(995.0, 0), (1000.0, 10), (1005.0, 10)]
    assert amounts(readings, FAILED) == [(995.0, 0), (1000.0, 0), (1005.0, 4)]


def test_a_counter_that_skips_a_scrape_of_a_living_process_goes_on_where_it_was() -> None:
    targets = Targets(GRID, 990.0)
    targets.add(0, POD, series((995.0, 1), (1000.0, 2), (1005.0, 3)))
    targets.add(1, POD, series((995.0, 40), (1005.0, 41), labels=FAILED))
    assert amounts(targets.settle(1005.0), FAILED) == [(995.0, 0), (1005.0, 1)]


def test_a_hole_is_seen_on_the_target_and_not_where_only_one_counter_is_away() -> None:
    targets = Targets(GRID, 990.0)
    targets.add(0, POD, series((995.0, 1), (1000.0, 2), (1005.0, 3), (1010.0, 4), (1025.0, 5)))
    targets.add(1, POD, series((995.0, 0), (1010.0, 1), labels=FAILED))
    gaps = [(reading.at, reading.gap_since) for reading in targets.settle(1025.0) if reading.gap_since]
    assert gaps == [(1025.0, 1010.0)]


def test_a_sample_that_is_no_count_is_a_fault_and_the_next_one_counts_from_the_last_good_one() -> None:
    targets = Targets(GRID, 990.0)
    targets.add(0, POD, series((995.0, 10), (1000.0, float("nan")), (1005.0, 13)))
    readings = targets.settle(1005.0)
    assert amounts(readings) == [(995.0, 0), (1000.0, 0), (1005.0, 3)]
    assert [reading.fault.reason for reading in readings if reading.fault] == [Reason.NOT_A_NUMBER]


def test_the_same_samples_again_and_late_ones_before_what_was_read_change_nothing() -> None:
    targets = Targets(GRID, 990.0)
    targets.add(0, POD, series((995.0, 10), (1000.0, 12)))
    targets.settle(1000.0)
    targets.add(0, POD, series((995.0, 10), (998.0, 99), (1000.0, 12), (1005.0, 13)))
    assert amounts(targets.settle(1005.0)) == [(1005.0, 1)]


def test_a_preview_changes_nothing() -> None:
    targets = Targets(GRID, 990.0)
    targets.add(0, POD, series((995.0, 10), (1000.0, 12), (1005.0, 3)))
    targets.settle(995.0)
    first, second = list(targets.preview()), list(targets.preview())
    assert amounts(first) == amounts(second) == [(1000.0, 2), (1005.0, 3)]
    assert amounts(targets.settle(1005.0)) == amounts(first)


def test_a_series_without_an_instance_is_known_by_its_arm() -> None:
    bare = Series(labels_of({"__name__": "m", "kubernetes_pod": "checkout-bbbbb"}), ())
    by_pod = Arms(by=ArmsBy.POD_NAME, label="kubernetes_pod")
    assert target_key(bare, by_pod) == TargetKey("", "", "checkout-bbbbb")


def test_a_gateway_is_one_target_for_both_arms() -> None:
    by_service = Arms(by=ArmsBy.SERVICE, label="service")
    keys = {
        target_key(
            Series(labels_of({"job": "gateway", "instance": "10.0.0.1:9901", "service": service}), ()),
            by_service,
        )
        for service in ("checkout", "checkout-canary")
    }
    assert len(keys) == 1
