"""Figures of statistics.md that take a simulation; seeded, each with the setting it was found at."""

import math

import numpy as np
from scipy.signal import lfilter
from scipy.stats import t as student

from gatewright_analysis.statistics.plan import default_planned_samples
from gatewright_analysis.statistics.wilson import Z95
from tests.bench.verdicts.arrays import absolute, passes, phi, two_arm
from tests.bench.verdicts.comparison import Rate
from tests.bench.verdicts.rules import Flags
from tests.bench.verdicts.traffic import (
    SEED,
    WINDOW,
    Floats,
    Ints,
)

CANARY, STABLE = 100, 300
"""Requests of a window."""
GATE = 20
"""Windows of a gate of ten minutes."""


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng([SEED, *name.encode()])


def _bursts(rng: np.random.Generator, runs: int, mean: float, icc: float) -> Floats:
    scale = 1 / icc - 1
    return rng.beta(mean * scale, (1 - mean) * scale, (runs, GATE))


def _counts(rng: np.random.Generator, n: int, ratio: Floats | float, runs: int) -> tuple[Ints, Ints]:
    """(bad, n) of one arm."""
    size = np.full((runs, GATE), n)
    return rng.binomial(size, ratio), size


def ever_set(flags: Flags) -> Rate:
    """Runs in which a flag was ever set."""
    each = flags.any(axis=1) if flags.ndim == 2 else flags
    return Rate(int(each.sum()), len(each))


Arms = tuple[Ints, Ints, Ints, Ints]


def convicted(arms: Arms, limit: float = 0.05) -> Rate:
    """The two shipped routes together, total failure aside."""
    by = np.maximum(phi(*arms[:2]), phi(*arms[2:]))
    keeps = np.cumsum(arms[2], axis=1) <= limit * np.cumsum(arms[3], axis=1)
    alone = absolute(*arms[:2], limit, by)
    # A shared outage stays one: the first crossing decides, as in the monitor, but only where stable kept the limit.
    first = alone & keeps
    increase = np.cumsum(arms[0], axis=1) / np.cumsum(arms[1], axis=1) - np.cumsum(
        arms[2], axis=1
    ) / np.cumsum(arms[3], axis=1)
    worse = np.cumsum(arms[0] * arms[3] > 1.25 * arms[2] * arms[1], axis=1)
    compared = two_arm(*arms, by) & (increase >= limit / 10) & (worse >= 2)
    return ever_set(first | compared)


def steady_at_limit(runs: int) -> Rate:
    rng = _rng("steady")
    return convicted((*_counts(rng, CANARY, 0.05, runs), *_counts(rng, STABLE, 0.05, runs)))


def burst_rate(runs: int, mean: float, icc: float) -> Rate:
    """Bursts of both arms, each its own."""
    rng = _rng(f"bursts {mean} {icc}")
    canary = _counts(rng, CANARY, _bursts(rng, runs, mean, icc), runs)
    return convicted((*canary, *_counts(rng, STABLE, _bursts(rng, runs, mean, icc), runs)))


def canary_bursts(runs: int, mean: float, icc: float) -> Arms:
    """Bursts of the canary alone."""
    rng = _rng(f"canary bursts {mean} {icc}")
    return (
        *_counts(rng, CANARY, _bursts(rng, runs, mean, icc), runs),
        *_counts(rng, STABLE, mean, runs),
    )


def outage(runs: int, seconds: float, depth: float, ratio: float) -> Arms:
    """Both arms for `seconds`, anywhere in the gate, not aligned to windows; read up to a scrape of 15 s later in one arm than in
    the other."""
    rng = _rng(f"outage {seconds} {depth} {ratio}")
    begin = rng.uniform(15, GATE * WINDOW - seconds - 15, (runs, 1))
    late = rng.uniform(-15, 15, (runs, 1))
    opens = WINDOW * np.arange(GATE)

    def inside(delay: Floats | float) -> Floats:
        ends = np.minimum(opens + WINDOW, begin + seconds + delay)
        return np.clip(ends - np.maximum(opens, begin + delay), 0, WINDOW) / WINDOW

    canary = _counts(rng, CANARY, ratio + (1 - ratio) * depth * inside(late), runs)
    return (*canary, *_counts(rng, STABLE, ratio + (1 - ratio) * depth * inside(0.0), runs))


