"""Asks the API server again whether the author of a review or an order has the right, with the groups it was written under."""

from gatewright_analysis.kinds.review import GateOrder, GateReview, OrderKind, ReviewDecision
from gatewright_analysis.names import GROUP, VERB_APPROVE, VERB_OPERATE, VERB_OVERRIDE
from gatewright_operator.api import Api
from gatewright_operator.resources import SUBJECT_ACCESS_REVIEWS


class Authoriser:
    """Virtual verbs on `rollouts.gatewright.dev` by name. Answers are kept per object: it is asked about once."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._answers: dict[str, bool] = {}

    async def may_review(self, namespace: str, review: GateReview) -> bool:
        """Approve and RequestChanges need `approve`; Reject needs `approve` or `operate`."""
        spec = review.spec
        verbs = [VERB_APPROVE, VERB_OPERATE] if spec.decision is ReviewDecision.REJECT else [VERB_APPROVE]
        return await self._any(
            review.metadata.uid, namespace, spec.rollout, spec.reviewer, spec.groups, verbs
        )

    async def may_order(self, namespace: str, order: GateOrder) -> bool:
        """Override needs `override`, every other order `operate`."""
        spec = order.spec
        verbs = [VERB_OVERRIDE if spec.order is OrderKind.OVERRIDE else VERB_OPERATE]
        return await self._any(
            order.metadata.uid, namespace, spec.rollout, spec.ordered_by, spec.groups, verbs
        )

    async def _any(
        self, uid: str, namespace: str, rollout: str, user: str, groups: tuple[str, ...], verbs: list[str]
    ) -> bool:
        if uid not in self._answers:
            if len(self._answers) > 10_000:
                self._answers.clear()
            answers = [await self._may(namespace, rollout, user, groups, verb) for verb in verbs]
            self._answers[uid] = any(answers)
        return self._answers[uid]

    async def _may(self, namespace: str, rollout: str, user: str, groups: tuple[str, ...], verb: str) -> bool:
        body = {
            "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": SUBJECT_ACCESS_REVIEWS.kind,
            "spec": {
                "user": user,
                "groups": list(groups),
                "resourceAttributes": {
                    "group": GROUP,
                    "resource": "rollouts",
                    "namespace": namespace,
                    "name": rollout,
                    "verb": verb,
                },
            },
        }
        answer = await self._api.create(SUBJECT_ACCESS_REVIEWS, "", body)
        return bool((answer.get("status") or {}).get("allowed"))
