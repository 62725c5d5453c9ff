"""/healthz, /readyz and /metrics: whether the operator still sees, still works and still leads."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from gatewright_operator.metrics import Metrics

log = logging.getLogger(__name__)


class CannotListen(Exception):
    """The probes' address can't be used; the message says why."""


STALL_SECONDS = 0.1
"""The event loop never stands still for longer; when it does, that is a defect, and logged."""
LAG_PERIOD_SECONDS = 0.25
LAG_MEMORY_SECONDS = 10.0


@dataclass(frozen=True)
class Problem:
    """Something that is wrong; `fatal` when a restart is the cure."""

    message: str
    fatal: bool


@dataclass(frozen=True)
class Vitals:
    """What a leading operator reports of itself, in seconds; `filled` once the cache holds everything."""

    filled: bool
    watching: bool
    watch_age_seconds: float
    oldest_due_seconds: float
    oldest_processing_seconds: float


@dataclass(frozen=True)
class Limits:
    """From which ages on something is wrong."""

    watch_age_seconds: float
    due_seconds: float = 60.0
    processing_seconds: float = 180.0


def problems(vitals: Vitals, limits: Limits) -> list[Problem]:
    """What is wrong with a leading operator."""
    found = []
    if not vitals.filled:
        found.append(Problem("the first listing is not complete", fatal=False))
    elif vitals.watch_age_seconds > limits.watch_age_seconds:
        # Not fatal: with the API server gone a restart helps nobody, and it would forget the cache.
        found.append(Problem(f"nothing seen for {vitals.watch_age_seconds:.0f} s", fatal=False))
    if not vitals.watching:
        found.append(Problem("the watches are being started anew", fatal=False))
    if vitals.oldest_due_seconds > limits.due_seconds:
        found.append(Problem(f"a key has waited {vitals.oldest_due_seconds:.0f} s for a worker", fatal=True))
    if vitals.oldest_processing_seconds > limits.processing_seconds:
        found.append(Problem(f"a reconcile takes {vitals.oldest_processing_seconds:.0f} s", fatal=True))
    return found


class Probes:
    """The HTTP server. `vitals` is None while this process is a standby, which is healthy and ready.

    A standby is ready because a Deployment that is updated waits for its new pod to be ready before it ends
    the old one: if only the leader were, both would wait for ever.
    """

    def __init__(self, metrics: Metrics, *, limits: Limits) -> None:
        self._metrics = metrics
        self._limits = limits
        self._runner: web.AppRunner | None = None
        self.vitals: Callable[[], Vitals] | None = None

    async def start(self, host: str | None, port: int) -> str:
        """Serve on this address (port 0: any free one) and return it as `host:port`. Raises CannotListen."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics_page)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError as error:
            raise CannotListen(f"cannot serve probes on {host or '*'}:{port}: {error.strerror}") from error
        bound = self._runner.addresses[0]
        return f"{bound[0]}:{bound[1]}"

    async def stop(self) -> None:
        """End serving."""
        if self._runner is not None:
            await self._runner.cleanup()

    def found(self) -> list[Problem]:
        """What is wrong now; empty for a healthy leader and for a standby."""
        return problems(self.vitals(), self._limits) if self.vitals else []

    async def _healthz(self, _: web.Request) -> web.Response:
        return _page([problem.message for problem in self.found() if problem.fatal])

    async def _readyz(self, _: web.Request) -> web.Response:
        return _page([problem.message for problem in self.found()])

    async def _metrics_page(self, _: web.Request) -> web.Response:
        if self.vitals is not None:
            vitals = self.vitals()
            self._metrics.watch_age.set(vitals.watch_age_seconds)
            self._metrics.queue_oldest.set(vitals.oldest_due_seconds)
        return web.Response(
            text=self._metrics.render(), headers={"Content-Type": "text/plain; version=0.0.4"}
        )


def _page(found: list[str]) -> web.Response:
    return web.Response(text="\n".join(found) + "\n" if found else "ok\n", status=503 if found else 200)


def waited_for_cpu() -> float:
    """Seconds for which this thread was ready to run and had no processor so far; 0 where the system doesn't
    tell.
    """
    try:
        with open("/proc/thread-self/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


async def watch_loop_lag(metrics: Metrics, *, waited: Callable[[], float] = waited_for_cpu) -> None:
    """Measure for ever how much later than asked for the event loop comes round; log and count stalls.

    The time in which the machine gave this thread no processor (`waited`) is nobody's fault here, and taken
    off.
    """
    loop = asyncio.get_running_loop()
    recent: list[tuple[float, float]] = []
    while True:
        asked, waited_before = loop.time() + LAG_PERIOD_SECONDS, waited()
        await asyncio.sleep(LAG_PERIOD_SECONDS)
        now = loop.time()
        lag = max(0.0, now - asked)
        recent = [(at, value) for at, value in recent if at > now - LAG_MEMORY_SECONDS] + [(now, lag)]
        metrics.loop_lag.set(max(value for _, value in recent))
        stalled = lag - (waited() - waited_before)
        if stalled > STALL_SECONDS:
            metrics.stalls.inc()
            log.warning("the event loop stood still", extra={"seconds": round(stalled, 3)})
