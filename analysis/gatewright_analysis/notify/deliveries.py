"""What was sent, and what is sent next: a pure function of a sink's status and of what stands.

Order: marked as being sent (a compare-and-swap on the sink's status), sent, marked as sent. Whoever finds a mark that is
not its own sends again under the same key: once too often after a crash, never once too few.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gatewright_analysis.kinds.sink import (
    Delivery,
    DeliveryState,
    NoticeKind,
    NotificationSinkSpec,
    NotificationSinkStatus,
)
from gatewright_analysis.notify.notices import OPENING, Notice, end_key, ending

ENDS: Final = frozenset({NoticeKind.HOLD_ENDED, NoticeKind.SOURCE_UP})
KEPT: Final = 50
"""Deliveries that are over and stay to be looked at."""
MOST: Final = 1000
"""Deliveries in one status; what is beyond waits until others are over."""
AT_ONCE: Final = 10
"""Sent in one go."""
ATTEMPTS: Final = 30
"""With the pauses below about four hours; then it is given up."""
FIRST_PAUSE_SECONDS: Final = 2.0
LONGEST_PAUSE_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Letter:
    """One notice to send now, and whether the sink may have had it already."""

    notice: Notice
    repetition: bool


@dataclass(frozen=True, slots=True)
class Round:
    """The status to write first, and what to send when that is written."""

    status: NotificationSinkStatus
    letters: tuple[Letter, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one letter. `uncertain`: no answer came, so it may have arrived."""

    sent: bool
    message: str = ""
    uncertain: bool = False
    retry_after_seconds: float = 0.0


def next_round(
    spec: NotificationSinkSpec,
    status: NotificationSinkStatus,
    standing: Sequence[Notice],
    now: datetime,
    *,
    changed: bool = False,
    became: Callable[[str], str] = str,
    unread: Collection[str] = (),
) -> Round:
    """What to send now. A mark `Sending` in `status` is one that nobody came back to.

    `changed`: the sink's spec is another than the one that failed, so nothing waits longer. `became`: what a Rollout
    (NAMESPACE/NAME) says now, for the sentence about an end. `unread`: Rollouts whose status can't be read now; nothing
    is concluded about those.
    """
    notices = {n.key: n for n in standing}
    subjects = {n.subject for n in standing}
    letters: list[Letter] = []
    kept: list[Delivery] = []
    over = "It was over before it could be told."
    for d in status.deliveries:
        if not _is_due(d, now, changed) or _about(d) in unread:
            kept.append(d)
        elif d.attempts >= ATTEMPTS:
            kept.append(_given_up(d, now, f"Given up after {d.attempts} attempts. {d.message}"))
        elif (notice := _again(d, notices, became)) is None:
            kept.append(_given_up(d, now, over))
        elif len(letters) >= AT_ONCE:
            kept.append(d)
        else:
            kept.append(_marked(d, now))
            letters.append(Letter(notice, kept[-1].uncertain))
    given_up = sum(
        d.state is DeliveryState.GIVEN_UP and before.state is not DeliveryState.GIVEN_UP
        for before, d in zip(status.deliveries, kept, strict=True)
    )
    known = {d.key for d in kept}
    hidden = {d.subject for d in kept if _about(d) in unread}
    ends = _ends(spec, kept, subjects | hidden, now, became)
    for notice in (*ends, *(n for n in standing if n.key not in known and not n.waits)):
        if len(letters) < AT_ONCE and len(kept) < MOST:
            kept.append(_first(notice, now))
            letters.append(Letter(notice, False))
    begun = {d.key for d in kept}
    owed = {n.subject for n in ends if n.key not in begun}
    kept = _trimmed(kept, set(notices), subjects | owed | hidden)
    return Round(_counted(status, kept, given_up=given_up), tuple(letters))


def after(
    status: NotificationSinkStatus, outcomes: Mapping[str, Outcome], now: datetime, chance: float
) -> NotificationSinkStatus:
    """The status with what became of the letters, by key. `chance` is uniform in [0, 1)."""
    changed = [_after(d, outcomes[d.key], now, chance) if d.key in outcomes else d for d in status.deliveries]
    sent = sum(outcome.sent for outcome in outcomes.values())
    result = _counted(status, changed, sent=sent)
    return result.model_copy(update={"last_sent_at": now}) if sent else result


def due_at(status: NotificationSinkStatus) -> datetime | None:
    """When the first that failed is tried again."""
    return min((d.next_attempt_at for d in status.deliveries if d.next_attempt_at is not None), default=None)


def pause_seconds(attempts: int, chance: float) -> float:
    """The pause after this many attempts (≥ 1): doubled each time, less up to half of it by chance."""
    full = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(attempts - 1, 32))
    return full * (1.0 - chance / 2)


