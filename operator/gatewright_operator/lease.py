"""Leadership by a Lease of our own: one active operator, a hand-over in about a second after a clean exit.

The official client's elector cannot create its Lease, goes on leading when the API server hangs, and writes
local time as UTC; this one is small enough to be read whole. Correctness of the gate never depends on it
(every effect carries the resourceVersion that was planned from); it keeps two operators from working against
each other.

Rules: our own validity counts from *before* the request that renewed, on the monotonic clock, for
`renew_deadline`. Others' validity counts from when *we* first saw their last renewal, for the duration that
they wrote: no clock but our own is ever trusted. Since duration > deadline, we stop before anybody else may
start.
"""

import asyncio
import logging
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from gatewright_operator.api import Api
from gatewright_operator.errors import ApiError, Conflict
from gatewright_operator.resources import LEASES

log = logging.getLogger(__name__)

Object = dict[str, Any]


@dataclass(frozen=True)
class LeaseTimes:
    """Seconds: how long a Lease holds, how long we lead without a renewal, and how often we try."""

    duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry_seconds < self.renew_deadline_seconds < self.duration_seconds:
            raise ValueError(
                f"a Lease needs 0 < retry < renew deadline < duration, not {self.retry_seconds:g} s, "
                f"{self.renew_deadline_seconds:g} s and {self.duration_seconds:g} s"
            )

    @classmethod
    def of(cls, duration_seconds: float) -> "LeaseTimes":
        """The usual proportions (15 : 10 : 2) for another duration."""
        return cls(duration_seconds, duration_seconds * 2 / 3, duration_seconds * 2 / 15)


class Elector:
    """Holds, or waits for, the Lease `name` in `namespace`.

    `identity` names this process to people; a random suffix makes it unique, so that a restarted process
    never takes its predecessor's Lease for its own while that one may still be running.
    """

    def __init__(
        self,
        api: Api,
        *,
        namespace: str,
        name: str = "gatewright",
        identity: str,
        times: LeaseTimes | None = None,
        clock: Callable[[], float] = monotonic,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self.identity = f"{identity}_{uuid.uuid4().hex[:8]}"
        self.times = times or LeaseTimes()
        self._clock = clock
        self._wall_clock = wall_clock
        self._valid_until = float("-inf")
        self._seen: tuple[str, str] | None = None
        self._seen_at = float("-inf")
        self._seen_valid_seconds = 0.0
        self._told = ""
        self.transitions = 0
        """The Lease's count of hand-overs; while we lead, the epoch of this leadership."""

    def held(self) -> bool:
        """Whether this process may act now. Cheap, and true only while the last renewal is young enough."""
        return self._clock() < self._valid_until

    async def acquire(self) -> None:
        """Wait until this process leads."""
        waiting = False
        while not await self._attempt():
            if not waiting:
                log.info(
                    "waiting for the lease", extra={"holder": self._seen[0] if self._seen else "unknown"}
                )
                waiting = True
            # Not in step with other standbys, or they would meet in one conflict each time.
            await asyncio.sleep(self.times.retry_seconds * (0.75 + random.random() / 4))
        log.info("leading", extra={"identity": self.identity, "transitions": self.transitions})

    async def keep(self) -> None:
        """Renew until leadership is lost, then return."""
        while self.held():
            await asyncio.sleep(min(self.times.retry_seconds, max(0.0, self._valid_until - self._clock())))
            if self.held() and not await self._attempt() and self._valid_until == float("-inf"):
                break
        self._valid_until = float("-inf")
        log.warning("leadership lost", extra={"holder": self._seen[0] if self._seen else "unknown"})

    async def release(self) -> None:
        """Give the Lease up, so that a standby need not wait for its end. Failing to is harmless."""
        if not self.held():
            return
        self._valid_until = float("-inf")
        try:
            lease = await self._get()
            if lease is None or _spec(lease).get("holderIdentity") != self.identity:
                return
            spec = {k: v for k, v in _spec(lease).items() if k != "holderIdentity"}
            spec |= {"leaseDurationSeconds": 1, "renewTime": self._now()}
            await self._replace(lease, spec)
            log.info("lease released")
        except ApiError as error:
            log.info("lease not released; it ends by itself", extra={"error": str(error)})

    async def _attempt(self) -> bool:
        """Take or renew the Lease once; True when that worked. Whatever goes wrong is a failed attempt."""
        started = self._clock()
        try:
            async with asyncio.timeout(self._patience(started)):
                lease = await self._get()
                if lease is None:
                    await self._api.create(LEASES, self._namespace, self._new())
                    self.transitions = 0
                elif not self._may_take(lease, started):
                    if self.held():
                        # Somebody else holds it although our renewal is young: a person took it away.
                        self._valid_until = float("-inf")
                    return False
                else:
                    await self._replace(lease, self._renewed(lease))
        except (TimeoutError, ApiError) as error:
            if not isinstance(error, Conflict):
                self._tell(str(error) or type(error).__name__)
            return False
        self._told = ""
        self._valid_until = started + self.times.renew_deadline_seconds
        return True

    def _tell(self, trouble: str) -> None:
        """Log a trouble once, not at each attempt."""
        if trouble != self._told:
            log.warning("lease not renewed", extra={"error": trouble})
        self._told = trouble

    def _patience(self, started: float) -> float:
        # While leading no attempt may outlast the leadership, and a hung one must leave time for another.
        left = self._valid_until - started
        half = self.times.renew_deadline_seconds / 2
        return max(0.05, min(left, half)) if left > 0 else half

    def _may_take(self, lease: Object, now: float) -> bool:
        spec = _spec(lease)
        holder = spec.get("holderIdentity") or ""
        seen = (holder, str(spec.get("renewTime")))
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
            self._seen_valid_seconds = float(spec.get("leaseDurationSeconds") or self.times.duration_seconds)
        if holder in ("", self.identity):
            return True
        return now >= self._seen_at + self._seen_valid_seconds

    def _renewed(self, lease: Object) -> Object:
        spec = _spec(lease)
        transitions = int(spec.get("leaseTransitions") or 0)
        if spec.get("holderIdentity") == self.identity:
            acquired = spec.get("acquireTime")
        else:
            transitions, acquired = transitions + 1, self._now()
        self.transitions = transitions
        return self._spec(acquired, transitions)

    def _new(self) -> Object:
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._spec(self._now(), 0),
        }

    def _spec(self, acquired: object, transitions: int) -> Object:
        return {
            "holderIdentity": self.identity,
            # The API wants whole seconds; rounded up, so that others never wait shorter than we lead.
            "leaseDurationSeconds": max(1, -int(-self.times.duration_seconds // 1)),
            "acquireTime": acquired,
            "renewTime": self._now(),
            "leaseTransitions": transitions,
        }

    async def _get(self) -> Object | None:
        return await self._api.get(
            LEASES, self._namespace, self._name, timeout_seconds=self.times.renew_deadline_seconds / 2
        )

    async def _replace(self, lease: Object, spec: Object) -> None:
        await self._api.replace(
            LEASES,
            self._namespace,
            self._name,
            {**lease, "spec": spec},
            timeout_seconds=self.times.renew_deadline_seconds / 2,
        )

    def _now(self) -> str:
        return self._wall_clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _spec(lease: Object) -> Object:
    spec = lease.get("spec")
    return spec if isinstance(spec, dict) else {}
