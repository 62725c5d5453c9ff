"""Events: posted in the background, once, and never in anybody's way."""

import asyncio
from typing import Any, cast

from gatewright_operator.api import Api
from gatewright_operator.errors import Refused, Unavailable
from gatewright_operator.metrics import Metrics
from gatewright_operator.posting import WAITING, Recorder
from tests.unit.fake_time import now, run
from tests.unit.operator_fakes import FakeApi

ROLLOUT = {
    "apiVersion": "gatewright.dev/v1alpha1",
    "kind": "Rollout",
    "metadata": {"name": "checkout", "namespace": "shop", "uid": "u-1", "resourceVersion": "7"},
}


class Desk:
    """A recorder at work, and what it posted."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.metrics = Metrics()
        self.recorder = Recorder(cast(Api, self.api), self.metrics, identity="pod-1_x", clock=now)

    @property
    def posted(self) -> list[dict[str, Any]]:
        return list(self.api.objects.values())

    def say(self, message: str = "Held at step 2.", regarding: dict[str, Any] = ROLLOUT) -> None:
        self.recorder.event(regarding, "Warning", "Held", message, "Hold")

    def dropped(self, cause: str) -> float:
        return self.metrics.events_dropped.value(cause=cause)


async def settled(desk: Desk, seconds: float = 30) -> None:
    """Let the recorder post for a while."""
    task = asyncio.create_task(desk.recorder.run())
    await asyncio.sleep(seconds)
    task.cancel()


def test_an_event_says_who_what_why_and_about_what() -> None:
    async def main() -> None:
        desk = Desk()
        desk.say()
        await settled(desk)
        (event,) = desk.posted
        assert event["metadata"]["namespace"] == "shop"
        assert event["regarding"] == {
            "apiVersion": "gatewright.dev/v1alpha1",
            "kind": "Rollout",
            "name": "checkout",
            "namespace": "shop",
            "uid": "u-1",
            "resourceVersion": "7",
        }
        assert (event["type"], event["reason"], event["action"]) == ("Warning", "Held", "Hold")
        assert event["note"] == "Held at step 2."
        assert event["reportingController"] == "gatewright.dev/operator"
        assert event["reportingInstance"] == "pod-1_x"

    run(main())


def test_the_same_event_is_posted_once_in_ten_minutes() -> None:
    async def main() -> None:
        desk = Desk()
        for _ in range(5):
            desk.say()
        desk.say("Held at step 3.")
        await settled(desk)
        assert len(desk.posted) == 2
        assert desk.dropped("repeated") == 4
        await asyncio.sleep(600)
        desk.say()
        await settled(desk)
        assert len(desk.posted) == 3

    run(main())


def test_events_about_cluster_scoped_objects_go_to_the_default_namespace() -> None:
    async def main() -> None:
        desk = Desk()
        desk.say(regarding={"apiVersion": "v1", "kind": "MetricSource", "metadata": {"name": "prometheus"}})
        await settled(desk)
        assert desk.posted[0]["metadata"]["namespace"] == "default"
        assert "namespace" not in desk.posted[0]["regarding"]

    run(main())


def test_when_the_server_is_away_it_tries_again_and_then_lets_go() -> None:
    async def main() -> None:
        desk = Desk()
        desk.api.trouble = lambda _: Unavailable("away") if now() < 2 else None
        desk.say()
        await settled(desk)
        assert len(desk.posted) == 1

        desk.api.trouble = lambda _: Unavailable("away for long")
        desk.say("Held at step 3.")
        await settled(desk)
        assert desk.dropped("unavailable") == 1
        desk.api.trouble = lambda _: None
        desk.say("Held at step 4.")
        await settled(desk)
        assert len(desk.posted) == 2, "one Event that could not be posted must not hold up the next"

    run(main())


def test_a_refused_event_is_dropped_at_once() -> None:
    async def main() -> None:
        desk = Desk()
        desk.api.trouble = lambda _: Refused("the namespace is being terminated")
        desk.say()
        await settled(desk, 0.5)
        assert desk.dropped("refused") == 1
        assert desk.api.calls == [("create", "events")]

    run(main())


def test_too_many_events_are_dropped_not_kept() -> None:
    async def main() -> None:
        desk = Desk()
        desk.api.hang = True
        for number in range(WAITING + 100):
            desk.say(f"Held at step {number}.")
        assert desk.dropped("overflow") == 100

    run(main())


def test_a_long_message_is_cut_between_characters() -> None:
    async def main() -> None:
        desk = Desk()
        desk.say("–" * 2000)
        await settled(desk)
        note = desk.posted[0]["note"]
        assert len(note.encode()) <= 1024
        assert set(note) == {"–"}

    run(main())


def test_flushing_waits_for_what_is_posted_but_not_longer_than_told() -> None:
    async def main() -> None:
        desk = Desk()
        task = asyncio.create_task(desk.recorder.run())
        desk.say()
        await desk.recorder.flush(5)
        assert len(desk.posted) == 1
        desk.api.hang = True
        desk.say("Held at step 3.")
        started = now()
        await desk.recorder.flush(5)
        assert now() - started == 5
        task.cancel()

    run(main())
