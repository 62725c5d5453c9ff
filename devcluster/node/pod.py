"""The life of one pod on this node: its containers in order, its status, its end."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from devcluster.kubeapi import ApiError, Conflict, Json, KubeApi, NotFound
from devcluster.node.address_pool import AddressPool
from devcluster.node.container import ContainerRunner
from devcluster.node.environment import ConfigSource
from devcluster.node.host import NodeSettings
from devcluster.node.status import PodFacts, pod_status, timestamp
from devcluster.resources import PODS

log = logging.getLogger(__name__)

STATUS_RETRY_SECONDS = 0.5


@dataclass(frozen=True)
class NodeServices:
    """What all pods of the agent share."""

    api: KubeApi
    settings: NodeSettings
    addresses: AddressPool
    source: ConfigSource
    record: Callable[[Json, str, str], None]
    """Tells people of a trouble: pod, reason, message."""


class PodWorker:
    """Runs one bound pod until its object is gone. It is the only writer of the pod's node status."""

    def __init__(self, pod: Json, services: NodeServices) -> None:
        self.pod = pod
        self._services = services
        status = pod.get("status") or {}
        self.pod_ip = self._address(status.get("podIP"))
        self._start_time = status.get("startTime") or timestamp()
        self._conditions: list[Json] = status.get("conditions") or []
        self._written: Json | None = None
        self._written_ip = status.get("podIP")
        self._dirty = asyncio.Event()
        self._terminate = asyncio.Event()
        self._grace_is_over: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._initialized = False
        self.finished = False
        """Whether no container runs and none will again."""
        self._inits = self._runners("initContainers", "initContainerStatuses")
        self._mains = self._runners("containers", "containerStatuses")
        if pod["metadata"].get("deletionTimestamp"):
            self._begin_termination()

    async def run(self) -> None:
        """From the first container's start to the deletion of the pod's object."""
        self._warn_of_volumes()
        writing = asyncio.create_task(self._write_when_dirty())
        stopping = asyncio.create_task(self._stop_when_terminated())
        try:
            if not self._terminate.is_set():
                await self._run_containers()
            self.finished = True
            self.changed()
            await self._terminate.wait()
            await stopping
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            await self._write_status()
            await self._delete()
        finally:
            self.kill()
            writing.cancel()
            stopping.cancel()
            await asyncio.gather(writing, stopping, return_exceptions=True)
            if self._grace_is_over is not None:
                self._grace_is_over.cancel()
            self._services.addresses.release(self.pod_ip)

    def update(self, pod: Json) -> None:
        """The pod's object has changed."""
        before, self.pod = self.pod, pod
        if pod["metadata"].get("deletionTimestamp"):
            self._begin_termination()
        if any(
            before["metadata"].get(key) != pod["metadata"].get(key) for key in ("annotations", "generation")
        ) or pod["spec"].get("readinessGates"):
            self.changed()

    def start(self, task: asyncio.Task[None]) -> None:
        """Name the task that ``run`` is part of, so that ``vanish`` can end it."""
        self._task = task

    def vanish(self) -> None:
        """The object is gone: nothing of the pod may go on."""
        self.kill()
        if self._task is not None:
            self._task.cancel()

    def changed(self) -> None:
        """Something that the status shows has changed."""
        self._dirty.set()

    def event(self, reason: str, message: str) -> None:
        """Tell people of a trouble, once."""
        self._services.record(self.pod, reason, message)

    def kill(self) -> None:
        """End all its processes now."""
        for runner in (*self._inits, *self._mains):
            runner.kill()

    def _warn_of_volumes(self) -> None:
        """Processes share the machine's files, so nothing can be mounted for one: better said than found out."""
        names = [volume["name"] for volume in self.pod["spec"].get("volumes") or []]
        # Every pod gets this one from the API server, for the token that its service account may need.
        asked_for = [name for name in names if not name.startswith("kube-api-access-")]
        if asked_for:
            self.event("FailedMount", f"volumes are not mounted in the development cluster: {asked_for}")

    def _address(self, reported: str | None) -> str:
        addresses = self._services.addresses
        if reported is not None and addresses.reserve(reported):
            return reported
        return addresses.take()

    def _runners(self, section: str, statuses: str) -> list[ContainerRunner]:
        spec = self.pod["spec"]
        previous = {entry["name"]: entry for entry in (self.pod.get("status") or {}).get(statuses) or []}
        is_init = section == "initContainers"
        policy = spec.get("restartPolicy", "Always")
        runners = []
        for entry in spec.get(section) or []:
            own = entry.get("restartPolicy")
            runners.append(
                ContainerRunner(
                    entry["name"],
                    own or ("OnFailure" if is_init and policy == "Always" else policy),
                    self,
                    self._services.settings,
                    self._services.source,
                    is_init=is_init,
                    previous=previous.get(entry["name"]),
                )
            )
        return runners

    async def _run_containers(self) -> None:
        """Init containers one after the other, then the others side by side, sidecars along with them."""
        sidecars: list[asyncio.Task[None]] = []
        try:
            for runner in self._inits:
                if runner.spec.get("restartPolicy") == "Always":
                    sidecars.append(asyncio.create_task(runner.run()))
                    await self._first(runner.has_started.wait(), self._terminate.wait())
                else:
                    await runner.run()
                    if runner.view().exit_code != 0:
                        return
                if self._terminate.is_set():
                    return
            self._initialized = True
            async with asyncio.TaskGroup() as group:
                for runner in self._mains:
                    group.create_task(runner.run())
        finally:
            for runner in self._inits:
                if sidecars:
                    await runner.stop()
            await asyncio.gather(*sidecars)

    @staticmethod
    async def _first(*waits: Coroutine[Any, Any, object]) -> None:
        tasks = [asyncio.create_task(wait) for wait in waits]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    def _begin_termination(self) -> None:
        """Start the grace period, or shorten it when somebody deletes the pod again with less of it."""
        grace = float(self.pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        loop = asyncio.get_running_loop()
        if self._grace_is_over is None or loop.time() + grace < self._grace_is_over.when():
            if self._grace_is_over is not None:
                self._grace_is_over.cancel()
            self._grace_is_over = loop.call_later(grace, self.kill)
        self._terminate.set()

    async def _stop_when_terminated(self) -> None:
        await self._terminate.wait()
        await asyncio.gather(*(runner.stop() for runner in (*self._inits, *self._mains)))

    def _status(self) -> Json:
        gates = {
            condition["type"]: condition["status"]
            for condition in (self.pod.get("status") or {}).get("conditions") or []
        }
        facts = PodFacts(
            pod_ip=self.pod_ip,
            start_time=self._start_time,
            initialized=self._initialized,
            finished=self.finished,
            init_views=[runner.view() for runner in self._inits],
            views=[runner.view() for runner in self._mains],
            gates=gates,
        )
        return pod_status(self.pod, facts, self._conditions, timestamp())

    async def _write_when_dirty(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            await self._write_status()

    async def _write_status(self) -> None:
        """Write the status if it differs from what was written last; a pod that is gone needs none."""
        metadata = self.pod["metadata"]
        while True:
            status = self._status()
            if status == self._written:
                return
            patch = dict(status)
            if self._written_ip not in (None, self.pod_ip):
                # Lists of addresses merge by their values: without this the old address would stay.
                patch["podIPs"] = [*status["podIPs"], {"$patch": "replace"}]
            try:
                await self._services.api.patch(
                    PODS,
                    metadata["name"],
                    {"metadata": {"uid": metadata["uid"]}, "status": patch},
                    metadata["namespace"],
                    subresource="status",
                    kind="strategic",
                )
            except (NotFound, Conflict):
                return
            except ApiError as error:
                log.warning("status not written", extra={"pod": metadata["name"], "error": str(error)})
                await asyncio.sleep(STATUS_RETRY_SECONDS)
                continue
            self._written, self._written_ip = status, self.pod_ip
            self._conditions = status["conditions"]

    async def _delete(self) -> None:
        metadata = self.pod["metadata"]
        while True:
            try:
                await self._services.api.delete(
                    PODS, metadata["name"], metadata["namespace"], grace_period_seconds=0, uid=metadata["uid"]
                )
                return
            except (NotFound, Conflict):
                return
            except ApiError as error:
                log.warning("pod not deleted", extra={"pod": metadata["name"], "error": str(error)})
                await asyncio.sleep(STATUS_RETRY_SECONDS)
