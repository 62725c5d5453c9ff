"""A backtest of many looks, and its cold start.

python tests/bench/bench_backtest.py [--runs N]
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.figures import Figure, Result, Say, main

LOOKS = 100_000
TEXT = f"""\
Wall-clock time of a whole `gatewright backtest`, each a new process. The long record has {LOOKS:,} looks of one counted check with a stable arm, a
hundred requests each, one in a hundred looks with a failure; the short one has 20. With `-o json` every look is worked out and printed; without it only what the verdict rests on."""

CONTRACT = {
    "apiVersion": "gatewright.dev/v1alpha1",
    "kind": "GateContract",
    "metadata": {"name": "checkout"},
    "spec": {
        "checks": [
            {
                "id": "http-success",
                "oracleKind": "Deterministic",
                "limit": {"maxBadRatio": 0.01},
                "versusStable": {},
                "evidence": [
                    {
                        "stages": ["Canary"],
                        "counts": {
                            "source": "prometheus",
                            "bad": ['requests{code="500"}'],
                            "total": ["requests"],
                        },
                    }
                ],
            }
        ]
    },
}


def measure(runs: int, say: Say) -> Result:
    """Times whole commands."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "contract.json").write_text(json.dumps(CONTRACT))
        for name, looks in (("short", 20), ("long", LOOKS)):
            with (place / f"{name}.jsonl").open("w") as stream:
                for k in range(looks):
                    line = {
                        "check": "http-success", "t": 30 * (k + 1), "good": 99, "bad": int(k % 110 == 0),
                        "stable": {"good": 400, "bad": 1},
                    }  # fmt: skip
                    stream.write(json.dumps(line) + "\n")
        wanted = (
            ("cold start, 20 looks", "short", (), "≤ 1.5"),
            (f"{LOOKS:,} looks", "long", (), "≤ 10"),
            (f"{LOOKS:,} looks, `-o json`", "long", ("-o", "json"), "≤ 10"),
        )
        figures = []
        for title, name, words, goal in wanted:
            seconds = tuple(timed(place, name, words) for _ in range(runs))
            say(f"{title}: {min(seconds):.2f} s at best")
            figures.append(Figure(title, "s", seconds, goal))
    return Result("Backtest", TEXT, tuple(figures))


def timed(place: Path, name: str, words: tuple[str, ...]) -> float:
    """Seconds of one run. Raises RuntimeError when it comes to no PROMOTE."""
    start = "import sys; from gatewright_cli.main import gatewright; sys.exit(gatewright())"
    command = [sys.executable, "-c", start, "backtest", str(place / "contract.json"), "--evidence"]
    began = time.perf_counter()
    run = subprocess.run(
        [*command, str(place / f"{name}.jsonl"), *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=dict(os.environ),
        check=False,
    )
    spent = time.perf_counter() - began
    if run.returncode != 0:
        raise RuntimeError(f"the backtest ended with {run.returncode}: {run.stderr.decode()}")
    return spent


if __name__ == "__main__":
    raise SystemExit(main(measure, runs=5))
