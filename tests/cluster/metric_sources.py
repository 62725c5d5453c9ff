"""MetricSources of tests: good ones, and those behind which nobody answers."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from devcluster import Instance
from tests.cluster.support import rest

_PATH = "/apis/gatewright.dev/v1alpha1/metricsources"
NOBODY = "http://127.0.0.1:1"
"""Nobody listens there."""


@contextmanager
def silent_server() -> Iterator[str]:
    """An address where connections are taken and nothing is ever answered."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken: list[socket.socket] = []

        def take() -> None:
            while True:
                try:
                    taken.append(server.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=take, name="silent server", daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(10)
            for connection in taken:
                connection.close()


class Outage:
    """An address that leads to a real source while it is up, and where nobody listens while it is down."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._to = (str(parts.hostname), int(parts.port or 80))
        self._server = socket.create_server(("127.0.0.1", 0))
        self._port = self._server.getsockname()[1]
        self._open: list[socket.socket] = []
        self._listen()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def down(self) -> None:
        """Nobody listens any more, and whoever is connected is cut off."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(10)
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._open.clear()

    def up(self) -> None:
        """At the same address as before."""
        self._server = socket.create_server(("127.0.0.1", self._port))
        self._listen()

    def _listen(self) -> None:
        self._thread = threading.Thread(
            target=self._take, args=(self._server,), name="source in front of a source", daemon=True
        )
        self._thread.start()

    def _take(self, server: socket.socket) -> None:
        while True:
            try:
                near = server.accept()[0]
                far = socket.create_connection(self._to, timeout=10)
            except OSError:
                return
            self._open += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=_pass_on, args=(one, other), daemon=True).start()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)


@contextmanager
def outage(url: str) -> Iterator[Outage]:
    """In front of the source at `url`; up at first."""
    between = Outage(url)
    try:
        yield between
    finally:
        with suppress(OSError):
            between.down()


@contextmanager
def metric_source(cluster: Instance, name: str, **spec: Any) -> Iterator[str]:
    """A MetricSource of this name, removed with the block."""
    prometheus = {
        "address": cluster.prometheus_url,
        "scrapeInterval": "1s",
        "arms": {"by": "PodName", "label": "pod", "namespaceLabel": "namespace"},
        "producer": "Workload",
    }
    with _source(cluster, name, prometheus | spec):
        yield name


@contextmanager
def result_files(cluster: Instance, name: str, **evidence: str) -> Iterator[str]:
    """A MetricSource of pushed result files, removed with the block."""
    with _source(cluster, name, {"evidence": evidence, "producer": "Judge"}):
        yield name


@contextmanager
def _source(cluster: Instance, name: str, spec: dict[str, Any]) -> Iterator[None]:
    body = {
        "apiVersion": "gatewright.dev/v1alpha1",
        "kind": "MetricSource",
        "metadata": {"name": name},
        "spec": spec,
    }
    rest(cluster.kubeconfig, "POST", _PATH, body)
    try:
        yield
    finally:
        rest(cluster.kubeconfig, "DELETE", f"{_PATH}/{name}")
