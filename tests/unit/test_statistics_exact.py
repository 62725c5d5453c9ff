"""M6: exact tails and limits against published values (statistics.md R4 1–12, 18–24, 48)."""

import math

import pytest
from scipy.stats import binomtest

from gatewright_analysis.statistics.errors import NoConclusion
from gatewright_analysis.statistics.exact import (
    breach,
    clopper_pearson,
    exact_lower,
    exact_upper,
    p_value_above,
    two_arm_p_value,
)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (81, 263, 0.252737, 0.367622),
        (15, 148, 0.057844, 0.161650),
        (0, 20, 0.0, 0.168433),
        (1, 29, 0.000873, 0.177644),
        (2, 100, 0.00243134, 0.07038393),
        (4, 100, 0.01100449, 0.09925716),
    ],
)
def test_exact_interval_equals_the_published_one(successes: int, n: int, low: float, high: float) -> None:
    assert clopper_pearson(successes, n) == pytest.approx((low, high), abs=1e-6)


def test_one_sided_limit_equals_the_reference() -> None:
    assert exact_lower(10, 10, 0.05) == pytest.approx(0.741134, abs=1e-6)
    assert exact_upper(0, 10, 0.05) == pytest.approx(1 - 0.741134, abs=1e-6)


@pytest.mark.parametrize(
    ("n", "threshold", "count"),
    [
        (50, 0.8, 45),
        (100, 0.9, 96),
        (200, 0.9, 188),
        (300, 0.9, 279),
        (200, 0.95, 196),
        (500, 0.95, 484),
        (1000, 0.99, 996),
    ],
)
def test_critical_counts_of_the_exact_limit_equal_the_reference(n: int, threshold: float, count: int) -> None:
    assert exact_lower(count, n, 0.05) >= threshold > exact_lower(count - 1, n, 0.05)


def test_tails_and_limits_equal_scipys_for_every_count_of_a_few_sizes() -> None:
    for n in (1, 2, 7, 40):
        for bad in range(n + 1):
            theirs = binomtest(bad, n, 0.07, alternative="greater")
            assert p_value_above(bad, n, 0.07) == pytest.approx(theirs.pvalue, rel=1e-9), (bad, n)
            interval = binomtest(bad, n).proportion_ci(0.95, method="exact")
            assert clopper_pearson(bad, n) == pytest.approx((interval.low, interval.high), abs=1e-10), (
                bad,
                n,
            )


def test_a_breach_is_proven_from_the_first_count_whose_tail_is_small_enough() -> None:
    for n, limit, alpha in ((40, 0.05, 0.01), (100, 0.01, 0.01), (500, 0.02, 0.001)):
        first = next(bad for bad in range(n + 1) if breach(bad, n, limit, alpha))
        assert p_value_above(first, n, limit) <= alpha < p_value_above(first - 1, n, limit)
        assert exact_lower(first, n, alpha) >= limit > exact_lower(first - 1, n, alpha), (
            "the limit says the same"
        )


def test_nothing_proves_nothing() -> None:
    assert p_value_above(0, 0, 0.01) == 1.0
    assert not breach(0, 0, 0.01)
    assert not breach(0, 1000, 0.0)


def test_a_tail_of_exactly_alpha_is_a_proof() -> None:
    assert p_value_above(1, 1, 0.5) == 0.5
    assert breach(1, 1, 0.5, alpha=0.5)


def test_limits_at_the_edges_are_exact() -> None:
    assert breach(1, 1000, 0.0), "one bad event disproves a limit of none"
    assert not breach(1000, 1000, 1.0), "nothing is worse than all"
    assert clopper_pearson(0, 9)[0] == 0.0
    assert clopper_pearson(9, 9)[1] == 1.0


@pytest.mark.parametrize(
    ("canary", "stable", "share", "p_value"),
    [(12, 10, 0.1, 2.462e-07), (5, 12, 0.1, 0.02214), (2, 10, 0.05, 0.1184)],
)
def test_conditional_two_arm_p_value_equals_the_reference(
    canary: int, stable: int, share: float, p_value: float
) -> None:
    # The published figures have four digits.
    assert two_arm_p_value(canary, stable, share) == pytest.approx(p_value, rel=5e-4)


def test_a_ratio_that_is_tolerated_makes_the_proof_harder() -> None:
    assert two_arm_p_value(5, 12, 0.1, ratio=1.25) > two_arm_p_value(5, 12, 0.1)
    # Twice the rate at a third of the requests: every second bad event is the canary's.
    assert two_arm_p_value(9, 1, 1 / 3, ratio=2.0) == pytest.approx(0.0107421875)
    assert two_arm_p_value(0, 0, 0.1) == two_arm_p_value(0, 7, 0.1) == 1.0


@pytest.mark.parametrize(("bad", "n"), [(-1, 3), (1.0, 3), (True, 3), (1, 3.5), (1, -1), (4, 3)])
def test_counts_that_do_not_fit_are_refused(bad: int, n: int) -> None:
    with pytest.raises(NoConclusion, match=r"whole number|not a proportion"):
        breach(bad, n, 0.1)
    with pytest.raises(NoConclusion, match=r"whole number|not a proportion"):
        clopper_pearson(bad, n)


def test_a_proportion_of_nothing_has_no_limits() -> None:
    with pytest.raises(NoConclusion, match="at least one event"):
        clopper_pearson(0, 0)


def test_parameters_out_of_range_are_refused() -> None:
    for limit in (-0.1, 1.1, math.nan):
        with pytest.raises(NoConclusion, match="limit of a ratio"):
            p_value_above(1, 3, limit)
    for alpha in (0.0, 1.0, math.nan):
        with pytest.raises(NoConclusion, match="error probability"):
            breach(1, 3, 0.1, alpha)
    for share in (0.0, 1.0, math.nan):
        with pytest.raises(NoConclusion, match="share of the requests"):
            two_arm_p_value(1, 1, share)
    for ratio in (0.0, math.inf, math.nan):
        with pytest.raises(NoConclusion, match="ratio of two error rates"):
            two_arm_p_value(1, 1, 0.5, ratio)
