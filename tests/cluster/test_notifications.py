"""Who is told of what: a real operator, real holds, and sinks that are slow, dead, or in the way."""

import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.metric_sources import metric_source, silent_server
from tests.cluster.operators import OperatorKeeper
from tests.cluster.releases import DOUBTFUL, GOOD, LONG_GATE, Release, check, contract
from tests.cluster.sinks import KEY, delivered, label, receiver, sink, status_of
from tests.cluster.support import OPERATOR, eventually, rest

pytestmark = pytest.mark.timeout(400)

Person = Callable[..., Path]


def _only(namespace: str) -> dict[str, Any]:
    """A selector for one namespace: `kubernetes.io/metadata.name` is the API server's own label."""
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}


def _hold(shop: Release) -> None:
    with shop.traffic():
        shop.release(**DOUBTFUL)
        shop.phase("Held")


def _escalate(shop: Release) -> None:
    """As the operator's clocks do it."""
    at = datetime.now(UTC).isoformat()
    patch = json.dumps({"status": {"hold": {"escalatedAt": at}}})
    answer = shop.kubectl(
        *("patch", "rollouts.gatewright.dev", "checkout", "--subresource=status", "--type=merge"),
        *("-p", patch, "--as", OPERATOR),
    )
    assert answer.ok, answer.err


def test_a_webhook_is_told_of_a_hold_once_and_of_its_escalation_once_and_can_check_the_signature(
    cluster: Instance, operator: Operator, namespace: str, as_user: Person
) -> None:
    with receiver() as server:
        hook = {"webhook": {}, "address": server.url, "namespaces": _only(namespace), "cluster": "west"}
        with sink(cluster, namespace, **hook, reviewURL="https://gate.example.com") as name:
            shop = Release.create(cluster, namespace)
            _hold(shop)
            held = delivered(cluster, name, "Held")
            _escalate(shop)
            escalated = delivered(cluster, name, "Escalated")
            reviewer = as_user("reviewer-a", roles=("gatewright-reviewer",))
            assert shop.review("Reject", who=reviewer).ok
            shop.phase("RolledBack")
            told = eventually(
                lambda: [e for e in shop.all("events") if e["reason"] == "Notified"], 30, "an Event says so"
            )
            assert status_of(cluster, name)["sent"] == 2
    posts = server.posts
    assert [post.body["kind"] for post in posts] == ["Held", "Escalated"], "and nothing else by default"
    first, second = posts
    assert first.headers["idempotency-key"] == held["key"] != second.headers["idempotency-key"]
    assert second.headers["idempotency-key"] == escalated["key"]
    assert first.body["subject"] == second.body["subject"], "both are about one hold"
    stamp = first.headers["x-gatewright-timestamp"]
    mine = hmac.new(KEY.encode(), stamp.encode() + b"." + first.raw, hashlib.sha256).hexdigest()
    assert first.headers["x-gatewright-signature"] == f"sha256={mine}"
    body = first.body
    assert body["startedBy"] == "developer-a" and body["reason"] == "BelowThreshold", body
    assert body["blocking"] == ["http-success"] and body["deadline"], body
    assert [command.split()[2] for command in body["commands"]] == ["approve", "request-changes", "reject"]
    assert body["reviewURL"] == f"https://gate.example.com/holds/{namespace}/checkout"
    assert f"NotificationSink {name} was told: Held." in {event["message"] for event in told}
    assert KEY.encode() not in first.raw


def test_a_sink_is_told_of_the_namespaces_that_it_selects_and_made_later_of_what_is_held_now(
    cluster: Instance, operator: Operator, namespace: str, another_namespace: str
) -> None:
    mine, theirs = Release.create(cluster, namespace), Release.create(cluster, another_namespace)
    label(cluster, namespace, team=namespace[:60])
    _hold(mine)
    _hold(theirs)
    with receiver() as server:
        selector = {"matchLabels": {"team": namespace[:60]}}
        with sink(cluster, namespace, webhook={}, address=server.url, namespaces=selector) as name:
            delivered(cluster, name, "Held")
        assert [post.body["rollout"]["namespace"] for post in server.posts] == [namespace]


def test_a_sink_that_answers_after_half_a_minute_delays_no_verdict(
    cluster: Instance, operator: Operator, namespace: str, another_namespace: str
) -> None:
    both = {"matchLabels": {"wave": namespace[:60]}}
    for each in (namespace, another_namespace):
        label(cluster, each, wave=namespace[:60])
    with receiver() as server:
        server.open.clear()  # it takes the request, and answers at the end of the block
        hook = {"webhook": {}, "address": server.url, "timeout": "60s", "namespaces": both}
        with sink(cluster, namespace, **hook, notices=["Held", "Completed"]) as name:
            held, going_on = Release.create(cluster, namespace), Release.create(cluster, another_namespace)
            _hold(held)
            eventually(lambda: server.about(namespace, "Held"), 30, "the sink has the request open")
            with going_on.traffic():
                going_on.release(**GOOD)
                going_on.promoted("v2")
            found = {d["kind"]: d["state"] for d in status_of(cluster, name)["deliveries"]}
            assert found["Held"] == "Sending", "it was promoted while the sink had not answered"
            server.open.set()
            delivered(cluster, name, "Held")
            delivered(cluster, name, "Completed")
        assert len(server.about(namespace, "Held")) == 1


