"""M3: the e-value for scores between 0 and 1, as a mixture over 64 bets (statistics.md 4.2).

A score is partial credit, a cluster's mean or a window's good ratio. Only one thing is assumed: that each score's
mean, given those before it, is at most t. On scores that are all 0 or 1 it equals `evalue` to four decimals where
there is evidence; where there is none, 64 bets say a little less than the integral.
All values are natural logarithms.
"""

import math
from collections.abc import Iterable
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from gatewright_analysis.statistics.errors import NoConclusion, open_share, whole

BETS: Final = 64
_CHUNK = 4096
_LARGEST_FACTOR = 1e300
"""Instead of infinity, against thresholds below 1e-300: an e-value that is too small is still valid."""
_Vector = NDArray[np.float64]


class ScoreEvidence:
    """log E⁺ and log E⁻ of a mean against `threshold`, as a fold over scores.

    The state is one vector of 64 logarithms for each side, so it doesn't grow; batches may come in any order and be
    merged (rounding aside). A bet that lost everything stays at −inf.
    """

    __slots__ = ("_fail", "_fail_bets", "_pass", "_pass_bets", "_threshold", "n")

    def __init__(self, threshold: float) -> None:
        """Raises NoConclusion unless 0 < threshold < 1."""
        self._threshold = open_share(threshold, "The threshold of a score")
        self._pass_bets = _bets(threshold, 1.0 - threshold)
        # Not _bets(1 − t, t) of a rounded 1 − t: for tiny t that would be a bet against 1.
        self._fail_bets = _bets(1.0 - threshold, threshold)
        self._pass: _Vector = np.zeros(BETS)
        self._fail: _Vector = np.zeros(BETS)
        self.n = 0
        """How many scores there were."""

    def add(self, score: float, weight: int = 1) -> None:
        """`weight` scores that all are `score`; raises NoConclusion unless 0 ≤ score ≤ 1 and weight ≥ 0."""
        if whole(weight, "The weight of a score counts scores: it"):
            self._count(_checked([score]), weight)

    def add_many(self, scores: Iterable[float]) -> None:
        """One score each. If any is not between 0 and 1, raises NoConclusion and counts none of them."""
        values = _checked(scores)
        for start in range(0, values.size, _CHUNK):
            self._count(values[start : start + _CHUNK], 1)

    def merge(self, other: Self) -> None:
        """Counts all that `other` counted; raises NoConclusion when it was judged against another threshold."""
        if other._threshold != self._threshold:
            raise NoConclusion(
                f"Scores judged against {other._threshold} can't be added to scores judged against {self._threshold}."
            )
        self._pass = self._pass + other._pass
        self._fail = self._fail + other._fail
        self.n += other.n

    def log_e_pass(self) -> float:
        """Evidence that the mean is above the threshold; 0 without scores, −inf when hopeless."""
        return _log_mean_exp(self._pass)

    def log_e_fail(self) -> float:
        """Evidence that the mean is below the threshold: the same bets on 1 − x against 1 − t."""
        return _log_mean_exp(self._fail)

    def _count(self, scores: _Vector, weight: int) -> None:
        self._pass = self._pass + weight * _log_growth(self._pass_bets, scores)
        self._fail = self._fail + weight * _log_growth(self._fail_bets, 1.0 - scores)
        self.n += weight * scores.size


def _bets(threshold: float, rest: float) -> tuple[_Vector, _Vector]:
    """Growth of each bet at a score of 1 and at a score of 0: q/t and (1 − q)/(1 − t); `rest` is 1 − t.

    λ = (q − t)/(t(1 − t)) makes 1 + λ(x − t) the line between the two. The q are the mid-quantiles of Beta(½, ½) cut
    to (t, 1); it is the arcsine law, whose tail above x is (2/π)·arccos √x, so they need no search.
    """
    angle = math.atan2(math.sqrt(rest), math.sqrt(threshold))
    angles = angle * (1.0 - (np.arange(BETS) + 0.5) / BETS)
    with np.errstate(over="ignore", divide="ignore"):
        at_one = np.minimum(np.cos(angles) ** 2 / threshold, _LARGEST_FACTOR)
        at_zero = np.minimum(np.sin(angles) ** 2 / rest, _LARGEST_FACTOR)
    return at_one, at_zero


def _log_growth(bets: tuple[_Vector, _Vector], scores: _Vector) -> _Vector:
    at_one, at_zero = bets
    factors = np.outer(at_one, scores) + np.outer(at_zero, 1.0 - scores)
    with np.errstate(divide="ignore"):
        total: _Vector = np.log(factors).sum(axis=1)
    return total


def _checked(scores: Iterable[float]) -> _Vector:
    listed = list(scores)
    try:
        values = np.array(listed, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise NoConclusion(
            "A score must be a number between 0 and 1; something else was among them."
        ) from error
    if values.ndim != 1:
        raise NoConclusion("Scores are a flat list of numbers between 0 and 1.")
    wrong = np.flatnonzero(~((values >= 0.0) & (values <= 1.0)))
    if wrong.size:
        raise NoConclusion(
            f"A score must be a number between 0 and 1, not {listed[int(wrong[0])]!r}; one that is missing is not 0."
        )
    return values


def _log_mean_exp(values: _Vector) -> float:
    top = float(values.max())
    if top == -math.inf:
        return top
    return top + math.log(float(np.exp(values - top).mean()))
