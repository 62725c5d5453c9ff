"""Policies P1 to P6 and P8, rule by rule: what may be written to a gated Deployment and to a ledger.

On a real API server, by people with and without the rights. No operator runs: the tests write its marks
themselves, under its user name. Decisions and orders of people are in `test_policies_decisions.py`.
"""

import pytest

from tests.cluster.shop import Shop, allowed, deployment, refused, rollout
from tests.cluster.support import Manifest, eventually

pytestmark = pytest.mark.cluster

DEPLOYMENT_CONTROLLER = "system:serviceaccount:kube-system:deployment-controller"
HELD = "This Deployment is held by Gatewright until its verdict."
STAMP = "gatewright.dev/changed-by is written by the API server when the template changes"
MARKS = "The marks gatewright.dev/decision, in-flight and pinned are the operator's."
OVERRIDE = ("edit", "gatewright-override")


class TestANewTemplate:
    """P1 and P2: whoever changes the template leaves the Deployment paused and stamped."""

    def test_set_image_is_held_and_stamped_with_the_name_of_its_writer(self, gated: Shop) -> None:
        allowed(gated.set_image(gated.developer(), "v2"))
        assert gated.image() == "shop/checkout:v2"
        assert gated.paused()
        assert gated.annotation("changed-by") == "developer"

    def test_replace_that_says_paused_false_is_held_all_the_same(self, gated: Shop) -> None:
        body = deployment("shop/checkout:v2", paused=False)
        allowed(gated.replace(gated.developer(), body))
        assert gated.paused()
        assert gated.annotation("changed-by") == "developer"

    def test_replace_without_our_label_is_held_and_the_label_comes_back(self, gated: Shop) -> None:
        allowed(gated.replace(gated.developer(), deployment("shop/checkout:v2")))
        assert gated.label() == "true"
        assert gated.paused()

    def test_server_side_apply_with_force_that_says_paused_false_is_held(self, gated: Shop) -> None:
        body = deployment("shop/checkout:v2", paused=False)
        sync = ["apply", "--server-side", "--field-manager=gitops", "--force-conflicts", "-f", "-"]
        allowed(gated.run(gated.developer(), *sync, manifest=body))
        assert gated.paused()
        assert gated.annotation("changed-by") == "developer"

    def test_a_stamp_forged_in_the_same_body_is_overwritten_with_the_true_name(self, gated: Shop) -> None:
        body = deployment("shop/checkout:v2")
        body["metadata"]["annotations"] = {"gatewright.dev/changed-by": "somebody-else"}
        allowed(gated.replace(gated.developer(), body))
        assert gated.annotation("changed-by") == "developer"

    def test_a_second_writer_takes_the_stamp_over(self, gated: Shop) -> None:
        allowed(gated.set_image(gated.developer(), "v2"))
        allowed(gated.set_image(gated.developer("other"), "v3"))
        assert gated.annotation("changed-by") == "other"

    def test_the_right_to_override_does_not_let_a_new_template_through(self, gated: Shop) -> None:
        who = gated.person("sre-1", roles=OVERRIDE)
        allowed(gated.replace(who, deployment("shop/checkout:v2", paused=False)))
        assert gated.paused()

    def test_the_operator_changes_the_template_without_pause_and_without_stamp(self, gated: Shop) -> None:
        gated.operator("set", "image", "deployment/checkout", "app=shop/checkout:v2")
        assert not gated.paused()
        assert gated.annotation("changed-by") is None

    def test_a_deployment_that_is_not_gated_rolls_out_as_ever(self, shop: Shop) -> None:
        who = shop.developer()
        allowed(shop.run(who, "create", "-f", "-", manifest=deployment()))
        allowed(shop.set_image(who, "v2"))
        assert not shop.paused()
        assert shop.annotation("changed-by") is None

    def test_a_canary_deployment_is_not_held(self, shop: Shop) -> None:
        allowed(shop.run(shop.admin, "create", "-f", "-", manifest=deployment()))
        shop.operator("label", "deployment", "checkout", "gatewright.dev/gated=canary")
        allowed(shop.set_image(shop.admin, "v2"))
        assert not shop.paused()

    def test_when_the_holding_policy_is_gone_a_new_template_is_refused(self, gated: Shop) -> None:
        binding = "mutatingadmissionpolicybinding/gatewright-p1-hold-new-template"
        saved = gated.run(gated.admin, "get", binding, "-o", "json").json
        for key in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
            saved["metadata"].pop(key, None)
        who = gated.developer()
        change = ["set", "image", "deployment/checkout", "app=shop/checkout:v2", "--dry-run=server"]
        try:
            allowed(gated.run(gated.admin, "delete", binding))
            eventually(lambda: not gated.run(who, *change).ok, 20, "the policy stops holding")
            refused(
                gated.run(who, *change),
                "the policy that holds a new template did not run. Nothing was changed.",
            )
        finally:
            allowed(gated.run(gated.admin, "create", "-f", "-", manifest=saved))
            eventually(lambda: gated.run(who, *change).ok, 20, "the policy holds again")


