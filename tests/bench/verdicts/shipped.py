"""Figures of statistics.md that are found with the shipped code, run by run."""

from dataclasses import dataclass

import numpy as np

from gatewright_analysis.breach import BreachMonitor
from gatewright_analysis.evidence.model import Counts, Window
from tests.bench.verdicts import ours
from tests.bench.verdicts.comparison import Rate
from tests.bench.verdicts.rules import NEVER, Call
from tests.bench.verdicts.traffic import Candidate, Kind, Truth, draw, steady


@dataclass(frozen=True, slots=True)
class Times:
    """Median seconds from t0 to a proven breach by windows alone (infinite where fewer than half are found within 900 s), the share
    found within 900 s, and the median and share of the whole judge at a gate of ten minutes, with its total-failure rule and its
    passes."""

    by_windows: float
    within_900: Rate
    judged: float
    in_gate: Rate


def seconds_to_rollback(runs: int, stable: float, canary: float, per_minute: float, share: float) -> Times:
    """Limit 5 %, m = 10, windows of 30 s, by the shipped code."""
    kind = Kind(f"{per_minute} at {share}", "", steady, (per_minute, per_minute), share)
    traffic = draw(kind, Candidate(f"{stable} to {canary}", canary, stable, Truth.BREACH), runs)
    seen, times = traffic.windows(), []
    for run in range(runs):
        monitor = BreachMonitor(ours.task(ours.contract()), ours.BOUNDS)
        rows = zip(
            *(
                counts[run, :30].tolist()
                for counts in (seen.canary_n, seen.canary_bad, seen.stable_n, seen.stable_bad)
            ),
            strict=True,
        )
        for index, (n, bad, beside, other) in enumerate(rows):
            monitor.add(Window(index, Counts(n - bad, bad), Counts(beside - other, other)))
            if monitor.breach is not None:
                break
        times.append(NEVER if monitor.breach is None else monitor.breach.at)
    found = ours.judge(traffic)
    back = found.calls == Call.ROLLBACK
    return Times(
        float(np.median(times)),
        Rate(int(np.isfinite(times).sum()), runs),
        float(np.median(np.where(back, found.seconds, NEVER))),
        Rate(int(back.sum()), runs),
    )
