"""Figures of statistics.md that can be worked out exactly: walks over binomial counts, no random number."""

import math
from functools import lru_cache

import numpy as np
from scipy.special import betainc
from scipy.stats import binom

from gatewright_analysis.statistics.evalue import log_e_fail, log_e_pass
from gatewright_analysis.statistics.plan import default_planned_samples
from gatewright_analysis.statistics.wilson import Z95, critical_count, least_samples, wilson_interval


def wilson_error(threshold: float, least: int, *, most: int = 1500) -> float:
    """The largest chance that a Wilson lower limit passes a candidate that is exactly at any t ≥ `threshold`, n from `least`.

    For each n the chance peaks where the critical count jumps, that is at t = the lower limit of a count.
    """
    worst = 0.0
    for n in range(least, most + 1):
        counts = np.arange(math.floor(n * threshold), n + 1)
        share, squared = counts / n, Z95**2
        low = (share + squared / (2 * n) - Z95 * np.sqrt(share * (1 - share) / n + squared / (4 * n * n))) / (
            1 + squared / n
        )
        keep = (low >= threshold) & (counts > 0)
        if keep.any():
            worst = max(worst, float(betainc(counts[keep], n - counts[keep] + 1, low[keep]).max()))
    return worst


@lru_cache(maxsize=200_000)
def least_by_evidence(n: int, threshold: float, log_e: float) -> int:
    """The smallest count of good ones out of n whose E⁺ suffices; n + 1 where none does."""
    low, high = math.floor(n * threshold), n + 1
    while low < high:
        middle = (low + high) // 2
        if log_e_pass(middle, n - middle, threshold) >= log_e:
            high = middle
        else:
            low = middle + 1
    return high


def false_promote(
    threshold: float,
    per_window: int,
    first: int,
    last: int,
    *,
    attempts: int = 1,
    look_each_attempt: bool = False,
    z: float = Z95,
    odds: float = 50.0,
    wilson: bool = True,
) -> float:
    """P(a candidate exactly at its threshold passes), without the tail rule, which only lowers it.

    Each attempt has `last` windows of `per_window` samples; from the `first` on E⁺ ≥ `odds` passes, and one Wilson look at the
    first window with the planned samples, or the last. Evidence pools over attempts; the look is spent, or taken anew by each.
    """
    planned = default_planned_samples(threshold)
    step = binom.pmf(np.arange(per_window + 1), per_window, threshold)
    alive, passed = np.ones(1), 0.0
    spent = not wilson
    for window in range(attempts * last):
        n = (window + 1) * per_window
        alive = np.convolve(alive, step)
        index = window % last + 1
        if index == 1 and window and look_each_attempt:
            spent = False
        if index < first or n < max(40, least_samples(threshold, z)):
            continue
        needed = least_by_evidence(n, threshold, math.log(odds))
        if not spent and (n >= planned or index == last):
            spent = True
            needed = min(needed, critical_count(n, threshold, z))
        passed += float(alive[needed:].sum())
        alive[needed:] = 0.0
    return passed


def worst_false_promote(
    threshold: float,
    first: int,
    last: int,
    *,
    attempts: int = 1,
    look_each_attempt: bool = False,
    z: float = Z95,
    odds: float = 50.0,
    wilson: bool = True,
    steps: int = 20,
) -> float:
    """The largest over traffic from a tenth of what the plan needs to three times as much."""
    planned = default_planned_samples(threshold)
    sizes = sorted({max(2, round(planned * share / last)) for share in np.geomspace(0.1, 3.0, steps)})
    return max(
        false_promote(
            threshold,
            size,
            first,
            last,
            attempts=attempts,
            look_each_attempt=look_each_attempt,
            z=z,
            odds=odds,
            wilson=wilson,
        )
        for size in sizes
    )


def evidence_above_wilson() -> tuple[int, int]:
    """(pairs of t and n, those among them where the smallest count that passes by E⁺ has a Wilson limit below t)."""
    pairs = broken = 0
    for threshold in (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99):
        for n in range(40, 1200, 7):
            least = least_by_evidence(n, threshold, math.log(50 if threshold >= 0.8 else 100))
            if least > n:
                continue
            pairs += 1
            broken += wilson_interval(least, n)[0] < threshold - 1e-12
    return pairs, broken


def least_breach(n: int, limit: float, e_processes: int) -> float:
    """The smallest bad ratio out of n that would be a proven breach, without deflation."""
    wanted = math.log(100 * e_processes)
    return next(bad for bad in range(n + 1) if log_e_fail(n - bad, bad, 1 - limit) >= wanted) / n
