"""What the operator asked of the API server, from the cluster's audit log."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from tests.cluster.support import OPERATOR

READS = frozenset(("get", "list"))
WRITES = frozenset(("create", "update", "patch", "delete", "deletecollection"))
QUIET_SECONDS = 3.0


@dataclass(frozen=True)
class Request:
    """One request that was answered, a watch excepted; `at` is when it arrived, in seconds since 1970."""

    at: float
    verb: str
    resource: str
    """`httproutes`, `rollouts/status`; a path such as `/version` where it is about no resource."""
    namespace: str
    name: str
    code: int

    @classmethod
    def of(cls, event: dict[str, Any]) -> Self:
        about = event.get("objectRef") or {}
        parts = (about.get("resource"), about.get("subresource"))
        return cls(
            at=datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(),
            verb=event["verb"],
            resource="/".join(part for part in parts if part) or event["requestURI"].partition("?")[0],
            namespace=about.get("namespace", ""),
            name=about.get("name", ""),
            code=event["responseStatus"]["code"],
        )

    @property
    def is_write(self) -> bool:
        """Whether it asks for a change; one that was refused counts too."""
        return self.verb in WRITES

    @property
    def is_read(self) -> bool:
        """A get or a list; watches are aside."""
        return self.verb in READS


class AuditLog:
    """The operator's requests since this object was made, Leases aside."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = path.stat().st_size

    def requests(self) -> list[Request]:
        """Those that were answered by now, in the order in which they arrived."""
        with self._path.open("rb") as log:
            log.seek(self._start)
            # The last line may still be on its way into the file.
            lines = log.read().split(b"\n")[:-1]
        wanted = OPERATOR.encode()
        events = (json.loads(line) for line in lines if wanted in line)
        found = (Request.of(event) for event in events if _counts(event))
        return sorted((one for one in found if one.resource != "leases"), key=lambda one: one.at)

    def when_quiet(self) -> list[Request]:
        """The requests, as soon as there was none for three seconds: all that belongs to a release has come."""
        while True:
            found = self.requests()
            if not found or time.time() - found[-1].at > QUIET_SECONDS:
                return found
            time.sleep(0.5)

    def first(self, wanted: Callable[[Request], bool], *, after: float = 0.0) -> Request:
        """The first request of a kind. Raises LookupError when there is none."""
        found = next((one for one in self.requests() if one.at > after and wanted(one)), None)
        if found is None:
            raise LookupError("the audit log holds no such request")
        return found


def _counts(event: dict[str, Any]) -> bool:
    by_operator = event["user"]["username"] == OPERATOR
    return by_operator and event["stage"] == "ResponseComplete" and event["verb"] in READS | WRITES


def by_kind(requests: Iterable[Request]) -> Counter[tuple[str, str]]:
    """How many there were of each (verb, resource)."""
    return Counter((one.verb, one.resource) for one in requests)
