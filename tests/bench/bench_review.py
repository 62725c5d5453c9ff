"""How long the plugin takes on the way from a HOLD to a decision: holds, review, approve.

python tests/bench/bench_review.py [--runs N]
"""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from devcluster import Instance
from tests.bench.bench_plugin import PLUGIN, timed
from tests.bench.figures import Figure, Result, Say, main
from tests.bench.stage import PATIENCE_SECONDS, gatewright, namespace
from tests.cluster.releases import DOUBTFUL, Release
from tests.cluster.support import kubectl

GOAL = "≤ 180"
REASON = "slow answers come from one report that nobody waits for"

TEXT = """\
A release that its gate can neither prove nor disprove is held; then a reviewer, with a right of their own and none besides, runs `kubectl gate holds -A`, `review`
and `approve --yes`, each a new process, its time taken from start to end. `approve` waits for the operator's answer and for what follows from it. The sum is what the machine
takes of the three minutes in which a person is to find, understand and decide; the rest is theirs to read and think."""


def measure(runs: int, say: Say) -> Result:
    """Walks from a HOLD to its end, once a run, and takes the time of each command."""
    if not PLUGIN.exists():
        raise SystemExit(
            f"There is no {PLUGIN.name} beside this Python: run `make bench`, which installs it."
        )
    with gatewright(say) as cluster:
        where = namespace(cluster, "review")
        shop = Release.create(cluster, where)
        reviewer = person(cluster, where)
        environment = os.environ | {
            "KUBECONFIG": str(reviewer),
            "KUBECTL": str(cluster.program("kubectl")),
            "KUBECACHEDIR": str(cluster.dir / "kubectl-cache"),
            "NO_COLOR": "1",
        }
        seconds: dict[str, list[float]] = {}
        for turn in range(1, runs + 1):
            hold(shop, f"v{turn + 1}")
            for name, spent in walk(where, environment).items():
                seconds.setdefault(name, []).append(spent)
            shop.phase("Idle", timeout=PATIENCE_SECONDS)
            say(f"turn {turn} of {runs}")
    return Result(
        title="From a HOLD to a decision",
        text=TEXT,
        figures=tuple(
            Figure(f"`kubectl gate {name}`" if name != "all" else "all three", "s", tuple(found),
                   GOAL if name == "all" else "")
            for name, found in seconds.items()
        ),
    )  # fmt: skip


def person(cluster: Instance, where: str) -> Path:
    """The kubeconfig of somebody who may decide in one namespace, and see what is held in all."""
    admin = cluster.kubeconfig
    name = "reviewer-a"
    kubectl(["create", "rolebinding", "reviewers", "--clusterrole=gatewright-reviewer", f"--user={name}", "-n", where],
            admin, check=True)  # fmt: skip
    kubectl(
        ["create", "clusterrolebinding", "viewers", "--clusterrole=view", f"--user={name}"], admin, check=True
    )
    return cluster.user(name)


def hold(shop: Release, version: str) -> None:
    """A release that waits for a person."""
    with shop.traffic():
        shop.release(**DOUBTFUL | {"VERSION": version})
        shop.phase("Held", timeout=PATIENCE_SECONDS)


def walk(where: str, environment: Mapping[str, str]) -> dict[str, float]:
    """Seconds of each command on the way, and of all. Raises RuntimeError where one fails."""
    decide = ("--expires", "1h", "--reason", REASON, "--yes")
    commands = {
        "holds": ("holds", "-A"),
        "review": ("review", "checkout", "-n", where),
        "approve": ("approve", "checkout", "-n", where, *decide),
    }
    began = time.perf_counter()
    found = {name: timed((str(PLUGIN), *words), environment) for name, words in commands.items()}
    return found | {"all": time.perf_counter() - began}


if __name__ == "__main__":
    raise SystemExit(main(measure, runs=5))
