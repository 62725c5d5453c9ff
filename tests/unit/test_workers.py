"""Workers: what comes after each outcome of a reconcile, and that no key disturbs another."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from gatewright_operator.errors import ApiError, Conflict, Refused, Unavailable
from gatewright_operator.keys import Key
from gatewright_operator.metrics import Metrics
from gatewright_operator.queue import WorkQueue
from gatewright_operator.workers import Workers
from tests.unit.fake_time import now, run

CHECKOUT = Key("rollout", "shop", "checkout")
BASKET = Key("rollout", "shop", "basket")

Reconcile = Callable[[Key], Awaitable[float | None]]


async def worked(
    reconcile: Reconcile,
    *,
    seconds: float,
    keys: tuple[Key, ...] = (CHECKOUT,),
    count: int = 2,
    deadline: float = 120,
) -> Metrics:
    """Let workers run for some seconds; returns what they counted."""
    queue: WorkQueue[Key] = WorkQueue(chance=lambda: 0.0)
    metrics = Metrics()
    workers = Workers(queue, reconcile, metrics, count=count, deadline_seconds=deadline)
    async with asyncio.TaskGroup() as tasks:
        workers.start(tasks)
        for key in keys:
            queue.add(key)
        await asyncio.sleep(seconds)
        assert await workers.drain(0), "some work did not end"
    return metrics


class Recorded:
    """A reconcile that notes when it ran and then does what `outcome` says."""

    def __init__(self, outcome: Callable[[int], float | Exception | None]) -> None:
        self.at: list[float] = []
        self._outcome = outcome

    async def __call__(self, key: Key) -> float | None:
        self.at.append(now())
        outcome = self._outcome(len(self.at))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def test_a_reconcile_runs_again_after_the_seconds_that_it_asked_for() -> None:
    reconcile = Recorded(lambda _: 10.0)
    run(worked(reconcile, seconds=35))
    assert reconcile.at == [0.0, 10.0, 20.0, 30.0]


def test_a_reconcile_that_waits_for_a_change_is_not_run_again() -> None:
    reconcile = Recorded(lambda _: None)
    run(worked(reconcile, seconds=10_000))
    assert reconcile.at == [0.0]


def test_after_a_conflict_it_plans_again_at_once() -> None:
    reconcile = Recorded(lambda count: Conflict("it changed") if count < 4 else None)
    run(worked(reconcile, seconds=60))
    assert reconcile.at == pytest.approx([0.0, 0.05, 0.15, 0.35])


@pytest.mark.parametrize(
    "error", [Unavailable("no answer"), Refused("not allowed"), RuntimeError("a defect")]
)
def test_after_an_error_it_backs_off_and_a_success_ends_that(error: Exception) -> None:
    reconcile = Recorded(lambda count: error if count in (1, 2, 3, 5) else 100.0)
    run(worked(reconcile, seconds=150))
    assert reconcile.at == pytest.approx([0.0, 0.5, 1.5, 3.5, 103.5, 104.0])


def test_a_server_that_says_when_to_come_again_is_obeyed_up_to_a_minute() -> None:
    def outcome(count: int) -> Exception:
        return Unavailable(
            "too many requests", status=429, retry_after_seconds=20.0 if count == 1 else 9999.0
        )

    reconcile = Recorded(outcome)
    run(worked(reconcile, seconds=90))
    assert reconcile.at == pytest.approx([0.0, 20.0, 80.0])


def test_one_key_that_hangs_leaves_the_others_alone_and_is_cut_off() -> None:
    ran: list[tuple[Key, float]] = []

    async def reconcile(key: Key) -> float | None:
        ran.append((key, now()))
        if key == CHECKOUT:
            await asyncio.Event().wait()
        return 1.0

    run(worked(reconcile, keys=(CHECKOUT, BASKET), seconds=40, deadline=30))
    assert len([key for key, _ in ran if key == BASKET]) == 40
    assert [at for key, at in ran if key == CHECKOUT] == pytest.approx([0.0, 30.5])


def test_a_failure_is_logged_once_and_again_when_it_becomes_another(caplog: pytest.LogCaptureFixture) -> None:
    def outcome(count: int) -> Exception:
        return RuntimeError("first") if count < 5 else RuntimeError("second")

    with caplog.at_level(logging.WARNING):
        run(worked(Recorded(outcome), seconds=100))
    assert [record.error for record in caplog.records] == ["RuntimeError: first", "RuntimeError: second"]  # type: ignore[attr-defined]
    assert all(record.key == str(CHECKOUT) for record in caplog.records)  # type: ignore[attr-defined]
    assert all(record.exc_info for record in caplog.records), "a defect comes with its trace"


def test_reconciles_that_never_wait_leave_room_for_others_between_them() -> None:
    async def main() -> int:
        queue: WorkQueue[Key] = WorkQueue()
        turns = 0
        all_done = asyncio.Event()

        async def reconcile(key: Key) -> float | None:
            if key.name == "r999":
                all_done.set()
            return None

        async def lease_renewal() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        workers = Workers(queue, reconcile, Metrics(), count=4)
        async with asyncio.TaskGroup() as tasks:
            renewal = tasks.create_task(lease_renewal())
            for number in range(1000):
                queue.add(Key("rollout", "shop", f"r{number}"))
            workers.start(tasks)
            await all_done.wait()
            renewal.cancel()
            await workers.drain(1)
        return turns

    assert run(main()) >= 1000 / 4 - 1, "the event loop stood still until every key was done"


def test_outcomes_are_counted() -> None:
    errors: list[Exception | None] = [Conflict("x"), Unavailable("x"), Refused("x"), ApiError("x"), None]
    metrics = run(worked(Recorded(lambda count: errors[count - 1]), seconds=100))
    counted = {
        outcome: metrics.reconciles.count(kind="rollout", outcome=outcome)
        for outcome in ("ok", "conflict", "unavailable", "refused", "error")
    }
    assert counted == {"ok": 1, "conflict": 1, "unavailable": 1, "refused": 1, "error": 1}


def test_draining_lets_running_work_end_and_starts_no_more() -> None:
    async def main() -> None:
        queue: WorkQueue[Key] = WorkQueue()
        ended: list[Key] = []

        async def reconcile(key: Key) -> float | None:
            await asyncio.sleep(5)
            ended.append(key)
            return None

        workers = Workers(queue, reconcile, Metrics(), count=1)
        async with asyncio.TaskGroup() as tasks:
            workers.start(tasks)
            queue.add(CHECKOUT)
            queue.add(BASKET)
            await asyncio.sleep(1)
            assert await workers.drain(15)
        assert ended == [CHECKOUT]
        assert now() == 5.0

    run(main())


def test_draining_cancels_what_does_not_end_in_time_and_tells_what_resists() -> None:
    async def main() -> None:
        queue: WorkQueue[Key] = WorkQueue()

        async def reconcile(key: Key) -> float | None:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if key == BASKET:
                    await asyncio.sleep(100)
                raise
            return None

        workers = Workers(queue, reconcile, Metrics(), count=2, deadline_seconds=7200)
        async with asyncio.TaskGroup() as tasks:
            workers.start(tasks)
            queue.add(CHECKOUT)
            await asyncio.sleep(1)
            assert await workers.drain(2)
            assert now() == 3.0

    async def resisting() -> None:
        queue: WorkQueue[Key] = WorkQueue()

        async def reconcile(key: Key) -> float | None:
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(100)
            return None

        workers = Workers(queue, reconcile, Metrics(), count=1, deadline_seconds=7200)
        async with asyncio.TaskGroup() as tasks:
            workers.start(tasks)
            queue.add(CHECKOUT)
            await asyncio.sleep(1)
            assert not await workers.drain(2)

    run(main())
    run(resisting())
