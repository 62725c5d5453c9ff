"""One sink's work: mark what is due, send it, report what became of it."""

import asyncio
import base64
import logging
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Protocol

from gatewright_analysis.kinds.base import Condition
from gatewright_analysis.kinds.sink import DeliveryState, NotificationSink, NotificationSinkStatus
from gatewright_analysis.kinds.source import SecretKey
from gatewright_analysis.notify.deliveries import Letter, Outcome, after, due_at, next_round
from gatewright_analysis.notify.forms import Request, UnusableSecret, request
from gatewright_analysis.notify.notices import SOURCE_GRACE, Notice, for_sink
from gatewright_analysis.reasons import Reason
from gatewright_operator.api import Api
from gatewright_operator.cache import Cache
from gatewright_operator.clock import Clock
from gatewright_operator.errors import ApiError, Conflict, NotFound
from gatewright_operator.metrics import Metrics
from gatewright_operator.notify.post import post
from gatewright_operator.notify.world import NoticeBoard, parsed
from gatewright_operator.posting import Recorder
from gatewright_operator.resources import NOTIFICATION_SINKS, ROLLOUTS, SECRETS

log = logging.getLogger(__name__)

Json = dict[str, Any]

AGAIN_SECONDS = 1.0
"""Before what the API server did not take is tried again."""
IDLE_SECONDS = 30.0
"""Something may have become due that nobody told of: a namespace's labels, for instance."""


class Post(Protocol):
    """Sends one request (`gatewright_operator.notify.post.post`)."""

    def __call__(
        self, request: Request, *, timeout_seconds: float, ca: bytes | None = None
    ) -> Awaitable[Outcome]: ...


