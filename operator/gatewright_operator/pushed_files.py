"""ConfigMaps of one suite: listed by metadata, and each body read once."""

import asyncio
from datetime import datetime
from typing import Any, Final

from gatewright_analysis.evidence.pushed import Found, found
from gatewright_analysis.names import EVIDENCE_DIGEST, EVIDENCE_RECORD_KEY, EVIDENCE_SUITE_LABEL
from gatewright_operator.api import Api
from gatewright_operator.resources import CONFIGMAPS

Json = dict[str, Any]

NEWEST: Final = 50
"""Files of a suite that are read at a look, by their time of creation. Older ones speak of older versions."""


class PushedFiles:
    """What lies in `namespace` for `suite`."""

    def __init__(self, api: Api, namespace: str, suite: str) -> None:
        self.namespace = namespace
        self.suite = suite
        self._api = api
        self._known: set[str] = set()
        """UIDs: a ConfigMap of a record is immutable, and one that is made anew under its name is another."""
        self.unread = 0
        """Older files that were left out at the last look."""

    async def look(self) -> list[Found]:
        """What is new since the last look. Raises ApiError; what was read before that is told at the next look."""
        labels = f"{EVIDENCE_SUITE_LABEL}={self.suite}"
        listed = await self._api.metadata(CONFIGMAPS, self.namespace, labels=labels)
        newest = sorted((item["metadata"] for item in listed.items), key=_age, reverse=True)
        self.unread = max(0, len(newest) - NEWEST)
        fresh = [metadata for metadata in newest[:NEWEST] if metadata["uid"] not in self._known]
        bodies = [
            body
            for metadata in reversed(fresh)
            if (body := await self._api.get(CONFIGMAPS, self.namespace, metadata["name"])) is not None
        ]
        # Seconds for the largest records: not in the way of everybody else's looks.
        read = await asyncio.to_thread(lambda: [_found(body, self.suite) for body in bodies])
        self._known |= {body["metadata"]["uid"] for body in bodies}
        return read


def _age(metadata: Json) -> tuple[str, str]:
    return metadata["creationTimestamp"], metadata["name"]


def _found(body: Json, suite: str) -> Found:
    metadata = body["metadata"]
    created = datetime.fromisoformat(metadata["creationTimestamp"]).timestamp()
    if not body.get("immutable"):
        return Found(
            metadata["name"], created, damage="it is not immutable, so it may change after the verdict"
        )
    digest = (metadata.get("annotations") or {}).get(EVIDENCE_DIGEST)
    data = (body.get("binaryData") or {}).get(EVIDENCE_RECORD_KEY)
    return found(metadata["name"], created, suite, digest, data)
