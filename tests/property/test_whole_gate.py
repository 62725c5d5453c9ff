"""The claim of statistics.md R3, exact: a candidate at its threshold is promoted with probability < 5 %, however often
one looks, over all attempts. All schedules of R5, all thresholds; about 2 s of CPU together.
"""

import math

import numpy as np
import pytest

from gatewright_analysis.statistics.confidence import Confidence
from gatewright_analysis.statistics.wilson import Z95, critical_count
from gatewright_analysis.task import Terms
from tests.judging import sampled, task
from tests.property.gate_walk import (
    LOOKS,
    PER_LOOK,
    THRESHOLDS,
    Rule,
    false_promote,
    least_by_e,
    pass_rates,
    schedules,
    worst,
)

Z90 = 1.6448536269514722
THIRTY_LOOKS = [20 * look for look in range(1, 31)]


def test_the_grid_is_that_of_the_page() -> None:
    assert len(schedules()) == len(PER_LOOK) * len(LOOKS) == 48


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_false_promote_stays_below_five_percent_however_often_one_looks(threshold: float) -> None:
    rule = Rule.of(threshold, Confidence())
    for per_look, looks in schedules():
        once = false_promote(rule, per_look, looks, attempts=1)
        thrice = false_promote(rule, per_look, looks, attempts=3)
        assert once <= thrice <= 0.05, (per_look, looks)
        # Where no attempt reaches the least samples, nobody passes; elsewhere the walk must have found something.
        assert (thrice > 0.0) == (3 * per_look * looks >= rule.least), (per_look, looks)


WORST = {
    0.80: (0.02895, 0.02967),
    0.85: (0.03118, 0.03150),
    0.90: (0.03107, 0.03146),
    0.95: (0.03331, 0.03368),
    0.98: (0.02841, 0.02938),
    0.99: (0.02985, 0.03052),
}
"""The figures of R5: one attempt, three pooled attempts."""


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_the_worst_schedules_are_as_bad_as_published(threshold: float) -> None:
    rule = Rule.of(threshold, Confidence())
    found = tuple(worst(rule, schedules(), attempts).rate for attempts in (1, 3))
    assert found == pytest.approx(WORST[threshold], abs=1e-5)


@pytest.mark.parametrize("threshold", [0.8, 0.95])
def test_a_candidate_below_its_threshold_is_promoted_less_often(threshold: float) -> None:
    looks = Rule.of(threshold, Confidence()).looks(20, 20, 3)
    rates = [pass_rates(threshold, looks, true_ratio=threshold - gap)[-1] for gap in (0.0, 0.01, 0.02, 0.05)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < rates[0] / 10


def test_a_good_candidate_passes_the_same_walk() -> None:
    looks = Rule.of(0.9, Confidence()).looks(per_look=21, looks=15, attempts=1)
    assert pass_rates(0.9, looks, true_ratio=0.95)[-1] >= 0.9, "315 samples are planned for 90 % power"


@pytest.mark.parametrize("stated", [0.9, 0.975, 0.99, 0.999])
def test_other_confidences_keep_their_promise_too(stated: float) -> None:
    for threshold in (0.5, 0.7, *THRESHOLDS):
        found = worst(Rule.of(threshold, Confidence(stated)), schedules(2000))
        assert 0.0 < found.rate < 0.75 * (1 - stated), (threshold, found)


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_three_artifacts_of_a_family_stay_below_five_percent_together(threshold: float) -> None:
    rule = Rule.of(threshold, Confidence(family=True))
    for attempts, published in ((1, 0.0342), (3, 0.0347)):
        together = 1 - (1 - worst(rule, schedules(), attempts).rate) ** 3
        assert 0.02 < together <= published, attempts


def test_three_artifacts_without_a_shared_budget_would_not() -> None:
    rate = worst(Rule.of(0.95, Confidence()), schedules(), attempts=1).rate
    assert 1 - (1 - rate) ** 3 > 0.09


def test_the_walk_judges_by_the_terms_of_the_product() -> None:
    for threshold in (0.5, *THRESHOLDS):
        terms: Terms = task(sampled(limit={"minGoodRatio": threshold})).terms
        rule = Rule.of(threshold, Confidence())
        assert (terms.min_samples, terms.log_e_pass) == (rule.least, math.log(rule.odds))


def test_figures_of_simpler_rules_equal_the_published_ones() -> None:
    """R4 54: t = .9, 20 samples a look, 30 looks."""
    every = pass_rates(0.9, [(n, critical_count(n, 0.9, Z90)) for n in THIRTY_LOOKS])[-1]
    assert every == pytest.approx(0.2036, abs=5e-5)
    last = pass_rates(0.9, [(600, critical_count(600, 0.9))])[-1]
    assert last == pytest.approx(0.0210, abs=5e-5)
    by_e = pass_rates(0.9, [(n, least_by_e(n, 0.9, 20.0)) for n in THIRTY_LOOKS])[-1]
    assert by_e == pytest.approx(0.0251, abs=5e-5)
    for odds, published in ((40.0, 0.0269), (50.0, 0.0265)):
        assert false_promote(Rule(0.9, odds, Z95), 20, 30, attempts=1) == pytest.approx(published, abs=5e-5)


@pytest.mark.parametrize(
    ("threshold", "per_attempt", "published"),
    [(0.9, 200, 0.0034), (0.9, 100, 0.0039), (0.95, 200, 0.0048), (0.99, 500, 0.010)],
)
def test_three_pooled_attempts_by_evidence_alone_equal_section_eight(
    threshold: float, per_attempt: int, published: float
) -> None:
    looks = [(n, least_by_e(n, threshold, 20.0)) for n in (per_attempt, 2 * per_attempt, 3 * per_attempt)]
    assert pass_rates(threshold, looks)[-1] == pytest.approx(published, rel=0.02)


def test_the_walk_finds_what_a_simulation_finds() -> None:
    looks = Rule.of(0.9, Confidence()).looks(per_look=20, looks=10, attempts=3)
    needed = np.full(30, 10**6)
    for n, count in looks:
        needed[n // 20 - 1] = count
    counts = np.random.default_rng(7).binomial(20, 0.9, size=(100_000, 30)).cumsum(axis=1)
    simulated = float((counts >= needed).any(axis=1).mean())
    assert pass_rates(0.9, looks)[-1] == pytest.approx(simulated, abs=0.0016)
