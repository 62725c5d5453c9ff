"""Looks at something again and again beside a test, so that what must never be is seen even when it is brief."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")

INTERVAL_SECONDS = 0.1


class Samples(Generic[T]):
    """What was seen, in order; the same value twice in a row is kept once."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self.error: Exception | None = None

    def add(self, value: T) -> None:
        if not self.values or self.values[-1] != value:
            self.values.append(value)


@contextmanager
def sampled(look: Callable[[], T]) -> Iterator[Samples[T]]:
    """Calls `look` every tenth of a second, in a thread, for as long as the block lasts."""
    samples: Samples[T] = Samples()
    over = threading.Event()

    def run() -> None:
        try:
            while not over.is_set():
                samples.add(look())
                over.wait(INTERVAL_SECONDS)
        except Exception as error:  # noqa: BLE001 - it is raised in the test's own thread
            samples.error = error

    thread = threading.Thread(target=run, name="samples", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join(timeout=30)
    if samples.error is not None:
        raise AssertionError(f"looking failed: {samples.error!r}") from samples.error