OUTAGES = tuple(
    (seconds, depth, ratio)
    for seconds in (120, 210, 300)
    for depth in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
    for ratio in (0.005, 0.01, 0.02)
)
"""54 cases."""


def outages(runs: int) -> dict[str, tuple[float, float]]:
    """Least and most false ROLLBACK over the cases, by rule."""
    found: dict[str, list[float]] = {}
    for case in OUTAGES:
        arms = outage(runs, *case)
        by = np.maximum(phi(*arms[:2]), phi(*arms[2:]))
        alone = absolute(*arms[:2], 0.05, by)
        total_bad, total = np.cumsum(arms[2], axis=1), np.cumsum(arms[3], axis=1)
        recent = total_bad - np.pad(total_bad, ((0, 0), (3, 0)))[:, :GATE]
        recent_n = total - np.pad(total, ((0, 0), (3, 0)))[:, :GATE]
        ever = alone.any(axis=1)
        found.setdefault("absolute alone", []).append(ever_set(alone).share)
        found.setdefault("whole step", []).append(ever_set(alone & (total_bad <= 0.05 * total)).share)
        if ever.any():
            late = (alone & (recent <= 0.05 * recent_n)).any(axis=1)
            found.setdefault("last 3 windows", []).append(float(late[ever].mean()))
        found.setdefault("two arms as first written", []).append(
            ever_set(two_arm(*arms, drop_largest=False)).share
        )
        found.setdefault("two arms", []).append(ever_set(two_arm(*arms, by)).share)
    return {name: (min(shares), max(shares)) for name, shares in found.items()}


def empty_windows(runs: int) -> tuple[Rate, Rate]:
    """False ROLLBACK under bursts (mean 4 %, ICC .2), φ over windows of 30 s, and over looks of 2 s of which most are empty."""
    arms = canary_bursts(runs, 0.04, 0.2)[:2]
    right, wrong = (absolute(*arms, 0.05, phi(*arms, counted=counted)) for counted in (1, 15))
    return ever_set(right), ever_set(wrong)


def trivia(runs: int) -> tuple[Rate, Rate]:
    """A canary a tenth worse than stable (1.1 % and 1 %) at plenty of traffic: r0 = 1 and r0 = 1.25."""
    rng = _rng("trivia")
    arms = (*_counts(rng, 50_000, 0.011, runs), *_counts(rng, 150_000, 0.010, runs))
    by = np.maximum(phi(*arms[:2]), phi(*arms[2:]))
    plain, shipped = (two_arm(*arms, by, max_ratio=ratio) for ratio in (1.0, 1.25))
    return ever_set(plain), ever_set(shipped)


def late_failure(runs: int) -> float:
    """Median windows that E⁻ with φ needs for a failure of all requests that begins after ten good minutes."""
    rng = _rng("late failure")
    ratio = np.full((runs, 2 * GATE), 0.01)
    ratio[:, GATE:] = 1.0
    n = np.full(ratio.shape, CANARY)
    bad = rng.binomial(n, ratio)
    found = absolute(bad, n, 0.05, phi(bad, n))
    return float(np.median(found.argmax(axis=1) - GATE + 1))


def one_window_rule(runs: int) -> Rate:
    """ "One window with E ≥ 10⁴ m" under bursts of mean 4 %, ICC .2."""
    rng = _rng("one window")
    bad, n = _counts(rng, CANARY, _bursts(rng, runs, 0.04, 0.2), runs)
    single = absolute(
        bad.reshape(-1, 1), n.reshape(-1, 1), 0.05, wanted=math.log(1e5), least_windows=1
    ).reshape(runs, GATE)
    return ever_set(single)


