"""M1: the Wilson interval against published and independently computed values (statistics.md R4)."""

import math

import pytest
from scipy.stats import binomtest

from gatewright_analysis.statistics.wilson import (
    Z95,
    critical_count,
    least_samples,
    wilson_interval,
    wilson_limits,
    worst_case_interval,
)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (81, 263, 0.255289, 0.366210),
        (15, 148, 0.062386, 0.160487),
        (0, 20, 0.0, 0.161125),
        (1, 29, 0.006113, 0.171755),
        (2, 100, 0.00550197, 0.07001179),
        (4, 100, 0.01566330, 0.09837071),
        (15, 112, 0.08287142, 0.20926457),
        (23, 60, 0.27088272, 0.50982404),
        (5, 10, 0.23659309, 0.76340691),
    ],
)
def test_interval_equals_the_published_one(successes: int, n: int, low: float, high: float) -> None:
    assert wilson_interval(successes, n) == pytest.approx((low, high), abs=1e-6)


@pytest.mark.parametrize(
    ("successes", "n", "low"),
    [
        (10, 10, 0.722467),
        (18, 20, 0.698966),
        (25, 25, 0.866808),
        (73, 73, 0.950008),
        (72, 72, 0.949349),
        (96, 100, 0.901629),
        (95, 100, 0.888250),
        (188, 200, 0.898068),
        (285, 300, 0.919153),
        (950, 1000, 0.934686),
        (995, 1000, 0.988349),
        (381, 381, 0.990018),
        (123, 142, 0.800464),
        (122, 142, 0.792451),
        (180, 200, 0.850594),
        (294, 315, 0.900239),
        (293, 315, 0.896523),
        (638, 660, 0.950047),
        (3422, 3445, 0.990001),
    ],
)
def test_lower_limit_equals_the_reference(successes: int, n: int, low: float) -> None:
    assert wilson_interval(successes, n)[0] == pytest.approx(low, abs=1e-6)


def test_interval_at_ninety_percent_equals_the_reference() -> None:
    assert wilson_interval(5, 10, z=1.6448536269514722) == pytest.approx((0.26927182, 0.73072818), abs=1e-8)


def test_interval_equals_scipy_for_every_count_of_a_few_sizes() -> None:
    for n in (1, 2, 7, 40, 383):
        for successes in range(n + 1):
            theirs = binomtest(successes, n).proportion_ci(0.95, method="wilson")
            ours = wilson_interval(successes, n)
            assert ours == pytest.approx((theirs.low, theirs.high), abs=1e-12), (successes, n)


def test_edges_are_exact() -> None:
    assert wilson_interval(0, 123)[0] == 0.0
    assert wilson_interval(123, 123)[1] == 1.0


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (-1, 10), (11, 10)])
def test_impossible_counts_are_refused(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="not a proportion"):
        wilson_interval(successes, n)


def test_fractional_counts_are_refused() -> None:
    with pytest.raises(TypeError, match="whole numbers"):
        wilson_interval(3.0, 10)  # type: ignore[arg-type]  # what the check at run time is for


@pytest.mark.parametrize(
    ("n", "threshold", "count_90", "count_95"),
    [
        (50, 0.8, 45, 46),
        (100, 0.9, 95, 96),
        (200, 0.9, 187, 189),
        (300, 0.9, 279, 281),
        (200, 0.95, 196, 197),
        (500, 0.95, 484, 485),
        (1000, 0.99, 996, 997),
    ],
)
def test_critical_counts_equal_the_reference(n: int, threshold: float, count_90: int, count_95: int) -> None:
    assert critical_count(n, threshold, z=1.6448536269514722) == count_90
    assert critical_count(n, threshold) == count_95


def test_lower_limit_reaches_the_threshold_exactly_from_the_critical_count_on() -> None:
    for threshold in (0.5, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99):
        for n in range(1, 401):
            critical = critical_count(n, threshold)
            assert critical > n or wilson_interval(critical, n)[0] >= threshold - 1e-12, (n, threshold)
            if 1 <= critical <= n + 1:
                assert wilson_interval(critical - 1, n)[0] < threshold, (n, threshold)


@pytest.mark.parametrize(
    ("threshold", "n"),
    [(0.8, 16), (0.85, 22), (0.9, 35), (0.95, 73), (0.98, 189), (0.99, 381), (0.995, 765), (0.999, 3838)],
)
def test_least_samples_is_the_first_n_at_which_a_flawless_run_passes(threshold: float, n: int) -> None:
    assert least_samples(threshold) == n
    assert wilson_interval(n, n)[0] >= threshold > wilson_interval(n - 1, n - 1)[0]


def test_default_confidence_is_two_sided() -> None:
    assert math.erf(Z95 / math.sqrt(2)) == pytest.approx(0.95, abs=1e-12)


def test_twenty_five_of_twenty_five_do_not_pass_ninety_percent() -> None:
    assert wilson_interval(25, 25)[0] < 0.9, (
        "one-sided z = 1.645 would let it through, 7.2 % of the time wrongly"
    )


def test_missing_verdicts_count_against_either_side() -> None:
    low, high = worst_case_interval(good=95, bad=3, missing=2)
    assert low == pytest.approx(0.888250, abs=1e-6)
    assert high == pytest.approx(0.989745, abs=1e-6)
    assert wilson_interval(95, 98)[0] == pytest.approx(0.913830, abs=1e-6), "leaving them out would pass .90"
    assert worst_case_interval(95, 5, 0) == wilson_interval(95, 100)


def test_only_missing_verdicts_say_nothing() -> None:
    assert worst_case_interval(0, 0, 7) == (0.0, 1.0)
    with pytest.raises(ValueError, match="not a proportion"):
        worst_case_interval(0, 0, 0)


def test_limits_of_a_fractional_size_stay_ratios() -> None:
    for share in (0.0, 1e-12, 0.5, 1 - 1e-12, 1.0):
        for n in (0.25, 1.0, 40.5, 1e12):
            low, high = wilson_limits(share, n)
            assert (
                0.0 <= low <= share <= high <= 1.0
                or low == pytest.approx(share)
                or high == pytest.approx(share)
            )
            assert low < high
