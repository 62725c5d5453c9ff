"""Seeded traffic of both arms, in scrapes: what a gate of ten minutes, twenty at most, would see.

All counts are whole numbers drawn for each scrape: requests are Poisson, bad ones binomial. Times are seconds after t0, the
end of the warm-up; some scrapes before it are there too, because the total-failure rule looks back at stable.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Rates = tuple[Floats, Floats]

SEED: Final = 20_260
SCRAPE: Final = 5
WINDOW: Final = 30
DURATION: Final = 600
MAX_DURATION: Final = 1200
BEFORE: Final = 60
"""Seconds of scrapes before t0."""
PER_WINDOW: Final = WINDOW // SCRAPE
WINDOWS: Final = MAX_DURATION // WINDOW
STARTS: Final = np.arange(-BEFORE, MAX_DURATION, SCRAPE, dtype=np.float64)
"""When each scrape interval begins."""
LATE: Final = 215
LIMIT: Final = 0.05
"""The contract's `maxBadRatio` throughout."""


class Truth(Enum):
    """What the right answer to a candidate is."""

    HEALTHY = "not to be rolled back"
    AT_LIMIT = "not to be promoted"
    BREACH = "to be rolled back"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Bad ratios of both arms, before the kind of traffic shapes them."""

    name: str
    canary: float
    stable: float
    truth: Truth


CANDIDATES: Final = (
    Candidate("healthy", 0.01, 0.01, Truth.HEALTHY),
    Candidate("healthy, near the limit", 0.035, 0.035, Truth.HEALTHY),
    Candidate("at the limit", 0.05, 0.05, Truth.AT_LIMIT),
    Candidate("10 × stable, below the limit", 0.03, 0.003, Truth.BREACH),
    Candidate("twice the limit", 0.10, 0.01, Truth.BREACH),
    Candidate("half fails", 0.50, 0.01, Truth.BREACH),
    Candidate("all fails", 1.00, 0.01, Truth.BREACH),
)


@dataclass(frozen=True, slots=True)
class Kind:
    """How traffic and its errors go: requests a minute over both arms (drawn evenly on a log scale), the canary's share, the
    shape of the errors in time, whether the metrics source loses its targets for some minutes."""

    name: str
    says: str
    shape: Callable[[Floats, Floats, Candidate, np.random.Generator], Rates]
    per_minute: tuple[float, float] = (600.0, 600.0)
    share: float = 0.25
    loses_scrapes: bool = False


@dataclass(frozen=True, slots=True)
class Traffic:
    """Counts by scrape, arrays of (runs, scrapes); `lost` are windows (runs, windows) that could not be read."""

    canary_n: Ints
    canary_bad: Ints
    stable_n: Ints
    stable_bad: Ints
    lost: NDArray[np.bool_]

    @property
    def runs(self) -> int:
        return len(self.lost)

    def windows(self) -> "Windows":
        canary_n, canary_bad, stable_n, stable_bad = (
            counts[:, BEFORE // SCRAPE :].reshape(self.runs, -1, PER_WINDOW).sum(axis=2)
            for counts in (self.canary_n, self.canary_bad, self.stable_n, self.stable_bad)
        )
        return Windows(canary_n, canary_bad, stable_n, stable_bad, self.lost)


@dataclass(frozen=True, slots=True)
class Windows:
    """The same by window, from t0 on."""

    canary_n: Ints
    canary_bad: Ints
    stable_n: Ints
    stable_bad: Ints
    lost: NDArray[np.bool_]

    def joined(self, other: "Windows") -> "Windows":
        """The runs of both."""
        return Windows(
            *(
                np.concatenate((getattr(self, name), getattr(other, name)))
                for name in ("canary_n", "canary_bad", "stable_n", "stable_bad", "lost")
            )
        )


def draw(kind: Kind, candidate: Candidate, runs: int, *, salt: str = "") -> Traffic:
    """`runs` gates; the same for the same arguments, whatever else was drawn before."""
    rng = np.random.default_rng([SEED, crc32(f"{kind.name}/{candidate.name}/{salt}".encode())])
    flat = np.ones((runs, len(STARTS)))
    canary, stable = kind.shape(flat * candidate.canary, flat * candidate.stable, candidate, rng)
    low, high = kind.per_minute
    scrape = np.exp(rng.uniform(np.log(low), np.log(high), (runs, 1))) * SCRAPE / 60
    canary_n = rng.poisson(flat * scrape * kind.share)
    stable_n = rng.poisson(flat * scrape * (1 - kind.share))
    lost = np.zeros((runs, WINDOWS), dtype=np.bool_)
    if kind.loses_scrapes:
        begin, length = rng.uniform(0, 300, (runs, 1)), rng.uniform(180, 300, (runs, 1))
        opens = WINDOW * np.arange(WINDOWS)
        lost = (opens + WINDOW > begin) & (opens < begin + length)
    return Traffic(
        canary_n,
        rng.binomial(canary_n, np.clip(canary, 0, 1)),
        stable_n,
        rng.binomial(stable_n, np.clip(stable, 0, 1)),
        lost,
    )


def overlap(begin: Floats, length: Floats) -> Floats:
    """The share of each scrape interval that lies in [begin, begin + length), for each run: (runs, scrapes)."""
    ends = np.minimum(STARTS + SCRAPE, begin + length)
    return np.clip(ends - np.maximum(STARTS, begin), 0, SCRAPE) / SCRAPE


def steady(canary: Floats, stable: Floats, candidate: Candidate, rng: np.random.Generator) -> Rates:
    return canary, stable


def _bursty(
    canary: Floats,
    stable: Floats,
    candidate: Candidate,
    rng: np.random.Generator,
    *,
    icc: float,
    whole: bool = False,
) -> Rates:
    """Each window of each arm has a ratio of its own, drawn from a Beta with this intra-class correlation.

    Its errors come in a third of the window, as long as they fit there (`whole`: all over it).
    """

    def arm(rates: Floats) -> Floats:
        mean = rates[0, 0]
        if mean >= 1.0:
            return rates
        scale, shape = 1 / icc - 1, (len(rates), rates.shape[1] // PER_WINDOW, 1)
        drawn = rng.beta(mean * scale, (1 - mean) * scale, shape)
        if whole:
            return np.repeat(drawn, PER_WINDOW, axis=1).reshape(rates.shape)
        third = PER_WINDOW // 3
        begin = rng.integers(0, PER_WINDOW - third + 1, shape)
        place = np.arange(PER_WINDOW)
        inside = (place >= begin) & (place < begin + third)
        peak = np.minimum(1.0, 3 * drawn)
        rest = (PER_WINDOW * drawn - third * peak) / (PER_WINDOW - third)
        return np.where(inside, peak, rest).reshape(rates.shape)

    return arm(canary), arm(stable)


def _drifting(canary: Floats, stable: Floats, candidate: Candidate, rng: np.random.Generator) -> Rates:
    """Errors rise from a fifth to nine fifths of their mean within `duration`; stable's too where the candidate is healthy."""
    rising = 0.2 + 1.6 * np.clip(STARTS / DURATION, 0, 1)
    return canary * rising, stable * rising if candidate.truth is Truth.HEALTHY else stable