def test_a_sink_that_is_dead_is_tried_until_it_is_back(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    with receiver(up=False) as server:
        hook = {"webhook": {}, "address": server.url, "namespaces": _only(namespace)}
        with sink(cluster, namespace, **hook) as name:
            _hold(Release.create(cluster, namespace))
            failed = delivered(cluster, name, "Held", "Failed")
            assert failed["message"] == "The sink can't be reached."
            [ready] = status_of(cluster, name)["conditions"]
            assert (ready["status"], ready["reason"]) == ("False", "SinkFails"), ready
            server.start()
            sent = delivered(cluster, name, "Held")
            assert sent["attempts"] > 1 and sent["key"] == failed["key"]
            [ready] = status_of(cluster, name)["conditions"]
            assert ready["status"] == "True", ready
        assert len(server.posts) == 1, "what was refused at the door did not arrive"


def test_an_operator_that_is_killed_while_it_tells_repeats_it_once_under_the_same_key(
    cluster: Instance, operators: OperatorKeeper, namespace: str
) -> None:
    with receiver() as server:
        server.open.clear()
        hook = {"webhook": {}, "address": server.url, "timeout": "60s", "namespaces": _only(namespace)}
        with sink(cluster, namespace, **hook) as name:
            _hold(Release.create(cluster, namespace))
            eventually(lambda: server.posts, 30, "the sink has the request open")
            operators.kill()
            server.open.set()
            operators.ensure()
            sent = delivered(cluster, name, "Held")
            # More than two where the successor lost its Lease before it sent: that attempt is none.
            assert sent["attempts"] >= 2 and sent["uncertain"], sent
            # A third life: what was sent is not sent again.
            operators.stop()
            operators.ensure()
            shop = Release(cluster, namespace, "", cluster.user("developer-a", groups=("system:masters",)))
            _escalate(shop)
            delivered(cluster, name, "Escalated")
        first, again, escalated = server.posts
        assert first.headers["idempotency-key"] == again.headers["idempotency-key"] == sent["key"]
        assert (first.body["repetition"], again.body["repetition"]) == (False, True)
        assert escalated.body["kind"] == "Escalated"


def test_an_incident_ends_with_the_hold(
    cluster: Instance, operator: Operator, namespace: str, as_user: Person
) -> None:
    with receiver() as server:
        pager = {"pagerDuty": {}, "address": server.url, "namespaces": _only(namespace)}
        with sink(cluster, namespace, **pager) as name:
            shop = Release.create(cluster, namespace)
            _hold(shop)
            delivered(cluster, name, "Held")
            _escalate(shop)
            delivered(cluster, name, "Escalated")
            answer = shop.review("Approve", who=as_user("reviewer-a", roles=("gatewright-reviewer",)))
            assert answer.ok, answer.err
            delivered(cluster, name, "HoldEnded")
    events = [post.body for post in server.posts]
    assert [e["event_action"] for e in events] == ["trigger", "trigger", "resolve"]
    assert len({e["dedup_key"] for e in events}) == 1
    assert [e["payload"]["severity"] for e in events[:2]] == ["warning", "critical"]
    assert {e["routing_key"] for e in events} == {KEY}


def test_three_rollouts_that_are_held_for_want_of_one_source_are_told_as_one(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    """In three namespaces, because each has its Rollout `checkout`."""
    gate = {"gate": {**LONG_GATE, "duration": "4s", "maxDuration": "12s"}}
    names = [namespace, f"{namespace}-b", f"{namespace}-c"]
    for extra in names[1:]:
        rest(cluster.kubeconfig, "POST", "/api/v1/namespaces", {"metadata": {"name": extra}})
    for each in names:
        label(cluster, each, wave=namespace[:60])
    with (
        receiver() as server,
        silent_server() as address,
        metric_source(cluster, namespace, address=address, timeout="2s") as silent,
        sink(
            cluster,
            namespace,
            webhook={},
            address=server.url,
            namespaces={"matchLabels": {"wave": namespace[:60]}},
        ) as name,
    ):
        one = check()
        one["evidence"][0]["counts"]["source"] = silent
        shops = [
            Release.create(
                cluster, each, steps=[{"setWeight": 50}, gate], contract_spec=contract([one]), replicas=1
            )
            for each in names
        ]
        for shop in shops:
            shop.release(**GOOD)
        for shop in shops:
            shop.phase("Held")
        delivered(cluster, name, "SourceDown")
        _escalate(shops[0])
        delivered(cluster, name, "Escalated")
    kinds = [post.body["kind"] for post in server.posts]
    assert kinds == ["SourceDown", "Escalated"], "the source once, and what somebody escalates all the same"
    assert server.posts[0].body["metricSource"]["name"] == silent
