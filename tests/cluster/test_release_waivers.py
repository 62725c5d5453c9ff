"""What an approval is good for, with real people on a real control plane: two at once, a span, another revision."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.releases import DOUBTFUL, STEPS, TWO_STEPS, Person, Release, check, contract
from tests.cluster.support import eventually

pytestmark = pytest.mark.timeout(300)

REVIEWER = ("gatewright-reviewer",)


def held_release(
    cluster: Instance, namespace: str, *, steps: list[Any] = STEPS, hold: dict[str, Any] | None = None
) -> Release:
    shop = Release.create(cluster, namespace, steps=steps, contract_spec=contract(hold=hold or {}))
    with shop.traffic():
        shop.release(**DOUBTFUL)
        shop.phase("Held")
    return shop


def together(shop: Release, *people: Path) -> list[Any]:
    """Approvals of what is held now, sent at the same time; what the operator says to each."""
    with ThreadPoolExecutor(len(people)) as pool:
        written = list(pool.map(lambda who: shop.review("Approve", who=who), people))
    assert all(one.ok for one in written), [one.err for one in written]
    return [shop.answer("gatereviews.gatewright.dev", one) for one in written]


def replayed(shop: Release) -> None:
    """The chain holds, and every verdict, those under a waiver too, comes out again from its evidence."""
    shop.verify_ledger()
    answer = shop.gate("ledger", "replay", "checkout")
    assert answer.ok, f"{answer.out}{answer.err}"


def test_two_people_at_once_are_two_approvals(
    cluster: Instance, operator: Operator, namespace: str, as_user: Person
) -> None:
    shop = held_release(cluster, namespace, hold={"minApprovals": 2})
    both = [as_user(f"reviewer-{name}", roles=REVIEWER) for name in "ab"]
    answers = together(shop, *both)
    assert [one["outcome"] for one in answers] == ["Accepted", "Accepted"]
    said = " ".join(sorted(one["message"] for one in answers))
    assert "1 of 2 approvals" in said
    assert "2 of 2 approvals" in said
    shop.phase("Idle")
    names = sorted(entry["actor"]["name"] for entry in shop.entries("Review"))
    assert names == ["reviewer-a", "reviewer-b"], "each has an entry of their own"
    shop.verify_ledger()


def test_one_person_twice_is_one_approval(
    cluster: Instance, operator: Operator, namespace: str, as_user: Person
) -> None:
    shop = held_release(cluster, namespace, hold={"minApprovals": 2})
    reviewer = as_user("reviewer-a", roles=REVIEWER)
    first, second = (
        shop.answer("gatereviews.gatewright.dev", shop.review("Approve", who=reviewer)) for _ in range(2)
    )
    assert "1 of 2 approvals" in first["message"]
    assert second["outcome"] == "Accepted"
    assert "it counts once" in second["message"]
    hold = shop.status["hold"]
    assert ([one["reviewer"] for one in hold["approvals"]], hold["approvalsNeeded"]) == (["reviewer-a"], 2)


def test_a_waiver_for_all_that_follow_reaches_the_next_gate(
    cluster: Instance, operator: Operator, namespace: str, as_user: Person
) -> None:
    shop = held_release(cluster, namespace, steps=TWO_STEPS)
    reviewer = as_user("reviewer-a", roles=REVIEWER)
    with shop.traffic():
        written = shop.review("Approve", who=reviewer, through="Remaining")
        assert written.ok, written.err
        shop.phase("Idle")
    name = written.json["metadata"]["name"]
    last = shop.entries("Verdict")[-1]["body"]["verdict"]
    assert (last["step"], last["decision"]) == ("3", "PROMOTE")
    [check] = last["checks"]
    assert check["status"] == "pass" or (
        check["status"] == "waived" and check["evidence"][0]["uri"] == f"gatereviews.gatewright.dev/{name}"
    ), check
    run = next(r for r in shop.all("gateruns.gatewright.dev") if r["spec"]["step"] == "3")
    assert [one["review"] for one in run["spec"]["waivers"]] == [name]
    shop.verify_ledger()


def test_an_approval_of_one_revision_is_none_of_the_next(
    cluster: Instance, operator: Operator, namespace: str, as_user: Person
) -> None:
    shop = held_release(cluster, namespace)
    hold, revision = shop.status["hold"], shop.status["canary"]["revision"]
    reviewer = as_user("reviewer-a", roles=REVIEWER)
    with shop.traffic():
        shop.release(**DOUBTFUL | {"VERSION": "v3"})
        eventually(
            lambda: shop.status.get("phase") == "Held" and shop.status["canary"]["revision"] != revision,
            120,
            "v3 is held",
        )
    same = {field: hold[field] for field in ("run", "step", "evidenceDigest", "worldSnapshot")}
    answer = shop.review("Approve", who=reviewer, revision=revision, checks=hold["blocking"], **same)
    assert not answer.ok, "the API server refuses what names another revision than the one that is held"
    assert shop.status["phase"] == "Held"


def test_an_approval_and_a_new_revision_in_the_same_second_never_promote_the_new_one(
    cluster: Instance, operator: Operator, namespace: str, as_user: Person
) -> None:
    """As many times as fit into a quarter of a minute, at least twice."""
    shop = held_release(cluster, namespace)
    reviewer, ends, round_ = as_user("reviewer-a", roles=REVIEWER), monotonic() + 15, 0
    with shop.traffic():
        while round_ < 2 or monotonic() < ends:
            round_ += 1
            with ThreadPoolExecutor(2) as pool:
                approving = pool.submit(shop.review, "Approve", who=reviewer)
                pool.submit(shop.release, **DOUBTFUL | {"VERSION": f"v{round_ + 2}"}).result()
                approving.result()
            status = shop.phase("Held", "RolledBack", timeout=120)
            if status["phase"] == "RolledBack":
                break
    promoted = [entry["key"]["revision"] for entry in shop.entries("Promoted")]
    approved = {entry["body"]["spec"]["revision"] for entry in shop.entries("Review")}
    assert set(promoted) <= approved, "promoted without an approval of its own"
    shop.verify_ledger()


SLOW = {
    "id": "fast-answers",
    "oracleKind": "Deterministic",
    "onBreach": "Hold",
    "limit": {"minGoodRatio": 0.95},
    "evidence": [
        {
            "stages": ["Canary"],
            "latency": {"source": "prometheus", "histogram": "http_request_duration_seconds", "le": 0.5},
        }
    ],
}
LENIENT = {"totalFailure": {"badRatio": 0.99, "for": "3s"}}
"""So that a breach of the check itself decides."""


def test_what_only_holds_stays_waived_in_breach_at_every_gate_of_the_span(
    cluster: Instance, operator: Operator, namespace: str, as_user: Person
) -> None:
    only_holds = contract([check(onBreach="Hold")], **LENIENT)
    shop = Release.create(cluster, namespace, steps=TWO_STEPS, contract_spec=only_holds)
    with shop.traffic():
        shop.release(VERSION="v2", ERROR_RATE="0.2")
        hold = shop.phase("Held", step=1)["hold"]
        assert hold["breach"], "a proven breach that only holds"
        assert shop.review("Approve", who=as_user("reviewer-a", roles=REVIEWER), through="Remaining").ok
        shop.promoted("v2")
    [last] = [e["body"]["verdict"] for e in shop.entries("Verdict") if e["body"]["verdict"]["step"] == "3"]
    assert (last["decision"], last["checks"][0]["status"]) == ("PROMOTE", "waived")
    assert last["checks"][0]["found"] == "fail", "what was found stands beside the waiver"
    replayed(shop)


def test_what_rolls_back_does_so_under_a_waiver_too(
    cluster: Instance, operator: Operator, namespace: str, as_user: Person
) -> None:
    shop = Release.create(cluster, namespace, steps=TWO_STEPS, replicas=4, contract_spec=contract(**LENIENT))
    with shop.traffic():
        shop.release_with_setting("ERROR_RATE", DOUBTFUL["ERROR_RATE"])
        shop.phase("Held", step=1)
        # What a second canary pod reads as it starts, for the next weight.
        shop.set_setting("ERROR_RATE", "0.9")
        assert shop.review("Approve", who=as_user("reviewer-a", roles=REVIEWER), through="Remaining").ok
        status = shop.phase("RolledBack")
    assert status["rejected"]["reason"].startswith("Breach"), status["rejected"]
    run = next(r for r in shop.all("gateruns.gatewright.dev") if r["spec"]["step"] == "3")
    assert run["spec"]["waivers"], "the gate began with the waiver"
    assert run["status"]["verdict"]["decision"] == "ROLLBACK"
    shop.clean_at_rest()
    replayed(shop)


def test_what_newly_blocks_during_a_hold_voids_what_was_approved_before(
    cluster: Instance, operator: Operator, namespace: str, as_user: Person
) -> None:
    spec = contract([check(onBreach="Hold"), SLOW], hold={"minApprovals": 2}, **LENIENT)
    shop = Release.create(cluster, namespace, contract_spec=spec)
    first, second = (as_user(f"reviewer-{name}", roles=REVIEWER) for name in "ab")
    with shop.traffic():
        shop.release(VERSION="v2", LATENCY_SLOW_RATE="0.3", ERROR_RATE="0.3", ERROR_AFTER_SECONDS="40")
        before = shop.phase("Held")["hold"]
        assert before["blocking"] == ["fast-answers"]
        counted = shop.answer("gatereviews.gatewright.dev", shop.review("Approve", who=first))
        assert "1 of 2 approvals" in counted["message"]
        eventually(
            lambda: shop.status["hold"]["blocking"] == ["fast-answers", "http-success"],
            90,
            "the errors block as well",
        )
    now = shop.status["hold"]
    assert now["evidenceDigest"] != before["evidenceDigest"]
    assert not now.get("approvals"), "approvals of what was seen before are void"
    late = shop.review(
        "Approve", who=second, evidenceDigest=before["evidenceDigest"], checks=before["blocking"]
    )
    assert not late.ok
    assert "not what you have seen" in late.err
    for who, said in ((first, "1 of 2 approvals"), (second, "2 of 2 approvals")):
        assert said in shop.answer("gatereviews.gatewright.dev", shop.review("Approve", who=who))["message"]
    shop.promoted("v2")
    assert [e["body"]["verdict"]["blocking"] for e in shop.entries("Blocked")] == [now["blocking"]]
    replayed(shop)
