"""M11: a judge against people's labels (statistics.md, section 6, R4 57)."""

import math

import pytest

from gatewright_analysis.statistics.calibration import JudgeCalibration, rogan_gladen
from gatewright_analysis.statistics.errors import NoConclusion
from gatewright_analysis.statistics.wilson import wilson_interval


@pytest.mark.parametrize(
    ("apparent", "sensitivity", "specificity", "true"),
    [
        (0.87, 0.95, 0.8, 0.893333),
        (0.9, 0.9, 0.7, 1.0),
        (0.6, 0.95, 0.95, 0.611111),
        (0.86, 0.95, 0.5, 0.8),
        (0.905, 0.95, 0.5, 0.9),
    ],
)
def test_corrected_ratio_equals_the_reference(
    apparent: float, sensitivity: float, specificity: float, true: float
) -> None:
    assert rogan_gladen(apparent, sensitivity, specificity) == pytest.approx(true, abs=1e-6)


def test_corrected_ratio_stays_a_ratio() -> None:
    assert rogan_gladen(0.01, 0.9, 0.9) == 0.0
    assert rogan_gladen(0.99, 0.9, 0.9) == 1.0


def test_threshold_rests_on_the_limits_of_the_labels() -> None:
    judge = JudgeCalibration(true_pass=95, false_fail=5, true_fail=80, false_pass=20)
    assert (judge.sensitivity, judge.specificity) == (0.95, 0.8)
    sensitivity, specificity = wilson_interval(95, 100)[1], wilson_interval(80, 100)[0]
    assert judge.threshold(0.9) == pytest.approx(0.9 * sensitivity + 0.1 * (1 - specificity))
    assert judge.threshold(0.9) == pytest.approx(0.909494, abs=1e-6)


def test_threshold_is_never_below_what_a_truth_at_the_threshold_shows() -> None:
    judge = JudgeCalibration(95, 5, 80, 20)
    for percent in range(1, 100):
        t = percent / 100
        assert t * judge.sensitivity + (1 - t) * (1 - judge.specificity) <= judge.threshold(t) < 1.0


def test_more_labels_cost_less() -> None:
    few, many = JudgeCalibration(19, 1, 16, 4), JudgeCalibration(950, 50, 800, 200)
    assert many.threshold(0.9) < few.threshold(0.9)
    assert few.threshold(0.9, z=1.0) < few.threshold(0.9, z=3.0)


@pytest.mark.parametrize("counts", [(50, 50, 50, 50), (10, 90, 20, 80), (0, 5, 5, 0)])
def test_a_judge_no_better_than_a_coin_is_refused(counts: tuple[int, int, int, int]) -> None:
    with pytest.raises(NoConclusion, match="no better than a coin: calibrate it on more labelled items"):
        JudgeCalibration(*counts)


def test_a_judge_that_hardly_any_labels_vouch_for_has_no_threshold() -> None:
    judge = JudgeCalibration(true_pass=1, false_fail=99, true_fail=1, false_pass=0)
    with pytest.raises(NoConclusion, match="no better than a coin"):
        judge.threshold(0.9)


@pytest.mark.parametrize("counts", [(0, 0, 5, 0), (5, 0, 0, 0), (0, 0, 0, 0)])
def test_labels_of_one_kind_calibrate_nobody(counts: tuple[int, int, int, int]) -> None:
    with pytest.raises(NoConclusion, match="at least one good and one bad item"):
        JudgeCalibration(*counts)


def test_impossible_figures_are_refused() -> None:
    with pytest.raises(NoConclusion, match="whole number"):
        JudgeCalibration(-1, 5, 5, 1)
    for figures in ((math.nan, 0.9, 0.9), (0.5, 1.1, 0.9), (0.5, 0.9, -0.1)):
        with pytest.raises(NoConclusion, match="between 0 and 1"):
            rogan_gladen(*figures)
    with pytest.raises(NoConclusion, match="no better than a coin"):
        rogan_gladen(0.5, 0.5, 0.5)
    with pytest.raises(NoConclusion, match="threshold"):
        JudgeCalibration(95, 5, 80, 20).threshold(1.0)
