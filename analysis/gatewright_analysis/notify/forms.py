"""A notice as each kind of sink wants it: address, headers and body of one POST. Pure; the secret is handed in."""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from gatewright_analysis.kinds.base import format_time
from gatewright_analysis.kinds.sink import (
    EventFormat,
    NoticeKind,
    NotificationSinkSpec,
    PagerDutySink,
    Severity,
)
from gatewright_analysis.names import GROUP
from gatewright_analysis.notify.notices import Notice
from gatewright_analysis.notify.texts import document, facts, headline, plain, review_link

SLACK_API: Final = "https://slack.com/api/chat.postMessage"
PAGERDUTY_API: Final = "https://events.pagerduty.com/v2/enqueue"
SIGNATURE: Final = "X-Gatewright-Signature"
TIMESTAMP: Final = "X-Gatewright-Timestamp"
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
CDEVENTS_VERSION: Final = "0.5.0"

_SLACK_FIELD: Final = 2900
"""Slack refuses texts above 3000 characters, counted after escaping."""
_SAFE_URL: Final = re.compile(r"https://\S+|http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/\S*)?")


class UnusableSecret(ValueError):
    """The Secret doesn't hold what the sink needs; the message says what, and never what it holds."""


@dataclass(frozen=True, slots=True)
class Request:
    """One POST. Its text never shows address, headers or body: they may hold the sink's secret."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    says_ok: bool = False
    """The answer is JSON whose `ok` must be true."""


def request(
    spec: NotificationSinkSpec, notice: Notice, secret: bytes | None, now: datetime, *, repetition: bool
) -> Request:
    """The POST that tells this sink. Raises UnusableSecret."""
    text = _one_line(secret) if secret is not None and spec.webhook is None else ""
    if spec.slack is not None:
        return _slack_request(spec, notice, text, repetition=repetition)
    if spec.pager_duty is not None:
        body = pager_duty(spec, spec.pager_duty, notice, text)
        return _post(spec.address or PAGERDUTY_API, body)
    assert spec.address is not None, "the API server lets no other sink be without an address"
    if spec.cloud_events is not None:
        event = cloud_event(spec, spec.cloud_events.format, notice, repetition=repetition)
        login = {"Authorization": f"Bearer {text}"} if secret is not None else {}
        return _post(
            spec.address,
            event,
            {
                "Content-Type": "application/cloudevents+json; charset=utf-8",
                IDEMPOTENCY_KEY: notice.key,
                **login,
            },
        )
    assert spec.webhook is not None and secret is not None, "as above"
    if not secret:
        raise UnusableSecret("the signing key is empty")
    body_bytes = _json(document(spec, notice, repetition=repetition))
    stamp = str(int(now.timestamp()))
    return Request(
        spec.address,
        {
            "Content-Type": "application/json",
            IDEMPOTENCY_KEY: notice.key,
            TIMESTAMP: stamp,
            SIGNATURE: signature(secret, stamp, body_bytes),
        },
        body_bytes,
    )


def signature(key: bytes, timestamp: str, body: bytes) -> str:
    """`sha256=…` over timestamp, a dot and the body, so that an old body can't be replayed with a new time."""
    return "sha256=" + hmac.new(key, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def slack(spec: NotificationSinkSpec, notice: Notice, *, repetition: bool) -> dict[str, Any]:
    """Blocks. What others wrote stands in plain_text, where Slack reads no markup, and is escaped all the same."""
    title = headline(notice, spec.cluster)
    if repetition:
        title = f"{title} (possibly a repetition)"
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": plain(title, 150), "emoji": False}}
    ]
    blocks += [_plain(f"{label}: {text}") for label, text in facts(notice)]
    if notice.commands:
        code = "\n".join(notice.commands)
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": f"```{_escaped(code)}```"}})
    link = review_link(spec, notice)
    if link is not None:
        # A link as text and not a button: a button wants an app that answers it.
        blocks.append(
            {"type": "section", "text": {"type": "mrkdwn", "text": f"<{_escaped(link)}|Review it>"}}
        )
    return {"text": _escaped(title), "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def pager_duty(
    spec: NotificationSinkSpec, options: PagerDutySink, notice: Notice, routing_key: str
) -> dict[str, Any]:
    """Events v2: a HOLD is one incident, which ends with the HOLD."""
    head: dict[str, Any] = {"routing_key": routing_key, "dedup_key": notice.subject}
    if notice.kind in (NoticeKind.HOLD_ENDED, NoticeKind.SOURCE_UP):
        return head | {"event_action": "resolve"}
    severity = {
        NoticeKind.HELD: options.held_severity,
        NoticeKind.ESCALATED: options.escalated_severity,
    }.get(notice.kind, Severity.WARNING)
    link = review_link(spec, notice)
    details: dict[str, Any] = dict(facts(notice)) | (
        {"Commands": "\n".join(notice.commands)} if notice.commands else {}
    )
    return head | {
        "event_action": "trigger",
        "client": "Gatewright",
        "links": [{"href": link, "text": "Review it"}] if link else [],
        "payload": {
            "summary": plain(f"{headline(notice, spec.cluster)}: {notice.why}", 1024),
            "source": _source(spec, notice),
            "severity": str(severity),
            "timestamp": format_time(notice.at),
            "component": notice.name,
            "group": notice.namespace,
            "class": str(notice.kind),
            "custom_details": details,
        },
    }


