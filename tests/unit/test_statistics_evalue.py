"""M2: the e-value of counts against reference values, and its guarantee by exact summation (R4, R5)."""

import math

import pytest
from scipy.stats import binom

from gatewright_analysis.statistics.evalue import (
    anytime_lower_bound,
    log_e_fail,
    log_e_pass,
    samples_for_pass,
)
from gatewright_analysis.statistics.wilson import wilson_interval


@pytest.mark.parametrize(
    ("good", "bad", "threshold", "above", "below"),
    [
        (0, 0, 0.9, 0.0, 0.0),
        (10, 0, 0.9, 0.750384, -2.408425),
        (20, 0, 0.9, 1.576678, -2.988393),
        (30, 0, 0.9, 2.457605, -3.346109),
        (45, 5, 0.9, -1.353024, -2.606567),
        (95, 5, 0.9, 0.679651, -3.911907),
        (194, 6, 0.9, 6.009986, -4.813727),
        (285, 15, 0.9, 3.515773, -4.904682),
    ],
)
def test_both_sides_equal_the_reference(
    good: int, bad: int, threshold: float, above: float, below: float
) -> None:
    assert log_e_pass(good, bad, threshold) == pytest.approx(above, abs=1e-6)
    assert log_e_fail(good, bad, threshold) == pytest.approx(below, abs=1e-6)


@pytest.mark.parametrize(
    ("good", "bad", "threshold", "expected"),
    [(100, 0, 0.95, 4.192745), (500, 1, 0.99, 1.774978), (299, 0, 0.99, 2.320255)],
)
def test_pass_side_equals_the_reference(good: int, bad: int, threshold: float, expected: float) -> None:
    assert log_e_pass(good, bad, threshold) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("wins", "losses", "expected"),
    [(9, 1, 18.922108), (8, 0, 100.475454), (15, 5, 4.754081), (10, 10, 0.176197)],
)
def test_pairs_at_one_half_equal_the_reference(wins: int, losses: int, expected: float) -> None:
    assert math.exp(log_e_pass(wins, losses, 0.5)) == pytest.approx(expected, abs=1e-6)


def test_hopeless_evidence_is_minus_infinity_and_no_error() -> None:
    assert log_e_pass(0, 1000, 0.9) == -math.inf


def test_no_count_up_to_ten_million_gives_nan() -> None:
    sizes = (0, 1, 3, 999, 10**5, 10**7)
    for threshold in (0.01, 0.5, 0.9, 0.99, 0.9999):
        for good in sizes:
            for bad in sizes:
                assert not math.isnan(log_e_pass(good, bad, threshold)), (good, bad, threshold)
                assert not math.isnan(log_e_fail(good, bad, threshold)), (good, bad, threshold)


@pytest.mark.parametrize(("good", "bad", "threshold"), [(-1, 0, 0.9), (0, -1, 0.9), (1, 1, 1.0), (1, 1, 0.0)])
def test_impossible_input_is_refused(good: int, bad: int, threshold: float) -> None:
    with pytest.raises(ValueError, match="no e-value"):
        log_e_pass(good, bad, threshold)


def _least_passing(n: int, threshold: float, odds: float) -> int:
    return next(good for good in range(n + 1) if log_e_pass(good, n - good, threshold) >= math.log(odds))


@pytest.mark.parametrize(
    ("n", "threshold", "odds", "count"),
    [
        (50, 0.8, 20, 48),
        (100, 0.9, 20, 98),
        (200, 0.9, 20, 192),
        (300, 0.9, 20, 285),
        (200, 0.95, 20, 198),
        (500, 0.95, 20, 489),
        (1000, 0.99, 20, 998),
        (50, 0.8, 50, 48),
        (100, 0.8, 50, 92),
        (100, 0.9, 50, 98),
        (200, 0.9, 50, 193),
        (200, 0.95, 50, 198),
        (400, 0.95, 50, 393),
        (1000, 0.99, 50, 999),
    ],
)
def test_smallest_passing_counts_equal_the_reference(
    n: int, threshold: float, odds: float, count: int
) -> None:
    assert _least_passing(n, threshold, odds) == count


