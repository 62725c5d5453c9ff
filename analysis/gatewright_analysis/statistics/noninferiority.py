"""M7: the difference of two proportions, for a planned single look at a margin (statistics.md R1, R4).

Two tools: Newcombe's interval, made of two Wilson intervals, and the score test of Farrington and Manning, with the
intervals that come from turning it round (Mee; Miettinen and Nurminen). p₁ is the canary's ratio, p₂ stable's;
whether an event is good or bad is the caller's choice.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

from gatewright_analysis.statistics.errors import NoConclusion, whole
from gatewright_analysis.statistics.wilson import Z95, wilson_interval

_NORMAL = NormalDist()
_NARROW = 1e-12


@dataclass(frozen=True, slots=True)
class Arm:
    """`count` of `n` events; raises NoConclusion without events or when the count doesn't fit."""

    count: int
    n: int

    def __post_init__(self) -> None:
        whole(self.count, "An arm's count")
        whole(self.n, "An arm's number of events")
        if self.n == 0:
            raise NoConclusion("An arm without events can't be compared: both arms need at least one.")
        if self.count > self.n:
            raise NoConclusion(f"{self.count} of {self.n} is not a proportion: the count is larger than n.")

    @property
    def share(self) -> float:
        return self.count / self.n


def newcombe_interval(canary: Arm, stable: Arm, z: float = Z95) -> tuple[float, float]:
    """Interval of p₁ − p₂ (Newcombe 1998, method 10)."""
    low1, high1 = wilson_interval(canary.count, canary.n, z)
    low2, high2 = wilson_interval(stable.count, stable.n, z)
    p1, p2 = canary.share, stable.share
    down = math.hypot(p1 - low1, high2 - p2)
    up = math.hypot(high1 - p1, p2 - low2)
    return max(-1.0, p1 - p2 - down), min(1.0, p1 - p2 + up)


def score_z(canary: Arm, stable: Arm, difference: float) -> float:
    """z of Farrington and Manning against p₁ − p₂ = `difference`, −1 < difference < 1; its variance is taken under
    that hypothesis.

    Large when p₁ − p₂ is larger; ±∞ where the hypothesis leaves no variance and the data contradict it.
    """
    if not -1.0 < difference < 1.0:
        raise NoConclusion(f"A difference of two ratios must lie between -1 and 1, not {difference!r}.")
    p1, p2 = _restricted(canary, stable, difference)
    variance = p1 * (1.0 - p1) / canary.n + p2 * (1.0 - p2) / stable.n
    beyond = canary.share - stable.share - difference
    if variance <= 0.0:
        return 0.0 if abs(beyond) < _NARROW else math.copysign(math.inf, beyond)
    return beyond / math.sqrt(variance)


def p_value_larger(canary: Arm, stable: Arm, difference: float) -> float:
    """One-sided p against "p₁ − p₂ is at most `difference`"."""
    return _NORMAL.cdf(-score_z(canary, stable, difference))


def p_value_smaller(canary: Arm, stable: Arm, difference: float) -> float:
    """One-sided p against "p₁ − p₂ is at least `difference`"; on bad events this is non-inferiority."""
    return _NORMAL.cdf(score_z(canary, stable, difference))


def score_interval(
    canary: Arm, stable: Arm, z: float = Z95, *, corrected: bool = False
) -> tuple[float, float]:
    """All differences that `score_z` doesn't reject: Mee's interval, or with `corrected` (variance · N/(N − 1)) that
    of Miettinen and Nurminen."""
    total = canary.n + stable.n
    limit = z * math.sqrt(total / (total - 1)) if corrected else z
    observed = canary.share - stable.share
    return (
        _edge(canary, stable, limit, inside=observed, outside=-1.0),
        _edge(canary, stable, limit, inside=observed, outside=1.0),
    )


def _edge(canary: Arm, stable: Arm, limit: float, *, inside: float, outside: float) -> float:
    """Where |z| reaches `limit` between the observed difference and ±1; z falls as the difference grows."""
    while abs(outside - inside) > _NARROW:
        middle = (inside + outside) / 2.0
        if abs(score_z(canary, stable, middle)) <= limit:
            inside = middle
        else:
            outside = middle
    return outside


def _restricted(canary: Arm, stable: Arm, difference: float) -> tuple[float, float]:
    """The most likely (p₁, p₂) with p₁ − p₂ = `difference`: the middle root of a cubic (Farrington and Manning
    1990, appendix)."""
    ratio = stable.n / canary.n
    p1, p2, d = canary.share, stable.share, difference
    a = 1.0 + ratio
    b = -(1.0 + ratio + p1 + ratio * p2 + d * (ratio + 2.0))
    c = d * d + d * (2.0 * p1 + ratio + 1.0) + p1 + ratio * p2
    e = -p1 * d * (1.0 + d)
    shift = b / (3.0 * a)
    v = shift**3 - b * c / (6.0 * a * a) + e / (2.0 * a)
    u = math.copysign(math.sqrt(max(0.0, shift * shift - c / (3.0 * a))), v)
    # Three roots that coincide leave no angle, and rounding may push the cosine past ±1.
    cosine = min(1.0, max(-1.0, v / u**3)) if u else 1.0
    root = 2.0 * u * math.cos((math.pi + math.acos(cosine)) / 3.0) - shift
    root = min(max(root, 0.0, d), 1.0, 1.0 + d)
    return root, root - d
