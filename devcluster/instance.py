"""One development cluster: starts its parts, knows where they are, and stops them."""

import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Self

from devcluster import binaries
from devcluster import kubeconfig as kubeconfigs
from devcluster import parts as control_plane
from devcluster.bootstrap import request_token
from devcluster.cache import Report
from devcluster.certs import Authority
from devcluster.client import Client
from devcluster.errors import DevclusterError
from devcluster.identities import server_url
from devcluster.launch import Wanted, launch
from devcluster.layout import Layout, Ports
from devcluster.parts import ALL_PARTS, with_what_they_need
from devcluster.processes import is_frozen
from devcluster.supervision import PartStatus, Supervision, is_locked, python_environment

_TOKEN_SECONDS = 30 * 24 * 3600


class Instance:
    """A cluster with its own data, certificates and ports; as many side by side as the machine carries.

    Used as a context manager it runs inside the ``with`` block. It is owned by the process that starts it:
    when that process ends, however it ends, every part ends with it.

    Args:
        dir: Where its files are; what an earlier cluster left there is removed. None: a temporary folder,
            removed at the end.
        parts: Which parts to run; a test that needs only an API server asks for ``{"etcd", "apiserver"}``.
        gateway_api: Whether the Gateway API's kinds are installed; None: when the gateway is one of the
        parts.
        scrape_interval_seconds: How often Prometheus scrapes.
        timeout_seconds: How long a part may take to become ready.
        report: Gets a line for each thing that takes long, such as the first build.

    Raises:
        DevclusterError: from :meth:`start`, with a sentence that says what to do.
    """

    def __init__(
        self,
        dir: Path | None = None,
        *,
        parts: Iterable[str] = ALL_PARTS,
        gateway_api: bool | None = None,
        scrape_interval_seconds: float = 1.0,
        timeout_seconds: float = 120.0,
        report: Report = print,
    ) -> None:
        self.parts = with_what_they_need(parts)
        self._gateway_api = control_plane.GATEWAY in self.parts if gateway_api is None else gateway_api
        self.scrape_interval_seconds = scrape_interval_seconds
        self._timeout_seconds = timeout_seconds
        self.report = report
        self._temporary = dir is None
        self._layout = Layout(Path(tempfile.mkdtemp(prefix="devcluster-")) if dir is None else dir.resolve())
        self._supervision = Supervision(self._layout.folder)
        self._ports: Ports | None = None
        self.ready_after_seconds: Mapping[str, float] = {}
        """Seconds from the start of etcd until each part was ready."""

    @classmethod
    def attach(cls, dir: Path) -> Self:
        """The cluster that already runs in ``dir``, whoever started it.

        Raises:
            NotRunning: nothing runs there.
        """
        supervision = Supervision(dir.resolve())
        info = supervision.info()
        if "ports" not in info:
            raise DevclusterError(
                f"The development cluster in {dir} is still starting: try again in a moment."
            )
        instance = cls(dir, parts=info["parts"], scrape_interval_seconds=info["scrape_interval_seconds"])
        instance._ports = Ports(**info["ports"])
        return instance

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Starts all parts and returns when they are ready; on failure nothing is left running."""
        try:
            running = launch(
                self._layout,
                Wanted(self.parts, self._gateway_api, self.scrape_interval_seconds, self._timeout_seconds),
                self.report,
            )
        except BaseException:
            self._remove_if_temporary()
            raise
        self._supervision, self._ports = running.supervision, running.ports
        self.ready_after_seconds = running.ready_after_seconds
        self._supervision.describe(
            {
                "ports": asdict(running.ports),
                "parts": sorted(self.parts),
                "scrape_interval_seconds": self.scrape_interval_seconds,
            }
        )
        return self

    def release(self) -> None:
        """Lets the cluster live on without an owner, until :meth:`stop` or ``python -m devcluster down``."""
        self._supervision.release()

    def stop(self) -> None:
        """Ends every part and returns when all are gone. Harmless when nothing runs."""
        self._supervision.stop()
        self._remove_if_temporary()

    def _remove_if_temporary(self) -> None:
        if self._temporary:
            shutil.rmtree(self._layout.folder, ignore_errors=True)

    @property
    def is_running(self) -> bool:
        """Whether the cluster's supervisor lives."""
        return is_locked(self._layout.folder)

    @property
    def dir(self) -> Path:
        """The folder with the cluster's files: ``logs/``, ``audit.log``, ``state.json``, …"""
        return self._layout.folder

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig: all rights, user ``admin`` in group ``system:masters``."""
        return self._layout.admin_kubeconfig

    @property
    def server_url(self) -> str:
        """The API server's address."""
        return server_url(self._known_ports)

    @property
    def prometheus_url(self) -> str:
        """Prometheus' address."""
        self._demand(control_plane.PROMETHEUS)
        return f"http://127.0.0.1:{self._known_ports.prometheus}"

    @property
    def gateway_url(self) -> str:
        """Where requests to the gateway go; the host name of a request chooses its HTTPRoute."""
        self._demand(control_plane.GATEWAY)
        return f"http://127.0.0.1:{self._known_ports.gateway}"

    @property
    def gateway_admin_url(self) -> str:
        """Envoy's own admin page, with its counters."""
        self._demand(control_plane.GATEWAY)
        return f"http://127.0.0.1:{self._known_ports.gateway_admin}"

    @property
    def audit_log(self) -> Path:
        """One JSON line per request and stage (a watch has two), for all users."""
        return self._layout.audit_log

    @property
    def node_dir(self) -> Path:
        """The node's folder, with the logs of its pods."""
        return self._layout.folder / control_plane.NODE

    def program(self, name: str) -> Path:
        """The path of ``kubectl``, ``helm`` or another program that fits this cluster, built if need be."""
        return binaries.ensure(name, report=self.report)[name]

    @property
    def _known_ports(self) -> Ports:
        if self._ports is None:
            raise DevclusterError("The development cluster has not been started.")
        return self._ports

    def _demand(self, part: str) -> None:
        if part not in self.parts:
            raise DevclusterError(f"This development cluster runs without {part}: name it in `parts`.")

    def user(self, name: str, groups: Iterable[str] = ()) -> Path:
        """The kubeconfig of a user who has no rights but what RBAC gives to this name and these groups."""
        members = tuple(groups)
        authority = Authority.load(self._layout.pki)
        path = self._layout.users / kubeconfigs.file_name(name, members)
        if not path.exists():
            pair = authority.issue_client(name, members)
            kubeconfigs.write_for_certificate(path, self.server_url, authority.certificate_pem, name, pair)
        return path

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """The kubeconfig of a service account that exists, with a fresh token.

        Raises:
            DevclusterError: there is no such service account.
        """
        user = f"system:serviceaccount:{namespace}:{name}"
        with Client(self.kubeconfig) as client:
            token = request_token(client, namespace, name, _TOKEN_SECONDS)
        path = self._layout.users / kubeconfigs.file_name(user, ())
        authority = (self._layout.pki / "ca.crt").read_bytes()
        kubeconfigs.write_for_token(path, self.server_url, authority, user, token)
        return path

    def status(self) -> dict[str, PartStatus]:
        """Every part that was started, and whether it still runs."""
        return self._supervision.status()

    def log_path(self, part: str) -> Path:
        """Where a part's output goes."""
        return self._layout.logs / f"{part}.log"

    def install(self, *, operator: bool = True) -> None:
        """Installs Gatewright's chart and metric sources, and runs the operator unless told otherwise.

        It may be repeated; :func:`devcluster.install.start_operator` starts further operators.
        """
        from devcluster.install import install

        install(self, operator=operator, report=self.report)

    def start_part(
        self,
        name: str,
        argv: Sequence[str | Path],
        env: Mapping[str, str] | None = None,
        *,
        stop_signal: signal.Signals = signal.SIGTERM,
        stop_seconds: float = 5.0,
    ) -> int:
        """Runs one more process as a part of the cluster and returns its pid.

        It starts in the repository's folder with this process's environment, this repository on PYTHONPATH,
        and ``env`` on top. A part that has ended may be started again under the same name.
        """
        return self._supervision.start(
            name, argv, python_environment(env), stop_signal=stop_signal, stop_seconds=stop_seconds
        )

    def kill_part(
        self, name: str, signal_number: signal.Signals = signal.SIGKILL, *, wait_seconds: float = 10.0
    ) -> int | None:
        """Sends a signal to a part; its exit code once it has ended (negative for a signal).

        For SIGSTOP it returns None once every thread of the part stands still, for SIGCONT at once.

        Raises:
            DevclusterError: the signal has had no effect after ``wait_seconds``.
        """
        pid = self._supervision.signal(name, signal_number)
        if signal_number == signal.SIGCONT:
            return None
        if signal_number == signal.SIGSTOP:
            deadline = time.monotonic() + wait_seconds
            while not is_frozen(pid):
                if time.monotonic() > deadline:
                    raise DevclusterError(f"{name} did not stand still within {wait_seconds:.0f} s.")
                time.sleep(0.005)
            return None
        code = self._supervision.wait_for_exit(name, wait_seconds)
        if code is None:
            raise DevclusterError(f"{name} did not end within {wait_seconds:.0f} s of {signal_number.name}.")
        return code
