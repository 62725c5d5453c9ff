"""Asks many questions at once without blocking the event loop, and without one slow source delaying the
others.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.question import Answer, Question
from gatewright_analysis.providers.reader import MetricsReader
from gatewright_analysis.reasons import Reason

PER_SOURCE: Final = 4

_log = logging.getLogger(__name__)


class _Source:
    """A reader and its own few threads: a source that hangs can only use up its own."""

    def __init__(self, name: str, reader: MetricsReader, threads: int) -> None:
        self.reader = reader
        self.threads = threads
        self.executor = ThreadPoolExecutor(threads, thread_name_prefix=f"source-{name}")
        self.overdue: set[Future[Answer]] = set()
        """Reads that outlived their deadline and still hold a thread."""

    def close(self) -> None:
        self.executor.shutdown(wait=False, cancel_futures=True)
        self.reader.close()


class ReaderPool:
    """Readers by the name of their MetricSource. Use it from one event loop."""

    def __init__(self, *, per_source: int = PER_SOURCE) -> None:
        """At most `per_source` questions are put to one source at a time."""
        self._per_source = per_source
        self._sources: dict[str, _Source] = {}

    def use(self, source: str, reader: MetricsReader) -> None:
        """From now on `reader` answers for `source`; one that did before is closed."""
        self.forget(source)
        self._sources[source] = _Source(source, reader, self._per_source)

    def forget(self, source: str) -> None:
        """Questions to `source` are answered with SourceNotFound from now on."""
        before = self._sources.pop(source, None)
        if before is not None:
            before.close()

    def close(self) -> None:
        """Stop all readers. Reads under way end by their own time-outs."""
        for source in list(self._sources):
            self.forget(source)

    async def read_all(self, questions: Iterable[Question]) -> dict[Question, Answer]:
        """An answer to every question, each asked once; takes no longer than the longest deadline of a
        source.
        """
        answers: dict[Question, Answer] = {}
        async for of_one_source in self.read_each(questions):
            answers |= of_one_source
        return answers

    async def read_each(self, questions: Iterable[Question]) -> AsyncIterator[dict[Question, Answer]]:
        """The same source by source, as they come in: who hangs does not even delay others of the same look."""
        by_source: dict[str, dict[Question, None]] = {}
        for question in questions:
            by_source.setdefault(question.source, {})[question] = None
        reads = [
            asyncio.create_task(self._read_source(name, list(asked))) for name, asked in by_source.items()
        ]
        try:
            for read in asyncio.as_completed(reads):
                yield await read
        finally:
            for task in reads:
                task.cancel()

    async def _read_source(self, name: str, questions: list[Question]) -> dict[Question, Answer]:
        source = self._sources.get(name)
        if source is None:
            missing = Fault(Reason.SOURCE_NOT_FOUND, f"there is no MetricSource {name}")
            return dict.fromkeys(questions, missing)
        deadline = source.reader.deadline_seconds
        hung = Fault(Reason.TIMEOUT, f"the source gave no answer within {deadline:g} s")
        source.overdue = {future for future in source.overdue if not future.done()}
        if len(source.overdue) >= source.threads:
            return dict.fromkeys(
                questions, hung
            )  # every thread still waits: asking again would only queue up
        asked = {question: source.executor.submit(source.reader.read, question) for question in questions}
        wrapped = [asyncio.wrap_future(future) for future in asked.values()]
        try:
            await asyncio.wait(wrapped, timeout=deadline)
        finally:
            for future in asked.values():
                if not future.cancel() and not future.done():
                    source.overdue.add(future)
        return {question: _answer(future, hung) for question, future in asked.items()}


def _answer(future: Future[Answer], hung: Fault) -> Answer:
    if future.cancelled() or not future.done():
        return hung
    error = future.exception()
    if error is not None:
        # A reader raises nothing that a source can cause, so this is a fault of ours: seen, and no evidence.
        _log.error("reading a metric source failed", exc_info=error)
        return Fault(
            Reason.QUERY_ERROR, f"reading the source failed in Gatewright itself ({type(error).__name__})"
        )
    return future.result()
