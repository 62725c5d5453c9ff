"""A real Prometheus on loopback that scrapes pods which are played here: for tests of what it answers."""

import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devcluster import binaries
from devcluster.ports import free_ports
from devcluster.prometheus import scrape_interval
from gatewright_analysis.evidence.question import Answered, Question
from gatewright_analysis.providers.prometheus import PrometheusReader
from tests.unit.evidence_world import CANARY, NAMESPACE, STABLE
from tests.unit.http_source import Asked, Reply, serving


@dataclass
class Exporter:
    """A pod that shows its counters: requests by code, and a histogram in which failed requests are slow; a gauge where
    it has one, and further lines."""

    pod: str
    queue_depth: str = ""
    more: str = ""
    down: bool = False
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
        if self.down:
            return Reply(500)
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
        lines += ["# TYPE queue_depth gauge", f"queue_depth {self.queue_depth}"] if self.queue_depth else []
        lines += [self.more] if self.more else []
        return Reply(
            body=("\n".join(lines) + "\n").encode(), headers={"Content-Type": "text/plain; version=0.0.4"}
        )


class Prometheus:
    """The program, its data folder and a reader for it; `start` and `stop` may come in turns."""

    def __init__(
        self, program: Path, folder: Path, targets: dict[str, str], *arguments: str, scrape: str = ""
    ) -> None:
        """`scrape` is a line of the scrape configuration."""
        (port,) = free_ports(1)
        self.folder = folder
        jobs = "".join(
            f"  - targets: [{address.removeprefix('http://')}]\n    labels: {{namespace: {NAMESPACE}, pod: {pod}}}\n"
            for pod, address in targets.items()
        )
        (folder / "prometheus.yml").write_text(
            f"global: {{scrape_interval: {scrape_interval(1.0)}, scrape_timeout: {scrape_interval(1.0)}}}\n"
            f"scrape_configs:\n- job_name: pods\n{scrape}  static_configs:\n{jobs}"
        )
        self._command = [
            str(program),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
            *arguments,
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"http://127.0.0.1:{port}"
        self.reader = PrometheusReader(self.address, timeout_seconds=5.0)

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

    def push(self, body: dict[str, Any]) -> None:
        """Metrics by OTLP, for which it must have been started."""
        request = urllib.request.Request(
            f"{self.address}/api/v1/otlp/v1/metrics",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.status == 200

    def newest(self, selector: str) -> float | None:
        """Time of the newest sample of the last minute, None when there is none or nobody answers."""
        now = time.time()
        answer = self.reader.read(Question("prometheus", f"{selector}[60000ms]", now, now - 60))
        if not isinstance(answer, Answered):
            return None
        return max((sample.at for series in answer.series for sample in series.samples), default=None)


def prometheus_program() -> Path:
    return binaries.ensure("prometheus", report=print)["prometheus"]


@contextmanager
def scraped(folder: Path, *, scrape: str = "") -> Iterator[tuple[Prometheus, Exporter, Exporter]]:
    """A Prometheus that scrapes one canary and one stable pod."""
    program = prometheus_program()
    canary, stable = Exporter(f"{CANARY.pod_prefix}aaaaa"), Exporter(f"{STABLE.pod_prefix}zzzzz")
    for pod in (canary, stable):
        pod.serve(ok=1000)
    with serving(canary.answer) as first, serving(stable.answer) as second:
        targets = {canary.pod: first.address, stable.pod: second.address}
        prometheus = Prometheus(program, folder, targets, scrape=scrape)
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
