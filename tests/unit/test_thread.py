"""The thread in which the watches run: restarted when it fails, ended when asked."""

import asyncio
import threading

import pytest

from gatewright_operator import thread
from gatewright_operator.thread import Restarting


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread, "RESTART_SECONDS", 0.001)
    monkeypatch.setattr(thread, "RESTART_CAP_SECONDS", 0.002)


async def until(condition: threading.Event) -> None:
    assert await asyncio.to_thread(condition.wait, 10), "it did not happen"


async def test_what_fails_or_ends_by_itself_is_started_anew_until_it_is_asked_to_end() -> None:
    starts: list[str] = []
    fourth = threading.Event()
    restarts: list[None] = []

    async def body(stop: asyncio.Event) -> None:
        starts.append(threading.current_thread().name)
        if len(starts) == 1:
            raise RuntimeError("it fell over")
        if len(starts) < 4:
            return
        fourth.set()
        await stop.wait()

    watches = Restarting(body, name="watches", on_restart=lambda: restarts.append(None))
    watches.start()
    await until(fourth)
    assert watches.running
    assert await watches.stop(10)
    assert starts == ["watches"] * 4
    assert len(restarts) == 3
    assert not watches.running


async def test_a_body_that_will_not_end_is_told_of_and_holds_nobody_up() -> None:
    started, let_go = threading.Event(), threading.Event()

    async def body(stop: asyncio.Event) -> None:
        started.set()
        await stop.wait()
        await asyncio.to_thread(let_go.wait, 10)

    watches = Restarting(body, name="stubborn", on_restart=lambda: None)
    watches.start()
    await until(started)
    assert not await watches.stop(0.05)
    let_go.set()
    assert await watches.stop(10)


async def test_stopping_what_was_never_started_is_harmless() -> None:
    async def body(stop: asyncio.Event) -> None:
        raise AssertionError("it was never started")

    assert await Restarting(body, name="never", on_restart=lambda: None).stop(1)


async def test_it_can_be_stopped_while_it_pauses_before_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread, "RESTART_SECONDS", 3600.0)
    monkeypatch.setattr(thread, "RESTART_CAP_SECONDS", 3600.0)
    failed = threading.Event()

    async def body(stop: asyncio.Event) -> None:
        raise RuntimeError("it fell over")

    watches = Restarting(body, name="pausing", on_restart=failed.set)
    watches.start()
    await until(failed)
    assert await watches.stop(10)
