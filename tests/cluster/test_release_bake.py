"""After 100 %: the promoted pods are watched; a breach puts the version before back, silence never does."""

import json
from typing import Any

import pytest

from devcluster import ApiRefused, Client, Instance
from devcluster.install import Operator
from gatewright_analysis.names import IN_FLIGHT
from tests.cluster.metric_sources import NOBODY, metric_source
from tests.cluster.releases import GOOD, Release, check, contract
from tests.cluster.support import Manifest, eventually

pytestmark = pytest.mark.timeout(300)

BAKE: Manifest = {"warmup": "1s", "duration": "20s", "window": "2s", "interval": "1s"}
SHORT_BAKE: Manifest = {**BAKE, "duration": "4s"}


def _create(
    cluster: Instance, namespace: str, *, bake: Manifest = BAKE, checks: list[Manifest] | None = None
) -> Release:
    spec = contract([check(stages=("Canary", "Bake"))] if checks is None else checks)
    return Release.create(cluster, namespace, contract_spec=spec, bake=bake)


def _serving(shop: Release) -> set[str]:
    return {shop.version_of(pod) for pod in shop.pods()}


def _restored(shop: Release, *reasons: str) -> Any:
    """Waits until v1 serves again and everything is as before v2, and returns the status."""
    status = shop.phase("RolledBack", timeout=150)
    assert status["rejected"]["reason"] in reasons, status["rejected"]
    assert _serving(shop) == {"v1"}
    assert status["stable"]["revision"] == status["observedRevision"], (
        "the Deployment carries the old template again"
    )
    assert not shop.deployment["spec"].get("paused", False)
    shop.clean_at_rest()
    assert [e["body"]["to"]["revision"] for e in shop.entries("Restored")] == [status["stable"]["revision"]]
    shop.verify_ledger()
    return status


def test_a_version_that_turns_bad_after_100_percent_is_replaced_by_the_one_before(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    """A setting turns bad between the gate and the rolling update; while v1 is rolled out, no template may change."""
    shop = _create(cluster, namespace)
    first = shop.status["stable"]["revision"]
    with shop.traffic():
        shop.release_with_setting("ERROR_RATE", "0")
        shop.phase("Progressing", step=1)
        shop.set_setting("ERROR_RATE", "0.9")
        shop.phase("Baking", timeout=120)
        assert shop.weights() == (100, 0)
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/checkout"
        touched = {"spec": {"template": {"metadata": {"annotations": {"touched": "yes"}}}}}
        # One connection, because the rolling update of two pods takes little longer than a kubectl to start.
        with Client(shop.developer) as developer:
            eventually(
                lambda: IN_FLIGHT in developer.request("GET", path)["metadata"]["annotations"],
                60,
                "the version before is being rolled out",
                interval=0.05,
            )
            with pytest.raises(ApiRefused, match="rolling this Deployment out at this moment"):
                developer.request("PATCH", path, touched, content_type="application/merge-patch+json")
        status = _restored(shop, "TotalFailure", "BreachAbsolute")
    assert status["stable"]["revision"] == first
    verdict = shop.entries("Verdict")[-1]
    assert (verdict["key"]["step"], verdict["body"]["verdict"]["decision"]) == ("bake", "ROLLBACK")


def test_a_version_that_was_taken_back_in_its_bake_is_not_tried_again_when_it_is_written_again(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = _create(cluster, namespace)
    with shop.traffic():
        shop.release(**GOOD)
        refused = shop.phase("Baking", timeout=120)["canary"]["revision"]
        assert shop.order("Abort").ok
        _restored(shop, "Aborted")
        shop.release(**GOOD)
        assert shop.deployment["spec"]["paused"] is True
        again = shop.order("Abort", revision=refused)
        assert shop.answer("gateorders", again)["outcome"] == "Refused"
        status = shop.phase("RolledBack")
    assert status["observedRevision"] == refused
    assert not shop.get("deployment", "checkout-canary"), "the refused version was started again"
    assert _serving(shop) == {"v1"}


def test_a_promotion_whose_pods_crash_is_taken_back(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = _create(cluster, namespace)
    with shop.traffic() as traffic:
        shop.release_with_setting("CRASH_AFTER_SECONDS", "3600")
        shop.phase("Progressing", step=1)
        shop.set_setting("CRASH_AFTER_SECONDS", "0.2")
        shop.phase("Promoting", timeout=60)
        _restored(shop, "PodFailure")
        report = traffic.report()
    assert report.versions["v1"].keys() == {"200"}, report


@pytest.mark.parametrize(("on_inconclusive", "phase"), [("Complete", "Idle"), ("Hold", "Held")])
@pytest.mark.parametrize("silence", ["no requests", "no source"])
def test_a_bake_without_data_never_takes_a_release_back(
    cluster: Instance, operator: Operator, namespace: str, silence: str, on_inconclusive: str, phase: str
) -> None:
    with metric_source(cluster, namespace, address=NOBODY) as nobody:
        dead = check("from-a-dead-source", stages=("Bake",))
        dead["evidence"][0]["counts"]["source"] = nobody
        checks = [check(), dead] if silence == "no source" else [check(stages=("Canary", "Bake"))]
        bake = {**SHORT_BAKE, "onInconclusive": on_inconclusive}
        shop = _create(cluster, namespace, bake=bake, checks=checks)
        with shop.traffic():
            shop.release(**GOOD)
            shop.phase("Promoting", timeout=120)
            if silence == "no source":
                shop.phase("Baking", phase)
        status = shop.phase(phase, timeout=120)
    assert _serving(shop) == {"v2"}
    assert not shop.entries("Restoring"), "the absence of data reverted a finished release"
    if phase == "Held":
        assert status["hold"]["step"] == "bake"
        assert status["hold"]["blocking"], status["hold"]


@pytest.mark.parametrize(("order", "serves"), [("Retry", "v2"), ("Abort", "v1")])
def test_a_tag_that_moved_between_gate_and_promotion_is_held(
    cluster: Instance, operator: Operator, namespace: str, order: str, serves: str
) -> None:
    """Retry judges what runs now; Abort puts back what ran before."""
    image, registry = f"shop/{namespace}:v2", cluster.node_dir / "images.json"
    shop = _create(cluster, namespace, bake=SHORT_BAKE)
    with shop.traffic():
        registry.write_text(json.dumps({image: f"sha256:{'1' * 64}"}))
        container = {"name": "app", "image": image, "env": [{"name": "VERSION", "value": "v2"}]}
        patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
        answer = shop.kubectl("patch", "deployment", "checkout", "-p", json.dumps(patch), who=shop.developer)
        assert answer.ok, answer.err
        shop.phase("Progressing", step=1)
        registry.write_text(json.dumps({image: f"sha256:{'2' * 64}"}))
        status = shop.phase("Held", timeout=120)
        assert status["hold"]["reason"] == "DigestChanged", status["hold"]
        assert f"sha256:{'2' * 64}" in status["hold"]["message"]
        assert status["hold"]["step"] == "bake"
        assert _serving(shop) == {"v2"}, "a doubt after 100 % takes nothing back by itself"
        assert shop.order(order).ok
        if order == "Abort":
            _restored(shop, "Aborted")
        else:
            shop.promoted("v2")
            shop.verify_ledger()
    assert _serving(shop) == {serves}
