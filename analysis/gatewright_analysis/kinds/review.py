"""GateReview and GateOrder: what people decide. Create-only objects with who, why, for exactly what."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from gatewright_analysis.kinds.base import Digest, Model, Name, ObjectMeta, Text, Timestamp, rules
from gatewright_analysis.kinds.rollout import Revision

UserName = Annotated[str, Field(min_length=1, max_length=253)]
Groups = Annotated[tuple[Annotated[str, Field(max_length=253)], ...], Field(max_length=128)]
ReasonText = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1024,
        json_schema_extra=rules(("self.trim() != ''", "Say why: the reason stands in the ledger.")),
    ),
]


class ReviewDecision(StrEnum):
    APPROVE = "Approve"
    REQUEST_CHANGES = "RequestChanges"
    REJECT = "Reject"


class GateReviewSpec(Model):
    """A decision on one HOLD: this run, of this revision, at this step, with the evidence that was shown."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("self == oldSelf", "A review can't be changed: create another."),
            (
                "self.decision != 'Approve' || has(self.expiresAt)",
                "An approval is a waiver and needs expiresAt, the time at which it ends.",
            ),
        )
    )

    rollout: Name
    """Name of the Rollout that is held."""
    rollout_uid: Annotated[str, Field(max_length=64, alias="rolloutUID")]
    """UID of that Rollout, so that the review can't count for another of the same name."""
    run: Name
    """The GateRun that holds (status.hold.run of the Rollout)."""
    revision: Revision
    """The revision that is judged."""
    step: Annotated[str, Field(max_length=16)]
    """Index of the step, or bake."""
    evidence_digest: Digest
    """Digest of the evidence that the reviewer saw (status.hold.evidenceDigest of the Rollout)."""
    decision: ReviewDecision
    """Approve: a waiver, go on. RequestChanges: stay held, the reason becomes the hint. Reject: roll back."""
    reviewer: UserName
    """Who decides: the name the API server knows the caller by."""
    groups: Groups = ()
    """The reviewer's groups, as the API server knows them."""
    reason: ReasonText
    """Why; it stands in the ledger."""
    expires_at: Timestamp | None = None
    """Needed for Approve: when the waiver ends."""


class OrderKind(StrEnum):
    RETRY = "Retry"
    ABORT = "Abort"
    MORE_SAMPLES = "MoreSamples"


class GateOrderSpec(Model):
    """An order for one revision of one Rollout."""

    model_config = ConfigDict(
        json_schema_extra=rules(("self == oldSelf", "An order can't be changed: create another."))
    )

    rollout: Name
    """Name of the Rollout."""
    rollout_uid: Annotated[str, Field(max_length=64, alias="rolloutUID")]
    """UID of that Rollout, so that the order can't count for another of the same name."""
    revision: Revision
    """The revision that the order is for."""
    order: OrderKind
    """Retry: try a rejected revision again. Abort: send all traffic back to stable. MoreSamples: judge the sampled
    checks of a held gate once more, with the samples that have come since."""
    ordered_by: UserName
    """Who orders: the name the API server knows the caller by."""
    groups: Groups = ()
    """The orderer's groups, as the API server knows them."""
    reason: ReasonText
    """Why; it stands in the ledger."""


class Outcome(StrEnum):
    ACCEPTED = "Accepted"
    REFUSED = "Refused"


class DecisionStatus(Model):
    """What became of a review or an order, written once by the operator."""

    outcome: Outcome | None = None
    """Accepted or Refused."""
    reason: Annotated[str, Field(max_length=63)] = ""
    """One word for programs."""
    message: Text = ""
    """One sentence for people."""
    observed_at: Timestamp | None = None
    """When the operator dealt with it."""


class GateReview(Model):
    """What a person decides on a HOLD. `kubectl gate approve`, `reject` and `request-changes` write it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: GateReviewSpec
    """The decision; it can't be changed."""
    status: DecisionStatus = DecisionStatus()
    """What became of it."""


class GateOrder(Model):
    """What a person orders. `kubectl gate retry`, `abort` and `more-samples` write it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: GateOrderSpec
    """The order; it can't be changed."""
    status: DecisionStatus = DecisionStatus()
    """What became of it."""
