"""M10: sample sizes against the table of statistics.md, section 5."""

import math

import pytest
from scipy.stats import binom

from gatewright_analysis.statistics.confidence import Confidence
from gatewright_analysis.statistics.errors import NoConclusion
from gatewright_analysis.statistics.plan import (
    default_planned_samples,
    expected_minutes,
    formula_samples,
    joint_power,
    native_bucket_growth,
    plan_samples,
    power_at,
    power_per_check,
    samples_for_quantile,
)
from gatewright_analysis.statistics.wilson import Z95, critical_count


@pytest.mark.parametrize(
    ("threshold", "true", "at_80", "at_90"),
    [
        (0.80, 0.85, (471, 454, 481), (617, 607, 634)),
        (0.80, 0.90, (108, 100, 112), (137, 130, 142)),
        (0.85, 0.90, (363, 347, 378), (471, 461, 483)),
        (0.85, 0.95, (79, 74, 83), (96, 92, 100)),
        (0.90, 0.93, (716, 684, 740), (931, 908, 963)),
        (0.90, 0.95, (239, 217, 254), (301, 291, 315)),
        (0.90, 0.97, (110, 99, 113), (133, 127, 140)),
        (0.95, 0.97, (815, 779, 849), (1043, 1012, 1081)),
        (0.95, 0.98, (331, 311, 337), (409, 389, 440)),
        (0.95, 0.99, (164, 142, 173), (193, 173, 202)),
        (0.98, 0.99, (1283, 1232, 1356), (1616, 1539, 1719)),
        (0.99, 0.995, (2589, 2470, 2717), (3259, 3204, 3445)),
        (0.99, 0.998, (846, 726, 878), (995, 1025, 1025)),
        (0.99, 0.999, (607, 563, 563), (685, 726, 726)),
        (0.999, 0.9999, (6113, 5661, 5661), (6901, 7289, 7289)),
    ],
)
def test_plan_equals_the_table(
    threshold: float, true: float, at_80: tuple[int, int, int], at_90: tuple[int, int, int]
) -> None:
    for power, expected in ((0.8, at_80), (0.9, at_90)):
        plan = plan_samples(threshold, true, power)
        assert (plan.formula, plan.smallest, plan.stable) == expected, power


@pytest.mark.parametrize(
    ("threshold", "true", "at_80", "at_90"),
    [
        (0.80, 0.85, (368, 352, 380), (498, 488, 521)),
        (0.80, 0.90, (83, 80, 86), (109, 104, 116)),
        (0.85, 0.90, (283, 264, 294), (378, 369, 399)),
        (0.85, 0.95, (60, 56, 65), (76, 74, 83)),
        (0.90, 0.93, (558, 523, 579), (748, 723, 778)),
        (0.90, 0.95, (184, 164, 188), (239, 224, 260)),
        (0.90, 0.97, (83, 72, 86), (104, 100, 113)),
        (0.95, 0.97, (631, 595, 665), (833, 804, 872)),
        (0.95, 0.98, (253, 229, 255), (322, 306, 356)),
        (0.95, 0.99, (123, 118, 118), (148, 147, 147)),
        (0.98, 0.99, (987, 895, 1018), (1281, 1199, 1378)),
        (0.99, 0.995, (1990, 1794, 2161), (2582, 2522, 2760)),
        (0.99, 0.998, (633, 602, 602), (763, 748, 888)),
        (0.99, 0.999, (447, 446, 446), (515, 446, 602)),
        (0.999, 0.9999, (4505, 4480, 4480), (5185, 4480, 6041)),
    ],
)
def test_plan_at_ninety_percent_confidence_equals_the_table(
    threshold: float, true: float, at_80: tuple[int, int, int], at_90: tuple[int, int, int]
) -> None:
    for power, expected in ((0.8, at_80), (0.9, at_90)):
        plan = plan_samples(threshold, true, power, Confidence(0.9).z)
        assert (plan.formula, plan.smallest, plan.stable) == expected, power


@pytest.mark.parametrize(
    ("threshold", "planned"),
    [(0.7, 89), (0.8, 142), (0.85, 200), (0.9, 315), (0.95, 660), (0.98, 1719), (0.99, 3445), (0.995, 6897)],
)
def test_default_planned_samples_equal_the_page(threshold: float, planned: int) -> None:
    assert default_planned_samples(threshold) == planned


def test_a_candidate_at_the_threshold_needs_infinitely_many() -> None:
    assert formula_samples(0.9, 0.9) == math.inf
    assert formula_samples(0.9, 0.8) == math.inf


@pytest.mark.parametrize(("threshold", "true"), [(0.9, 0.9), (0.9, 1.0), (0.0, 0.5)])
def test_an_impossible_plan_is_refused(threshold: float, true: float) -> None:
    with pytest.raises(ValueError, match="no plan"):
        plan_samples(threshold, true)


def test_power_is_the_chance_of_the_critical_count() -> None:
    for n, threshold, true in ((100, 0.9, 0.95), (315, 0.9, 0.95), (381, 0.99, 0.999)):
        expected = binom.sf(critical_count(n, threshold) - 1, n, true)
        assert power_at(n, threshold, true) == pytest.approx(expected, rel=1e-9)
    assert power_at(380, 0.99, 1.0) == 0.0, "below n_min nothing passes"
    assert power_at(381, 0.99, 1.0) == 1.0
    assert power_at(0, 0.9, 1.0) == power_at(100, 0.9, 0.0) == 0.0


