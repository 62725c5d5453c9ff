"""The promises about errors, recomputed: exact where counts can be walked, seeded simulation elsewhere.

Figures of statistics.md: R3 (false PROMOTE < 5 % however often one looks), R2 (false ROLLBACK per gate at m = 10).
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import binom

from gatewright_analysis.evidence.model import Counts, Window
from gatewright_analysis.monitor import CheckMonitor
from gatewright_analysis.reasons import Reason
from gatewright_analysis.statistics.evalue import log_e_pass
from gatewright_analysis.statistics.wilson import critical_count
from gatewright_analysis.task import CheckTask
from gatewright_analysis.verdict import CheckStatus
from tests.judging import BOUNDS, at, check, sampled, task

ODDS = 50.0


@lru_cache(maxsize=100_000)
def _least_by_evidence(n: int, threshold: float) -> int:
    low, high = math.floor(n * threshold), n + 1
    while low < high:
        middle = (low + high) // 2
        if log_e_pass(middle, n - middle, threshold) >= math.log(ODDS):
            high = middle
        else:
            low = middle + 1
    return high


def _false_promote(threshold: float, per_look: int, looks: int, attempts: int) -> float:
    """P(pass) of a candidate exactly at its threshold: E⁺ at every look, one Wilson look at the planned end
    of the first attempt, E⁺ alone over the pooled samples of the later ones."""
    least = task(sampled(limit={"minGoodRatio": threshold})).terms.min_samples
    step = binom.pmf(np.arange(per_look + 1), per_look, threshold)
    alive = np.ones(1)
    passed = 0.0
    for look in range(1, looks * attempts + 1):
        n = look * per_look
        alive = np.convolve(alive, step)
        if n < least:
            continue
        needed = critical_count(n, threshold) if look == looks else _least_by_evidence(n, threshold)
        passed += float(alive[needed:].sum())
        alive[needed:] = 0.0
    return passed


@pytest.mark.parametrize("threshold", [0.8, 0.85, 0.9, 0.95, 0.98, 0.99])
def test_false_promote_stays_below_five_percent_however_often_one_looks(threshold: float) -> None:
    worst = 0.0
    for per_look, looks in ((1, 60), (5, 40), (10, 60), (20, 5), (20, 60), (50, 20), (100, 1), (100, 10)):
        for attempts in (1, 3):
            rate = _false_promote(threshold, per_look, looks, attempts)
            assert rate <= 0.05, (per_look, looks, attempts)
            worst = max(worst, rate)
    assert worst > 0.005, "the walk found nothing: it tests nothing"


def test_false_promote_equals_the_published_one() -> None:
    assert _false_promote(0.9, 20, 30, 1) == pytest.approx(0.0265, abs=2e-4)


def gates(
    asked: CheckTask, draw: Callable[[np.random.Generator], list[Window]], count: int, seed: int
) -> list[CheckMonitor]:
    """`count` simulated gates, each judged window by window."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(count):
        monitor = CheckMonitor(asked, BOUNDS)
        for window in draw(rng):
            monitor.add(window)
        out.append(monitor)
    return out


def share_of(monitors: list[CheckMonitor], *reasons: Reason) -> float:
    return sum(monitor.find(at(1300)).reason in reasons for monitor in monitors) / len(monitors)


ROLLBACKS = (Reason.BREACH_ABSOLUTE, Reason.BREACH_TWO_ARM, Reason.TOTAL_FAILURE)


def arms(canary: np.ndarray, stable: np.ndarray, n: int, beside: int) -> list[Window]:
    pairs = enumerate(zip(canary.tolist(), stable.tolist(), strict=True))
    return [Window(i, Counts(n - bad, bad), Counts(beside - other, other)) for i, (bad, other) in pairs]


def test_a_steady_canary_at_its_limit_is_hardly_ever_sent_back() -> None:
    def steady(rng: np.random.Generator) -> list[Window]:
        return arms(rng.binomial(100, 0.05, 20), rng.binomial(300, 0.05, 20), 100, 300)

    found = gates(task(check(versusStable={})), steady, 500, seed=1)
    assert share_of(found, *ROLLBACKS) <= 0.004, "published: below 0.1 %"


