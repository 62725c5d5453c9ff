"""The workers: take a key, reconcile it, say what comes next. No error of one key ends a worker or touches
another key."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import perf_counter

from gatewright_operator.errors import Conflict, Refused, Unavailable
from gatewright_operator.keys import Key
from gatewright_operator.metrics import Metrics
from gatewright_operator.queue import CONFLICT, QueueClosed, WorkQueue

log = logging.getLogger(__name__)

RETRY_AFTER_CAP_SECONDS = 60.0
"""The longest wait that a server's Retry-After can make of ours."""

Reconcile = Callable[[Key], Awaitable[float | None]]
"""Reconciles one key; returns after how many seconds it wants to run again, or None to wait for a change."""


class Workers:
    """`count` workers on one queue. A reconcile that takes longer than `deadline_seconds` is cut off and
    tried again."""

    def __init__(
        self,
        queue: WorkQueue[Key],
        reconcile: Reconcile,
        metrics: Metrics,
        *,
        count: int = 16,
        deadline_seconds: float = 120.0,
    ) -> None:
        self._queue = queue
        self._reconcile = reconcile
        self._metrics = metrics
        self._count = count
        self._deadline_seconds = deadline_seconds
        self._told: dict[Key, str] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Start working, as tasks of this group."""
        self._tasks = [
            tasks.create_task(self._work(), name=f"worker {number}") for number in range(self._count)
        ]

    async def drain(self, seconds: float) -> bool:
        """Take no new keys, let running reconciles end for `seconds`, then cancel them; False if some would
        not end."""
        self._queue.close()
        if not self._tasks:
            return True
        _, pending = await asyncio.wait(self._tasks, timeout=max(0.0, seconds))
        for task in pending:
            task.cancel()
        if pending:
            # A cancelled reconcile ends at its next await; one that swallows the cancellation is a defect.
            _, pending = await asyncio.wait(pending, timeout=1.0)
        return not pending

    async def _work(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except QueueClosed:
                return
            await self._process(key)
            # Neither a key in line nor a reconcile that only looks into the cache gives way by itself.
            await asyncio.sleep(0)

    async def _process(self, key: Key) -> None:
        started = perf_counter()
        outcome = "error"
        try:
            async with asyncio.timeout(self._deadline_seconds):
                requeue_seconds = await self._reconcile(key)
            outcome = "ok"
            self._queue.done(key)
            self._told.pop(key, None)
            if requeue_seconds is not None:
                self._queue.add_after(key, requeue_seconds)
        except Conflict as error:
            outcome = "conflict"
            self._queue.fail(key, backoff=CONFLICT)
            log.debug(
                "the world changed meanwhile; planning again", extra={"key": str(key), "error": str(error)}
            )
        except Unavailable as error:
            outcome = "unavailable"
            wanted = min(error.retry_after_seconds or 0.0, RETRY_AFTER_CAP_SECONDS)
            seconds = self._queue.fail(key, at_least_seconds=wanted)
            self._tell(key, error, seconds, trace=False)
        except Refused as error:
            outcome = "refused"
            self._tell(key, error, self._queue.fail(key), trace=False)
        except asyncio.CancelledError:
            outcome = "cancelled"
            self._queue.fail(key)
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one key, the others go on
            self._tell(key, error, self._queue.fail(key), trace=True)
        finally:
            self._metrics.reconciles.observe(perf_counter() - started, kind=key.kind, outcome=outcome)

    def _tell(self, key: Key, error: Exception, seconds: float, *, trace: bool) -> None:
        """Log a failure once, not at each of its repeats: with the whole trace where the code is to blame."""
        text = f"{type(error).__name__}: {error}"
        fresh = self._told.get(key) != text
        self._told[key] = text
        log.log(
            logging.WARNING if fresh else logging.DEBUG,
            "reconcile failed",
            extra={"key": str(key), "error": text, "again_in_seconds": round(seconds, 2)},
            exc_info=error if trace and fresh else None,
        )
