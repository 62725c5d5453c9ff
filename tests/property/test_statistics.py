"""What the statistics must do for all numbers, not only for examples (statistics.md R5)."""

import math
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from gatewright_analysis.statistics.clustered import clustered_interval
from gatewright_analysis.statistics.confidence import Confidence
from gatewright_analysis.statistics.evalue import log_e_fail, log_e_pass
from gatewright_analysis.statistics.exact import clopper_pearson
from gatewright_analysis.statistics.noninferiority import Arm, newcombe_interval, score_interval, score_z
from gatewright_analysis.statistics.scores import ScoreEvidence
from gatewright_analysis.statistics.wilson import (
    critical_count,
    least_samples,
    wilson_interval,
    worst_case_interval,
)

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)
thresholds = st.floats(0.001, 0.999)
counts = st.integers(0, 10**7)
scores = st.lists(st.floats(0.0, 1.0), max_size=40)
arms = st.integers(1, 300).flatmap(lambda n: st.builds(Arm, st.integers(0, n), st.just(n)))


def test_wilson_passes_exactly_from_the_critical_count_on() -> None:
    for threshold in THRESHOLDS:
        for n in range(1, 401):
            critical = critical_count(n, threshold)
            for good in {0, critical - 2, critical - 1, critical, critical + 1, n}:
                if 0 <= good <= n:
                    low = wilson_interval(good, n)[0]
                    assert (low >= threshold) == (good >= critical), (threshold, n, good)


