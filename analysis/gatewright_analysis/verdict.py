"""The verdict: one schema for people, pipelines and agents (docs/explanation/design.md, section 5)."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gatewright_analysis.kinds.base import Digest, Label, Model, Text, Timestamp
from gatewright_analysis.kinds.contract import OracleKind, Require, Stage, Tier


class Decision(StrEnum):
    PROMOTE = "PROMOTE"
    HOLD = "HOLD"
    ROLLBACK = "ROLLBACK"


class CheckStatus(StrEnum):
    """What one check came to.

    pass and fail are proven; below_threshold is a final look that proved neither; inconclusive is evidence
    that can't be used.
    """

    PASS = "pass"
    FAIL = "fail"
    BELOW_THRESHOLD = "below_threshold"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"
    PENDING = "pending"
    NOT_PROVEN = "not_proven"
    WAIVED = "waived"


class Statistics(Model):
    """The numbers that a check's result rests on; ratios are good / n, e-values natural logs."""

    s: int = 0
    """Good events of the canary."""
    f: int = 0
    """Bad events of the canary."""
    n: int = 0
    """Events of the canary that counted."""
    missing: int = 0
    """Canary events without a usable verdict."""
    stable_s: int | None = None
    """Good events of stable in the same windows."""
    stable_f: int | None = None
    """Bad events of stable in the same windows."""
    windows: int = 0
    """Closed windows that counted."""
    bad_windows: int = 0
    """Windows whose own bad ratio is above the limit."""
    phi: float | None = None
    """Overdispersion; counts are deflated by it."""
    planned_n: int | None = None
    """Samples at which the final look was planned."""
    n_min: int | None = None
    """Fewest samples that could prove the threshold."""
    ticket_used: bool = False
    """The one final Wilson look was taken."""
    lb: float | None = None
    """Lower Wilson bound of the good ratio."""
    ub: float | None = None
    """Upper Wilson bound of the good ratio."""
    z: float | None = None
    """Normal quantile of the bounds."""
    log_e_pass: float | None = None
    """Natural log of the e-value for a pass."""
    log_e_fail: float | None = None
    """Natural log of the e-value for a breach of the absolute limit."""
    log_e_two_arm: float | None = None
    """Natural log of the e-value for worse than stable."""
    breach_threshold: float | None = None
    """log of the e-value that convicts: ln(100 m)."""
    tail_bad_ratio: float | None = None
    """Bad ratio in the last third of the samples."""
    restarts: int | None = None
    """Restarts of the chosen containers."""
    ready: int | None = None
    """Canary pods that are ready."""
    attempts: int = 1
    """Attempts whose evidence is pooled here."""
    total: float | None = None
    """Sum of the scores; only for scores."""
    clusters: int | None = None
    """Items that the samples are of, where some are repeats of one."""
    deff: float | None = None
    """How many samples tell as much as one independent sample."""
    n_eff: float | None = None
    """n / deff."""
    look: int = 0
    """Closed windows of this attempt at this look."""
    anytime_lb: float | None = None
    """Lower bound of the good ratio that holds at every look at once; only once a check has ended."""
    threshold_adjusted: float | None = None
    """The threshold raised by what the judge's known errors may flatter."""
    step_bad_ratio: float | None = None
    """Bad ratio of this step alone, of a check that pools over the rollout."""
    value: float | None = None
    """The newest reading of a gauge."""
    exit_code: int | None = None
    """Exit code of a Job."""
    seed: int | None = None
    """Seed that the sampled items were shuffled with, as the result file says it."""
    method_version: Annotated[str, Field(max_length=16)] = "1"
    """Version of the statistical method."""


class EvidenceUri(Model):
    uri: Text
    """Where the evidence is kept."""
    digest: Digest
    """sha256 of it."""


