"""What people decide about a release, as objects written straight to the API server."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.checkout import in_hours
from tests.cluster.objects import Objects
from tests.cluster.support import Answer, eventually, kubectl


@dataclass
class Decisions(Objects):
    """Reviews and orders for the Rollout `checkout` of a namespace, and what becomes of them."""

    host: str
    developer: Path

    @property
    def rollout(self) -> Any:
        return self.get("rollouts.gatewright.dev", "checkout")

    @property
    def status(self) -> Any:
        return self.rollout.get("status", {})

    def answer(self, kind: str, written: Answer) -> Any:
        """Waits for what the operator says to a review or an order, as `review` or `order` wrote it."""
        name = written.json["metadata"]["name"]

        def answered() -> Any:
            status = self.get(kind, name).get("status") or {}
            return status if status.get("outcome") else None

        return eventually(answered, 60, f"{name} is answered")

    def review(
        self, decision: str, *, who: Path, reason: str = "looked at the dashboards", **over: Any
    ) -> Answer:
        """A GateReview on what is held now, straight to the API server."""
        hold, whoami = (
            self.status["hold"],
            kubectl(["auth", "whoami", "-o", "json"], who).json["status"]["userInfo"],
        )
        spec = {
            "rollout": "checkout",
            "rolloutUID": self.rollout["metadata"]["uid"],
            "run": hold["run"],
            "revision": self.status["canary"]["revision"],
            "step": hold["step"],
            "evidenceDigest": hold["evidenceDigest"],
            "decision": decision,
            "reviewer": whoami["username"],
            "groups": whoami["groups"],
            "reason": reason,
            **(
                {
                    "expiresAt": in_hours(24),
                    "worldSnapshot": hold.get("worldSnapshot"),
                    "checks": hold.get("blocking") or [],
                }
                if decision == "Approve"
                else {}
            ),
            **over,
        }
        body = {
            "apiVersion": "gatewright.dev/v1alpha1",
            "kind": "GateReview",
            "metadata": {"generateName": "checkout-"},
            "spec": spec,
        }
        return self.kubectl("create", "-f", "-", "-o", "json", who=who, manifest=body)

    def order(
        self, order: str, *, who: Path | None = None, revision: str | None = None, **over: Any
    ) -> Answer:
        """A GateOrder, straight to the API server; `over` are further fields of its spec, or others."""
        who = who or self.developer
        whoami = kubectl(["auth", "whoami", "-o", "json"], who).json["status"]["userInfo"]
        status = self.status
        at_hand = (status.get("canary") or status.get("rejected") or {}).get("revision")
        body = {
            "apiVersion": "gatewright.dev/v1alpha1",
            "kind": "GateOrder",
            "metadata": {"generateName": "checkout-"},
            "spec": {
                "rollout": "checkout",
                "rolloutUID": self.rollout["metadata"]["uid"],
                "revision": revision or at_hand,
                "order": order,
                "orderedBy": whoami["username"],
                "groups": whoami["groups"],
                "reason": f"{order} for the test",
                **over,
            },
        }
        return self.kubectl("create", "-f", "-", "-o", "json", who=who, manifest=body)
