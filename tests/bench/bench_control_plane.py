"""Warm start of the development cluster: API server ready, all parts ready, Gatewright installed.

python tests/bench/bench_control_plane.py [--runs N]
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from devcluster import Instance
from devcluster.parts import API_SERVER
from tests.bench.figures import Figure, Result, Say, main

TEXT = """\
From the call that starts a cluster until its API server is ready, until all its parts are (API server, etcd, controllers, node, gateway and Prometheus),
and until the chart is installed and the operator leads. The programs are built, and one start before the first that counts has read them from disk."""


def measure(runs: int, say: Say) -> Result:
    """Times whole starts."""
    server, parts, installed = [], [], []
    for number in range(runs + 1):
        began = time.monotonic()
        with Instance(report=say) as cluster:
            ready = time.monotonic() - began
            # Its own clock begins with etcd; what comes before that is counted in here.
            before = ready - max(cluster.ready_after_seconds.values())
            cluster.install()
            whole = time.monotonic() - began
            if number > 0:
                server.append(before + cluster.ready_after_seconds[API_SERVER])
                parts.append(ready)
                installed.append(whole)
        say(f"start {number} of {runs}: all parts after {ready:.1f} s, installed after {whole:.1f} s")
    return Result(
        title="Start of the development cluster",
        text=TEXT,
        figures=(
            Figure("API server ready", "s", tuple(server), "≤ 5", digits=1),
            Figure("all parts ready", "s", tuple(parts), "≤ 8", digits=1),
            Figure("chart installed, operator leading", "s", tuple(installed), digits=1),
        ),
    )


if __name__ == "__main__":
    raise SystemExit(main(measure, runs=5))
