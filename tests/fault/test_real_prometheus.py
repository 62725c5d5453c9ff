"""Against a real Prometheus that scrapes every second: what is read is what the pods counted, no more and no
less.
"""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from devcluster import binaries
from devcluster.ports import free_ports
from devcluster.prometheus import scrape_interval
from gatewright_analysis.evidence.collector import Collector
from gatewright_analysis.evidence.model import Counts, Fault, Window
from gatewright_analysis.evidence.question import Answered, Question
from gatewright_analysis.kinds.contract import Evidence
from gatewright_analysis.providers.prometheus import PrometheusReader
from gatewright_analysis.reasons import Reason
from tests.unit.evidence_world import CANARY, COUNTS, NAMESPACE, STABLE, collector
from tests.unit.http_source import Asked, Reply, serving

pytestmark = pytest.mark.cluster

WINDOW = 5.0
LATENCY = Evidence.model_validate(
    {
        "stages": ["Canary"],
        "latency": {"source": "prometheus", "histogram": "http_request_duration_seconds", "le": 1.0},
    }
)


@dataclass
class Exporter:
    """A pod that shows its counters: requests by code, and a histogram in which failed requests are slow."""

    pod: str
    codes: dict[str, int] = field(default_factory=dict)
    scrapes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, ok: int = 0, failed: int = 0, *, restarted: bool = False) -> None:
        """Count these at once; a restarted process has forgotten what it counted before."""
        with self.lock:
            if restarted:
                self.codes = {}
            for code, amount in (("200", ok), ("500", failed)):
                if amount:
                    self.codes[code] = self.codes.get(code, 0) + amount

    def answer(self, asked: Asked) -> Reply:
        with self.lock:
            self.scrapes += 1
            ok, failed = self.codes.get("200", 0), self.codes.get("500", 0)
            lines = ["# TYPE http_requests_total counter"]
            lines += [f'http_requests_total{{code="{code}"}} {count}' for code, count in self.codes.items()]
        lines += [
            "# TYPE http_request_duration_seconds histogram",
            f'http_request_duration_seconds_bucket{{le="0.25"}} {ok}',
            f'http_request_duration_seconds_bucket{{le="1"}} {ok}',
            f'http_request_duration_seconds_bucket{{le="+Inf"}} {ok + failed}',
            f"http_request_duration_seconds_sum {ok * 0.1 + failed * 3.0}",
            f"http_request_duration_seconds_count {ok + failed}",
        ]
        return Reply(
            body=("\n".join(lines) + "\n").encode(), headers={"Content-Type": "text/plain; version=0.0.4"}
        )


