"""NotificationSink: whom to tell that a person is needed, how, and what was told."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from gatewright_analysis.kinds.base import (
    Condition,
    Model,
    ObjectMeta,
    PositiveDuration,
    Text,
    Timestamp,
    rules,
)
from gatewright_analysis.kinds.source import LabelSelector, SecretKey

_LOOPBACK = "^http://(localhost|127\\\\.0\\\\.0\\\\.1|\\\\[::1\\\\])(:[0-9]+)?(/.*)?$"
_SAFE = f"(self.address.startsWith('https://') || self.address.matches('{_LOOPBACK}'))"


class NoticeKind(StrEnum):
    """What can be told."""

    HELD = "Held"
    ESCALATED = "Escalated"
    HOLD_ENDED = "HoldEnded"
    STARTED = "Started"
    PROMOTED = "Promoted"
    ROLLED_BACK = "RolledBack"
    COMPLETED = "Completed"
    SOURCE_DOWN = "SourceDown"
    SOURCE_UP = "SourceUp"


class Severity(StrEnum):
    """Severities of PagerDuty's Events v2."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class EventFormat(StrEnum):
    """CloudEvents: types `dev.gatewright.…`. CDEvents: custom types `dev.cdeventsx.gatewright-…`."""

    CLOUD_EVENTS = "CloudEvents"
    CD_EVENTS = "CDEvents"


class SlackSink(Model):
    """A Slack channel."""

    channel: Annotated[str, Field(max_length=80, pattern="^[#A-Za-z0-9][A-Za-z0-9._-]*$")] | None = None
    """Needed when the Secret holds a bot token: where it posts, such as C0123456789. The URL of an incoming webhook has
    its channel already."""


class WebhookSink(Model):
    """A signed JSON document, by POST."""


class PagerDutySink(Model):
    """PagerDuty's Events v2."""

    held_severity: Severity = Severity.WARNING
    """Severity of a HOLD."""
    escalated_severity: Severity = Severity.CRITICAL
    """Severity of a HOLD that was escalated."""


class CloudEventsSink(Model):
    """CloudEvents 1.0 in structured JSON, by POST."""

    format: EventFormat = EventFormat.CLOUD_EVENTS
    """CloudEvents, or CDEvents inside of them."""


class NotificationSinkSpec(Model):
    """Exactly one of slack, webhook, pagerDuty and cloudEvents, and what it is told."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "[has(self.slack), has(self.webhook), has(self.pagerDuty), has(self.cloudEvents)].filter(x, x).size() == 1",
                "A sink is exactly one of slack, webhook, pagerDuty and cloudEvents.",
            ),
            (
                "has(self.address) || has(self.slack) || has(self.pagerDuty)",
                "webhook and cloudEvents need an address to post to.",
            ),
            (
                "has(self.secretRef) || has(self.cloudEvents)",
                "secretRef is needed: Slack's webhook URL or token, the webhook's signing key, or PagerDuty's routing key.",
            ),
            (
                f"!has(self.address) || !(has(self.slack) || has(self.pagerDuty) || has(self.cloudEvents) && has(self.secretRef)) || {_SAFE}",
                "The secret of this sink is sent along: give an https address, or one on localhost.",
            ),
            (
                "!has(self.ca) || has(self.address) && self.address.startsWith('https://')",
                "ca is for an https address: give one, or leave ca out.",
            ),
            (
                "!has(self.pagerDuty) || self.notices.all(kind, kind in ['Held', 'Escalated', 'HoldEnded', 'SourceDown', 'SourceUp'])",
                "A pager is for what waits for a person: notices may hold Held, Escalated and SourceDown; their ends follow by themselves.",
            ),
            (
                "duration(self.timeout) <= duration('60s')",
                "timeout must not be longer than 60s.",
            ),
        )
    )

    slack: SlackSink | None = None
    """Slack blocks. The Secret holds the URL of an incoming webhook, or a bot token."""
    webhook: WebhookSink | None = None
    """Signed JSON. The Secret holds the key of the signature."""
    pager_duty: PagerDutySink | None = None
    """PagerDuty's Events v2. The Secret holds the routing key (integration key)."""
    cloud_events: CloudEventsSink | None = None
    """CloudEvents. The Secret, if any, holds a bearer token."""
    address: (
        Annotated[
            str,
            Field(
                max_length=512,
                pattern=r"^https?://[^\s#@]+$",
                json_schema_extra=rules(
                    (
                        r"self.matches('^https?://[^\\s#@]+$')",
                        "address is an http or https URL without credentials and fragment, "
                        "for example https://hooks.example.com/gatewright.",
                    )
                ),
            ),
        ]
        | None
    ) = None
    """Where to post. Left out: Slack's URL from the Secret, or Slack's and PagerDuty's public API."""
    secret_ref: SecretKey | None = None
    """The sink's secret, in the operator's namespace."""
    ca: SecretKey | None = None
    """Secret key with the PEM bundle of the CA that signed the server's certificate; the system's when left out."""
    timeout: PositiveDuration = timedelta(seconds=10)
    """Longest time for one request."""
    namespaces: LabelSelector | None = None
    """Rollouts of which namespaces (by their labels) it is told of; unset means all."""
    notices: Annotated[tuple[NoticeKind, ...], Field(min_length=1, max_length=9)] = (
        NoticeKind.HELD,
        NoticeKind.ESCALATED,
    )
    """What it is told (not called `on`, which YAML 1.1 reads as true). Holds that rest on a source that is down are told as one SourceDown, with Held alone too."""
    review_url: Annotated[
        Annotated[str, Field(max_length=512, pattern=r"^https?://[^\s?#@]+$")] | None,
        Field(alias="reviewURL"),
    ] = None
    """Base of the review page; links lead to BASE/holds/NAMESPACE/ROLLOUT."""
    cluster: Annotated[str, Field(max_length=63, pattern="^[A-Za-z0-9][A-Za-z0-9._-]*$")] | None = None
    """What this cluster is called in texts and events."""