def _shared_outage(canary: Floats, stable: Floats, candidate: Candidate, rng: np.random.Generator) -> Rates:
    """A dependency fails for 120 to 300 s, anywhere in the first ten minutes, not aligned to windows: 20 to 80 % of both arms."""
    runs = (len(canary), 1)
    length = rng.uniform(120, 300, runs)
    inside = overlap(rng.uniform(0, 1, runs) * (DURATION - length), length) * rng.uniform(0.2, 0.8, runs)
    return canary + (1 - canary) * inside, stable + (1 - stable) * inside


def _late(canary: Floats, stable: Floats, candidate: Candidate, rng: np.random.Generator) -> Rates:
    """Fine until the second `LATE`, which is no multiple of a window."""
    return np.where(STARTS < LATE, 0.01, canary), stable


def _restart(canary: Floats, stable: Floats, candidate: Candidate, rng: np.random.Generator) -> Rates:
    """One of two canary pods is away for 5 to 12 s: half of the canary's requests fail."""
    runs = (len(canary), 1)
    inside = overlap(rng.uniform(30, 540, runs), rng.uniform(5, 12, runs))
    return canary + (1 - canary) * 0.5 * inside, stable


def _novelty(canary: Floats, stable: Floats, candidate: Candidate, rng: np.random.Generator) -> Rates:
    """Cold for 60 s after the weight changes: 10 % more of the canary's requests fail. The warm-up hides the first 30 s."""
    cold = np.where(STARTS < 30, 0.10, 0.0)
    return canary + (1 - canary) * cold, stable


KINDS: Final = (
    Kind("steady", "600 requests a minute, a quarter to the canary", steady),
    Kind("bursts of 10 s, ICC .05", "errors come in bursts, each arm its own", partial(_bursty, icc=0.05)),
    Kind("bursts of 10 s, ICC .2", "the same, wilder", partial(_bursty, icc=0.2)),
    Kind("bursts of 30 s, ICC .2", "bursts as long as a window", partial(_bursty, icc=0.2, whole=True)),
    Kind("low traffic", "10 to 100 requests a minute, half to the canary", steady, (10.0, 100.0), 0.5),
    Kind("drift", "errors rise from a fifth to nine fifths of their mean within ten minutes", _drifting),
    Kind(
        "restart", "one of two canary pods away for 5 to 12 s: half of the canary's requests fail", _restart
    ),
    Kind("cold start", "10 % more errors of the canary in the 30 s after the warm-up", _novelty),
    Kind(
        "shared outage", "a dependency of both arms fails for 120 to 300 s, 20 to 80 % deep", _shared_outage
    ),
    Kind("lost scrapes", "nothing can be read for 180 to 300 s", steady, loses_scrapes=True),
)
BREAKS_LATE: Final = Kind("breaks late", "fine until it breaks", _late)
EVERYDAY: Final = tuple(kind for kind in KINDS if kind.name not in ("shared outage", "lost scrapes"))
