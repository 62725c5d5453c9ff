"""What comes in: from watches and re-lists into cache and queue."""

import asyncio
from typing import Any, cast

import pytest

from gatewright_operator.api import Api, Listing
from gatewright_operator.cache import Cache
from gatewright_operator.errors import NotFound, Refused, Unavailable
from gatewright_operator.intake import Intake
from gatewright_operator.keys import Key
from gatewright_operator.metrics import Metrics
from gatewright_operator.queue import WorkQueue
from gatewright_operator.resources import (
    DEPLOYMENTS,
    GATE_RUNS,
    HTTPROUTES,
    METRIC_SOURCES,
    ROLLOUTS,
    SERVICES,
)
from gatewright_operator.resync import Resync
from gatewright_operator.watched import WATCHED
from tests.unit.fake_time import now, run
from tests.unit.operator_fakes import FakeApi

Object = dict[str, Any]
CHECKOUT = Key("rollout", "shop", "checkout")


def rollout(version: int, name: str = "checkout") -> Object:
    """A Rollout of the Deployment `NAME-web`."""
    return {
        "metadata": {"name": name, "namespace": "shop", "resourceVersion": str(version)},
        "spec": {"workloadRef": {"name": f"{name}-web"}},
    }


def obj(name: str, version: int, **parts: Any) -> Object:
    """Any other object."""
    return {"metadata": {"name": name, "namespace": "shop", "resourceVersion": str(version)}, **parts}