@pytest.mark.parametrize(
    ("threshold", "odds", "samples"),
    [
        (0.8, 20, (17, 31, 41, 51, 68, 106)),
        (0.9, 20, (36, 64, 86, 105, 140, 218)),
        (0.95, 20, (74, 131, 174, 213, 284, 442)),
        (0.99, 20, (377, 663, 883, 1079, 1436, 2233)),
        (0.999, 20, (3787, 6655, 8859, 10825, 14401, 22385)),
        (0.8, 50, (22, 36, 47, 56, 74, 114)),
        (0.9, 50, (46, 75, 97, 117, 153, 234)),
        (0.95, 50, (94, 153, 198, 239, 312, 475)),
        (0.99, 50, (480, 778, 1007, 1210, 1579, 2400)),
    ],
)
def test_least_samples_with_some_failures_equal_the_table(
    threshold: float, odds: float, samples: tuple[int, ...]
) -> None:
    for failures, n in zip((0, 1, 2, 3, 5, 10), samples, strict=True):
        enough = log_e_pass(n - failures, failures, threshold)
        assert enough >= math.log(odds) > log_e_pass(n - 1 - failures, failures, threshold), failures


@pytest.mark.parametrize(
    ("n", "threshold", "count"),
    [(20, 0.95, 14), (50, 0.95, 40), (100, 0.95, 85), (100, 0.99, 93), (500, 0.99, 483), (1000, 0.999, 992)],
)
def test_largest_convicting_counts_equal_the_reference(n: int, threshold: float, count: int) -> None:
    convicting = [g for g in range(n + 1) if log_e_fail(g, n - g, threshold) >= math.log(100)]
    assert max(convicting) == count


@pytest.mark.parametrize(
    ("good", "bad", "bound"),
    [
        (20, 0, 0.827904),
        (90, 10, 0.789619),
        (95, 5, 0.862571),
        (100, 0, 0.962846),
        (285, 15, 0.903281),
        (990, 10, 0.977746),
    ],
)
def test_anytime_lower_bound_equals_the_reference(good: int, bad: int, bound: float) -> None:
    assert anytime_lower_bound(good, bad) == pytest.approx(bound, abs=1e-6)


def test_anytime_lower_bound_without_data_is_zero() -> None:
    assert anytime_lower_bound(0, 0) == 0.0


def test_expectation_is_at_most_one_at_and_below_the_threshold() -> None:
    for threshold in (0.5, 0.8, 0.95):
        for n in (1, 7, 30, 60):
            values = [math.exp(log_e_pass(good, n - good, threshold)) for good in range(n + 1)]
            for share in (1.0, 0.99, 0.8, 0.3, 0.0):
                weights = binom.pmf(range(n + 1), n, threshold * share)
                expectation = sum(w * v for w, v in zip(weights, values, strict=True))
                assert expectation <= 1 + 1e-9, (threshold, n, share)
    exact = sum(
        w * math.exp(log_e_pass(good, 30 - good, 0.8)) for good, w in enumerate(binom.pmf(range(31), 30, 0.8))
    )
    assert exact == pytest.approx(1.0, abs=1e-9), "at the threshold itself nothing is given away"


def test_the_sides_are_mirrors() -> None:
    for good, bad, threshold in ((3, 4, 0.9), (100, 1, 0.99), (0, 30, 0.5)):
        assert log_e_pass(good, bad, threshold) == log_e_fail(bad, good, 1 - threshold)


def test_an_interim_pass_never_undercuts_the_promise_of_wilson() -> None:
    """What E⁺ ≥ 50 lets through has a Wilson lower bound at or above the threshold."""
    checked = 0
    for threshold in (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99):
        for n in range(40, 1200, 7):
            low, high = 0, n + 1
            while low < high:
                middle = (low + high) // 2
                if log_e_pass(middle, n - middle, threshold) >= math.log(50):
                    high = middle
                else:
                    low = middle + 1
            if high <= n:
                assert wilson_interval(high, n)[0] >= threshold, (n, threshold, high)
                checked += 1
    assert checked > 1200


def test_samples_for_pass_is_where_the_evidence_gets_there() -> None:
    needed = samples_for_pass(0.97, 0.95, math.log(50))
    assert log_e_pass(0.97 * needed, 0.03 * needed, 0.95) == pytest.approx(math.log(50), abs=0.01)
    assert samples_for_pass(0.95, 0.95, math.log(50)) == math.inf
    assert samples_for_pass(0.95 + 1e-9, 0.95, math.log(50)) == math.inf, "a billion is the end"
