"""Against a real Prometheus: gauges are as old as they may be, and native histograms are counted like classic ones."""

import math
import time
from pathlib import Path
from typing import Any

import pytest

from gatewright_analysis.evidence.gauges import GaugeCollector
from gatewright_analysis.evidence.model import Counts, Window
from gatewright_analysis.evidence.question import Answered, Expect, Question
from gatewright_analysis.kinds.contract import Evidence
from gatewright_analysis.reasons import Reason
from tests.fault.prometheus_process import Prometheus, prometheus_program, scraped, wait_for
from tests.unit.evidence_world import CANARY, NAMESPACE, STABLE, collector, source

pytestmark = pytest.mark.cluster

WINDOW = 2.0
NAME = "http_request_duration_seconds"


def gauge(query: str, **fields: Any) -> Evidence:
    value = {"source": "prometheus", "query": query, "max": 100.0, "spacing": "2s"} | fields
    return Evidence.model_validate({"stages": ["Canary"], "value": value})


def latency(le: float) -> Evidence:
    return Evidence.model_validate(
        {"stages": ["Canary"], "latency": {"source": "prometheus", "histogram": NAME, "le": le}}
    )


def gauges(evidence: Evidence, t0: float) -> GaugeCollector:
    return GaugeCollector(
        evidence=evidence,
        source=source(),
        namespace=NAMESPACE,
        canary=CANARY,
        t0=t0,
        window_seconds=WINDOW,
    )


def read(own: GaugeCollector, prometheus: Prometheus, now: float) -> list[float | Reason | None]:
    """The values or reasons of all windows that have closed by `now`, late data waited for no longer."""
    answers = {question: prometheus.reader.read(question) for question in own.questions(now)}
    own.absorb(answers, now + 10)
    return [one.value if one.fault is None else one.fault.reason for one in own.windows()]


def test_a_gauge_is_read_for_its_arm_alone_and_from_fresh_samples_only(tmp_path: Path) -> None:
    with scraped(tmp_path) as (prometheus, canary, stable):
        canary.queue_depth, stable.queue_depth = "7", "5000"
        # A sample with a time of its own gets no stale marker: only how far is looked back tells its age.
        canary.more = f"# TYPE stuck gauge\nstuck 3 {round((time.time() - 1) * 1000)}"
        wait_for("a first sample", lambda: prometheus.newest("stuck") is not None)
        wait_for("three more scrapes", lambda: min(canary.scrapes, stable.scrapes) >= 5)
        t0 = time.time() - WINDOW - 1

        def now(query: str, at: float = t0, **fields: Any) -> list[float | Reason | None]:
            return read(gauges(gauge(query, **fields), at), prometheus, at + WINDOW + 1)

        assert now("queue_depth{$arm}") == [7.0]
        assert now("sum(queue_depth{$arm}) / 2") == [3.5]
        assert now("queue_depth{$arm}", scope="Workload") == [Reason.UNEXPECTED_SERIES]
        assert now("queue_depth{$arm}", scope="Workload", aggregate="Sum") == [5007.0]
        assert now("queue_depth{$arm} / 0") == [Reason.INFINITE]
        assert now("(queue_depth{$arm} - 7) / 0") == [Reason.NOT_A_NUMBER]
        assert now("absent_gauge{$arm}") == [Reason.NO_DATA]
        assert now("queue_depth{$arm}[5s]") == [Reason.WRONG_RESULT_TYPE]
        assert now('label_replace(queue_depth{$arm}, "a", "b", "pod", ".*")') == [7.0]

        wait_for("the stuck sample to be old", lambda: time.time() > (prometheus.newest("stuck") or 0) + 4)
        at = time.time()
        plain = Question("prometheus", "stuck", at, at, Expect.VALUE)
        assert isinstance(prometheus.reader.read(plain), Answered), (
            "Prometheus itself looks back five minutes"
        )
        assert now("stuck{$arm}", at - WINDOW) == [Reason.NO_DATA]
        assert now("max_over_time(stuck{$arm}[1m])", at - WINDOW) == [Reason.STALE]

        # A pod that can't be scraped any more has no value, also where a longer range still shows one.
        before = time.time()
        canary.down = True
        wait_for("scrapes that fail", lambda: time.time() > before + 4)
        at = time.time()
        assert now("queue_depth{$arm}", at - WINDOW) == [Reason.NO_DATA]
        assert now("max_over_time(queue_depth{$arm}[1m])", at - WINDOW) == [Reason.STALE]
        assert now("queue_depth{$arm}", before - 1 - WINDOW) == [7.0], "what was read then is read again"


