"""The Lease elector, on a clock that jumps and an API server that fails in every way."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import pytest

from gatewright_operator.api import Api
from gatewright_operator.errors import ApiError, Conflict, Unavailable
from gatewright_operator.lease import Elector, LeaseTimes
from gatewright_operator.resources import LEASES
from tests.unit.fake_time import now, run
from tests.unit.operator_fakes import FakeApi

START = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def elector(api: FakeApi, identity: str, wall: Callable[[], datetime] | None = None) -> Elector:
    """An elector with the usual times, on the loop's clock."""
    return Elector(
        cast(Api, api),
        namespace="gatewright-system",
        identity=identity,
        clock=now,
        wall_clock=wall or (lambda: START + timedelta(seconds=now())),
    )


def spec(api: FakeApi) -> dict[str, Any]:
    """What the Lease says."""
    found: dict[str, Any] = api.objects[(LEASES, "gatewright-system", "gatewright")]["spec"]
    return found


def down(_: str) -> ApiError:
    return Unavailable("connection refused")


def test_the_first_creates_the_lease_and_leads() -> None:
    async def main() -> None:
        api = FakeApi()
        first = elector(api, "a")
        assert not first.held()
        await first.acquire()
        assert first.held()
        assert spec(api) == {
            "holderIdentity": first.identity,
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-05-04T12:00:00.000000Z",
            "renewTime": "2026-05-04T12:00:00.000000Z",
            "leaseTransitions": 0,
        }

    run(main())


def test_it_renews_every_two_seconds_and_keeps_when_it_was_acquired() -> None:
    async def main() -> None:
        api = FakeApi()
        first = elector(api, "a")
        await first.acquire()
        keeping = asyncio.create_task(first.keep())
        await asyncio.sleep(61)
        assert first.held()
        assert spec(api)["renewTime"] == "2026-05-04T12:01:00.000000Z"
        assert spec(api)["acquireTime"] == "2026-05-04T12:00:00.000000Z"
        assert api.calls.count(("replace", "leases")) == 30
        keeping.cancel()

    run(main())


def test_a_standby_waits_for_the_whole_duration_after_the_last_renewal_that_it_saw() -> None:
    async def main() -> None:
        api = FakeApi()
        first, second = elector(api, "a"), elector(api, "b")
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(0.5)
        await waiting
        assert 15.0 <= now() <= 17.5
        assert not first.held(), "two led at once"
        assert second.held()
        assert second.transitions == 1
        assert spec(api)["leaseTransitions"] == 1

    run(main())


def test_at_no_time_do_two_lead_whoever_is_cut_off_from_the_server() -> None:
    async def main() -> None:
        shared = FakeApi()
        cut_off: set[str] = set()

        class View(FakeApi):
            def __init__(self, name: str) -> None:
                super().__init__()
                self.objects = shared.objects
                self.trouble = lambda _: Unavailable("cut off") if name in cut_off else None

            def store(self, resource: Any, obj: Any) -> Any:
                return shared.store(resource, obj)

        electors = {name: elector(View(name), name) for name in ("a", "b", "c")}

        async def campaign(one: Elector) -> None:
            while True:
                await one.acquire()
                await one.keep()

        tasks = [asyncio.create_task(campaign(one)) for one in electors.values()]
        led: set[str] = set()
        for step in range(4000):
            await asyncio.sleep(0.1)
            leading = [name for name, one in electors.items() if one.held()]
            assert len(leading) <= 1, f"{leading} lead at the same time after {now():.1f} s"
            led.update(leading)
            if step % 300 == 0:
                cut_off = set(leading)
        assert led == {"a", "b", "c"} or len(led) >= 2, "nobody ever took over"
        for task in tasks:
            task.cancel()

    run(main())


def test_leadership_ends_ten_seconds_after_the_last_renewal_when_the_server_is_gone() -> None:
    async def main() -> None:
        api = FakeApi()
        first = elector(api, "a")
        await first.acquire()
        api.trouble = down
        await first.keep()
        assert now() == pytest.approx(10.0)
        assert not first.held()

    run(main())


def test_leadership_ends_as_early_when_the_server_hangs() -> None:
    async def main() -> None:
        api = FakeApi()
        first = elector(api, "a")
        await first.acquire()
        api.hang = True
        await first.keep()
        assert now() <= 10.0 + 0.1
        assert not first.held()

    run(main())


