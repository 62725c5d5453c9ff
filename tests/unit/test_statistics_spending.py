"""M9: boundaries of a fixed schedule, exact for counts (statistics.md 4.3, R4 50–52)."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import binom

from gatewright_analysis.statistics.errors import NoConclusion
from gatewright_analysis.statistics.spending import Boundaries, Spending, boundaries, spent

FIVE = (20, 40, 60, 80, 100)
FOUR = (50, 100, 150, 200)


def test_what_may_be_spent_equals_the_reference() -> None:
    shares = (0.2, 0.4, 0.6, 0.8, 1.0)
    found = [spent(Spending.OBRIEN_FLEMING, 0.025, share) for share in shares]
    assert found == pytest.approx([0.000001, 0.000394, 0.003808, 0.012212, 0.025], abs=1e-6)


@pytest.mark.parametrize("function", list(Spending))
def test_all_is_spent_at_the_end_and_less_before(function: Spending) -> None:
    assert spent(function, 0.05, 1.0) == pytest.approx(0.05)
    amounts = [spent(function, 0.05, share / 100) for share in range(1, 101)]
    assert amounts == sorted(amounts)
    assert amounts[0] >= 0.0


def test_pocock_and_quadratic_follow_their_formulas() -> None:
    assert spent(Spending.POCOCK, 0.05, 0.5) == pytest.approx(0.05 * math.log(1 + (math.e - 1) / 2))
    assert spent(Spending.QUADRATIC, 0.05, 0.5) == pytest.approx(0.0125)


@pytest.mark.parametrize(
    ("looks", "function", "counts", "used"),
    [
        (FIVE, Spending.POCOCK, (21, 40, 59, 78, 96), 0.040471),
        (FIVE, Spending.OBRIEN_FLEMING, (21, 41, 60, 78, 96), 0.027159),
        (FOUR, Spending.OBRIEN_FLEMING, (51, 98, 143, 188), 0.036827),
    ],
)
def test_boundaries_equal_the_reference(
    looks: tuple[int, ...], function: Spending, counts: tuple[int, ...], used: float
) -> None:
    found = boundaries(looks, 0.9, 0.05, function)
    assert found.counts == counts
    assert found.used == pytest.approx(used, abs=1e-6)


def test_a_single_look_is_the_exact_test() -> None:
    found = boundaries((200,), 0.9, 0.05, Spending.QUADRATIC)
    assert found == Boundaries((188,), pytest.approx(binom.sf(187, 200, 0.9), rel=1e-9))


@pytest.mark.parametrize("function", list(Spending))
def test_no_more_than_alpha_is_ever_used(function: Spending) -> None:
    for threshold in (0.5, 0.8, 0.95, 0.99):
        for looks in ((1, 2, 3, 7), (40, 41, 300), tuple(range(25, 1001, 25))):
            for alpha in (0.2, 0.05, 0.001):
                found = boundaries(looks, threshold, alpha, function)
                assert 0.0 <= found.used <= alpha, (threshold, looks, alpha)
                assert all(count <= n + 1 for count, n in zip(found.counts, looks, strict=True))


def test_the_used_error_is_what_a_simulation_finds() -> None:
    found = boundaries(FIVE, 0.9, 0.05, Spending.POCOCK)
    counts = np.random.default_rng(1).binomial(20, 0.9, size=(200_000, 5)).cumsum(axis=1)
    rate = float((counts >= np.array(found.counts)).any(axis=1).mean())
    assert rate == pytest.approx(found.used, abs=0.002)


@pytest.mark.parametrize("looks", [(), (0,), (20, 20), (40, 20), (-5, 10), (10.0, 20)])
def test_a_schedule_that_is_none_is_refused(looks: tuple[int, ...]) -> None:
    with pytest.raises(NoConclusion, match=r"at least one look|whole number"):
        boundaries(looks, 0.9, 0.05, Spending.POCOCK)


def test_a_schedule_too_long_to_walk_is_refused() -> None:
    with pytest.raises(NoConclusion, match="plan at most 50000"):
        boundaries((1000, 50_001), 0.9, 0.05, Spending.POCOCK)


def test_shares_out_of_range_are_refused() -> None:
    for threshold, alpha in ((0.0, 0.05), (1.0, 0.05), (math.nan, 0.05), (0.9, 0.0), (0.9, 1.0)):
        with pytest.raises(NoConclusion, match="between 0 and 1"):
            boundaries(FIVE, threshold, alpha, Spending.POCOCK)
    for share in (0.0, 1.01, math.nan):
        with pytest.raises(NoConclusion, match="share of the planned samples"):
            spent(Spending.POCOCK, 0.05, share)


def _normal_boundaries(looks: int, alpha: float, function: Spending) -> list[float]:
    """Critical z of equally spaced looks, by integrating the density of the sum over a fine grid."""
    step = 0.005
    grid = np.arange(-12.0, 12.0 + step, step)
    density = _density(grid)
    used, found = 0.0, []
    for look in range(1, looks + 1):
        # The sum after k looks has variance k. From its tail, taken by the midpoint rule, comes the limit.
        tail = np.cumsum((density * step)[::-1])[::-1]
        allowed = spent(function, alpha, look / looks) - used
        limit = float(np.interp(-allowed, -tail, grid - step / 2))
        found.append(limit / math.sqrt(look))
        used += allowed
        inside = np.where(grid < limit, density, 0.0)
        # The cell that the limit cuts counts with its part below it.
        cell = int(np.searchsorted(grid - step / 2, limit)) - 1
        inside[cell] = density[cell] * (limit - (grid[cell] - step / 2)) / step
        density = np.convolve(inside, _density(grid) * step, mode="same")
    return found


def _density(grid: np.ndarray) -> np.ndarray:
    return np.exp(-grid * grid / 2) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Spending.OBRIEN_FLEMING, [4.8769, 3.3570, 2.6803, 2.2898, 2.0310]),
        (Spending.POCOCK, [2.4380, 2.4268, 2.4102, 2.3966, 2.3860]),
    ],
)
def test_normal_theory_gives_the_standard_tables(function: Spending, expected: list[float]) -> None:
    assert _normal_boundaries(5, 0.025, function) == pytest.approx(expected, abs=1.5e-4)
    # The first look needs no integration: one normal tail.
    first = NormalDist().inv_cdf(1 - spent(function, 0.025, 0.2))
    assert first == pytest.approx(expected[0], abs=1e-4)
