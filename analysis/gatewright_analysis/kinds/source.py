"""MetricSource: where numbers come from, and how canary and stable are told apart there."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from gatewright_analysis.kinds.base import (
    Condition,
    Label,
    LabelName,
    LabelValue,
    Model,
    Name,
    ObjectMeta,
    PositiveDuration,
    rules,
)


class ArmsBy(StrEnum):
    """What tells the arms apart: the pod's name, a pod label (the revision), the Service, or the workload."""

    POD_NAME = "PodName"
    POD_LABEL = "PodLabel"
    SERVICE = "Service"
    WORKLOAD = "Workload"


class Producer(StrEnum):
    """Who makes the numbers; shown with the evidence."""

    WORKLOAD = "Workload"
    PLATFORM = "Platform"
    JUDGE = "Judge"


class Arms(Model):
    """Metric labels that carry the arm and its namespace."""

    by: ArmsBy
    """What the label holds: the pod's name, the value of a pod label (the revision), the Service, or the
    workload's name."""
    label: LabelName
    """Metric label that tells canary from stable, for example pod."""
    namespace_label: LabelName = "namespace"
    """Metric label that holds the namespace of the pods."""


class SecretKey(Model):
    """A key of a Secret in the operator's own namespace."""

    name: Name
    """Name of the Secret, in the operator's namespace."""
    key: Annotated[str, Field(min_length=1, max_length=253)]
    """Key in its data."""


class BasicAuth(Model):
    """User name and password."""

    username: SecretKey
    """Where the user name is kept."""
    password: SecretKey
    """Where the password is kept."""


class Auth(Model):
    """How to log in: exactly one of bearer and basic. Sent to the source's own origin only."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.bearer) != has(self.basic)",
                "auth is exactly one of bearer and basic; leave auth out for none.",
            )
        )
    )

    bearer: SecretKey | None = None
    """Where the bearer token is kept."""
    basic: BasicAuth | None = None
    """Where user name and password are kept."""


class LabelSelector(Model):
    """Which namespaces, by their labels."""

    match_labels: Annotated[dict[str, LabelValue], Field(max_length=16)] = Field(default_factory=dict)
    """Labels that a namespace must have, all of them."""


class ResultFiles(Model):
    """Where `gatewright evidence push` puts result files: ConfigMaps of one namespace."""

    namespace: Name | None = None
    """Namespace that holds them; that of the Rollout when left out. Who may create ConfigMaps there may say what
    a suite found."""


class MetricSourceSpec(Model):
    """A Prometheus-compatible API, or a place that result files are pushed to."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.address) != has(self.evidence)",
                "A MetricSource is a Prometheus (address) or a place of result files (evidence): give one of both.",
            ),
            (
                "has(self.address) == has(self.arms)",
                "arms tell canary and stable apart at an address: give both, or neither.",
            ),
            (
                "!has(self.evidence) || !(has(self.auth) || has(self.ca))",
                "Result files are read from the API server: leave out auth and ca.",
            ),
            (
                "!has(self.auth) || !has(self.address) || self.address.startsWith('https://')",
                "auth is sent over https only: give an https address, or leave auth out.",
            ),
            (
                "!has(self.ca) || !has(self.address) || self.address.startsWith('https://')",
                "ca is for https only: give an https address, or leave ca out.",
            ),
            (
                "duration(self.timeout) <= duration('60s')",
                "timeout must not be longer than 60s: a source that slow can't judge a release.",
            ),
        )
    )

    address: (
        Annotated[
            str,
            Field(
                max_length=512,
                pattern=r"^https?://[^\s?#@]+$",
                json_schema_extra=rules(
                    (
                        r"self.matches('^https?://[^\\s?#@]+$')",
                        "address is an http or https URL without credentials, query and fragment, "
                        "for example https://prometheus.monitoring:9090.",
                    )
                ),
            ),
        ]
        | None
    ) = None
    """URL of a Prometheus-compatible API, without query, fragment or credentials:
    https://prometheus.monitoring:9090."""
    evidence: ResultFiles | None = None
    """Result files instead of counters: for samples, scores and paired evidence of a suite."""
    auth: Auth | None = None
    """How to log in; over https only."""
    ca: SecretKey | None = None
    """Secret key with the PEM bundle of the CA that signed the server's certificate; the system's when
    left out."""
    timeout: PositiveDuration = timedelta(seconds=10)
    """Longest time for one request."""
    scrape_interval: PositiveDuration = timedelta(seconds=15)
    """How often the source scrapes; windows must hold at least two."""
    allowed_namespaces: LabelSelector | None = None
    """Namespaces (by their labels) whose contracts may use this source; unset means all."""
    arms: Arms | None = None
    """How canary and stable are told apart there; not for result files, which say what they are about."""
    producer: Producer
    """Who makes the numbers: the Workload itself, the Platform (proxy, mesh), or a Judge."""


class MetricSourceStatus(Model):
    observed_generation: int = 0
    """The generation that this status speaks about."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=8)] = ()
    """Ready."""


class MetricSource(Model):
    """A place that numbers come from, and how canary and stable are told apart there. Contracts name it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MetricSourceSpec
    """Where numbers come from."""
    status: MetricSourceStatus = MetricSourceStatus()
    """A report that only the operator writes."""


__all__ = [
    "Arms", "ArmsBy", "Auth", "BasicAuth", "Label", "LabelSelector", "MetricSource", "MetricSourceSpec",
    "MetricSourceStatus", "Producer", "SecretKey",
]  # fmt: skip
