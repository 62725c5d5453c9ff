"""Events for people: ``kubectl describe pod`` tells why a pod is in trouble."""

import asyncio
import logging
import uuid

from devcluster.kubeapi import ApiError, Json, KubeApi
from devcluster.node.status import timestamp
from devcluster.resources import EVENTS

log = logging.getLogger(__name__)

REMEMBERED = 5000
QUEUED = 500


class EventRecorder:
    """Writes each trouble of a pod once. Events are courtesy: they are dropped rather than waited for."""

    def __init__(self, api: KubeApi, node_name: str) -> None:
        self._api, self._node_name = api, node_name
        self._told: dict[tuple[str, str, str], None] = {}
        self._queue: asyncio.Queue[Json] = asyncio.Queue(QUEUED)

    def record(self, pod: Json, reason: str, message: str) -> None:
        """Tell of it, if it was not told of this pod before."""
        metadata = pod["metadata"]
        key = metadata["uid"], reason, message
        if key in self._told or self._queue.full():
            return
        self._told[key] = None
        if len(self._told) > REMEMBERED:
            del self._told[next(iter(self._told))]
        now = timestamp()
        self._queue.put_nowait(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {
                    "name": f"{metadata['name'][:200]}.{uuid.uuid4().hex[:16]}",
                    "namespace": metadata["namespace"],
                },
                "involvedObject": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": metadata["name"],
                    "namespace": metadata["namespace"],
                    "uid": metadata["uid"],
                },
                "reason": reason,
                "message": message[:1000],
                "type": "Normal" if reason == "Killing" else "Warning",
                "source": {"component": "devcluster-node", "host": self._node_name},
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            }
        )

    async def run(self) -> None:
        """Write what is queued, for ever."""
        while True:
            event = await self._queue.get()
            try:
                await self._api.create(EVENTS, event, event["metadata"]["namespace"])
            except ApiError as error:
                log.debug("event not written", extra={"error": str(error)})