class World:
    """Cache, queue and intake, as one term has them."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.queue: WorkQueue[Key] = WorkQueue()
        self.metrics = Metrics()
        self.intake = Intake(self.cache, self.queue, self.metrics, clock=now)
        self.api = FakeApi()

    def resync(self, *, namespaces: tuple[str, ...] = ()) -> Resync:
        return Resync(cast(Api, self.api), self.intake, namespaces=namespaces, interval_seconds=300)

    async def due(self) -> set[Key]:
        """The keys that are due now, each processed successfully."""
        keys = set()
        while self.queue.due_count:
            key = await self.queue.get()
            self.queue.done(key)
            keys.add(key)
        return keys


def test_a_changed_object_wakes_who_depends_on_it_and_is_in_the_cache_by_then() -> None:
    async def main() -> None:
        world = World()
        world.intake.changed(ROLLOUTS, rollout(1))
        assert await world.due() == {CHECKOUT}
        world.intake.changed(DEPLOYMENTS, obj("checkout-web", 2))
        assert world.cache.get(DEPLOYMENTS, "shop", "checkout-web") is not None
        assert await world.due() == {CHECKOUT}

    run(main())


def test_an_old_event_changes_nothing_and_wakes_nobody() -> None:
    async def main() -> None:
        world = World()
        world.intake.changed(ROLLOUTS, rollout(9))
        await world.due()
        world.intake.changed(ROLLOUTS, rollout(8))
        assert await world.due() == set()

    run(main())


def test_the_event_of_our_own_write_still_wakes_whoever_waits_for_it() -> None:
    async def main() -> None:
        world = World()
        decided = obj("checkout-a1", 5, spec={"rollout": "checkout"}, status={"phase": "Decided"})
        world.cache.put(GATE_RUNS, decided)  # the run's own reconcile wrote it and kept the answer
        world.intake.changed(GATE_RUNS, decided)
        assert CHECKOUT in await world.due(), "the Rollout would never hear of its run's verdict"

    run(main())


def test_a_watch_that_starts_anew_wakes_nobody_for_what_is_known() -> None:
    async def main() -> None:
        world = World()
        world.intake.changed(ROLLOUTS, rollout(1))
        await world.due()
        world.intake.changed(ROLLOUTS, rollout(1), listed=True)
        assert await world.due() == set()

    run(main())


def test_a_deleted_rollout_is_reconciled_once_more_and_then_named_by_nothing() -> None:
    async def main() -> None:
        world = World()
        world.intake.changed(ROLLOUTS, rollout(1))
        await world.due()
        world.intake.gone(ROLLOUTS, rollout(4))
        assert await world.due() == {CHECKOUT}
        world.intake.changed(DEPLOYMENTS, obj("checkout-web", 6))
        assert await world.due() == set()

    run(main())


def test_after_it_is_closed_nothing_comes_in() -> None:
    async def main() -> None:
        world = World()
        world.intake.close()
        world.intake.changed(ROLLOUTS, rollout(1))
        world.intake.gone(ROLLOUTS, rollout(2))
        world.intake.relisted(ROLLOUTS, Listing([rollout(3)], "3"), namespace=None, first=False)
        assert world.cache.all(ROLLOUTS) == []
        assert await world.due() == set()

    run(main())


def test_the_first_listing_fills_the_cache_and_wakes_everything_at_once() -> None:
    async def main() -> None:
        world = World()
        world.api.store(ROLLOUTS, rollout(0))
        world.api.store(GATE_RUNS, obj("run-1", 0, spec={"rollout": "checkout"}))
        world.api.store(METRIC_SOURCES, {"metadata": {"name": "prometheus"}})
        await world.resync().fill()
        assert await world.due() == {CHECKOUT, Key("run", "shop", "run-1"), Key("source", "", "prometheus")}
        assert world.metrics.missed_events.value(resource="rollouts") == 0

    run(main())


def test_a_gated_deployment_that_no_rollout_names_is_looked_at_when_the_cache_is_filled() -> None:
    """Its Rollout was deleted while no operator watched: no event will ever tell."""

    async def main() -> None:
        world = World()
        world.api.store(ROLLOUTS, rollout(0))
        for name, gated in (("checkout-web", "true"), ("left", "true"), ("left-canary", "canary")):
            deployment = obj(name, 0)
            deployment["metadata"]["labels"] = {"gatewright.dev/gated": gated}
            world.api.store(DEPLOYMENTS, deployment)
        await world.resync().fill()
        assert Key("workload", "shop", "left") in await world.due()

    run(main())


def test_a_relist_finds_what_was_deleted_and_changed_while_nobody_watched() -> None:
    async def main() -> None:
        world = World()
        gone, changed = (
            world.api.store(ROLLOUTS, rollout(0, "gone")),
            world.api.store(ROLLOUTS, rollout(0, "changed")),
        )
        await world.resync().fill()
        await world.due()
        del world.api.objects[(ROLLOUTS, "shop", "gone")]
        world.api.version += 1
        world.api.store(ROLLOUTS, changed)
        await world.resync().once()
        assert await world.due() == {Key("rollout", "shop", "gone"), Key("rollout", "shop", "changed")}
        assert world.cache.get(ROLLOUTS, "shop", gone["metadata"]["name"]) is None
        assert world.metrics.missed_events.value(resource="rollouts") == 2

    run(main())


def test_what_was_deleted_between_the_first_listing_and_the_start_of_its_watch_is_found_soon_after_that() -> (
    None
):
    async def main() -> None:
        world = World()
        world.api.store(ROLLOUTS, rollout(0, "gone"))
        resync = world.resync()
        await resync.fill()
        await world.due()
        del world.api.objects[(ROLLOUTS, "shop", "gone")]
        world.api.version += 1
        task = asyncio.create_task(resync.run())
        resync.watch_began("/apis/somebody.else/v1/things")
        resync.watch_began(ROLLOUTS.path(None))
        await asyncio.sleep(1.0)
        assert await world.due() == {Key("rollout", "shop", "gone")}
        assert world.cache.get(ROLLOUTS, "shop", "gone") is None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(main())


def test_every_five_minutes_every_key_is_reconciled_but_not_all_at_once() -> None:
    async def main() -> None:
        world = World()
        names = [f"r{number}" for number in range(200)]
        for name in names:
            world.api.store(ROLLOUTS, rollout(0, name))
        resync = world.resync()
        await resync.fill()
        await world.due()
        task = asyncio.create_task(resync.run())
        await asyncio.sleep(301)
        first = await world.due()
        assert 0 < len(first) < 50
        await asyncio.sleep(30)
        assert len(first | await world.due()) == 200
        task.cancel()

    run(main())


def test_nothing_is_complete_while_one_kind_cannot_be_listed() -> None:
    async def main() -> None:
        world = World()
        world.api.trouble = lambda _: Unavailable("not yet") if now() < 20 else None
        await world.resync().fill()
        assert now() >= 20
        world.api.trouble = lambda _: Refused("no right to list")
        with pytest.raises(Refused):
            await world.resync().once()

    run(main())


def test_a_cluster_without_the_gateway_api_is_listed_all_the_same_but_our_kinds_must_be_there() -> None:
    async def main() -> None:
        world = World()

        class Without(FakeApi):
            absent: Any = HTTPROUTES

            async def listing(self, resource: Any, namespace: str | None, **options: Any) -> Listing:
                if resource == self.absent:
                    raise NotFound("no such kind", status=404)
                return await super().listing(resource, namespace, **options)

        api = Without()
        resync = Resync(cast(Api, api), world.intake)
        await resync.once()
        api.absent = ROLLOUTS
        with pytest.raises(NotFound):
            await resync.once()

    run(main())


def test_with_namespaces_given_only_they_and_cluster_scoped_kinds_are_listed() -> None:
    async def main() -> None:
        world = World()
        asked: list[tuple[str, str | None]] = []

        class Asked(FakeApi):
            async def listing(self, resource: Any, namespace: str | None, **options: Any) -> Listing:
                asked.append((resource.plural, namespace))
                return await super().listing(resource, namespace, **options)

        await Resync(cast(Api, Asked()), world.intake, namespaces=("shop", "billing")).once()
        assert {namespace for plural, namespace in asked if plural == "rollouts"} == {"shop", "billing"}
        assert {namespace for plural, namespace in asked if plural == "metricsources"} == {None}
        assert {plural for plural, _ in asked} == {watched.resource.plural for watched in WATCHED}

    run(main())


def test_the_age_counts_from_the_last_event_or_complete_relist() -> None:
    async def main() -> None:
        world = World()
        await asyncio.sleep(50)
        assert world.intake.age_seconds == 50
        world.intake.changed(SERVICES, obj("front", 1))
        assert world.intake.age_seconds == 0
        await asyncio.sleep(70)
        await world.resync().fill()
        assert world.intake.age_seconds == 0

    run(main())
