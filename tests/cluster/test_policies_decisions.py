"""Policies P9 and P10 of the chart, rule by rule: who may decide and order, about what, and who reports.

On a real API server, by people with and without the rights. No operator runs: the tests write the status of
the Rollout themselves, under its user name.
"""

import functools
import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.shop import Shop, allowed, refused, rollout
from tests.cluster.support import OPERATOR, Answer, Manifest, eventually, kubectl, rest

pytestmark = pytest.mark.cluster

DIGEST = f"sha256:{hashlib.sha256(b'evidence').hexdigest()}"
OTHER_DIGEST = f"sha256:{hashlib.sha256(b'other evidence').hexdigest()}"
OTHER_UID = "00000000-0000-0000-0000-000000000000"
REVISION = "0a1b2c3d4e"
IMMUTABLE_REVIEW = "A review can't be changed: create another."
IMMUTABLE_ORDER = "An order can't be changed: create another."
NOBODY_SIGNS = "Nobody signs for somebody else."
NO_APPROVE = "the verb approve on rollouts.gatewright.dev is missing."
REVIEW = {"apiGroups": ["gatewright.dev"], "resources": ["gatereviews"], "verbs": ["create"]}
ORDER = {"apiGroups": ["gatewright.dev"], "resources": ["gateorders"], "verbs": ["create"]}


def verb(name: str, **limits: Any) -> dict[str, Any]:
    """An RBAC rule that gives one of our verbs on Rollouts."""
    return {"apiGroups": ["gatewright.dev"], "resources": ["rollouts"], "verbs": [name], **limits}


@functools.cache
def groups_of(kubeconfig: Path) -> list[str]:
    answer = kubectl(["auth", "whoami", "-o", "json"], kubeconfig).json
    return list(answer["status"]["userInfo"]["groups"])


