"""Brings the parts of one cluster up, side by side where their dependencies allow it."""

import os
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from devcluster import bootstrap
from devcluster import parts as control_plane
from devcluster.client import ApiRefused, Client
from devcluster.errors import DevclusterError
from devcluster.layout import Layout, Ports
from devcluster.parts import API_SERVER, CONTROLLER_MANAGER, ETCD, GATEWAY, NODE, PROMETHEUS
from devcluster.prometheus import prometheus_config
from devcluster.supervision import Supervision, python_environment

POLL_SECONDS = 0.02
LOG_LINES = 15
API_SERVER_GOGC = "400"
"""Collect garbage later: the server starts in 3/4 of the CPU time, for about 100 MB more memory."""


class PortTaken(DevclusterError):
    """Another process was faster in taking a port; the cluster can be started again on other ports."""


def log_tail(log: Path, lines: int = LOG_LINES) -> str:
    """The last lines of a log, for a message."""
    try:
        with log.open("rb") as handle:
            handle.seek(max(0, log.stat().st_size - 20_000))
            text = handle.read().decode(errors="replace")
    except FileNotFoundError:
        return "(no output)"
    return "\n".join(line[:400] for line in text.splitlines()[-lines:]) or "(no output)"


@dataclass
class Startup:
    """One attempt to start the parts in ``wanted``; a DevclusterError carries the log's end if one fails."""

    layout: Layout
    ports: Ports
    supervision: Supervision
    programs: Mapping[str, Path]
    wanted: frozenset[str]
    crds: Path | None
    seeded: bool
    scrape_interval_seconds: float
    timeout_seconds: float
    ready_after_seconds: dict[str, float] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)
    _pending: dict[str, Callable[[], bool]] = field(default_factory=dict)

    def run(self) -> None:
        """Starts everything and returns when everything is ready."""
        self._start_program(ETCD, control_plane.etcd_arguments(self.layout, self.ports))
        # Started together with etcd, the API server would find nobody there and try again only after a
        # second.
        self._wait_for({ETCD: lambda: _listens(self.ports.etcd)})
        if API_SERVER not in self.wanted:
            return
        self._start_program(API_SERVER, control_plane.api_server_arguments(self.layout, self.ports))
        with Client(self.layout.admin_kubeconfig) as client:
            self._wait_for({API_SERVER: lambda: _is_ready(client)})
            if not self.seeded:
                bootstrap.grant_rights(client)
            self._start_the_rest(client)

    def _start_the_rest(self, client: Client) -> None:
        pending: dict[str, Callable[[], bool]] = {}
        if CONTROLLER_MANAGER in self.wanted:
            arguments = control_plane.controller_manager_arguments(self.layout)
            self._start_program(CONTROLLER_MANAGER, arguments)
            pending[CONTROLLER_MANAGER] = lambda: bootstrap.default_service_account_exists(client)
        if NODE in self.wanted:
            self._start_python(NODE, control_plane.node_command(self.layout))
            pending[NODE] = self.layout.ready_file(NODE).exists
        if self.crds is not None:
            definitions = bootstrap.read_definitions(self.crds)
            if not self.seeded:
                bootstrap.install_definitions(client, definitions)
            # The gateway's first look at its routes must not meet a kind that is not served yet.
            self._wait_for({"Gateway API": lambda: bootstrap.gateway_api_is_served(client, definitions)})
        if GATEWAY in self.wanted:
            self._start_python(GATEWAY, control_plane.gateway_command(self.layout, self.ports))
            pending[GATEWAY] = self.layout.ready_file(GATEWAY).exists
        if PROMETHEUS in self.wanted:
            self._write_prometheus_config()
            self._start_program(PROMETHEUS, control_plane.prometheus_arguments(self.layout, self.ports))
            pending[PROMETHEUS] = lambda: answers(f"http://127.0.0.1:{self.ports.prometheus}/-/ready")
        self._wait_for(pending)

    def _write_prometheus_config(self) -> None:
        self.layout.prometheus_config.write_text(
            prometheus_config(
                interval_seconds=self.scrape_interval_seconds,
                kubeconfig=self.layout.kubeconfig_of(PROMETHEUS),
                gateway_admin_port=self.ports.gateway_admin if GATEWAY in self.wanted else None,
            )
        )

    def _start_program(self, part: str, arguments: list[str]) -> None:
        # The Go runtime takes proxies from the environment; nothing here ever leaves the machine.
        env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        if part == API_SERVER:
            env.setdefault("GOGC", API_SERVER_GOGC)
        program = self.programs[control_plane.PROGRAM_OF[part]]
        self.supervision.start(
            part, [program, *arguments], env, stop_signal=control_plane.stop_signal_of(part)
        )

    def _start_python(self, part: str, command: list[str | Path]) -> None:
        (self.layout.folder / part).mkdir(exist_ok=True)
        self.supervision.start(part, command, python_environment(), stop_signal=signal.SIGTERM)

    def _wait_for(self, pending: dict[str, Callable[[], bool]]) -> None:
        deadline = time.monotonic() + self.timeout_seconds
        while pending:
            for name in [name for name, is_ready in pending.items() if is_ready()]:
                del pending[name]
                self.ready_after_seconds[name] = time.monotonic() - self._began
            self._check_that_all_run()
            if time.monotonic() > deadline:
                raise DevclusterError(self._late(sorted(pending)))
            if pending:
                time.sleep(POLL_SECONDS)

    def _check_that_all_run(self) -> None:
        for name, part in self.supervision.status().items():
            if part.running:
                continue
            tail = log_tail(self.layout.logs / f"{name}.log")
            sentence = f"{name} stopped (exit code {part.exit_code}) during the start. Its output:\n{tail}"
            raise PortTaken(sentence) if "address already in use" in tail else DevclusterError(sentence)

    def _late(self, names: list[str]) -> str:
        log = self.layout.logs / f"{names[0]}.log"
        return (
            f"Not ready after {self.timeout_seconds:.0f} s: {', '.join(names)}. "
            f"The last output of {names[0]}:\n{log_tail(log)}"
        )


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True


def _is_ready(client: Client) -> bool:
    try:
        return client.request("GET", "/readyz") == {"text": "ok"}
    except (OSError, ApiRefused):
        return False


_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def answers(url: str) -> bool:
    """Whether a GET of ``url`` on this machine is answered by 200."""
    try:
        with _NO_PROXY.open(url, timeout=1.0) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.HTTPError):
        return False
