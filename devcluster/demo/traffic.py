"""The users of the service: requests through the gateway at a fixed rate, from a thread of their own."""

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from devcluster.load import LoadGenerator, LoadReport
from devcluster.load_client import Client, Outcome

T = TypeVar("T")


class _RememberingLoad(LoadGenerator):
    """Also knows when each version answered last."""

    def __init__(self, url: str, *, rate_per_second: float, host: str) -> None:
        super().__init__(url, rate_per_second=rate_per_second, host=host)
        self.last_answer: dict[str, float] = {}

    def _done(self, client: Client, outcome: Outcome) -> None:
        if outcome.error is None:
            self.last_answer[outcome.version] = time.time()
        super()._done(client, outcome)


class Traffic:
    """Runs from ``with`` to its end."""

    def __init__(self, gateway_url: str, *, host: str, rate_per_second: float) -> None:
        self.rate_per_second = rate_per_second
        self._url, self._host = f"{gateway_url}/", host
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="traffic", daemon=True)
        self._load: _RememberingLoad | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._begin())
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()

    def stop(self) -> LoadReport:
        """No more requests; the report with the last answer in it."""
        return self._call(self._running.stop())

    def report(self) -> LoadReport:
        """What came of the requests so far."""
        return self._call(self._read())

    def last_answer_of(self, version: str) -> float:
        """When this version answered last, in seconds since 1970; 0 when it never did."""
        return self._running.last_answer.get(version, 0.0)

    @property
    def _running(self) -> _RememberingLoad:
        assert self._load is not None
        return self._load

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=30)

    async def _begin(self) -> None:
        self._load = _RememberingLoad(self._url, rate_per_second=self.rate_per_second, host=self._host)
        self._load.start()

    async def _read(self) -> LoadReport:
        return self._running.report()


def on_purpose(report: LoadReport) -> int:
    """Failures that the sample service made because it was told to: a 500 that bears its version."""
    return sum(counts.get("500", 0) for version, counts in report.versions.items() if version)


def lost(report: LoadReport) -> int:
    """Failures that nobody ordered: answered with anything else but 200 (a 404 of the gateway's too), or not at all."""
    unanswered = sum(report.errors.values())
    return unanswered + report.answered - report.statuses.get("200", 0) - on_purpose(report)
