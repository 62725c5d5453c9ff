"""M2: the truncated-Beta mixture e-value for counts, valid at any number of looks (statistics.md 4.1).

E⁺ speaks against "the good ratio is at most t", E⁻ against "it is at least t". Under its hypothesis the
chance that E ever reaches 1/α is at most α (Ville), so it may be looked at after every window. All values are
natural logarithms.
"""

import math
from functools import lru_cache

from scipy.special import betaincc, betaln

_A = _B = 0.5
"""The prior: Beta(½, ½) cut to the side that the hypothesis excludes."""


def _log_upper_tail(a: float, b: float, threshold: float) -> float:
    tail = float(betaincc(a, b, threshold))
    return math.log(tail) if tail > 0.0 else -math.inf


@lru_cache(maxsize=256)
def _log_prior(threshold: float) -> float:
    return float(betaln(_A, _B)) + _log_upper_tail(_A, _B, threshold)


def log_e_pass(good: float, bad: float, threshold: float) -> float:
    """log E⁺: evidence that the good ratio is above `threshold` (0 < threshold < 1); 0 without data, −inf
    when hopeless.

    Counts are ≥ 0; they may be fractional, because a deflated count is. Raises ValueError on anything else.
    """
    if not (0.0 < threshold < 1.0 and good >= 0 and bad >= 0):
        raise ValueError(f"no e-value for {good} good, {bad} bad against {threshold}")
    posterior = float(betaln(_A + good, _B + bad)) + _log_upper_tail(_A + good, _B + bad, threshold)
    return posterior - _log_prior(threshold) - good * math.log(threshold) - bad * math.log1p(-threshold)


def log_e_fail(good: float, bad: float, threshold: float) -> float:
    """log E⁻: evidence that the good ratio is below `threshold`; the mirror of `log_e_pass`."""
    return log_e_pass(bad, good, 1.0 - threshold)


_MOST_SAMPLES = 1e9


def samples_for_pass(ratio: float, threshold: float, log_e: float) -> float:
    """Samples after which `log_e_pass` reaches `log_e` if the good ratio stays `ratio`.

    Infinite at or below `threshold`, and where it would take more than a billion.
    """
    if ratio <= threshold:
        return math.inf
    low, high = 0.0, 64.0
    while log_e_pass(ratio * high, (1.0 - ratio) * high, threshold) < log_e:
        low, high = high, 2.0 * high
        if high > _MOST_SAMPLES:
            return math.inf
    while high - low > 0.5:
        middle = (low + high) / 2
        if log_e_pass(ratio * middle, (1.0 - ratio) * middle, threshold) < log_e:
            low = middle
        else:
            high = middle
    return high


def anytime_lower_bound(good: int, bad: int, alpha: float = 0.05) -> float:
    """The good ratio that E⁺ excludes with odds 1/alpha: a lower bound that holds at every look at once, 0
    without data."""
    if good == 0:
        return 0.0
    wanted = -math.log(alpha)
    # It falls with the threshold: above at `low`, below at the ratio itself, and the root lies near the latter.
    low, high = 1e-12, good / (good + bad)
    above, below = log_e_pass(good, bad, low) - wanted, -wanted
    if above < 0.0:
        return 0.0
    step = math.sqrt((high * (1.0 - high) + 1.0 / (good + bad)) / (good + bad))
    while (nearer := high - step) > low and (found := log_e_pass(good, bad, nearer) - wanted) < 0.0:
        high, below, step = nearer, found, 2.0 * step
    # Regula falsi in its Illinois form; scipy.optimize takes longer to import than everything else here.
    last = 0
    while high - low > 1e-10:
        middle = (low * below - high * above) / (below - above)
        found = log_e_pass(good, bad, middle) - wanted
        if abs(found) < 1e-9:
            return middle
        if found > 0.0:
            low, above = middle, found
            below, last = (below / 2 if last == 1 else below), 1
        else:
            high, below = middle, found
            above, last = (above / 2 if last == -1 else above), -1
    return low
