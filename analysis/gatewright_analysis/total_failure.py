"""A canary that fails most requests goes at once: a plain rule, not a statistic (statistics.md R2, total
failure).

E⁻ with its deflation needs several windows for a failure that begins late; this rule needs
`totalFailure.for`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gatewright_analysis.evidence.model import Counts, Tick, Window

MIN_TICKS: Final = 3
MIN_REQUESTS: Final = 20
MIN_WINDOW_REQUESTS: Final = 10
STABLE_SHARE: Final = 0.25
"""Stable's bad ratio may be at most this part of the canary's; else it is an outage of both."""
_EDGE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class TotalFailureFound:
    """When the rule first held (seconds after t0), and what both arms did over the time that it looks at."""

    at: float
    canary: Counts
    stable: Counts | None


def find_total_failure(
    ticks: Sequence[Tick], *, bad_ratio: float, for_seconds: float, window_seconds: float, has_stable: bool
) -> TotalFailureFound | None:
    """The first tick at which the canary had failed throughout `for_seconds`, or None.

    Over that time (twice as long without a stable arm, because there is nothing to compare with) at least
    three ticks and 20 requests, in each tick that has requests a bad ratio of at least `bad_ratio`, and
    stable's at most a quarter of the canary's, both over the same time and with one window before. The former
    because an outage of both that has just begun is thinned out by the time before it, the latter because one
    that reached stable first may have left it already. A position is judged
    only where the ticks reach back far enough, and never on what the canary did before t0. Which positions
    are judged depends on the ticks alone, so looking more often changes nothing.
    """
    ordered = sorted(ticks, key=lambda tick: tick.end)
    if not ordered:
        return None
    ends = [tick.end for tick in ordered]
    period = for_seconds if has_stable else 2 * for_seconds
    before = window_seconds if has_stable else 0.0
    # Three ticks in `for` means that they are at most a third of it apart: the oldest may be that much late.
    judged_from = max(period, ends[0] - for_seconds / MIN_TICKS + period + before) - _EDGE
    for position in range(bisect_right(ends, judged_from), len(ordered)):
        end = ends[position]
        first = bisect_right(ends, end - period + _EDGE)
        recent = [tick.canary for tick in ordered[first : position + 1] if tick.canary.n]
        if len(recent) < MIN_TICKS or any(counts.bad < bad_ratio * counts.n for counts in recent):
            continue
        earlier = bisect_right(ends, end - period - before + _EDGE)
        stable = [tick.stable for tick in ordered[earlier : position + 1]] if has_stable else None
        beside = [tick.stable for tick in ordered[first : position + 1]] if has_stable else None
        found = _found(end, recent, MIN_REQUESTS, stable, beside)
        if found is not None:
            return found
    return None


def find_total_failure_by_windows(
    windows: Sequence[Window], *, end: float, bad_ratio: float, has_stable: bool
) -> TotalFailureFound | None:
    """The same rule where only windows are known: the newest two (four without a stable arm), at least 10
    requests each.

    `windows` are the newest ones, oldest first, the last of them closed at `end`; stable is also asked about
    the one before. A faulted window ends the run.
    """
    needed = 2 if has_stable else 4
    recent = windows[-needed:]
    if len(recent) < needed or any(
        window.fault is not None
        or window.canary.n < MIN_WINDOW_REQUESTS
        or window.canary.bad < bad_ratio * window.canary.n
        for window in recent
    ):
        return None
    stable = [window.stable for window in windows[-needed - 1 :]] if has_stable else None
    beside = [window.stable for window in recent] if has_stable else None
    return _found(end, [window.canary for window in recent], MIN_WINDOW_REQUESTS, stable, beside)


def _found(
    at: float,
    canary: Iterable[Counts],
    min_requests: int,
    stable: Iterable[Counts | None] | None,
    beside: Iterable[Counts | None] | None,
) -> TotalFailureFound | None:
    """None unless there were enough requests and stable, where there is one, failed at most a quarter as
    often: over the longer time (`stable`) and over the canary's own (`beside`)."""
    total = sum(canary, Counts(0, 0))
    if total.n < min_requests:
        return None
    if stable is None or beside is None:
        return TotalFailureFound(at, total, None)
    longer, own = _sum(stable), _sum(beside)
    return TotalFailureFound(at, total, longer) if _alone(total, longer) and _alone(total, own) else None


def _sum(arms: Iterable[Counts | None]) -> Counts:
    return sum((counts for counts in arms if counts is not None), Counts(0, 0))


def _alone(canary: Counts, stable: Counts) -> bool:
    """Stable without a request proves no difference: unknown is never a breach."""
    return stable.n > 0 and stable.bad * canary.n <= STABLE_SHARE * canary.bad * stable.n
