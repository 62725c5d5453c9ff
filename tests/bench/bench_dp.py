"""The exact chance of a false PROMOTE over far more schedules than the tests walk, and the time that walking takes.

python tests/bench/bench_dp.py [--runs N]
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gatewright_analysis.statistics.confidence import Confidence
from tests.bench.figures import Figure, Result, Say, Table, main
from tests.property.gate_walk import THRESHOLDS, Rule, Worst, least_by_e, schedules, worst

ALL_THRESHOLDS = (0.5, 0.6, 0.7, 0.75, *THRESHOLDS, 0.995)
MANY = [
    (per_look, looks) for per_look in (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100) for looks in range(1, 61)
]
"""Every number of looks up to 60: where the planned look falls decides how bad a schedule is."""
CONFIDENCES = (
    Confidence(0.9),
    Confidence(0.95),
    Confidence(0.975),
    Confidence(0.99),
    Confidence(0.999),
    Confidence(0.95, family=True),
)

TEXT = f"""\
A candidate exactly at its threshold t, E⁺ at every look, one Wilson look at the end of the first attempt that has enough samples, up to
three attempts with pooled samples. Nothing is simulated. The table takes the worst of {len(MANY)} schedules: 1 to 100 samples per look, 1 to
60 looks per attempt. The time is one core's, for the {len(schedules())} schedules of R5 at the {len(THRESHOLDS)} thresholds of R5."""


def measure(runs: int, say: Say) -> Result:
    """Walks the schedules of R5 `runs` times, and the wide search once."""
    seconds = []
    for run in range(runs):
        least_by_e.cache_clear()
        begin = time.process_time()
        rates = [worst(Rule.of(t, Confidence()), schedules()).rate for t in THRESHOLDS]
        seconds.append(time.process_time() - begin)
        say(f"run {run + 1} of {runs}: {seconds[-1]:.2f} s, the worst is {max(rates):.4f}")
    return Result(
        title="False PROMOTE, exact",
        text=TEXT,
        figures=(Figure("all schedules of R5", "s", tuple(seconds), goal="≤ 60"),),
        tables=tuple(_table(confidence, say) for confidence in CONFIDENCES),
    )


def _table(confidence: Confidence, say: Say) -> Table:
    rows = []
    for threshold in ALL_THRESHOLDS:
        rule = Rule.of(threshold, confidence)
        once, thrice = worst(rule, MANY, attempts=1), worst(rule, MANY, attempts=3)
        rows.append(
            (f"{threshold:g}", f"{rule.odds:.0f}", *_cells((once, thrice)), f"{_of_three(thrice):.3%}")
        )
        say(f"confidence {confidence.stated}, family {confidence.family}: " + " | ".join(rows[-1]))
    return Table(
        f"confidence {confidence.stated}{', errorBudget: family' if confidence.family else ''}: z = {confidence.z:.4f}",
        ("t", "E", "one attempt", "samples × looks", "three attempts", "samples × looks", "three artifacts"),
        tuple(rows),
    )


def _cells(found: Sequence[Worst]) -> list[str]:
    return [cell for one in found for cell in (f"{one.rate:.3%}", f"{one.per_look} × {one.looks}")]


def _of_three(one: Worst) -> float:
    return 1.0 - (1.0 - one.rate) ** 3


if __name__ == "__main__":
    raise SystemExit(main(measure, runs=3))
