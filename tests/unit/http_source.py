"""An HTTP(S) server on loopback that answers as a test tells it to, and remembers what it was asked."""

import datetime
import ipaddress
import json
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Body = bytes | Iterable[bytes]


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    form: Mapping[str, str]


@dataclass(frozen=True)
class Reply:
    """What to answer. An iterable body is sent chunk by chunk without a length, a bytes body with one."""

    status: int = 200
    body: Body = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class HttpSource:
    """`answer` decides; `sent` counts the body bytes that went out; `stop` is set when the server is going
    down.
    """

    answer: Callable[[Asked], Reply]
    asked: list[Asked] = field(default_factory=list)
    sent: int = 0
    address: str = ""
    ca: bytes = b""
    stop: threading.Event = field(default_factory=threading.Event)


def reply_json(document: object, status: int = 200) -> Reply:
    return Reply(status, json.dumps(document).encode(), {"Content-Type": "application/json"})


def success(kind: str, result: object, **more: Any) -> Reply:
    return reply_json({"status": "success", "data": {"resultType": kind, "result": result}, **more})


@contextmanager
def serving(
    answer: Callable[[Asked], Reply], *, tls: bool = False, hostname: str | None = None
) -> Iterator[HttpSource]:
    """Serve until the block ends. With `tls` the certificate is for 127.0.0.1, or for `hostname` alone."""
    source = HttpSource(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            asked = Asked(self.command, parts.path, parts.query, dict(self.headers.items()), form)
            source.asked.append(asked)
            try:
                self._send(source.answer(asked))
            except OSError:  # the reader hung up, which is what some tests are about
                self.close_connection = True

        def do_POST(self) -> None:
            self.do_GET()

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if isinstance(reply.body, bytes):
                if "Content-Length" not in reply.headers:
                    self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)
                source.sent += len(reply.body)
                return
            chunked = "Content-Length" not in reply.headers
            if chunked:
                self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in reply.body:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk) if chunked else chunk)
                self.wfile.flush()
                source.sent += len(chunk)
            if chunked:
                self.wfile.write(b"0\r\n\r\n")

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, request: object, client_address: object) -> None:
            """Failed handshakes are expected here."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls:
        context, source.ca = _tls(hostname)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    source.address = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield source
    finally:
        source.stop.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


def _tls(hostname: str | None) -> tuple[ssl.SSLContext, bytes]:
    """A self-signed certificate for one day, and its PEM as the CA to trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "metric source of a test")])
    alternative: x509.GeneralName = (
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")) if hostname is None else x509.DNSName(hostname)
    )
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        chain = Path(folder) / "chain.pem"
        chain.write_bytes(
            pem
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        context.load_cert_chain(chain)
    return context, pem
