"""Runs every benchmark and writes docs/reference/performance.md. Run it by hand, on a machine that does nothing else.

python tests/bench/report.py [--runs N] [--results DIR] [--output FILE]

With `--results`, what a benchmark found is kept in that folder, and one that is found there is not run again: after a
failure, the same command goes on where it was.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench import bench_api_calls, bench_restore
from tests.bench.figures import Result, markdown_table
from tests.bench.machine import facts

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "reference" / "performance.md"
BENCHMARKS = (
    "bench_api_calls",
    "bench_restore",
    "bench_operator_memory",
    "bench_plugin",
    "bench_review",
    "bench_judge",
    "bench_backtest",
    "bench_control_plane",
)

PEERS = """\
## Beside its peers

The peers' figures were measured earlier and elsewhere, on the same kind of control plane, with looks every 5 s; they are an orientation, not a race. Argo
Rollouts ran a canary of five pods with three weights and three analyses, and was set to abort at a single bad look; its decision is counted to the abort and the first
scale-down. Of its writes 31 are Events, of which there are fewer here. Gatewright does not convict by a single look: it waits for `totalFailure.for`, at least three scrapes, or for
statistical proof, and its time is that of a version that turns bad in its gate."""

HOW = """\
## How to repeat it

```bash
# All of them; prints the tables.
make bench
# All of them, into this page.
.venv/bin/python tests/bench/report.py
# One of them, more often; the file gets every single value.
.venv/bin/python tests/bench/bench_plugin.py --runs 50 --json plugin.json
```

Each benchmark starts a development cluster of its own and ends it. Goals are those the project set itself; a median above its goal is a defect to work on, and is shown all
the same."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Run every benchmark and write the page with the figures.")
    parser.add_argument("--runs", type=int, help="how often to measure (default: as each benchmark says)")
    parser.add_argument("--results", type=Path, metavar="DIR", help="keep results there, and use those found")
    parser.add_argument("--output", type=Path, default=PAGE, help="the page (default: the one in docs/)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = options.results or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        results = {name: result_of(name, folder, options.runs) for name in BENCHMARKS}
    options.output.write_text(page(results))
    print(f"wrote {options.output}")
    return 0


def result_of(name: str, folder: Path, runs: int | None) -> Result:
    """What a benchmark found, now or earlier; each runs in a process of its own, as `make bench` does it."""
    found = folder / f"{name}.json"
    if not found.exists():
        print(f"== {name}", file=sys.stderr, flush=True)
        command = [sys.executable, str(HERE / f"{name}.py"), "--json", str(found)]
        subprocess.run([*command, *(["--runs", str(runs)] if runs else [])], check=True)
    return Result.from_json(found.read_text())


def page(results: Mapping[str, Result]) -> str:
    """The whole page."""
    machine = facts(lambda line: print(line, file=sys.stderr))
    loads = [result.load for result in results.values()]
    head = (
        "<!-- Written by `python tests/bench/report.py`. Run it again instead of changing this file. -->\n\n"
        "# Performance\n\n"
        f"Measured on {datetime.now(UTC):%Y-%m-%d}, on a development cluster (real API server, Prometheus and Envoy; pods are processes): {machine}. "
        f"The load average before each benchmark was {min(loads):.1f} to {max(loads):.1f}; more than its own work makes every time longer."
    )
    sections = [result.markdown().rstrip() for result in results.values()]
    return "\n\n".join([head, *sections, PEERS, peers_table(results), HOW]) + "\n"


def peers_table(results: Mapping[str, Result]) -> str:
    """Medians of ours beside theirs."""

    def median(benchmark: str, figure: str, digits: int) -> str:
        found = next(one for one in results[benchmark].figures if one.name == figure)
        return f"{found.median:.{digits}f}"

    turning = {case.scrape_seconds: case.figure for case in bench_restore.CASES if case.turns_bad}
    requests = [
        median("bench_api_calls", name, 0) for name in (bench_api_calls.WRITES, bench_api_calls.READS)
    ]
    decision = f"{median('bench_restore', bench_restore.DECISION, 2)} s"
    slow, fast = (f"{median('bench_restore', turning[seconds], 1)} s" for seconds in (5, 1))
    return markdown_table(
        ("", "writes", "reads", "decision → restoring write", "first failing scrape → traffic restored"),
        (
            (
                "Gatewright, this page",
                *requests,
                decision,
                f"{slow} at scrapes of 5 s, {fast} at 1 s",
            ),
            (
                "Argo Rollouts 1.9.3",
                "94",
                "116",
                "0.1 to 0.2 s",
                "2.1 s at looks of 5 s",
            ),
            ("Flagger 1.36.1", "22", "98", "not recorded", "15.5 s at looks of 5 s"),
        ),
    )


if __name__ == "__main__":
    raise SystemExit(main())