class TestAHeldDeployment:
    """P1, P4: it stays held until its verdict."""

    def test_a_sync_that_carries_paused_false_along_leaves_it_held(self, gated: Shop) -> None:
        gated.hold()
        allowed(gated.replace(gated.developer(), deployment(paused=False)))
        assert gated.paused()

    def test_a_sync_without_our_label_leaves_it_labelled_and_changes_the_rest(self, gated: Shop) -> None:
        gated.hold()
        allowed(gated.replace(gated.developer(), deployment(revisionHistoryLimit=7)))
        assert gated.label() == "true"
        assert gated.deployment()["spec"]["revisionHistoryLimit"] == 7

    def test_rollout_resume_is_refused_with_our_verbs(self, gated: Shop) -> None:
        gated.hold()
        answer = gated.run(gated.developer(), "rollout", "resume", "deployment/checkout")
        refused(answer, f"{HELD} See 'kubectl gate review', 'kubectl gate approve' and 'kubectl gate abort'.")
        assert gated.paused()

    def test_rollout_resume_with_the_right_to_override_goes_through(self, gated: Shop) -> None:
        gated.hold()
        who = gated.person("sre-1", roles=OVERRIDE)
        allowed(gated.run(who, "rollout", "resume", "deployment/checkout"))
        assert not gated.paused()

    def test_the_operator_resumes(self, gated: Shop) -> None:
        gated.hold()
        gated.operator("patch", "deployment", "checkout", "-p", '{"spec": {"paused": false}}')
        assert not gated.paused()

    def test_scaling_goes_on(self, gated: Shop) -> None:
        gated.hold()
        allowed(
            gated.run(
                gated.developer(), "patch", "deployment", "checkout", "-p", '{"spec": {"minReadySeconds": 1}}'
            )
        )
        allowed(gated.run(gated.developer(), "scale", "deployment/checkout", "--replicas=0"))

    @pytest.mark.parametrize("roles", [("edit",), OVERRIDE], ids=["developer", "override"])
    def test_while_pinned_nobody_resumes(self, gated: Shop, roles: tuple[str, ...]) -> None:
        gated.hold()
        gated.mark(pinned="checkout")
        answer = gated.run(gated.person("sre-1", roles=roles), "rollout", "resume", "deployment/checkout")
        refused(answer, "The stable Service is pinned to the old version")
        assert gated.paused()

    def test_while_pinned_a_cluster_admin_does_not_resume_either(self, gated: Shop) -> None:
        gated.hold()
        gated.mark(pinned="checkout")
        refused(
            gated.run(gated.admin, "rollout", "resume", "deployment/checkout"), "The stable Service is pinned"
        )

    def test_who_may_override_takes_the_pin_off_and_then_resumes(self, gated: Shop) -> None:
        gated.hold()
        gated.mark(pinned="checkout")
        who = gated.person("sre-1", roles=OVERRIDE)
        allowed(gated.annotate(who, "gatewright.dev/pinned-"))
        allowed(gated.run(who, "rollout", "resume", "deployment/checkout"))
        assert not gated.paused()


class TestInFlight:
    """P3: while the operator's own rolling update runs, a new template is refused, not held."""

    def test_a_new_template_is_refused_for_the_moment(self, gated: Shop) -> None:
        gated.mark(in_flight="0123456789")
        answer = gated.set_image(gated.developer(), "v2")
        refused(answer, "Gatewright is rolling this Deployment out at this moment. Try again when it is done")
        assert gated.image() == "shop/checkout:v1"

    def test_a_write_that_leaves_the_template_passes(self, gated: Shop) -> None:
        gated.mark(in_flight="0123456789")
        allowed(gated.annotate(gated.developer(), "team=payments"))

    def test_the_operator_changes_the_template(self, gated: Shop) -> None:
        gated.mark(in_flight="0123456789")
        gated.operator("set", "image", "deployment/checkout", "app=shop/checkout:v1")


