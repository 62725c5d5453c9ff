"""What one look of one check costs, and what importing the judge does.

python tests/bench/bench_judge.py [--runs N]
"""

import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gatewright_analysis.evidence.model import Clock, Cluster, Counts, Window
from gatewright_analysis.judge import monitor_for
from gatewright_analysis.task import Bounds, CheckTask
from tests import judging
from tests.bench.figures import Figure, Result, Say, main

LOOKS = 2000
TEXT = """\
One look is one closed window folded in and the whole result read: status, bounds, e-values and the sentence. The figure of a run is the median over
2,000 looks of one process. Imports are timed in new processes, with a warm file cache."""
_IMPORT = """
import time, sys
began = time.perf_counter()
import gatewright_analysis.judge
print(time.perf_counter() - began, *(name in sys.modules for name in ("scipy.stats", "scipy.optimize", "pandas")))
"""


def measure(runs: int, say: Say) -> Result:
    """Medians over looks, one figure for each kind of check."""
    figures = []
    for name, task, windows in _cases():
        found = tuple(_look_micros(task, windows) for _ in range(runs))
        say(f"{name}: {statistics.median(found):.0f} µs")
        figures.append(Figure(f"one look of {name}", "µs", found, "≤ 200", digits=0))
    imports = tuple(_import_seconds() for _ in range(runs))
    figures.append(Figure("import of the judge", "s", imports))
    return Result(title="Judging", text=TEXT, figures=tuple(figures))


def _cases() -> list[tuple[str, CheckTask, list[Window]]]:
    """Healthy checks, because those are looked at longest."""
    draw = random.Random(20_26)

    def counts(n: int, bad: float) -> Counts:
        failed = sum(draw.random() < bad for _ in range(n))
        return Counts(n - failed, failed)

    arms = [Window(k, counts(60, 0.04), counts(240, 0.04)) for k in range(LOOKS)]
    singles = [Window(k, counts(20, 0.1)) for k in range(LOOKS)]
    scores = [Window(k, Counts(0, 0), scores=(draw.uniform(0.8, 1.0),)) for k in range(LOOKS)]
    gauge = [Window(k, Counts(0, 0), value=draw.gauss(50, 5)) for k in range(LOOKS)]
    clusters = tuple(Cluster(f"{k:016x}", *((own := counts(5, 0.1)).good, own.bad)) for k in range(200))
    whole = Counts(sum(c.good for c in clusters), sum(c.bad for c in clusters))
    items = [Window(0, whole, clusters=clusters), *(Window(k, Counts(0, 0)) for k in range(1, LOOKS))]
    value: dict[str, Any] = {"source": "p", "query": "heap{$arm}", "max": 100.0, "minWindows": 1000}
    suite = {"source": "r", "suite": "s"}
    no_limit = {key: own for key, own in judging.check().items() if key != "limit"}
    return [
        ("counts, both routes", judging.task(judging.check(versusStable={})), arms),
        ("sampled counts", judging.task(judging.sampled()), singles),
        (
            "a result file of 200 items, five times each",
            judging.task(judging.sampled(evidence=[{"stages": ["Canary"], "samples": suite}])),
            items,
        ),
        (
            "scores",
            judging.task(judging.sampled(evidence=[{"stages": ["Canary"], "scores": suite}])),
            scores,
        ),
        ("a gauge", judging.task(no_limit | {"evidence": [{"stages": ["Canary"], "value": value}]}), gauge),
    ]


def _look_micros(task: CheckTask, windows: list[Window]) -> float:
    far = 30.0 * (LOOKS + 10)
    monitor = monitor_for(task, Bounds(far, far, 30.0))
    assert monitor is not None
    spent = []
    for window in windows:
        began = time.perf_counter()
        monitor.add(window)
        monitor.result(Clock(30.0 * (window.index + 1), far, far, 30.0))
        spent.append(time.perf_counter() - began)
    return statistics.median(spent) * 1e6


def _import_seconds() -> float:
    said = subprocess.run(
        [sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True, timeout=60
    )
    seconds, *heavy = said.stdout.split()
    assert heavy == ["False"] * 3, "the judge must not import scipy.stats, scipy.optimize or pandas"
    return float(seconds)


if __name__ == "__main__":
    raise SystemExit(main(measure, runs=5))
