"""A load generator with a fixed rate: ``python -m devcluster.load URL --rate R --duration S``.

It is open-loop: a request is due at its time whether or not earlier ones were answered, and its latency
counts from that time, so a service that stalls looks as bad as its users find it. It keeps connections alive,
never retries, and sends to loopback addresses only. In Python::

    async with LoadGenerator("http://127.0.0.1:8080/", rate_per_second=200, host="checkout.shop") as load:
        ...  # change something
    print(load.report().failed)
"""

import argparse
import asyncio
import ipaddress
import json
import sys
import urllib.parse
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from devcluster.load_client import Client, Outcome

MAX_RATE_PER_SECOND = 5_000.0
MAX_DURATION_SECONDS = 3_600.0
MAX_REQUESTS = 2_000_000
MAX_CONNECTIONS = 512
SWEEP_SECONDS = 0.25


class LoadRefused(ValueError):
    """The load asked for is not one that this generator makes; the message says why."""


@dataclass(frozen=True)
class LoadReport:
    """What came of the requests so far."""

    url: str
    rate_per_second: float
    seconds: float
    sent: int
    statuses: dict[str, int]
    versions: dict[str, dict[str, int]]
    """Answers by their ``x-version`` header (empty where there is none), then by status."""
    errors: dict[str, int]
    """Requests without an answer, by the kind of failure."""
    latency_ms: dict[str, float]
    """Percentiles from the time a request was due to its whole answer: p50, p90, p99, max, mean."""
    late_ms: float
    """The most that a request was sent after its time; large: this machine could not keep up."""

    @property
    def failed(self) -> int:
        """Requests that a user would call failed: answered with 5xx, or not at all."""
        return sum(count for status, count in self.statuses.items() if status >= "5") + sum(
            self.errors.values()
        )

    @property
    def answered(self) -> int:
        """Requests with an answer, whatever it says."""
        return sum(self.statuses.values())

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "answered": self.answered, "failed": self.failed}