class TestMarks:
    """P5: the marks on the Deployment are the operator's and the API server's."""

    def test_the_stamp_is_not_written_by_hand(self, gated: Shop) -> None:
        answer = gated.run(
            gated.developer(), "annotate", "deployment", "checkout", "gatewright.dev/changed-by=other"
        )
        refused(answer, STAMP)

    def test_the_stamp_is_not_taken_off(self, gated: Shop) -> None:
        allowed(gated.set_image(gated.developer(), "v2"))
        answer = gated.run(
            gated.developer(), "annotate", "deployment", "checkout", "gatewright.dev/changed-by-"
        )
        refused(answer, STAMP)

    def test_the_stamp_is_not_written_through_status(self, gated: Shop) -> None:
        status = {
            "apiGroups": ["apps"],
            "resources": ["deployments/status"],
            "verbs": ["get", "patch", "update"],
        }
        who = gated.person("developer", roles=("edit",), rules=[status])
        patch = '{"metadata": {"annotations": {"gatewright.dev/changed-by": "other"}}}'
        answer = gated.run(who, "patch", "deployment", "checkout", "--subresource=status", "-p", patch)
        refused(answer, STAMP)

    @pytest.mark.parametrize(
        "subresource", [(), ("--subresource=status",)], ids=["directly", "through status"]
    )
    def test_who_started_a_change_does_not_put_another_name_on_it(
        self, gated: Shop, subresource: tuple[str, ...]
    ) -> None:
        """Neither with an annotation of theirs, nor through status, nor with the next template."""
        status = {
            "apiGroups": ["apps"],
            "resources": ["deployments/status"],
            "verbs": ["get", "patch", "update"],
        }
        who = gated.person("developer", roles=("edit",), rules=[status])
        allowed(gated.set_image(who, "v2"))
        patch = '{"metadata": {"annotations": {"gatewright.dev/changed-by": "other"}}}'
        refused(gated.run(who, "patch", "deployment", "checkout", *subresource, "-p", patch), STAMP)
        assert gated.annotation("changed-by") == "developer"
        body = deployment("shop/checkout:v3")
        body["metadata"]["annotations"] = {"gatewright.dev/changed-by": "other"}
        allowed(gated.replace(who, body))
        assert gated.annotation("changed-by") == "developer"

    @pytest.mark.parametrize("way", ["replace", "patch", "scale", "apply"])
    def test_a_write_of_another_that_leaves_the_template_leaves_the_stamp(
        self, gated: Shop, way: str
    ) -> None:
        """A colleague's sync does not make the change theirs, so that its author could approve it."""
        allowed(gated.set_image(gated.developer(), "v2"))
        other, same = gated.developer("other"), deployment("shop/checkout:v2")
        same["metadata"]["annotations"] = {"gatewright.dev/changed-by": "developer"}
        ways = {
            "replace": lambda: gated.replace(other, same),
            "patch": lambda: gated.run(other, "patch", "deployment", "checkout", "-p", '{"spec": {}}'),
            "scale": lambda: gated.run(other, "scale", "deployment/checkout", "--replicas=1"),
            "apply": lambda: gated.run(
                other,
                "apply",
                "--server-side",
                "--force-conflicts",
                "-f",
                "-",
                manifest=deployment("shop/checkout:v2"),
            ),
        }
        allowed(ways[way]())
        assert gated.annotation("changed-by") == "developer"

    @pytest.mark.parametrize("key", ["decision", "in-flight", "pinned"])
    def test_a_mark_of_the_operator_is_not_forged(self, gated: Shop, key: str) -> None:
        answer = gated.run(
            gated.developer(), "annotate", "deployment", "checkout", f"gatewright.dev/{key}=forged"
        )
        refused(answer, MARKS)

    @pytest.mark.parametrize("key", ["decision", "in-flight", "pinned"])
    def test_a_mark_of_the_operator_is_not_taken_off(self, gated: Shop, key: str) -> None:
        gated.mark(**{key: "real"})
        answer = gated.annotate(gated.developer(), f"gatewright.dev/{key}-")
        refused(answer, MARKS)

    def test_override_does_not_cover_the_decision(self, gated: Shop) -> None:
        who = gated.person("sre-1", roles=OVERRIDE)
        answer = gated.annotate(who, "gatewright.dev/decision=forged")
        refused(answer, MARKS)

    def test_the_deprecated_rollback_annotation_is_refused(self, gated: Shop) -> None:
        answer = gated.run(
            gated.developer(), "annotate", "deployment", "checkout", "deprecated.deployment.rollback.to=1"
        )
        refused(answer, "deprecated.deployment.rollback.to would change the template under another name.")

    def test_other_annotations_are_the_users_own(self, gated: Shop) -> None:
        allowed(gated.annotate(gated.developer(), "team=payments"))


