"""A world for tests of evidence: pods that count requests, scraped into a FakeReader; and a collector that
looks at it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from gatewright_analysis.evidence.collector import Collector
from gatewright_analysis.evidence.model import Tick, Window
from gatewright_analysis.kinds.contract import Evidence
from gatewright_analysis.kinds.run import ArmRef
from gatewright_analysis.kinds.source import Arms, ArmsBy, MetricSourceSpec, Producer
from gatewright_analysis.providers.fake import FakeReader

T0 = 1_700_000_000.0
NAMESPACE = "shop"
CANARY = ArmRef(pod_prefix="checkout-canary-5d9c7-", revision="0123456789", service="checkout-canary")
STABLE = ArmRef(pod_prefix="checkout-6b8f4-", revision="abcdef0123", service="checkout")
COUNTS = Evidence.model_validate(
    {
        "stages": ["Canary"],
        "counts": {
            "source": "prometheus",
            "bad": ['http_requests_total{code=~"5.."}'],
            "total": ["http_requests_total"],
        },
    }
)
LATENCY = Evidence.model_validate(
    {
        "stages": ["Canary"],
        "latency": {"source": "prometheus", "histogram": "http_request_duration_seconds", "le": 0.5},
    }
)
SAMPLES = Evidence.model_validate(
    {
        "stages": ["Canary"],
        "samples": {
            "source": "prometheus",
            "passed": ['judge_verdicts_total{verdict="faithful"}'],
            "total": ["judge_verdicts_total"],
        },
    }
)


def source(by: ArmsBy = ArmsBy.POD_NAME, label: str = "pod", interval: float = 1.0) -> MetricSourceSpec:
    return MetricSourceSpec(
        address="http://127.0.0.1:9090",
        scrape_interval=timedelta(seconds=interval),
        arms=Arms(by=by, label=label),
        producer=Producer.WORKLOAD,
    )


def collector(evidence: Evidence = COUNTS, **changes: Any) -> Collector:
    """A collector with 10 s windows and 1 s scrapes, unless `changes` say otherwise."""
    return Collector(
        **{
            "evidence": evidence,
            "source": source(),
            "namespace": NAMESPACE,
            "canary": CANARY,
            "stable": STABLE,
            "weight": 20,
            "t0": T0,
            "window_seconds": 10.0,
            "for_seconds": 5.0,
            **changes,
        }
    )


@dataclass
class Pod:
    """One process: its counters live in it and die with it. `offset` is when in each interval it is scraped."""

    name: str
    offset: float = 0.5
    labels: dict[str, str] = field(default_factory=dict)
    counters: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)

    def count(self, metric: str, amount: float = 1, **labels: str) -> None:
        key = metric, tuple(sorted(labels.items()))
        self.counters[key] = self.counters.get(key, 0) + amount

    def requests(self, ok: int = 0, failed: int = 0) -> None:
        if ok:
            self.count("http_requests_total", ok, code="200")
        if failed:
            self.count("http_requests_total", failed, code="500")

    def restart(self) -> None:
        self.counters = {}

    def scrape_into(self, reader: FakeReader, at: float) -> None:
        own = {
            "namespace": NAMESPACE, "job": "pods", "instance": f"{self.name}:8080", "pod": self.name, **self.labels,
        }  # fmt: skip
        for (metric, labels), value in self.counters.items():
            reader.put(metric, {**own, **dict(labels)}, at, value)


def canary_pod(suffix: str = "aaaaa", **fields: Any) -> Pod:
    return Pod(f"{CANARY.pod_prefix}{suffix}", **fields)


def stable_pod(suffix: str = "zzzzz", **fields: Any) -> Pod:
    return Pod(f"{STABLE.pod_prefix}{suffix}", **fields)


def run_seconds(reader: FakeReader, pods: Iterable[tuple[Pod, int, int]], start: int, end: int) -> None:
    """Seconds `start` to `end` after T0: in each, every pod serves (ok, failed) requests and is scraped once."""
    pods = list(pods)
    for second in range(start, end):
        for pod, ok, failed in pods:
            pod.requests(ok, failed)
            pod.scrape_into(reader, T0 + second + pod.offset)


def look(own: Collector, reader: FakeReader, now: float, **absorb: Any) -> tuple[Window, ...]:
    """One look at `now` seconds after T0: ask, read, take in, and give the new closed windows."""
    questions = own.questions(T0 + now)
    own.absorb({question: reader.read(question) for question in questions}, **absorb)
    return own.windows()


def ticks_by_end(ticks: tuple[Tick, ...]) -> dict[float, Tick]:
    return {round(tick.end, 3): tick for tick in ticks}
