"""Our own keyed work queue: level-triggered, one key never processed twice at once, delayed requeue, backoff
per key.

A key is at any time in any of three places: *due* (in line for a worker), *later* (has a deadline),
*processing*.

* `add` makes it due now. A key that is being processed is run once more when it is finished, however often it
  was added.
* `add_after` makes it due at a deadline; of several deadlines the earliest wins.
* `done` and `fail` end processing. `done` forgets earlier failures; `fail` brings the key back after an
  exponential backoff.
* An event may cut a backoff short, but not below `cool_seconds` after the failure: a reconcile that fails
  after it wrote something would otherwise be woken by its own write, for ever and at full speed.
"""

import asyncio
import heapq
import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class QueueClosed(Exception):
    """The queue hands out no more keys; the worker ends."""


@dataclass(frozen=True)
class Backoff:
    """Waiting times after the 1st, 2nd, … failure in a row: `base · 2ⁿ` seconds, at most `cap`, less up to
    half of it by chance."""

    base_seconds: float = 0.5
    cap_seconds: float = 60.0

    def seconds(self, failures: int, chance: float) -> float:
        """The wait after this many failures in a row (≥ 1); `chance` is uniform in [0, 1)."""
        # The exponent is bounded before the power is taken: 2.0 ** 1100 overflows.
        full = min(self.cap_seconds, self.base_seconds * 2.0 ** min(failures - 1, 32))
        return full * (1.0 - chance / 2)


FAILURE = Backoff()
"""After an error: half a second, then up to a minute."""
CONFLICT = Backoff(base_seconds=0.05, cap_seconds=2.0)
"""After a lost compare-and-swap: observing again is the cure, so soon; yet two writers that fight must not
spin."""


class WorkQueue(Generic[K]):
    """The queue. All methods are called from one event loop; only `get` waits."""

    def __init__(self, *, chance: Callable[[], float] = random.random, cool_seconds: float = 0.5) -> None:
        self._chance = chance
        self._cool_seconds = cool_seconds
        self._due: dict[K, float] = {}
        self._later: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._pushes = 0
        self._processing: dict[K, float] = {}
        self._again: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._cool_until: dict[K, float] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = float("inf")
        self._closed = False

    def add(self, key: K) -> None:
        """Something about this key changed: have it processed soon."""
        now = self._now()
        cool_until = self._cool_until.get(key, now)
        if cool_until > now:
            self._at(key, cool_until)
        else:
            self._make_due(key, now)

    def add_after(self, key: K, seconds: float) -> None:
        """Have it processed in `seconds`, unless an earlier deadline is known already."""
        if seconds <= 0:
            self.add(key)
        else:
            self._at(key, self._now() + seconds)

    async def get(self) -> K:
        """The key that is due for the longest time. The caller ends its work by `done` or `fail`.

        Raises QueueClosed after `close`.
        """
        while True:
            if self._closed:
                raise QueueClosed
            if self._due:
                key = next(iter(self._due))
                del self._due[key]
                self._processing[key] = self._now()
                return key
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                # The wake-up meant for us must reach somebody else.
                if waiter.done() and not waiter.cancelled():
                    self._wake()
                raise
            finally:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)

    def done(self, key: K) -> None:
        """Processing succeeded: earlier failures are forgotten."""
        self._failures.pop(key, None)
        self._cool_until.pop(key, None)
        self._finish(key)

    def fail(self, key: K, *, backoff: Backoff = FAILURE, at_least_seconds: float = 0.0) -> float:
        """Processing failed: bring the key back after a backoff, and return it in seconds.

        `at_least_seconds` is what the server asked for (Retry-After).
        """
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        seconds = max(backoff.seconds(failures, self._chance()), at_least_seconds)
        self._cool_until[key] = self._now() + min(seconds, self._cool_seconds)
        wanted = self._again.pop(key, None)
        self._finish(key)
        self.add_after(key, seconds)
        if wanted is not None:
            self.add(key)
        return seconds

    def forget(self, key: K) -> None:
        """The key is gone for good: drop its deadlines and failures. What runs now runs to its end."""
        for place in (self._due, self._later, self._again, self._failures, self._cool_until):
            place.pop(key, None)

    def close(self) -> None:
        """Hand out no more keys; every waiting `get` raises QueueClosed."""
        self._closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def oldest_due_age(self) -> float:
        """For how many seconds the first key in line has waited for a worker; 0 when none waits."""
        return max(0.0, self._now() - min(self._due.values())) if self._due else 0.0

    def oldest_processing_age(self) -> float:
        """For how many seconds the slowest key has been in work; 0 when none is."""
        return max(0.0, self._now() - min(self._processing.values())) if self._processing else 0.0

    def failures(self, key: K) -> int:
        """Failures in a row."""
        return self._failures.get(key, 0)

    @property
    def due_count(self) -> int:
        """How many keys wait in line."""
        return len(self._due)

    @property
    def later_count(self) -> int:
        """How many keys have a deadline in the future."""
        return len(self._later)

    @property
    def processing_count(self) -> int:
        """How many keys are in work."""
        return len(self._processing)

    def _finish(self, key: K) -> None:
        self._processing.pop(key, None)
        since = self._again.pop(key, None)
        if since is not None:
            self._make_due(key, since)

    def _make_due(self, key: K, since: float) -> None:
        self._later.pop(key, None)
        if key in self._processing:
            self._again.setdefault(key, since)
            return
        if key not in self._due:
            self._due[key] = since
            self._wake()

    def _at(self, key: K, deadline: float) -> None:
        if key in self._due or self._later.get(key, float("inf")) <= deadline:
            return
        self._later[key] = deadline
        self._pushes += 1
        heapq.heappush(self._heap, (deadline, self._pushes, key))
        self._set_alarm()

    def _set_alarm(self) -> None:
        # Entries whose key has another deadline by now, or none, are left over: skip them.
        while self._heap and self._later.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        first = self._heap[0][0] if self._heap else float("inf")
        if first == self._alarm_at or self._closed:
            return
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._alarm_at = first
        if self._heap:
            self._alarm = asyncio.get_running_loop().call_at(first, self._ring)

    def _ring(self) -> None:
        now = self._now()
        while self._heap and self._heap[0][0] <= now:
            deadline, _, key = heapq.heappop(self._heap)
            if self._later.get(key) == deadline:
                self._make_due(key, deadline)
        self._alarm, self._alarm_at = None, float("inf")
        self._set_alarm()

    def _wake(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
                return

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