class TestReplicaSets:
    """P6: the ReplicaSet controller would obey an edited template for the next pod."""

    EDIT = (
        '{"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "shop/checkout:evil"}]}}}}'
    )

    def replica_set(self, shop: Shop) -> str:
        def found() -> str:
            items = shop.run(shop.admin, "get", "replicasets", "-l", "app=checkout", "-o", "json").json[
                "items"
            ]
            return str(items[0]["metadata"]["name"]) if items else ""

        return eventually(found, 20, "the deployment controller makes a ReplicaSet")

    @pytest.fixture
    def named(self, gated: Shop) -> Shop:
        allowed(gated.run(gated.admin, "create", "-f", "-", manifest=rollout()))
        return gated

    def test_an_edited_template_is_refused(self, named: Shop) -> None:
        name = self.replica_set(named)
        # The policy learns of a new Rollout by watching, a moment later.
        eventually(
            lambda: not named.run(named.admin, "patch", "rs", name, "-p", self.EDIT, "--dry-run=server").ok,
            10,
            "the policy knows the Rollout",
        )
        answer = named.run(named.developer(), "patch", "rs", name, "-p", self.EDIT)
        refused(answer, "The ReplicaSets of a gated Deployment change only with the Deployment.")

    def test_the_deployment_controller_may(self, named: Shop) -> None:
        args = ["--as", DEPLOYMENT_CONTROLLER, "patch", "rs", self.replica_set(named), "-p", self.EDIT]
        allowed(named.run(named.admin, *args, "--dry-run=server"))

    def test_a_write_that_leaves_the_template_passes(self, named: Shop) -> None:
        allowed(named.run(named.developer(), "annotate", "rs", self.replica_set(named), "team=payments"))

    def test_a_replica_set_of_an_ungated_deployment_is_not_ours(self, shop: Shop) -> None:
        allowed(shop.run(shop.admin, "create", "-f", "-", manifest=deployment()))
        allowed(shop.run(shop.developer(), "patch", "rs", self.replica_set(shop), "-p", self.EDIT))


class TestLedger:
    """P8: written by the operator alone, and still no namespace hangs in Terminating."""

    SENTENCE = "The ledger is written by the operator alone."
    NAME = "checkout-ledger-0000"

    def segment(self) -> Manifest:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.NAME, "labels": {"gatewright.dev/ledger": "checkout"}},
            "data": {"000000": "{}"},
        }

    @pytest.fixture
    def kept(self, shop: Shop) -> Shop:
        shop.operator("create", "-f", "-", manifest=self.segment())
        return shop

    def test_nobody_else_creates_a_segment(self, shop: Shop) -> None:
        refused(shop.run(shop.developer(), "create", "-f", "-", manifest=self.segment()), self.SENTENCE)

    @pytest.mark.parametrize(
        "write",
        [
            ["patch", "configmap", NAME, "-p", '{"data": {"000000": "forged"}}'],
            ["label", "configmap", NAME, "gatewright.dev/ledger-"],
            ["delete", "configmap", NAME],
        ],
        ids=["patched", "unlabelled", "deleted"],
    )
    def test_nobody_else_changes_a_segment(self, kept: Shop, write: list[str]) -> None:
        refused(kept.run(kept.developer(), *write), self.SENTENCE)
        refused(kept.run(kept.admin, *write), self.SENTENCE)
        assert kept.run(kept.admin, "get", "configmap", self.NAME, "-o", "json").json["data"] == {
            "000000": "{}"
        }

    def test_the_operator_appends(self, kept: Shop) -> None:
        kept.operator("patch", "configmap", self.NAME, "-p", '{"data": {"000001": "{}"}}')

    def test_other_config_maps_are_free(self, kept: Shop) -> None:
        allowed(kept.run(kept.developer(), "create", "configmap", "settings", "--from-literal=a=b"))

    def test_a_namespace_with_a_ledger_goes_when_it_is_deleted(self, kept: Shop) -> None:
        allowed(kept.run(kept.admin, "delete", "namespace", kept.namespace, "--wait=false"))
        eventually(
            lambda: not kept.run(kept.admin, "get", "namespace", kept.namespace).ok,
            60,
            "the namespace is gone",
        )
