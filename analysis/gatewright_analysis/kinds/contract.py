"""GateContract: what a change must prove, and what a breach does."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from gatewright_analysis.kinds.base import (
    Label,
    Model,
    Name,
    ObjectMeta,
    PositiveDuration,
    Selector,
    Text,
    rules,
)


class Stage(StrEnum):
    """Where a change is judged."""

    CANARY = "Canary"
    BAKE = "Bake"


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


class OnBreach(StrEnum):
    """What a proven breach does."""

    ROLLBACK = "Rollback"
    HOLD = "Hold"


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


class CountsEvidence(Model):
    """Bad and all events from raw counters, summed over the selectors of each list."""

    source: Name
    """Name of the MetricSource."""
    bad: Annotated[tuple[Selector, ...], Field(min_length=1, max_length=8)]
    """Raw counter selectors of the bad events, summed; the operator adds the matchers that tell canary
    from stable."""
    total: Annotated[tuple[Selector, ...], Field(min_length=1, max_length=8)]
    """Raw counter selectors of all events, bad ones included."""


class LatencyEvidence(Model):
    """The share of requests at or below `le` seconds, which must be a bucket boundary of the histogram."""

    source: Name
    """Name of the MetricSource."""
    histogram: Selector
    """Raw selector of a classic histogram, without _bucket, _count or _sum."""
    le: Annotated[float, Field(gt=0)]
    """Seconds; a bucket boundary of the histogram. A request at or below it is good."""


class SamplesEvidence(Model):
    """Judged samples from raw counters: those that passed, and all."""

    source: Name
    """Name of the MetricSource."""
    passed: Annotated[tuple[Selector, ...], Field(min_length=1, max_length=8)]
    """Raw counter selectors of the samples that the judge passed."""
    total: Annotated[tuple[Selector, ...], Field(min_length=1, max_length=8)]
    """Raw counter selectors of all judged samples."""


class PodsEvidence(Model):
    """The canary's own pods: ready throughout, and not restarted more often than `maxRestarts`."""

    max_restarts: Annotated[int, Field(ge=0, le=1000)] = 0
    """Restarts of the chosen containers that are tolerated, over all canary pods."""
    containers: Annotated[tuple[Label, ...], Field(max_length=32)] = ()
    """Names of the containers to watch; all when empty."""


class Evidence(Model):
    """Where a check's evidence comes from at some stages: exactly one kind."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "[has(self.counts), has(self.latency), has(self.samples), has(self.pods)]"
                ".filter(x, x).size() == 1",
                "An evidence entry has exactly one of counts, latency, samples and pods: "
                "write one entry per kind, each with its own stages.",
            )
        )
    )

    stages: Annotated[tuple[Stage, ...], Field(min_length=1, max_length=2)]
    """Where this evidence is used: Canary (while weights rise), Bake (after 100 %)."""
    counts: CountsEvidence | None = None
    """Bad and total events from counters."""
    latency: LatencyEvidence | None = None
    """Share of requests at or below a bucket boundary of a histogram."""
    samples: SamplesEvidence | None = None
    """Judged samples from counters; for Sampled checks."""
    pods: PodsEvidence | None = None
    """What the canary's pods show: readiness and restarts."""

    @property
    def kind(self) -> str:
        return next(
            kind for kind in ("counts", "latency", "samples", "pods") if getattr(self, kind) is not None
        )

    @property
    def source(self) -> str | None:
        """Name of the MetricSource, None for pods."""
        body = self.counts or self.latency or self.samples
        return None if body is None else body.source


_CHECK_RULES = (
    (
        "self.oracleKind != 'Sampled' || !has(self.onBreach) || self.onBreach == 'Hold'",
        "A Sampled check can hold a release but never roll it back: set onBreach: Hold, or leave it out.",
    ),
    (
        "self.oracleKind == 'Sampled' || self.evidence.all(e, !has(e.samples))",
        "Evidence of the kind samples is a judge's word or a sample: set oracleKind: Sampled.",
    ),
    (
        "self.oracleKind == 'Deterministic' || self.evidence.all(e, !has(e.pods))",
        "Evidence of the kind pods is facts, not samples: set oracleKind: Deterministic.",
    ),
    (
        "has(self.limit) || self.evidence.all(e, has(e.pods))",
        "This check needs a limit: maxBadRatio or minGoodRatio.",
    ),
    (
        "self.evidence.exists(e, !has(e.pods)) "
        "|| !(has(self.limit) || has(self.minSamples) || has(self.plannedSamples))",
        "A check that looks at pods only has maxRestarts as its limit: "
        "leave out limit, minSamples and plannedSamples.",
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
    """The one limit of the check, whatever its evidence. Not for checks that look at pods only."""
    versus_stable: VersusStable | None = None
    """Also a breach: clearly worse than stable in the same windows."""
    min_samples: SampleCount | None = None
    """No pass below this many samples; the smallest number that could prove the limit when left out (at
    least 40)."""
    planned_samples: SampleCount | None = None
    """Samples at which the one final look is taken; planned for 90 % power when left out."""
    evidence: Annotated[tuple[Evidence, ...], Field(min_length=1, max_length=2)]
    """Where the numbers come from, one entry per stage."""
    fix_hint: Text = ""
    """What to look at when the check fails; not part of the contract's version."""

    def evidence_at(self, stage: Stage) -> Evidence | None:
        """The evidence entry for `stage`, or None when the check does not judge there."""
        return next((entry for entry in self.evidence if stage in entry.stages), None)


class TotalFailure(Model):
    """A canary that fails most requests goes at once."""

    bad_ratio: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of bad requests at which the canary counts as failed."""
    for_: Annotated[PositiveDuration, Field(alias="for")] = timedelta(seconds=15)
    """How long it must last; at least three scrapes of the source."""


class Hold(Model):
    """How long a HOLD waits for a person, and what its end does: never a promotion."""

    timeout: PositiveDuration = timedelta(hours=24)
    """How long a HOLD waits for a person."""
    on_timeout: OnBreach = OnBreach.HOLD
    """What happens then. Rollback acts only on a HOLD with a proven deterministic breach; nothing is ever
    promoted by a clock."""
    max_waiver: PositiveDuration = timedelta(hours=72)
    """Longest time an approval may stay in force."""


class GateContractSpec(Model):
    """Checks, thresholds, what a breach does, hold policy."""

    fail_mode: OnBreach = OnBreach.ROLLBACK
    """What a proven deterministic breach does, unless its check says otherwise."""
    total_failure: TotalFailure = TotalFailure()
    """When a canary that fails most requests goes at once."""
    hold: Hold = Hold()
    """How long a HOLD waits for a person, and what its end does."""
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
