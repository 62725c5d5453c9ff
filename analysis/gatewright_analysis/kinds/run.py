"""GateRun: one evaluation of one change, at one step, against one pinned contract."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from gatewright_analysis.kinds.base import (
    Digest,
    Duration,
    Label,
    Model,
    Name,
    ObjectMeta,
    Text,
    Timestamp,
    rules,
)
from gatewright_analysis.kinds.contract import Stage
from gatewright_analysis.kinds.rollout import OnInconclusive, Revision
from gatewright_analysis.verdict import Verdict


class RunPhase(StrEnum):
    """Empty while evidence is collected: an uneventful look writes nothing, so nothing could tell more."""

    DECIDED = "Decided"


class ImageRef(Model):
    """One container's image."""

    container: Annotated[str, Field(max_length=63)]
    """Name of the container."""
    image: Text
    """Image as the pod template names it."""
    digest: Text = ""
    """imageID as the node reported it, empty until a pod ran."""


class ArmRef(Model):
    """How one arm is told apart at any source: namespace, pod name prefix, Service, workload."""

    pod_prefix: Annotated[str, Field(max_length=63)]
    """Pod names are this prefix and five characters more: `NAME-HASH-`, cut as the API server cuts it."""
    revision: Annotated[str, Field(max_length=63)] = ""
    """Value of the revision label on the arm's pods."""
    service: Annotated[str, Field(max_length=63)] = ""
    """Service that selects the arm's pods."""
    workload: Annotated[str, Field(max_length=253)] = ""
    """Workload that owns the arm's pods."""


class RunClock(Model):
    """When to look: at windows t0 + k · window; no pass before `duration`; the last look at `maxDuration`."""

    starts_at: Timestamp
    """t0: weight in force, propagation and warm-up over."""
    weight_at: Timestamp
    """When the weight was accepted, warm-up and propagation before `startsAt`; `pods` counts from here."""
    duration: Duration
    """No pass before t0 plus this."""
    max_duration: Duration
    """The last look, after t0."""
    window: Duration
    """Length of a window."""
    interval: Duration
    """How often to look."""


class FingerprintValue(Model):
    """What one model or judge said of itself."""

    name: Label
    """Its name in the contract."""
    value: Text
    """Its labels as `label=value`, sorted, with a comma between them."""


class RunWaiver(Model):
    """A person's approval at an earlier gate, whose span reaches this one."""

    review: Name
    """The GateReview."""
    reviewer: Annotated[str, Field(max_length=253)]
    """Who approved."""
    checks: Annotated[tuple[Label, ...], Field(min_length=1, max_length=64)]
    """Ids of the checks that it waives."""
    evidence_digest: Digest
    """The evidence that it was given for."""
    granted_at: Timestamp
    """Since when it counts; where several people had to approve, since the last of them did."""
    expires_at: Timestamp
    """From when on it counts no longer; where several people had to approve, the first of their ends."""


class GateRunSpec(Model):
    """What is judged, by what, and when."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("self == oldSelf", "A GateRun can't be changed: what is judged is fixed when it begins.")
        )
    )

    rollout: Name
    """Name of the Rollout."""
    rollout_uid: Annotated[str, Field(max_length=64, alias="rolloutUID")]
    """UID of the Rollout."""
    revision: Revision
    """The revision that is judged."""
    step: Annotated[str, Field(max_length=16)]
    """Index into the Rollout's steps as text, or `bake`."""
    weight: Annotated[int, Field(ge=0, le=100)]
    """Percent of traffic it gets."""
    attempt: Annotated[int, Field(ge=1)]
    """Number of the attempt."""
    stage: Stage
    """Canary or Bake."""
    contract: Name
    """Name of the GateContract."""
    contract_generation: int
    """Generation of the GateContract when the attempt began."""
    contract_digest: Digest
    """Version of the contract: sha256 of its canonical form, kept in the ledger."""
    world_snapshot: Digest
    """Digest of what the version runs with: the image digests of its containers, and `fingerprints`."""
    images: Annotated[tuple[ImageRef, ...], Field(max_length=64)] = ()
    """Images of the version's containers."""
    config_digest: Digest | None = None
    """Digest of what the template tells the containers besides: commands, environment, mounts."""
    initiator: Annotated[str, Field(max_length=253)] = ""
    """Who started the change; empty when unproven."""
    checks: Annotated[tuple[Label, ...], Field(min_length=1, max_length=64)]
    """Ids of the checks that judge here."""
    clock: RunClock
    """When the run looks, and until when."""
    canary: ArmRef
    """How the new version's numbers are found."""
    stable: ArmRef | None = None
    """How stable's numbers are found; left out where there is nothing to compare."""
    e_processes: Annotated[int, Field(ge=1)]
    """m of statistics.md R2: rollback-capable checks × gates × routes of the whole rollout."""
    pooled_from: Annotated[tuple[Name, ...], Field(max_length=16)] = ()
    """Earlier runs of this step and revision whose evidence this one goes on with; with moreSamples also those that
    sampled checks of this artifact were judged in, for these checks alone."""
    earlier_runs: Annotated[tuple[Name, ...], Field(max_length=64)] = ()
    """Runs of earlier steps of this revision, whose events a check with `pool: Rollout` adds up."""
    last_gate: bool = True
    """No gate comes after this one before 100 %: a check with `pool: Rollout` has to pass here."""
    more_samples: bool = False
    """A person ordered more samples: sampled checks are judged again, on all samples of this artifact together."""
    world: Annotated[dict[str, Text], Field(max_length=64)] = Field(default_factory=dict)
    """What the pod template declares that the version runs with: its annotations `world.gatewright.dev/KEY`."""
    fingerprints: Annotated[tuple[FingerprintValue, ...], Field(max_length=16)] = ()
    """What models and judges said of themselves when the attempt began."""
    on_inconclusive: OnInconclusive = OnInconclusive.HOLD
    """What becomes of evidence that proves nothing."""
    waivers: Annotated[tuple[RunWaiver, ...], Field(max_length=32)] = ()
    """Approvals that reach to this gate, as they stood when it began. Each look counts those in force."""


class EvidenceRef(Model):
    config_map: Name
    """ConfigMap with the counts of all windows."""
    digest: Digest
    """sha256 of its content."""


class GateRunStatus(Model):
    phase: RunPhase | None = None
    """Decided, once the verdict is given; empty while evidence is collected."""
    message: Text = ""
    """One sentence: what was done, or what is waited for."""
    verdict: Verdict | None = None
    """The verdict, once given."""
    evidence: EvidenceRef | None = None
    """Where the evidence is kept."""
    breach: Verdict | None = None
    """A proven breach after a HOLD or an early pass; always a ROLLBACK verdict."""
    held: Verdict | None = None
    """More that blocks than the HOLD was given for, found while it waited; always a HOLD verdict, with evidence of its
    own. Approvals of what was seen before are void."""


class GateRun(Model):
    """One evaluation: of one version, at one step, against one pinned contract. The operator writes it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: GateRunSpec
    """What is judged, by what, and when; it can't be changed."""
    status: GateRunStatus = GateRunStatus()
    """Where it stands; a report that only the operator writes."""
