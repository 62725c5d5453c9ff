"""The operator's door to the API server, on a real one: what each call does, and how each refusal is typed."""

import asyncio
import copy
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from devcluster import Instance
from gatewright_operator.api import CHUNK, Api
from gatewright_operator.cache import Cache
from gatewright_operator.errors import AlreadyExists, Conflict, NotFound, Refused
from gatewright_operator.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    EVENTS,
    HTTPROUTES,
    METRIC_SOURCES,
    NAMESPACES,
    ROLLOUTS,
    SERVICES,
    SUBJECT_ACCESS_REVIEWS,
)

Object = dict[str, Any]


@pytest.fixture
async def api(api_only: Instance) -> AsyncIterator[Api]:
    api = await Api.connect(api_only.kubeconfig)
    yield api
    await api.close()


@pytest.fixture
async def shop(api: Api) -> str:
    """A fresh namespace."""
    name = f"shop-{secrets.token_hex(4)}"
    await api.create(NAMESPACES, "", {"metadata": {"name": name}})
    return name


def config_map(name: str = "settings", **data: str) -> Object:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def rollout() -> Object:
    """A valid Rollout."""
    return {
        "apiVersion": "gatewright.dev/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": "checkout"},
        "spec": {
            "workloadRef": {"name": "checkout"},
            "contractRef": {"name": "default"},
            "traffic": {"replicas": {}},
            "steps": [{"setWeight": 5}, {"gate": {"duration": "1m"}}],
        },
    }


def version(obj: Object) -> str:
    """Its resourceVersion."""
    return str(obj["metadata"]["resourceVersion"])


async def test_what_is_not_there_is_none_and_its_deletion_is_fine(api: Api, shop: str) -> None:
    assert await api.get(CONFIGMAPS, shop, "nothing") is None
    assert await api.get(CONFIGMAPS, "no-such-namespace", "nothing") is None
    await api.delete(CONFIGMAPS, shop, "nothing")


async def test_a_second_create_of_a_name_already_exists(api: Api, shop: str) -> None:
    await api.create(CONFIGMAPS, shop, config_map())
    with pytest.raises(AlreadyExists, match="already exists"):
        await api.create(CONFIGMAPS, shop, config_map())


async def test_creating_in_a_namespace_that_is_not_there_is_not_found(api: Api) -> None:
    with pytest.raises(NotFound):
        await api.create(CONFIGMAPS, "no-such-namespace", config_map())


async def test_a_stale_patch_or_replace_is_a_conflict_and_changes_nothing(api: Api, shop: str) -> None:
    first = await api.create(CONFIGMAPS, shop, config_map(step="0"))
    second = await api.patch(
        CONFIGMAPS, shop, "settings", {"data": {"step": "1"}}, resource_version=version(first)
    )
    with pytest.raises(Conflict):
        await api.patch(
            CONFIGMAPS, shop, "settings", {"data": {"step": "2"}}, resource_version=version(first)
        )
    with pytest.raises(Conflict):
        await api.replace(CONFIGMAPS, shop, "settings", first)
    now = await api.get(CONFIGMAPS, shop, "settings")
    assert now is not None
    assert (now["data"]["step"], version(now)) == ("1", version(second))


async def test_a_merge_patch_removes_by_null_and_leaves_the_rest(api: Api, shop: str) -> None:
    await api.create(CONFIGMAPS, shop, config_map(a="1", b="2"))
    changed = await api.patch(CONFIGMAPS, shop, "settings", {"data": {"a": None, "c": "3"}})
    assert changed["data"] == {"b": "2", "c": "3"}


async def test_a_dry_run_is_answered_and_not_kept(api: Api, shop: str) -> None:
    await api.create(CONFIGMAPS, shop, config_map("dry"), dry_run=True)
    assert await api.get(CONFIGMAPS, shop, "dry") is None
    await api.create(CONFIGMAPS, shop, config_map(step="0"))
    answered = await api.patch(CONFIGMAPS, shop, "settings", {"data": {"step": "1"}}, dry_run=True)
    kept = await api.get(CONFIGMAPS, shop, "settings")
    assert kept is not None
    assert (answered["data"]["step"], kept["data"]["step"]) == ("1", "0")


