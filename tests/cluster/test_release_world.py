"""A judge model that is replaced behind its address while nothing is deployed: what was judged before counts no more."""

import urllib.request
from typing import Any

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.checkout import deployment
from tests.cluster.metric_sources import NOBODY, metric_source
from tests.cluster.releases import GATE, LONG_GATE, STEPS, Release, contract
from tests.cluster.support import Manifest, eventually, rest

pytestmark = pytest.mark.timeout(300)

PAUSE_BETWEEN: list[Manifest] = [
    {"setWeight": 25},
    {"gate": GATE},
    {"pause": {"duration": "5s"}},
    {"setWeight": 50},
    {"gate": GATE},
]


LONG_AT_25: list[Manifest] = [{"setWeight": 25}, {"gate": LONG_GATE}]


def _model(version: str) -> str:
    return f"model=j-1,version={version}"


def _drifted(before: str, now: str) -> str:
    return (
        f"judge-model was {_model(before)} when the attempt began and is {_model(now)} now, although nothing was "
        "deployed: what was judged before speaks of another world; a Retry judges anew."
    )


def _judged_by_a_model(namespace: str, source: str = "prometheus") -> Manifest:
    series = f'model_info{{app="judge",namespace="{namespace}"}}'
    model = {"name": "judge-model", "source": source, "series": series, "labels": ["version", "model"]}
    return contract(world={"fingerprints": [model]})


def _judge(shop: Release) -> None:
    """A pod that says which model it is, beside the service and not gated."""
    body = deployment(1, MODEL_INFO=_model("3"))
    body["metadata"] |= {"name": "judge", "labels": {"app": "judge"}}
    body["spec"]["selector"]["matchLabels"] = {"app": "judge"}
    body["spec"]["template"]["metadata"]["labels"] = {"app": "judge"}
    shop.apply(body)


def _replace_the_model(shop: Release, version: str) -> None:
    """As its provider would: the address stays, another model answers."""
    [pod] = shop.all("pods", "app=judge")
    address = pod["status"]["podIP"].replace("10.244.", "127.244.", 1)
    request = urllib.request.Request(f"http://{address}:8080/model-info/version/{version}", method="POST")
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200


def _runs(shop: Release) -> list[Any]:
    return sorted((run["spec"] for run in shop.all("gateruns")), key=lambda spec: spec["clock"]["weightAt"])


def _pinned(spec: Any) -> dict[str, str]:
    return {one["name"]: one["value"] for one in spec["fingerprints"]}


def test_a_model_that_changes_between_gates_or_in_one_holds_and_a_retry_judges_in_the_new_world(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    """One release and three attempts: each is bound to the model that answered when its first gate began."""
    judged_by = _judged_by_a_model(namespace)
    shop = Release.create(cluster, namespace, steps=PAUSE_BETWEEN, contract_spec=judged_by)
    _judge(shop)
    with shop.traffic():
        shop.release(VERSION="v2")
        shop.phase("Paused")
        _replace_the_model(shop, "4")
        held = shop.phase("Held")["hold"]
        assert (held["reason"], held["message"]) == ("WorldDrifted", _drifted("3", "4")), held
        assert shop.weights() == (75, 25), "the weight rose on evidence from before the change"
        shop.apply(_with_steps(shop, LONG_AT_25))
        assert shop.order("Retry").ok
        eventually(lambda: len(_runs(shop)) == 2, 30, "the second attempt's gate has begun")
        _replace_the_model(shop, "5")
        held = shop.phase("Held")["hold"]
        assert (held["reason"], held["message"]) == ("WorldDrifted", _drifted("4", "5")), held
        assert shop.weights() == (75, 25), "a model that changed is no proof against the version"
        shop.apply(_with_steps(shop, STEPS))
        assert shop.order("Retry").ok
        shop.promoted("v2")
    runs = _runs(shop)
    assert [_pinned(run) for run in runs] == [{"judge-model": _model(n)} for n in ("3", "4", "5")]
    assert len({run["worldSnapshot"] for run in runs}) == 3
    assert all(not run.get("pooledFrom") for run in runs), "evidence from another world is no evidence"
    decisions = [e["body"]["verdict"]["decision"] for e in shop.entries("Verdict")]
    assert decisions == ["PROMOTE", "HOLD", "PROMOTE"]
    shop.verify_ledger()


def test_a_source_of_fingerprints_that_is_down_lets_no_gate_begin_and_none_end_well(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    with metric_source(cluster, namespace, address=NOBODY) as source:
        shop = Release.create(cluster, namespace, contract_spec=_judged_by_a_model(namespace, source))
        _judge(shop)
        shop.release(VERSION="v2")

        def waits() -> bool:
            message = shop.status["message"]
            assert "the gate has not begun yet, because judge-model can't be read" in message, message
            assert source in message, message
            return True

        eventually(waits, 60, "the gate waits for the model to be known")
        shop.apply(_with_steps(shop, STEPS, progressDeadline="1s"))
        held = shop.phase("Held")["hold"]
        assert held["reason"] == "SourceUnreachable", held
        assert held["message"].startswith(
            "The gate could not begin for 1s, because judge-model can't be read"
        )
        assert _runs(shop) == []

        shop.apply(_with_steps(shop, STEPS, progressDeadline="10m"))
        _move(cluster, source, cluster.prometheus_url)
        with shop.traffic():
            assert shop.order("Retry").ok
            eventually(lambda: _runs(shop), 30, "the gate has begun")
            _move(cluster, source, NOBODY)
            held = shop.phase("Held")["hold"]
    assert held["reason"] == "SourceUnreachable", held
    assert held["message"].startswith(
        "All checks passed, but whether the world is the one they began in is not known"
    )
    assert held["blocking"] == ["http-success"], "a person may approve it, as it is"
    assert shop.weights() == (50, 50)


def _move(cluster: Instance, source: str, address: str) -> None:
    path = f"/apis/gatewright.dev/v1alpha1/metricsources/{source}"
    body = {"spec": {"address": address}}
    rest(cluster.kubeconfig, "PATCH", path, body, content_type="application/merge-patch+json")


def _with_steps(shop: Release, steps: list[Manifest], **spec: Any) -> Manifest:
    """The Rollout with other steps, as its owner edits it."""
    live = shop.rollout
    return {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {"name": live["metadata"]["name"]},
        "spec": live["spec"] | {"steps": steps} | spec,
    }
