"""Kubernetes Events about what the operator does: news for people, posted in the background, never in
anybody's way."""

import asyncio
import logging
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Literal

from gatewright_analysis.names import GROUP
from gatewright_operator.api import Api
from gatewright_operator.errors import ApiError, Unavailable
from gatewright_operator.metrics import Metrics
from gatewright_operator.resources import EVENTS

log = logging.getLogger(__name__)

Object = dict[str, Any]

NOTE_BYTES = 1024
REPEAT_SECONDS = 600.0
REMEMBERED = 2048
WAITING = 500
RETRIES_SECONDS = (1.0, 4.0)


class Recorder:
    """Posts Events. The same one about the same object is posted at most every ten minutes; too many are
    dropped, and counted."""

    def __init__(
        self,
        api: Api,
        metrics: Metrics,
        *,
        identity: str,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._api = api
        self._metrics = metrics
        self._identity = identity
        self._clock = clock
        self._posted: OrderedDict[tuple[str, ...], float] = OrderedDict()
        self._waiting: deque[Object] = deque()
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def event(
        self, regarding: Object, type: Literal["Normal", "Warning"], reason: str, message: str, action: str
    ) -> None:
        """Say something about an object: `reason` and `action` are words in CamelCase, `message` one
        sentence.

        Returns at once and never raises because of the API server.
        """
        metadata = regarding["metadata"]
        same = (str(metadata.get("uid", "")), metadata["name"], type, reason, message)
        now = self._clock()
        if now < self._posted.get(same, float("-inf")) + REPEAT_SECONDS:
            self._metrics.events_dropped.inc(cause="repeated")
            return
        if len(self._waiting) >= WAITING:
            self._metrics.events_dropped.inc(cause="overflow")
            return
        self._posted[same] = now
        self._posted.move_to_end(same)
        while len(self._posted) > REMEMBERED:
            self._posted.popitem(last=False)
        self._waiting.append(self._body(regarding, type, reason, message, action))
        self._idle.clear()
        self._news.set()

    async def run(self) -> None:
        """Post for ever."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                await self._post(self._waiting[0])
                self._waiting.popleft()
            self._idle.set()

    async def flush(self, seconds: float) -> None:
        """Wait until all is posted, but not longer than `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            log.info("events left unposted", extra={"count": len(self._waiting)})

    async def _post(self, body: Object) -> None:
        namespace = body["metadata"]["namespace"]
        for pause_seconds in (*RETRIES_SECONDS, None):
            try:
                await self._api.create(EVENTS, namespace, body)
            except Unavailable as error:
                if pause_seconds is None:
                    self._drop("unavailable", error)
                    return
                await asyncio.sleep(pause_seconds)
            except ApiError as error:
                # Refused for good; a namespace that is going away takes no Events, for instance.
                self._drop("refused", error)
                return
            else:
                return

    def _drop(self, cause: str, error: ApiError) -> None:
        self._metrics.events_dropped.inc(cause=cause)
        log.debug("event not posted", extra={"error": str(error)})

    def _body(self, regarding: Object, type_: str, reason: str, message: str, action: str) -> Object:
        metadata = regarding["metadata"]
        # Events about cluster-scoped objects live in `default`, as those of Kubernetes itself do.
        namespace = metadata.get("namespace") or "default"
        reference = {
            "apiVersion": regarding.get("apiVersion"),
            "kind": regarding.get("kind"),
            "name": metadata["name"],
            "namespace": metadata.get("namespace"),
            "uid": metadata.get("uid"),
            "resourceVersion": metadata.get("resourceVersion"),
        }
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {
                "name": f"{metadata['name'][:220]}.{uuid.uuid4().hex[:16]}",
                "namespace": namespace,
            },
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": f"{GROUP}/operator",
            "reportingInstance": self._identity[:128],
            "regarding": {key: value for key, value in reference.items() if value},
            "type": type_,
            "reason": reason,
            "action": action,
            "note": message.encode()[:NOTE_BYTES].decode(errors="ignore"),
        }