class LoadGenerator:
    """Sends GET requests at a fixed rate from ``start`` to ``stop``, or inside ``async with``."""

    def __init__(
        self, url: str, *, rate_per_second: float, host: str | None = None, timeout_seconds: float = 20.0
    ) -> None:
        """``host``: the Host header, where it differs from the URL's. Raises LoadRefused."""
        target = urllib.parse.urlsplit(url)
        self._address = _loopback(target.hostname)
        if target.scheme != "http":
            raise LoadRefused(f"{url}: only http is spoken here")
        if not 0 < rate_per_second <= MAX_RATE_PER_SECOND:
            raise LoadRefused(
                f"the rate must be above 0 and at most {MAX_RATE_PER_SECOND:g} requests a second"
            )
        self._port = target.port or 80
        self._url, self._rate, self._timeout_seconds = url, rate_per_second, timeout_seconds
        path = urllib.parse.urlunsplit(("", "", target.path or "/", target.query, ""))
        self._request = (
            f"GET {path} HTTP/1.1\r\nHost: {host or target.netloc}\r\nUser-Agent: devcluster-load\r\n\r\n"
        ).encode()
        self._idle: list[Client] = []
        self._clients: set[Client] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._waiting: list[float] = []
        self._statuses: Counter[tuple[str, str]] = Counter()
        self._errors: Counter[str] = Counter()
        self._latencies: list[float] = []
        self._limit = MAX_REQUESTS
        self._all_sent = asyncio.Event()
        self._sent = 0
        self._late = 0.0
        self._began = self._ended = 0.0
        self._timer: asyncio.Handle | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._quiet = asyncio.Event()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def run(self, duration_seconds: float) -> LoadReport:
        """Send exactly rate x duration requests, wait for their answers, and report. Raises LoadRefused."""
        if not 0 < duration_seconds <= MAX_DURATION_SECONDS:
            raise LoadRefused(f"the duration must be above 0 and at most {MAX_DURATION_SECONDS:g} seconds")
        self._limit = min(MAX_REQUESTS, max(1, round(self._rate * duration_seconds)))
        self.start()
        await self._all_sent.wait()
        return await self.stop()

    def start(self) -> None:
        """Begin to send."""
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._timer = self._loop.call_soon(self._send_due)
        self._sweeper = self._loop.call_later(SWEEP_SECONDS, self._sweep)

    async def stop(self) -> LoadReport:
        """Send no more, wait for the answers that are due, close the connections, and report."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._ended = self._loop.time()
            if self._outstanding():
                self._quiet.clear()
                await self._quiet.wait()
            if self._sweeper is not None:
                self._sweeper.cancel()
            await asyncio.gather(*self._connecting)
            for client in list(self._clients):
                client.close()
            await asyncio.sleep(0)  # transports close in the next turn of the loop
        return self.report()

    def report(self) -> LoadReport:
        """What came of the requests so far; also while it runs."""
        statuses: Counter[str] = Counter()
        versions: dict[str, dict[str, int]] = defaultdict(dict)
        for (version, status), count in self._statuses.items():
            statuses[status] += count
            versions[version][status] = count
        end = self._ended or (self._loop.time() if self._began else 0.0)
        return LoadReport(
            url=self._url,
            rate_per_second=self._rate,
            seconds=round(end - self._began, 3),
            sent=self._sent,
            statuses=dict(statuses),
            versions=dict(versions),
            errors=dict(self._errors),
            latency_ms=_percentiles(self._latencies),
            late_ms=round(self._late * 1000, 2),
        )

    def _outstanding(self) -> int:
        busy = sum(client.due is not None for client in self._clients)
        return busy + len(self._waiting)

    def _send_due(self) -> None:
        now = self._loop.time()
        while self._sent < self._limit:
            due = self._began + self._sent / self._rate
            if due > now:
                self._timer = self._loop.call_at(due, self._send_due)
                return
            self._sent += 1
            self._late = max(self._late, now - due)
            self._send(due)
        self._all_sent.set()

    def _send(self, due: float) -> None:
        while self._idle:
            client = self._idle.pop()
            if client.usable:
                client.send(self._request, due)
                return
        self._waiting.append(due)
        if len(self._clients) + len(self._connecting) < MAX_CONNECTIONS:
            task = self._loop.create_task(self._connect())
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self) -> None:
        try:
            _, client = await asyncio.wait_for(
                self._loop.create_connection(lambda: Client(self._done), self._address, self._port),
                self._timeout_seconds,
            )
        except (OSError, TimeoutError) as error:
            if self._waiting:
                self._waiting.pop(0)
                self._errors[type(error).__name__] += 1
                self._maybe_quiet()
            return
        self._clients.add(client)
        self._next(client)

    def _done(self, client: Client, outcome: Outcome) -> None:
        """An answer, or the news that none will come."""
        due = client.due
        client.due = None
        if due is not None:
            if outcome.error is None:
                self._statuses[outcome.version, outcome.status] += 1
                self._latencies.append(self._loop.time() - due)
            else:
                self._errors[outcome.error] += 1
        self._next(client)
        self._maybe_quiet()

    def _next(self, client: Client) -> None:
        if not client.usable:
            self._clients.discard(client)
        elif self._waiting:
            client.send(self._request, self._waiting.pop(0))
        else:
            self._idle.append(client)

    def _sweep(self) -> None:
        oldest = self._loop.time() - self._timeout_seconds
        for client in list(self._clients):
            if client.due is not None and client.due < oldest:
                client.fail("TimeoutError")
        while self._waiting and self._waiting[0] < oldest:
            self._waiting.pop(0)
            self._errors["TimeoutError"] += 1
        self._maybe_quiet()
        self._sweeper = self._loop.call_later(SWEEP_SECONDS, self._sweep)

    def _maybe_quiet(self) -> None:
        if self._timer is None and not self._outstanding():
            self._quiet.set()


def _loopback(host: str | None) -> str:
    address = "127.0.0.1" if host == "localhost" else host or ""
    try:
        if ipaddress.ip_address(address).is_loopback:
            return address
    except ValueError:
        pass
    raise LoadRefused(f"{host}: load is sent to loopback addresses only (127.0.0.0/8, ::1, localhost)")


def _percentiles(seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {}
    ordered = sorted(seconds)
    last = len(ordered) - 1
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    result = {name: round(ordered[round(share * last)] * 1000, 2) for name, share in shares.items()}
    result["mean"] = round(sum(ordered) / len(ordered) * 1000, 2)
    return result


def main() -> int:
    """Send, report as JSON; exit code 1 when a request failed, 2 when the load was refused."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.load", description="Load at a fixed rate.")
    parser.add_argument("url", help="http://127.…:PORT/PATH")
    parser.add_argument("--rate", type=float, required=True, help="requests a second")
    parser.add_argument("--duration", type=float, required=True, help="seconds")
    parser.add_argument("--host", help="the Host header")
    parser.add_argument("--report", type=Path, help="write the JSON there instead of printing it")
    options = parser.parse_args()

    async def run() -> LoadReport:
        load = LoadGenerator(options.url, rate_per_second=options.rate, host=options.host)
        return await load.run(options.duration)

    try:
        report = asyncio.run(run())
    except LoadRefused as error:
        print(error, file=sys.stderr)
        return 2
    text = json.dumps(report.as_dict(), indent=2)
    if options.report is not None:
        options.report.write_text(text + "\n")
    else:
        print(text)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
