"""Cold start of the plugin against kubectl's own.

python tests/bench/bench_plugin.py [--runs N]
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.figures import Figure, Result, Say, main
from tests.bench.stage import gatewright, namespace
from tests.cluster.releases import Release

PLUGIN = Path(sys.executable).parent / "kubectl-gate"
GOAL = "≤ 0.3"

TEXT = """\
Wall-clock time of a whole command, from its start to its end, each a new process; the commands take turns, so that all meet the same
machine, and the first turn does not count. `kubectl gate status` is the same as `kubectl-gate status`, found and started by kubectl as for its users; `kubectl get` of the
Rollout is what no plugin can be faster than that lets kubectl speak to the API server. The cluster has one Rollout, at rest."""


def measure(runs: int, say: Say) -> Result:
    """Times whole commands in turns."""
    if not PLUGIN.exists():
        raise SystemExit(
            f"There is no {PLUGIN.name} beside this Python: run `make bench`, which installs it."
        )
    with gatewright(say) as cluster:
        shop = Release.create(cluster, namespace(cluster, "plugin"))
        kubectl = cluster.program("kubectl")
        where = ("--kubeconfig", str(cluster.kubeconfig), "-n", shop.namespace)
        commands: dict[str, tuple[str, ...]] = {
            "kubectl-gate status": (str(PLUGIN), "status", "checkout", *where),
            "kubectl-gate holds": (str(PLUGIN), "holds", *where),
            "kubectl-gate --help": (str(PLUGIN), "--help"),
            "kubectl gate status": (str(kubectl), "gate", "status", "checkout", *where),
            "kubectl get": (str(kubectl), "get", "rollouts.gatewright.dev", "checkout", *where),
        }
        environment = os.environ | {
            "PATH": f"{PLUGIN.parent}{os.pathsep}{os.environ['PATH']}",
            "KUBECTL": str(kubectl),
            "KUBECACHEDIR": str(cluster.dir / "kubectl-cache"),
            "NO_COLOR": "1",
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for turn in range(runs + 1):
            for name, command in commands.items():
                spent = timed(command, environment)
                if turn > 0:
                    seconds[name].append(spent)
            say(f"turn {turn} of {runs}")
    return Result(
        title="Cold start of the plugin",
        text=TEXT,
        figures=tuple(
            Figure(f"`{name}`", "s", tuple(found), GOAL if name.startswith(PLUGIN.name) else "", digits=3)
            for name, found in seconds.items()
        ),
    )


def timed(command: tuple[str, ...], environment: Mapping[str, str]) -> float:
    """Seconds that a command takes. Raises RuntimeError with its own words when it fails."""
    began = time.perf_counter()
    run = subprocess.run(
        command,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    spent = time.perf_counter() - began
    if run.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {run.returncode}: {run.stderr or run.stdout}")
    return spent


if __name__ == "__main__":
    raise SystemExit(main(measure, runs=15))
