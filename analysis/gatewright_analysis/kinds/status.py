"""The status of a Rollout: the report on where it stands, written by the operator alone."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gatewright_analysis.kinds.base import (
    Condition,
    Digest,
    Label,
    LabelValue,
    Model,
    Name,
    PositiveDuration,
    Text,
    Timestamp,
)
from gatewright_analysis.kinds.policy import ServiceAccountUser

Revision = Annotated[str, Field(max_length=10, pattern="^[0-9a-f]{10}$")]


class Phase(StrEnum):
    """States of a Rollout (the diagram in docs/explanation/design.md, section 4)."""

    IDLE = "Idle"
    PROGRESSING = "Progressing"
    PAUSED = "Paused"
    HELD = "Held"
    PROMOTING = "Promoting"
    BAKING = "Baking"
    RESTORING = "Restoring"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"


class StableStatus(Model):
    """The version that serves, and its size before the release."""

    revision: Revision
    """First ten hex digits of the digest of its pod template."""
    pod_template_hash: Annotated[str, Field(max_length=63)]
    """Label pod-template-hash of its ReplicaSet."""
    replicas: int
    """Number of pods before the release."""
    images: Annotated[tuple[Text, ...], Field(max_length=64)] = ()
    """Images of its containers."""


class CanaryStatus(Model):
    """The version that is being judged."""

    revision: Revision
    """First ten hex digits of the digest of its pod template."""
    replicas: int = 0
    """Number of canary pods wanted."""
    ready: int = 0
    """Number of canary pods that are ready."""
    initiator: Annotated[str, Field(max_length=253)] = ""
    """Who the API server saw write the template; empty when unproven."""
    contract_digest: Digest | None = None
    """Version of the contract that this attempt is judged by."""
    contract_written_by: Annotated[str, Field(max_length=253)] = ""
    """Who the API server saw write that contract last, as this attempt began; empty when unproven."""
    images: Annotated[tuple[Text, ...], Field(max_length=64)] = ()
    """Images of its containers."""


class RejectedStatus(Model):
    """The last version that was sent back."""

    revision: Revision
    """The revision that is not tried again without an order Retry."""
    reason: Annotated[str, Field(max_length=63)]
    """One word for programs: why it was rejected."""
    message: Text = ""
    """One sentence for people."""
    at: Timestamp | None = None
    """When it was rejected."""


class WeightStatus(Model):
    """Percent of traffic for the canary: what is wanted, and what is in force."""

    desired: int = 0
    """Percent that the present step asks for."""
    actual: int = 0
    """Percent that is in force."""
    since: Timestamp | None = None
    """Since when the wanted weight stands."""


class AfterBack(StrEnum):
    """What follows when all traffic is back on stable and the canary is gone."""

    ROLLED_BACK = "RolledBack"
    IDLE = "Idle"
    START = "Start"


class BackStatus(Model):
    """Why traffic goes (or went) back, decided once; and what comes after."""

    reason: Annotated[str, Field(max_length=63)]
    """One word for programs: why traffic goes back."""
    message: Text = ""
    """One sentence for people."""
    then: AfterBack
    """What follows when all traffic is back on stable and the canary is gone."""
    cause: Annotated[str, Field(max_length=253)] = ""
    """What decided it: the run, review or order by name; empty when the world did."""
    at: Timestamp
    """When it was decided."""


class Approval(Model):
    """One person's approval of what is held now."""

    reviewer: Annotated[str, Field(max_length=253)]
    """Who approved."""
    review: Name
    """The GateReview."""
    expires_at: Timestamp
    """When it ends."""


