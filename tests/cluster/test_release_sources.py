"""Where the numbers come from, and the contract that reads them, change or fail while releases are on their way."""

import json

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.metric_sources import metric_source, silent_server
from tests.cluster.releases import GOOD, LONG_GATE, Release, check, contract
from tests.cluster.support import Manifest, eventually, rest

pytestmark = pytest.mark.timeout(300)


def _reading_from(source: str) -> Manifest:
    one = check()
    one["evidence"][0]["counts"]["source"] = source
    return contract([one])


def test_a_source_that_hangs_holds_the_release_that_rests_on_it_and_delays_no_other(
    cluster: Instance, operator: Operator, namespace: str, another_namespace: str
) -> None:
    steps: list[Manifest] = [
        {"setWeight": 50},
        {"gate": {**LONG_GATE, "duration": "4s", "maxDuration": "45s"}},
    ]
    with (
        silent_server() as address,
        metric_source(cluster, namespace, address=address, timeout="2s") as silent,
    ):
        blind = Release.create(cluster, namespace, steps=steps, contract_spec=_reading_from(silent))
        seeing = Release.create(cluster, another_namespace)
        with blind.traffic(), seeing.traffic():
            blind.release(**GOOD)
            blind.phase("Progressing", step=1)
            seeing.release(**GOOD)
            seeing.promoted("v2")
            status = blind.phase("Held")
    assert status["hold"]["reason"] == "SourceTimeout", status["hold"]
    assert silent in status["hold"]["message"], status["hold"]["message"]
    assert blind.weights() == (50, 50)
    assert {e["body"]["verdict"]["decision"] for e in blind.entries("Verdict")} == {"HOLD"}
    [judged] = seeing.entries("Verdict")
    [held] = blind.entries("Verdict")
    assert judged["at"] < held["at"], "the release with a good source waited for the one with a bad one"


def test_a_source_that_is_not_for_this_namespace_stops_the_start_until_it_is(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    """Its owner lets the namespace in by a label, which nobody tells the operator."""
    allowed = {"matchLabels": {"team": namespace[:63]}}
    with metric_source(cluster, namespace, allowedNamespaces=allowed) as source:
        shop = Release.create(
            cluster, namespace, replicas=1, contract_spec=_reading_from(source), gated=False
        )

        def refused() -> bool:
            found = {c["type"]: c for c in shop.status.get("conditions", ())}
            assert found.get("Feasible", {}).get("reason") == "SourceNotAllowed", found
            return (
                f"MetricSource {source}, whose allowedNamespaces do not select"
                in found["Feasible"]["message"]
            )

        eventually(refused, 30, "the condition says that the source is not for this namespace")
        body = {"metadata": {"labels": {"team": namespace[:63]}}}
        patch = rest(
            cluster.kubeconfig,
            "PATCH",
            f"/api/v1/namespaces/{namespace}",
            body,
            content_type="application/merge-patch+json",
        )
        assert patch["metadata"]["labels"]["team"]
        shop.phase("Idle")


def test_a_contract_that_is_edited_in_the_middle_counts_from_the_next_attempt(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(cluster, namespace)
    with shop.traffic():
        shop.release(VERSION="v2", ERROR_RATE="0.01")
        shop.phase("Progressing", step=1)
        strict = json.dumps([{"op": "replace", "path": "/spec/checks/0/limit/maxBadRatio", "value": 0.001}])
        answer = shop.kubectl("patch", "gatecontract", "checkout", "--type=json", "-p", strict)
        assert answer.ok, answer.err
        shop.promoted("v2")
        shop.release(VERSION="v3", ERROR_RATE="0.01")
        shop.phase("Held", "RolledBack")
    first, second = (e["body"]["spec"]["checks"][0]["limit"]["maxBadRatio"] for e in shop.entries("Contract"))
    assert (first, second) == (0.05, 0.001), "the ledger keeps each contract that judged"
    judged = [r["spec"]["contractDigest"] for r in shop.all("gateruns")]
    assert len(set(judged)) == 2
    shop.verify_ledger()
