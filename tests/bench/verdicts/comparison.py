"""All rules on all traffic: with their usual settings, and tuned to our rate of false ROLLBACK."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from gatewright_analysis.reasons import Reason
from gatewright_analysis.statistics.wilson import wilson_interval
from tests.bench.verdicts import ours
from tests.bench.verdicts.rules import NEVER, Answers, Call, argo, flagger, kayenta, wilson_only
from tests.bench.verdicts.traffic import (
    BREAKS_LATE,
    CANDIDATES,
    EVERYDAY,
    KINDS,
    LATE,
    LIMIT,
    Candidate,
    Kind,
    Truth,
    Windows,
    draw,
)

OURS: Final = "Gatewright"
Cell = tuple[str, str]
"""Kind of traffic and candidate, by name."""


@dataclass(frozen=True, slots=True)
class Runs:
    """How many gates to draw for each cell."""

    judged: int
    """Of a healthy candidate, and of one at the limit."""
    found: int
    """Of a candidate in breach: shares near 0 or 1 need fewer."""
    late: int

    def of(self, candidate: Candidate) -> int:
        return self.found if candidate.truth is Truth.BREACH else self.judged


@dataclass(frozen=True, slots=True)
class Peer:
    """A rule with its usual setting, and the one setting that is tuned: `tuned(x)` has fewer ROLLBACKs the larger x is."""

    name: str
    usual: Callable[[Windows], Answers]
    tuned: Callable[[Windows, float], Answers] | None = None
    bounds: tuple[float, float] = (0.0, 1.0)
    shown: Callable[[float], str] = str
    """x in words."""


def percent(share: float) -> str:
    """Two digits that matter: 0, .12 %, 3.4 %, 56 %."""
    value = 100 * share
    digits = 0 if value >= 9.95 or value == 0 else 1 if value >= 0.995 else 2
    return f"{value:.{digits}f} %"


def _condition(limit: float) -> str:
    return f"condition at {percent(limit)} instead of the limit"


PEERS: Final = (
    Peer(
        "Argo, failureLimit 0",
        lambda windows: argo(windows, failure_limit=0),
        lambda windows, limit: argo(windows, failure_limit=0, limit=limit),
        (LIMIT, 1.0),
        _condition,
    ),
    Peer(
        "Argo, failureLimit 3",
        lambda windows: argo(windows, failure_limit=3),
        lambda windows, limit: argo(windows, failure_limit=3, limit=limit),
        (LIMIT, 1.0),
        _condition,
    ),
    Peer(
        "Argo, range of 5 min, failureLimit 3",
        lambda windows: argo(windows, failure_limit=3, span=10),
        lambda windows, limit: argo(windows, failure_limit=3, span=10, limit=limit),
        (LIMIT, 1.0),
        _condition,
    ),
    Peer(
        "Flagger, threshold 5",
        lambda windows: flagger(windows, threshold=5),
        lambda windows, limit: flagger(windows, threshold=5, limit=limit),
        (LIMIT, 1.0),
        lambda limit: f"up to {percent(limit)} bad in a check",
    ),
    Peer(
        "Kayenta",
        kayenta,
        lambda windows, strictness: kayenta(windows, confidence=1 - 10**-strictness),
        (1.0, 14.0),
        lambda strictness: f"confidence {1 - 10**-strictness:.3f}",
    ),
    Peer(
        "Wilson at every window",
        wilson_only,
        lambda windows, z: wilson_only(windows, z_fail=z),
        (1.0, 40.0),
        lambda z: f"z of the upper limit {z:.2f}",
    ),
)
NAMES: Final = (OURS, *(peer.name for peer in PEERS))


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` of `n`, with Wilson's 95 % interval."""

    count: int
    n: int

    @property
    def share(self) -> float:
        return self.count / self.n

    def __add__(self, other: "Rate") -> "Rate":
        return Rate(self.count + other.count, self.n + other.n)

    def text(self, *, interval: bool = True) -> str:
        shown = percent(self.share)
        if not interval:
            return shown
        low, high = wilson_interval(self.count, self.n)
        return f"{shown} ({percent(low)}–{percent(high)})"


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that was simulated."""

    runs: Runs
    answers: dict[Cell, dict[str, Answers]]
    tuned: dict[str, tuple[float, Rate]]
    """For each peer the setting at which it rolls back the everyday mix of healthy candidates as often as we do, and how often that
    is on traffic it wasn't tuned on. Not there where none of its settings does."""
    tuned_answers: dict[Cell, dict[str, Answers]]
    late: dict[tuple[str, str], float]
    """Median seconds from the failure to ROLLBACK by (rule, candidate)."""

    def rate(self, rule: str, call: Call, kinds: Iterable[Kind], candidates: Iterable[Candidate]) -> Rate:
        return rate(self.answers, rule, call, kinds, candidates)

    def reasons(self, kinds: Iterable[Kind], candidates: Iterable[Candidate]) -> dict[Reason, int]:
        """Why ours rolled back."""
        counts: dict[Reason, int] = {}
        for kind in kinds:
            for candidate in candidates:
                mine = self.answers[kind.name, candidate.name][OURS]
                assert isinstance(mine, ours.OurAnswers)
                for call, reason in zip(mine.calls, mine.reasons, strict=True):
                    if call == Call.ROLLBACK:
                        counts[reason] = counts.get(reason, 0) + 1
        return counts


