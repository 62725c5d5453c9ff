"""A good version, from the template's change to the last pod."""

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.releases import STEPS, TWO_STEPS, Release, check, contract, lost

pytestmark = pytest.mark.timeout(300)


def test_a_good_version_is_promoted_step_by_step_and_no_request_is_lost(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(cluster, namespace, steps=TWO_STEPS)
    before = shop.stable_pods()
    with shop.traffic() as traffic:
        shop.release(VERSION="v2")
        shop.phase("Progressing", step=1)
        assert shop.weights() == (75, 25)
        assert shop.stable_pods() == before, "stable's pods were touched before the promotion"
        shop.phase("Progressing", step=3)
        assert shop.weights() == (50, 50)
        assert shop.stable_pods() == before, "stable's pods were touched before the promotion"
        status = shop.phase("Idle")
        report = traffic.report()
    assert status["stable"]["revision"] == status["observedRevision"]
    assert not shop.stable_pods() & before, "the promoted version runs in new pods"
    assert lost(report) == 0, f"requests were lost: {report.statuses} {report.errors}"
    assert {"v1", "v2"} <= report.versions.keys(), "both versions served"
    shop.clean_at_rest()
    kinds = shop.kinds()
    assert [k for k in kinds if k in ("Started", "WeightSet", "Verdict", "Promoted", "Completed")] == [
        "Started",
        "WeightSet",
        "Verdict",
        "WeightSet",
        "Verdict",
        "Promoted",
        "Completed",
    ], kinds
    shop.verify_ledger()


def test_every_weight_stood_in_the_ledger_before_it_was_written(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(cluster, namespace)
    with shop.traffic():
        shop.release(VERSION="v2")
        shop.phase("Progressing", step=1)
        entries = [e for e in shop.ledger() if e["key"]["kind"] == "WeightSet"]
        assert [e["body"]["weight"] for e in entries] == [50]
        route = shop.get("httproute", "checkout")
        mark = route["metadata"]["annotations"]["gatewright.dev/decision"]
        assert (
            mark == shop.get("deployment", "checkout")["metadata"]["annotations"]["gatewright.dev/decision"]
        )
        assert mark.startswith(entries[0]["key"]["revision"])
        shop.phase("Idle")
    shop.verify_ledger()


def test_bytes_of_others_on_the_users_objects_are_the_same_afterwards(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(cluster, namespace)

    def foreign(kind: str, name: str) -> object:
        obj = shop.get(kind, name)
        metadata = {
            k: v for k, v in obj["metadata"].items() if k in ("labels", "annotations", "ownerReferences")
        }
        metadata["annotations"] = {
            k: v
            for k, v in metadata.get("annotations", {}).items()
            if not k.startswith(("gatewright.dev/", "deployment.kubernetes.io/"))
        }
        spec = {k: v for k, v in obj["spec"].items() if k != "template"}
        return metadata, spec

    objects = [
        ("deployment", "checkout"),
        ("service", "checkout"),
        ("service", "checkout-canary"),
        ("httproute", "checkout"),
    ]
    before = {o: foreign(*o) for o in objects}
    with shop.traffic():
        shop.release(VERSION="v2")
        shop.phase("Idle", timeout=120, step=1)
    shop.clean_at_rest()
    assert {o: foreign(*o) for o in objects} == before


def test_a_baked_release_is_judged_after_100_percent_and_completes(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    bake = {"warmup": "1s", "duration": "4s", "window": "2s", "interval": "1s"}
    spec = contract([check(stages=("Canary", "Bake"))])
    shop = Release.create(cluster, namespace, steps=STEPS, contract_spec=spec, bake=bake)
    with shop.traffic():
        shop.release(VERSION="v2")
        shop.phase("Baking")
        assert shop.weights() == (100, 0), "the canary is gone before the bake begins"
        shop.phase("Idle")
    verdicts = [e for e in shop.ledger() if e["key"]["kind"] == "Verdict"]
    assert [v["key"]["step"] for v in verdicts] == ["1", "bake"]
    assert all(v["body"]["verdict"]["decision"] == "PROMOTE" for v in verdicts)
