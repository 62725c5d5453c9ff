"""Seconds from the decision, and from the first failing scrape, until all traffic is back on stable.

python tests/bench/bench_restore.py [--runs N]
"""

import itertools
import json
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from devcluster import Instance
from tests.bench.audit import AuditLog, Request
from tests.bench.figures import Figure, Result, Say, main
from tests.bench.stage import PATIENCE_SECONDS, gatewright, namespace
from tests.bench.timed_traffic import TimedTraffic
from tests.cluster.checkout import RATE, contract
from tests.cluster.releases import Release
from tests.cluster.support import Manifest, eventually

DECISION = "decision → restoring write, all cases"
"""Name of that figure, by which the report finds it."""
ERROR_RATE = "0.9"
HEALTHY_IN_GATE_SECONDS = 4.0
"""A version that turns bad does so not before its gate has watched it for this long."""
WATCHED_AFTERWARDS_SECONDS = 2.0
"""How long the load generator goes on, to see whether anything still meets the refused version."""
NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))

TEXT = """\
Two stable pods, traffic by `gatewayAPI`, one canary at weight 50, 150 requests a second through Envoy; nine requests in ten fail at the
canary, either from its first one on or some seconds into its gate. `totalFailure.for` is three scrapes, the least that the rule takes:
3 s at scrapes of 1 s, with windows of 2 s, and 15 s (the default) at scrapes of 5 s, with windows of 10 s; warm-up 1 s. *Decision* is the
`finishedAt` of the verdict, which is when the operator began its look, before it asked Prometheus; the *restoring write* is the HTTPRoute's, as it reached the API
server. *First failing scrape* is the time of the first sample in which Prometheus has a failed request of the canary; *restored* is the
last answer of the canary that the load generator got. A canary that is bad from the start is not judged before the weight's propagation
(3 s) and the warm-up are over; these are part of its time."""


class TooEarly(Exception):
    """The version turned bad before its gate had begun: this machine was busier than a moment ago."""


@dataclass(frozen=True)
class Case:
    """How the version fails, and how often Prometheus looks."""

    name: str
    scrape_seconds: int
    turns_bad: bool

    @property
    def steps(self) -> list[Manifest]:
        """One weight and a gate that is long enough never to end before the failure is found."""
        window = 2 * self.scrape_seconds
        gate: Manifest = {
            "warmup": "1s",
            "duration": "120s",
            "maxDuration": "240s",
            "window": f"{window}s",
            "interval": f"{self.scrape_seconds}s",
        }
        return [{"setWeight": 50}, {"gate": gate}]

    @property
    def figure(self) -> str:
        """Name of the figure that matters to users."""
        return f"first failing scrape → restored; {self.in_words}"

    @property
    def in_words(self) -> str:
        how = "turns bad in its gate" if self.turns_bad else "bad from the start"
        return f"{how}, scrapes of {self.scrape_seconds} s"

    @property
    def contract(self) -> Manifest:
        return contract(
            totalFailure={"badRatio": 0.5, "for": f"{3 * self.scrape_seconds}s"},
            # One bad version after the other is what is measured here.
            attempts={"budget": 100},
        )


CASES = (
    Case("bad-at-once", 1, turns_bad=False),
    Case("turns-bad", 1, turns_bad=True),
    Case("bad-at-once", 5, turns_bad=False),
    Case("turns-bad", 5, turns_bad=True),
)


@dataclass(frozen=True)
class Restore:
    """When what happened in one rollback, in seconds since 1970."""

    first_failing_scrape: float
    decision: float
    verdict_write: float
    restoring_write: float
    last_canary_answer: float
    failed_requests: int

    @property
    def restored(self) -> float:
        """When both had happened: the write, and the last answer of the refused version."""
        return max(self.restoring_write, self.last_canary_answer)


def measure(runs: int, say: Say) -> Result:
    """Times the way back of versions that fail most requests."""
    found: dict[Case, list[Restore]] = {}
    for scrape_seconds in sorted({case.scrape_seconds for case in CASES}):
        with gatewright(say, scrape_interval_seconds=scrape_seconds) as cluster:
            for case in (one for one in CASES if one.scrape_seconds == scrape_seconds):
                found[case] = list(rollbacks(cluster, case, runs, say))
    every = [restore for restores in found.values() for restore in restores]
    return Result(
        title="From a failing version back to stable",
        text=TEXT,
        figures=(
            Figure(
                DECISION,
                "s",
                tuple(one.restoring_write - one.decision for one in every),
                "≤ 0.3",
                digits=3,
            ),
            Figure(
                "write of the verdict → restoring write, all cases",
                "s",
                tuple(one.restoring_write - one.verdict_write for one in every),
                digits=3,
            ),
            Figure(
                "restoring write → restored, all cases",
                "s",
                tuple(one.restored - one.restoring_write for one in every),
                digits=3,
            ),
            *(figure for case, restores in found.items() for figure in of_case(case, restores)),
        ),
    )


def of_case(case: Case, restores: list[Restore]) -> Iterator[Figure]:
    goal = "≤ 6 (`for` + 3)" if case.scrape_seconds == 1 else ""
    seconds = tuple(one.restored - one.first_failing_scrape for one in restores)
    yield Figure(case.figure, "s", seconds, goal)
    failed = tuple(float(one.failed_requests) for one in restores)
    yield Figure(f"requests that failed; {case.in_words}", "requests", failed, digits=0)


