"""A background thread with an event loop of its own, in which the watches run.

Beside the workers they would cost more than they give: reading the start of ten thousand watches holds a loop
up for seconds, in which no Lease is renewed; and when kopf ends, it cancels every task of its loop that it
did not see before.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

RESTART_SECONDS = 1.0
RESTART_CAP_SECONDS = 30.0

Body = Callable[[asyncio.Event], Awaitable[None]]
"""What runs in the thread: until the event is set, or until it fails."""


class Restarting:
    """Runs `body` in a thread, and again, after a pause, whenever it ends before it was asked to."""

    def __init__(self, body: Body, *, name: str, on_restart: Callable[[], None]) -> None:
        self._body = body
        self._on_restart = on_restart
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._stopping = threading.Event()
        self._running = False
        # A daemon, so that a body that would not end can't keep the process from ending.
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the body runs now, rather than being started anew."""
        return self._running

    async def stop(self, seconds: float) -> bool:
        """Ask the body to end and wait for it; False when it did not within `seconds`."""
        self._stopping.set()
        if self._thread.ident is None:
            return True
        if self._loop is not None and self._stop is not None:
            try:
                self._loop.call_soon_threadsafe(self._stop.set)
            except RuntimeError:
                # Its loop is closed: it has ended in this moment.
                log.debug("the thread ended by itself", extra={"part": self._thread.name})
        await asyncio.to_thread(self._thread.join, seconds)
        return not self._thread.is_alive()

    def _main(self) -> None:
        asyncio.run(self._supervise())

    async def _supervise(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        pause = RESTART_SECONDS
        while not self._stopping.is_set():
            started = self._loop.time()
            self._running = True
            error: BaseException | None = None
            try:
                await self._body(self._stop)
            except Exception as failure:  # noqa: BLE001 - whatever it is, watching must go on
                error = failure
            self._running = False
            if self._stopping.is_set():
                return
            pause = (
                RESTART_SECONDS if self._loop.time() - started > 60 else min(pause * 2, RESTART_CAP_SECONDS)
            )
            log.warning(
                "starting anew what ended by itself",
                extra={
                    "part": self._thread.name,
                    "error": repr(error) if error else "none",
                    "in_seconds": pause,
                },
            )
            self._on_restart()
            try:
                async with asyncio.timeout(pause):
                    await self._stop.wait()
            except TimeoutError:
                continue