class DeliveryState(StrEnum):
    """What became of one notification."""

    SENDING = "Sending"
    SENT = "Sent"
    FAILED = "Failed"
    GIVEN_UP = "GivenUp"


DeliveryKey = Annotated[str, Field(max_length=32, pattern="^[0-9a-f]{32}$")]


class Delivery(Model):
    """One notification to this sink, and what became of it."""

    key: DeliveryKey
    """Its idempotency key: the same at every repetition."""
    kind: NoticeKind
    """What it tells."""
    subject: DeliveryKey
    """What it is about, the same for all that is told of one HOLD; PagerDuty's dedup_key."""
    namespace: Annotated[str, Field(max_length=63)] = ""
    """Namespace of the Rollout; empty for a MetricSource."""
    name: Annotated[str, Field(max_length=253)] = ""
    """The Rollout, or the MetricSource."""
    state: DeliveryState
    """Sending: on its way. Sent: accepted. Failed: tried again at nextAttemptAt. GivenUp: not tried again."""
    attempts: int = 0
    """How often it was sent."""
    uncertain: bool = False
    """An attempt ended without an answer, so the sink may have had it already: a later one may be a repetition."""
    at: Timestamp
    """When it was sent first."""
    changed_at: Timestamp
    """When the state changed last."""
    next_attempt_at: Timestamp | None = None
    """When it is tried again."""
    message: Text = ""
    """One sentence: why it failed or was given up."""


class NotificationSinkStatus(Model):
    """What was told, and whether the sink takes it; a report that only the operator writes."""

    observed_generation: int = 0
    """The generation that this status speaks about."""
    sent: int = 0
    """How many notifications the sink has accepted so far."""
    given_up: int = 0
    """How many were given up."""
    waiting: int = 0
    """How many wait for another attempt."""
    last_sent_at: Timestamp | None = None
    """When the sink last accepted one."""
    deliveries: Annotated[tuple[Delivery, ...], Field(max_length=1000)] = ()
    """The newest 50, and all that still stand or wait."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=8)] = ()
    """Ready."""


class NotificationSink(Model):
    """Whom to tell that a person is needed: Slack, PagerDuty, a webhook, or a receiver of CloudEvents."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NotificationSinkSpec
    """Whom to tell, and what."""
    status: NotificationSinkStatus = NotificationSinkStatus()
    """A report that only the operator writes."""
