"""API writes and reads of a whole promotion over three weights, with and without a bake.

python tests/bench/bench_api_calls.py [--runs N]
"""

import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from devcluster import Instance
from tests.bench.audit import AuditLog, Request, by_kind
from tests.bench.figures import Figure, Result, Say, Table, main
from tests.bench.stage import gatewright, namespace, wait_until_promoted
from tests.cluster.checkout import check, contract
from tests.cluster.releases import Release
from tests.cluster.support import Manifest

WRITES, READS = "writes", "reads"
"""Names of the figures without a bake, by which the report finds them."""
PODS = 5
WEIGHTS = (20, 40, 60)
# Long enough at most for a machine that is busy: a gate that ran out of time would hold.
GATE: Manifest = {"warmup": "1s", "duration": "4s", "maxDuration": "30s", "window": "2s", "interval": "1s"}
BAKE: Manifest = {"warmup": "1s", "duration": "4s", "window": "2s", "interval": "1s"}
STEPS: list[Manifest] = [step for weight in WEIGHTS for step in ({"setWeight": weight}, {"gate": GATE})]
RATE = 200.0

TEXT = """\
A whole promotion: a Deployment of five pods, traffic by `gatewayAPI`, weights 20, 40 and 60 %, a gate of four seconds after
each, real requests through Envoy; from the change of the template until the Rollout is at rest and the operator has
been silent for three seconds. Counted in the API server's audit log are all requests of the operator's service account that
were answered, refused ones too; reads are get and list; watches and the renewal of the operator's own Lease are aside. One release
goes before the first that counts. A release that meets the operator's full re-list, every five minutes, shows its reads in the maximum."""


def measure(runs: int, say: Say) -> Result:
    """Counts the operator's requests during whole releases."""
    with gatewright(say) as cluster:
        plain = list(releases(cluster, "plain", runs, say))
        baked = list(releases(cluster, "baked", runs, say, bake=BAKE))
    return Result(
        title="API requests of a release",
        text=TEXT,
        figures=(
            *figures("", plain, writes_goal="≤ 50", reads_goal="≤ 10"),
            *figures(" with a bake", baked),
        ),
        tables=(
            breakdown("Writes and reads by kind, without a bake (median of the releases):", plain),
            breakdown("The same with a bake:", baked),
        ),
    )


def releases(
    cluster: Instance, name: str, runs: int, say: Say, bake: Manifest | None = None
) -> Iterator[list[Request]]:
    """The operator's requests in each of `runs` promotions, after one that does not count."""
    stages = ("Canary", "Bake") if bake else ("Canary",)
    also: dict[str, Any] = {"bake": bake} if bake else {}
    shop = Release.create(
        cluster,
        namespace(cluster, name),
        steps=STEPS,
        replicas=PODS,
        contract_spec=contract([check(stages=stages)]),
        **also,
    )
    with shop.traffic(rate=RATE):
        for number in range(runs + 1):
            before = shop.status
            log = AuditLog(cluster.audit_log)
            shop.release(VERSION=f"v{number + 2}")
            wait_until_promoted(shop, before)
            shop.clean_at_rest()
            requests = log.when_quiet()
            writes, reads = counts([requests], writes=True), counts([requests], writes=False)
            say(f"{name} release {number} of {runs}: {writes[0]:.0f} writes, {reads[0]:.0f} reads")
            if number > 0:
                yield requests


def counts(found: Sequence[Sequence[Request]], *, writes: bool) -> tuple[float, ...]:
    """How many writes (or reads) each release took."""
    return tuple(float(sum(one.is_write == writes for one in requests)) for requests in found)


def figures(
    what: str, found: list[list[Request]], writes_goal: str = "", reads_goal: str = ""
) -> Iterator[Figure]:
    conflicts = tuple(float(sum(one.code == 409 for one in requests)) for requests in found)
    yield Figure(f"{WRITES}{what}", "requests", counts(found, writes=True), writes_goal, digits=0)
    yield Figure(f"{WRITES}{what}, refused with 409", "requests", conflicts, digits=0)
    yield Figure(f"{READS}{what}", "requests", counts(found, writes=False), reads_goal, digits=0)


def breakdown(caption: str, found: list[list[Request]]) -> Table:
    """Medians per verb and resource, the most frequent first."""
    each = [by_kind(requests) for requests in found]
    kinds = sorted({kind for one in each for kind in one})
    medians = {kind: statistics.median(one[kind] for one in each) for kind in kinds}
    ordered = sorted((kind for kind in kinds if medians[kind] > 0), key=lambda kind: -medians[kind])
    return Table(
        caption,
        ("requests", "verb", "resource"),
        tuple((f"{medians[kind]:g}", *kind) for kind in ordered),
    )


if __name__ == "__main__":
    raise SystemExit(main(measure, runs=3))
