"""GateContract: what a change must prove, and what a breach does."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from gatewright_analysis.kinds.base import (
    Label,
    Model,
    ObjectMeta,
    Text,
    rules,
)
from gatewright_analysis.kinds.evidence import Evidence as Evidence
from gatewright_analysis.kinds.evidence import JobReport
from gatewright_analysis.kinds.evidence import Stage as Stage
from gatewright_analysis.kinds.policy import Attempts, Hold, TotalFailure, World
from gatewright_analysis.kinds.policy import OnBreach as OnBreach


class OracleKind(StrEnum):
    """Deterministic: each event is judged by a fixed rule. Sampled: a judge, or a sample of a population.

    What is sampled can HOLD a release and never roll one back.
    """

    DETERMINISTIC = "Deterministic"
    SAMPLED = "Sampled"


class Require(StrEnum):
    """What a check must reach for PROMOTE."""

    PASS = "Pass"
    NO_BREACH = "NoBreach"
    ADVISORY = "Advisory"


Ratio = Annotated[
    float,
    Field(
        gt=0,
        lt=1,
        json_schema_extra=rules(
            ("self > 0.0 && self < 1.0", "A share lies between 0 and 1, both excluded: write 1 % as 0.01.")
        ),
    ),
]
SampleCount = Annotated[int, Field(ge=40, le=10_000_000)]
"""Below 40 samples a 95 % bound is not what it says (statistics.md R2)."""
LabelledCount = Annotated[int, Field(ge=0, le=1_000_000)]


class Limit(Model):
    """The one limit of a check: the largest share of bad events, or the smallest share of good ones."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.maxBadRatio) != has(self.minGoodRatio)",
                "A limit is exactly one of maxBadRatio and minGoodRatio.",
            )
        )
    )

    max_bad_ratio: Ratio | None = None
    """Largest share of bad events, between 0 and 1: 0.01 allows 1 %."""
    min_good_ratio: Ratio | None = None
    """Smallest share of good events, between 0 and 1: 0.99 asks for 99 %."""

    @property
    def threshold(self) -> float:
        """The smallest good ratio that the check promises, in (0, 1)."""
        if self.min_good_ratio is not None:
            return self.min_good_ratio
        if self.max_bad_ratio is not None:
            return 1.0 - self.max_bad_ratio
        raise ValueError("a limit needs maxBadRatio or minGoodRatio")


class VersusStable(Model):
    """How much worse than stable, in the same windows, is a breach."""

    max_ratio: Annotated[float, Field(gt=1, le=100)] = 1.25
    """Canary's bad ratio over stable's that is still tolerated: 1.25 allows a quarter more."""
    min_increase: Ratio | None = None
    """Smallest increase of the bad ratio that counts as a breach; a tenth of the limit when left out."""


class SpendingFunction(StrEnum):
    """How the error that a check may make is spread over its looks."""

    O_BRIEN_FLEMING = "OBrienFleming"
    POCOCK = "Pocock"
    QUADRATIC = "Quadratic"


class Spending(Model):
    """A fixed schedule of looks in place of looking always: exact group-sequential limits (statistics.md 4.3)."""

    looks: Annotated[int, Field(ge=2, le=20)]
    """How many looks, evenly spaced in samples up to `plannedSamples`."""
    function: SpendingFunction
    """OBrienFleming spends little at the first looks, Pocock as much at each, Quadratic lies between them."""


