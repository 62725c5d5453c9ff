"""Policy P9 of the chart, reviews: who may decide, about what, until when.

On a real API server, by people with and without the rights. No operator runs: the tests write the status of
the Rollout themselves, under its user name.
"""

import pytest

from tests.cluster.court import (
    CHECKS,
    DIGEST,
    OTHER_DIGEST,
    OTHER_UID,
    OTHER_WORLD,
    REVIEW,
    REVISION,
    RULES,
    WORLD,
    Court,
    hold,
    hold_court,
    in_minutes,
    make_court,
    verb,
)
from tests.cluster.shop import Shop, allowed, refused
from tests.cluster.support import eventually

pytestmark = pytest.mark.cluster

IMMUTABLE = "A review can't be changed: create another."
NO_APPROVE = "the verb approve on rollouts.gatewright.dev is missing."


@pytest.fixture
def court(shop: Shop) -> Court:
    return make_court(shop)


@pytest.fixture
def held(court: Court) -> Court:
    return hold_court(court)


class TestReviews:
    """P9: a decision is signed by the one who takes it, who may, for what is held now."""

    def test_an_approval_that_is_right_in_all_parts_goes_through(self, held: Court) -> None:
        allowed(held.review(held.reviewer()))

    @pytest.mark.parametrize("decision", ["RequestChanges", "Reject"])
    def test_the_other_decisions_need_no_expiry(self, held: Court, decision: str) -> None:
        allowed(held.review(held.reviewer(), decision=decision))

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
        allowed(held.review(who, reviewer="sre-1", decision="Reject"))
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
        body = held.review_of(who, reason="back-dated by its author", expiresAt="2020-01-01T00:00:00Z")
        body["metadata"]["creationTimestamp"] = "2019-12-31T00:00:00Z"
        refused(held.create(who, body), "spec.expiresAt 2020-01-01T00:00:00Z has passed.")

    @pytest.mark.parametrize(
        ("changes", "sentence"),
        [
            (
                {"run": "run-0"},
                "What is held now is run run-1. Look at it with: kubectl gate review checkout",
            ),
            (
                {"step": "3"},
                "What is held now is step 1, not 3. Look at it with: kubectl gate review checkout",
            ),
            (
                {"evidenceDigest": OTHER_DIGEST},
                f"What is held now is run run-1, and its evidence is {DIGEST}, not what you have seen.",
            ),
            (
                {"worldSnapshot": OTHER_WORLD},
                f"What is held now was judged in the world {WORLD}, not in {OTHER_WORLD}.",
            ),
            (
                {"revision": "9876543210"},
                f"What is held now is revision {REVISION}, not 9876543210.",
            ),
            ({"rolloutUID": OTHER_UID}, "This review is for another Rollout of the same name."),
        ],
        ids=[
            "an old run",
            "another step",
            "other evidence",
            "another world",
            "another revision",
            "another UID",
        ],
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
        allowed(held.review(held.reviewer("developer"), reviewer="developer", decision="Reject"))

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
        refused(answer, IMMUTABLE)

    def test_in_a_namespace_without_rollouts_there_is_nothing_to_review(self, shop: Shop) -> None:
        court = Court(shop, OTHER_UID)
        answer = court.review(court.reviewer())
        assert not answer.ok, "a review in a namespace without a Rollout went through"

    def test_a_review_of_no_rollout_is_left_to_the_operator_where_others_exist(self, held: Court) -> None:
        """Known: the policy reads the Rollouts that exist, so one of another name is not its business."""
        allowed(held.review(held.reviewer(), rollout="cart"))

    @pytest.mark.parametrize("reason", ["", "ok", " looks ok "])
    def test_a_reason_has_ten_characters_and_none_is_made_up(self, held: Court, reason: str) -> None:
        answer = held.review(held.reviewer(), reason=reason or None)
        refused(answer, "Say why, in at least 10 characters" if reason else "spec.reason: Required value")

    def test_whoever_is_bound_to_wildcard_verbs_may_approve(self, held: Court) -> None:
        """So does a cluster-admin, in his own name."""
        rule = {"apiGroups": ["gatewright.dev"], "resources": ["*"], "verbs": ["*"]}
        who = held.shop.person("reviewer-c", rules=[rule])
        allowed(held.review(who, reviewer="reviewer-c"))

    def test_a_review_of_a_deleted_rollout_is_not_replayed_on_one_of_the_same_name(self, held: Court) -> None:
        who = held.reviewer()
        old = held.review_of(who)
        allowed(held.create(who, old))
        held.shop.run(held.shop.admin, "delete", "rollouts.gatewright.dev", "checkout")
        again = hold_court(make_court(held.shop))
        assert again.uid != held.uid
        refused(again.create(who, old), "This review is for another Rollout of the same name.")


class TestWaivers:
    """P9: an approval waives what blocks now, all of it and no more, for as long as the contract allows."""

    @pytest.mark.parametrize("checks", [CHECKS[:1], [*CHECKS, "errors-5xx"], ["errors-5xx"]])
    def test_the_checks_are_exactly_those_that_block(self, held: Court, checks: list[str]) -> None:
        refused(
            held.review(held.reviewer(), checks=checks),
            f"An approval names exactly the checks that block: http-success, latency, not {', '.join(checks)}."
            " Look at it with: kubectl gate review checkout",
        )

    def test_their_order_does_not_matter(self, held: Court) -> None:
        allowed(held.review(held.reviewer(), checks=CHECKS[::-1]))

    @pytest.mark.parametrize("left_out", ["worldSnapshot", "checks", "expiresAt"])
    def test_what_an_approval_needs_is_not_left_out(self, held: Court, left_out: str) -> None:
        sentence = (
            "An approval is a waiver and needs expiresAt, the time at which it ends."
            if left_out == "expiresAt"
            else "An approval names what it waives: worldSnapshot and checks, as they stand in the Rollout's status.hold."
        )
        refused(held.review(held.reviewer(), **{left_out: None}), sentence)

    @pytest.mark.parametrize("through", ["1", "3", "Remaining"])
    def test_a_span_reaches_from_the_held_step_on(self, held: Court, through: str) -> None:
        allowed(held.review(held.reviewer(), through=through))

    def test_a_span_does_not_end_before_the_held_step(self, held: Court) -> None:
        refused(
            held.review(held.reviewer(), through="0"),
            "The waiver would end with step 0, before what is held now, step 1. Leave through out, or name a later step.",
        )

    def test_from_the_bake_a_span_reaches_nowhere_but_to_the_end(self, court: Court) -> None:
        held = hold_court(court, step="bake")
        who = held.reviewer()
        refused(held.review(who, step="bake", through="5"), "before what is held now, the bake.")
        allowed(held.review(who, step="bake", through="Remaining"))

    def test_only_an_approval_has_a_span(self, held: Court) -> None:
        answer = held.review(held.reviewer(), decision="Reject", through="Remaining")
        refused(answer, "through says how far a waiver reaches; only an approval is one.")

    def test_a_hold_without_a_verdict_has_nothing_to_waive(self, court: Court) -> None:
        held = hold_court(court, blocking=[])
        sentence = "There is no verdict to waive in this hold: see kubectl gate retry checkout and kubectl gate abort checkout."
        refused(held.review(held.reviewer()), sentence)

    def test_a_waiver_lasts_as_long_as_the_contract_allows(self, held: Court) -> None:
        who = held.reviewer()
        allowed(held.review(who, expiresAt=in_minutes(72 * 60 - 1)))
        end = in_minutes(72 * 60 + 1)
        refused(
            held.review(who, expiresAt=end),
            f"The contract allows waivers of 72h; this one would end at {end}. Approve again with a nearer end.",
        )

    def test_the_bound_is_that_of_the_contract_that_judged(self, held: Court) -> None:
        held.report(decisions=RULES | {"maxWaiver": "1h30m"})
        who = held.reviewer()
        sentence = "The contract allows waivers of 1h30m; this one would end at"
        eventually(
            lambda: sentence in held.review(who, expiresAt=in_minutes(100)).err, 20, "the bound is in force"
        )
        allowed(held.review(who, expiresAt=in_minutes(80)))

    def test_without_a_contract_that_can_be_read_nothing_is_waived(self, held: Court) -> None:
        held.report(decisions=None)
        who = held.reviewer()
        sentence = "The hold.maxWaiver of the contract cannot be read, so no waiver can be granted."
        eventually(lambda: sentence in held.review(who).err, 20, "the policies see it")
        allowed(held.review(who, decision="Reject"))
