"""The breach and the pass side over many runs at once, for figures about rules that were rejected or never written.

What is shipped is judged by the real code (`ours`); this is only for the variants beside it. A test holds the two together.
"""

import math
from typing import Final

import numpy as np
from scipy.special import betaincc, betaln

from gatewright_analysis.statistics.two_arm import GRID
from tests.bench.verdicts.rules import Flags, wilson_limits
from tests.bench.verdicts.traffic import Floats, Ints

LN_BREACH: Final = math.log(100 * 10)
"""E ≥ 100 · m at m = 10."""
_STEPS: Final = np.linspace(0.15, 3.0, GRID)


def log_e(successes: Floats, failures: Floats, threshold: float) -> Floats:
    """log E⁺ against "the ratio of successes is at most `threshold`" (statistics.md 4.1)."""

    def half(s: Floats, f: Floats) -> Floats:
        tail = betaincc(0.5 + s, 0.5 + f, threshold)
        with np.errstate(divide="ignore"):
            return np.asarray(betaln(0.5 + s, 0.5 + f) + np.log(tail))

    zero = np.zeros(1)
    free = half(successes, failures) - half(zero, zero)
    return np.asarray(free - successes * math.log(threshold) - failures * math.log(1 - threshold))


def phi(bad: Ints, n: Ints, *, counted: int = 1) -> Floats:
    """φ after each window of one arm; `counted` is how many windows each counts for (1 is right)."""
    total, all_bad = np.cumsum(n, axis=1), np.cumsum(bad, axis=1)
    squares = np.cumsum(np.where(n > 0, bad**2 / np.maximum(n, 1), 0.0), axis=1)
    windows = np.cumsum(n > 0, axis=1)
    share = all_bad / np.maximum(total, 1)
    spread = np.where((all_bad > 0) & (all_bad < total), share * (1 - share), np.inf)
    chi_squared = np.maximum(squares - share * all_bad, 0.0) / spread
    return np.maximum(1.0, (chi_squared + 6.0) / (counted * windows + 1))


def absolute(
    bad: Ints,
    n: Ints,
    limit: float,
    deflation: Floats | None = None,
    *,
    wanted: float = LN_BREACH,
    least_windows: int = 2,
) -> Flags:
    """Where the absolute route convicts after each window, stable aside."""
    total, all_bad = np.cumsum(n, axis=1), np.cumsum(bad, axis=1)
    by = np.ones(1) if deflation is None else deflation
    evidence = log_e(all_bad / by, (total - all_bad) / by, limit)
    bad_windows = np.cumsum(bad > limit * n, axis=1)
    return (bad_windows >= least_windows) & (all_bad > limit * total) & (evidence >= wanted)


def two_arm(
    canary_bad: Ints,
    canary_n: Ints,
    stable_bad: Ints,
    stable_n: Ints,
    deflation: Floats | None = None,
    *,
    max_ratio: float = 1.25,
    drop_largest: bool = True,
    wanted: float = LN_BREACH,
) -> Flags:
    """Where the comparison's E crosses after each window; as first written without `deflation` and `drop_largest`."""
    share = canary_n / np.maximum(canary_n + stable_n, 1)
    usable = ((canary_n > 0) & (stable_n > 0))[:, :, None]
    base = share * max_ratio + 1 - share
    worse = (share * max_ratio)[:, :, None] * np.exp(_STEPS) + (1 - share)[:, :, None]
    both = (canary_bad + stable_bad)[:, :, None]
    increment = np.where(
        usable, canary_bad[:, :, None] * _STEPS + both * np.log(base[:, :, None] / worse), 0.0
    )
    total = np.cumsum(increment, axis=1)
    if drop_largest:
        total = total - np.maximum(np.maximum.accumulate(increment, axis=1), 0.0)
    if deflation is not None:
        total = total / deflation[:, :, None]
    top = total.max(axis=2)
    return np.asarray(top + np.log(np.exp(total - top[:, :, None]).mean(axis=2)) >= wanted)


def passes(bad: Ints, n: Ints, limit: float, *, first: int, planned: int, tail: bool) -> Flags:
    """Which runs pass: E⁺ ≥ 50 at a window from `first` on, or at the one Wilson look; with the tail rule or without."""
    total, all_bad = np.cumsum(n, axis=1), np.cumsum(bad, axis=1)
    evidence = log_e((total - all_bad).astype(np.float64), all_bad.astype(np.float64), 1 - limit)
    low, _ = wilson_limits((total - all_bad).astype(np.float64), total.astype(np.float64), 1.959964)
    passed = np.zeros(len(n), dtype=np.bool_)
    spent = np.zeros(len(n), dtype=np.bool_)
    last = n.shape[1] - 1
    before = total - n
    bad_before = all_bad - bad
    for index in range(first, last + 1):
        kept = np.ones(len(n), dtype=np.bool_)
        if tail:
            now = total[:, index]
            start = (before[:, : index + 1] <= (now - -(-now // 3))[:, None]).sum(axis=1) - 1
            rows = np.arange(len(n))
            tail_bad = all_bad[:, index] - bad_before[rows, start]
            kept = tail_bad <= limit * (now - before[rows, start])
        due = ~spent & ((total[:, index] >= planned) | (index == last))
        passed |= kept & ((evidence[:, index] >= math.log(50)) | (due & (low[:, index] >= 1 - limit)))
        spent |= due
    return passed
