"""M10: sample sizes against the table of statistics.md, section 5."""

import math

import pytest

from gatewright_analysis.statistics.plan import default_planned_samples, formula_samples, plan_samples


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
