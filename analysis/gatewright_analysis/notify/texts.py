"""Sentences about a notice, as plain text of one line each: formats escape them for themselves."""

from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from gatewright_analysis.kinds.base import format_time
from gatewright_analysis.kinds.sink import NoticeKind, NotificationSinkSpec
from gatewright_analysis.notify.notices import Notice

LONGEST: Final = 1024
_UNPROVEN: Final = "unproven (no person was seen to write the template)"


def plain(text: str, longest: int = LONGEST) -> str:
    """One line without control and direction characters, cut to `longest`: what others wrote must not steer a screen."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def headline(notice: Notice, cluster: str | None) -> str:
    """What happened, in one line."""
    where = f"{notice.name} in {notice.namespace}" if notice.namespace else f"MetricSource {notice.name}"
    what = {
        NoticeKind.HELD: f"{where} is held at {notice.step}",
        NoticeKind.ESCALATED: f"{where} is still held at {notice.step}: nobody has decided",
        NoticeKind.HOLD_ENDED: f"{where} is no longer held",
        NoticeKind.STARTED: f"{where}: revision {notice.revision} starts",
        NoticeKind.PROMOTED: f"{where}: revision {notice.revision} is promoted",
        NoticeKind.ROLLED_BACK: f"{where}: revision {notice.revision} was rolled back",
        NoticeKind.COMPLETED: f"{where}: the release of revision {notice.revision} is complete",
        NoticeKind.SOURCE_DOWN: f"{where} does not answer",
        NoticeKind.SOURCE_UP: f"{where} answers again",
    }[notice.kind]
    return plain(f"{what} ({cluster})" if cluster else what, 300)


def facts(notice: Notice) -> tuple[tuple[str, str], ...]:
    """(label, text): why, who, until when; what there is of it."""
    held = notice.kind in (NoticeKind.HELD, NoticeKind.ESCALATED)
    started = notice.initiator or _UNPROVEN if held or notice.kind is NoticeKind.STARTED else notice.initiator
    approvals = f"{notice.approvals_needed} different people" if notice.approvals_needed > 1 else ""
    found = (
        ("Why", f"{notice.reason}: {notice.why}" if held else notice.why),
        ("Blocking", ", ".join(notice.blocking)),
        ("Started by", started),
        ("Revision", notice.revision if held else ""),
        ("Decide by", _time(notice.deadline)),
        ("Escalates at", _time(notice.escalate_at) if notice.kind is NoticeKind.HELD else ""),
        ("Approvals needed", approvals),
        ("Held for want of it", ", ".join(notice.held)),
    )
    return tuple((label, plain(text)) for label, text in found if text)


def review_link(spec: NotificationSinkSpec, notice: Notice) -> str | None:
    """The page of the HOLD, where the sink knows of a review page."""
    if spec.review_url is None or not notice.namespace:
        return None
    return f"{spec.review_url.rstrip('/')}/holds/{quote(notice.namespace, '')}/{quote(notice.name, '')}"


def document(spec: NotificationSinkSpec, notice: Notice, *, repetition: bool) -> dict[str, Any]:
    """The notice as JSON, for programs: camelCase, absent where there is nothing to say."""
    about = "rollout" if notice.namespace else "metricSource"
    said: dict[str, Any] = {
        "version": "1",
        "id": notice.key,
        "subject": notice.subject,
        "kind": str(notice.kind),
        "time": format_time(notice.at),
        "repetition": repetition,
        "cluster": spec.cluster,
        about: {"namespace": notice.namespace, "name": notice.name, "uid": notice.uid},
        "title": headline(notice, spec.cluster),
        "reason": notice.reason,
        "message": plain(notice.why),
        "startedBy": plain(notice.initiator, 253),
        "revision": notice.revision,
        "step": notice.step,
        "run": notice.run,
        "evidenceDigest": notice.evidence_digest,
        "blocking": list(notice.blocking),
        "deadline": format_time(notice.deadline) if notice.deadline else None,
        "approvalsNeeded": notice.approvals_needed or None,
        "held": list(notice.held),
        "commands": list(notice.commands),
        "reviewURL": review_link(spec, notice),
    }
    said[about] = {key: value for key, value in said[about].items() if value}
    return {key: value for key, value in said.items() if value not in (None, "", [])}


def _time(at: datetime | None) -> str:
    return at.strftime("%Y-%m-%d %H:%M UTC") if at is not None else ""
