"""How the page itself reaches the API server: a kubeconfig, or the service account of its pod."""

import base64
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gatewright_cli.errors import GateError

_IN_POD: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_SECONDS: Final = 60.0
"""A pod's token is renewed in its file long before it ends."""

Section = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Access:
    """Where the API server is, what proves it to us, and the token of the moment (None with a client certificate)."""

    server: str
    tls: ssl.SSLContext
    token: Callable[[], str | None]


def of_pod(folder: Path = _IN_POD) -> Access:
    """Raises GateError outside a pod."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port or not (folder / "token").exists():
        raise GateError("This is no pod with a service account: give --kubeconfig FILE.")
    address = f"[{host}]" if ":" in host else host
    return Access(
        f"https://{address}:{port}",
        ssl.create_default_context(cafile=str(folder / "ca.crt")),
        _kept(folder / "token"),
    )


def of_kubeconfig(file: str) -> Access:
    """The current context of a kubeconfig. Raises GateError when it can't be used; login commands are not run."""
    import yaml

    path = Path(file)
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        server = str(cluster["server"]).rstrip("/")
    except OSError as error:
        raise GateError(f"The kubeconfig {file} can't be read: {error.strerror}.") from error
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise GateError(f"The kubeconfig {file} has no current context that can be used: {error}.") from error
    if not server.startswith("https://"):
        raise GateError(f"The kubeconfig {file} names {server}: tokens of viewers go over https only.")
    if "exec" in user or "auth-provider" in user:
        raise GateError(
            f"The kubeconfig {file} runs a login command: give the page a service account's token or a certificate."
        )
    try:
        return Access(server, _tls(path.parent, cluster, user), _token(path.parent, user))
    except (OSError, ValueError) as error:
        raise GateError(f"The kubeconfig {file} holds a credential that can't be used: {error}.") from error


def _named(entries: list[Section], name: str) -> Section:
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise KeyError(name)


def _token(folder: Path, user: Section) -> Callable[[], str | None]:
    if user.get("tokenFile"):
        return _kept(folder / str(user["tokenFile"]))
    token = user.get("token")
    return lambda: token


def _kept(file: Path) -> Callable[[], str]:
    """The file's content, read again every minute. Raises OSError at once when it can't be read."""
    read_at, kept = time.monotonic(), file.read_text(encoding="utf-8").strip()

    def token() -> str:
        nonlocal read_at, kept
        if time.monotonic() - read_at > _TOKEN_SECONDS:
            read_at, kept = time.monotonic(), file.read_text(encoding="utf-8").strip()
        return kept

    return token


def _tls(folder: Path, cluster: Section, user: Section) -> ssl.SSLContext:
    authority = _pem(folder, cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=None if authority is None else authority.decode())
    certificate, key = _pem(folder, user, "client-certificate"), _pem(folder, user, "client-key")
    if certificate is not None and key is not None:
        # The ssl module takes a key from a file alone: one that only this user can read, and gone at once.
        descriptor, name = tempfile.mkstemp(prefix="gatewright-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(certificate + b"\n" + key)
            context.load_cert_chain(name)
        finally:
            os.unlink(name)
    return context


def _pem(folder: Path, section: Section, key: str) -> bytes | None:
    if section.get(f"{key}-data"):
        return base64.b64decode(section[f"{key}-data"])
    return (folder / str(section[key])).read_bytes() if section.get(key) else None
