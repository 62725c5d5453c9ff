"""The stage of the tests of P9: a Rollout `checkout` that is held, and the means to decide on it.

No operator runs: the tests write the status of the Rollout themselves, under its user name.
"""

import functools
import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.cluster.shop import Shop, rollout
from tests.cluster.support import Answer, Manifest, eventually, kubectl, rest

DIGEST = f"sha256:{hashlib.sha256(b'evidence').hexdigest()}"
OTHER_DIGEST = f"sha256:{hashlib.sha256(b'other evidence').hexdigest()}"
OTHER_UID = "00000000-0000-0000-0000-000000000000"
REVISION = "0a1b2c3d4e"
WORLD = f"sha256:{hashlib.sha256(b'world').hexdigest()}"
OTHER_WORLD = f"sha256:{hashlib.sha256(b'another world').hexdigest()}"
CHECKS = ["http-success", "latency"]
MACHINE = "release-bot"
"""A service account."""
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

    def review_of(self, who: Path, name: str = "", **changes: Any) -> Manifest:
        """The approval that `who` would write, with `changes`; a change to None leaves the field out."""
        spec = {
            "rollout": "checkout",
            "rolloutUID": self.uid,
            "run": "run-1",
            "revision": REVISION,
            "step": "1",
            "evidenceDigest": DIGEST,
            "worldSnapshot": WORLD,
            "checks": CHECKS,
            "decision": "Approve",
            "reviewer": "reviewer-a",
            "groups": groups_of(who),
            "reason": "The rise is the load test of the payment provider.",
            "expiresAt": in_minutes(60),
        }
        if changes.get("decision", "Approve") != "Approve":
            spec |= {"worldSnapshot": None, "checks": None, "expiresAt": None}
        return decision("GateReview", spec | changes, name)

    def review(self, who: Path, **changes: Any) -> Answer:
        """Create the review that `who` would write, with `changes`."""
        return self.create(who, self.review_of(who, **changes))

    def order_of(self, who: Path, name: str = "", **changes: Any) -> Manifest:
        """The order that `who` would write, with `changes`."""
        spec = {
            "rollout": "checkout",
            "rolloutUID": self.uid,
            "revision": REVISION,
            "order": "Retry",
            "orderedBy": "reviewer-a",
            "groups": groups_of(who),
            "reason": "The database was down during the first attempt.",
        }
        if changes.get("order") == "Override":
            spec |= {"override": {"to": "Promote"}, "expiresAt": in_minutes(30)}
        return decision("GateOrder", spec | changes, name)

    def order(self, who: Path, **changes: Any) -> Answer:
        """Create the order that `who` would write, with `changes`."""
        return self.create(who, self.order_of(who, **changes))

    def create(self, who: Path, *bodies: Manifest) -> Answer:
        return kubectl(
            ["-n", self.shop.namespace, "create", "-o", "json", "-f", "-"], who, manifest=list(bodies)
        )

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


def in_minutes(minutes: float) -> str:
    """A time from now, as the API writes it."""
    return (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def decision(kind: str, spec: dict[str, Any], name: str = "") -> Manifest:
    """A GateReview or GateOrder of this name; without one, the API server gives it."""
    return {
        "apiVersion": "gatewright.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name} if name else {"generateName": "checkout-"},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def hold(**changes: Any) -> dict[str, Any]:
    now = datetime.now(UTC)
    stamp = "%Y-%m-%dT%H:%M:%SZ"
    return {
        "run": "run-1",
        "evidenceDigest": DIGEST,
        "worldSnapshot": WORLD,
        "blocking": CHECKS,
        "step": "1",
        "initiator": "developer",
        "since": now.strftime(stamp),
        "reason": "BelowThreshold",
        "deadline": (now + timedelta(hours=24)).strftime(stamp),
    } | changes


RULES = {"contract": "checkout@1", "maxWaiver": "72h", "serviceAccounts": []}
"""status.decisions: what the contract says of those who decide."""


def make_court(shop: Shop) -> Court:
    """Not held: the Rollout has just been made."""
    path = f"/apis/gatewright.dev/v1alpha1/namespaces/{shop.namespace}/rollouts"
    made = rest(shop.admin, "POST", path, rollout())
    court = Court(shop, made["metadata"]["uid"])
    who = court.reviewer("reviewer-b")
    # The policies learn of a new Rollout by watching, a moment later; until then they refuse for that reason.
    eventually(lambda: court.order(who, orderedBy="reviewer-b").ok, 20, "the policies know the Rollout")
    return court


def hold_court(court: Court, **changes: Any) -> Court:
    """Held, and the policies have seen it: a review that is right in all parts goes through."""
    court.report(phase="Held", hold=hold(**changes), canary={"revision": REVISION}, decisions=RULES)
    who = court.reviewer("reviewer-b")

    def seen() -> bool:
        answer = court.review(
            who,
            reviewer="reviewer-b",
            decision="RequestChanges",
            **{key: changes[key] for key in ("run", "step", "evidenceDigest") if key in changes},
        )
        assert answer.ok, answer.err
        return True

    eventually(seen, 20, "the policies see what is held")
    return court