class CheckResult(Model):
    id: Label
    """Id of the check in the contract."""
    oracle_kind: OracleKind
    """Deterministic or Sampled."""
    require: Require
    """What the contract asks of it at this gate."""
    tier: Tier = Tier.FAST
    """Fast or Full."""
    cached_from: Annotated[str, Field(max_length=253)] = ""
    """GateRun that this result was taken from: the same artifact, contract and world is no new draw."""
    status: CheckStatus
    """pass and fail are proven; below_threshold is a final look that proved neither; inconclusive is
    evidence that can't be used."""
    breach: bool = False
    """A proven deterministic breach."""
    on_breach: Annotated[str, Field(max_length=8)] = "Hold"
    """What a proven breach does: Rollback or Hold."""
    score: float | None = None
    """Good ratio seen."""
    ci_lower: float | None = None
    """Lower bound of the good ratio."""
    ci_upper: float | None = None
    """Upper bound of the good ratio."""
    threshold: float | None = None
    """Good ratio that must be proven."""
    samples: int = 0
    """Events that counted."""
    planned: int | None = None
    """Events planned for."""
    reason: Annotated[str, Field(max_length=63)]
    """One word for programs."""
    message: Text = ""
    """One sentence for people."""
    fix_hint: Text = ""
    """What to look at, from the contract."""
    producer: Annotated[str, Field(max_length=16)] = ""
    """Who made the numbers: Workload, Platform or Judge."""
    statistics: Statistics | None = None
    """The numbers that the result rests on."""
    evidence: Annotated[tuple[EvidenceUri, ...], Field(max_length=4)] = ()
    """Where the evidence is kept; of a check that is waived, the GateReview that waives it."""
    found: CheckStatus | None = None
    """Of a check that is waived: what it came to without the waiver."""
    found_reason: Annotated[str, Field(max_length=63)] = ""
    """One word for that."""

    @property
    def without_waiver(self) -> "CheckResult":
        """As the judge gave it: what was drawn is drawn, whether or not somebody waived it."""
        if self.found is None:
            return self
        return self.model_copy(
            update={
                "status": self.found,
                "reason": self.found_reason,
                "evidence": (),
                "found": None,
                "found_reason": "",
            }
        )


class Change(Model):
    revision: Annotated[str, Field(max_length=10)]
    """First ten hex digits of the digest of the pod template."""
    images: Annotated[tuple[Text, ...], Field(max_length=64)] = ()
    """Images of its containers."""
    initiator: Annotated[str, Field(max_length=253)] = ""
    """Who started the change; empty when unproven."""
    contract_version: Text = ""
    """Contract as NAME@GENERATION."""
    contract_digest: Digest
    """sha256 of the canonical contract."""
    world_snapshot: Digest
    """Digest of what the version runs with."""
    artifact_digest: Digest | None = None
    """Digest over the image digests of all containers: what is judged, whatever it is called."""
    config_digest: Digest | None = None
    """Digest of what the template tells the containers besides: commands, environment, mounts."""
    surroundings: Digest | None = None
    """Digest of the world without the version's own images: what models and judges said of themselves."""


class Verdict(Model):
    decision: Decision
    """PROMOTE, HOLD or ROLLBACK."""
    run_id: Annotated[str, Field(max_length=253)]
    """Name of the GateRun."""
    stage: Stage
    """Canary or Bake."""
    step: Annotated[str, Field(max_length=16)]
    """Index of the step, or bake."""
    attempt: int = 1
    """Number of the attempt."""
    tier: Tier = Tier.FAST
    """Full when a Full check was judged."""
    binding: bool = True
    """False: advice only."""
    started_at: Timestamp
    """When the gate's clock began."""
    finished_at: Timestamp
    """When the verdict was given."""
    target: Text = ""
    """What was judged, as NAMESPACE/ROLLOUT."""
    change: Change
    """The change that was judged: what the verdict is bound to."""
    blocking: Annotated[tuple[Label, ...], Field(max_length=64)] = ()
    """Ids of the checks that stop it."""
    checks: Annotated[tuple[CheckResult, ...], Field(max_length=64)] = ()
    """Result of each check."""
    next_actions: Annotated[tuple[Text, ...], Field(max_length=8)] = ()
    """What a person can do now."""
    evidence_digest: Digest | None = None
    """sha256 of the evidence, frozen with the verdict."""
    reason: Annotated[str, Field(max_length=63)]
    """One word for programs."""
    message: Text = ""
    """One sentence for people: why, and what would change it."""
