"""The probes of one run of a container, in their order: startup first, then readiness and liveness."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from devcluster.kubeapi import Json
from devcluster.node.actions import ContainerActions
from devcluster.node.host import PodHost
from devcluster.node.probes import ProbeTimes, states


@dataclass(frozen=True)
class ProbeReactions:
    """What follows from the probes."""

    started: Callable[[], None]
    """The startup probe succeeded."""
    ready: Callable[[bool], None]
    """The readiness probe changed its mind, or said the same again."""
    failed: Callable[[Json], Awaitable[None]]
    """This startup or liveness probe gave the run up."""


async def follow_probes(
    spec: Json, actions: ContainerActions, host: PodHost, reactions: ProbeReactions
) -> None:
    """Probe for as long as the run lasts; the caller cancels it with the run."""

    def results(probe: Json, *, eager: bool) -> AsyncIterator[tuple[bool, str]]:
        times = ProbeTimes.of(probe)
        return states(times, lambda: actions.perform(probe, times.timeout_seconds), eager=eager)

    async def readiness(probe: Json) -> None:
        async for ok, message in results(probe, eager=True):
            if not ok:
                host.event("Unhealthy", f"Readiness probe failed: {message}")
            reactions.ready(ok)

    async def liveness(probe: Json) -> None:
        async for ok, message in results(probe, eager=False):
            if not ok:
                host.event("Unhealthy", f"Liveness probe failed: {message}")
                await reactions.failed(probe)

    if "startupProbe" in spec:
        async for ok, message in results(spec["startupProbe"], eager=True):
            if not ok:
                host.event("Unhealthy", f"Startup probe failed: {message}")
                await reactions.failed(spec["startupProbe"])
            reactions.started()
            break
    async with asyncio.TaskGroup() as group:
        if "readinessProbe" in spec:
            group.create_task(readiness(spec["readinessProbe"]))
        if "livenessProbe" in spec:
            group.create_task(liveness(spec["livenessProbe"]))