@pytest.mark.parametrize("both", [False, True], ids=["native-alone", "classic-too"])
def test_native_histograms_with_custom_buckets_are_counted(tmp_path: Path, both: bool) -> None:
    """Prometheus makes them of the pods' classic ones."""
    scrape = "  convert_classic_histograms_to_nhcb: true\n"
    scrape += "  always_scrape_classic_histograms: true\n" if both else ""
    with scraped(tmp_path, scrape=scrape) as (prometheus, canary, stable):
        canary.serve(failed=10)
        wait_for("two scrapes of each pod", lambda: min(canary.scrapes, stable.scrapes) >= 2)
        t0 = time.time() + 0.3
        window = 4.0
        wait_for("the middle of the window", lambda: time.time() > t0 + window / 2)
        canary.serve(ok=30, failed=3)
        stable.serve(ok=50)

        def look(le: float) -> tuple[Window, ...]:
            own = collector(latency(le), t0=t0, window_seconds=window)
            for _ in range(2):  # where no bucket ends at le, the second look learns where they do
                own.absorb({q: prometheus.reader.read(q) for q in own.questions(time.time())})
            return own.windows()

        wait_for("a closed window", lambda: bool(look(1.0)))
        (first, *_) = look(1.0)
        assert (first.canary, first.stable, first.fault) == (Counts(30, 3), Counts(50, 0), None)
        classic = prometheus.newest(f"{NAME}_count") is not None
        assert classic is both
        if not both:
            # Nothing was ever between 0.25 and 1, so any le there divides no request.
            (between, *_) = look(0.5)
            assert (between.canary, between.fault) == (Counts(30, 3), None)
        (beyond, *_) = look(5.0)
        assert beyond.fault is not None
        assert beyond.fault.reason is Reason.BUCKET_RESOLUTION
        assert "are 1;" in beyond.fault.detail


def test_exponential_histograms_are_counted_through_resets_and_coarser_buckets(tmp_path: Path) -> None:
    """Pushed with times of their own, by OTLP: a minute of scrapes at once."""
    prometheus = Prometheus(prometheus_program(), tmp_path, {}, "--web.enable-otlp-receiver")
    prometheus.start()
    try:
        ready = Question("prometheus", "vector(1)", time.time(), 0.0, Expect.VALUE)
        wait_for("an answer", lambda: isinstance(prometheus.reader.read(ready), Answered))
        t0 = math.floor(time.time()) - 45.0
        pods = f"{CANARY.pod_prefix}aaaaa", f"{STABLE.pod_prefix}zzzzz"
        points: list[dict[str, Any]] = []
        for pod in pods:
            fast, slow = (2, 1) if pod == pods[0] else (8, 0)
            for second in range(-20, 42):
                # Two buckets below 1 s, and one from 2 s to 4 s; the process begins anew at 15 s.
                passed = second + 21 if second < 15 else second - 14
                buckets = [fast * passed, 0, 0, slow * passed]  # from 0.5, 1, 2 and 4 s on down
                scale, offset = 0, -2
                if second >= 25:  # 4^-1 to 1 s, and 1 s to 4 s
                    buckets, scale, offset = [sum(buckets[:2]), sum(buckets[2:])], -1, -1
                points.append(_point(pod, t0 + second + 0.5, scale, offset, buckets))
        prometheus.push(_metric(points))

        def look(le: float) -> tuple[Window, ...]:
            own = collector(latency(le), t0=t0, window_seconds=10.0)
            own.absorb({q: prometheus.reader.read(q) for q in own.questions(t0 + 41.5)})
            return own.windows()

        windows = look(1.0)
        assert [(one.canary, one.stable, one.fault) for one in windows] == [
            (Counts(20, 10), Counts(80, 0), None)
        ] * 4
        assert [one.resets for one in windows] == [0, 2, 0, 0]
        coarse = look(0.5)
        assert [one.fault and one.fault.reason for one in coarse] == [
            None,
            None,
            Reason.BUCKET_RESOLUTION,
            Reason.BUCKET_RESOLUTION,
        ]
        assert coarse[2].fault is not None
        assert "0.25 and 1;" in coarse[2].fault.detail
    finally:
        prometheus.stop()
        prometheus.reader.close()


def _point(pod: str, at: float, scale: int, offset: int, buckets: list[int]) -> dict[str, Any]:
    labels = {"pod": pod, "namespace": NAMESPACE, "instance": f"{pod}:8080"}
    return {
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in labels.items()],
        "startTimeUnixNano": str(round((at - 3600) * 1e9)),
        "timeUnixNano": str(round(at * 1000) * 1_000_000),
        "count": str(sum(buckets)),
        "sum": float(sum(buckets)),
        "scale": scale,
        "zeroCount": "0",
        "positive": {"offset": offset, "bucketCounts": [str(count) for count in buckets]},
    }


def _metric(points: list[dict[str, Any]]) -> dict[str, Any]:
    histogram = {"aggregationTemporality": 2, "dataPoints": points}
    metric = {"name": NAME, "unit": "", "exponentialHistogram": histogram}
    job = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    return {"resourceMetrics": [{"resource": job, "scopeMetrics": [{"metrics": [metric]}]}]}