def drifted_tail(runs: int, early: float, late: float) -> tuple[Rate, Rate]:
    """A version that is good for two thirds of the gate and above the limit in the last: passes without the tail rule, and with it."""
    rng = _rng(f"tail {early} {late}")
    ratio = np.where(np.arange(GATE) < GATE * 2 // 3, early, late)
    bad, n = _counts(rng, CANARY, ratio, runs)
    without, kept = (
        passes(bad, n, 0.05, first=GATE - 1, planned=default_planned_samples(0.95), tail=tail)
        for tail in (False, True)
    )
    return ever_set(without), ever_set(kept)


def tail_costs(runs: int, ratio: float) -> float:
    """How many more HOLDs the tail rule costs a steady version, limit 5 %, 33 requests a window (planned n at the end)."""
    rng = _rng("tail costs")
    bad, n = _counts(rng, 33, ratio, runs)
    shares = [
        ever_set(passes(bad, n, 0.05, first=GATE - 1, planned=default_planned_samples(0.95), tail=tail)).share
        for tail in (False, True)
    ]
    return shares[0] - shares[1]


def pooled_last_step(runs: int, ratio: float) -> tuple[Rate, Rate]:
    """Limit 1 %: three good steps (.1 % of 800 requests each), the last of 400 bad: a pass on the pool, without and with the
    condition that the last step's own ratio keeps the limit."""
    rng = _rng(f"pool {ratio}")
    early, last = rng.binomial(2400, 0.001, runs), rng.binomial(400, ratio, runs)
    good = 2800.0 - early - last
    share, squared = good / 2800, Z95**2
    low = (share + squared / 5600 - Z95 * np.sqrt(share * (1 - share) / 2800 + squared / (4 * 2800**2))) / (
        1 + squared / 2800
    )
    return ever_set(low >= 0.99), ever_set((low >= 0.99) & (last <= 4))


def gauge(runs: int, *, sigmas: float, seconds: float, constant: float) -> Rate:
    """Three windows in a row outside limits `sigmas` on both sides of normal: an AR(1) gauge with this time constant (s), ten minutes."""
    count = int(GATE * WINDOW / seconds)
    keep = math.exp(-seconds / constant)
    rng = _rng(f"gauge {sigmas} {seconds} {constant}")
    noise = rng.standard_normal((runs, count)) * math.sqrt(1 - keep**2)
    noise[:, 0] /= math.sqrt(1 - keep**2)
    outside = np.abs(lfilter([1.0], [1.0, -keep], noise, axis=1)) > sigmas
    return ever_set(outside[:, 2:] & outside[:, 1:-1] & outside[:, :-2])


def clusters(runs: int, count: int, size: int, threshold: float, icc: float) -> Rate:
    """False PASS at the threshold of the Wilson limit on the effective sample size with the t quantile (section 6)."""
    rng = _rng(f"clusters {count} {size} {icc}")
    scale = 1 / icc - 1
    good = rng.binomial(size, rng.beta(threshold * scale, (1 - threshold) * scale, (runs, count)))
    n = count * size
    share = good.sum(axis=1) / n
    spread = count / (count - 1) * ((good - share[:, None] * size) ** 2).sum(axis=1) / n**2
    with np.errstate(divide="ignore", invalid="ignore"):
        deff = np.where((share > 0) & (share < 1), np.maximum(1.0, spread / (share * (1 - share) / n)), size)
    effective, z = n / deff, float(student.ppf(0.975, count - 1))
    centre = share + z * z / (2 * effective)
    half = z * np.sqrt(share * (1 - share) / effective + z * z / (4 * effective**2))
    return ever_set((centre - half) / (1 + z * z / effective) >= threshold)