class Prometheus:
    """The program, its data folder and a reader for it; `start` and `stop` may come in turns."""

    def __init__(self, program: Path, folder: Path, targets: dict[str, str]) -> None:
        (port,) = free_ports(1)
        self.folder = folder
        jobs = "".join(
            f"  - targets: [{address.removeprefix('http://')}]\n    labels: {{namespace: {NAMESPACE}, pod: {pod}}}\n"
            for pod, address in targets.items()
        )
        (folder / "prometheus.yml").write_text(
            f"global: {{scrape_interval: {scrape_interval(1.0)}, scrape_timeout: {scrape_interval(1.0)}}}\n"
            f"scrape_configs:\n- job_name: pods\n  static_configs:\n{jobs}"
        )
        self._command = [
            str(program),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self.reader = PrometheusReader(f"http://127.0.0.1:{port}", timeout_seconds=5.0)

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(5)
            self._process = None

    def newest(self, selector: str) -> float | None:
        """Time of the newest sample of the last minute, None when there is none or nobody answers."""
        now = time.time()
        answer = self.reader.read(Question("prometheus", f"{selector}[60000ms]", now, now - 60))
        if not isinstance(answer, Answered):
            return None
        return max((sample.at for series in answer.series for sample in series.samples), default=None)


@contextmanager
def scraped(folder: Path) -> Iterator[tuple[Prometheus, Exporter, Exporter]]:
    """A Prometheus that scrapes one canary and one stable pod."""
    program = binaries.ensure("prometheus", report=print)["prometheus"]
    canary, stable = Exporter(f"{CANARY.pod_prefix}aaaaa"), Exporter(f"{STABLE.pod_prefix}zzzzz")
    for pod in (canary, stable):
        pod.serve(ok=1000)
    with serving(canary.answer) as first, serving(stable.answer) as second:
        prometheus = Prometheus(program, folder, {canary.pod: first.address, stable.pod: second.address})
        prometheus.start()
        try:
            yield prometheus, canary, stable
        finally:
            prometheus.stop()
            prometheus.reader.close()


def wait_for(what: str, condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain for {what}"
        time.sleep(0.05)


def look(own: Collector, prometheus: Prometheus) -> tuple[Window, ...]:
    questions = own.questions(time.time())
    own.absorb({question: prometheus.reader.read(question) for question in questions})
    return own.windows()


def test_counts_are_what_the_pods_counted_through_restarts_new_labels_and_a_hole(tmp_path: Path) -> None:
    with scraped(tmp_path) as (prometheus, canary, stable):
        wait_for("first scrapes of both pods", lambda: prometheus.newest("http_requests_total") is not None)
        wait_for("two scrapes of each pod", lambda: min(canary.scrapes, stable.scrapes) >= 2)
        t0 = time.time() + 0.3

        def begin(evidence: Evidence = COUNTS) -> Collector:
            return collector(evidence, t0=t0, window_seconds=WINDOW, for_seconds=2.0)

        own = begin()
        seen: list[Window] = []

        def live_until(offset: float) -> None:
            """Look again and again until so many seconds after t0, as an operator does."""
            while time.time() < t0 + offset:
                seen.extend(look(own, prometheus))
                time.sleep(0.2)

        def windows_to(count: int) -> None:
            """Look until so many windows are closed."""

            def enough() -> bool:
                seen.extend(look(own, prometheus))
                return len(seen) >= count

            wait_for(f"{count} closed windows", enough, (count - len(seen)) * WINDOW + 20)

        # Everything happens in the middle of a window, two scrapes away from its ends.
        live_until(0.5 * WINDOW)
        canary.serve(ok=30)
        stable.serve(ok=50)
        live_until(1.5 * WINDOW)
        canary.serve(ok=20, failed=7)  # the first of their label
        stable.serve(ok=40, failed=1)
        live_until(2.5 * WINDOW)
        canary.serve(ok=11, failed=3, restarted=True)
        windows_to(4)
        windows = [
            (Counts(30, 0), Counts(50, 0)), (Counts(20, 7), Counts(40, 1)), (Counts(11, 3), Counts(0, 0)),
            (Counts(0, 0), Counts(0, 0)),
        ]  # fmt: skip
        assert [window.fault for window in seen[:4]] == [None] * 4
        assert [(window.canary, window.stable) for window in seen[:4]] == windows
        assert seen[2].resets > 0
        assert sum((tick.canary for tick in own.ticks(time.time())), Counts(0, 0)).bad == 10

        by_bucket = look(begin(LATENCY), prometheus)  # exposed as le="1", stored as le="1.0"
        assert [(window.canary, window.stable) for window in by_bucket[:4]] == windows

        # Prometheus goes away for more than two scrapes; what the pods count meanwhile can't be placed.
        prometheus.stop()
        stopped_in = int((time.time() - t0) // WINDOW)
        canary.serve(ok=500)
        live_until(time.time() - t0 + 3.5)
        fault = own.fault
        assert isinstance(fault, Fault)
        assert fault.reason is Reason.UNREACHABLE
        prometheus.start()
        wait_for(
            "scrapes after the restart",
            lambda: (prometheus.newest("http_requests_total") or 0) > time.time() - 1,
        )
        back_in = int((time.time() - t0) // WINDOW)
        live_until((back_in + 1.5) * WINDOW)
        canary.serve(ok=5, failed=2)
        windows_to(back_in + 2)

        after = {window.index: window for window in seen}
        holes = {window.index: window.fault.reason for window in seen if window.fault is not None}
        assert set(holes.values()) == {Reason.SCRAPE_GAP}
        assert set(holes) <= set(range(stopped_in, back_in + 1))
        assert after[back_in + 1].canary == Counts(5, 2)
        assert [window.index for window in seen] == list(range(len(seen)))

        # An operator that starts only now asks the same questions and finds the same windows.
        assert look(begin(), prometheus)[: len(seen)] == tuple(seen)


def test_the_real_api_tells_faults_apart(tmp_path: Path) -> None:
    with scraped(tmp_path) as (prometheus, _, _):
        wait_for("a scrape", lambda: prometheus.newest("up") is not None)
        now = time.time()
        reads = {
            query: prometheus.reader.read(Question("prometheus", query, now, now - 60))
            for query in ("up[60s", "up", "1", '"text"', "absent_total[60s]")
        }
        reasons = {query: answer.reason for query, answer in reads.items() if isinstance(answer, Fault)}
        assert reasons == {
            "up[60s": Reason.CLIENT_ERROR,
            "up": Reason.WRONG_RESULT_TYPE,
            "1": Reason.WRONG_RESULT_TYPE,
            '"text"': Reason.WRONG_RESULT_TYPE,
        }
        assert reads["absent_total[60s]"] == Answered(())