def test_bursts_inside_a_window_hardly_ever_send_a_canary_back() -> None:
    def bursty(rng: np.random.Generator) -> list[Window]:
        # Beta-binomial with an intra-class correlation of 0.2 and a mean of 2 %, limit 5 %.
        a, b = 0.02 * 4, 0.98 * 4
        canary = rng.binomial(100, rng.beta(a, b, 20))
        return arms(canary, rng.binomial(300, rng.beta(a, b, 20)), 100, 300)

    found = gates(task(check(versusStable={})), bursty, 500, seed=2)
    assert share_of(found, *ROLLBACKS) <= 0.015, "published: at most 0.4 %"


@pytest.mark.parametrize("seconds", [120, 210, 300])
def test_an_outage_of_both_arms_never_sends_an_innocent_canary_back(seconds: int) -> None:
    def outage(rng: np.random.Generator) -> list[Window]:
        begin = rng.uniform(0, 600)
        starts = 30.0 * np.arange(20)
        inside = np.clip(np.minimum(starts + 30, begin + seconds) - np.maximum(starts, begin), 0, 30) / 30
        ratio = 0.01 + 0.3 * inside
        return arms(rng.binomial(100, ratio), rng.binomial(300, ratio), 100, 300)

    found = gates(task(check(versusStable={})), outage, 200, seed=seconds)
    assert share_of(found, *ROLLBACKS) == 0.0


def test_a_single_burst_of_the_canary_alone_is_tolerated() -> None:
    def burst(rng: np.random.Generator) -> list[Window]:
        ratio = np.full(20, 0.01)
        ratio[rng.integers(0, 20)] = 0.5
        return arms(rng.binomial(100, ratio), rng.binomial(300, 0.01, 20), 100, 300)

    found = gates(task(check(versusStable={})), burst, 300, seed=3)
    assert share_of(found, *ROLLBACKS) <= 0.01, "published: at most 0.47 %"


def test_a_candidate_at_the_threshold_rarely_passes_the_whole_judge() -> None:
    def at_limit(rng: np.random.Generator) -> list[Window]:
        return arms(rng.binomial(40, 0.05, 40), rng.binomial(120, 0.0, 40), 40, 120)

    monitors = gates(task(), at_limit, 400, seed=4)
    passed = sum(monitor.find(at(1300)).status is CheckStatus.PASS for monitor in monitors) / 400
    assert passed <= 0.05, "published: 2.9 %"
    assert passed > 0.0, "the look was never taken"


@pytest.mark.parametrize(
    ("stable", "canary", "per_minute", "share", "published"),
    [
        (0.001, 0.01, 1000, 0.25, 510),
        (0.01, 0.1, 1000, 0.05, 240),
        (0.01, 0.1, 1000, 0.25, 120),
        (0.01, 1.0, 100, 0.25, 60),
        (0.01, 1.0, 10, 0.5, 90),
    ],
)
def test_a_bad_canary_is_found_as_fast_as_published(
    stable: float, canary: float, per_minute: int, share: float, published: int
) -> None:
    """Median seconds from the start of a step to the proof, limit 5 %, m = 10, windows of 30 s."""
    rng = np.random.default_rng(5)
    asked = task(check(versusStable={}))
    times = []
    for _ in range(80):
        monitor = CheckMonitor(asked, BOUNDS)
        found = math.inf
        for i in range(30):
            n, beside = rng.poisson(per_minute / 2 * share), rng.poisson(per_minute / 2 * (1 - share))
            bad, other = rng.binomial(n, canary), rng.binomial(beside, stable)
            monitor.add(Window(i, Counts(int(n - bad), int(bad)), Counts(int(beside - other), int(other))))
            if monitor.find(at(BOUNDS.end_of(i))).status is CheckStatus.FAIL:
                found = BOUNDS.end_of(i)
                break
        times.append(found)
    assert float(np.median(times)) == pytest.approx(published, abs=max(60, 0.2 * published))
