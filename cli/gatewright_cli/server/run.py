"""Starts the review page: options to a listening process."""

import logging
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from gatewright_cli.errors import Exit, GateError, UsageError
from gatewright_cli.server import access
from gatewright_cli.server.app import Site
from gatewright_cli.server.cluster import Cluster

_HELP = "gatewright server --help"


@dataclass(frozen=True, slots=True)
class Options:
    """As on the command line."""

    kubeconfig: str | None
    listen: str
    tls_cert: str | None
    tls_key: str | None
    namespaces: tuple[str, ...]


def run(options: Options) -> Exit:
    """Serves until a signal ends it. Raises GateError when it can't begin."""
    host, port = address(options.listen)
    _check_tls(options.tls_cert, options.tls_key)
    reached = access.of_pod() if options.kubeconfig is None else access.of_kubeconfig(options.kubeconfig)
    listening = _listen(host, port)
    scheme = "http" if options.tls_cert is None else "https"
    shown = f"[{host}]" if ":" in host else host
    # Neither httpx's nor uvicorn's lines about single requests: an address is nobody's business, a token less.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    config = uvicorn.Config(
        Site(Cluster.of(reached), options.namespaces).app(),
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
        access_log=False,
        log_level="warning",
        server_header=False,
        lifespan="on",
        limit_concurrency=200,
        timeout_graceful_shutdown=5,
    )
    print(f"The review page listens at {scheme}://{shown}:{listening.getsockname()[1]}", flush=True)
    uvicorn.Server(config).run(sockets=[listening])
    return Exit.OK


def address(text: str) -> tuple[str, int]:
    """`127.0.0.1:8443`, `[::1]:8443`, `:8443` → (host, port). Raises UsageError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--listen is ADDRESS:PORT, such as 127.0.0.1:8443, not {text!r}.", then=_HELP)
    return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)


def _check_tls(certificate: str | None, key: str | None) -> None:
    """Raises GateError before anything listens: the web server would end in a traceback."""
    if certificate is None and key is None:
        return
    if certificate is None or key is None:
        raise UsageError("--tls-cert and --tls-key go together.", then=_HELP)
    for file in (certificate, key):
        if not Path(file).is_file():
            raise GateError(f"There is no file {file}.")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise GateError(f"{certificate} and {key} are no certificate with its key: {error}.") from error


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise GateError(f"{host}:{port} can't be listened at: {error.strerror}.") from error
