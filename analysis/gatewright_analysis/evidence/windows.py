"""The grid of a gate in time: windows (t0 + k·w, t0 + (k+1)·w] and ticks of one scrape interval. The same
after a restart.
"""

import math
from dataclasses import dataclass
from typing import Final

GAP_FACTOR: Final = 2.1
"""More than two scrape intervals without a sample is a gap (statistics.md 7.6); the tenth is for the jitter
of scrapes.
"""


@dataclass(frozen=True, slots=True)
class Grid:
    """t0 in Unix seconds, lengths in seconds. Raises ValueError unless the window holds two scrapes.

    Intervals are open on the left and closed on the right, as Prometheus' ranges are, so every sample has one
    window.
    """

    t0: float
    window: float
    scrape_interval: float

    def __post_init__(self) -> None:
        if not (self.scrape_interval > 0 and math.isfinite(self.t0)):
            raise ValueError("a grid needs a scrape interval above 0 and a finite t0")
        if self.window < 2 * self.scrape_interval:
            raise ValueError(
                f"the window of {self.window:g} s must be at least two scrape intervals "
                f"({2 * self.scrape_interval:g} s): lengthen the gate's window"
            )

    @property
    def gap(self) -> float:
        """Seconds without a sample from which on a series has a hole."""
        return GAP_FACTOR * self.scrape_interval

    @property
    def settle(self) -> float:
        """Seconds after a tick's end before it is read: a scrape is stamped at its start and stored when it
        is over.
        """
        return min(0.3 * self.scrape_interval, 2.0)

    def window_at(self, at: float) -> int:
        """Index of the window that holds the Unix time `at`; negative before t0."""
        return window_index(at - self.t0, self.window)

    def window_bounds(self, index: int) -> tuple[float, float]:
        """(start, end] of a window in Unix seconds."""
        return self.t0 + index * self.window, self.t0 + (index + 1) * self.window

    def tick_at(self, at: float) -> int:
        return window_index(at - self.t0, self.scrape_interval)

    def tick_end(self, index: int) -> float:
        """End of a tick in seconds after t0."""
        return (index + 1) * self.scrape_interval

    def closed_windows(self, now: float) -> int:
        """How many windows since t0 are usable at `now`: one is when its end lies at least one scrape
        interval back.

        A scrape may take as long as the interval (Prometheus refuses a longer scrape time-out), so by then
        everything that was stamped inside the window has been stored.
        """
        return max(0, _index_inclusive(now - self.scrape_interval - self.t0, self.window))


def window_index(offset: float, length: float) -> int:
    """Index of the interval (k·length, (k+1)·length] that holds `offset`."""
    return math.ceil(_ratio(offset, length)) - 1


def _index_inclusive(offset: float, length: float) -> int:
    """How many whole intervals have ended at or before `offset`."""
    return math.floor(_ratio(offset, length))


def _ratio(offset: float, length: float) -> float:
    """Times are compared to the microsecond: a float of Unix seconds knows no more."""
    return round(round(offset, 6) / length, 9)


def reads_at(index: int, window: float, spacing: float) -> bool:
    """Whether a gauge is read at the end of window `index`: readings lie at least `spacing` seconds apart.

    Readings nearer than that say the same thing twice (statistics.md R2, `value`). The first window is one of them,
    and which the others are doesn't depend on what was read.
    """
    return index % readings_apart(window, spacing) == 0


def readings_apart(window: float, spacing: float) -> int:
    """Windows from one reading of a gauge to the next."""
    return max(1, math.ceil(_ratio(spacing, window)))
