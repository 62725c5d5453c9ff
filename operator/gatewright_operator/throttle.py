"""How often the API server is called: a token bucket for writes, and waits between repeats for the watches."""

import asyncio
from collections.abc import Iterator


class TokenBucket:
    """Makes callers wait, first come first served, once the burst is used up.

    `rate` is in calls per second, `burst` the number of calls that may go at once after a rest.
    """

    def __init__(self, *, rate: float, burst: int) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError(f"a rate above 0 and a burst of at least 1 are needed, not {rate} and {burst}")
        self._rate = rate
        self._burst = float(burst)
        self._tokens = float(burst)
        self._at: float | None = None

    async def take(self) -> float:
        """Take a token, waiting for it if need be; returns the seconds waited."""
        now = asyncio.get_running_loop().time()
        if self._at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        # Debt instead of a waiting line: each caller owes its token at once, so the order is that of arrival.
        self._tokens -= 1.0
        if self._tokens >= 0:
            return 0.0
        seconds = -self._tokens / self._rate
        await asyncio.sleep(seconds)
        return seconds


class Endless:
    """Waits between repeats of a failed call, in seconds, without end: a process that uses it outlives any
    outage.
    """

    def __iter__(self) -> Iterator[float]:
        yield from (0.5, 1.0, 2.0, 4.0)
        while True:
            yield 5.0