class Desk:
    """The work for one sink, one round after the other; holds nothing that its status does not say."""

    def __init__(
        self,
        name: str,
        *,
        api: Api,
        cache: Cache,
        board: NoticeBoard,
        recorder: Recorder,
        metrics: Metrics,
        namespace: str,
        clock: Clock,
        ask_source: Callable[[str], None],
        send: Post = post,
    ) -> None:
        self._name = name
        self._api = api
        self._cache = cache
        self._board = board
        self._recorder = recorder
        self._metrics = metrics
        self._namespace = namespace
        self._clock = clock
        self._ask_source = ask_source
        self._send = send
        self._asked: set[str] = set()
        self.busy = False
        """Something is marked as being sent, and nothing was reported of it yet."""

    async def round(self) -> float:
        """One round; seconds until the next is due. Raises ApiError, and nothing is lost by it."""
        raw = self._cache.get(NOTIFICATION_SINKS, "", self._name)
        sink = parsed(raw) if raw is not None else None
        if raw is None or sink is None:
            return IDLE_SECONDS
        now = self._clock()
        everything, unread = await self._board.notices()
        notices = await self._board.selected(sink.spec.namespaces, everything)
        born = sink.metadata.creation_timestamp or now
        standing = for_sink(sink.spec, born, notices, self._board.sources(), now)
        self._ask_about_sources(standing)
        status, generation = sink.status, sink.metadata.generation
        changed = status.observed_generation != generation
        todo = next_round(
            sink.spec, status, standing, now, changed=changed, became=self._board.became, unread=unread
        )
        known = _ready(status)
        missing = known is not None and known.reason == Reason.SECRET_NOT_FOUND
        check = changed or missing or bool(todo.letters)
        problem = await self._problem(sink) if check else None
        reported = self._reported(sink, todo.status, problem, fresh=changed or missing)
        if reported != status:
            raw = await self._write(raw, reported)
            self._tell_given_up(status, reported)
        if todo.letters:
            await self._deliver(sink, raw, todo.letters)
            return 0.0
        return self._due_seconds(standing, todo.status)

    async def _deliver(self, sink: NotificationSink, raw: Json, letters: tuple[Letter, ...]) -> None:
        self.busy = True
        try:
            outcomes = await asyncio.gather(*(self._one(sink, letter) for letter in letters))
            by_key = {letter.notice.key: outcome for letter, outcome in zip(letters, outcomes, strict=True)}
            await self._report(sink, raw, by_key)
        finally:
            self.busy = False
        for letter in letters:
            self._say(sink, letter.notice, by_key[letter.notice.key])

    async def _one(self, sink: NotificationSink, letter: Letter) -> Outcome:
        spec = sink.spec
        try:
            secret = await self._secret(spec.secret_ref) if spec.secret_ref is not None else None
            ca = await self._secret(spec.ca) if spec.ca is not None else None
            prepared = request(spec, letter.notice, secret, self._clock(), repetition=letter.repetition)
            if not self._api.may_write():
                # Somebody else may lead by now, and send it.
                return Outcome(False, "Another operator has taken over.")
            return await self._send(prepared, timeout_seconds=spec.timeout.total_seconds(), ca=ca)
        except ApiError as error:
            return Outcome(False, f"The sink's Secret can't be read now: {error.reason or 'no answer'}.")
        except (UnusableSecret, ValueError) as error:
            return Outcome(False, f"The sink's Secret can't be used: {error}.")

    async def _report(self, sink: NotificationSink, raw: Json, outcomes: dict[str, Outcome]) -> None:
        """Writes what became of them, however long that takes: a term that ends meanwhile leaves the mark."""
        chance = random.random()
        while True:
            present = parsed(raw)
            if present is None or present.metadata.uid != sink.metadata.uid:
                return
            try:
                told = after(present.status, outcomes, self._clock(), chance)
                fresh = any(outcome.sent for outcome in outcomes.values())
                await self._write(raw, self._reported(present, told, None, fresh=fresh))
                return
            except NotFound:
                return
            except ApiError as error:
                # Never left to the next round, which would take the mark for one that nobody came back to.
                log.debug("a sink's status was not written", extra={"sink": self._name, "error": str(error)})
                if not isinstance(error, Conflict):
                    await asyncio.sleep(AGAIN_SECONDS)
                raw = await self._fresh(raw)

    async def _fresh(self, raw: Json) -> Json:
        try:
            return await self._api.get(NOTIFICATION_SINKS, "", self._name) or raw
        except ApiError:
            return raw

    async def _write(self, raw: Json, status: NotificationSinkStatus) -> Json:
        body = {**raw, "status": status.wire()}
        written = await self._api.replace(NOTIFICATION_SINKS, "", self._name, body, subresource="status")
        self._cache.put(NOTIFICATION_SINKS, written)
        self._metrics.notifications_waiting.set(float(status.waiting), sink=self._name)
        return written

    async def _problem(self, sink: NotificationSink) -> tuple[Reason, str] | None:
        """What stands against telling it at all."""
        for reference in (sink.spec.secret_ref, sink.spec.ca):
            try:
                if reference is not None:
                    await self._secret(reference)
            except UnusableSecret as error:
                return Reason.SECRET_NOT_FOUND, f"{str(error)[0].upper()}{str(error)[1:]}."
        return None

    async def _secret(self, reference: SecretKey) -> bytes:
        """A key of a Secret in the operator's own namespace: nowhere else are Secrets read."""
        raw = await self._api.get(SECRETS, self._namespace, reference.name)
        value = ((raw or {}).get("data") or {}).get(reference.key)
        if value is None:
            raise UnusableSecret(
                f"Secret {self._namespace}/{reference.name} has no key {reference.key}; create it"
            )
        return base64.b64decode(value)

    def _reported(
        self,
        sink: NotificationSink,
        status: NotificationSinkStatus,
        problem: tuple[Reason, str] | None,
        *,
        fresh: bool,
    ) -> NotificationSinkStatus:
        """With the condition Ready. `fresh`: something was tried, so an older complaint is no longer true by itself."""
        failed = next((d for d in status.deliveries if d.state is DeliveryState.FAILED), None)
        known = _ready(sink.status)
        if problem is None and failed is not None:
            problem = (Reason.SINK_FAILS, failed.message)
        elif problem is None and known is not None and known.status == "False" and not fresh:
            problem = (Reason(known.reason), known.message)
        state = "True" if problem is None else "False"
        reason, message = problem or (Reason.SINK_ANSWERS, "Nothing stands against telling this sink.")
        same = known is not None and known.status == state
        ready = Condition(
            type="Ready",
            status=state,
            reason=reason,
            message=message[:1024],
            last_transition_time=known.last_transition_time if known is not None and same else self._clock(),
            observed_generation=sink.metadata.generation,
        )
        return status.model_copy(
            update={"conditions": (ready,), "observed_generation": sink.metadata.generation}
        )

    def _ask_about_sources(self, standing: tuple[Notice, ...]) -> None:
        """Has the health of a source looked at, once for each HOLD that waits for it."""
        for notice in standing:
            if notice.waits and notice.key not in self._asked:
                self._asked.add(notice.key)
                for source in notice.rests_on:
                    self._ask_source(source)
        self._asked &= {n.key for n in standing}

    def _due_seconds(self, standing: tuple[Notice, ...], status: NotificationSinkStatus) -> float:
        now = self._clock()
        due = [now + timedelta(seconds=IDLE_SECONDS)]
        due += [n.at + SOURCE_GRACE for n in standing if n.waits and n.at + SOURCE_GRACE > now]
        again = due_at(status)
        due += [again] if again is not None else []
        return max(0.0, (min(due) - now).total_seconds())

    def _say(self, sink: NotificationSink, notice: Notice, outcome: Outcome) -> None:
        self._metrics.notifications.inc(sink=self._name, outcome="Sent" if outcome.sent else "Failed")
        if outcome.sent:
            message = f"NotificationSink {self._name} was told: {notice.kind}."
            self._event(notice.namespace, notice.name, Reason.NOTIFIED, message, warning=False)
            log.info("told", extra={"sink": self._name, "kind": str(notice.kind), "about": notice.name})
        else:
            log.warning(
                "a sink does not take it",
                extra={"sink": self._name, "kind": str(notice.kind), "error": outcome.message},
            )

    def _tell_given_up(self, before: NotificationSinkStatus, now: NotificationSinkStatus) -> None:
        over = {d.key for d in before.deliveries if d.state is DeliveryState.GIVEN_UP}
        for d in now.deliveries:
            if d.state is DeliveryState.GIVEN_UP and d.key not in over:
                self._metrics.notifications.inc(sink=self._name, outcome="GivenUp")
                message = f"NotificationSink {self._name} was not told ({d.kind}): {d.message}"
                self._event(d.namespace, d.name, Reason.NOT_NOTIFIED, message, warning=True)

    def _event(self, namespace: str, name: str, reason: Reason, message: str, *, warning: bool) -> None:
        rollout = self._cache.get(ROLLOUTS, namespace, name) if namespace else None
        if rollout is not None:
            self._recorder.event(rollout, "Warning" if warning else "Normal", reason, message, "Notify")


def _ready(status: NotificationSinkStatus) -> Condition | None:
    return next((c for c in status.conditions if c.type == "Ready"), None)
