"""Notices: a pure function of what stands in status, so that a restart neither loses nor doubles one.

A notice has a key that is the same whenever it is worked out from the same HOLD, escalation or transition; what was sent
under that key is never sent again.
"""

import hashlib
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from gatewright_analysis.kinds.base import ObjectMeta
from gatewright_analysis.kinds.rollout import HoldStatus, Phase, RolloutStatus
from gatewright_analysis.kinds.sink import NoticeKind, NotificationSinkSpec
from gatewright_analysis.kinds.source import MetricSource
from gatewright_analysis.reasons import Reason

TOLD_FOR: Final = timedelta(hours=1)
"""A transition that is older is no news: whoever starts to listen, or comes back, is not told of it."""
SOURCE_GRACE: Final = timedelta(seconds=20)
"""So long a HOLD for want of answers waits for the source's own health: then it is known whether the source is down."""

OF_A_SOURCE: Final = frozenset(
    {
        Reason.UNREACHABLE,
        Reason.TIMEOUT,
        Reason.SERVER_ERROR,
        Reason.CLIENT_ERROR,
        Reason.UNAUTHORIZED,
        Reason.TLS_ERROR,
        Reason.REDIRECTED,
        Reason.NOT_JSON,
        Reason.SECRET_NOT_FOUND,
    }
)
"""Reasons of a HOLD that a source which is down explains."""

OPENING: Final = frozenset({NoticeKind.HELD, NoticeKind.ESCALATED, NoticeKind.SOURCE_DOWN})
"""What stands until it ends; the rest only happens."""

_UNDER_WAY = frozenset({Phase.PROGRESSING, Phase.PAUSED, Phase.HELD, Phase.PROMOTING, Phase.BAKING})
_STOPPED_BY = re.compile(r"([a-z0-9](?:[-a-z0-9.]*[a-z0-9])?) \(\w+\)")
"""As `hold.clockStoppedBy` lists them: `prometheus (SourceTimeout), gateway (SourceUnreachable)`."""
_NAMED_SOURCE = re.compile(r"\bMetricSource ([a-z0-9](?:[-a-z0-9.]*[a-z0-9])?)")


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to tell. Texts are as they stand in status: each format escapes them for itself."""

    kind: NoticeKind
    key: str
    """32 hex digits: the idempotency key."""
    subject: str
    """32 hex digits: the same for all that is told of one HOLD, or of one time that a source was down."""
    name: str
    """The Rollout, or the MetricSource."""
    at: datetime
    namespace: str = ""
    """Empty for a MetricSource."""
    uid: str = ""
    reason: str = ""
    why: str = ""
    initiator: str = ""
    """Empty when unproven."""
    revision: str = ""
    step: str = ""
    run: str = ""
    evidence_digest: str = ""
    blocking: tuple[str, ...] = ()
    deadline: datetime | None = None
    escalate_at: datetime | None = None
    approvals_needed: int = 0
    commands: tuple[str, ...] = ()
    rests_on: frozenset[str] = frozenset()
    """MetricSources for want of whose answers it is held."""
    held: tuple[str, ...] = ()
    """NAMESPACE/NAME of the Rollouts that are held for want of a source."""
    waits: bool = False
    """It stands, but is not told now: its source is told of instead, or is being asked whether it is down."""


def digest(*parts: str) -> str:
    """32 hex digits, the same for the same parts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def of_rollout(meta: ObjectMeta, status: RolloutStatus, steps: int) -> tuple[Notice, ...]:
    """All that stands for one Rollout. `steps`: how many steps its spec has."""
    return (*_of_hold(meta, status, steps), *_of_transitions(meta, status))


def _of_hold(meta: ObjectMeta, status: RolloutStatus, steps: int) -> Iterable[Notice]:
    hold = status.hold
    if hold is None or status.phase not in (Phase.HELD, Phase.PAUSED):
        # On the way back it stands there still, and nobody can decide on it any more.
        return
    subject = digest("hold", meta.uid, hold.run)
    held = Notice(
        kind=NoticeKind.HELD,
        # Not the evidence digest: a HOLD whose evidence grows is still the HOLD that was told of.
        key=digest("Held", meta.uid, hold.run),
        subject=subject,
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        at=hold.since,
        reason=hold.reason,
        why=hold.message,
        initiator=hold.initiator,
        revision=status.canary.revision if status.canary else "",
        step="the bake" if hold.step == "bake" else f"step {status.current_step + 1} of {steps}",
        run=hold.run,
        evidence_digest=hold.evidence_digest,
        blocking=hold.blocking,
        deadline=hold.deadline,
        escalate_at=hold.escalate_at,
        approvals_needed=hold.approvals_needed,
        commands=commands(meta.namespace, meta.name, waivable=bool(hold.blocking)),
        rests_on=rests_on(hold),
    )
    yield held
    if hold.escalated_at is not None:
        key = digest("Escalated", meta.uid, hold.run, hold.escalated_at.isoformat())
        # Somebody, or the clock, has said that people are needed now: whatever its source does.
        yield replace(
            held, kind=NoticeKind.ESCALATED, key=key, at=hold.escalated_at, rests_on=frozenset(), waits=False
        )


