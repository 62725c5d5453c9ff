"""M10: how many samples one planned look needs, how likely it passes, how long it takes (statistics.md, section 5)."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from gatewright_analysis.statistics.errors import NoConclusion, open_share, whole
from gatewright_analysis.statistics.wilson import Z95, least_samples

_CHUNK = 4096


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """Samples for one Wilson look to pass with the wanted power."""

    formula: int
    """The normal approximation: rough, cheap."""
    smallest: int
    """The first n that reaches the power; a few more samples may fall below it again, because counts are
    whole."""
    stable: int
    """The first n from which on the power is never lost again: what a contract plans with."""


@lru_cache(maxsize=32)
def _normal_quantile(power: float) -> float:
    return NormalDist().inv_cdf(power)


def formula_samples(threshold: float, true_ratio: float, power: float = 0.9, z: float = Z95) -> float:
    """The normal approximation of the samples needed, not rounded; infinite when `true_ratio` ≤
    `threshold`."""
    if true_ratio <= threshold:
        return math.inf
    z_power = _normal_quantile(power)
    spread = z * math.sqrt(threshold * (1 - threshold)) + z_power * math.sqrt(true_ratio * (1 - true_ratio))
    return (spread / (true_ratio - threshold)) ** 2


@lru_cache(maxsize=256)
def plan_samples(threshold: float, true_ratio: float, power: float = 0.9, z: float = Z95) -> SamplePlan:
    """Exact sample sizes for 0 < threshold < true_ratio < 1 and 0 < power < 1; raises ValueError outside."""
    if not (0.0 < threshold < true_ratio < 1.0 and 0.0 < power < 1.0):
        raise ValueError(f"no plan for a true ratio of {true_ratio} against {threshold} with power {power}")
    formula = formula_samples(threshold, true_ratio, power, z)
    smallest = _smallest(threshold, true_ratio, power, z)
    # The saw-tooth of whole counts is far smaller than half of n everywhere that one can afford to sample.
    last_short = _last_short(threshold, true_ratio, power, z, start=int(1.5 * formula) + 300, floor=smallest)
    return SamplePlan(math.ceil(formula), smallest, last_short + 1)


def default_planned_samples(threshold: float, power: float = 0.9, z: float = Z95) -> int:
    """Planned n when a contract says nothing: 90 % power for a candidate half-way between the threshold and
    perfect."""
    return plan_samples(threshold, threshold + (1 - threshold) / 2, power, z).stable


def power_at(n: int, threshold: float, true_ratio: float, z: float = Z95) -> float:
    """P(one Wilson look at `n` samples passes) if the good ratio is `true_ratio`, exact; 0 below n_min.

    Raises NoConclusion unless 0 < threshold < 1 and 0 ≤ true_ratio ≤ 1.
    """
    open_share(threshold, "The threshold")
    if not 0.0 <= true_ratio <= 1.0:
        raise NoConclusion(f"A good ratio lies between 0 and 1, not {true_ratio!r}.")
    if whole(n, "The number of samples") == 0:
        return 0.0  # no evidence is no pass, though 0 of 0 are as many as the formula asks for
    return float(_power(np.array([n], dtype=np.int64), threshold, true_ratio, z)[0])


def joint_power(powers: Iterable[float]) -> float:
    """P(all required checks pass) if they are independent: the product; 1 without checks."""
    return math.prod(powers)


def power_per_check(joint: float, checks: int) -> float:
    """The power that each of `checks` required checks needs, so that all pass with probability `joint`.

    Raises NoConclusion unless 0 < joint < 1 and there is at least one check.
    """
    open_share(joint, "The joint power")
    if whole(checks, "The number of checks") == 0:
        raise NoConclusion(
            "Without a required check there is no power to divide: let at least one check pass."
        )
    return float(joint ** (1.0 / checks))


def expected_minutes(samples: float, requests_per_minute: float, weight: float) -> float:
    """Minutes until `samples` requests have met the canary, at a total rate and a weight in percent, 0 … 100.

    Infinite when no request ever does. Raises NoConclusion on negative or impossible figures.
    """
    if not (samples >= 0.0 and requests_per_minute >= 0.0 and 0.0 <= weight <= 100.0):
        raise NoConclusion(
            f"{samples!r} samples at {requests_per_minute!r} requests per minute and weight {weight!r} can't be "
            "planned: none may be negative, and a weight is at most 100."
        )
    to_canary = requests_per_minute * weight / 100.0
    if to_canary == 0.0:
        return 0.0 if samples == 0 else math.inf
    return samples / to_canary


def samples_for_quantile(quantile: float, confidence: float = 0.95) -> int:
    """Raw samples after which their largest is an upper limit of that quantile: the least n with 1 − qⁿ ≥
    confidence (one-sided)."""
    open_share(quantile, "A quantile")
    open_share(confidence, "The confidence")
    return math.ceil(math.log1p(-confidence) / math.log(quantile))


def native_bucket_growth(schema: int) -> float:
    """How much wider each bucket of a native histogram is than the one before, 2^(2^−schema), for schemas −4 … 8.

    A value read from a bucket is off by at most this factor, by its square root from the geometric middle.
    """
    if isinstance(schema, bool) or not isinstance(schema, int) or not -4 <= schema <= 8:
        raise NoConclusion(f"A native histogram has a schema from -4 to 8, not {schema!r}.")
    return float(2.0 ** (2.0**-schema))


def _power(n: NDArray[np.int64], threshold: float, true_ratio: float, z: float) -> NDArray[np.float64]:
    """P(the Wilson lower limit reaches the threshold) for each n, exact."""
    critical = np.ceil(n * threshold + z * np.sqrt(n * threshold * (1 - threshold)))
    possible = critical <= n
    power: NDArray[np.float64] = betainc(critical, np.where(possible, n - critical + 1, 1.0), true_ratio)
    return np.where(possible, power, 0.0)


def _smallest(threshold: float, true_ratio: float, power: float, z: float) -> int:
    start = least_samples(threshold, z)
    while True:
        n = np.arange(start, start + _CHUNK, dtype=np.int64)
        enough = np.flatnonzero(_power(n, threshold, true_ratio, z) >= power)
        if enough.size:
            return int(n[enough[0]])
        start += _CHUNK


def _last_short(
    threshold: float, true_ratio: float, power: float, z: float, *, start: int, floor: int
) -> int:
    """The largest n ≤ `start` whose power is short, at least `floor` − 1."""
    top = max(start, floor)
    while top >= floor:
        n = np.arange(max(floor, top - _CHUNK + 1), top + 1, dtype=np.int64)
        short = np.flatnonzero(_power(n, threshold, true_ratio, z) < power)
        if short.size:
            return int(n[short[-1]])
        top -= _CHUNK
    return floor - 1
