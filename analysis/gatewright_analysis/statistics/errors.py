"""What a statistic says when it can conclude nothing."""

from typing import Final

LARGEST_COUNT: Final = 2**53
"""Beyond it a float no longer tells a count from the next."""


class NoConclusion(ValueError):
    """These numbers allow no conclusion; the message is a sentence that says why and what would be needed.

    Who judges turns it into *inconclusive*: it is never a pass and never a breach.
    """


def whole(value: object, what: str) -> int:
    """`value` as a count, 0 … 2⁵³; raises NoConclusion where it is none (a float such as 3.0 is none)."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise NoConclusion(f"{what} must be a whole number, at least 0, not {value!r}.")
    if value > LARGEST_COUNT:
        raise NoConclusion(f"{what} must be at most 2^53; larger numbers can't be told apart.")
    return value


def open_share(value: float, what: str) -> float:
    """`value` if it lies strictly between 0 and 1; raises NoConclusion otherwise, NaN included."""
    if not 0.0 < value < 1.0:
        raise NoConclusion(f"{what} must lie between 0 and 1, not {value!r}.")
    return value