def rollbacks(cluster: Instance, case: Case, runs: int, say: Say) -> Iterator[Restore]:
    """`runs` rollbacks of one service, each of a new version."""
    shop = Release.create(
        cluster, namespace(cluster, case.name), steps=case.steps, contract_spec=case.contract
    )
    delay_seconds = first_gate_seconds(shop) + HEALTHY_IN_GATE_SECONDS if case.turns_bad else 0.0
    numbers = itertools.count(3)
    for number in range(1, runs + 1):
        restore = None
        while restore is None:
            try:
                restore = rollback(shop, f"v{next(numbers)}", delay_seconds)
            except TooEarly:
                delay_seconds += HEALTHY_IN_GATE_SECONDS
        say(
            f"{case.name} at {case.scrape_seconds} s, {number} of {runs}: "
            f"decision → write {restore.restoring_write - restore.decision:.3f} s, "
            f"first failing scrape → restored {restore.restored - restore.first_failing_scrape:.2f} s"
        )
        yield restore


def first_gate_seconds(shop: Release) -> float:
    """Seconds from a canary pod's start to the beginning of its gate here, learned from a version that is aborted."""
    with TimedTraffic(shop.cluster.gateway_url, shop.host, RATE):
        shop.release(VERSION="v2")
        shop.phase("Progressing", step=1, timeout=PATIENCE_SECONDS)
        run = current_run(shop)
        pods = shop.all("pods", "gatewright.dev/rollout=checkout")
        began = min(seconds_of(pod["status"]["startTime"]) for pod in pods)
        assert shop.order("Abort").ok
        shop.phase("RolledBack", timeout=PATIENCE_SECONDS)
    return seconds_of(run["spec"]["clock"]["startsAt"]) - began


def rollback(shop: Release, version: str, delay_seconds: float) -> Restore:
    """Releases a version that fails, `delay_seconds` after its pod started, and watches it go."""
    with TimedTraffic(shop.cluster.gateway_url, shop.host, RATE) as traffic:
        log = AuditLog(shop.cluster.audit_log)
        before, released = rejected_revision(shop.status), time.time()
        shop.release(VERSION=version, ERROR_RATE=ERROR_RATE, ERROR_AFTER_SECONDS=f"{delay_seconds:.1f}")
        status = refused(shop, but_not=before)
        answered = traffic.answers_of(version)
        time.sleep(WATCHED_AFTERWARDS_SECONDS)
        report = traffic.report()
        if traffic.answers_of(version) != answered:
            raise RuntimeError("the refused version still got requests after the Rollout was RolledBack")
        last_answer = traffic.last_answer_of(version)
    if status["rejected"]["reason"] not in ("TotalFailure", "BreachAbsolute"):
        raise RuntimeError(f"it was refused for another reason: {status['rejected']}")
    run = current_run(shop)
    verdict = run["status"].get("breach") or run["status"]["verdict"]
    first_failing = first_failing_scrape(shop, released)
    gate_began = seconds_of(run["spec"]["clock"]["startsAt"])
    if delay_seconds and first_failing < gate_began:
        raise TooEarly
    verdict_write = log.first(lambda one: is_verdict(one, run["metadata"]["name"]))
    restoring = log.first(
        lambda one: one.resource == "httproutes" and one.is_write and one.code == 200, after=verdict_write.at
    )
    return Restore(
        first_failing_scrape=first_failing,
        decision=seconds_of(verdict["finishedAt"]),
        verdict_write=verdict_write.at,
        restoring_write=restoring.at,
        last_canary_answer=last_answer,
        failed_requests=report.failed,
    )


def rejected_revision(status: Manifest) -> str:
    """The revision that was refused last; empty when none was."""
    return str((status.get("rejected") or {}).get("revision", ""))


def refused(shop: Release, but_not: str) -> Any:
    """The Rollout's status as soon as it has gone back from another revision than the one refused before."""

    def back() -> Any:
        status = shop.status
        phase = status.get("phase")
        if phase == "Held":
            raise RuntimeError(f"the failing version is held: {status.get('message')}")
        assert phase == "RolledBack", f"phase {phase} at step {status.get('currentStep')}"
        assert rejected_revision(status) != but_not, "the new version has not started yet"
        return status

    return eventually(back, PATIENCE_SECONDS, "the failing version is refused")


def is_verdict(request: Request, run: str) -> bool:
    """Whether it wrote the run's verdict: the only thing that is ever written there."""
    return request.resource == "gateruns/status" and request.name == run and request.code == 200


def current_run(shop: Release) -> Any:
    """The GateRun that was created last."""

    def newest() -> Any:
        runs = shop.all("gateruns")
        return max(runs, key=lambda run: run["spec"]["clock"]["weightAt"], default=None)

    return eventually(newest, 30, "there is a GateRun")


def first_failing_scrape(shop: Release, since: float) -> float:
    """The time of the first sample after `since` that shows a failed request of the canary."""
    selector = f'http_requests_total{{namespace="{shop.namespace}",pod=~"checkout-canary-.*",code=~"5.."}}'
    seconds = int(time.time() - since) + 1
    query = urllib.parse.urlencode({"query": f"{selector}[{seconds}s]"})
    with NO_PROXY.open(f"{shop.cluster.prometheus_url}/api/v1/query?{query}", timeout=10) as answer:
        series = json.load(answer)["data"]["result"]
    samples = ((at, float(value)) for one in series for at, value in one["values"])
    return min(float(at) for at, value in samples if value > 0 and at > since)


def seconds_of(time_stamp: str) -> float:
    """Seconds since 1970 of a time as the API writes it."""
    return datetime.fromisoformat(time_stamp).timestamp()


if __name__ == "__main__":
    raise SystemExit(main(measure, runs=5))
