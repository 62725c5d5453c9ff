"""The kinds of evidence that a check may rest on. An entry of a check holds exactly one of them."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from gatewright_analysis.kinds.base import Label, Model, Name, PositiveDuration, Selector, rules


class Stage(StrEnum):
    """Where a change is judged."""

    CANARY = "Canary"
    BAKE = "Bake"


Selectors = Annotated[tuple[Selector, ...], Field(min_length=1, max_length=8)]


class CountsEvidence(Model):
    """Bad and all events from raw counters, summed over the selectors of each list."""

    source: Name
    """Name of the MetricSource."""
    bad: Selectors
    """Raw counter selectors of the bad events, summed; the operator adds the matchers that tell canary
    from stable."""
    total: Selectors
    """Raw counter selectors of all events, bad ones included."""


class LatencyEvidence(Model):
    """The share of requests at or below `le` seconds, which must be a bucket boundary of the histogram."""

    source: Name
    """Name of the MetricSource."""
    histogram: Selector
    """Raw selector of a histogram, classic or native, without _bucket, _count or _sum. Where a target exposes both
    forms, the classic one is counted."""
    le: Annotated[float, Field(gt=0)]
    """Seconds; a bucket boundary of the histogram. A request at or below it is good. Of a native histogram no bucket
    that has ever held a request may have it inside."""


class BurnRateEvidence(Model):
    """Bad and all events against an error budget: the limit is maxBurn · (1 − objective)."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.maxBurn * (1.0 - self.objective) < 1.0",
                "maxBurn times (1 - objective) must stay below 1: a higher burn rate can't happen.",
            )
        )
    )

    source: Name
    """Name of the MetricSource."""
    bad: Selectors
    """Raw counter selectors of the bad events, summed."""
    total: Selectors
    """Raw counter selectors of all events, bad ones included."""
    objective: Annotated[float, Field(ge=0.5, le=0.99999)]
    """The service's objective, a share of good events: 0.999 leaves an error budget of 0.1 %."""
    max_burn: Annotated[float, Field(gt=0, le=10_000)]
    """How many times as fast as the objective allows the budget may be used up: 14.4 would use up that of 30
    days in 50 hours."""

    @property
    def limit(self) -> float:
        """The largest bad ratio that this burn rate allows."""
        return round(self.max_burn * (1.0 - self.objective), 12)


class Aggregate(StrEnum):
    """How the values of several series become one."""

    AVG = "Avg"
    MIN = "Min"
    MAX = "Max"
    SUM = "Sum"


class ValueScope(StrEnum):
    """Whose value it is: the canary's, or one that canary and stable share."""

    CANARY = "Canary"
    WORKLOAD = "Workload"


class ValueEvidence(Model):
    """A gauge that must stay inside limits. Place them at least three standard deviations from normal."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("has(self.min) || has(self.max)", "A value needs a limit: min, max, or both."),
            (
                "!has(self.min) || !has(self.max) || self.min < self.max",
                "min must be below max, or every value would be outside.",
            ),
        )
    )

    source: Name
    """Name of the MetricSource."""
    query: Annotated[
        str,
        Field(
            min_length=1,
            max_length=512,
            json_schema_extra=rules(
                (
                    "self.contains('$arm')",
                    "The query needs the placeholder $arm between braces, where Gatewright puts the matchers "
                    "of the arm: max(process_open_fds{$arm}).",
                )
            ),
        ),
    ]
    """PromQL with the placeholder `$arm` inside every selector, which becomes the matchers of the arm:
    `max(process_open_fds{$arm})`. It must give one series, or `aggregate` says how several become one."""
    min: float | None = None
    """The smallest value that is still good."""
    max: float | None = None
    """The largest value that is still good."""
    aggregate: Aggregate | None = None
    """How the values of several series become one; left out, several series can't be judged."""
    min_windows: Annotated[int, Field(ge=3, le=1000)] = 10
    """Readings that a pass needs; the newest that many must all be inside."""
    spacing: PositiveDuration = timedelta(seconds=30)
    """Least time between two readings that count; nearer ones say the same thing twice."""
    scope: ValueScope = ValueScope.CANARY
    """Canary: the canary's own value. Workload: one value of canary and stable together, which can hold a
    release and never roll it back."""


