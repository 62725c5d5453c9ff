"""The life of one container: started, probed, restarted with back-off, ended."""

import asyncio
import logging
import secrets
from pathlib import Path
from typing import Literal

from devcluster.child_process import ChildProcess
from devcluster.kubeapi import Json
from devcluster.node.actions import ContainerActions
from devcluster.node.environment import REPOSITORY, ConfigMissing, ConfigSource, command_line
from devcluster.node.host import NodeSettings, PodHost
from devcluster.node.images import IMAGE_ID_ANNOTATION, ImageError, image_id, pull
from devcluster.node.logs import log_path
from devcluster.node.prober import ProbeReactions, follow_probes
from devcluster.node.status import ContainerView, timestamp
from devcluster.node.termination import TERMINATION_LOG, message_path, take_message

log = logging.getLogger(__name__)

RestartPolicy = Literal["Always", "OnFailure", "Never"]

CONFIG_RETRY_SECONDS = 1.0
CANNOT_START_EXIT_CODE = 128


class Backoff:
    """Seconds to wait before a restart: none before the first, then doubling; a long run starts anew."""

    def __init__(self, base_seconds: float, max_seconds: float) -> None:
        self._base, self._max = base_seconds, max_seconds
        self._next = 0.0

    def after(self, ran_seconds: float) -> float:
        """The wait after a run that lasted this long."""
        if ran_seconds > 2 * self._max:
            self._next = 0.0
        wait = self._next
        self._next = min(self._max, max(self._base, 2 * wait))
        return wait


