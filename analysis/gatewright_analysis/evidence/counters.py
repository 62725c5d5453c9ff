"""Integer increments of one counter from its raw samples (statistics.md 7.6). No rate(), no extrapolation.

An increment belongs to the time of the later sample. A drop is a reset: the whole new value is new. A counter
that is seen for the first time started at 0 only when it is known not to have existed before; else its first
value is where counting begins, because the source may have lost what was before.
"""

import math
from dataclasses import dataclass

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.reasons import Reason


@dataclass(frozen=True, slots=True)
class Last:
    """The newest usable sample of a counter: Unix time and value."""

    at: float
    value: int


@dataclass(frozen=True, slots=True)
class Increment:
    """`amount` ≥ 0 events in (previous sample, at]; `reset` when the counter had begun anew."""

    at: float
    amount: int
    reset: bool = False


def read_count(value: float) -> int | Fault:
    """The value of a counter sample as an integer, or why it can't be one.

    A stale marker never comes this far: Prometheus leaves it out of the answers to range selectors, so a NaN
    here was exposed by the application.
    """
    if math.isnan(value):
        return Fault(Reason.NOT_A_NUMBER, "a counter has the value NaN: the application exposes no number")
    if math.isinf(value):
        return Fault(Reason.INFINITE, "a counter is infinite")
    if value < 0:
        return Fault(Reason.NEGATIVE_COUNT, f"a counter has the value {value:g}: counters are never negative")
    if value != math.floor(value):
        return Fault(
            Reason.NOT_A_COUNTER, f"a counter has the value {value:g}: only whole events can be counted"
        )
    return int(value)


def increment(
    last: Last | None, at: float, value: int, *, born_after: float | None = None, restarted: bool = False
) -> Increment:
    """What the sample (`at`, `value`) adds to a counter whose newest sample was `last`.

    `born_after` matters for a counter's first sample only: a Unix time at which the counter is known not to
    have existed (its pod was created then, or its target was scraped then without it), None when nothing is
    known. `restarted` says that the process behind the counter is known to have begun anew since `last`,
    although the value is no lower.
    """
    if last is None:
        return Increment(at, value if born_after is not None else 0)
    if value < last.value or restarted:
        return Increment(at, value, reset=True)
    return Increment(at, value - last.value)