def cloud_event(
    spec: NotificationSinkSpec, form: EventFormat, notice: Notice, *, repetition: bool
) -> dict[str, Any]:
    """CloudEvents 1.0, structured; with CDEvents the data is a custom CDEvent, whose context repeats the outer one."""
    data = document(spec, notice, repetition=repetition)
    subject = f"{notice.namespace}/{notice.name}" if notice.namespace else notice.name
    about = "rollout" if notice.namespace else "source"
    word = notice.kind.lower().removeprefix(about)
    source = f"/gatewright/{spec.cluster}" if spec.cluster else "/gatewright"
    type_ = f"dev.{GROUP.split('.')[0]}.{about}.{word}"
    if form is EventFormat.CD_EVENTS:
        type_ = f"dev.cdeventsx.gatewright-{about}.{word}.0.1.0"
        data = {
            "context": {
                "specversion": CDEVENTS_VERSION,
                "id": notice.key,
                "source": source,
                "type": type_,
                "timestamp": format_time(notice.at),
            },
            "subject": {"id": subject, "source": source, "content": data},
        }
    return {
        "specversion": "1.0",
        "id": notice.key,
        "source": source,
        "type": type_,
        "subject": subject,
        "time": format_time(notice.at),
        "datacontenttype": "application/json",
        "data": data,
    }


def _slack_request(spec: NotificationSinkSpec, notice: Notice, secret: str, *, repetition: bool) -> Request:
    body = slack(spec, notice, repetition=repetition)
    if "://" in secret:
        if not _SAFE_URL.fullmatch(secret):
            raise UnusableSecret(
                "it holds an address that is not https; Slack's webhooks are https://hooks.slack.com/…"
            )
        return _post(secret, body)
    if spec.slack is None or spec.slack.channel is None:
        raise UnusableSecret("it holds a token and no webhook URL, so slack.channel is needed")
    head = {"Content-Type": "application/json; charset=utf-8", "Authorization": f"Bearer {secret}"}
    return _post(spec.address or SLACK_API, body | {"channel": spec.slack.channel}, head, says_ok=True)


def _source(spec: NotificationSinkSpec, notice: Notice) -> str:
    return "/".join(part for part in (spec.cluster, notice.namespace, notice.name) if part)


def _plain(text: str) -> dict[str, Any]:
    cut = text
    while len(_escaped(cut)) > _SLACK_FIELD:
        cut = f"{cut[: len(cut) * 3 // 4]}…"
    return {"type": "section", "text": {"type": "plain_text", "text": _escaped(cut), "emoji": False}}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _one_line(secret: bytes) -> str:
    try:
        text = secret.decode("ascii").strip()
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable() or " " in text:
        raise UnusableSecret("it must hold one line of printable ASCII without spaces")
    return text


def _post(
    url: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None, *, says_ok: bool = False
) -> Request:
    return Request(url, headers or {"Content-Type": "application/json"}, _json(body), says_ok)


def _json(value: Mapping[str, Any]) -> bytes:
    """ASCII: nothing in it can be read as something else by whoever guesses an encoding."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")
