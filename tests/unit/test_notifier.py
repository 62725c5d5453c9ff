"""Desks of sinks on a simulated API: marked, sent, reported; others in the way, and an API server that is not there."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from gatewright_analysis.kinds.base import format_time
from gatewright_analysis.kinds.rollout import RolloutStatus
from gatewright_analysis.notify.deliveries import Outcome
from gatewright_analysis.notify.forms import Request
from gatewright_operator.api import Api
from gatewright_operator.cache import Cache
from gatewright_operator.errors import ApiError, Unavailable
from gatewright_operator.keys import Key
from gatewright_operator.metrics import Metrics
from gatewright_operator.notify.notifier import Notifier
from gatewright_operator.posting import Recorder
from gatewright_operator.queue import WorkQueue
from gatewright_operator.resources import METRIC_SOURCES, NAMESPACES, NOTIFICATION_SINKS, ROLLOUTS, SECRETS
from tests.unit.fake_time import now, run
from tests.unit.notices import NOON, held, meta, source
from tests.unit.operator_fakes import FakeApi

Object = dict[str, Any]
KEY = base64.b64encode(b"key").decode()
SENT = Outcome(True)


class SinkApi(FakeApi):
    """With the lease that a sender must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.leads = True

    def may_write(self) -> bool:
        return self.leads


