"""M1: the Wilson score interval, the one planned look of every proportion (statistics.md, section 2)."""

import math
from typing import Final

Z95: Final = 1.959963984540054
"""Two-sided 95 %: as a lower bound its real one-sided error is at most 2.98 % for t ≥ 0.8 and n ≥ 40."""


def wilson_interval(successes: int, n: int, z: float = Z95) -> tuple[float, float]:
    """Lower and upper limit of a proportion, each in [0, 1].

    `successes` of `n` events, both whole numbers with 0 ≤ successes ≤ n; equals
    `scipy.stats.binomtest(successes, n).proportion_ci(method="wilson")`, without its import of a second.
    Raises ValueError when n is 0 (no evidence has no interval) or the counts don't fit, TypeError on
    fractional counts.
    """
    if not (isinstance(successes, int) and isinstance(n, int)):
        raise TypeError(f"counts must be whole numbers, not {successes!r} of {n!r}")
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(
            f"{successes} of {n} is not a proportion: n must be at least 1 and at least the count"
        )
    return wilson_limits(successes / n, n, z)


def wilson_limits(share: float, n: float, z: float = Z95) -> tuple[float, float]:
    """The same formula for an effective sample size that is no whole number: 0 ≤ share ≤ 1, n > 0.

    Only `clustered` and intervals of differences have a use for it; counts belong into `wilson_interval`.
    """
    squared = z * z
    centre = share + squared / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + squared / (4 * n * n))
    scale = 1 + squared / n
    # Exact at the edges, where rounding would leave 1e-17 instead of 0.
    low = 0.0 if share == 0.0 else (centre - half) / scale
    high = 1.0 if share == 1.0 else (centre + half) / scale
    return low, high


def worst_case_interval(good: int, bad: int, missing: int, z: float = Z95) -> tuple[float, float]:
    """Limits that hold whatever the missing verdicts would have been: bad for the lower one, good for the upper one.

    Leaving them out inflates: if half of the failures time out, .85 shows as .919 (statistics.md, section 6). Raises
    as `wilson_interval` does.
    """
    n = good + bad + missing
    return wilson_interval(good, n, z)[0], wilson_interval(good + missing, n, z)[1]


def critical_count(n: int, threshold: float, z: float = Z95) -> int:
    """The smallest count of successes out of `n` whose lower limit reaches `threshold`; above `n` when none
    does.

    L ≥ t ⇔ x ≥ n·t + z·√(n·t·(1−t)): the score test of p ≤ t (statistics.md, section 2).
    """
    return math.ceil(n * threshold + z * math.sqrt(n * threshold * (1 - threshold)))


def least_samples(threshold: float, z: float = Z95) -> int:
    """n_min: the smallest n at which even a flawless run can pass, ceil(z²·t/(1−t)), 0 < t < 1."""
    return math.ceil(z * z * threshold / (1 - threshold))