async def test_a_deletion_takes_only_the_object_that_was_meant(api: Api, shop: str) -> None:
    first = await api.create(CONFIGMAPS, shop, config_map())
    with pytest.raises(Conflict):
        await api.delete(CONFIGMAPS, shop, "settings", uid="00000000-0000-0000-0000-000000000000")
    await api.patch(CONFIGMAPS, shop, "settings", {"data": {"x": "y"}})
    with pytest.raises(Conflict):
        await api.delete(CONFIGMAPS, shop, "settings", resource_version=version(first))
    await api.delete(CONFIGMAPS, shop, "settings", uid=first["metadata"]["uid"])
    assert await api.get(CONFIGMAPS, shop, "settings") is None


async def test_two_appliers_of_one_field_conflict_unless_forced(api: Api, shop: str) -> None:
    await api.apply(CONFIGMAPS, shop, "settings", config_map(owner="a"), field_manager="a")
    with pytest.raises(Conflict):
        await api.apply(CONFIGMAPS, shop, "settings", config_map(owner="b"), field_manager="b")
    forced = await api.apply(
        CONFIGMAPS, shop, "settings", config_map(owner="b"), field_manager="b", force=True
    )
    assert forced["data"]["owner"] == "b"


async def test_an_invalid_object_is_refused_in_the_servers_words(api: Api, shop: str) -> None:
    invalid = rollout()
    invalid["spec"]["steps"][0]["setWeight"] = 400
    with pytest.raises(Refused, match="setWeight") as caught:
        await api.create(ROLLOUTS, shop, invalid)
    assert caught.value.status == 422


async def test_a_status_field_that_the_crd_does_not_know_is_refused_not_dropped(api: Api, shop: str) -> None:
    made = await api.create(ROLLOUTS, shop, rollout())
    with pytest.raises(Refused, match="madeUp"):
        await api.replace(ROLLOUTS, shop, "checkout", made | {"status": {"madeUp": 1}}, subresource="status")
    written = await api.patch(
        ROLLOUTS,
        shop,
        "checkout",
        {"status": {"phase": "Idle"}},
        subresource="status",
        resource_version=version(made),
    )
    assert written["status"]["phase"] == "Idle"


async def test_a_user_without_the_right_is_refused(api_only: Instance, shop: str) -> None:
    stranger = await Api.connect(api_only.user("stranger"))
    with pytest.raises(Refused, match='User "stranger" cannot list'):
        await stranger.list(ROLLOUTS, None)
    with pytest.raises(Refused, match='User "stranger" cannot create'):
        await stranger.create(CONFIGMAPS, shop, config_map())
    await stranger.close()


async def test_a_listing_comes_complete_over_many_pages_and_filtered_by_the_server(
    api: Api, shop: str
) -> None:
    count = CHUNK + 30

    # Not all at once: on a busy machine the last would wait longer than a call may.
    few = asyncio.Semaphore(20)

    async def make(number: int) -> None:
        body = config_map(f"c-{number}")
        body["metadata"]["labels"] = {"half": str(number % 2)}
        async with few:
            await api.create(CONFIGMAPS, shop, body)

    await asyncio.gather(*(make(number) for number in range(count)))
    everything = await api.list(CONFIGMAPS, shop)
    assert len({o["metadata"]["name"] for o in everything}) == count
    assert {(o["apiVersion"], o["kind"]) for o in everything} == {("v1", "ConfigMap")}
    assert len(await api.list(CONFIGMAPS, shop, labels="half=1")) == count // 2
    assert len(await api.list(CONFIGMAPS, shop, fields="metadata.name=c-7")) == 1


async def test_a_kind_that_is_not_installed_is_not_found_by_a_listing_and_none_by_a_get(
    api: Api, shop: str
) -> None:
    assert await api.get(HTTPROUTES, shop, "checkout") is None
    with pytest.raises(NotFound):
        await api.list(HTTPROUTES, None)