class ContainerRunner:
    """Runs one container of a pod until it is finished for good or stopped.

    ``previous``: its entry in ``containerStatuses`` from an earlier run of the agent, whose processes are
    gone.
    """

    def __init__(
        self,
        name: str,
        policy: RestartPolicy,
        host: PodHost,
        settings: NodeSettings,
        source: ConfigSource,
        *,
        is_init: bool = False,
        previous: Json | None = None,
    ) -> None:
        self.name = name
        self._policy = policy
        self._host, self._settings = host, settings
        self._actions = ContainerActions(host, lambda: self.spec, settings, source)
        self._section = "initContainers" if is_init else "containers"
        self._process: ChildProcess | None = None
        self._probing: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self.has_started = asyncio.Event()
        """Set once it runs and its startup probe, if any, has succeeded."""
        self._backoff = Backoff(settings.backoff_base_seconds, settings.backoff_max_seconds)
        self._image_id = self._container_id = ""
        self._ready = self._started = False
        self._runs = self._restarts = 0
        waiting = "ContainerCreating" if not host.pod["spec"].get("initContainers") else "PodInitializing"
        self._state: Json = {"waiting": {"reason": waiting}}
        self._last_state: Json = {}
        if previous is not None:
            self._resume(previous)

    @property
    def spec(self) -> Json:
        """The container as the pod has it now (its image may be changed in place)."""
        entries: list[Json] = self._host.pod["spec"][self._section]
        return next(entry for entry in entries if entry["name"] == self.name)

    @property
    def finished(self) -> bool:
        """Terminated, and by its restart policy never to run again."""
        terminated = self._state.get("terminated")
        return terminated is not None and not self._restarts_after(int(terminated["exitCode"]))

    def view(self) -> ContainerView:
        """What the status shows of it now."""
        forced = (self._host.pod["metadata"].get("annotations") or {}).get(IMAGE_ID_ANNOTATION)
        image = self.spec["image"]
        return ContainerView(
            name=self.name,
            image=image,
            image_id=image_id(image, forced) if forced and self._image_id else self._image_id,
            container_id=self._container_id,
            state=self._state,
            last_state=self._last_state,
            ready=self._ready,
            started=self._started,
            restart_count=self._restarts,
        )

    async def run(self) -> None:
        """Run it until it is finished for good, or until ``stop``."""
        clock = asyncio.get_running_loop().time
        while not self._stopping.is_set() and not self.finished:
            began = clock()
            code = await self._run_once()
            if code is None or self._stopping.is_set() or not self._restarts_after(code):
                return
            wait = self._backoff.after(clock() - began)
            if wait > 0:
                message = f"back-off {wait:g}s restarting failed container={self.name}"
                self._wait_for("CrashLoopBackOff", message)
                self._host.event("BackOff", f"Back-off restarting failed container {self.name}")
                await self._pause(wait)

    async def stop(self) -> None:
        """Not ready at once; preStop, SIGTERM. The pod kills it when its grace period is over."""
        self._stopping.set()
        process = self._process
        if process is None:
            return
        if self._probing is not None:
            self._probing.cancel()
        self._ready = False
        self._host.changed()
        await self._pre_stop(process)
        process.terminate()
        await process.wait()

    def kill(self) -> None:
        """SIGKILL, now."""
        self._stopping.set()
        if self._process is not None:
            self._process.kill()

    def _resume(self, previous: Json) -> None:
        self._state = previous.get("state") or self._state
        self._last_state = previous.get("lastState") or {}
        self._restarts = int(previous.get("restartCount") or 0)
        self._image_id = previous.get("imageID", "")
        self._container_id = previous.get("containerID", "")
        if "terminated" in self._state and not self.finished:
            self._last_state = self._state
        if "running" in self._state:
            self._last_state = {
                "terminated": {
                    "exitCode": 255,
                    "reason": "Unknown",
                    "startedAt": self._state["running"].get("startedAt"),
                    "finishedAt": timestamp(),
                    "containerID": self._container_id,
                }
            }
            self._state = {"waiting": {"reason": "ContainerCreating"}}
        if self._last_state:
            self._runs = self._restarts + 1

    def _restarts_after(self, exit_code: int) -> bool:
        return self._policy == "Always" or (self._policy == "OnFailure" and exit_code != 0)

    async def _run_once(self) -> int | None:
        """One run; its exit code, or None when it was stopped before it could start."""
        process = await self._start()
        if process is None:
            return None if self._stopping.is_set() else CANNOT_START_EXIT_CODE
        self._probing = asyncio.create_task(self._probe(process))
        try:
            code = await process.wait()
        finally:
            self._probing.cancel()
            (failure,) = await asyncio.gather(self._probing, return_exceptions=True)
            if isinstance(failure, Exception):
                log.error("probing has failed, the container went on without", exc_info=failure)
        self._process = None
        message = take_message(message_path(self._settings.directory, self._container_id))
        self._terminated(code, "Completed" if code == 0 else "Error", message)
        return code

    async def _start(self) -> ChildProcess | None:
        """Start it as soon as its image and configuration are there; None when stopped or not runnable."""
        wait = self._settings.backoff_base_seconds
        while not self._stopping.is_set():
            spec, pod = self.spec, self._host.pod
            try:
                has_command = bool(spec.get("command") or spec.get("args"))
                digest = pull(spec["image"], has_command, self._settings.directory / "images.json")
                environment = await self._actions.environment()
            except ImageError as error:
                self._wait_for(error.reason, str(error))
                self._host.event("Failed", str(error))
                await self._pause(self._settings.backoff_base_seconds)
                self._wait_for(error.backoff_reason, f'Back-off pulling image "{spec["image"]}"')
                await self._pause(wait)
                wait = min(self._settings.backoff_max_seconds, 2 * wait)
            except ConfigMissing as error:
                self._wait_for("CreateContainerConfigError", str(error))
                self._host.event("Failed", f"Error: {error}")
                await self._pause(CONFIG_RETRY_SECONDS)
            else:
                if self._stopping.is_set():
                    return None
                return self._launch(pod, spec, digest, environment)
        return None

    def _launch(self, pod: Json, spec: Json, digest: str, environment: dict[str, str]) -> ChildProcess | None:
        metadata = pod["metadata"]
        self._image_id = digest
        self._container_id = f"devcluster://{secrets.token_hex(32)}"
        self._restarts = self._runs
        self._runs += 1
        if "terminated" in self._state:
            self._last_state = self._state
        log_file = log_path(self._settings.directory, metadata["namespace"], metadata["name"], self.name)
        message_file = self._message_file()
        environment = {**environment, TERMINATION_LOG: str(message_file)}
        argv = command_line(spec, environment)
        try:
            process = ChildProcess(argv, environment, Path(spec.get("workingDir") or REPOSITORY), log_file)
        except OSError as error:
            message_file.unlink()
            with open(log_file, "a") as file:
                file.write(f"cannot start {argv[0]}: {error}\n")
            self._state = {"running": {"startedAt": timestamp()}}
            self._terminated(CANNOT_START_EXIT_CODE, "StartError", f"cannot start {argv[0]}: {error}")
            self._host.event("Failed", f"Error: cannot start {argv[0]}: {error}")
            return None
        self._process = process
        self._state = {"running": {"startedAt": timestamp()}}
        self._started = "startupProbe" not in spec
        self._ready = self._started and "readinessProbe" not in spec
        if self._started:
            self.has_started.set()
        log.debug("container started", extra={"pod": metadata["name"], "container": self.name})
        self._host.changed()
        return process

    def _message_file(self) -> Path:
        path = message_path(self._settings.directory, self._container_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    async def _probe(self, process: ChildProcess) -> None:
        async def failed(probe: Json) -> None:
            await self._end_run(process, probe)

        await follow_probes(
            self.spec, self._actions, self._host, ProbeReactions(self._startup_done, self._set_ready, failed)
        )

    def _startup_done(self) -> None:
        self._started = True
        self._ready = "readinessProbe" not in self.spec
        self.has_started.set()
        self._host.changed()

    def _set_ready(self, ready: bool) -> None:
        # Once it is told to stop, no late answer makes it ready again.
        if ready != self._ready and not self._stopping.is_set():
            self._ready = ready
            self._host.changed()

    async def _end_run(self, process: ChildProcess, probe: Json) -> None:
        """End a run whose probe failed and wait for that; the restart policy decides what follows."""
        self._host.event("Killing", f"Container {self.name} failed a probe and is ended")
        grace = probe.get("terminationGracePeriodSeconds")
        if grace is None:
            grace = self._host.pod["spec"].get("terminationGracePeriodSeconds", 30)
        self._ready = False
        self._host.changed()
        try:
            async with asyncio.timeout(float(grace)):
                await self._pre_stop(process)
                process.terminate()
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _pre_stop(self, process: ChildProcess) -> None:
        hook = (self.spec.get("lifecycle") or {}).get("preStop")
        if not hook:
            return
        limit = float(self._host.pod["spec"].get("terminationGracePeriodSeconds") or 30)
        acting = asyncio.create_task(self._actions.perform(hook, limit))
        exited = asyncio.create_task(process.wait())
        # A container that ends by itself, or is killed, does not wait for its hook.
        await asyncio.wait({acting, exited}, return_when=asyncio.FIRST_COMPLETED)
        if acting.done() and not acting.result().ok:
            self._host.event("FailedPreStopHook", acting.result().message)
        for task in (acting, exited):
            task.cancel()
        await asyncio.gather(acting, exited, return_exceptions=True)

    def _wait_for(self, reason: str, message: str) -> None:
        if "terminated" in self._state:
            self._last_state = self._state
        self._state = {"waiting": {"reason": reason, "message": message}}
        self._host.changed()

    def _terminated(self, code: int, reason: str, message: str | None = None) -> None:
        terminated: Json = {
            "exitCode": code,
            "reason": reason,
            "startedAt": self._state["running"]["startedAt"],
            "finishedAt": timestamp(),
            "containerID": self._container_id,
        }
        if message is not None:
            terminated["message"] = message
        self._state = {"terminated": terminated}
        self._ready = self._started = False
        self._host.changed()

    async def _pause(self, seconds: float) -> None:
        """Sleep, but not past ``stop``."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass
