"""M6: exact binomial tails, for one-shot questions and few events (statistics.md R1, R4).

The one shot is the whole promise: looked at twice, the error doubles. What is looked at again and again is judged by
`evalue`. Sides are always named, because "exact 95 %" alone means two different numbers.
"""

from scipy.special import betainc, betaincinv

from gatewright_analysis.statistics.errors import NoConclusion, open_share, whole


def p_value_above(bad: int, n: int, limit: float) -> float:
    """P(at least `bad` of `n` are bad) if the bad ratio is `limit`: small when the ratio is above it.

    0 ≤ limit ≤ 1. Without events (n = 0) it is 1: nothing speaks against anything. Raises NoConclusion on counts that
    don't fit.
    """
    _fitting(bad, n)
    if not 0.0 <= limit <= 1.0:
        raise NoConclusion(f"The limit of a ratio must lie between 0 and 1, not {limit!r}.")
    return 1.0 if bad == 0 else float(betainc(bad, n - bad + 1, limit))


def breach(bad: int, n: int, limit: float, alpha: float = 0.01) -> bool:
    """Whether one look at `bad` of `n` proves a bad ratio above `limit`, wrongly with probability ≤ alpha."""
    open_share(alpha, "The error probability of a breach")
    return p_value_above(bad, n, limit) <= alpha


def exact_lower(successes: int, n: int, alpha: float) -> float:
    """The one-sided Clopper-Pearson lower limit of a proportion, with error ≤ alpha; n ≥ 1."""
    _some(successes, n)
    open_share(alpha, "The error probability of a limit")
    return 0.0 if successes == 0 else float(betaincinv(successes, n - successes + 1, alpha))


def exact_upper(successes: int, n: int, alpha: float) -> float:
    """The one-sided Clopper-Pearson upper limit of a proportion, with error ≤ alpha; n ≥ 1."""
    _some(successes, n)
    return 1.0 - exact_lower(n - successes, n, alpha)


def clopper_pearson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """The two-sided interval: each side errs with at most (1 − confidence)/2."""
    alpha = (1.0 - open_share(confidence, "The confidence")) / 2.0
    return exact_lower(successes, n, alpha), exact_upper(successes, n, alpha)


def two_arm_p_value(canary_bad: int, stable_bad: int, share: float, ratio: float = 1.0) -> float:
    """Conditional p-value against "the canary fails at most `ratio` times as often as stable".

    Given all bad events of one window, each is the canary's with probability w·r/(w·r + 1 − w), where w = `share` is
    the canary's observed share of the requests, 0 < share < 1. It is 1 when no bad event is the canary's.
    """
    open_share(share, "The canary's share of the requests")
    if not 0.0 < ratio < float("inf"):
        raise NoConclusion(f"The ratio of two error rates must be above 0 and finite, not {ratio!r}.")
    whole(canary_bad, "The canary's bad events")
    whole(stable_bad, "Stable's bad events")
    theta = share * ratio / (share * ratio + 1.0 - share)
    return p_value_above(canary_bad, canary_bad + stable_bad, theta)


def _fitting(count: int, n: int) -> None:
    whole(count, "A count of events")
    whole(n, "The number of events")
    if count > n:
        raise NoConclusion(
            f"{count} of {n} is not a proportion: the count is larger than the number of events."
        )


def _some(count: int, n: int) -> None:
    _fitting(count, n)
    if n == 0:
        raise NoConclusion("A proportion of nothing has no limits: at least one event is needed.")
