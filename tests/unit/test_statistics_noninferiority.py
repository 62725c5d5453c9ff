"""M7: differences of two proportions against published values (statistics.md R4 44–47)."""

import itertools
import math

import pytest
from scipy.optimize import minimize_scalar
from scipy.special import xlog1py, xlogy

from gatewright_analysis.statistics.errors import NoConclusion
from gatewright_analysis.statistics.noninferiority import (
    Arm,
    _restricted,
    newcombe_interval,
    p_value_larger,
    p_value_smaller,
    score_interval,
    score_z,
)


@pytest.mark.parametrize(
    ("canary", "stable", "low", "high", "digits"),
    [
        (Arm(56, 70), Arm(48, 80), 0.0524, 0.3339, 4),
        (Arm(9, 10), Arm(3, 10), 0.1705, 0.8090, 4),
        (Arm(6, 7), Arm(2, 7), 0.0582, 0.8062, 4),
        (Arm(5, 56), Arm(0, 29), -0.0381, 0.1926, 4),
        (Arm(0, 10), Arm(0, 20), -0.1611, 0.2775, 4),
        (Arm(0, 10), Arm(0, 10), -0.2775, 0.2775, 4),
        (Arm(10, 10), Arm(0, 20), 0.6791, 1.0, 4),
        (Arm(10, 10), Arm(0, 10), 0.6075, 1.0, 4),
        (Arm(63, 93), Arm(38, 92), 0.1211604, 0.3928557, 7),
    ],
)
def test_newcombe_equals_the_published_one(
    canary: Arm, stable: Arm, low: float, high: float, digits: int
) -> None:
    assert newcombe_interval(canary, stable) == pytest.approx((low, high), abs=0.51 * 10**-digits)


@pytest.mark.parametrize(
    ("canary", "stable", "corrected", "low", "high", "digits"),
    [
        (Arm(56, 70), Arm(48, 80), False, 0.0533, 0.3377, 4),
        (Arm(56, 70), Arm(48, 80), True, 0.0528, 0.3382, 4),
        (Arm(7, 34), Arm(1, 34), False, 0.028371, 0.343940, 6),
        (Arm(0, 10), Arm(0, 20), False, -0.1611, 0.2775, 4),
    ],
)
def test_score_intervals_equal_the_published_ones(
    canary: Arm, stable: Arm, corrected: bool, low: float, high: float, digits: int
) -> None:
    found = score_interval(canary, stable, corrected=corrected)
    assert found == pytest.approx((low, high), abs=0.51 * 10**-digits)


@pytest.mark.parametrize(
    ("canary", "stable", "z"),
    [
        (Arm(12, 1000), Arm(10, 9000), 0.2665),
        (Arm(30, 1000), Arm(90, 9000), 2.1677),
        (Arm(0, 500), Arm(5, 4500), -2.3701),
    ],
)
def test_score_z_equals_the_reference(canary: Arm, stable: Arm, z: float) -> None:
    assert score_z(canary, stable, 0.01) == pytest.approx(z, abs=1e-4)


def test_p_values_equal_the_reference() -> None:
    assert p_value_larger(Arm(12, 1000), Arm(10, 9000), 0.01) == pytest.approx(0.39491, abs=1e-5)
    assert p_value_larger(Arm(30, 1000), Arm(90, 9000), 0.01) == pytest.approx(0.01509, abs=1e-5)
    assert p_value_smaller(Arm(0, 500), Arm(5, 4500), 0.01) == pytest.approx(0.00889, abs=1e-5)


def test_the_cubic_finds_the_most_likely_ratios() -> None:
    arms = (Arm(0, 10), Arm(1, 3), Arm(7, 34), Arm(10, 10), Arm(450, 900))
    for canary, stable, difference in itertools.product(arms, arms, (-0.9, -0.2, 0.0, 1e-9, 0.01, 0.5)):

        def likelihood(p: float, one: Arm = canary, two: Arm = stable, d: float = difference) -> float:
            first = xlogy(one.count, p) + xlog1py(one.n - one.count, -p)
            return float(first + xlogy(two.count, p - d) + xlog1py(two.n - two.count, d - p))

        bounds = (max(0.0, difference), min(1.0, 1.0 + difference))
        best = minimize_scalar(
            lambda p: -likelihood(p), bounds=bounds, method="bounded", options={"xatol": 1e-9}
        )
        p1, p2 = _restricted(canary, stable, difference)
        assert bounds[0] <= p1 <= bounds[1]
        assert p1 - p2 == pytest.approx(difference, abs=1e-12)
        assert likelihood(p1) >= -best.fun - 1e-6, (canary, stable, difference)


def test_without_a_margin_it_is_the_pooled_z_test() -> None:
    pooled = 30 / 300
    expected = (12 / 100 - 18 / 200) / math.sqrt(pooled * (1 - pooled) * (1 / 100 + 1 / 200))
    assert score_z(Arm(12, 100), Arm(18, 200), 0.0) == pytest.approx(expected)


def test_swapping_the_arms_mirrors_everything() -> None:
    canary, stable = Arm(7, 34), Arm(1, 50)
    for interval in (newcombe_interval, score_interval):
        low, high = interval(canary, stable)
        assert interval(stable, canary) == pytest.approx((-high, -low), abs=1e-9)
    assert score_z(canary, stable, 0.05) == pytest.approx(-score_z(stable, canary, -0.05))


def test_arms_without_any_difference_or_variance_say_nothing() -> None:
    assert score_z(Arm(0, 10), Arm(0, 20), 0.0) == 0.0
    assert score_z(Arm(10, 10), Arm(20, 20), 0.0) == 0.0


def test_intervals_hold_the_observed_difference_and_stay_possible() -> None:
    for a, b in itertools.product(range(6), range(4)):
        canary, stable = Arm(a, 5), Arm(b, 3)
        for low, high in (newcombe_interval(canary, stable), score_interval(canary, stable, corrected=True)):
            assert -1 <= low <= canary.share - stable.share <= high <= 1, (a, b)


@pytest.mark.parametrize(("count", "n"), [(0, 0), (3, 2), (-1, 2), (1.0, 2), (1, True)])
def test_impossible_arms_are_refused(count: int, n: int) -> None:
    with pytest.raises(NoConclusion, match=r"at least one|not a proportion|whole number"):
        Arm(count, n)


@pytest.mark.parametrize("difference", [-1.0, 1.0, math.nan])
def test_impossible_margins_are_refused(difference: float) -> None:
    with pytest.raises(NoConclusion, match="between -1 and 1"):
        score_z(Arm(1, 2), Arm(1, 2), difference)
