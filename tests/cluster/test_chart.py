"""The chart as a whole: what the API server thinks of its policies, and which rights it gives to whom."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import Instance
from tests.cluster.support import OPERATOR, OPERATOR_NAMESPACE, eventually, kubectl

pytestmark = pytest.mark.cluster

PERSON = "reviewer-a"


def may(cluster: Instance, who: str, verb: str, what: str, namespace: str) -> bool:
    """Whether RBAC lets `who` do `verb` on `what` (`resource.group[/name]`) in `namespace`."""
    return kubectl(["auth", "can-i", verb, what, "-n", namespace, "--as", who], cluster.kubeconfig).ok


def test_no_policy_has_an_expression_that_the_api_server_warns_of(cluster: Instance) -> None:
    def checked() -> list[dict[str, Any]]:
        answer = kubectl(["get", "validatingadmissionpolicies", "-o", "json"], cluster.kubeconfig)
        found = answer.json["items"]
        ours = [policy for policy in found if policy["metadata"]["name"].startswith("gatewright-")]
        assert ours, "the chart's validating policies are missing"
        assert all("typeChecking" in policy.get("status", {}) for policy in ours), "not all are checked yet"
        return ours

    for policy in eventually(checked, 20, "the API server has type-checked the policies"):
        assert policy["status"]["typeChecking"] == {}, policy


def test_every_policy_is_bound(cluster: Instance) -> None:
    for kind in ("validatingadmissionpolicy", "mutatingadmissionpolicy"):
        policies = kubectl(["get", kind, "-o", "name"], cluster.kubeconfig).out.split()
        bindings = kubectl(["get", f"{kind}binding", "-o", "json"], cluster.kubeconfig).json["items"]
        bound = {binding["spec"]["policyName"] for binding in bindings}
        ours = {name.partition("/")[2] for name in policies if "gatewright-" in name}
        assert ours, f"the chart has no {kind}"
        assert ours <= bound, f"policies without a binding do nothing: {ours - bound}"


def test_the_kinds_outlive_an_uninstall(cluster: Instance) -> None:
    crds = kubectl(["get", "crd", "-o", "json"], cluster.kubeconfig).json["items"]
    ours = [crd for crd in crds if crd["spec"]["group"] == "gatewright.dev"]
    assert len(ours) == 6
    for crd in ours:
        policy = crd["metadata"].get("annotations", {}).get("helm.sh/resource-policy")
        assert policy == "keep", f"an uninstall would delete all objects of {crd['metadata']['name']}"


class TestTheOperatorsRights:
    @pytest.mark.parametrize(
        ("verb", "what"),
        [
            ("watch", "rollouts.gatewright.dev"),
            ("patch", "rollouts.gatewright.dev/status"),
            ("create", "gateruns.gatewright.dev"),
            ("update", "deployments.apps"),
            ("delete", "replicasets.apps"),
            ("update", "httproutes.gateway.networking.k8s.io"),
            ("update", "services"),
            ("create", "configmaps"),
            ("create", "subjectaccessreviews.authorization.k8s.io"),
            ("create", "events"),
            ("create", "jobs.batch"),
            ("get", "cronjobs.batch"),
        ],
    )
    def test_it_may_do_its_work_in_every_namespace(self, cluster: Instance, verb: str, what: str) -> None:
        assert may(cluster, OPERATOR, verb, what, "default")

    @pytest.mark.parametrize(
        ("verb", "what"),
        [
            ("get", "secrets"),
            ("create", "gatereviews.gatewright.dev"),
            ("create", "gateorders.gatewright.dev"),
            ("approve", "rollouts.gatewright.dev/checkout"),
            ("update", "gatecontracts.gatewright.dev"),
            ("delete", "configmaps"),
            ("create", "pods"),
            ("delete", "jobs.batch"),
            ("create", "cronjobs.batch"),
            ("update", "leases.coordination.k8s.io"),
            ("delete", "validatingadmissionpolicies.admissionregistration.k8s.io"),
        ],
    )
    def test_it_may_not_do_what_is_not_its_work(self, cluster: Instance, verb: str, what: str) -> None:
        assert not may(cluster, OPERATOR, verb, what, "default")

    def test_it_reads_secrets_and_keeps_its_lease_in_its_own_namespace(self, cluster: Instance) -> None:
        assert may(cluster, OPERATOR, "get", "secrets", OPERATOR_NAMESPACE)
        assert may(cluster, OPERATOR, "update", "leases.coordination.k8s.io", OPERATOR_NAMESPACE)
        assert not may(cluster, OPERATOR, "list", "secrets", OPERATOR_NAMESPACE)


class TestPeoplesRights:
    @pytest.mark.parametrize(
        ("role", "can", "cannot"),
        [
            ("view", {"get rollouts", "list gatereviews"}, {"create gatereviews", "approve rollouts"}),
            ("edit", {"get rollouts"}, {"create rollouts", "update gatecontracts", "approve rollouts"}),
            (
                "gatewright-reviewer",
                {"approve rollouts", "operate rollouts", "create gatereviews", "create gateorders"},
                {"override rollouts", "update rollouts", "update gatecontracts", "update gatereviews"},
            ),
            (
                "gatewright-override",
                {"override rollouts", "create gateorders"},
                {"approve rollouts", "operate rollouts"},
            ),
            (
                "gatewright-author",
                {"create rollouts", "update gatecontracts"},
                {"approve rollouts", "create gatereviews", "override rollouts"},
            ),
        ],
    )
    def test_a_role_gives_what_it_says_and_no_more(
        self,
        cluster: Instance,
        namespace: str,
        as_user: Callable[..., Path],
        role: str,
        can: set[str],
        cannot: set[str],
    ) -> None:
        as_user(PERSON, roles=(role,))

        def holds(right: str) -> bool:
            verb, _, resource = right.partition(" ")
            return may(cluster, PERSON, verb, f"{resource}.gatewright.dev", namespace)

        # Aggregated roles (view, edit) are filled by a controller, a moment after the chart is there.
        eventually(lambda: all(map(holds, can)), 20, f"{role} may {sorted(can)}")
        assert not [right for right in sorted(cannot) if holds(right)]


def test_the_operators_deployment_is_accepted_as_the_chart_renders_it(cluster: Instance) -> None:
    """A trial run at the API server: names, probes, security context."""
    chart = Path(__file__).resolve().parents[2] / "charts" / "gatewright"
    command: list[str | Path] = [
        *(cluster.program("helm"), "template", "gatewright", chart, "-n", OPERATOR_NAMESPACE),
        *("--kube-version", "1.36.3", "--show-only", "templates/operator.yaml"),
    ]
    rendered = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    deployment = yaml.safe_load(rendered)
    answer = kubectl(["create", "--dry-run=server", "-f", "-"], cluster.kubeconfig, manifest=deployment)
    assert answer.ok, answer.err
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "gatewright"