class SamplesEvidence(Model):
    """Judged samples: from raw counters, those that passed and all; or from a suite's result files."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.suite) ? !has(self.passed) && !has(self.total) : has(self.passed) && has(self.total)",
                "Samples come from counters (passed and total) or from result files (suite): give one of both.",
            )
        )
    )

    source: Name
    """Name of the MetricSource: one with an address for counters, one of the kind evidence for a suite."""
    passed: Annotated[tuple[Selector, ...], Field(min_length=1, max_length=8)] | None = None
    """Raw counter selectors of the samples that the judge passed."""
    total: Annotated[tuple[Selector, ...], Field(min_length=1, max_length=8)] | None = None
    """Raw counter selectors of all judged samples."""
    suite: Label | None = None
    """Name under which `gatewright evidence push` puts the result files."""


class SuiteEvidence(Model):
    """Results that were pushed as files."""

    source: Name
    """Name of the MetricSource, of the kind evidence."""
    suite: Label
    """Name under which `gatewright evidence push` puts the result files."""


class PodsEvidence(Model):
    """The canary's own pods: ready throughout, and not restarted more often than `maxRestarts`."""

    max_restarts: Annotated[int, Field(ge=0, le=1000)] = 0
    """Restarts of the chosen containers that are tolerated, over all canary pods."""
    containers: Annotated[tuple[Label, ...], Field(max_length=32)] = ()
    """Names of the containers to watch; all when empty."""


class JobReport(StrEnum):
    """What a Job says."""

    EXIT_CODE = "ExitCode"
    COUNTS = "Counts"


class JobEvidence(Model):
    """A Job that is run once for each gate, from a CronJob in the Rollout's namespace (suspended, as a rule)."""

    cron_job: Name
    """Name of the CronJob whose template is run, as `kubectl create job --from=cronjob/NAME` does."""
    report: JobReport
    """ExitCode: 0 passes, anything else fails. Counts: the last container to end writes
    `{"good": 980, "bad": 20}` to its termination message, which is judged by the check's limit."""


KINDS = ("counts", "latency", "burnRate", "value", "samples", "scores", "paired", "pods", "job")
"""Names of all kinds, as they stand in an entry."""


class Evidence(Model):
    """Where a check's evidence comes from at some stages: exactly one kind."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "[" + ", ".join(f"has(self.{kind})" for kind in KINDS) + "].filter(x, x).size() == 1",
                f"An evidence entry has exactly one of {', '.join(KINDS[:-1])} and {KINDS[-1]}: "
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
    burn_rate: BurnRateEvidence | None = None
    """Bad and total events from counters, against an error budget."""
    value: ValueEvidence | None = None
    """A gauge that must stay inside limits."""
    samples: SamplesEvidence | None = None
    """Samples that a judge passed or failed; for Sampled checks."""
    scores: SuiteEvidence | None = None
    """Scores between 0 and 1 from result files; for Sampled checks."""
    paired: SuiteEvidence | None = None
    """The same items given to canary and stable, from result files: wins and losses; for Sampled checks."""
    pods: PodsEvidence | None = None
    """What the canary's pods show: readiness and restarts."""
    job: JobEvidence | None = None
    """A Job's exit code, or the counts that it reports."""

    @property
    def kind(self) -> str:
        """Its name as it stands in the manifest."""
        return next(kind for kind in KINDS if getattr(self, _ATTRIBUTES[kind]) is not None)

    @property
    def source(self) -> str | None:
        """Name of the MetricSource; None for pods and job."""
        body = getattr(self, _ATTRIBUTES[self.kind])
        return getattr(body, "source", None)

    @property
    def suite(self) -> str | None:
        """Name of the suite whose result files are read; None for everything else."""
        body = self.samples or self.scores or self.paired
        return None if body is None else body.suite

    @property
    def counted(self) -> bool:
        """Deterministic events from counters, judged window by window."""
        return self.counts is not None or self.latency is not None or self.burn_rate is not None

    @property
    def from_counters(self) -> bool:
        """Read window by window from counters of a Prometheus."""
        return self.counted or (self.samples is not None and self.samples.suite is None)


_ATTRIBUTES = {kind: "burn_rate" if kind == "burnRate" else kind for kind in KINDS}
