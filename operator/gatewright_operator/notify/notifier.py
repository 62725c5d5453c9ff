"""The notifier of a term: one task per sink, woken by what was seen; a sink that hangs holds up no other, and no verdict."""

import asyncio
import logging
from collections.abc import Callable

from gatewright_operator.api import Api
from gatewright_operator.cache import Cache
from gatewright_operator.clock import Clock, utc_now
from gatewright_operator.errors import ApiError
from gatewright_operator.keys import Key
from gatewright_operator.metrics import Metrics
from gatewright_operator.notify.desk import Desk, Post
from gatewright_operator.notify.post import post
from gatewright_operator.notify.world import NoticeBoard
from gatewright_operator.posting import Recorder
from gatewright_operator.queue import WorkQueue
from gatewright_operator.resources import METRIC_SOURCES, NOTIFICATION_SINKS, ROLLOUTS, Resource

log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.2
"""What changes in quick succession is looked at once."""
STAFF_SECONDS = 10.0
"""Between looks for sinks that came or went."""
FAILED_SECONDS = 2.0
"""After trouble with the API server."""


class Notifier:
    """Starts a task for each sink, and ends it with the sink."""

    def __init__(
        self,
        *,
        api: Api,
        cache: Cache,
        queue: WorkQueue[Key],
        recorder: Recorder,
        metrics: Metrics,
        namespace: str,
        clock: Clock = utc_now,
        send: Post = post,
    ) -> None:
        self._board = NoticeBoard(api, cache)
        self._make: Callable[[str], Desk] = lambda name: Desk(
            name,
            api=api,
            cache=cache,
            board=self._board,
            recorder=recorder,
            metrics=metrics,
            namespace=namespace,
            clock=clock,
            ask_source=lambda source: queue.add(Key("source", "", source)),
            send=send,
        )
        self._metrics = metrics
        self._news = asyncio.Event()
        self._desks: dict[str, tuple[Desk, asyncio.Event, asyncio.Task[None]]] = {}
        self._closed = False

    def saw(self, resource: Resource) -> None:
        """Something of this kind changed."""
        if resource in (ROLLOUTS, METRIC_SOURCES, NOTIFICATION_SINKS):
            self._news.set()

    async def run(self) -> None:
        """For ever; the caller cancels it."""
        try:
            while True:
                self._staff()
                for _, news, _ in self._desks.values():
                    news.set()
                # A re-list tells nobody what it found.
                await _either(self._news, STAFF_SECONDS)
                await asyncio.sleep(SETTLE_SECONDS)
                self._news.clear()
        finally:
            for _, _, task in self._desks.values():
                task.cancel()
            await asyncio.gather(*(task for _, _, task in self._desks.values()), return_exceptions=True)

    async def drain(self, seconds: float) -> None:
        """Begin nothing new; let what is on its way arrive and be reported."""
        self._closed = True
        for desk, _, task in self._desks.values():
            if not desk.busy:
                task.cancel()
        tasks = [task for _, _, task in self._desks.values()]
        if tasks:
            _, pending = await asyncio.wait(tasks, timeout=max(0.0, seconds))
            for task in pending:
                task.cancel()

    def _staff(self) -> None:
        if self._closed:
            return
        sinks = self._board.sinks()
        for name in [name for name in self._desks if name not in sinks]:
            self._desks.pop(name)[2].cancel()
            self._metrics.notifications_waiting.remove(sink=name)
        for name in sinks:
            if name not in self._desks:
                desk, news = self._make(name), asyncio.Event()
                task = asyncio.create_task(self._work(name, desk, news), name=f"sink {name}")
                self._desks[name] = (desk, news, task)

    async def _work(self, name: str, desk: Desk, news: asyncio.Event) -> None:
        told = ""
        while not self._closed:
            news.clear()
            try:
                seconds = await desk.round()
                told = ""
            except ApiError as error:
                seconds = FAILED_SECONDS
                log.debug("a sink's round failed", extra={"sink": name, "error": str(error)})
            except Exception as error:
                # Whatever is wrong with one sink, the others go on.
                seconds = 10 * FAILED_SECONDS
                text = f"{type(error).__name__}"
                log.log(
                    logging.ERROR if text != told else logging.DEBUG,
                    "a sink's round broke",
                    extra={"sink": name},
                    exc_info=error if text != told else None,
                )
                told = text
            await _either(news, seconds)


async def _either(news: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        pass
