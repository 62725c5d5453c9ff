"""The peers' rules as pure functions on the same windows, as they are documented and as their source decides.

Each takes windows of many runs at once and gives a decision and its second for each. What a rule does without data is its own:
see each docstring. None of them is given less than it has: queries are the well-written kind, and all see only what comes
after the warm-up.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tests.bench.verdicts.traffic import DURATION, LIMIT, WINDOW, Floats, Ints, Windows

Flags = NDArray[np.bool_]
NEVER: Final = np.inf


class Call(IntEnum):
    HOLD = 0
    PROMOTE = 1
    ROLLBACK = 2


@dataclass(frozen=True, slots=True)
class Answers:
    """A decision for each run, and the second after t0 at which it fell."""

    calls: Ints
    seconds: Floats

    def share(self, call: Call) -> float:
        return float(np.mean(self.calls == call))


def argo(
    windows: Windows,
    *,
    failure_limit: int,
    limit: float = LIMIT,
    span: int = 1,
    inconclusive_limit: int = 0,
    consecutive_error_limit: int = 4,
) -> Answers:
    """Argo Rollouts: an analysis of `count` = duration / window measurements, each the bad ratio of the last `span` windows.

    successCondition `result[0] <= limit` and failureCondition `result[0] > limit`, so that 0/0 is neither: inconclusive, above
    `inconclusiveLimit` (0) a pause. More than `failureLimit` failures abort. A window that can't be read is an error: it isn't
    counted towards `count`, and more than `consecutiveErrorLimit` (4) in a row abort too.
    """
    count = DURATION // WINDOW
    bad, n = (
        _trailing(windows.canary_bad, windows.lost, span),
        _trailing(windows.canary_n, windows.lost, span),
    )
    error = windows.lost
    failed = ~error & (bad > limit * n)
    unknown = ~error & (n == 0)
    measured = np.cumsum(~error, axis=1)
    before_end = measured <= count
    aborted = _first((np.cumsum(failed, axis=1) > failure_limit) & before_end & ~error)
    paused = _first((np.cumsum(unknown, axis=1) > inconclusive_limit) & before_end & ~error)
    broken = _first(_in_a_row(error) > consecutive_error_limit)
    return _earliest(
        {
            Call.ROLLBACK: np.minimum(aborted, broken),
            Call.HOLD: paused,
            Call.PROMOTE: _first(measured >= count),
        }
    )


def flagger(windows: Windows, *, threshold: int, limit: float = LIMIT, every: int = 2) -> Answers:
    """Flagger: a check each `every` windows (1 min); it goes on after duration / interval good ones, as with `iterations`.

    A bad `request-success-rate` and no values found are both a failed check; nothing advances at one. Failed checks add up over
    the analysis, and `threshold` of them roll back, at the next tick.
    """
    runs = len(windows.lost)
    readable = ~windows.lost
    bad = (windows.canary_bad * readable).reshape(runs, -1, every).sum(axis=2)
    n = (windows.canary_n * readable).reshape(runs, -1, every).sum(axis=2)
    failed = (n == 0) | (bad > limit * n)
    step = every * WINDOW
    back = _first(np.cumsum(failed, axis=1) >= threshold, step) + step
    on = _first(np.cumsum(~failed, axis=1) >= DURATION // step, step)
    # A rollback that is due at the next tick comes before anything that a later check says.
    return _earliest({Call.ROLLBACK: back, Call.PROMOTE: on})


def kayenta(windows: Windows, *, confidence: float = 0.98, tolerance: float = 0.25) -> Answers:
    """Kayenta's judge: Mann-Whitney on the windows' bad ratios of both arms, at half of the duration and at its end.

    High when the lower limit of the shift's interval is above `tolerance` × the Hodges-Lehmann shift: then the one metric's score is 0,
    below any marginal threshold. Points without requests are left out (nanStrategy remove); without points there is a score of 0 too.
    """
    z = float(ndtri(1 - (1 - confidence) / 2))
    back = np.full(len(windows.lost), NEVER)
    for end in (DURATION // 2, DURATION):
        canary, stable = _points(windows, end // WINDOW)
        high = shift_z(canary, stable, tolerance) > z
        empty = np.isnan(canary).all(axis=1) | np.isnan(stable).all(axis=1)
        back = np.where((high | empty) & np.isinf(back), float(end), back)
    return _earliest({Call.ROLLBACK: back, Call.PROMOTE: np.full(len(back), float(DURATION) + 0.5)}, DURATION)


def wilson_only(windows: Windows, *, z: float = 1.959964, z_fail: float | None = None) -> Answers:
    """Wilson's interval of all requests so far, looked at after every window: both limits decide, whichever comes first.

    `z_fail` is the z of the upper limit; the same as the lower one's when left out.
    """
    readable = ~windows.lost
    bad = np.cumsum(windows.canary_bad * readable, axis=1).astype(np.float64)
    n = np.cumsum(windows.canary_n * readable, axis=1).astype(np.float64)
    low, _ = wilson_limits(n - bad, n, z)
    _, high = wilson_limits(n - bad, n, z if z_fail is None else z_fail)
    return _earliest({Call.ROLLBACK: _first(high < 1 - LIMIT), Call.PROMOTE: _first(low >= 1 - LIMIT)})


def shift_z(canary: Floats, stable: Floats, tolerance: float) -> Floats:
    """Mann-Whitney's z, with ties and continuity correction, of canary − `tolerance` × |Hodges-Lehmann shift| against stable.

    The lower limit of the shift's interval lies above a bound exactly when the test at that bound rejects. Arrays of (runs, points);
    NaN is no point. −inf where all points are tied or none is left.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        pairs = canary[:, :, None] - stable[:, None, :]
        flat = pairs.reshape(len(canary), -1)
        known = ~np.isnan(flat).all(axis=1)
        shift = np.zeros(len(canary))
        shift[known] = np.nanmedian(flat[known], axis=1)
        bound = tolerance * np.abs(shift)
        moved = pairs - bound[:, None, None]
        m, n = (~np.isnan(canary)).sum(axis=1), (~np.isnan(stable)).sum(axis=1)
        centred = (moved > 0).sum(axis=(1, 2)) + 0.5 * (moved == 0).sum(axis=(1, 2)) - m * n / 2
        both = np.concatenate((canary - bound[:, None], stable), axis=1)
        equal = (both[:, :, None] == both[:, None, :]).sum(axis=2)
        ties = np.where(equal > 0, equal.astype(np.float64) ** 2 - 1, 0.0).sum(axis=1)
        total = (m + n).astype(np.float64)
        variance = m * n / 12 * (total + 1 - ties / (total * (total - 1)))
        z = (centred - 0.5 * np.sign(centred)) / np.sqrt(variance)
    return np.where(np.isfinite(z) & (variance > 0), z, -np.inf)


