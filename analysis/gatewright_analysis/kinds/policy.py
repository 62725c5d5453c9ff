"""What a contract says beyond its checks: breaches, attempts, the world, and how long a HOLD waits."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gatewright_analysis.kinds.base import Label, LabelName, Model, Name, PositiveDuration, Selector, rules


class OnBreach(StrEnum):
    """What a proven breach does."""

    ROLLBACK = "Rollback"
    HOLD = "Hold"


class TotalFailure(Model):
    """A canary that fails most requests goes at once."""

    bad_ratio: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of bad requests at which the canary counts as failed."""
    for_: Annotated[PositiveDuration, Field(alias="for")] = timedelta(seconds=15)
    """How long it must last; at least three scrapes of the source."""


class ErrorBudget(StrEnum):
    """What shares one chance of a false promotion: the attempts on one artifact, or three artifacts together."""

    ARTIFACT = "Artifact"
    FAMILY = "Family"


class Attempts(Model):
    """How often may be tried before a person has to say that it may go on."""

    budget: Annotated[int, Field(ge=1, le=100)] = 3
    """Revisions in a row that may be tried without one of them being promoted; then only a person's Retry
    lets another start."""
    error_budget: ErrorBudget = ErrorBudget.ARTIFACT
    """Artifact: each artifact has the whole chance of a false promotion, over all its attempts. Family: three
    different artifacts under the same contract and world share it, so each has to prove more."""


class Fingerprint(Model):
    """Something that the workload or its judge depends on and that may change without a deployment."""

    name: Label
    """What it is called in sentences, for example judge-model."""
    source: Name
    """Name of the MetricSource."""
    series: Selector
    """Raw selector of an info metric, one series: judge_info. It is asked as it stands, for no arm."""
    labels: Annotated[tuple[LabelName, ...], Field(min_length=1, max_length=8)]
    """Labels whose values make the fingerprint: model, version, digest."""


class World(Model):
    """What a version runs with besides its images, and what its verdicts are therefore bound to."""

    fingerprints: Annotated[
        tuple[Fingerprint, ...],
        Field(
            max_length=16,
            json_schema_extra=rules(
                (
                    "self.all(f, self.exists_one(g, g.name == f.name))",
                    "Two fingerprints have the same name: each needs its own.",
                )
            ),
        ),
    ] = ()
    """Models and judges by what they say of themselves. One that changes during a rollout voids what was
    judged before, and ends in HOLD."""


class SeparationOfDuties(StrEnum):
    """What follows when the same person wrote the contract and started the change that it judges."""

    DISCLOSE = "Disclose"
    ENFORCE = "Enforce"


ServiceAccountUser = Annotated[
    str,
    Field(
        max_length=253,
        pattern="^system:serviceaccount:[a-z0-9]([-a-z0-9]*[a-z0-9])?:[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
    ),
]
"""A service account as the API server knows it: `system:serviceaccount:NAMESPACE:NAME`."""


class Hold(Model):
    """How long a HOLD waits for a person, who that may be, and what its end does: never a promotion."""

    escalate_after: PositiveDuration = timedelta(minutes=15)
    """When a HOLD that nobody has decided is escalated: the second, louder notification. The end of the wait escalates
    as well, where it comes first."""
    timeout: PositiveDuration = timedelta(hours=24)
    """How long a HOLD waits for a person."""
    on_timeout: OnBreach = OnBreach.HOLD
    """What happens then. Rollback acts only on a HOLD with a proven deterministic breach; nothing is ever
    promoted by a clock."""
    max_waiver: PositiveDuration = timedelta(hours=72)
    """Longest time an approval may stay in force."""
    min_approvals: Annotated[int, Field(ge=1, le=10)] = 1
    """How many different people must approve before a HOLD is waived."""
    separation_of_duties: SeparationOfDuties = SeparationOfDuties.DISCLOSE
    """Disclose: a review says when the contract was last written by the one who started the change. Enforce: that is a
    HOLD."""
    service_accounts: Annotated[tuple[ServiceAccountUser, ...], Field(max_length=16)] = ()
    """Service accounts that may approve and order, each as `system:serviceaccount:NAMESPACE:NAME`; all others are
    refused."""
