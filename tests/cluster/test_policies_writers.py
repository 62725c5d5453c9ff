"""Policy P11 of the chart: a contract and a source carry the name of who wrote their spec last, as the API server knows it."""

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.checkout import contract
from tests.cluster.shop import Shop, allowed, refused
from tests.cluster.support import Answer, Manifest, apply, eventually, kubectl, rest

pytestmark = pytest.mark.cluster

STAMP = "gatewright.dev/written-by"
NAME = "gatecontracts.gatewright.dev"
SOURCES = {"apiGroups": ["gatewright.dev"], "resources": ["metricsources"], "verbs": ["*"]}


def author(shop: Shop, name: str = "author-a") -> Path:
    return shop.person(name, roles=("gatewright-author",))


def forged(body: Manifest, stamp: str = "somebody-else") -> Manifest:
    return body | {"metadata": body["metadata"] | {"annotations": {STAMP: stamp}}}


def stamp(shop: Shop) -> str | None:
    path = f"/apis/gatewright.dev/v1alpha1/namespaces/{shop.namespace}/gatecontracts/checkout"
    found = rest(shop.admin, "GET", path)["metadata"].get("annotations", {}).get(STAMP)
    return None if found is None else str(found)


def annotate(shop: Shop, who: Path, pair: str) -> Answer:
    return shop.run(who, "annotate", "--overwrite", NAME, "checkout", pair)


def patch_spec(shop: Shop, who: Path, patch: str = '{"spec": {"hold": {"timeout": "1h"}}}') -> Answer:
    return shop.run(who, "patch", NAME, "checkout", "--type=merge", "-p", patch)


@pytest.fixture
def written(shop: Shop) -> Shop:
    """A contract that `author-a` made."""
    allowed(shop.run(author(shop), "create", "-f", "-", manifest=contract()))
    return shop


def test_who_makes_a_contract_is_stamped(written: Shop) -> None:
    assert stamp(written) == "author-a"


def test_other_annotations_stay(shop: Shop) -> None:
    body = contract()
    body["metadata"]["annotations"] = {"team": "payments"}
    made = shop.run(author(shop), "create", "-o", "json", "-f", "-", manifest=body).json
    assert made["metadata"]["annotations"] == {"team": "payments", STAMP: "author-a"}


def test_a_stamp_forged_with_the_creation_is_overwritten(shop: Shop) -> None:
    allowed(shop.run(author(shop), "create", "-f", "-", manifest=forged(contract())))
    assert stamp(shop) == "author-a"


def test_who_changes_the_spec_takes_the_stamp_over(written: Shop) -> None:
    allowed(patch_spec(written, author(written, "author-b")))
    assert stamp(written) == "author-b"


def test_a_stamp_forged_with_a_change_of_the_spec_is_overwritten(written: Shop) -> None:
    patch = f'{{"metadata": {{"annotations": {{"{STAMP}": "author-a"}}}}, "spec": {{"hold": {{"timeout": "1h"}}}}}}'
    allowed(patch_spec(written, author(written, "author-b"), patch))
    assert stamp(written) == "author-b"


@pytest.mark.parametrize("pair", [f"{STAMP}=somebody-else", f"{STAMP}-"], ids=["changed", "taken off"])
def test_without_a_change_of_the_spec_the_stamp_stays(written: Shop, pair: str) -> None:
    allowed(annotate(written, author(written, "author-b"), pair))
    assert stamp(written) == "author-a"


def test_a_write_that_changes_nothing_launders_nothing(written: Shop) -> None:
    who = author(written, "author-b")
    allowed(written.run(who, "replace", "-f", "-", manifest=contract()))
    allowed(patch_spec(written, who, '{"spec": {}}'))
    assert stamp(written) == "author-a"


def test_server_side_apply_is_stamped_and_does_not_launder(shop: Shop) -> None:
    one, two = author(shop), author(shop, "author-b")
    where = ("-n", shop.namespace, "--force-conflicts")
    allowed(apply(forged(contract()), one, *where))
    assert stamp(shop) == "author-a"
    allowed(apply(contract(), one, *where))
    assert stamp(shop) == "author-a"
    allowed(apply(forged(contract(), "author-b"), two, *where))
    assert stamp(shop) == "author-a", "nothing of the spec changed"
    allowed(apply(contract(hold={"timeout": "1h"}), two, *where))
    assert stamp(shop) == "author-b"


def test_a_metric_source_is_stamped_too(shop: Shop) -> None:
    name = f"source-{shop.namespace[-8:]}"
    path = "/apis/gatewright.dev/v1alpha1/metricsources"
    body: dict[str, Any] = {
        "apiVersion": "gatewright.dev/v1alpha1",
        "kind": "MetricSource",
        "metadata": {"name": name, "annotations": {STAMP: "somebody-else"}},
        "spec": {
            "address": "http://127.0.0.1:9",
            "scrapeInterval": "1s",
            "arms": {"by": "PodName", "label": "pod", "namespaceLabel": "namespace"},
            "producer": "Workload",
        },
    }
    me = kubectl(["auth", "whoami", "-o", "json"], shop.admin).json["status"]["userInfo"]["username"]
    try:
        made = rest(shop.admin, "POST", path, body)
        assert made["metadata"]["annotations"][STAMP] == me
        answer = kubectl(
            ["annotate", "--overwrite", "metricsource", name, f"{STAMP}=x", "-o", "json"], shop.admin
        )
        assert answer.json["metadata"]["annotations"][STAMP] == me
        patch = f'{{"metadata": {{"annotations": {{"{STAMP}": "x"}}}}, "status": {{}}}}'
        status = ["patch", "metricsource", name, "--subresource=status", "--type=merge", "-p", patch]
        shop.operator(*status)
        assert rest(shop.admin, "GET", f"{path}/{name}")["metadata"]["annotations"][STAMP] == me
    finally:
        rest(shop.admin, "DELETE", f"{path}/{name}")


def test_when_the_stamping_policy_is_gone_a_new_spec_is_refused(written: Shop) -> None:
    binding = "mutatingadmissionpolicybinding/gatewright-p11-stamp-writer"
    saved = written.run(written.admin, "get", binding, "-o", "json").json
    saved["metadata"] = {key: saved["metadata"][key] for key in ("name", "labels")}
    who = author(written, "author-b")
    trial = [
        "patch",
        NAME,
        "checkout",
        "--type=merge",
        "-p",
        '{"spec": {"hold": {"timeout": "1h"}}}',
        "--dry-run=server",
    ]
    try:
        allowed(written.run(written.admin, "delete", binding))
        eventually(lambda: not written.run(who, *trial).ok, 20, "the policy stops stamping")
        refused(written.run(who, *trial), "the policy that does so did not run. Nothing was changed.")
        refused(
            annotate(written, who, f"{STAMP}=author-b"), "is written by the API server when the spec changes"
        )
    finally:
        allowed(written.run(written.admin, "create", "-f", "-", manifest=saved))
        eventually(lambda: written.run(who, *trial).ok, 20, "the policy stamps again")