def _points(windows: Windows, count: int) -> tuple[Floats, Floats]:
    """Bad ratios of the first `count` windows of both arms; NaN where there is nothing."""

    def arm(bad: Ints, n: Ints) -> Floats:
        usable = (n > 0) & ~windows.lost
        return np.where(usable, bad / np.maximum(n, 1), np.nan)[:, :count]

    return arm(windows.canary_bad, windows.canary_n), arm(windows.stable_bad, windows.stable_n)


def wilson_limits(good: Floats, n: Floats, z: float) -> tuple[Floats, Floats]:
    """Limits; 0 and 1 without data."""
    safe = np.maximum(n, 1.0)
    share = good / safe
    centre = share + z * z / (2 * safe)
    half = z * np.sqrt(np.maximum(share * (1 - share) / safe + z * z / (4 * safe * safe), 0.0))
    scale = 1 + z * z / safe
    return np.where(n > 0, (centre - half) / scale, 0.0), np.where(n > 0, (centre + half) / scale, 1.0)


def _trailing(counts: Ints, lost: Flags, span: int) -> Ints:
    """Sums over the last `span` windows that could be read, fewer at the start."""
    total = np.cumsum(counts * ~lost, axis=1)
    earlier = np.zeros_like(total)
    earlier[:, span:] = total[:, :-span]
    return total - earlier


def _in_a_row(flags: Flags) -> Ints:
    """How many in a row up to each position are set."""
    position = np.arange(1, flags.shape[1] + 1)
    return position - np.maximum.accumulate(np.where(flags, 0, position), axis=1)


def _first(flags: Flags, step: int = WINDOW) -> Floats:
    """The second at which a flag is first set, infinite where never."""
    return np.where(flags.any(axis=1), (flags.argmax(axis=1) + 1.0) * step, NEVER)


def _earliest(when: dict[Call, Floats], cap: float = NEVER) -> Answers:
    """The call that falls first, of two at once the one that stands first; HOLD at the end where none falls."""
    calls, times = list(when), np.stack(list(when.values()))
    which = times.argmin(axis=0)
    seconds = times.min(axis=0)
    decided = np.isfinite(seconds)
    return Answers(
        np.where(decided, np.array(calls)[which], Call.HOLD),
        np.minimum(np.where(decided, seconds, NEVER), cap),
    )