def test_a_stable_plan_keeps_its_power() -> None:
    z = Confidence(family=True).z
    plan = plan_samples(0.9, 0.95, 0.9, z)
    assert plan.stable > plan_samples(0.9, 0.95, 0.9, Z95).stable, "a stricter look needs more"
    assert power_at(plan.smallest - 1, 0.9, 0.95, z) < 0.9 <= power_at(plan.smallest, 0.9, 0.95, z)
    assert power_at(plan.stable - 1, 0.9, 0.95, z) < 0.9
    assert all(power_at(n, 0.9, 0.95, z) >= 0.9 for n in range(plan.stable, plan.stable + 300))


def test_a_default_plan_follows_the_confidence() -> None:
    z = Confidence(0.99).z
    assert default_planned_samples(0.9, z=z) == plan_samples(0.9, 0.95, 0.9, z).stable
    assert default_planned_samples(0.9, power=0.8) == 254


@pytest.mark.parametrize(("checks", "joint", "each"), [(5, 59, 97.9), (8, 43, 98.7), (12, 28, 99.1)])
def test_many_required_checks_wear_the_power_down(checks: int, joint: float, each: float) -> None:
    assert 100 * joint_power([0.9] * checks) == pytest.approx(joint, abs=0.5)
    assert 100 * power_per_check(0.9, checks) == pytest.approx(each, abs=0.05)
    assert joint_power([power_per_check(0.9, checks)] * checks) == pytest.approx(0.9)


def test_joint_power_of_no_check_is_certain() -> None:
    assert joint_power([]) == 1.0


def test_minutes_follow_from_rate_and_weight() -> None:
    assert expected_minutes(381, 1000, 5) == pytest.approx(7.62)
    assert expected_minutes(381, 4, 25) == pytest.approx(381)
    assert expected_minutes(40, 1000, 0) == expected_minutes(40, 0, 50) == math.inf
    assert expected_minutes(0, 0, 0) == 0.0
    assert expected_minutes(math.inf, 100, 100) == math.inf


@pytest.mark.parametrize(("quantile", "n"), [(0.99, 299), (0.95, 59), (0.999, 2995)])
def test_samples_for_a_quantile_equal_the_reference(quantile: float, n: int) -> None:
    assert samples_for_quantile(quantile) == n
    assert 1 - quantile**n >= 0.95 > 1 - quantile ** (n - 1)


@pytest.mark.parametrize(
    ("schema", "growth", "error"),
    [(3, 1.09051, 0.044), (5, 1.0219, 0.011), (8, 1.0027, 0.00136), (0, 2.0, 0.4143)],
)
def test_native_buckets_grow_as_published(schema: int, growth: float, error: float) -> None:
    assert native_bucket_growth(schema) == pytest.approx(growth, abs=1e-4)
    assert math.sqrt(native_bucket_growth(schema)) - 1 == pytest.approx(error, abs=5e-4)


def test_what_cannot_be_planned_is_refused() -> None:
    for n, threshold, true in (
        (-1, 0.9, 0.95),
        (1.5, 0.9, 0.95),
        (10, 1.0, 0.95),
        (10, 0.9, 1.1),
        (10, 0.9, math.nan),
    ):
        with pytest.raises(NoConclusion, match=r"whole number|between 0 and 1"):
            power_at(n, threshold, true)  # type: ignore[arg-type]
    for samples, rate, weight in (
        (-1.0, 1.0, 1.0),
        (1.0, -1.0, 1.0),
        (1.0, 1.0, 101.0),
        (math.nan, 1.0, 1.0),
    ):
        with pytest.raises(NoConclusion, match="can't be planned"):
            expected_minutes(samples, rate, weight)
    for quantile, confidence in ((0.0, 0.95), (1.0, 0.95), (0.99, 1.0), (math.nan, 0.95)):
        with pytest.raises(NoConclusion, match="between 0 and 1"):
            samples_for_quantile(quantile, confidence)
    for schema in (-5, 9, 3.0, True):
        with pytest.raises(NoConclusion, match="from -4 to 8"):
            native_bucket_growth(schema)  # type: ignore[arg-type]
    for joint, checks in ((0.0, 3), (1.0, 3), (0.9, 0), (0.9, -1)):
        with pytest.raises(NoConclusion, match=r"between 0 and 1|required check|whole number"):
            power_per_check(joint, checks)


def test_the_least_samples_with_some_failures_equal_the_table() -> None:
    """Smallest n that passes with f failures, one planned look (section 5)."""
    table = {
        0.80: (16, 25, 33, 40, 54, 87),
        0.90: (35, 53, 69, 84, 113, 179),
        0.95: (73, 110, 142, 173, 230, 363),
        0.99: (381, 563, 726, 878, 1166, 1836),
        0.999: (3838, 5661, 7289, 8817, 11702, 18405),
    }
    for threshold, expected in table.items():
        for failures, n in zip((0, 1, 2, 3, 5, 10), expected, strict=True):
            assert n - critical_count(n, threshold) >= failures > n - 1 - critical_count(n - 1, threshold)
