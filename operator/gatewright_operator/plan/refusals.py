"""What the admission policies check of a review or an order, once more: they may have been away when it was written.

The sentences are the policies' own (`operator/gatewright_operator/policies`).
"""

from datetime import datetime, timedelta

from gatewright_analysis.kinds.base import format_duration
from gatewright_analysis.kinds.review import GateOrder, GateReview, GateReviewSpec
from gatewright_analysis.kinds.rollout import DecisionRules, HoldStatus
from gatewright_analysis.reasons import Reason
from gatewright_analysis.waiver import waiver_in_force
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.snapshot import Snapshot

LONGEST_OVERRIDE = timedelta(hours=1)
SETTLES = timedelta(seconds=5)
"""Kubernetes applies a changed policy after about a second."""
_SERVICE_ACCOUNT = "system:serviceaccount:"

Refusal = tuple[Reason, str]


def decision_rules(s: Snapshot) -> DecisionRules | None:
    """What the contract that counts says of those who decide: the pinned one while an attempt is on its way."""
    contract = s.pinned or s.contract
    if contract is None or (s.pinned is None and _judged(s)):
        return None
    hold = contract.spec.hold
    return DecisionRules(
        contract=f"{contract.name}@{contract.generation}",
        max_waiver=hold.max_waiver,
        service_accounts=hold.service_accounts,
    )


def _judged(s: Snapshot) -> bool:
    """An attempt is on its way under a contract of its own."""
    canary = s.rollout.status.canary
    return canary is not None and canary.contract_digest is not None


def of_account(d: Draft, rollout: str, name: str) -> Refusal | None:
    """A machine decides only where the contract lists it."""
    if not name.startswith(_SERVICE_ACCOUNT):
        return None
    rules = decision_rules(d.s)
    if rules is not None and name in rules.service_accounts:
        return None
    return (
        Reason.NOT_ALLOWED,
        f"The contract of rollout {rollout} does not let {name} decide: a person has to, or hold.serviceAccounts has to list it.",
    )


def unproven(d: Draft, written: datetime | None, *, entered: bool = False) -> Refusal | None:
    """What proves who decides is missing or altered, or was when this was written: anybody could have signed it.

    `entered`: it stands in the ledger, so it was proven when it was heard; a crash came before its effect.
    """
    if not d.s.guarded:
        return (
            Reason.GUARD_MISSING,
            "The admission policies that prove who a reviewer is are missing or altered; install the chart again, then approve again.",
        )
    if d.s.waivers_unavailable:
        return (
            Reason.WAIVERS_UNAVAILABLE,
            f"Nothing proves now who wrote this: {d.s.waivers_unavailable}. Install the chart again, then decide again.",
        )
    since = d.s.proven_since
    if since is not None and not entered and (written is None or written < since + SETTLES):
        return (
            Reason.WAIVERS_UNAVAILABLE,
            f"The policies that prove who wrote this were changed at {since.isoformat()}, when it stood already or was being written. Decide again.",
        )
    return None


def of_another_hold(spec: GateReviewSpec, hold: HoldStatus) -> str | None:
    """What is held now, where a review is about something else."""
    look = f"Look at it with: kubectl gate review {spec.rollout}"
    if spec.run != hold.run:
        return f"What is held now is run {hold.run}. {look}"
    if spec.step != hold.step:
        return f"What is held now is step {hold.step}, not {spec.step}. {look}"
    if spec.evidence_digest != hold.evidence_digest:
        return f"What is held now is run {hold.run}, and its evidence is {hold.evidence_digest}, not what you have seen. {look}"
    return None


def of_waiver(d: Draft, review: GateReview, hold: HoldStatus) -> Refusal | None:
    """Whether an approval may waive what is held: whose it is, what it names, and until when."""
    spec = review.spec
    look = f"Look at it with: kubectl gate review {spec.rollout}"
    uid = review.metadata.uid
    entered = any(key.kind == "Review" and key.cause == uid for key in d.s.memory.keys)
    if (refusal := unproven(d, review.metadata.creation_timestamp, entered=entered)) is not None:
        return refusal
    if hold.initiator and spec.reviewer == hold.initiator:
        return Reason.NOT_ALLOWED, f"{spec.reviewer} started this change; somebody else has to approve it."
    if not hold.blocking:
        return (
            Reason.NOT_HELD,
            f"There is no verdict to waive in this hold: see kubectl gate retry {spec.rollout} and kubectl gate abort {spec.rollout}.",
        )
    if spec.world_snapshot != hold.world_snapshot:
        return (
            Reason.NOT_HELD,
            f"What is held now was judged in the world {hold.world_snapshot}, not in {spec.world_snapshot or 'none'}. {look}",
        )
    if set(spec.checks) != set(hold.blocking):
        return (
            Reason.NOT_HELD,
            f"An approval names exactly the checks that block: {', '.join(hold.blocking)}, not {', '.join(spec.checks)}. {look}",
        )
    if _ends_before(spec.through, hold.step):
        held = "the bake" if hold.step == "bake" else f"step {hold.step}"
        return (
            Reason.NOT_HELD,
            f"The waiver would end with step {spec.through}, before what is held now, {held}. Leave through out, or name a later step.",
        )
    if spec.expires_at is None:
        return Reason.EXPIRED, "An approval needs expiresAt."
    if not waiver_in_force(review.metadata.creation_timestamp or d.now, spec.expires_at, d.now):
        return Reason.EXPIRED, f"The approval ended at {spec.expires_at.isoformat()}, before it was heard."
    return _too_long(d, review)


def _ends_before(through: str | None, step: str) -> bool:
    if through is None or through == "Remaining":
        return False
    return step == "bake" or int(through) < int(step)


def _too_long(d: Draft, review: GateReview) -> Refusal | None:
    """A waiver beyond the contract's `hold.maxWaiver`, counted from the review's own creation."""
    created, ends = review.metadata.creation_timestamp, review.spec.expires_at
    rules = decision_rules(d.s)
    if rules is None or created is None or ends is None:
        return (
            Reason.WAIVER_TOO_LONG,
            "The contract's hold.maxWaiver cannot be read, so no waiver can be granted.",
        )
    if ends - created <= rules.max_waiver:
        return None
    return (
        Reason.WAIVER_TOO_LONG,
        f"The contract allows waivers of {format_duration(rules.max_waiver)}; this one would end at {ends.isoformat()}. Approve again with a nearer end.",
    )


def of_override(d: Draft, order: GateOrder) -> Refusal | None:
    """Whether an Override is proven and in force. The initiator of the change may give it."""
    created, ends = order.metadata.creation_timestamp, order.spec.expires_at
    if (refusal := unproven(d, created)) is not None:
        return refusal
    if created is None or ends is None:
        return Reason.EXPIRED, "An Override needs expiresAt."
    if not waiver_in_force(created, ends, d.now):
        return Reason.EXPIRED, f"The Override ended at {ends.isoformat()}, before it was heard."
    if ends - created > LONGEST_OVERRIDE:
        return (
            Reason.WAIVER_TOO_LONG,
            f"An Override ends after 1h at most; this one would end at {ends.isoformat()}. Order it again with a nearer end.",
        )
    return None
