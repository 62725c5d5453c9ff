"""M3: the e-value of scores against reference values, its bets, and what it refuses (statistics.md 4.2, R4 43)."""

import math
import warnings

import numpy as np
import pytest
from scipy.stats import beta

from gatewright_analysis.statistics.errors import NoConclusion
from gatewright_analysis.statistics.evalue import log_e_fail, log_e_pass
from gatewright_analysis.statistics.scores import BETS, ScoreEvidence, _log_mean_exp

SCORES = [1, 0.5, 0.75, 1, 1, 0.25, 1, 1, 0.5, 1]


def evidence(threshold: float, *scores: float) -> ScoreEvidence:
    found = ScoreEvidence(threshold)
    found.add_many(scores)
    return found


def test_running_evidence_equals_the_reference() -> None:
    expected = [
        0.492643,
        0.492643,
        0.790706,
        1.336,
        1.906093,
        1.392495,
        1.958633,
        2.544481,
        2.544481,
        3.145895,
    ]
    found, running = ScoreEvidence(0.5), []
    for score in SCORES:
        found.add(score)
        running.append(found.log_e_pass())
    assert running == pytest.approx(expected, abs=1e-6)
    assert found.n == 10


def test_thirty_passes_equal_the_counts_to_five_decimals() -> None:
    assert evidence(0.9, *[1.0] * 30).log_e_pass() == pytest.approx(2.457611, abs=1e-6)
    assert log_e_pass(30, 0, 0.9) == pytest.approx(2.457605, abs=1e-6)


@pytest.mark.parametrize(
    ("good", "bad", "threshold"), [(30, 0, 0.9), (95, 5, 0.9), (20, 30, 0.5), (48, 2, 0.8), (3, 60, 0.9)]
)
def test_scores_of_zero_and_one_are_counts(good: int, bad: int, threshold: float) -> None:
    found = ScoreEvidence(threshold)
    found.add(1, weight=good)
    found.add(0.0, weight=bad)
    for ours, counted in (
        (found.log_e_pass(), log_e_pass(good, bad, threshold)),
        (found.log_e_fail(), log_e_fail(good, bad, threshold)),
    ):
        assert ours <= counted + 5e-4, "the bets never say much more than the integral"
        assert counted < 0 or ours == pytest.approx(counted, abs=1e-4)
    assert found.n == good + bad


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.9, 0.999])
def test_the_bets_are_the_mid_quantiles_of_the_truncated_prior(threshold: float) -> None:
    below = beta.cdf(threshold, 0.5, 0.5)
    q = beta.ppf(below + (np.arange(BETS) + 0.5) / BETS * (1 - below), 0.5, 0.5)
    for score in (0.0, 0.37, 1.0):
        growth = np.mean(1 + (q - threshold) / (threshold * (1 - threshold)) * (score - threshold))
        assert evidence(threshold, score).log_e_pass() == pytest.approx(math.log(growth), abs=1e-9)


def test_the_sides_are_mirrors() -> None:
    here, there = evidence(0.9, *SCORES), evidence(0.1, *(1 - score for score in SCORES))
    assert here.log_e_pass() == pytest.approx(there.log_e_fail(), abs=1e-12)
    assert here.log_e_fail() == pytest.approx(there.log_e_pass(), abs=1e-12)


def test_order_batches_and_merging_change_nothing_but_rounding() -> None:
    whole = evidence(0.6, *SCORES)
    one, other = evidence(0.6, *SCORES[7:][::-1]), evidence(0.6, *SCORES[:7])
    one.merge(other)
    assert one.n == whole.n
    assert one.log_e_pass() == pytest.approx(whole.log_e_pass(), abs=1e-12)
    assert one.log_e_fail() == pytest.approx(whole.log_e_fail(), abs=1e-12)
    assert other.log_e_pass() == evidence(0.6, *SCORES[:7]).log_e_pass(), "merging changes only one of them"


