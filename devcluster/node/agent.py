"""The agent: watches the pods, gives each a place, and keeps one worker for each."""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from devcluster.kubeapi import ApiError, Conflict, Json, KubeApi, NotFound
from devcluster.node.address_pool import AddressPool
from devcluster.node.config_source import ApiConfigSource
from devcluster.node.events import EventRecorder
from devcluster.node.host import NodeSettings
from devcluster.node.leftovers import kill_marked
from devcluster.node.pod import NodeServices, PodWorker
from devcluster.node.registration import NodeRegistration, node_labels
from devcluster.node.scheduling import unschedulable
from devcluster.node.status import timestamp
from devcluster.resources import PODS

log = logging.getLogger(__name__)

FINISHED_PHASES = ("Succeeded", "Failed")


class NodeAgent:
    """One node of the cluster, as long as ``run`` runs."""

    def __init__(self, api: KubeApi, settings: NodeSettings) -> None:
        self._api, self._settings = api, settings
        self._labels = node_labels(settings.node_name)
        self._addresses = AddressPool()
        self._events = EventRecorder(api, settings.node_name)
        self._services = NodeServices(
            api, settings, self._addresses, ApiConfigSource(api), self._events.record
        )
        self._workers: dict[str, PodWorker] = {}
        self._unplaced: dict[str, Json] = {}
        self._binding: dict[str, Json] = {}
        """Pods that have a place here and are not seen with it yet: they count for anti-affinity."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._synced = [asyncio.Event(), asyncio.Event()]

    async def run(self) -> None:
        """Serve until cancelled; then no process of a pod is left."""
        ready = self._settings.directory / "ready"
        ready.unlink(missing_ok=True)
        left = kill_marked(f"{self._settings.directory}#")
        if left:
            log.info("ended what an earlier run had left", extra={"processes": left})
        (self._settings.directory / "logs").mkdir(parents=True, exist_ok=True)
        registration = NodeRegistration(self._api, self._settings.node_name)
        try:
            await registration.register()
            async with asyncio.TaskGroup() as group:
                group.create_task(registration.keep_alive())
                group.create_task(self._events.run())
                group.create_task(self._follow_placed())
                group.create_task(self._follow_unplaced())
                for event in self._synced:
                    await event.wait()
                ready.touch()
                log.info("node ready", extra={"node": self._settings.node_name})
        finally:
            ready.unlink(missing_ok=True)
            for worker in self._workers.values():
                worker.kill()
            kill_marked(self._settings.run_mark)
            for task in self._tasks:
                task.cancel()
            self._addresses.close()

    async def _follow_placed(self) -> None:
        selector = f"spec.nodeName={self._settings.node_name}"
        async for event in self._api.watch(PODS, field_selector=selector):
            match event.kind:
                case "SYNCED":
                    self._synced[0].set()
                case "DELETED":
                    self._gone(event.object)
                case _:
                    self._seen(event.object)

    def _seen(self, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        worker = self._workers.get(uid)
        if worker is not None:
            worker.update(pod)
            return
        finished = (pod.get("status") or {}).get("phase") in FINISHED_PHASES
        if finished and not pod["metadata"].get("deletionTimestamp"):
            return
        worker = self._workers[uid] = PodWorker(pod, self._services)
        self._binding.pop(uid, None)
        worker.start(self._start(self._serve(uid, worker)))

    async def _serve(self, uid: str, worker: PodWorker) -> None:
        try:
            await worker.run()
        finally:
            if self._workers.get(uid) is worker:
                del self._workers[uid]

    def _gone(self, pod: Json) -> None:
        """Deleted by force, or by us: nothing of it may go on running."""
        self._binding.pop(pod["metadata"]["uid"], None)
        worker = self._workers.pop(pod["metadata"]["uid"], None)
        if worker is not None:
            worker.vanish()
        for unplaced in list(self._unplaced.values()):
            self._start(self._place(unplaced))

    async def _follow_unplaced(self) -> None:
        async for event in self._api.watch(PODS, field_selector="spec.nodeName="):
            match event.kind:
                case "SYNCED":
                    self._synced[1].set()
                case "DELETED":
                    self._unplaced.pop(event.object["metadata"]["uid"], None)
                case "ADDED":
                    self._start(self._place(event.object))
                case _:
                    if not self._placing_waits(event.object):
                        self._start(self._place(event.object))

    def _placing_waits(self, pod: Json) -> bool:
        """Whether it was found to have no place, and still has its own reason for that."""
        known = self._unplaced.get(pod["metadata"]["uid"])
        if known is None:
            return False
        self._unplaced[pod["metadata"]["uid"]] = pod
        return bool(known["spec"] == pod["spec"])

    async def _place(self, pod: Json) -> None:
        """Bind a pod to this node, or say why not."""
        metadata, spec = pod["metadata"], pod["spec"]
        if spec.get("schedulingGates") or metadata.get("deletionTimestamp"):
            return
        placed = [worker.pod for worker in self._workers.values() if not worker.finished]
        placed += self._binding.values()
        reason = unschedulable(pod, self._labels, placed)
        if reason is not None:
            first = metadata["uid"] not in self._unplaced
            self._unplaced[metadata["uid"]] = pod
            if first:
                await self._report_unschedulable(pod, reason)
            return
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self._settings.node_name},
        }
        self._unplaced.pop(metadata["uid"], None)
        self._binding[metadata["uid"]] = pod
        while True:
            try:
                await self._api.create(
                    PODS, binding, metadata["namespace"], name=metadata["name"], subresource="binding"
                )
                return
            except (NotFound, Conflict):
                self._binding.pop(metadata["uid"], None)
                return  # gone, or bound already
            except ApiError as error:
                log.warning("pod not bound", extra={"pod": metadata["name"], "error": str(error)})
                await asyncio.sleep(0.5)

    async def _report_unschedulable(self, pod: Json, reason: str) -> None:
        metadata = pod["metadata"]
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": reason,
            "lastProbeTime": None,
            "lastTransitionTime": timestamp(),
        }
        self._events.record(pod, "FailedScheduling", reason)
        with suppress(NotFound, Conflict):
            await self._api.patch(
                PODS,
                metadata["name"],
                {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [condition]}},
                metadata["namespace"],
                subresource="status",
                kind="strategic",
            )

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something beside the watches; its failure is told, and ends only itself."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a pod's work failed", exc_info=task.exception())