def having(*truths: Truth) -> tuple[Candidate, ...]:
    return tuple(candidate for candidate in CANDIDATES if candidate.truth in truths)


def rate(
    answers: dict[Cell, dict[str, Answers]],
    rule: str,
    call: Call,
    kinds: Iterable[Kind],
    candidates: Iterable[Candidate],
) -> Rate:
    total = Rate(0, 0)
    for kind in kinds:
        for candidate in candidates:
            calls = answers[kind.name, candidate.name][rule].calls
            total += Rate(int((calls == call).sum()), len(calls))
    return total


def median_rollback(
    answers: dict[Cell, dict[str, Answers]], rule: str, kinds: Iterable[Kind], candidates: Iterable[Candidate]
) -> float:
    """Median seconds to ROLLBACK over all runs; infinite where fewer than half are rolled back."""
    times = [
        np.where(found.calls == Call.ROLLBACK, found.seconds, NEVER)
        for found in (answers[kind.name, one.name][rule] for kind in kinds for one in candidates)
    ]
    return float(np.median(np.concatenate(times)))


def compare(runs: Runs, say: Callable[[str], None]) -> Found:
    """Draw everything, judge everything."""
    answers: dict[Cell, dict[str, Answers]] = {}
    windows: dict[Cell, Windows] = {}
    for kind in KINDS:
        say(f"traffic: {kind.name}")
        for candidate in CANDIDATES:
            traffic = draw(kind, candidate, runs.of(candidate))
            seen = windows[kind.name, candidate.name] = traffic.windows()
            answers[kind.name, candidate.name] = {OURS: ours.judge(traffic)} | {
                peer.name: peer.usual(seen) for peer in PEERS
            }
    say("tuning the peers")
    healthy = having(Truth.HEALTHY)
    allowed = rate(answers, OURS, Call.ROLLBACK, EVERYDAY, healthy)
    tuned = _tune(runs, allowed, windows)
    tuned_answers = {
        (kind.name, candidate.name): {OURS: answers[kind.name, candidate.name][OURS]}
        | {
            peer.name: peer.tuned(windows[kind.name, candidate.name], tuned[peer.name][0])
            for peer in PEERS
            if peer.tuned is not None and peer.name in tuned
        }
        for kind in EVERYDAY
        for candidate in CANDIDATES
    }
    return Found(runs, answers, tuned, tuned_answers, _late(runs))


def _tune(runs: Runs, allowed: Rate, windows: dict[Cell, Windows]) -> dict[str, tuple[float, Rate]]:
    """The mildest setting of each peer with at most our share of false ROLLBACKs, on traffic of its own."""
    cells = [(kind, candidate) for kind in EVERYDAY for candidate in having(Truth.HEALTHY)]
    practice = _joined([draw(kind, one, runs.judged, salt="practice").windows() for kind, one in cells])
    proof = _joined([windows[kind.name, one.name] for kind, one in cells])
    out = {}
    for peer in PEERS:
        if peer.tuned is None:
            continue
        low, high = peer.bounds
        if peer.tuned(practice, high).share(Call.ROLLBACK) > allowed.share:
            continue
        for _ in range(20):
            middle = (low + high) / 2
            if peer.tuned(practice, middle).share(Call.ROLLBACK) <= allowed.share:
                high = middle
            else:
                low = middle
        calls = peer.tuned(proof, high).calls
        out[peer.name] = (high, Rate(int((calls == Call.ROLLBACK).sum()), len(calls)))
    return out


def _joined(parts: list[Windows]) -> Windows:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.joined(part)
    return whole


def _late(runs: Runs) -> dict[tuple[str, str], float]:
    """A version that breaks in the middle of its gate, with a source that is read each 5, 10 and 15 s."""
    out = {}
    for candidate in CANDIDATES[-2:]:
        traffic = draw(BREAKS_LATE, candidate, runs.late)
        found = {peer.name: peer.usual(traffic.windows()) for peer in PEERS}
        found |= {
            f"{OURS}, scrapes of {scrape} s": ours.judge(traffic, scrape=scrape) for scrape in (5, 10, 15)
        }
        for name, given in found.items():
            seconds = np.where(given.calls == Call.ROLLBACK, given.seconds, NEVER)
            out[name, candidate.name] = float(np.median(seconds)) - LATE
    return out
