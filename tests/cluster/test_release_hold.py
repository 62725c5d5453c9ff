"""A doubtful version: it waits for the right person, and for nobody and nothing else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.releases import STEPS, Release, contract, in_hours
from tests.cluster.support import eventually

pytestmark = pytest.mark.timeout(300)

DOUBTFUL = {"VERSION": "v2", "ERROR_RATE": "0.045"}
"""So near to the limit of 5 % that eight seconds prove neither."""
Person = Callable[..., Path]


@pytest.fixture
def held(cluster: Instance, operator: Operator, namespace: str) -> Release:
    shop = Release.create(cluster, namespace)
    with shop.traffic():
        shop.release(**DOUBTFUL)
        shop.phase("Held")
    return shop


def test_what_can_not_prove_itself_is_held_and_says_why(held: Release) -> None:
    hold = held.status["hold"]
    assert hold["blocking"] == ["http-success"]
    assert hold["reason"] == "BelowThreshold", hold
    assert hold["initiator"] == "developer-a"
    assert held.weights() == (50, 50), "a held canary keeps its weight"
    conditions = {c["type"]: c["status"] for c in held.status["conditions"]}
    assert conditions["Held"] == "True"
    assert conditions["Reconciling"] == "True"
    assert conditions["Ready"] == "False"


def test_an_approval_by_the_right_person_goes_on_to_the_end(held: Release, as_user: Person) -> None:
    reviewer = as_user("reviewer-a", roles=("gatewright-reviewer",))
    answer = held.review("Approve", who=reviewer)
    assert answer.ok, answer.err
    held.phase("Idle")
    review = next(e for e in held.ledger() if e["key"]["kind"] == "Review")
    assert review["actor"] == {"kind": "user", "name": "reviewer-a"}
    assert review["body"]["spec"]["reason"] == "looked at the dashboards"
    status = held.get("gatereviews.gatewright.dev", answer.json["metadata"]["name"])["status"]
    assert status["outcome"] == "Accepted"
    kinds = held.kinds()
    assert kinds.index("Review") < kinds.index("Promoted"), (
        "the waiver stands in the ledger before its effect"
    )
    held.verify_ledger()


def test_a_rejection_rolls_back(held: Release, as_user: Person) -> None:
    reviewer = as_user("reviewer-a", roles=("gatewright-reviewer",))
    answer = held.review("Reject", who=reviewer)
    assert answer.ok, answer.err
    status = held.phase("RolledBack")
    assert status["rejected"]["reason"] == "Rejected"
    held.clean_at_rest()
    held.verify_ledger()


def test_requested_changes_keep_it_held_with_the_note(held: Release, as_user: Person) -> None:
    reviewer = as_user("reviewer-a", roles=("gatewright-reviewer",))
    answer = held.review("RequestChanges", who=reviewer, reason="cache the price list first")
    assert answer.ok, answer.err
    eventually(
        lambda: "cache the price list first" in held.status["hold"].get("note", ""),
        20,
        "the note stands in the hold",
    )
    assert held.status["phase"] == "Held"


def test_a_review_in_the_name_of_somebody_else_is_refused(held: Release, as_user: Person) -> None:
    reviewer = as_user("reviewer-a", roles=("gatewright-reviewer",))
    answer = held.review("Approve", who=reviewer, reviewer="reviewer-b")
    assert not answer.ok
    assert "Nobody signs for somebody else" in answer.err
    assert held.status["phase"] == "Held"


def test_a_person_without_the_verb_is_refused(held: Release, as_user: Person) -> None:
    stranger = as_user(
        "stranger-a",
        rules=[{"apiGroups": ["gatewright.dev"], "resources": ["*"], "verbs": ["get", "list", "create"]}],
    )
    answer = held.review("Approve", who=stranger)
    assert not answer.ok
    assert "approve" in answer.err
    assert held.status["phase"] == "Held"


def test_a_review_of_other_evidence_is_refused(held: Release, as_user: Person) -> None:
    reviewer = as_user("reviewer-a", roles=("gatewright-reviewer",))
    answer = held.review("Approve", who=reviewer, evidenceDigest="sha256:" + "0" * 64)
    assert not answer.ok
    assert "What is held now is run" in answer.err


def test_a_waiver_beyond_what_the_contract_allows_is_refused(held: Release, as_user: Person) -> None:
    reviewer = as_user("reviewer-a", roles=("gatewright-reviewer",))
    answer = held.review("Approve", who=reviewer, expiresAt=in_hours(24 * 7))
    assert not answer.ok
    assert "The contract allows waivers of 72h; this one would end at" in answer.err
    assert held.status["phase"] == "Held"


def test_an_abort_ends_a_hold(held: Release) -> None:
    answer = held.order("Abort")
    assert answer.ok, answer.err
    status = held.phase("RolledBack")
    assert status["rejected"]["reason"] == "Aborted"
    held.clean_at_rest()


def test_a_retry_gathers_more_evidence_for_the_same_step(held: Release) -> None:
    with held.traffic():
        answer = held.order("Retry")
        assert answer.ok, answer.err
        eventually(lambda: held.status.get("attempt") == 2, 20, "the second attempt has begun")
        held.phase("Held", "Idle", "RolledBack")
    runs = [r["metadata"]["name"] for r in held.all("gateruns.gatewright.dev")]
    assert len(runs) == 2, runs
    second = next(r for r in held.all("gateruns.gatewright.dev") if r["spec"]["attempt"] == 2)
    assert second["spec"]["pooledFrom"] == [n for n in runs if n != second["metadata"]["name"]]
    held.verify_ledger()


def test_the_clock_alone_never_reverts(cluster: Instance, operator: Operator, namespace: str) -> None:
    spec = contract(hold={"timeout": "3s", "onTimeout": "Rollback"})
    shop = Release.create(cluster, namespace, steps=STEPS, contract_spec=spec)
    with shop.traffic():
        shop.release(**DOUBTFUL)
        shop.phase("Held")
        eventually(lambda: "beyond its deadline" in shop.status["message"], 30, "the deadline has passed")
    assert shop.status["phase"] == "Held", "a time-out without a proven breach stays held"
