"""What probes and hooks do to a container: ask it by HTTP, connect to it, or run a command beside it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from devcluster.addresses import listen_address
from devcluster.child_process import ChildProcess
from devcluster.kubeapi import Json
from devcluster.node.environment import (
    REPOSITORY,
    ConfigMissing,
    ConfigSource,
    command_line,
    container_environment,
)
from devcluster.node.host import NodeSettings, PodHost
from devcluster.node.leftovers import RUN_MARK
from devcluster.node.probes import ProbeResult, http_get, port_number, tcp_connect


class ContainerActions:
    """Performs actions on one container of a pod; ``spec`` gives the container as the pod has it now."""

    def __init__(
        self, host: PodHost, spec: Callable[[], Json], settings: NodeSettings, source: ConfigSource
    ) -> None:
        self._host, self._spec, self._settings, self._source = host, spec, settings, source

    async def environment(self) -> dict[str, str]:
        """The environment of the container's processes. Raises ConfigMissing."""
        environment = await container_environment(
            self._host.pod,
            self._spec(),
            node_name=self._settings.node_name,
            pod_ip=self._host.pod_ip,
            source=self._source,
        )
        return {**environment, RUN_MARK: self._settings.run_mark}

    async def perform(self, action: Json, timeout_seconds: float) -> ProbeResult:
        """Do what a probe or hook says: ``httpGet``, ``tcpSocket``, ``exec`` or ``sleep``."""
        address = listen_address(self._host.pod_ip)
        try:
            if "httpGet" in action:
                port = port_number(self._spec(), action["httpGet"]["port"])
                return await http_get(action["httpGet"], address, port, timeout_seconds)
            if "tcpSocket" in action:
                port = port_number(self._spec(), action["tcpSocket"]["port"])
                return await tcp_connect(address, port, timeout_seconds)
        except ValueError as error:
            return ProbeResult(False, str(error))
        if "exec" in action:
            return await self._execute(action["exec"]["command"], timeout_seconds)
        if "sleep" in action:
            await asyncio.sleep(float(action["sleep"]["seconds"]))
            return ProbeResult(True)
        return ProbeResult(False, "the development cluster knows httpGet, tcpSocket, exec and sleep only")

    async def _execute(self, command: list[str], timeout_seconds: float) -> ProbeResult:
        folder = Path(self._spec().get("workingDir") or REPOSITORY)
        try:
            argv = command_line({"command": command}, {})
            process = ChildProcess(argv, await self.environment(), folder, None)
        except (OSError, ConfigMissing) as error:
            return ProbeResult(False, str(error))
        try:
            async with asyncio.timeout(timeout_seconds):
                code = await process.wait()
        except TimeoutError:
            return ProbeResult(False, f"command timed out after {timeout_seconds:g} s")
        finally:
            process.kill()
        return ProbeResult(code == 0, f"command exited with code {code}")
