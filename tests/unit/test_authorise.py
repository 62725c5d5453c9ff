"""Which right the operator asks the API server about, again, before it hears a review or an order."""

from typing import Any

import pytest

from gatewright_analysis.kinds.review import GateOrder, GateReview
from gatewright_operator.authorise import Authoriser
from gatewright_operator.resources import SUBJECT_ACCESS_REVIEWS, Resource

DIGEST = f"sha256:{'0' * 64}"
COMMON = {"rollout": "checkout", "rolloutUID": "u", "revision": "0a1b2c3d4e", "reason": "long enough"}


class Asked:
    """An API server that grants some verbs, and remembers what it was asked."""

    def __init__(self, *granted: str) -> None:
        self.granted = granted
        self.questions: list[dict[str, Any]] = []

    async def create(self, resource: Resource, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        assert resource == SUBJECT_ACCESS_REVIEWS
        self.questions.append(body["spec"])
        return {"status": {"allowed": body["spec"]["resourceAttributes"]["verb"] in self.granted}}


def authoriser(api: Asked) -> Authoriser:
    return Authoriser(api)  # type: ignore[arg-type]


def order(kind: str) -> GateOrder:
    more = {"override": {"to": "Promote"}, "expiresAt": "2030-01-01T00:30:00Z"} if kind == "Override" else {}
    spec = {**COMMON, "order": kind, "orderedBy": "sre-a", "groups": ["sre"], **more}
    return GateOrder.model_validate({"metadata": {"name": kind.lower(), "uid": kind}, "spec": spec})


def review(decision: str) -> GateReview:
    about = {"run": "run-1", "step": "1", "evidenceDigest": DIGEST}
    spec = {**COMMON, **about, "decision": decision, "reviewer": "reviewer-a", "groups": ["payments"]}
    return GateReview.model_validate({"metadata": {"name": decision.lower(), "uid": decision}, "spec": spec})


@pytest.mark.parametrize(
    ("kind", "verb"),
    [
        ("Retry", "operate"),
        ("Abort", "operate"),
        ("MoreSamples", "operate"),
        ("Pause", "operate"),
        ("Resume", "operate"),
        ("Escalate", "operate"),
        ("Override", "override"),
    ],
)
async def test_each_order_needs_its_verb_on_the_rollout_by_name(kind: str, verb: str) -> None:
    api = Asked(verb)
    assert await authoriser(api).may_order("shop", order(kind))
    assert api.questions == [
        {
            "user": "sre-a",
            "groups": ["sre"],
            "resourceAttributes": {
                "group": "gatewright.dev",
                "resource": "rollouts",
                "namespace": "shop",
                "name": "checkout",
                "verb": verb,
            },
        }
    ]
    others = {"approve", "operate", "override"} - {verb}
    assert not await authoriser(Asked(*others)).may_order("shop", order(kind))


@pytest.mark.parametrize(
    ("decision", "verbs"),
    [("Approve", {"approve"}), ("RequestChanges", {"approve"}), ("Reject", {"approve", "operate"})],
)
async def test_each_decision_needs_one_of_its_verbs(decision: str, verbs: set[str]) -> None:
    for verb in ("approve", "operate", "override"):
        allowed = await authoriser(Asked(verb)).may_review("shop", review(decision))
        assert allowed is (verb in verbs), f"{decision} with {verb} alone"
