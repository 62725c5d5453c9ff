"""Startup, readiness and liveness probes: one attempt, and the counting that turns attempts into a state."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Self

from devcluster.kubeapi import Json

EAGER_FIRST_SECONDS = 0.05
EAGER_GROWTH = 1.5
MAX_HEADER_BYTES = 16_384


@dataclass(frozen=True)
class ProbeResult:
    """Whether one attempt succeeded, and the sentence for people."""

    ok: bool
    message: str = ""


@dataclass(frozen=True)
class ProbeTimes:
    """When attempts are made, and how many in a row change the state."""

    initial_delay_seconds: float
    period_seconds: float
    timeout_seconds: float
    success_threshold: int
    failure_threshold: int

    @classmethod
    def of(cls, spec: Json) -> Self:
        """From a container's probe, with the defaults of the Kubernetes API."""
        return cls(
            initial_delay_seconds=float(spec.get("initialDelaySeconds") or 0),
            period_seconds=float(spec.get("periodSeconds") or 10),
            timeout_seconds=float(spec.get("timeoutSeconds") or 1),
            success_threshold=int(spec.get("successThreshold") or 1),
            failure_threshold=int(spec.get("failureThreshold") or 3),
        )


class Streak:
    """Turns attempts into a state: it changes after enough equal results in a row."""

    def __init__(self, times: ProbeTimes) -> None:
        self._times = times
        self._last: bool | None = None
        self._length = 0

    def feed(self, ok: bool) -> bool | None:
        """The state after this attempt, or None while there are too few equal results to tell."""
        self._length = self._length + 1 if ok == self._last else 1
        self._last = ok
        needed = self._times.success_threshold if ok else self._times.failure_threshold
        return ok if self._length >= needed else None


async def states(
    times: ProbeTimes, attempt: Callable[[], Awaitable[ProbeResult]], *, eager: bool
) -> AsyncIterator[tuple[bool, str]]:
    """Probe for ever; yields (state, message) each time enough equal results are there.

    ``eager``: until the first success, attempts come faster than the period, so that a pod of the development
    cluster is ready as soon as it can be; failures still count once a period, as if they did not.
    """
    clock = asyncio.get_running_loop().time
    streak = Streak(times)
    await asyncio.sleep(times.initial_delay_seconds)
    counts_at = clock() + (times.period_seconds if eager else 0.0)
    pause = EAGER_FIRST_SECONDS if eager else times.period_seconds
    while True:
        result = await attempt()
        if result.ok:
            pause = times.period_seconds
        if result.ok or clock() >= counts_at:
            counts_at = clock() + times.period_seconds
            state = streak.feed(result.ok)
            if state is not None:
                yield state, result.message
        await asyncio.sleep(min(pause, times.period_seconds))
        pause *= EAGER_GROWTH


async def http_get(spec: Json, address: str, port: int, timeout_seconds: float) -> ProbeResult:
    """GET as the kubelet does it: any answer from 200 to 399 is a success."""
    scheme = str(spec.get("scheme", "HTTP")).lower()
    path = spec.get("path") or "/"
    headers = {"Host": f"{address}:{port}", "User-Agent": "kube-probe/1.36", "Connection": "close"}
    headers.update({header["name"]: header["value"] for header in spec.get("httpHeaders") or []})
    request = f"GET {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    try:
        async with asyncio.timeout(timeout_seconds):
            reader, writer = await asyncio.open_connection(
                address, port, ssl=_unverified() if scheme == "https" else None, limit=MAX_HEADER_BYTES
            )
            try:
                writer.write(request.encode() + b"\r\n")
                status_line = await reader.readline()
            finally:
                writer.transport.abort()
        status = int(status_line.split(b" ", 2)[1])
    except TimeoutError:
        return ProbeResult(
            False, f'Get "{scheme}://{address}:{port}{path}": no answer within {timeout_seconds:g} s'
        )
    except (OSError, ValueError, IndexError) as error:
        return ProbeResult(False, f'Get "{scheme}://{address}:{port}{path}": {error}')
    return ProbeResult(200 <= status < 400, f"HTTP probe failed with statuscode: {status}")


async def tcp_connect(address: str, port: int, timeout_seconds: float) -> ProbeResult:
    """A connection that is accepted is a success."""
    try:
        async with asyncio.timeout(timeout_seconds):
            _, writer = await asyncio.open_connection(address, port)
    except (TimeoutError, OSError) as error:
        return ProbeResult(False, f"dial tcp {address}:{port}: {error!r}")
    writer.transport.abort()
    return ProbeResult(True)


def port_number(container: Json, port: int | str) -> int:
    """A probe's port, by number or by the name of a port of the container. Raises ValueError for others."""
    if isinstance(port, int) or port.isdigit():
        return int(port)
    for entry in container.get("ports") or []:
        if entry.get("name") == port:
            return int(entry["containerPort"])
    raise ValueError(f"couldn't find port {port!r} in container {container['name']!r}")


def _unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
