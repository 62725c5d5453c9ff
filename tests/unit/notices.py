"""Rollouts, sources and sinks of the tests of notifications, as status has them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from gatewright_analysis.kinds.base import Condition, ObjectMeta
from gatewright_analysis.kinds.rollout import CanaryStatus, HoldStatus, Phase, RolloutStatus
from gatewright_analysis.kinds.sink import NotificationSinkSpec
from gatewright_analysis.kinds.source import MetricSource, MetricSourceSpec, MetricSourceStatus, Producer
from gatewright_analysis.notify.notices import Notice, of_rollout

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
DIGEST = "sha256:" + "0" * 64
WEBHOOK = NotificationSinkSpec.model_validate(
    {"webhook": {}, "address": "https://hooks.example.com/gate", "secretRef": {"name": "s", "key": "k"}}
)
PAGER = NotificationSinkSpec.model_validate({"pagerDuty": {}, "secretRef": {"name": "s", "key": "k"}})


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def meta(name: str = "checkout", namespace: str = "shop") -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, uid=f"uid-of-{namespace}-{name}")


def hold(**over: Any) -> HoldStatus:
    fields: dict[str, Any] = {
        "run": "checkout-0123456789-1-1",
        "evidence_digest": DIGEST,
        "step": "1",
        "initiator": "developer-a",
        "since": NOON,
        "reason": "BelowThreshold",
        "message": "http-success is not proven: 96 % good of 400 requests, 99 % promised.",
        "blocking": ("http-success",),
        "deadline": at(24 * 60),
        "escalate_at": at(15),
    }
    return HoldStatus(**(fields | over))


def held(**over: Any) -> RolloutStatus:
    return RolloutStatus(
        phase=Phase.HELD,
        current_step=1,
        attempt=1,
        canary=CanaryStatus(revision="0123456789", initiator="developer-a"),
        hold=hold(**over),
        message="Held at step 2 of 4.",
    )


def notices(status: RolloutStatus, name: str = "checkout", namespace: str = "shop") -> tuple[Notice, ...]:
    return of_rollout(meta(name, namespace), status, 4)


def source(name: str = "prometheus", ready: str = "True", since: datetime = NOON) -> MetricSource:
    condition = Condition(
        type="Ready",
        status=ready,
        reason="SourceAnswers" if ready == "True" else "SourceTimeout",
        message="" if ready == "True" else "It gave no answer within 10 s.",
        last_transition_time=since,
    )
    return MetricSource(
        metadata=ObjectMeta(name=name, uid=f"uid-of-{name}"),
        spec=MetricSourceSpec(address="https://p", producer=Producer.PLATFORM),
        status=MetricSourceStatus(conditions=(condition,)),
    )
