"""Sinks of tests: a small HTTP server on loopback that keeps what it was sent, and NotificationSinks that lead there."""

import base64
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from devcluster import ApiRefused, Instance
from tests.cluster.support import OPERATOR_NAMESPACE, eventually, rest

SECRET = "sinks-of-tests"
KEY = "the-key-of-a-sink-of-a-test"
_SINKS = "/apis/gatewright.dev/v1alpha1/notificationsinks"
_SECRETS = f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/secrets"


@dataclass(frozen=True)
class Post:
    """One request, as it came in."""

    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


class Receiver:
    """A sink's server. While `open` is not set, requests are taken and not answered; while `down`, there is no server."""

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.status = 200
        self.open = threading.Event()
        self.open.set()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/told"

    def start(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                receiver.posts.append(Post(self.path, {k.lower(): v for k, v in self.headers.items()}, raw))
                receiver.open.wait(60)
                with suppress(OSError):
                    self.send_response(receiver.status)
                    self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nothing on the screen."""

        ThreadingHTTPServer.allow_reuse_address = True
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def about(self, namespace: str, kind: str | None = None) -> list[Post]:
        """What a webhook was told about the Rollout of a namespace."""
        return [
            post
            for post in list(self.posts)
            if post.body.get("rollout", {}).get("namespace") == namespace
            and (kind is None or post.body["kind"] == kind)
        ]


@contextmanager
def receiver(*, up: bool = True) -> Iterator[Receiver]:
    """A server that is ended with the block."""
    server = Receiver()
    if up:
        server.start()
    try:
        yield server
    finally:
        server.open.set()
        server.stop()


@contextmanager
def sink(instance: Instance, name: str, /, **spec: Any) -> Iterator[str]:
    """A NotificationSink of this name, removed with the block."""
    data = {"metadata": {"name": SECRET}, "data": {"key": base64.b64encode(KEY.encode()).decode()}}
    with suppress(ApiRefused):  # another test has made it
        rest(instance.kubeconfig, "POST", _SECRETS, data)
    body = {
        "apiVersion": "gatewright.dev/v1alpha1",
        "kind": "NotificationSink",
        "metadata": {"name": name},
        "spec": {"secretRef": {"name": SECRET, "key": "key"}} | spec,
    }
    rest(instance.kubeconfig, "POST", _SINKS, body)
    try:
        yield name
    finally:
        rest(instance.kubeconfig, "DELETE", f"{_SINKS}/{name}")


def status_of(cluster: Instance, name: str) -> Any:
    return rest(cluster.kubeconfig, "GET", f"{_SINKS}/{name}").get("status", {})


def delivered(cluster: Instance, name: str, kind: str, state: str = "Sent", seconds: float = 60) -> Any:
    """Waits until the sink's status says so of the one delivery of a kind, and returns it."""

    def there() -> Any:
        found = [d for d in status_of(cluster, name).get("deliveries", ()) if d["kind"] == kind]
        assert len(found) == 1 and found[0]["state"] == state, found
        return found[0]

    return eventually(there, seconds, f"{kind} is {state}")


def label(cluster: Instance, namespace: str, **labels: str) -> None:
    """Labels on a namespace, which sinks select by."""
    rest(
        cluster.kubeconfig,
        "PATCH",
        f"/api/v1/namespaces/{namespace}",
        {"metadata": {"labels": labels}},
        content_type="application/merge-patch+json",
    )