async def test_cluster_scoped_kinds_take_no_namespace(api: Api) -> None:
    name = f"prometheus-{secrets.token_hex(3)}"
    source = {
        "metadata": {"name": name},
        "spec": {
            "address": "http://127.0.0.1:9090",
            "arms": {"by": "PodName", "label": "pod"},
            "producer": "Workload",
        },
    }
    body = {"apiVersion": METRIC_SOURCES.api_version, "kind": METRIC_SOURCES.kind, **source}
    await api.create(METRIC_SOURCES, "", body)
    assert await api.get(METRIC_SOURCES, "", name) is not None
    await api.delete(METRIC_SOURCES, "", name)


async def test_a_subject_access_review_is_answered(api: Api) -> None:
    attributes = {"group": "gatewright.dev", "resource": "rollouts", "verb": "approve", "name": "checkout"}
    review = {"spec": {"user": "stranger", "resourceAttributes": attributes}}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", **review}
    answer = await api.create(SUBJECT_ACCESS_REVIEWS, "", body)
    assert answer["status"]["allowed"] is False


async def test_a_replace_from_the_cache_keeps_the_servers_record_of_writers(api: Api, shop: str) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "front"},
        "spec": {"selector": {"app": "checkout"}, "ports": [{"port": 80}]},
    }
    await api.apply(SERVICES, shop, "front", service, field_manager="argocd")
    cache = Cache()
    (listed,) = await api.list(SERVICES, shop)
    cache.put(SERVICES, listed)
    assert [writer.manager for writer in cache.writers(SERVICES, shop, "front")] == ["argocd"]

    cached = cache.get(SERVICES, shop, "front")
    assert cached is not None
    body = copy.deepcopy(cached)
    body["spec"]["selector"]["pod-template-hash"] = "abc"
    answer = await api.replace(SERVICES, shop, "front", body)
    cache.put(SERVICES, answer)
    writers = {(w.manager, w.operation) for w in cache.writers(SERVICES, shop, "front")}
    assert writers == {("argocd", "Apply"), ("gatewright", "Update")}


async def test_everything_that_the_operator_does_not_change_stays_byte_equal(api: Api, shop: str) -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "checkout", "annotations": {"a/b": "– ü \n"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "c"}},
            "template": {
                "metadata": {"labels": {"app": "c"}},
                "spec": {"containers": [{"name": "c", "image": "c:1", "args": ["\u2028", "1e3", "null"]}]},
            },
        },
    }
    await api.create(DEPLOYMENTS, shop, deployment)
    (before,) = await api.list(DEPLOYMENTS, shop)
    cache = Cache()
    cache.put(DEPLOYMENTS, before)
    cached = cache.get(DEPLOYMENTS, shop, "checkout")
    assert cached is not None
    after = await api.replace(DEPLOYMENTS, shop, "checkout", cached)
    volatile = {"resourceVersion", "managedFields", "generation"}

    def kept(obj: Object) -> Object:
        metadata = {key: value for key, value in obj["metadata"].items() if key not in volatile}
        return {**obj, "metadata": metadata}

    assert kept(after) == kept(before)


async def test_an_event_is_accepted_as_the_recorder_writes_it(api: Api, shop: str) -> None:
    from gatewright_operator.metrics import Metrics
    from gatewright_operator.posting import Recorder

    made = await api.create(ROLLOUTS, shop, rollout())
    recorder = Recorder(api, Metrics(), identity="pod-1_x")
    task = asyncio.create_task(recorder.run())
    recorder.event(made, "Warning", "Held", "Held: too little traffic.", "Hold")
    await recorder.flush(10)
    task.cancel()
    (event,) = await api.list(EVENTS, shop)
    assert (event["reason"], event["note"], event["type"]) == ("Held", "Held: too little traffic.", "Warning")
    assert event["regarding"]["uid"] == made["metadata"]["uid"]
