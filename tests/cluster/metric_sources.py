"""MetricSources of tests: good ones, and those behind which nobody answers."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