def test_a_short_trouble_ends_nothing() -> None:
    async def main() -> None:
        api = FakeApi()
        first = elector(api, "a")
        await first.acquire()
        keeping = asyncio.create_task(first.keep())
        await asyncio.sleep(3)
        api.trouble = down
        await asyncio.sleep(6)
        api.trouble = lambda _: None
        await asyncio.sleep(60)
        assert first.held()
        assert not keeping.done()
        keeping.cancel()

    run(main())


def test_validity_counts_from_before_the_request_not_from_its_answer() -> None:
    async def main() -> None:
        api = FakeApi()
        first = elector(api, "a")
        await first.acquire()

        class Slow(FakeApi):
            async def _answer(self, verb: str, resource: Any) -> None:
                await asyncio.sleep(2.4)

        slow = Slow()
        slow.objects = api.objects
        first._api = cast(Api, slow)
        keeping = asyncio.create_task(first.keep())
        await asyncio.sleep(2 + 4.8 + 0.01)  # the renewal began at 2 s and was answered at 6.8 s
        slow.hang = True
        slow.trouble = down
        first._api = cast(Api, api)
        api.trouble = down
        await keeping
        assert now() == pytest.approx(12.0)

    run(main())


def test_a_lease_taken_away_by_a_person_ends_leadership_at_once() -> None:
    async def main() -> None:
        api = FakeApi()
        first = elector(api, "a")
        await first.acquire()
        lease = api.objects[(LEASES, "gatewright-system", "gatewright")]
        api.store(LEASES, lease | {"spec": lease["spec"] | {"holderIdentity": "sre-1"}})
        await first.keep()
        assert now() <= 2.1
        assert not first.held()

    run(main())


def test_a_clean_exit_releases_the_lease_and_a_standby_leads_within_two_seconds() -> None:
    async def main() -> None:
        api = FakeApi()
        first, second = elector(api, "a"), elector(api, "b")
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(1)
        await first.release()
        assert not first.held()
        assert "holderIdentity" not in spec(api)
        await waiting
        assert now() <= 3.0

    run(main())


def test_releasing_is_harmless_when_somebody_else_holds_the_lease_or_the_server_is_gone() -> None:
    async def main() -> None:
        api = FakeApi()
        first = elector(api, "a")
        await first.acquire()
        lease = api.objects[(LEASES, "gatewright-system", "gatewright")]
        api.store(LEASES, lease | {"spec": lease["spec"] | {"holderIdentity": "b_1"}})
        await first.release()
        assert spec(api)["holderIdentity"] == "b_1", "a Lease was released that is somebody else's"

        third = elector(FakeApi(), "c")
        await third.acquire()
        cast(FakeApi, third._api).trouble = down
        await third.release()
        assert not third.held()

    run(main())


def test_a_restarted_process_does_not_take_its_predecessors_lease_for_its_own() -> None:
    async def main() -> None:
        api = FakeApi()
        before, after = elector(api, "pod-1"), elector(api, "pod-1")
        await before.acquire()
        task = asyncio.create_task(after.acquire())
        await asyncio.sleep(5)
        assert not after.held(), "the predecessor may still be running"
        await task
        assert now() >= 15

    run(main())


def test_of_two_that_want_a_free_lease_one_gets_it() -> None:
    async def main() -> None:
        api = FakeApi()
        both = [elector(api, "a"), elector(api, "b")]
        tasks = [asyncio.create_task(one.acquire()) for one in both]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(1)
        assert sum(one.held() for one in both) == 1
        for task in tasks:
            task.cancel()

    run(main())


def test_a_conflict_is_only_a_failed_attempt() -> None:
    async def main() -> None:
        api = FakeApi()
        first = elector(api, "a")
        await first.acquire()
        keeping = asyncio.create_task(first.keep())
        api.trouble = lambda verb: Conflict("it changed") if verb == "replace" and now() < 7 else None
        await asyncio.sleep(30)
        assert first.held()
        keeping.cancel()

    run(main())


def test_times_are_written_in_utc_wherever_the_process_runs() -> None:
    async def main() -> None:
        api = FakeApi()
        tokyo = timezone(timedelta(hours=9))
        await elector(api, "a", wall=lambda: START.astimezone(tokyo)).acquire()
        assert spec(api)["renewTime"] == "2026-05-04T12:00:00.000000Z"

    run(main())


@pytest.mark.parametrize("times", [(10, 15, 2), (15, 10, 10), (15, 15, 2), (15, 10, 0)])
def test_times_that_would_let_two_lead_are_refused(times: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="retry < renew deadline < duration"):
        LeaseTimes(*times)


def test_a_lease_of_another_length_keeps_the_proportions() -> None:
    assert LeaseTimes.of(30) == LeaseTimes(30, 20, 4)