class Office:
    """An operator's notifier, the cluster that it sees, and what its sinks got."""

    def __init__(self, api: SinkApi | None = None) -> None:
        self.api = api or SinkApi()
        self.cache, self.queue, self.metrics = Cache(), WorkQueue[Key](), Metrics()
        self.sent: list[Request] = []
        self.begun = asyncio.Event()
        self.outcomes: dict[str, Outcome | None] = {}
        """By address; None: no answer ever."""
        recorder = Recorder(cast(Api, self.api), self.metrics, identity="one", clock=now)
        self.recorder = recorder
        self.notifier = Notifier(
            api=cast(Api, self.api),
            cache=self.cache,
            queue=self.queue,
            recorder=recorder,
            metrics=self.metrics,
            namespace="gatewright-system",
            clock=lambda: NOON + timedelta(minutes=10, seconds=now()),
            send=self._send,
        )
        self.task: asyncio.Task[None] | None = None

    async def _send(self, request: Request, *, timeout_seconds: float, ca: bytes | None = None) -> Outcome:
        self.sent.append(request)
        self.begun.set()
        await asyncio.sleep(0.1)
        outcome = self.outcomes.get(request.url, SENT)
        if outcome is None:
            await asyncio.Event().wait()
            raise AssertionError
        return outcome

    def see(self, resource: Any = None) -> None:
        """The cache as the API server has it."""
        for (kind, _, _), obj in self.api.objects.items():
            if kind in (ROLLOUTS, METRIC_SOURCES, NOTIFICATION_SINKS):
                self.cache.put(kind, obj)
                self.notifier.saw(kind)

    async def work(self, seconds: float) -> None:
        if self.task is None:
            self.see()
            self.task = asyncio.create_task(self.notifier.run())
        await asyncio.sleep(seconds)

    async def die(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def told(self, sink: str = "ops") -> list[tuple[str, str]]:
        """(kind, state) of what the sink's status says."""
        status = self.api.objects[(NOTIFICATION_SINKS, "", sink)].get("status", {})
        return [(d["kind"], d["state"]) for d in status.get("deliveries", ())]

    def ready(self, sink: str = "ops") -> tuple[str, str, str]:
        [one] = self.api.objects[(NOTIFICATION_SINKS, "", sink)]["status"]["conditions"]
        return one["status"], one["reason"], one["message"]


def sink(api: FakeApi, name: str = "ops", **spec: Any) -> None:
    metadata = {"name": name, "uid": f"uid-{name}", "generation": 1, "creationTimestamp": format_time(NOON)}
    api.store(
        NOTIFICATION_SINKS,
        {
            "apiVersion": "gatewright.dev/v1alpha1",
            "kind": "NotificationSink",
            "metadata": metadata,
            "spec": {
                "webhook": {},
                "address": f"https://{name}.example.com",
                "secretRef": {"name": "sinks", "key": "key"},
                **spec,
            },
        },
    )


def secret(api: FakeApi) -> None:
    metadata = {"name": "sinks", "namespace": "gatewright-system"}
    api.store(SECRETS, {"metadata": metadata, "data": {"key": KEY}})


def rollout(api: FakeApi, status: RolloutStatus, name: str = "checkout", namespace: str = "shop") -> None:
    spec = {
        "workloadRef": {"name": name},
        "contractRef": {"name": name},
        "traffic": {"replicas": {}},
        "steps": [{"setWeight": 50}, {"gate": {"duration": "4s"}}],
    }
    metadata = meta(name, namespace).wire() | {"creationTimestamp": format_time(NOON)}
    api.store(ROLLOUTS, {"kind": "Rollout", "metadata": metadata, "spec": spec, "status": status.wire()})


def namespace(api: FakeApi, name: str, **labels: str) -> None:
    api.store(NAMESPACES, {"metadata": {"name": name, "labels": labels}})


def office(**spec: Any) -> Office:
    result = Office()
    sink(result.api, **spec)
    secret(result.api)
    rollout(result.api, held())
    return result


def test_a_hold_is_marked_sent_and_reported() -> None:
    async def main() -> None:
        desk = office()
        await desk.work(60)
        assert len(desk.sent) == 1
        assert desk.told() == [("Held", "Sent")]
        assert desk.ready()[:2] == ("True", "SinkAnswers")
        assert desk.metrics.notifications.value(sink="ops", outcome="Sent") == 1
        writes = [call for call in desk.api.calls if call == ("replace", "notificationsinks")]
        assert len(writes) == 2, "the mark and the report, and nothing while nothing changes"

    run(main())


def test_an_operator_that_dies_while_it_sends_is_followed_by_one_that_repeats_it() -> None:
    async def main() -> None:
        first = office()
        first.outcomes["https://ops.example.com"] = None
        await first.work(60)
        await first.die()
        assert first.told() == [("Held", "Sending")]
        second = Office(first.api)
        await second.work(60)
        keys = [sent.headers["Idempotency-Key"] for sent in (*first.sent, *second.sent)]
        assert len(keys) == 2 and len(set(keys)) == 1
        third = Office(first.api)
        await third.work(60)
        assert third.sent == []

    run(main())


def test_of_two_operators_that_both_believe_to_lead_one_sends() -> None:
    async def main() -> None:
        one = office()
        two = Office(one.api)
        await asyncio.gather(one.work(20), two.work(20))
        assert len(one.sent) + len(two.sent) == 1

    run(main())


def test_who_has_lost_the_lease_after_the_mark_sends_nothing() -> None:
    async def main() -> None:
        desk = office()
        desk.api.leads = False
        await desk.work(1)
        assert desk.sent == []
        assert desk.told() == [("Held", "Failed")]

    run(main())


def test_what_was_sent_is_reported_when_the_api_server_is_back_and_not_sent_again() -> None:
    async def main() -> None:
        desk = office()
        down = {"down": False}

        def trouble(verb: str) -> ApiError | None:
            return Unavailable("no answer") if down["down"] else None

        desk.api.trouble = trouble
        await desk.work(0)
        await desk.begun.wait()
        down["down"] = True
        await asyncio.sleep(300)
        assert desk.told() == [("Held", "Sending")]
        down["down"] = False
        await asyncio.sleep(60)
        assert desk.told() == [("Held", "Sent")] and len(desk.sent) == 1

    run(main())


def test_a_change_of_the_sink_meanwhile_loses_no_report() -> None:
    async def main() -> None:
        desk = office()
        await desk.work(0)
        await desk.begun.wait()
        raw = desk.api.objects[(NOTIFICATION_SINKS, "", "ops")]
        desk.api.store(NOTIFICATION_SINKS, raw | {"metadata": raw["metadata"] | {"labels": {"team": "a"}}})
        await asyncio.sleep(60)
        assert desk.told() == [("Held", "Sent")] and len(desk.sent) == 1

    run(main())


def test_a_sink_that_hangs_holds_up_no_other() -> None:
    async def main() -> None:
        desk = office()
        sink(desk.api, "slow")
        desk.outcomes["https://slow.example.com"] = None
        await desk.work(5)
        assert desk.told("ops") == [("Held", "Sent")]
        assert desk.told("slow") == [("Held", "Sending")]

    run(main())


def test_a_sink_that_fails_is_told_of_in_its_condition_and_tried_until_it_takes_it() -> None:
    async def main() -> None:
        desk = office()
        desk.outcomes["https://ops.example.com"] = Outcome(False, "The sink can't be reached.")
        await desk.work(60)
        attempts = len(desk.sent)
        assert attempts > 2 and desk.told() == [("Held", "Failed")]
        assert desk.ready() == ("False", "SinkFails", "The sink can't be reached.")
        del desk.outcomes["https://ops.example.com"]
        await asyncio.sleep(120)
        assert desk.told() == [("Held", "Sent")] and desk.ready()[0] == "True"

    run(main())


def test_a_secret_that_is_missing_is_said_at_once_and_looked_for_again() -> None:
    async def main() -> None:
        desk = Office()
        sink(desk.api)
        await desk.work(1)
        words = "Secret gatewright-system/sinks has no key key; create it"
        assert desk.ready()[:2] == ("False", "SecretNotFound") and words in desk.ready()[2]
        secret(desk.api)
        await asyncio.sleep(60)
        assert desk.ready()[0] == "True"

    run(main())


def test_only_rollouts_of_selected_namespaces_are_told() -> None:
    async def main() -> None:
        desk = office(namespaces={"matchLabels": {"team": "payments"}})
        rollout(desk.api, held(), "search", "search")
        namespace(desk.api, "shop", team="payments", other="x")
        namespace(desk.api, "search", team="search")
        await desk.work(10)
        status = desk.api.objects[(NOTIFICATION_SINKS, "", "ops")]["status"]
        assert [d["namespace"] for d in status["deliveries"]] == ["shop"]

    run(main())


def test_a_source_is_asked_whether_it_is_down_before_a_hold_for_want_of_it_is_told() -> None:
    async def main() -> None:
        desk = Office()
        sink(desk.api)
        secret(desk.api)
        since = datetime(2030, 1, 1, 12, 10, tzinfo=UTC)
        starved = {
            "reason": "SourceTimeout",
            "message": "No answer (MetricSource prometheus).",
            "since": since,
        }
        for name in ("a", "b", "c"):
            rollout(desk.api, held(**starved), name)
        desk.api.store(METRIC_SOURCES, _raw(source()))
        await desk.work(5)
        assert await desk.queue.get() == Key("source", "", "prometheus")
        assert desk.sent == [], "it waits for the answer"
        raw = _raw(source(ready="False", since=since + timedelta(seconds=5)))
        desk.api.store(METRIC_SOURCES, raw)
        desk.see()
        await asyncio.sleep(300)
        assert desk.told() == [("SourceDown", "Sent")]
        desk.api.store(METRIC_SOURCES, _raw(source(since=since + timedelta(minutes=6))))
        desk.see()
        await asyncio.sleep(60)
        assert sorted(kind for kind, _ in desk.told()) == ["Held", "Held", "Held", "SourceDown"]

    run(main())


def _raw(one: Any) -> Object:
    raw: Object = one.wire()
    return raw


def test_a_rollout_says_who_was_told_about_it() -> None:
    async def main() -> None:
        desk = office()
        posting = asyncio.create_task(desk.recorder.run())
        await desk.work(10)
        posting.cancel()
        events = [obj for obj in desk.api.objects.values() if obj.get("kind") == "Event"]
        assert [(e["reason"], e["note"]) for e in events] == [
            ("Notified", "NotificationSink ops was told: Held.")
        ]

    run(main())


def test_a_sink_that_is_gone_is_told_nothing_more() -> None:
    async def main() -> None:
        desk = office()
        desk.outcomes["https://ops.example.com"] = Outcome(False, "refused")
        await desk.work(5)
        gone = desk.api.objects.pop((NOTIFICATION_SINKS, "", "ops"))
        desk.cache.drop(NOTIFICATION_SINKS, gone)
        desk.notifier.saw(NOTIFICATION_SINKS)
        await asyncio.sleep(1)
        attempts = len(desk.sent)
        await asyncio.sleep(600)
        assert len(desk.sent) == attempts

    run(main())
