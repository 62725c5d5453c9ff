"""Figures of statistics.md that no product code rests on: what was compared and rejected (R4 1–4, 7, 11, 12, 17, 53, 59;
section 8)."""

import math

import numpy as np
import pytest
from scipy.special import betainc
from scipy.stats import beta, binom, binomtest

from gatewright_analysis.statistics.plan import power_at
from gatewright_analysis.statistics.wilson import wilson_interval, wilson_limits

Z90 = 1.6448536269514722


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (81, 263, 0.253509, 0.368176),
        (15, 148, 0.059778, 0.164450),
        (0, 20, 0.0, 0.200453),
        (1, 29, 0.001803, 0.196282),
        (15, 112, 0.07939492, 0.21439956),
    ],
)
def test_wilson_with_continuity_correction(successes: int, n: int, low: float, high: float) -> None:
    found = binomtest(successes, n).proportion_ci(0.95, method="wilsoncc")
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-6)


@pytest.mark.parametrize(
    ("successes", "n", "low"), [(10, 10, 0.787058), (18, 20, 0.738337), (25, 25, 0.902346)]
)
def test_one_sided_wilson_promises_more_than_it_keeps(successes: int, n: int, low: float) -> None:
    assert wilson_interval(successes, n, Z90)[0] == pytest.approx(low, abs=1e-6)


def test_a_true_ratio_of_ninety_percent_is_flawless_for_twenty_five_samples() -> None:
    assert pytest.approx(0.071790, abs=1e-6) == 0.9**25


def test_agresti_coull_and_jeffreys() -> None:
    z2 = 1.959963984540054**2
    for successes, n, low in ((95, 100, 0.885382), (5, 10, 0.236593)):
        size = n + z2
        share = (successes + z2 / 2) / size
        assert share - math.sqrt(z2 * share * (1 - share) / size) == pytest.approx(low, abs=1e-6)
    assert beta.ppf(0.05, 95.5, 5.5) == pytest.approx(0.904229, abs=1e-6)
    assert beta.ppf(0.975, 0.5, 7.5) == pytest.approx(0.2924, abs=1e-4)


@pytest.mark.parametrize(
    ("looks", "error"), [(1, 0.0500), (2, 0.0831), (5, 0.1417), (10, 0.1934), (20, 0.2479), (50, 0.3204)]
)
def test_looking_again_and_again_inflates_the_error(looks: int, error: float) -> None:
    """|Z| > 1.96 at any of equally spaced looks, by integrating the density of the sum."""
    step = 0.02 if looks > 10 else 0.005
    reach = 1.96 * math.sqrt(looks) + 7
    grid = np.arange(-reach, reach + step / 2, step)
    kernel = np.exp(-((np.arange(-7, 7 + step / 2, step)) ** 2) / 2) / math.sqrt(2 * math.pi) * step
    density = np.exp(-grid * grid / 2) / math.sqrt(2 * math.pi)
    for look in range(1, looks + 1):
        limit = 1.959963984540054 * math.sqrt(look)
        # The share of each cell that lies inside the limits.
        inside = density * np.clip((limit + step / 2 - np.abs(grid)) / step, 0.0, 1.0)
        density = np.convolve(inside, kernel, mode="same")
    assert 1 - float(inside.sum() * step) == pytest.approx(error, abs=1e-4)


def test_a_rule_of_consecutive_failures_convicts_the_innocent() -> None:
    window = float(binom.sf(0, 10, 0.02))
    assert window == pytest.approx(0.1829, abs=1e-4)
    # More than L of 30 windows that fail.
    found = [float(binom.sf(allowed, 30, window)) for allowed in range(4)]
    assert found == pytest.approx([0.9977, 0.9820, 0.9311, 0.8249], abs=1e-4)


@pytest.mark.parametrize(
    ("threshold", "n", "z", "one", "three", "ten"),
    [
        (0.90, 200, Z90, 5.7, 16.0, 44.1),
        (0.90, 100, 1.959963984540054, 2.4, 6.9, 21.3),
        (0.95, 200, 1.959963984540054, 0.9, 2.7, 8.7),
        (0.99, 500, Z90, 4.0, 11.5, 33.3),
    ],
)
def test_drawing_again_wears_a_threshold_down(
    threshold: float, n: int, z: float, one: float, three: float, ten: float
) -> None:
    passes = power_at(n, threshold, threshold, z)
    found = [100 * (1 - (1 - passes) ** draws) for draws in (1, 3, 10)]
    assert found == pytest.approx([one, three, ten], abs=0.0501)


def test_leaving_missing_verdicts_out_inflates() -> None:
    # Half of the failures time out.
    assert pytest.approx(0.919, abs=5e-4) == 0.85 / (0.85 + 0.15 / 2)


def test_limits_of_an_effective_size_are_those_of_counts() -> None:
    assert wilson_limits(0.95, 100.0) == pytest.approx(wilson_interval(95, 100), abs=1e-12)


SUPREMA = {
    0.5: (3.95, 3.66, 3.49, 3.39),
    0.7: (3.42, 3.27, 3.15, 3.08),
    0.8: (3.08, 3.01, 2.98, 2.92),
    0.9: (2.67, 2.67, 2.67, 2.67),
}
"""Section 2: percent, for n ≥ 20, 30, 40, 50."""


def test_the_largest_error_of_the_planned_look_over_all_thresholds() -> None:
    """It peaks where the critical count jumps, at t = L(k, n), and at small n."""
    z = 1.959963984540054
    worst: dict[tuple[int, float], float] = {}
    for n in range(20, 300):
        k = np.arange(1, n + 1)
        share = k / n
        half = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
        low = (share + z * z / (2 * n) - half) / (1 + z * z / n)
        errors = betainc(k, n - k + 1, low)
        for lowest in SUPREMA:
            worst[n, lowest] = float(errors[low >= lowest].max(initial=0.0))
    for lowest, published in SUPREMA.items():
        found = [
            100 * max(e for (n, t), e in worst.items() if n >= least and t == lowest)
            for least in (20, 30, 40, 50)
        ]
        assert found == pytest.approx(published, abs=0.0051), lowest
