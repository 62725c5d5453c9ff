"""GateReview and GateOrder: what people decide. Create-only objects with who, why, for exactly what."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from gatewright_analysis.kinds.base import Digest, Label, Model, Name, ObjectMeta, Text, Timestamp, rules
from gatewright_analysis.kinds.rollout import Revision

UserName = Annotated[str, Field(min_length=1, max_length=253)]
Groups = Annotated[tuple[Annotated[str, Field(max_length=253)], ...], Field(max_length=128)]
ReasonText = Annotated[
    str,
    Field(
        # Ten of them, but a ledger may hold shorter ones: the rule below is the API server's alone.
        min_length=1,
        max_length=1024,
        json_schema_extra=rules(
            (
                "self.trim().size() >= 10",
                "Say why, in at least 10 characters: the reason stands in the ledger.",
            )
        ),
    ),
]


Through = Annotated[str, Field(max_length=16, pattern="^(Remaining|[0-9]{1,3})$")]
"""The last step of a span: its index, or `Remaining`."""


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
            (
                "self.decision != 'Approve' || has(self.worldSnapshot) && has(self.checks) && self.checks.size() > 0",
                "An approval names what it waives: worldSnapshot and checks, as they stand in the Rollout's status.hold.",
            ),
            (
                "self.decision == 'Approve' || !has(self.through)",
                "through says how far a waiver reaches; only an approval is one.",
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
    world_snapshot: Digest | None = None
    """Needed for Approve: the world that was judged (status.hold.worldSnapshot of the Rollout)."""
    checks: Annotated[tuple[Label, ...], Field(max_length=64)] = ()
    """Needed for Approve: ids of the checks that are waived, all that block (status.hold.blocking of the Rollout)."""
    through: Through | None = None
    """How far the waiver reaches beyond the step that is held: the index of the last step, or Remaining for all that
    follow, the bake included. Left out: the held step alone."""
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
    PAUSE = "Pause"
    RESUME = "Resume"
    ESCALATE = "Escalate"
    OVERRIDE = "Override"


class OverrideTarget(Model):
    """Where an Override goes, past the gates that lie between."""

    to: Annotated[str, Field(max_length=16, pattern="^(Promote|[0-9]{1,3})$")]
    """Promote: to 100 % now. Else the index of the step to go on with."""
    ignore_breach: bool = False
    """Until the order expires, breaches are recorded and do not roll back."""


class GateOrderSpec(Model):
    """An order for one revision of one Rollout."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("self == oldSelf", "An order can't be changed: create another."),
            (
                "(self.order == 'Override') == has(self.override)",
                "An Override says where to go: set override.to. No other order has override.",
            ),
            (
                "(self.order == 'Override') == has(self.expiresAt)",
                "An Override needs expiresAt, at most an hour ahead. No other order ends by itself: leave expiresAt out.",
            ),
        )
    )

    rollout: Name
    """Name of the Rollout."""
    rollout_uid: Annotated[str, Field(max_length=64, alias="rolloutUID")]
    """UID of that Rollout, so that the order can't count for another of the same name."""
    revision: Revision
    """The revision that the order is for."""
    order: OrderKind
    """Retry: try a rejected revision again. Abort: send all traffic back to stable. MoreSamples: judge the sampled
    checks of a held gate once more, with the samples that have come since. Pause: go no further until a Resume; breaches
    still roll back. Resume: end a Pause or a step `pause: {}`. Escalate: call the next person now. Override: past the
    gates, in an emergency."""
    override: OverrideTarget | None = None
    """Needed for Override, and for nothing else: where to go."""
    expires_at: Timestamp | None = None
    """Needed for Override, and for nothing else: when the order ends, at most an hour after its creation."""
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
    """What a person orders. `kubectl gate retry`, `abort`, `pause` and the like write it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: GateOrderSpec
    """The order; it can't be changed."""
    status: DecisionStatus = DecisionStatus()
    """What became of it."""
