"""Policy P10 of the chart: status is a report, and only the operator reports."""

import pytest

from tests.cluster.court import DIGEST, OTHER_UID, REVISION, Court, hold_court, make_court
from tests.cluster.shop import Shop, refused, rollout
from tests.cluster.support import OPERATOR, Manifest

pytestmark = pytest.mark.cluster


@pytest.fixture
def held(shop: Shop) -> Court:
    return hold_court(make_court(shop))


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
