"""python -m tests.bench.verdicts [--quick] [--output FILE]"""

import argparse
import sys
import time
from pathlib import Path

from tests.bench.verdicts.claims import Counts, recompute
from tests.bench.verdicts.comparison import Runs, compare
from tests.bench.verdicts.page import page
from tests.bench.verdicts.plot import draw_plot

EXPLANATION = Path(__file__).resolve().parents[3] / "docs" / "explanation"
PLOT = "images/verdict-quality.svg"
FULL = (
    Runs(judged=1000, found=300, late=200),
    Counts(gates=8000, outages=1000, clusters=40_000, times=200, schedules=24),
)
QUICK = Runs(judged=4, found=2, late=2), Counts(gates=40, outages=10, clusters=100, times=3, schedules=1)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare verdicts on simulated traffic and write the page.")
    parser.add_argument("--quick", action="store_true", help="a handful of gates: does it run?")
    parser.add_argument("--output", type=Path, default=EXPLANATION / "verdict-quality.md", help="the page")
    options = parser.parse_args()
    write(options.output, quick=options.quick)
    return 0


def write(output: Path, *, quick: bool, plot: bool = True) -> None:
    """The page, and its picture beside it."""
    began = time.process_time()

    def say(line: str) -> None:
        print(f"{time.process_time() - began:6.1f} s  {line}", file=sys.stderr, flush=True)

    runs, counts = QUICK if quick else FULL
    found = compare(runs, say)
    claims = recompute(counts, found, say)
    output.write_text(page(found, claims, quick=quick, plot=PLOT), encoding="utf-8")
    if plot:
        draw_plot(found, output.parent / PLOT)
    say(f"wrote {output}")


if __name__ == "__main__":
    sys.exit(main())