class HoldStatus(Model):
    """What is held now: the run and evidence a decision must name, why, since when, until when."""

    run: Name
    """The GateRun that holds; a GateReview names it."""
    evidence_digest: Digest
    """Digest of the evidence that was judged; a GateReview names it."""
    step: Annotated[str, Field(max_length=16)]
    """Index of the step, or bake."""
    initiator: Annotated[str, Field(max_length=253)] = ""
    """Who started the change, and so may not approve it; empty when unproven."""
    world_snapshot: Digest | None = None
    """The world that was judged; an approval names it. Left out where no gate has judged."""
    since: Timestamp
    """When the HOLD began."""
    reason: Annotated[str, Field(max_length=63)]
    """One word for programs: why it is held."""
    message: Text = ""
    """One sentence for people: why it is held and what would change it."""
    blocking: Annotated[tuple[Label, ...], Field(max_length=64)] = ()
    """Ids of the checks that stop it."""
    breach: bool = False
    """The hold rests on a proven deterministic breach."""
    deadline: Timestamp
    """When the HOLD ends by itself (hold.timeout of the contract)."""
    note: Text = ""
    """What a RequestChanges review asked for."""
    contract_written_by: Annotated[str, Field(max_length=253)] = ""
    """Who the API server saw write the contract last; empty when unproven."""
    approvals: Annotated[tuple[Approval, ...], Field(max_length=10)] = ()
    """Who has approved so far, while more approvals are needed."""
    approvals_needed: int = 1
    """How many different people must approve (hold.minApprovals of the contract)."""
    escalate_at: Timestamp | None = None
    """When it is escalated, unless somebody decides before."""
    escalated_at: Timestamp | None = None
    """When it was escalated: by the clock, or by an order Escalate."""
    clock_stopped_since: Timestamp | None = None
    """Since when the wait does not count, because a source that it rests on is down."""
    clock_stopped_by: Text = ""
    """Which source that is, and what it says."""


class PausedStatus(Model):
    """Why it goes no further at present, and since when. Breaches roll back all the same."""

    by: Annotated[str, Field(max_length=253)] = ""
    """Who ordered the Pause; empty where it is a step of the Rollout."""
    reason: Text = ""
    """Why, in that person's words."""
    since: Timestamp
    """Since when."""
    order: Annotated[str, Field(max_length=253)] = ""
    """The GateOrder; empty where it is a step of the Rollout."""
    run: Annotated[str, Field(max_length=253)] = ""
    """The GateRun that goes on looking for a breach in the meantime; empty while the new version has no traffic."""


class OverrideStatus(Model):
    """An emergency: who sent this version past its gates, and until when breaches are ignored."""

    by: Annotated[str, Field(max_length=253)]
    """Who ordered it."""
    reason: Text = ""
    """Why, in that person's words."""
    at: Timestamp
    """Since when it stands in the ledger."""
    order: Annotated[str, Field(max_length=253)]
    """The GateOrder."""
    to: Annotated[str, Field(max_length=16)]
    """Promote, or the index of the step to go on with."""
    ignore_breach: bool = False
    """Until it ends, breaches are recorded and do not roll back."""
    expires_at: Timestamp
    """When it ends."""


class VerdictSummary(Model):
    """The last verdict in short."""

    decision: Annotated[str, Field(max_length=8)]
    """PROMOTE, HOLD or ROLLBACK."""
    run: Name
    """The GateRun that holds the whole verdict."""
    step: Annotated[str, Field(max_length=16)]
    """Index of the step, or bake."""
    reason: Annotated[str, Field(max_length=63)]
    """One word for programs."""
    message: Text = ""
    """One sentence for people."""
    at: Timestamp
    """When the verdict was given."""


class AttemptsStatus(Model):
    """How many revisions in a row were tried, and how many may be (attempts.budget of the contract)."""

    used: int = 0
    """Different revisions that were tried since one was promoted to the end or a person ordered a Retry; the one on
    its way is not counted."""
    budget: int = 0
    """So many may be tried before a person has to order a Retry; 0 while the contract can't be read."""


class EscalationStatus(Model):
    """What only a person can end."""

    opened_at: Timestamp
    """Since when a person is asked for."""
    cause: Annotated[str, Field(max_length=63)]
    """One word for programs: why."""
    resolution: Text = ""
    """What ended it, in one sentence; empty while it is open."""


