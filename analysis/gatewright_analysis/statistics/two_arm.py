"""M5: is the canary worse than stable in the same windows (statistics.md 4.4)?

Given that a bad event happened in a window, it is the canary's with probability θ(r) = w·r / (w·r + 1 − w),
where w is the canary's share of the requests of that window and r how many times worse it is. What both arms
suffer together cancels out.
"""

import math
from typing import Final

GRID: Final = 12
"""Rate ratios r0 · exp(0.15 … 3), evenly spaced in the exponent, over which the e-value is the mean."""
_RELATIVE: Final = tuple(0.15 + (3.0 - 0.15) * step / (GRID - 1) for step in range(GRID))
_FACTORS: Final = tuple(math.exp(relative) for relative in _RELATIVE)


class TwoArm:
    """log E against "the canary fails at most `max_ratio` times as often as stable", as a fold over closed
    windows."""

    __slots__ = ("_largest", "_max_ratio", "_total")

    def __init__(self, max_ratio: float) -> None:
        self._max_ratio = max_ratio
        self._total = [0.0] * GRID
        self._largest = [0.0] * GRID

    def add(self, canary_bad: int, stable_bad: int, share: float) -> None:
        """Bad events of both arms in one window, and the canary's observed share of its requests, 0 < share <
        1.

        Raises ValueError for a window in which one arm had no requests: it compares nothing.
        """
        if not 0.0 < share < 1.0:
            raise ValueError(f"a window needs requests in both arms, the canary's share is {share}")
        if canary_bad == 0 and stable_bad == 0:
            return
        # log θ(r)/θ(r0) = log r/r0 + log D(r0)/D(r) and log (1−θ(r))/(1−θ(r0)) = log D(r0)/D(r), with D(r) =
        # w·r + 1 − w.
        scaled, rest, both = share * self._max_ratio, 1.0 - share, canary_bad + stable_bad
        base = scaled + rest
        for j in range(GRID):
            increment = canary_bad * _RELATIVE[j] + both * math.log(base / (scaled * _FACTORS[j] + rest))
            self._total[j] += increment
            if increment > self._largest[j]:
                self._largest[j] = increment

    def log_e(self) -> float:
        """The plain e-value: valid if requests are independent."""
        return _log_mean_exp(self._total)

    def log_e_robust(self, phi: float) -> float:
        """What may convict: divided by `phi`, and for each ratio without the single window that speaks
        loudest for it.

        One burst that only the canary has is then no evidence (49 % false rollbacks without this, at most
        0.47 % with it).
        """
        pairs = zip(self._total, self._largest, strict=True)
        return _log_mean_exp([(total - largest) / phi for total, largest in pairs])


def _log_mean_exp(values: list[float]) -> float:
    top = max(values)
    return top + math.log(math.fsum(math.exp(value - top) for value in values) / len(values))