class Calibration(Model):
    """How a judge did on samples that people had labelled: each number is a count of samples."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.passedGood + self.failedGood >= 1 && self.passedBad + self.failedBad >= 1",
                "A calibration needs samples that people found good and samples that they found bad.",
            )
        )
    )

    passed_good: LabelledCount
    """Good samples that the judge passed."""
    failed_good: LabelledCount
    """Good samples that the judge failed."""
    passed_bad: LabelledCount
    """Bad samples that the judge passed."""
    failed_bad: LabelledCount
    """Bad samples that the judge failed."""


class Tier(StrEnum):
    """How much a check costs: Fast ones answer at once, Full ones are for the last word."""

    FAST = "Fast"
    FULL = "Full"


class Pool(StrEnum):
    """What a pass may rest on: this step alone, or all steps of this rollout."""

    STEP = "Step"
    ROLLOUT = "Rollout"


_NO_LIMIT = "has(e.pods) || has(e.value) || has(e.burnRate) || (has(e.job) && e.job.report == 'ExitCode')"
_COUNTED = "has(e.counts) || has(e.latency) || has(e.burnRate) || (has(e.samples) && has(e.samples.passed))"
_CHECK_RULES = (
    (
        "self.oracleKind != 'Sampled' || !has(self.onBreach) || self.onBreach == 'Hold'",
        "A Sampled check can hold a release but never roll it back: set onBreach: Hold, or leave it out.",
    ),
    (
        "self.oracleKind == 'Sampled' || self.evidence.all(e, !(has(e.samples) || has(e.scores) || has(e.paired)))",
        "Evidence of the kinds samples, scores and paired is a judge's word or a sample: set oracleKind: Sampled.",
    ),
    (
        "self.oracleKind == 'Deterministic' || self.evidence.all(e, !(has(e.pods) || has(e.value) || has(e.burnRate)))",
        "Evidence of the kinds pods, value and burnRate is facts, not samples: set oracleKind: Deterministic.",
    ),
    (
        f"has(self.limit) || self.evidence.all(e, has(e.paired) || {_NO_LIMIT})",
        "This check needs a limit: maxBadRatio or minGoodRatio.",
    ),
    (
        f"self.evidence.exists(e, !({_NO_LIMIT})) || !has(self.limit)",
        "All evidence of this check has a limit of its own (maxRestarts, min and max, maxBurn, the exit code): "
        "leave out limit.",
    ),
    (
        "self.evidence.exists(e, !(has(e.pods) || has(e.value) || (has(e.job) && e.job.report == 'ExitCode')))"
        " || !(has(self.minSamples) || has(self.plannedSamples))",
        "This check counts no samples: leave out minSamples and plannedSamples.",
    ),
    (
        "!has(self.versusStable) || self.oracleKind == 'Deterministic' "
        "&& self.evidence.exists(e, 'Canary' in e.stages && (has(e.counts) || has(e.latency)))",
        "versusStable compares events of canary and stable: "
        "it needs oracleKind: Deterministic and counts or latency evidence for the stage Canary.",
    ),
    (
        "!has(self.minSamples) || !has(self.plannedSamples) || self.minSamples <= self.plannedSamples",
        "plannedSamples must not be below minSamples: the final look would come before a pass is possible.",
    ),
    (
        f"!has(self.spending) || self.pool == 'Step' && self.evidence.all(e, {_COUNTED})",
        "spending is for events from counters at one step: it needs counts, latency, burnRate or samples with "
        "passed and total, and pool: Step.",
    ),
    (
        f"self.pool == 'Step' || self.evidence.exists(e, 'Canary' in e.stages && ({_COUNTED}))",
        "pool: Rollout adds up events of several steps: it needs counts, latency, burnRate or samples with passed "
        "and total for the stage Canary.",
    ),
    (
        "!has(self.calibration) || self.evidence.all(e, has(e.samples))",
        "A calibration says how a judge passes and fails samples: it needs evidence of the kind samples.",
    ),
    (
        "self.oracleKind != 'Sampled' || !has(self.tier) || self.tier == 'Full'",
        "A Sampled check is never Fast: set tier: Full, or leave it out.",
    ),
    (
        "self.evidence.all(e, e.stages.all(s, e.stages.exists_one(t, t == s)"
        " && self.evidence.exists_one(f, s in f.stages)))",
        "A stage stands once in one evidence entry of a check: take it out of the other, or make two checks.",
    ),
)


class Check(Model):
    """One thing a change must prove."""

    model_config = ConfigDict(json_schema_extra=rules(*_CHECK_RULES))

    id: Label
    """Name of the check in verdicts and reviews; a DNS label, unique in the contract."""
    title: Text = ""
    """One line for people; not part of the contract's version."""
    oracle_kind: OracleKind
    """Deterministic: each event falls under a fixed rule. Sampled: a judge model, or a sample of a
    population; it can hold a release but never roll it back."""
    require: Require = Require.PASS
    """What it takes to promote. Pass: proven on enough samples. NoBreach: enough traffic and no breach.
    Advisory: shown, changes nothing."""
    on_breach: OnBreach | None = None
    """What a proven breach does; failMode when left out. Sampled checks always Hold."""
    limit: Limit | None = None
    """The one limit of the check, whatever its evidence. Left out where the evidence has a limit of its own;
    for paired the share of wins among what differs, one half when left out."""
    versus_stable: VersusStable | None = None
    """Also a breach: clearly worse than stable in the same windows."""
    min_samples: SampleCount | None = None
    """No pass below this many samples; the smallest number that could prove the limit when left out (at
    least 40)."""
    planned_samples: SampleCount | None = None
    """Samples at which the one final look is taken; planned for 90 % power when left out."""
    confidence: Annotated[float, Field(ge=0.9, le=0.999)] = 0.95
    """Two-sided confidence of the bounds. A version at or below the threshold is promoted with a probability
    below 1 - confidence, however often it is looked at."""
    spending: Spending | None = None
    """A fixed schedule of looks in place of looking always."""
    calibration: Calibration | None = None
    """How often the judge errs, from samples that people labelled; the threshold is raised by as much as its
    errors may flatter. Without it a judge's word counts as it is, and the evidence says uncalibrated."""
    pool: Pool = Pool.STEP
    """What a pass may rest on. Rollout: at each gate but the last no breach is enough, and at the last the
    events of all steps together must prove the limit. A breach never pools over steps alone."""
    tier: Tier | None = None
    """Fast or Full; Sampled checks are Full, others Fast when left out."""
    evidence: Annotated[tuple[Evidence, ...], Field(min_length=1, max_length=2)]
    """Where the numbers come from, one entry per stage."""
    fix_hint: Text = ""
    """What to look at when the check fails; not part of the contract's version."""

    def evidence_at(self, stage: Stage) -> Evidence | None:
        """The evidence entry for `stage`, or None when the check does not judge there."""
        return next((entry for entry in self.evidence if stage in entry.stages), None)

    def limit_at(self, stage: Stage) -> Limit | None:
        """What is allowed at `stage`: the check's limit, or the one that its evidence has; None where the evidence is
        no share of events."""
        entry = self.evidence_at(stage)
        if entry is None or entry.pods is not None or entry.value is not None:
            return None
        if entry.burn_rate is not None:
            return Limit(max_bad_ratio=entry.burn_rate.limit)
        if entry.job is not None and entry.job.report is JobReport.EXIT_CODE:
            return None
        if entry.paired is not None and self.limit is None:
            return Limit(min_good_ratio=0.5)
        return self.limit

    @property
    def cost(self) -> Tier:
        """The tier, also where the contract leaves it out."""
        sampled = self.oracle_kind is OracleKind.SAMPLED
        return self.tier or (Tier.FULL if sampled else Tier.FAST)