class LedgerStatus(Model):
    """The ledger's head: segment, sequence number and hash of the last entry."""

    segment: int = 0
    """Number of the newest segment: ConfigMap NAME-ledger-0000 and on."""
    sequence: int = 0
    """Sequence number of the last entry."""
    head: Digest | None = None
    """sha256 of the last entry."""


class Originals(Model):
    """What stood on the user's objects before the first write; put back byte for byte at the end."""

    stable_selector: Annotated[dict[str, LabelValue], Field(max_length=32)] = Field(default_factory=dict)
    """Selector of the stable Service."""
    canary_selector: Annotated[dict[str, LabelValue], Field(max_length=32)] = Field(default_factory=dict)
    """Selector of the canary Service."""
    stable_weight: int | None = None
    """Weight of the stable backendRef."""
    canary_weight: int | None = None
    """Weight of the canary backendRef."""


class DecisionRules(Model):
    """What the contract that counts says of those who decide. The admission policies read it here."""

    contract: Text
    """The contract, as NAME@GENERATION: the one that the attempt is judged by, else the present one."""
    max_waiver: PositiveDuration
    """Longest time an approval may stay in force (hold.maxWaiver of the contract)."""
    service_accounts: Annotated[tuple[ServiceAccountUser, ...], Field(max_length=16)] = ()
    """Service accounts that may decide (hold.serviceAccounts of the contract)."""


class RolloutStatus(Model):
    """Where the release stands; a report that only the operator writes."""

    phase: Phase | None = None
    """Where the release stands."""
    message: Text = ""
    """One sentence: what was done, or what is waited for. The same as in Events, log and plugin."""
    current_step: int = 0
    """Index of the step that is under way, from 0."""
    attempt: int = 0
    """Number of the present attempt, over all revisions."""
    step_started_at: Timestamp | None = None
    """When the present step began."""
    progress_at: Timestamp | None = None
    """When something last moved; `progressDeadline` counts from here."""
    run: Annotated[str, Field(max_length=253)] = ""
    """The GateRun that judges or has judged the present step."""
    weight: WeightStatus = WeightStatus()
    """The new version's share of the traffic."""
    stable: StableStatus | None = None
    """The version that serves."""
    canary: CanaryStatus | None = None
    """The version that is being judged."""
    previous: StableStatus | None = None
    """While promoting, baking and restoring: the version to go back to."""
    rejected: RejectedStatus | None = None
    """The last version that was sent back."""
    originals: Originals | None = None
    """What stood on the user's objects before the first write."""
    verdict: VerdictSummary | None = None
    """The last verdict."""
    hold: HoldStatus | None = None
    """What is held now, and until when."""
    paused: PausedStatus | None = None
    """Who paused it, why and since when; or the step of the Rollout that waits."""
    override: OverrideStatus | None = None
    """The Override of the version on its way, if there was one."""
    decisions: DecisionRules | None = None
    """Who may decide, and for how long; left out while the contract can't be read."""
    back: BackStatus | None = None
    """Why traffic goes, or went, back."""
    ledger: LedgerStatus = LedgerStatus()
    """Head of the ledger."""
    attempts: AttemptsStatus = AttemptsStatus()
    """Revisions that were tried in a row, and how many may be."""
    escalation: EscalationStatus | None = None
    """What only a person can end, and what became of it."""
    guard: Annotated[str, Field(max_length=16)] = ""
    """How a new version is kept from the pods: Admission."""
    observed_workload_generation: int = 0
    """The workload's generation that this status speaks about."""
    observed_revision: Annotated[str, Field(max_length=10)] = ""
    """Revision of the workload's template that this status speaks about."""
    observed_generation: int = 0
    """The Rollout's generation that this status speaks about."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = ()
    """Ready, Reconciling, Stalled, Held, ContractResolved, Guarded, WaiversUnavailable, Feasible; after an Override also Overridden."""