@given(st.integers(1, 10**6), st.floats(0.0, 1.0), st.floats(0.5, 4.0))
def test_wilson_grows_with_every_good_sample_and_holds_the_share(n: int, share: float, z: float) -> None:
    good = min(n - 1, int(share * n))
    low, high = wilson_interval(good, n, z)
    assert 0.0 <= low <= good / n <= high <= 1.0
    more = wilson_interval(good + 1, n, z)
    assert more[0] > low
    assert more[1] > high or high == 1.0
    # One more sample that is bad never helps.
    assert wilson_interval(good, n + 1, z)[0] <= low


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 50))
def test_missing_verdicts_never_help(good: int, bad: int, missing: int) -> None:
    low, high = worst_case_interval(good, bad, missing)
    for were_good in (0, missing // 2, missing):
        known = wilson_interval(good + were_good, good + bad + missing)
        assert low <= known[0]
        assert high >= known[1]


def test_expectation_of_the_evidence_is_at_most_one() -> None:
    """Exact, by summation: every n up to 60, at the threshold and below."""
    for threshold in (0.05, 0.5, 0.8, 0.9, 0.99):
        for n in range(1, 61):
            good = np.arange(n + 1)
            values = np.exp([log_e_pass(int(g), int(n - g), threshold) for g in good])
            for share in (1.0, 0.97, 0.7, 0.2):
                expectation = float(binom.pmf(good, n, share * threshold) @ values)
                assert expectation <= 1 + 1e-9, (threshold, n, share)
            assert float(binom.pmf(good, n, threshold) @ values) == pytest.approx(1.0, abs=1e-9)


@given(counts, counts, thresholds)
def test_evidence_of_counts_is_mirrored_and_never_nan(good: int, bad: int, threshold: float) -> None:
    above, below = log_e_pass(good, bad, threshold), log_e_fail(good, bad, threshold)
    assert not math.isnan(above)
    assert not math.isnan(below)
    assert below == log_e_pass(bad, good, 1.0 - threshold)
    assert above < math.inf
    assert below < math.inf
    assert min(above, below) <= math.log(2), "both sides at once would contradict each other"


@given(st.integers(0, 3000), st.integers(0, 3000), thresholds)
def test_every_good_sample_speaks_for_a_pass_and_every_bad_one_against(
    good: int, bad: int, threshold: float
) -> None:
    here = log_e_pass(good, bad, threshold)
    slack = 1e-9 * max(1.0, abs(here)) if here > -math.inf else 0.0
    assert log_e_pass(good + 1, bad, threshold) >= here - slack
    assert log_e_pass(good, bad + 1, threshold) <= here + slack


def test_interim_evidence_never_passes_what_wilson_would_not() -> None:
    """All n from 40 to 1,199 for thresholds from .5 to .99: the promise of R3."""
    checked = 0
    for threshold in THRESHOLDS:
        for n in range(40, 1200):
            # Evidence grows with the good count, so one count is enough: the largest that Wilson refuses.
            short = min(n, critical_count(n, threshold) - 1)
            assert wilson_interval(short, n)[0] < threshold
            assert log_e_pass(short, n - short, threshold) < math.log(50), (threshold, n)
            checked += critical_count(n, threshold) <= n
    assert checked == 9917, "pairs at which Wilson can pass"


@pytest.mark.parametrize(
    "confidence",
    [*(Confidence(c) for c in (0.9, 0.975, 0.99, 0.999)), *(Confidence(c, True) for c in (0.9, 0.95, 0.99))],
)
def test_nor_does_it_at_another_confidence_from_the_least_samples_on(confidence: Confidence) -> None:
    for threshold in THRESHOLDS:
        for n in range(max(40, least_samples(threshold, confidence.z)), 1200):
            short = critical_count(n, threshold, confidence.z) - 1
            assert log_e_pass(short, n - short, threshold) < confidence.log_e(threshold), (threshold, n)


@given(scores, scores, thresholds)
def test_evidence_of_scores_does_not_depend_on_batches_or_order(
    first: list[float], second: list[float], threshold: float
) -> None:
    whole, merged = ScoreEvidence(threshold), ScoreEvidence(threshold)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for score in first + second:
            whole.add(score)
        other = ScoreEvidence(threshold)
        other.add_many(reversed(second))
        merged.add_many(first)
        other.merge(merged)
    assert other.n == whole.n == len(first) + len(second)
    assert other.log_e_pass() == pytest.approx(whole.log_e_pass(), rel=1e-9, abs=1e-9)
    assert other.log_e_fail() == pytest.approx(whole.log_e_fail(), rel=1e-9, abs=1e-9)


@given(scores, st.floats(0.0, 1.0), st.floats(0.0, 1.0), thresholds)
def test_a_better_score_never_speaks_against_a_pass(
    before: list[float], one: float, other: float, threshold: float
) -> None:
    worse, better = sorted((one, other))
    with_worse, with_better = ScoreEvidence(threshold), ScoreEvidence(threshold)
    with_worse.add_many([*before, worse])
    with_better.add_many([*before, better])
    slack = 1e-9 * max(1.0, abs(with_worse.log_e_pass()))
    assert with_better.log_e_pass() >= with_worse.log_e_pass() - slack
    assert with_better.log_e_fail() <= with_worse.log_e_fail() + slack


@given(
    st.lists(
        st.integers(1, 12).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
        min_size=2,
        max_size=60,
    )
)
def test_clusters_are_never_worth_more_than_their_samples(clusters: list[tuple[int, int]]) -> None:
    found = clustered_interval(clusters)
    good, n = sum(g for g, _ in clusters), sum(size for _, size in clusters)
    assert found.share == good / n
    assert found.deff >= 1.0
    assert 0.0 < found.n_eff <= n
    assert 0.0 <= found.low <= found.share <= found.high <= 1.0
    plain = wilson_interval(good, n)
    assert found.low <= plain[0] + 1e-12
    assert found.high >= plain[1] - 1e-12


@pytest.mark.parametrize(
    ("count", "size", "threshold", "icc", "naive", "published"),
    [
        (100, 3, 0.9, 0.3, 0.046, 0.021),
        (60, 5, 0.8, 0.3, 0.087, 0.023),
        (60, 5, 0.8, 0.5, 0.132, 0.028),
        (30, 10, 0.9, 0.3, 0.144, 0.036),
        (30, 10, 0.9, 0.5, 0.197, 0.043),
    ],
)
def test_clustered_samples_at_the_threshold_pass_as_rarely_as_published(
    count: int, size: int, threshold: float, icc: float, naive: float, published: float
) -> None:
    """Beta-binomial clusters, 3,000 runs; section 6. Three standard errors are about 1 %."""
    rng = np.random.default_rng(11)
    spread = (1 - icc) / icc
    good = rng.binomial(size, rng.beta(threshold * spread, (1 - threshold) * spread, (3000, count)))
    passed = [clustered_interval([(g, size) for g in row]).low >= threshold for row in good.tolist()]
    assert float(np.mean(passed)) <= published + 0.01
    plain = good.sum(axis=1) >= critical_count(count * size, threshold)
    assert float(plain.mean()) == pytest.approx(naive, abs=0.025), "as if samples were independent"


@given(arms, arms)
def test_intervals_of_a_difference_hold_it_and_mirror(canary: Arm, stable: Arm) -> None:
    observed = canary.share - stable.share
    for interval in (newcombe_interval, score_interval):
        low, high = interval(canary, stable)
        assert -1.0 <= low <= observed + 1e-9
        assert observed - 1e-9 <= high <= 1.0
        assert interval(stable, canary) == pytest.approx((-high, -low), abs=1e-7)


@given(arms, arms, st.floats(-0.99, 0.99), st.floats(-0.99, 0.99))
def test_a_larger_margin_is_harder_to_exceed(canary: Arm, stable: Arm, one: float, other: float) -> None:
    small, large = sorted((one, other))
    assert score_z(canary, stable, small) >= score_z(canary, stable, large) - 1e-6


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_exact_limits_hold_the_share(sample: tuple[int, int]) -> None:
    successes, n = sample
    low, high = clopper_pearson(successes, n)
    assert 0.0 <= low <= successes / n <= high <= 1.0


def test_judging_starts_without_the_slow_parts_of_scipy() -> None:
    code = (
        "import importlib, pkgutil, sys; import gatewright_analysis.statistics as s; "
        "[importlib.import_module(f'{s.__name__}.{m.name}') for m in pkgutil.iter_modules(s.__path__)]; "
        "print(sorted({'scipy.stats', 'scipy.optimize', 'scipy.integrate'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