def test_more_scores_than_one_chunk_are_all_counted() -> None:
    many, counted = evidence(0.5, *[0.75] * 10_000), ScoreEvidence(0.5)
    counted.add(0.75, weight=10_000)
    assert many.n == counted.n == 10_000
    assert many.log_e_pass() == pytest.approx(counted.log_e_pass(), rel=1e-9)


def test_without_scores_nothing_is_said() -> None:
    empty = ScoreEvidence(0.9)
    empty.add(0.0, weight=0)
    empty.add_many([])
    assert (empty.log_e_pass(), empty.log_e_fail(), empty.n) == (0.0, 0.0, 0)


@pytest.mark.parametrize("threshold", [5e-324, 1e-310, 1e-16, 0.5, 1 - 2**-53])
def test_extreme_evidence_is_never_nan(threshold: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scores in ([0.0], [1.0], [0.0, 1.0], [1.0, 0.0], [5e-324, 0.5]):
            found = ScoreEvidence(threshold)
            for score in scores:
                found.add(score, weight=10**7)
                assert not math.isnan(found.log_e_pass()), (threshold, scores)
                assert not math.isnan(found.log_e_fail()), (threshold, scores)


def test_bets_that_lost_all_stay_lost_without_a_warning() -> None:
    # So close to 0 that most bets on "below" have nothing left after a single score of 1.
    lost = ScoreEvidence(5e-324)
    lost.add(1.0)
    after = lost.log_e_fail()
    assert after == pytest.approx(math.log(19 / 64), abs=1e-9)
    lost.add(0.0, weight=1000)
    assert lost.log_e_fail() == pytest.approx(after)
    assert _log_mean_exp(np.full(BETS, -math.inf)) == -math.inf


@pytest.mark.parametrize("score", [math.nan, math.inf, -0.001, 1.001, "good", None, [1.0]])
def test_what_is_no_score_is_refused_and_nothing_of_its_batch_counts(score: object) -> None:
    found = evidence(0.5, 1.0)
    before = found.log_e_pass()
    with pytest.raises(NoConclusion, match="between 0 and 1"):
        found.add(score)  # type: ignore[arg-type]  # what the check at run time is for
    with pytest.raises(NoConclusion, match="between 0 and 1"):
        found.add_many([1.0, score])  # type: ignore[list-item]
    assert (found.n, found.log_e_pass()) == (1, before)


@pytest.mark.parametrize("weight", [-1, 0.5, True, math.nan, 2**53 + 1, 10**400])
def test_a_weight_counts_scores(weight: float) -> None:
    with pytest.raises(NoConclusion, match="counts scores"):
        ScoreEvidence(0.5).add(1.0, weight=weight)  # type: ignore[arg-type]


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.5, 1.5, math.nan])
def test_a_threshold_that_proves_nothing_is_refused(threshold: float) -> None:
    with pytest.raises(NoConclusion, match="between 0 and 1"):
        ScoreEvidence(threshold)


def test_evidence_against_different_thresholds_is_not_mixed() -> None:
    with pytest.raises(NoConclusion, match=r"0\.9.*0\.8"):
        ScoreEvidence(0.8).merge(ScoreEvidence(0.9))


def test_expectation_is_at_most_one_for_any_scores_with_that_mean() -> None:
    # Two-point scores with mean t: the laws on which a bet could gain most.
    for threshold, low, high in ((0.5, 0.0, 1.0), (0.8, 0.5, 0.9), (0.9, 0.0, 1.0), (0.3, 0.29, 1.0)):
        chance = (threshold - low) / (high - low)
        for n in (1, 5, 20):
            expectation = 0.0
            for highs in range(n + 1):
                found = ScoreEvidence(threshold)
                found.add(high, weight=highs)
                found.add(low, weight=n - highs)
                weight = math.comb(n, highs) * chance**highs * (1 - chance) ** (n - highs)
                expectation += weight * math.exp(found.log_e_pass())
            assert expectation == pytest.approx(1.0, abs=1e-9), (threshold, n)
