"""What cannot be recorded does not go up; what goes back never waits for its record."""

import json
from typing import Any

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.denial import ledger_denied
from tests.cluster.releases import GOOD, LONG, Release
from tests.cluster.support import OPERATOR, Manifest, eventually

pytestmark = pytest.mark.timeout(300)

GATE: Manifest = {"warmup": "3s", "duration": "10s", "maxDuration": "14s", "window": "2s", "interval": "1s"}
"""Long enough for a denial to be in force before the verdict."""
BAD = {"VERSION": "v2", "ERROR_RATE": "0.9"}


def _says(shop: Release, reason: str, sentence: str) -> Any:
    """Waits until the Rollout is stalled for this reason, and says so in these words."""

    def said() -> Any:
        status = shop.status
        stalled: Any = next((c for c in status["conditions"] if c["type"] == "Stalled"), {})
        assert (stalled.get("status"), stalled.get("reason")) == ("True", reason), stalled
        assert sentence in stalled["message"], stalled["message"]
        return status

    return eventually(said, 60, f"the Rollout is stalled with {reason}")


def test_a_promotion_waits_until_the_ledger_can_be_written(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(cluster, namespace, steps=[{"setWeight": 50}, {"gate": GATE}])
    before = shop.stable_pods()
    with shop.traffic():
        shop.release(**GOOD)
        shop.phase("Progressing", step=1)
        with ledger_denied(shop):
            status = _says(shop, "LedgerUnwritable", "until the ledger can be written")
            [run] = shop.all("gateruns")
            assert run["status"]["verdict"]["decision"] == "PROMOTE", (
                "the gate has passed; only its record is missing"
            )
            assert status["phase"] == "Progressing"
            assert shop.weights() == (50, 50)
            assert shop.stable_pods() == before
            assert shop.deployment["spec"]["paused"] is True
        shop.promoted("v2")
    shop.verify_ledger()


def test_a_release_does_not_begin_while_the_ledger_cannot_be_written(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(cluster, namespace, steps=LONG, replicas=1)
    with ledger_denied(shop):
        shop.release(**GOOD)
        status = _says(shop, "LedgerUnwritable", "until the ledger can be written")
        assert status["phase"] == "Idle"
        assert not shop.get("deployment", "checkout-canary")
        assert shop.weights() == (100, 0)
    shop.phase("Progressing")
    shop.verify_ledger()


def test_traffic_goes_back_although_the_ledger_cannot_be_written_and_the_entries_come_later(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    """Everything up to the canary's traffic is recorded; that it goes back cannot be."""
    shop = Release.create(cluster, namespace)
    before = shop.stable_pods()
    with shop.traffic(), ledger_denied(shop, of="Back"):
        shop.release(**BAD)
        shop.phase("RollingBack", "RolledBack")
        eventually(lambda: shop.weights() == (100, 0), 10, "all traffic is on stable")
        eventually(lambda: not shop.get("deployment", "checkout-canary"), 60, "the canary is gone")
        selector = {"app": "checkout"}
        eventually(
            lambda: shop.get("service", "checkout")["spec"]["selector"] == selector, 60, "the pin is off"
        )
        assert not shop.entries("Back"), "this test has denied nothing"
    status = shop.phase("RolledBack", timeout=120)
    assert status["rejected"]["reason"] == "TotalFailure"
    [back] = eventually(lambda: shop.entries("Back"), 90, "what could not be recorded is recorded afterwards")
    assert back["late"] is True
    [verdict] = shop.entries("Verdict")
    assert verdict["body"]["verdict"]["decision"] == "ROLLBACK"
    assert shop.stable_pods() == before
    shop.clean_at_rest()
    shop.verify_ledger()


def _tamper(shop: Release) -> str:
    """Changes one letter of the ledger, under the operator's own name; returns what was there."""
    found = shop.get("configmap", "checkout-ledger-0000")["data"]
    key = min(found)
    _write(shop, key, found[key].replace('"kind":"Adopted"', '"kind":"Adorned"'))
    return str(found[key])


def _write(shop: Release, key: str, text: str) -> None:
    patch = json.dumps({"data": {key: text}})
    answer = shop.kubectl(
        *("--as", OPERATOR, "patch", "configmap", "checkout-ledger-0000", "--type=merge", "-p", patch)
    )
    assert answer.ok, answer.err


def test_nothing_starts_on_a_ledger_that_was_tampered_with_until_it_is_as_it_was(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(cluster, namespace, steps=LONG, replicas=1)
    head = shop.status["ledger"]["head"]
    original = _tamper(shop)
    answer = shop.gate("ledger", "verify", "checkout")
    assert not answer.ok, f"the plugin finds the ledger in order: {answer.out}"
    shop.release(**GOOD)
    _says(shop, "LedgerBroken", "The ledger does not verify")
    # Whoever looks a second time must not take the change for what was always there.
    order = shop.order("Abort", revision=shop.status["observedRevision"])
    assert shop.answer("gateorders", order)["outcome"] == "Refused"
    status = _says(shop, "LedgerBroken", "The ledger does not verify")
    assert status["ledger"]["head"] == head
    assert not shop.get("deployment", "checkout-canary")
    assert shop.deployment["spec"]["paused"] is True
    _write(shop, min(shop.get("configmap", "checkout-ledger-0000")["data"]), original)
    # The operator does not watch ConfigMaps: it looks again within half a minute, or when anything else happens.
    assert shop.kubectl("annotate", "deployment", "checkout", "example.com/touched=yes").ok
    shop.phase("Progressing")
    shop.verify_ledger()


def test_a_ledger_that_was_tampered_with_does_not_stand_in_the_way_back(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(cluster, namespace)
    before = shop.stable_pods()
    with shop.traffic():
        shop.release(VERSION="v2", ERROR_RATE="0.9", ERROR_AFTER_SECONDS="2")
        shop.phase("Progressing", step=1)
        _tamper(shop)
        status = shop.phase("RolledBack", "Held", timeout=120)
        assert status["phase"] == "RolledBack", status["message"]
    assert shop.stable_pods() == before
    shop.clean_at_rest()