def _is_due(d: Delivery, now: datetime, changed: bool) -> bool:
    if d.state is DeliveryState.SENDING:
        return True
    if d.state is not DeliveryState.FAILED:
        return False
    return changed or d.next_attempt_at is None or d.next_attempt_at <= now


def _again(d: Delivery, notices: Mapping[str, Notice], became: Callable[[str], str]) -> Notice | None:
    if d.kind in ENDS:
        opened = NoticeKind.SOURCE_DOWN if d.kind is NoticeKind.SOURCE_UP else NoticeKind.HELD
        return ending(opened, d.subject, d.namespace, d.name, d.at, _why(d, became))
    return notices.get(d.key)


def _ends(
    spec: NotificationSinkSpec,
    kept: Sequence[Delivery],
    subjects: set[str],
    now: datetime,
    became: Callable[[str], str],
) -> list[Notice]:
    """Ends of what this sink was told of: always for a pager, whose incident would stay open; else where asked for."""
    known = {d.key for d in kept}
    result: dict[str, Notice] = {}
    for d in kept:
        over = d.kind in OPENING and d.subject not in subjects
        reached = d.state is DeliveryState.SENT or (d.state is DeliveryState.GIVEN_UP and d.uncertain)
        end = NoticeKind.SOURCE_UP if d.kind is NoticeKind.SOURCE_DOWN else NoticeKind.HOLD_ENDED
        wanted = spec.pager_duty is not None or end in spec.notices
        if over and reached and wanted and end_key(d.subject) not in known:
            result[d.subject] = ending(d.kind, d.subject, d.namespace, d.name, now, _why(d, became))
    return list(result.values())


def _why(d: Delivery, became: Callable[[str], str]) -> str:
    return became(_about(d)) if d.namespace else "The source answers again, or is no longer asked."


def _about(d: Delivery) -> str:
    return f"{d.namespace}/{d.name}"


def _first(notice: Notice, now: datetime) -> Delivery:
    return Delivery(
        key=notice.key,
        kind=notice.kind,
        subject=notice.subject,
        namespace=notice.namespace,
        name=notice.name,
        state=DeliveryState.SENDING,
        attempts=1,
        at=now,
        changed_at=now,
    )


def _marked(d: Delivery, now: datetime) -> Delivery:
    return d.model_copy(
        update={
            "state": DeliveryState.SENDING,
            "attempts": d.attempts + 1,
            # A mark that nobody came back to: it may have been sent.
            "uncertain": d.uncertain or d.state is DeliveryState.SENDING,
            "changed_at": now,
            "next_attempt_at": None,
        }
    )


def _given_up(d: Delivery, now: datetime, message: str) -> Delivery:
    return d.model_copy(
        update={
            "state": DeliveryState.GIVEN_UP,
            "uncertain": d.uncertain or d.state is DeliveryState.SENDING,
            "changed_at": now,
            "next_attempt_at": None,
            "message": message[:1024],
        }
    )


def _after(d: Delivery, outcome: Outcome, now: datetime, chance: float) -> Delivery:
    if outcome.sent:
        return d.model_copy(update={"state": DeliveryState.SENT, "changed_at": now, "message": ""})
    seconds = max(pause_seconds(d.attempts, chance), min(outcome.retry_after_seconds, LONGEST_PAUSE_SECONDS))
    return d.model_copy(
        update={
            "state": DeliveryState.FAILED,
            "uncertain": d.uncertain or outcome.uncertain,
            "changed_at": now,
            "next_attempt_at": now + timedelta(seconds=seconds),
            "message": outcome.message[:1024],
        }
    )


def _trimmed(kept: Sequence[Delivery], keys: set[str], subjects: set[str]) -> list[Delivery]:
    """Without what is over and old. What stands (`keys`, `subjects`) stays, or it would be sent again; an end goes with
    what it ended, or it would be sent again, too."""

    def stays(d: Delivery) -> bool:
        stands = d.key in keys or (d.kind in OPENING and d.subject in subjects)
        return stands or d.state in (DeliveryState.SENDING, DeliveryState.FAILED)

    over = [d for d in kept if not stays(d) and d.kind not in ENDS]
    newest = {d.key for d in sorted(over, key=lambda d: d.changed_at, reverse=True)[:KEPT]}
    left = [d for d in kept if d.kind in ENDS or stays(d) or d.key in newest]
    remembered = {d.subject for d in left if d.kind in OPENING}
    return [d for d in left if d.kind not in ENDS or stays(d) or d.subject in remembered]


def _counted(
    status: NotificationSinkStatus, deliveries: Sequence[Delivery], *, sent: int = 0, given_up: int = 0
) -> NotificationSinkStatus:
    return status.model_copy(
        update={
            "deliveries": tuple(deliveries),
            "sent": status.sent + sent,
            "given_up": status.given_up + given_up,
            "waiting": sum(d.state is DeliveryState.FAILED for d in deliveries),
        }
    )
