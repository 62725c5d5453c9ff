"""Requests of users: a load generator that runs beside a test, and what came of them."""

import asyncio
import threading
from typing import Any

from devcluster.load import LoadGenerator, LoadReport


class Traffic:
    """A load generator in a thread of its own, so that tests can go on in theirs."""

    def __init__(self, url: str, host: str, rate: float) -> None:
        self._url, self._host, self._rate = url, host, rate
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="traffic", daemon=True)
        self._load: LoadGenerator | None = None

    def __enter__(self) -> "Traffic":
        self._thread.start()
        self._call(self._begin())
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()

    def report(self) -> LoadReport:
        """What came of the requests so far."""
        report: LoadReport = self._call(self._read())
        return report

    def _call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=30)

    async def _begin(self) -> None:
        self._load = LoadGenerator(self._url + "/", rate_per_second=self._rate, host=self._host)
        await self._load.__aenter__()

    async def _end(self) -> None:
        if self._load is not None:
            await self._load.stop()

    async def _read(self) -> LoadReport:
        assert self._load is not None
        return self._load.report()


def lost(report: LoadReport, on_purpose: int = 0) -> int:
    """Requests that failed without the sample service having failed them on purpose."""
    return report.failed - on_purpose