def _of_transitions(meta: ObjectMeta, status: RolloutStatus) -> Iterable[Notice]:
    def notice(
        kind: NoticeKind, at: datetime | None, revision: str, why: str, *identity: str
    ) -> list[Notice]:
        if at is None:
            return []
        key = digest(kind, meta.uid, revision, *identity)
        return [
            Notice(
                kind=kind,
                key=key,
                subject=key,
                name=meta.name,
                namespace=meta.namespace,
                uid=meta.uid,
                at=at,
                reason=kind,
                why=why,
                initiator=status.canary.initiator if status.canary else "",
                revision=revision,
            )
        ]

    canary, attempt = status.canary, str(status.attempt)
    if canary is not None and status.phase in _UNDER_WAY:
        since = next((c.last_transition_time for c in status.conditions if c.type == "Reconciling"), None)
        at = status.step_started_at if status.current_step == 0 else since
        yield from notice(NoticeKind.STARTED, at, canary.revision, "", attempt)
    if canary is not None and status.phase in (Phase.PROMOTING, Phase.BAKING):
        yield from notice(NoticeKind.PROMOTED, status.progress_at, canary.revision, "", attempt)
    rejected, stable, verdict = status.rejected, status.stable, status.verdict
    if rejected is not None and status.phase is Phase.ROLLED_BACK and rejected.at is not None:
        identity = (attempt, rejected.at.isoformat())
        yield from notice(NoticeKind.ROLLED_BACK, rejected.at, rejected.revision, rejected.message, *identity)
    if stable is None or verdict is None or status.phase is not Phase.IDLE or canary is not None:
        return
    if f"-{stable.revision}-" in verdict.run:
        yield from notice(
            NoticeKind.COMPLETED, status.progress_at, stable.revision, status.message, verdict.run
        )


def rests_on(hold: HoldStatus) -> frozenset[str]:
    """MetricSources that the HOLD names as the cause; none when its reason is another."""
    if hold.reason not in OF_A_SOURCE:
        # What was judged by the numbers that there are is told, whatever becomes of the source later.
        return frozenset()
    stopped = _STOPPED_BY.findall(hold.clock_stopped_by)
    return frozenset((*stopped, *_NAMED_SOURCE.findall(hold.message)))


def commands(namespace: str, name: str, *, waivable: bool) -> tuple[str, ...]:
    """Three decisions, ready to paste but for the reason. Without a verdict there is nothing to approve."""
    where = f"{shlex.quote(name)} -n {shlex.quote(namespace)}"
    first = (
        f"kubectl gate approve {where} --expires 4h --reason '…'"
        if waivable
        else f"kubectl gate retry {where} --reason '…'"
    )
    return (
        first,
        f"kubectl gate request-changes {where} --reason '…'",
        f"kubectl gate reject {where} --reason '…'",
    )


def of_source(source: MetricSource, held: Sequence[Notice]) -> Notice | None:
    """What stands of a source that says itself that it is down; `held` are those that rest on it."""
    ready = next((c for c in source.status.conditions if c.type == "Ready"), None)
    if ready is None or ready.status != "False" or ready.last_transition_time is None:
        return None
    meta = source.metadata
    key = digest("SourceDown", meta.uid, ready.last_transition_time.isoformat())
    return Notice(
        kind=NoticeKind.SOURCE_DOWN,
        key=key,
        subject=key,
        name=meta.name,
        uid=meta.uid,
        at=ready.last_transition_time,
        reason=ready.reason,
        why=ready.message,
        held=tuple(sorted(f"{n.namespace}/{n.name}" for n in held)),
    )


def for_sink(
    spec: NotificationSinkSpec,
    born: datetime,
    of_rollouts: Iterable[Notice],
    sources: Sequence[MetricSource],
    now: datetime,
) -> tuple[Notice, ...]:
    """What stands for one sink, of the Rollouts that it selects, in the order in which it is told.

    What is held now is told to a sink that is made later, too (`born`); what happened before it is not.
    """
    mine = [
        n for n in of_rollouts if n.kind in spec.notices and (n.kind in OPENING or _is_news(n, born, now))
    ]
    result: list[Notice] = []
    resting: dict[str, list[Notice]] = {}
    down = {s.metadata.name for s in sources if of_source(s, ()) is not None}
    known = {s.metadata.name for s in sources}
    for notice in mine:
        asleep = notice.rests_on & down
        for name in asleep:
            resting.setdefault(name, []).append(notice)
        being_asked = bool(notice.rests_on & known) and now < notice.at + SOURCE_GRACE
        waits = notice.kind is NoticeKind.HELD and bool(asleep or being_asked)
        result.append(replace(notice, waits=waits))
    for source in sources:
        held = resting.get(source.metadata.name, [])
        asked_for = NoticeKind.SOURCE_DOWN in spec.notices and spec.namespaces is None
        down_now = of_source(source, held)
        if down_now is not None:
            # It stands as long as it is down, whoever it holds: what was told of it is not over before.
            result.append(replace(down_now, waits=not (held or asked_for)))
    urgency = {NoticeKind.ESCALATED: 0, NoticeKind.HELD: 1, NoticeKind.SOURCE_DOWN: 1}
    return tuple(sorted(result, key=lambda n: (urgency.get(n.kind, 2), n.at, n.key)))


def _is_news(notice: Notice, born: datetime, now: datetime) -> bool:
    return notice.at >= born and now - notice.at < TOLD_FOR


def ending(kind: NoticeKind, subject: str, namespace: str, name: str, at: datetime, why: str) -> Notice:
    """The end of what was told by a notice of the kind `kind`."""
    source = kind is NoticeKind.SOURCE_DOWN
    return Notice(
        kind=NoticeKind.SOURCE_UP if source else NoticeKind.HOLD_ENDED,
        key=end_key(subject),
        subject=subject,
        name=name,
        namespace=namespace,
        at=at,
        reason=NoticeKind.SOURCE_UP if source else NoticeKind.HOLD_ENDED,
        why=why,
    )


def end_key(subject: str) -> str:
    """The key of the end of a subject."""
    return digest("End", subject)
