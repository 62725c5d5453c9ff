"""Asking again is no new draw, and only a person opens another attempt: whatever happens to status, operator or Rollout."""

from typing import Any

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.checkout import rollout
from tests.cluster.releases import GATE, Person, Release, check, contract
from tests.cluster.support import OPERATOR, Manifest, eventually

pytestmark = pytest.mark.timeout(300)

SHORT: list[Manifest] = [{"setWeight": 50}, {"gate": {**GATE, "maxDuration": "4s"}}]
JUDGED: Manifest = check(
    "faithfulness",
    oracleKind="Sampled",
    limit={"minGoodRatio": 0.9},
    plannedSamples=100,
    evidence=[
        {
            "stages": ["Canary"],
            "samples": {
                "source": "prometheus",
                "passed": ['judge_verdicts_total{verdict="faithful"}'],
                "total": ["judge_verdicts_total"],
            },
        }
    ],
)
CLOSE = {"VERSION": "v2", "JUDGE_PASS_RATE": "0.91"}
"""So near to the threshold of 90 % that a few hundred verdicts prove neither."""


def _result(shop: Release) -> Any:
    """The sampled check as the newest verdict in the ledger has it."""
    [result] = shop.entries("Verdict")[-1]["body"]["verdict"]["checks"]
    return result


def _held(shop: Release, verdicts: int) -> Any:
    """Waits for the HOLD of so many verdicts, and returns its result of the sampled check."""

    def held() -> bool:
        assert len(shop.entries("Verdict")) == verdicts, shop.status.get("message")
        assert shop.status.get("phase") == "Held", shop.status.get("message")
        return True

    eventually(held, 60, f"verdict {verdicts} holds the release")
    return _result(shop)


def _make_anew(shop: Release, **env: str) -> None:
    """Deletes the Rollout, puts the stable template back, and creates the same Rollout again."""
    assert shop.kubectl("delete", "rollouts.gatewright.dev", "checkout", "--wait=true").ok
    shop.release(**env)
    assert shop.kubectl("rollout", "resume", "deployment/checkout", who=shop.developer).ok
    shop.apply(rollout(SHORT))
    shop.phase("Idle")


def test_a_spent_look_is_spent_until_a_person_orders_more_samples(
    cluster: Instance, operator: Operator, namespace: str, as_user: Person
) -> None:
    shop = Release.create(
        cluster,
        namespace,
        steps=SHORT,
        replicas=1,
        contract_spec=contract([JUDGED]),
        env={"JUDGE_PASS_RATE": "1"},
    )
    with shop.traffic():
        shop.release(**CLOSE)
        first = _held(shop, 1)
        [drew] = [run["metadata"]["name"] for run in shop.all("gateruns.gatewright.dev")]
        assert (first["status"], first["statistics"]["ticketUsed"]) == ("below_threshold", True), first
        assert "cachedFrom" not in first or not first["cachedFrom"]

        assert shop.order("Retry").ok
        again = _held(shop, 2)
        assert (again["cachedFrom"], again["samples"]) == (drew, first["samples"]), "a Retry drew anew"
        assert again["message"].startswith(f"As {drew} found"), again["message"]

        may_create = {"apiGroups": ["gatewright.dev"], "resources": ["gateorders"], "verbs": ["create"]}
        viewer = as_user("viewer-a", roles=("gatewright-viewer",), rules=[may_create])
        refused = shop.gate("more-samples", "checkout", "--reason", "close to the limit", who=viewer)
        assert "may not order MoreSamples" in refused.err, refused.err
        operating = as_user("reviewer-a", roles=("gatewright-reviewer",))
        assert "more-samples checkout" in shop.gate("review", "checkout").out
        ordered = shop.gate("more-samples", "checkout", "--reason", "close to the limit", who=operating)
        assert ordered.ok, ordered.err
        pooled = _held(shop, 3)
    newest = next(r for r in shop.all("gateruns.gatewright.dev") if r["spec"]["attempt"] == 3)
    assert newest["spec"]["moreSamples"] is True
    assert drew in newest["spec"]["pooledFrom"]
    assert not pooled.get("cachedFrom")
    assert pooled["samples"] > first["samples"], "the samples were not added to those of the first attempt"
    shop.verify_ledger()

    # A status that is lost, and then a Rollout made anew: the third answer is given again each time.
    wiped = shop.kubectl(
        "--as", OPERATOR, "patch", "rollouts.gatewright.dev", "checkout", "--subresource=status", "--type=merge",
        "-p", '{"status": null}',
    )  # fmt: skip
    assert wiped.ok, wiped.err
    lost = _held(shop, 4)
    assert (lost["cachedFrom"], lost["samples"]) == (newest["metadata"]["name"], pooled["samples"])
    _make_anew(shop, VERSION="v1", JUDGE_PASS_RATE="1")
    shop.release(**CLOSE)
    anew = _held(shop, 5)
    assert (anew["cachedFrom"], anew["samples"]) == (newest["metadata"]["name"], pooled["samples"])


def test_a_budget_that_is_used_up_holds_the_next_version_until_a_person_orders_it(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(
        cluster, namespace, steps=SHORT, replicas=1, contract_spec=contract(attempts={"budget": 1})
    )
    with shop.traffic():
        shop.release(VERSION="v2", ERROR_RATE="0.9")
        shop.phase("RolledBack")
    used = {"used": 1, "budget": 1}
    eventually(lambda: shop.status["attempts"] == used, 20, "the only attempt is used up")
    shop.release(VERSION="v3", ERROR_RATE="0")

    def exhausted() -> Any:
        status = shop.status
        stalled = next(c for c in status["conditions"] if c["type"] == "Stalled")
        assert (stalled["status"], stalled["reason"]) == ("True", "AttemptsExhausted"), stalled
        return status

    status = eventually(exhausted, 30, "the next version is not started")
    assert f"kubectl gate retry checkout -n {namespace}" in status["message"]
    assert status["escalation"]["cause"] == "AttemptsExhausted"
    assert not status["escalation"].get("resolution")
    assert shop.deployment["spec"]["paused"] is True
    assert shop.canary_revisions() == []
    [held] = shop.entries("Held")
    assert held["key"]["cause"] == "AttemptsExhausted"
    events = [e for e in shop.all("events") if e["reason"] == "AttemptsExhausted"]
    assert [(e["type"], e.get("count") or 1) for e in events] == [("Warning", 1)]

    _make_anew(shop, VERSION="v1", ERROR_RATE="0")
    shop.release(VERSION="v3", ERROR_RATE="0")
    again = eventually(exhausted, 30, "a Rollout made anew has no other budget")
    assert again["escalation"]["openedAt"] == status["escalation"]["openedAt"]

    assert shop.gate("retry", "checkout", "--reason", "the fix is in").ok
    begun = shop.phase("Progressing", step=1)
    assert begun["attempts"] == {"used": 0, "budget": 1}
    assert "ordered a Retry" in begun["escalation"]["resolution"]
