"""Questions are asked in threads of their own: nothing blocks the event loop, and no source delays another."""

import asyncio
import threading
import time

import pytest

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.question import Answer, Answered, Question
from gatewright_analysis.providers.pool import ReaderPool
from gatewright_analysis.reasons import Reason


def question(source: str, number: int = 0) -> Question:
    return Question(source, f"m{number}[1000ms]", 100.0, 99.0)


class Reader:
    """Answers at once, or not before `gate` is set."""

    def __init__(
        self, *, hangs: bool = False, deadline_seconds: float = 0.3, error: Exception | None = None
    ) -> None:
        self.gate = threading.Event()
        self.started = threading.Semaphore(0)
        self.error = error
        self.closed = False
        self.reads = 0
        self.at_once = 0
        self.most_at_once = 0
        self._lock = threading.Lock()
        self._deadline_seconds = deadline_seconds
        if not hangs:
            self.gate.set()

    @property
    def deadline_seconds(self) -> float:
        return self._deadline_seconds

    def read(self, question: Question) -> Answer:
        with self._lock:
            self.reads += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        self.started.release()
        self.gate.wait(20)
        with self._lock:
            self.at_once -= 1
        if self.error is not None:
            raise self.error
        return Answered(())

    def close(self) -> None:
        self.closed = True


async def test_every_question_is_answered_once_even_when_it_is_asked_for_twice() -> None:
    pool, reader = ReaderPool(), Reader()
    pool.use("pods", reader)
    answers = await pool.read_all([question("pods", 1), question("pods", 2), question("pods", 1)])
    assert answers == {question("pods", 1): Answered(()), question("pods", 2): Answered(())}
    assert reader.reads == 2
    pool.close()


async def test_a_source_that_hangs_is_a_timeout_and_the_others_answer() -> None:
    pool, hung = ReaderPool(), Reader(hangs=True)
    pool.use("hung", hung)
    pool.use("pods", Reader())
    started = time.monotonic()
    answers = await pool.read_all([question("hung"), question("pods")])
    assert time.monotonic() - started < 2.0
    assert answers[question("pods")] == Answered(())
    hung_answer = answers[question("hung")]
    assert isinstance(hung_answer, Fault)
    assert hung_answer.reason is Reason.TIMEOUT
    hung.gate.set()
    pool.close()


async def test_who_reads_source_by_source_has_the_others_before_one_that_hangs() -> None:
    pool, hung = ReaderPool(), Reader(hangs=True, deadline_seconds=1.0)
    pool.use("hung", hung)
    pool.use("pods", Reader())
    started = time.monotonic()
    came: list[tuple[str, float]] = []
    async for answers in pool.read_each([question("hung"), question("pods")]):
        came.append((next(iter(answers)).source, time.monotonic() - started))
    assert [name for name, _ in came] == ["pods", "hung"]
    assert came[0][1] < 0.5
    hung.gate.set()
    pool.close()


async def test_a_source_whose_threads_all_hang_is_not_waited_for_again_until_one_is_free() -> None:
    pool, hung = ReaderPool(per_source=2), Reader(hangs=True)
    pool.use("hung", hung)
    await pool.read_all([question("hung", number) for number in range(5)])
    started = time.monotonic()
    answers = await pool.read_all([question("hung", 9)])
    assert time.monotonic() - started < 0.2
    assert isinstance(answers[question("hung", 9)], Fault)
    assert hung.reads == 2  # what waited behind them was taken back
    hung.gate.set()
    for _ in range(200):
        if (await pool.read_all([question("hung", 9)]))[question("hung", 9)] == Answered(()):
            break
        await asyncio.sleep(0.01)
    else:
        pytest.fail("the source answers again, but the pool does not ask it")
    pool.close()


async def test_one_source_is_asked_no_more_than_so_many_questions_at_a_time() -> None:
    pool, reader = ReaderPool(per_source=3), Reader(hangs=True, deadline_seconds=5.0)
    pool.use("pods", reader)
    asking = asyncio.create_task(pool.read_all([question("pods", number) for number in range(12)]))
    for _ in range(3):
        assert await asyncio.to_thread(reader.started.acquire, True, 5.0)
    reader.gate.set()
    assert len(await asking) == 12
    assert reader.most_at_once == 3
    pool.close()


async def test_the_event_loop_goes_on_while_sources_hang() -> None:
    pool, hung = ReaderPool(), Reader(hangs=True, deadline_seconds=0.5)
    pool.use("hung", hung)
    asking = asyncio.create_task(pool.read_all([question("hung", number) for number in range(50)]))
    longest, before = 0.0, time.monotonic()
    while not asking.done():
        await asyncio.sleep(0.005)
        now = time.monotonic()
        longest, before = max(longest, now - before), now
    assert longest < 0.1
    hung.gate.set()
    pool.close()


async def test_a_source_that_nobody_registered_is_not_found() -> None:
    answers = await ReaderPool().read_all([question("nowhere")])
    found = answers[question("nowhere")]
    assert isinstance(found, Fault)
    assert found.reason is Reason.SOURCE_NOT_FOUND


async def test_a_defect_in_a_reader_is_no_evidence_and_does_not_spread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = ReaderPool()
    pool.use("broken", Reader(error=RuntimeError("the body of an answer")))
    pool.use("pods", Reader())
    answers = await pool.read_all([question("broken"), question("pods")])
    found = answers[question("broken")]
    assert isinstance(found, Fault)
    assert "RuntimeError" in found.detail
    assert "body" not in found.detail
    assert answers[question("pods")] == Answered(())
    assert "reading a metric source failed" in caplog.text
    pool.close()


async def test_a_reader_that_is_replaced_is_closed() -> None:
    pool, before, after = ReaderPool(), Reader(), Reader()
    pool.use("pods", before)
    pool.use("pods", after)
    assert (before.closed, after.closed) == (True, False)
    assert await pool.read_all([question("pods")]) == {question("pods"): Answered(())}
    pool.close()
    assert after.closed


async def test_a_look_that_is_cancelled_leaves_nothing_waiting() -> None:
    pool, hung = ReaderPool(per_source=1), Reader(hangs=True, deadline_seconds=5.0)
    pool.use("hung", hung)
    asking = asyncio.create_task(pool.read_all([question("hung", number) for number in range(3)]))
    assert await asyncio.to_thread(hung.started.acquire, True, 5.0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    hung.gate.set()
    pool.close()
    assert hung.reads == 1
