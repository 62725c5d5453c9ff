"""M9: exact group-sequential boundaries for counts, for teams with a fixed schedule of looks (statistics.md 4.3).

The distribution of the good count is walked from look to look under p = t. At each look the boundary is the smallest
count whose crossing probability fits into what may be spent by then: the error is at most α by construction, for any
sizes of looks, and what whole counts leave unspent is there at the next look.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

from gatewright_analysis.statistics.errors import NoConclusion, open_share, whole

MOST_SAMPLES: Final = 50_000
"""The walk takes time and memory with the square of the samples: here about a second."""
_NORMAL = NormalDist()


class Spending(StrEnum):
    """How much of α may be spent by the time that a share x of the samples is in."""

    OBRIEN_FLEMING = "OBrienFleming"
    """2(1 − Φ(z_{α/2}/√x)): next to nothing early, almost all at the end."""
    POCOCK = "Pocock"
    """α·ln(1 + (e − 1)x): about the same at each look."""
    QUADRATIC = "Quadratic"
    """α·x²: between the two."""


@dataclass(frozen=True, slots=True)
class Boundaries:
    """The plan of a schedule."""

    counts: tuple[int, ...]
    """For each look the smallest good count that passes; one more than its samples where none does."""
    used: float
    """The exact probability that a candidate at the threshold passes, at most α."""


def spent(function: Spending, alpha: float, share: float) -> float:
    """Of `alpha`, what may be spent when `share` of the planned samples is in, 0 < share ≤ 1."""
    open_share(alpha, "The error probability of a schedule")
    if not 0.0 < share <= 1.0:
        raise NoConclusion(f"The share of the planned samples must be above 0 and at most 1, not {share!r}.")
    match function:
        case Spending.OBRIEN_FLEMING:
            # Φ of the negative: 1 − Φ would lose the small figures of early looks.
            return 2.0 * _NORMAL.cdf(_NORMAL.inv_cdf(alpha / 2.0) / math.sqrt(share))
        case Spending.POCOCK:
            return alpha * math.log1p((math.e - 1.0) * share)
        case Spending.QUADRATIC:
            return alpha * share * share


def boundaries(
    looks: Sequence[int],
    threshold: float,
    alpha: float,
    function: Spending,
    *,
    shares: Sequence[float] | None = None,
) -> Boundaries:
    """Critical counts for looks at these numbers of samples (cumulative, growing; the last is the plan).

    `shares` says for each look which share of the plan it counts as, where looks did not come as planned; n over the
    last n when left out. Raises NoConclusion for a schedule without looks, one that does not grow or has more than `MOST_SAMPLES`, and for
    shares outside (0, 1).
    """
    open_share(threshold, "The threshold")
    open_share(alpha, "The error probability of a schedule")
    steps = np.diff([0, *(whole(n, "The samples of a look") for n in looks)])
    if steps.size == 0 or steps.min() < 1:
        raise NoConclusion(
            "A schedule needs at least one look, and each look more samples than the one before."
        )
    if looks[-1] > MOST_SAMPLES:
        raise NoConclusion(
            f"A schedule of {looks[-1]} samples takes too long to plan: plan at most {MOST_SAMPLES}, or leave the schedule "
            "out and look as often as you like."
        )
    alive = np.ones(1)
    used = 0.0
    counts = []
    parts = [n / looks[-1] for n in looks] if shares is None else shares
    for share, step in zip(parts, steps.tolist(), strict=True):
        alive = np.convolve(alive, _binomial(step, threshold))
        crossing = np.append(np.cumsum(alive[::-1])[::-1], 0.0)
        allowed = spent(function, alpha, share) - used
        critical = int(np.argmax(crossing <= allowed))
        used += float(crossing[critical])
        alive[critical:] = 0.0
        counts.append(critical)
    return Boundaries(tuple(counts), used)


def _binomial(n: int, share: float) -> NDArray[np.float64]:
    """Probabilities of 0 … n."""
    k = np.arange(n + 1)
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    probabilities: NDArray[np.float64] = np.exp(ways + xlogy(k, share) + xlog1py(n - k, -share))
    return probabilities
