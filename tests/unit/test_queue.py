"""The work queue's contract, on a clock that jumps."""

import asyncio
from itertools import pairwise

import pytest

from gatewright_operator.queue import Backoff, QueueClosed, WorkQueue
from tests.unit.fake_time import now, run


def queue(**options: float) -> WorkQueue[str]:
    """A queue whose backoff has no chance in it."""
    return WorkQueue(chance=lambda: 0.0, **options)


async def nothing_is_due(work: WorkQueue[str]) -> bool:
    """True when a worker that asks now must wait."""
    try:
        async with asyncio.timeout(0.000001):
            await work.get()
    except TimeoutError:
        return True
    return False


def test_a_key_added_twice_is_handed_out_once() -> None:
    async def main() -> None:
        work = queue()
        work.add("a")
        work.add("a")
        assert await work.get() == "a"
        work.done("a")
        assert await nothing_is_due(work)

    run(main())


def test_keys_come_in_the_order_in_which_they_became_due() -> None:
    async def main() -> None:
        work = queue()
        for key in ("a", "b", "c"):
            work.add(key)
        work.add("a")
        assert [await work.get() for _ in range(3)] == ["a", "b", "c"]

    run(main())


def test_a_key_is_never_in_work_twice_and_runs_once_more_when_it_changed_meanwhile() -> None:
    async def main() -> None:
        work = queue()
        work.add("a")
        assert await work.get() == "a"
        work.add("a")
        work.add("a")
        assert await nothing_is_due(work), "a second worker got the key that a first one is working on"
        work.done("a")
        assert await work.get() == "a"
        work.done("a")
        assert await nothing_is_due(work), "two changes during one run want one more run, not two"

    run(main())


def test_of_two_deadlines_the_earlier_wins_whichever_came_first() -> None:
    async def main() -> None:
        work = queue()
        work.add_after("late-first", 60)
        work.add_after("late-first", 5)
        work.add_after("early-first", 7)
        work.add_after("early-first", 90)
        assert (await work.get(), now()) == ("late-first", 5.0)
        assert (await work.get(), now()) == ("early-first", 7.0)
        work.done("late-first")
        work.done("early-first")
        await asyncio.sleep(200)
        assert work.due_count == 0, "the later deadline must be forgotten, not kept for another run"

    run(main())


def test_a_change_overtakes_a_deadline() -> None:
    async def main() -> None:
        work = queue()
        work.add_after("a", 300)
        await asyncio.sleep(1)
        work.add("a")
        assert (await work.get(), now()) == ("a", 1.0)

    run(main())


def test_a_deadline_that_passes_during_work_means_one_more_run() -> None:
    async def main() -> None:
        work = queue()
        work.add("a")
        await work.get()
        work.add_after("a", 1)
        await asyncio.sleep(5)
        work.done("a")
        assert (await work.get(), now()) == ("a", 5.0)

    run(main())


def test_failures_back_off_exponentially_up_to_the_cap_and_success_resets_them() -> None:
    async def main() -> None:
        work = queue()
        work.add("a")
        failed_at = [0.0]
        for _ in range(9):
            await work.get()
            failed_at.append(now())
            work.fail("a")
        waits = [later - earlier for earlier, later in pairwise(failed_at)]
        assert waits == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0]
        await work.get()
        work.done("a")
        work.add("a")
        await work.get()
        assert work.fail("a") == 0.5, "after a success the first failure waits the base time again"

    run(main())


def test_chance_takes_off_up_to_half_of_a_backoff() -> None:
    backoff = Backoff(base_seconds=4.0, cap_seconds=100.0)
    assert backoff.seconds(1, 0.0) == 4.0
    assert backoff.seconds(1, 0.999999) == pytest.approx(2.0, abs=1e-4)
    assert backoff.seconds(5000, 0.0) == 100.0


def test_a_server_that_asks_for_time_gets_it() -> None:
    async def main() -> None:
        work = queue()
        work.add("a")
        await work.get()
        assert work.fail("a", at_least_seconds=7.0) == 7.0

    run(main())


def test_an_event_cuts_a_backoff_short_but_not_below_the_time_to_cool() -> None:
    async def main() -> None:
        work = queue(cool_seconds=0.5)
        work.add("a")
        for _ in range(6):
            await work.get()
            work.fail("a")
            work.add("a")
        started = now()
        assert await work.get() == "a"
        assert now() - started == pytest.approx(0.5), "woken by its own write, a failing key would spin"

    run(main())


def test_a_change_seen_during_a_failing_run_is_not_lost() -> None:
    async def main() -> None:
        work = queue(cool_seconds=0.5)
        work.add("a")
        for _ in range(8):
            await work.get()
            work.add("a")
            work.fail("a")
        started = now()
        assert await work.get() == "a"
        assert now() - started == pytest.approx(0.5), "the backoff of 60 s is cut short by the change"

    run(main())


def test_forget_drops_deadlines_and_failures() -> None:
    async def main() -> None:
        work = queue()
        work.add("a")
        await work.get()
        work.fail("a")
        work.forget("a")
        await asyncio.sleep(100)
        assert work.due_count == 0
        assert work.failures("a") == 0

    run(main())


def test_every_waiting_worker_gets_one_of_the_keys() -> None:
    async def main() -> None:
        work = queue()
        workers = [asyncio.create_task(work.get()) for _ in range(3)]
        await asyncio.sleep(1)
        for key in ("a", "b", "c"):
            work.add(key)
        assert sorted(await asyncio.gather(*workers)) == ["a", "b", "c"]

    run(main())


def test_the_wake_up_of_a_cancelled_worker_reaches_another() -> None:
    async def main() -> None:
        work = queue()
        first, second = asyncio.create_task(work.get()), asyncio.create_task(work.get())
        await asyncio.sleep(1)
        work.add("a")
        first.cancel()
        assert await asyncio.wait_for(second, 1) == "a"

    run(main())


def test_closing_ends_every_waiting_worker_and_hands_out_nothing_more() -> None:
    async def main() -> None:
        work = queue()
        waiting = asyncio.create_task(work.get())
        await asyncio.sleep(1)
        work.close()
        with pytest.raises(QueueClosed):
            await waiting
        work.add("a")
        with pytest.raises(QueueClosed):
            await work.get()

    run(main())


def test_ages_tell_how_long_keys_wait_and_how_long_they_are_in_work() -> None:
    async def main() -> None:
        work = queue()
        assert (work.oldest_due_age(), work.oldest_processing_age()) == (0.0, 0.0)
        work.add("a")
        await asyncio.sleep(3)
        work.add("b")
        assert work.oldest_due_age() == 3.0
        await work.get()
        await asyncio.sleep(4)
        assert (work.oldest_due_age(), work.oldest_processing_age()) == (4.0, 4.0)
        assert (work.due_count, work.processing_count) == (1, 1)

    run(main())


def test_many_keys_with_many_deadlines_all_come_at_their_time() -> None:
    async def main() -> None:
        work = queue()
        for number in range(2000):
            work.add_after(str(number), 1 + number * 37 % 1000)
        for _ in range(2000):
            key = await work.get()
            assert now() == 1 + int(key) * 37 % 1000
            work.done(key)

    run(main())
