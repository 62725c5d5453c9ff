"""The exact chance that a candidate passes a whole gate: the distribution of its good count, walked look by look.

Nothing is drawn. Usually the candidate is exactly at its threshold, the worst of all that must not pass: one below it
has, look for look, no more good samples.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from gatewright_analysis.statistics.confidence import Confidence
from gatewright_analysis.statistics.evalue import log_e_pass
from gatewright_analysis.statistics.wilson import critical_count, least_samples
from gatewright_analysis.task import SAMPLES_FLOOR

NEGLIGIBLE = 1e-18
"""Rarer paths are not followed; each of them is counted as a pass, so no rate comes out too small."""
THRESHOLDS = (0.8, 0.85, 0.9, 0.95, 0.98, 0.99)
PER_LOOK = (1, 5, 10, 20, 50, 100)
LOOKS = (1, 2, 3, 5, 10, 20, 40, 60)
ATTEMPTS = 3

Look = tuple[int, int]
"""Samples so far, and the smallest good count that passes."""


def pass_rates(threshold: float, looks: Iterable[Look], true_ratio: float | None = None) -> list[float]:
    """P(passed at this look or before) for each of the looks, which have growing n; the candidate's good ratio is
    `true_ratio`, or else the threshold."""
    ratio = threshold if true_ratio is None else true_ratio
    alive, lowest, seen = np.ones(1), 0, 0
    passed = 0.0
    rates = []
    for n, needed in looks:
        alive = np.convolve(alive, _binomial(n - seen, ratio))
        seen = n
        kept = max(0, needed - lowest)
        passed += float(alive[kept:].sum())
        alive = alive[:kept]
        hopeless = int(np.searchsorted(np.cumsum(alive), NEGLIGIBLE))
        passed += float(alive[:hopeless].sum())
        alive, lowest = alive[hopeless:], lowest + hopeless
        rates.append(passed)
        if not alive.size:
            # Whoever is left has passed; the rest of the looks change nothing.
            alive = np.zeros(1)
    return rates


@dataclass(frozen=True)
class Rule:
    """What passes: E⁺ at every look with enough samples, and one Wilson look at the end of an attempt."""

    threshold: float
    odds: float
    z: float

    @classmethod
    def of(cls, threshold: float, confidence: Confidence) -> "Rule":
        return cls(threshold, confidence.odds(threshold), confidence.z)

    @property
    def least(self) -> int:
        """`minSamples` of R2."""
        return max(SAMPLES_FLOOR, least_samples(self.threshold, self.z))

    def looks(self, per_look: int, looks: int, attempts: int) -> list[Look]:
        """Attempts of `looks` looks each, their samples pooled. The first planned look with enough samples uses the
        only ticket; all other looks pass by E⁺ alone."""
        ticket = True
        found = []
        for look in range(1, looks * attempts + 1):
            n = look * per_look
            if n < self.least:
                continue
            planned = ticket and look % looks == 0
            ticket = ticket and not planned
            by_e = least_by_e(n, self.threshold, self.odds)
            # E⁺ passes at the planned look as well; it never passes where Wilson would not.
            found.append((n, min(by_e, critical_count(n, self.threshold, self.z)) if planned else by_e))
        return found


def false_promote(rule: Rule, per_look: int, looks: int, attempts: int = ATTEMPTS) -> float:
    """P(promoted in any of the attempts) at the threshold; 0 when no attempt reaches `minSamples`."""
    rates = pass_rates(rule.threshold, rule.looks(per_look, looks, attempts))
    return rates[-1] if rates else 0.0


@dataclass(frozen=True)
class Worst:
    """The schedule with the largest chance of a false PROMOTE."""

    rate: float
    per_look: int
    looks: int


def worst(rule: Rule, schedules: Sequence[tuple[int, int]], attempts: int = ATTEMPTS) -> Worst:
    return max((Worst(false_promote(rule, m, k, attempts), m, k) for m, k in schedules), key=lambda w: w.rate)


def schedules(largest: float = math.inf) -> list[tuple[int, int]]:
    """Samples per look and looks per attempt: the grid of R5, up to `largest` planned samples."""
    return [(m, k) for m in PER_LOOK for k in LOOKS if m * k <= largest]


@cache
def least_by_e(n: int, threshold: float, odds: float) -> int:
    """The smallest good count of n at which E⁺ reaches `odds`; n + 1 when none does."""
    low, high = math.floor(n * threshold), n + 1
    while low < high:
        middle = (low + high) // 2
        if log_e_pass(middle, n - middle, threshold) >= math.log(odds):
            high = middle
        else:
            low = middle + 1
    return high


@lru_cache(maxsize=256)
def _binomial(n: int, share: float) -> NDArray[np.float64]:
    probabilities: NDArray[np.float64] = binom.pmf(np.arange(n + 1), n, share)
    return probabilities