class GateContractSpec(Model):
    """Checks, thresholds, what a breach does, hold policy."""

    fail_mode: OnBreach = OnBreach.ROLLBACK
    """What a proven deterministic breach does, unless its check says otherwise."""
    total_failure: TotalFailure = TotalFailure()
    """When a canary that fails most requests goes at once."""
    attempts: Attempts = Attempts()
    """How often may be tried before a person has to say that it may go on."""
    hold: Hold = Hold()
    """How long a HOLD waits for a person, and what its end does."""
    world: World = World()
    """What a version runs with besides its images."""
    checks: Annotated[
        tuple[Check, ...],
        Field(
            min_length=1,
            max_length=64,
            json_schema_extra=rules(
                (
                    "self.all(c, self.exists_one(d, d.id == c.id))",
                    "Two checks have the same id: each needs its own.",
                ),
                (
                    "self.exists(c, c.require == 'Pass')",
                    "At least one check needs require: Pass, or nothing would have to be proven.",
                ),
            ),
        ),
    ]
    """What the change must prove; at least one check with require: Pass."""

    def on_breach(self, check: Check) -> OnBreach:
        """What a proven breach of `check` does: its own word, else `failMode`. A sampled check only holds."""
        if check.oracle_kind is OracleKind.SAMPLED:
            return OnBreach.HOLD
        return check.on_breach or self.fail_mode


class GateContract(Model):
    """What a change must prove before it goes on, and what a breach does. It can serve many Rollouts."""

    metadata: ObjectMeta = ObjectMeta()
    spec: GateContractSpec
    """What a change must prove."""
