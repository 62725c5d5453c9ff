"""The cache never goes back in time, never loses what it was told, and never holds what it must not."""

from typing import Any

import pytest

from gatewright_operator.cache import Cache
from gatewright_operator.resources import DEPLOYMENTS, HTTPROUTES, PODS, SECRETS

Object = dict[str, Any]


def obj(name: str = "checkout", version: int = 1, namespace: str = "shop", **metadata: Any) -> Object:
    """An object as a server would give it."""
    return {
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": str(version), **metadata},
        "spec": {"at": version},
    }


def seen(cache: Cache) -> int | None:
    """The version of shop/checkout in the cache."""
    found = cache.get(DEPLOYMENTS, "shop", "checkout")
    return int(found["metadata"]["resourceVersion"]) if found else None


def test_an_older_version_never_replaces_a_newer_one() -> None:
    cache = Cache()
    assert cache.put(DEPLOYMENTS, obj(version=9))
    assert not cache.put(DEPLOYMENTS, obj(version=8))
    assert not cache.put(DEPLOYMENTS, obj(version=9))
    assert seen(cache) == 9


def test_versions_are_compared_as_numbers_not_as_text() -> None:
    cache = Cache()
    cache.put(DEPLOYMENTS, obj(version=9))
    assert cache.put(DEPLOYMENTS, obj(version=10)), "'10' < '9' as text"
    assert seen(cache) == 10


def test_a_late_answer_does_not_bring_back_a_deleted_object() -> None:
    cache = Cache()
    cache.put(DEPLOYMENTS, obj(version=5))
    cache.drop(DEPLOYMENTS, obj(version=8))
    assert not cache.put(DEPLOYMENTS, obj(version=7)), "the answer to a write that came before the deletion"
    assert seen(cache) is None
    assert cache.put(DEPLOYMENTS, obj(version=11)), "made anew after the deletion"


def test_the_deletion_of_a_predecessor_does_not_take_its_successor_away() -> None:
    cache = Cache()
    cache.put(DEPLOYMENTS, obj(version=11))
    assert not cache.drop(DEPLOYMENTS, obj(version=8))
    assert seen(cache) == 11


def test_an_object_that_lost_its_label_and_got_it_back_stays() -> None:
    cache = Cache()
    cache.put(DEPLOYMENTS, obj(version=4))
    cache.put(DEPLOYMENTS, obj(version=7))  # our own write put the label back; its answer came first
    cache.drop(DEPLOYMENTS, obj(version=5))  # the watch tells late that the label was gone
    assert not cache.put(DEPLOYMENTS, obj(version=7))
    assert seen(cache) == 7


def test_a_relist_adds_updates_and_drops_and_says_so() -> None:
    cache = Cache()
    for name, version in (("same", 3), ("older", 4), ("vanished", 5)):
        cache.put(DEPLOYMENTS, obj(name, version))
    relist = cache.replace_all(
        DEPLOYMENTS, [obj("same", 3), obj("older", 8), obj("new", 9)], resource_version="10"
    )
    assert {o["metadata"]["name"] for o in relist.changed} == {"older", "new"}
    assert {o["metadata"]["name"] for o in relist.gone} == {"vanished"}
    assert {o["metadata"]["name"] for o in cache.all(DEPLOYMENTS)} == {"same", "older", "new"}


def test_a_relist_keeps_what_is_newer_than_the_listing() -> None:
    cache = Cache()
    cache.put(DEPLOYMENTS, obj("made-during-the-listing", 12))
    assert cache.replace_all(DEPLOYMENTS, [], resource_version="10").gone == ()
    assert cache.count(DEPLOYMENTS) == 1


def test_a_relist_does_not_bring_back_what_was_deleted_during_it() -> None:
    cache = Cache()
    cache.put(DEPLOYMENTS, obj(version=5))
    cache.drop(DEPLOYMENTS, obj(version=12))
    cache.replace_all(DEPLOYMENTS, [obj(version=5)], resource_version="10")
    assert seen(cache) is None


def test_a_relist_of_one_namespace_leaves_the_others_alone() -> None:
    cache = Cache()
    cache.put(DEPLOYMENTS, obj("checkout", 1, "shop"))
    cache.put(DEPLOYMENTS, obj("checkout", 2, "billing"))
    cache.replace_all(DEPLOYMENTS, [], namespace="shop", resource_version="3")
    assert [o["metadata"]["namespace"] for o in cache.all(DEPLOYMENTS)] == ["billing"]


def test_after_a_restored_backup_the_listing_is_the_truth() -> None:
    cache = Cache()
    cache.replace_all(DEPLOYMENTS, [obj(version=900), obj("younger", 950)], resource_version="1000")
    cache.drop(DEPLOYMENTS, obj("deleted", 990))
    relist = cache.replace_all(DEPLOYMENTS, [obj(version=300), obj("deleted", 310)], resource_version="400")
    assert seen(cache) == 300
    assert {o["metadata"]["name"] for o in relist.gone} == {"younger"}
    assert cache.get(DEPLOYMENTS, "shop", "deleted") is not None
    assert cache.put(DEPLOYMENTS, obj(version=401)), "and from there on versions count again"
    assert cache.put(DEPLOYMENTS, obj("younger", 402)), (
        "made anew, in a history that never knew the first one"
    )


def test_managed_fields_are_left_out_without_touching_the_callers_object() -> None:
    cache = Cache()
    given = obj(managedFields=[{"manager": "kubectl", "operation": "Update", "time": "2026-01-01T00:00:00Z"}])
    cache.put(PODS, given)
    found = cache.get(PODS, "shop", "checkout")
    assert found is not None
    assert "managedFields" not in found["metadata"]
    assert "managedFields" in given["metadata"]
    assert cache.writers(PODS, "shop", "checkout") == ()


def test_writers_of_a_route_are_named_latest_first() -> None:
    cache = Cache()
    fields = [
        {"manager": "gatewright", "operation": "Update", "time": "2026-01-01T00:00:00Z"},
        {"manager": "argocd", "operation": "Apply", "time": "2026-01-01T00:05:00Z"},
        {
            "manager": "gateway",
            "operation": "Update",
            "subresource": "status",
            "time": "2026-01-01T00:01:00Z",
        },
    ]
    cache.put(HTTPROUTES, obj(managedFields=fields))
    writers = cache.writers(HTTPROUTES, "shop", "checkout")
    assert [(w.manager, w.subresource) for w in writers] == [
        ("argocd", ""),
        ("gateway", "status"),
        ("gatewright", ""),
    ]


def test_a_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="never cached"):
        Cache().put(SECRETS, obj())


def test_an_object_that_no_server_gave_is_refused() -> None:
    with pytest.raises(ValueError, match="resourceVersion"):
        Cache().put(DEPLOYMENTS, {"metadata": {"name": "checkout", "namespace": "shop"}})


def test_unknown_objects_and_kinds_are_none_and_empty() -> None:
    cache = Cache()
    assert cache.get(PODS, "shop", "checkout") is None
    assert cache.all(PODS) == []
    assert cache.all(PODS, "shop") == []
    assert cache.count(PODS) == 0
