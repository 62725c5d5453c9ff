"""Policy P9 of the chart holds however a decision is written: in a batch, by a generated name, by server-side apply, under
another's name, or with a machine's token.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devcluster import Instance
from tests.cluster.court import MACHINE, REVIEW, RULES, Court, groups_of, hold_court, make_court, verb
from tests.cluster.shop import Shop, allowed, refused
from tests.cluster.support import Manifest, apply, eventually, kubectl, rest

pytestmark = pytest.mark.cluster

NOBODY_SIGNS = "spec.reviewer is reviewer-b, but you are reviewer-a. Nobody signs for somebody else."
IMMUTABLE = "A review can't be changed: create another."
APPLY = {"apiGroups": ["gatewright.dev"], "resources": ["gatereviews"], "verbs": ["create", "patch"]}


@pytest.fixture
def held(shop: Shop) -> Court:
    return hold_court(make_court(shop))


def reviews(held: Court) -> set[str]:
    path = f"/apis/gatewright.dev/v1alpha1/namespaces/{held.shop.namespace}/gatereviews"
    return {item["metadata"]["name"] for item in rest(held.shop.admin, "GET", path)["items"]}


class TestBatches:
    def test_one_forged_review_among_good_ones_is_refused_and_the_good_ones_are_not(
        self, held: Court
    ) -> None:
        who = held.reviewer()
        bodies = [
            held.review_of(who, "good-one"),
            held.review_of(who, "forged", reviewer="reviewer-b"),
            held.review_of(who, "good-two"),
        ]
        refused(held.create(who, *bodies), NOBODY_SIGNS)
        assert {"good-one", "good-two"} <= reviews(held)
        assert "forged" not in reviews(held)

    def test_so_is_one_in_a_list_object(self, held: Court) -> None:
        who = held.reviewer()
        items = [held.review_of(who, "good"), held.review_of(who, "forged", reviewer="reviewer-b")]
        batch = {"apiVersion": "v1", "kind": "List", "items": items}
        refused(held.create(who, batch), NOBODY_SIGNS)
        assert "forged" not in reviews(held)

    def test_a_collection_takes_no_batch_at_all(self, held: Court) -> None:
        """The API has no bulk create; a list posted to the collection is no GateReview."""
        who = held.reviewer()
        path = f"/apis/gatewright.dev/v1alpha1/namespaces/{held.shop.namespace}/gatereviews"
        items = [held.review_of(who, "forged", reviewer="reviewer-b")]
        body = {"apiVersion": "gatewright.dev/v1alpha1", "kind": "GateReviewList", "items": items}
        answer = kubectl(["create", "--raw", path, "-f", "-"], who, manifest=body)
        assert not answer.ok, answer.out
        assert "forged" not in reviews(held)


@pytest.mark.parametrize("name", ["", "chosen"], ids=["generated", "chosen"])
def test_the_rules_do_not_depend_on_who_gives_the_name(held: Court, name: str) -> None:
    who = held.reviewer()
    refused(held.create(who, held.review_of(who, name, reviewer="reviewer-b")), NOBODY_SIGNS)
    allowed(held.create(who, held.review_of(who, name)))


class TestServerSideApply:
    def person(self, held: Court, name: str = "reviewer-a") -> Path:
        return held.shop.person(name, rules=[APPLY, verb("approve")])

    def apply(self, held: Court, who: Path, body: Manifest) -> Any:
        return apply(body, who, "-n", held.shop.namespace)

    def test_a_forged_reviewer_is_refused(self, held: Court) -> None:
        who = self.person(held)
        refused(self.apply(held, who, held.review_of(who, "applied", reviewer="reviewer-b")), NOBODY_SIGNS)

    def test_an_expiry_in_the_past_is_refused_though_the_body_gives_a_creation_time(
        self, held: Court
    ) -> None:
        who = self.person(held)
        body = held.review_of(who, "applied", expiresAt="2020-01-01T00:00:00Z")
        body["metadata"]["creationTimestamp"] = "2019-12-31T00:00:00Z"
        refused(self.apply(held, who, body), "spec.expiresAt 2020-01-01T00:00:00Z has passed.")

    def test_one_that_is_right_in_all_parts_goes_through_and_is_never_changed(self, held: Court) -> None:
        who = self.person(held)
        body = held.review_of(who, "applied")
        allowed(self.apply(held, who, body))
        body["spec"]["reason"] = "Something else, thought of later."
        refused(self.apply(held, who, body), IMMUTABLE)

    def test_nobody_takes_another_persons_review_over(self, held: Court) -> None:
        who, other = self.person(held), self.person(held, "reviewer-c")
        body = held.review_of(who, "applied")
        allowed(self.apply(held, who, body))
        body["spec"]["reviewer"] = "reviewer-c"
        answer = apply(body, other, "-n", held.shop.namespace, "--force-conflicts")
        refused(answer, IMMUTABLE)


class TestImpersonation:
    def test_who_may_impersonate_is_that_person_for_the_api_server(self, held: Court) -> None:
        """A cluster-admin may: the audit log has both names, a review has the one that was acted under."""
        held.reviewer()
        body = held.review_of(held.shop.admin, "acted", groups=["payments", "system:authenticated"])
        args = ["-n", held.shop.namespace, "--as=reviewer-a", "--as-group=payments", "create", "-f", "-"]
        allowed(kubectl(args, held.shop.admin, manifest=body))

    def test_and_meets_the_rules_of_that_person(self, held: Court) -> None:
        body = held.review_of(held.shop.admin, "acted", reviewer="developer", groups=["system:authenticated"])
        args = ["-n", held.shop.namespace, "--as=developer", "create", "-f", "-"]
        held.shop.person("developer", rules=[REVIEW, verb("approve")])
        refused(kubectl(args, held.shop.admin, manifest=body), "developer started this change")
        groups = ["system:authenticated"]
        body = held.review_of(held.shop.admin, "acted", decision="RequestChanges", groups=groups)
        refused(
            kubectl(args, held.shop.admin, manifest=body),
            "you are developer. Nobody signs for somebody else.",
        )

    def test_who_may_not_impersonate_does_not_become_a_reviewer_by_it(self, held: Court) -> None:
        who = held.shop.person("developer", roles=("edit",))
        body = held.review_of(who, "acted", groups=["system:authenticated"])
        args = ["-n", held.shop.namespace, "--as=reviewer-a", "create", "--validate=false", "-f", "-"]
        refused(kubectl(args, who, manifest=body), 'User "developer" cannot impersonate')


class TestMachines:
    """A service account decides only where the contract lists it."""

    @pytest.fixture
    def machine(self, cluster: Instance, held: Court, as_user: Callable[..., Path]) -> Path:
        namespace, group = held.shop.namespace, "rbac.authorization.k8s.io"
        rest(
            held.shop.admin,
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts",
            {"metadata": {"name": MACHINE}},
        )
        binding = {
            "metadata": {"name": MACHINE},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "gatewright-reviewer"},
            "subjects": [{"kind": "ServiceAccount", "name": MACHINE, "namespace": namespace}],
        }
        rest(held.shop.admin, "POST", f"/apis/{group}/v1/namespaces/{namespace}/rolebindings", binding)
        return cluster.service_account_kubeconfig(namespace, MACHINE)

    def user(self, held: Court) -> str:
        return f"system:serviceaccount:{held.shop.namespace}:{MACHINE}"

    def refusal(self, held: Court) -> str:
        return (
            f"The contract of rollout checkout does not let {self.user(held)} decide: "
            "a person has to, or hold.serviceAccounts has to list it."
        )

    @pytest.mark.parametrize("decision", ["Approve", "RequestChanges", "Reject"])
    def test_one_that_is_not_listed_reviews_nothing(self, held: Court, machine: Path, decision: str) -> None:
        answer = held.review(machine, reviewer=self.user(held), decision=decision)
        refused(answer, self.refusal(held))

    def test_nor_does_it_order(self, held: Court, machine: Path) -> None:
        refused(held.order(machine, orderedBy=self.user(held)), self.refusal(held))

    def test_one_that_is_listed_does_both(self, held: Court, machine: Path) -> None:
        held.report(decisions=RULES | {"serviceAccounts": [self.user(held)]})
        eventually(lambda: held.order(machine, orderedBy=self.user(held)).ok, 20, "the policies see the list")
        eventually(lambda: held.review(machine, reviewer=self.user(held)).ok, 20, "the policies see the list")

    def test_the_list_names_the_account_of_one_namespace(self, held: Court, machine: Path) -> None:
        held.report(decisions=RULES | {"serviceAccounts": [f"system:serviceaccount:elsewhere:{MACHINE}"]})
        refused(held.order(machine, orderedBy=self.user(held)), self.refusal(held))

    def test_it_signs_for_no_person(self, held: Court, machine: Path) -> None:
        # One that is not listed is refused for that as well, and either sentence may come first.
        held.report(decisions=RULES | {"serviceAccounts": [self.user(held)]})
        eventually(lambda: held.order(machine, orderedBy=self.user(held)).ok, 20, "the policies see the list")
        answer = held.review(machine, groups=groups_of(machine))
        refused(answer, f"spec.reviewer is reviewer-a, but you are {self.user(held)}.")