@dataclass(frozen=True)
class Court:
    """A Rollout `checkout` held on run `run-1`, started by `developer`, and the means to decide on it."""

    shop: Shop
    uid: str

    def review(self, who: Path, **changes: Any) -> Answer:
        """Create the review that `who` would write, with `changes`."""
        expires = datetime.now(UTC) + timedelta(hours=1)
        spec = {
            "rollout": "checkout",
            "rolloutUID": self.uid,
            "run": "run-1",
            "revision": REVISION,
            "step": "1",
            "evidenceDigest": DIGEST,
            "decision": "Approve",
            "reviewer": "reviewer-a",
            "groups": groups_of(who),
            "reason": "The rise is the load test of the payment provider.",
            "expiresAt": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        return self.create(who, "GateReview", spec | changes)

    def order(self, who: Path, **changes: Any) -> Answer:
        """Create the order that `who` would write, with `changes`."""
        spec = {
            "rollout": "checkout",
            "rolloutUID": self.uid,
            "revision": REVISION,
            "order": "Retry",
            "orderedBy": "reviewer-a",
            "groups": groups_of(who),
            "reason": "The database was down during the first attempt.",
        }
        return self.create(who, "GateOrder", spec | changes)

    def create(self, who: Path, kind: str, spec: dict[str, Any]) -> Answer:
        body = {
            "apiVersion": "gatewright.dev/v1alpha1",
            "kind": kind,
            "metadata": {"generateName": "checkout-"},
            "spec": {key: value for key, value in spec.items() if value is not None},
        }
        return self.shop.run(who, "create", "-o", "json", "-f", "-", manifest=body)

    def reviewer(self, name: str = "reviewer-a", groups: tuple[str, ...] = ("payments",)) -> Path:
        return self.shop.person(name, roles=("gatewright-reviewer",), groups=groups)

    def report(self, **status: Any) -> None:
        """Write the Rollout's status as the operator, and wait until the policies have seen it."""
        patch = json.dumps({"status": status})
        self.shop.operator(
            "patch",
            "rollouts.gatewright.dev",
            "checkout",
            "--subresource=status",
            "--type=merge",
            "-p",
            patch,
        )


def hold(**changes: Any) -> dict[str, Any]:
    now = datetime.now(UTC)
    stamp = "%Y-%m-%dT%H:%M:%SZ"
    return {
        "run": "run-1",
        "evidenceDigest": DIGEST,
        "step": "1",
        "initiator": "developer",
        "since": now.strftime(stamp),
        "reason": "BelowThreshold",
        "deadline": (now + timedelta(hours=24)).strftime(stamp),
    } | changes


@pytest.fixture
def court(shop: Shop) -> Court:
    """Not held: the Rollout has just been made."""
    path = f"/apis/gatewright.dev/v1alpha1/namespaces/{shop.namespace}/rollouts"
    made = rest(shop.admin, "POST", path, rollout())
    court = Court(shop, made["metadata"]["uid"])
    who = court.reviewer("reviewer-b")
    # The policies learn of a new Rollout by watching, a moment later; until then they refuse for that reason.
    eventually(lambda: court.order(who, orderedBy="reviewer-b").ok, 10, "the policies know the Rollout")
    return court


@pytest.fixture
def held(court: Court) -> Court:
    """Held, and the policies have seen it: the review that is right in all parts goes through as a trial."""
    court.report(phase="Held", hold=hold(), canary={"revision": REVISION})
    who = court.reviewer("reviewer-b")

    def seen() -> bool:
        answer = court.review(who, reviewer="reviewer-b", decision="RequestChanges", expiresAt=None)
        assert answer.ok, answer.err
        return True

    eventually(seen, 10, "the policies see that the Rollout is held")
    return court


class TestReviews:
    """P9: a decision is signed by the one who takes it, who may, for what is held now."""

    def test_an_approval_that_is_right_in_all_parts_goes_through(self, held: Court) -> None:
        allowed(held.review(held.reviewer()))

    @pytest.mark.parametrize("decision", ["RequestChanges", "Reject"])
    def test_the_other_decisions_need_no_expiry(self, held: Court, decision: str) -> None:
        allowed(held.review(held.reviewer(), decision=decision, expiresAt=None))

    def test_nobody_signs_for_somebody_else(self, held: Court) -> None:
        answer = held.review(held.reviewer(), reviewer="reviewer-b")
        refused(
            answer, "spec.reviewer is reviewer-b, but you are reviewer-a. Nobody signs for somebody else."
        )

    def test_not_even_a_cluster_admin(self, held: Court) -> None:
        refused(held.review(held.shop.admin), "Nobody signs for somebody else.")

    @pytest.mark.parametrize(
        "invented", [["payments", "sre", "system:authenticated"], [], ["payments", "payments"]]
    )
    def test_groups_are_those_that_the_api_server_sees(self, held: Court, invented: list[str]) -> None:
        answer = held.review(held.reviewer(), groups=invented)
        refused(answer, "spec.groups are not the groups that the API server sees you in.")

    def test_without_the_verb_approve_it_is_refused_and_says_which_is_missing(self, held: Court) -> None:
        answer = held.review(
            held.shop.person("developer", rules=[REVIEW]), reviewer="developer", decision="RequestChanges"
        )
        refused(
            answer,
            f"developer may not RequestChanges rollout checkout in {held.shop.namespace}: the verb approve",
        )

    def test_the_verb_operate_is_enough_to_reject_and_not_to_approve(self, held: Court) -> None:
        who = held.shop.person("sre-1", rules=[REVIEW, verb("operate")])
        allowed(held.review(who, reviewer="sre-1", decision="Reject", expiresAt=None))
        refused(held.review(who, reviewer="sre-1"), NO_APPROVE)

    def test_the_verb_on_another_rollout_does_not_count(self, held: Court) -> None:
        who = held.shop.person("reviewer-c", rules=[REVIEW, verb("approve", resourceNames=["cart"])])
        refused(held.review(who, reviewer="reviewer-c"), NO_APPROVE)

    def test_an_expiry_in_the_past_is_refused(self, held: Court) -> None:
        refused(
            held.review(held.reviewer(), expiresAt="2020-01-01T00:00:00Z"),
            "spec.expiresAt 2020-01-01T00:00:00Z has passed.",
        )

    def test_a_creation_time_set_by_the_client_does_not_make_it_young_again(self, held: Court) -> None:
        who = held.reviewer()
        body = {
            "apiVersion": "gatewright.dev/v1alpha1",
            "kind": "GateReview",
            "metadata": {"generateName": "checkout-", "creationTimestamp": "2019-12-31T00:00:00Z"},
            "spec": {
                "rollout": "checkout",
                "rolloutUID": held.uid,
                "run": "run-1",
                "revision": REVISION,
                "step": "1",
                "evidenceDigest": DIGEST,
                "decision": "Approve",
                "reviewer": "reviewer-a",
                "groups": groups_of(who),
                "reason": "back-dated",
                "expiresAt": "2020-01-01T00:00:00Z",
            },
        }
        refused(held.shop.run(who, "create", "-f", "-", manifest=body), "has passed.")

    @pytest.mark.parametrize(
        ("changes", "sentence"),
        [
            (
                {"run": "run-0"},
                "What is held now is run run-1. Look at it with: kubectl gate review checkout",
            ),
            ({"step": "3"}, "What is held now is run run-1. Look at it with: kubectl gate review checkout"),
            ({"evidenceDigest": OTHER_DIGEST}, "What is held now is run run-1."),
            ({"revision": "9876543210"}, f"What is held now is revision {REVISION}."),
            (
                {"rolloutUID": OTHER_UID},
                "This review is for another Rollout of the same name.",
            ),
        ],
        ids=["an old run", "another step", "other evidence", "another revision", "another UID"],
    )
    def test_a_review_of_anything_but_what_is_held_now_is_refused(
        self, held: Court, changes: dict[str, str], sentence: str
    ) -> None:
        refused(held.review(held.reviewer(), **changes), sentence)

    def test_who_started_the_change_does_not_approve_it(self, held: Court) -> None:
        who = held.reviewer("developer")
        refused(
            held.review(who, reviewer="developer"),
            "developer started this change; somebody else has to approve it.",
        )

    def test_who_started_the_change_may_reject_it(self, held: Court) -> None:
        allowed(
            held.review(held.reviewer("developer"), reviewer="developer", decision="Reject", expiresAt=None)
        )

    def test_when_nothing_is_held_there_is_nothing_to_approve(self, held: Court) -> None:
        who = held.reviewer()
        held.report(phase="Progressing", hold=None)
        sentence = "Rollout checkout is not held now; it is Progressing."
        eventually(lambda: sentence in held.review(who).err, 10, "the policies see that nothing is held")

    def test_an_approval_is_not_replayed_in_the_next_hold(self, held: Court) -> None:
        who = held.reviewer()
        first = held.review(who).json
        held.report(phase="Held", hold=hold(run="run-2", evidenceDigest=OTHER_DIGEST))
        again = {"apiVersion": first["apiVersion"], "kind": first["kind"], "spec": first["spec"]}
        again["metadata"] = {"generateName": "checkout-"}
        eventually(
            lambda: (
                "What is held now is run run-2."
                in held.shop.run(who, "create", "-f", "-", manifest=again).err
            ),
            10,
            "the policies see the next hold",
        )

    def test_a_review_is_never_changed(self, held: Court) -> None:
        review = held.review(held.reviewer()).json["metadata"]["name"]
        patch = '{"spec": {"reason": "another reason"}}'
        answer = held.shop.run(held.shop.admin, "patch", "gatereview", review, "--type=merge", "-p", patch)
        refused(answer, IMMUTABLE_REVIEW)

    def test_in_a_namespace_without_rollouts_there_is_nothing_to_review(self, shop: Shop) -> None:
        court = Court(shop, OTHER_UID)
        answer = court.review(court.reviewer())
        assert not answer.ok, "a review in a namespace without a Rollout went through"

    def test_a_review_of_no_rollout_is_left_to_the_operator_where_others_exist(self, held: Court) -> None:
        """Known: the policy reads the Rollouts that exist, so one of another name is not its business."""
        allowed(held.review(held.reviewer(), rollout="cart"))


class TestOrders:
    """P9: an order is signed by the one who gives it, who must hold `operate`."""

    @pytest.mark.parametrize("order", ["Retry", "Abort"])
    def test_an_order_that_is_right_in_all_parts_goes_through(self, court: Court, order: str) -> None:
        allowed(court.order(court.reviewer(), order=order))

    def test_nobody_signs_for_somebody_else(self, court: Court) -> None:
        answer = court.order(court.reviewer(), orderedBy="reviewer-b")
        refused(
            answer, "spec.orderedBy is reviewer-b, but you are reviewer-a. Nobody signs for somebody else."
        )

    def test_groups_are_those_that_the_api_server_sees(self, court: Court) -> None:
        answer = court.order(court.reviewer(), groups=["sre"])
        refused(answer, "spec.groups are not the groups that the API server sees you in.")

    def test_without_the_verb_operate_it_is_refused(self, court: Court) -> None:
        answer = court.order(
            court.shop.person("reviewer-c", rules=[ORDER, verb("approve")]), orderedBy="reviewer-c"
        )
        where = f"rollout checkout in {court.shop.namespace}"
        refused(answer, f"reviewer-c may not order Retry for {where}: the verb operate")

    def test_an_order_for_an_earlier_rollout_of_the_same_name_is_refused(self, court: Court) -> None:
        answer = court.order(court.reviewer(), rolloutUID=OTHER_UID)
        refused(answer, "This order is for another Rollout of the same name.")

    def test_an_order_is_never_changed(self, court: Court) -> None:
        name = court.order(court.reviewer()).json["metadata"]["name"]
        patch = '{"spec": {"reason": "another reason"}}'
        answer = court.shop.run(court.shop.admin, "patch", "gateorder", name, "--type=merge", "-p", patch)
        refused(answer, IMMUTABLE_ORDER)


class TestStatus:
    """P10: status is a report. Nobody but the operator writes it, whatever rights RBAC gives."""

    SENTENCE = "Status is a report: only the operator writes it. Orders are GateReview and GateOrder objects."

    @pytest.mark.parametrize("patch", ['{"status": {"phase": "Promoting"}}', '{"status": {"hold": null}}'])
    def test_a_rollouts_status_is_not_written_by_a_cluster_admin(self, held: Court, patch: str) -> None:
        write = [
            "patch",
            "rollouts.gatewright.dev",
            "checkout",
            "--subresource=status",
            "--type=merge",
            "-p",
            patch,
        ]
        refused(held.shop.run(held.shop.admin, *write), self.SENTENCE)

    def test_a_reviews_outcome_is_not_written_by_its_author(self, held: Court) -> None:
        status = {
            "apiGroups": ["gatewright.dev"],
            "resources": ["gatereviews/status"],
            "verbs": ["get", "patch"],
        }
        who = held.shop.person(
            "reviewer-a", roles=("gatewright-reviewer",), rules=[status], groups=("payments",)
        )
        review = held.review(who).json["metadata"]["name"]
        patch = '{"status": {"outcome": "Accepted"}}'
        write = ["patch", "gatereview", review, "--subresource=status", "--type=merge", "-p", patch]
        refused(held.shop.run(who, *write), self.SENTENCE)

    def test_status_in_the_body_of_a_create_is_dropped(self, shop: Shop) -> None:
        body = rollout() | {"status": {"phase": "Promoting"}}
        made = shop.run(shop.admin, "create", "-o", "json", "-f", "-", manifest=body).json
        assert made.get("status", {}).get("phase") != "Promoting"

    def test_a_gate_run_is_never_changed(self, shop: Shop) -> None:
        """Not even by the operator: what is judged is fixed when it begins."""
        shop.operator("create", "-f", "-", manifest=gate_run())
        patch = ["patch", "gaterun", "run-1", "--type=merge", "-p", '{"spec": {"weight": 50}}']
        sentence = "A GateRun can't be changed: what is judged is fixed when it begins."
        refused(shop.run(shop.admin, "--as", OPERATOR, *patch), sentence)

    def test_a_gate_runs_verdict_is_not_written_by_a_cluster_admin(self, shop: Shop) -> None:
        shop.operator("create", "-f", "-", manifest=gate_run())
        write = ["patch", "gaterun", "run-1", "--subresource=status", "--type=merge"]
        refused(shop.run(shop.admin, *write, "-p", '{"status": {"phase": "Decided"}}'), self.SENTENCE)
        shop.operator(*write, "-p", '{"status": {"phase": "Decided"}}')


def gate_run() -> Manifest:
    """A GateRun as the operator makes one."""
    start = "2030-01-01T00:00:00Z"
    clock = {"startsAt": start, "weightAt": start} | dict.fromkeys(
        ("duration", "maxDuration", "window", "interval"), "1m"
    )
    return {
        "apiVersion": "gatewright.dev/v1alpha1",
        "kind": "GateRun",
        "metadata": {"name": "run-1"},
        "spec": {
            "rollout": "checkout",
            "rolloutUID": OTHER_UID,
            "revision": REVISION,
            "step": "1",
            "weight": 5,
            "attempt": 1,
            "stage": "Canary",
            "contract": "checkout",
            "contractGeneration": 1,
            "contractDigest": DIGEST,
            "worldSnapshot": DIGEST,
            "checks": ["http-success"],
            "clock": clock,
            "canary": {"podPrefix": "checkout-canary-"},
            "eProcesses": 1,
        },
    }
