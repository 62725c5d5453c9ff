"""Where an API server is and how to speak to it, read from a kubeconfig."""

import base64
import os
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml


class KubeconfigError(Exception):
    """The kubeconfig cannot be used; the message says what to change in it."""


@dataclass(frozen=True)
class Access:
    """Where the API server is and how to speak to it."""

    server: str
    ssl_context: ssl.SSLContext | None
    token: str | None

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Self:
        """Read the current context of a kubeconfig. Raises KubeconfigError when it can't be used."""
        try:
            config = yaml.safe_load(path.read_text())
        except (OSError, yaml.YAMLError) as error:
            raise KubeconfigError(f"cannot read the kubeconfig {path}: {error}") from error
        try:
            context = _named(config["contexts"], config["current-context"])["context"]
            cluster = _named(config["clusters"], context["cluster"])["cluster"]
            user = _named(config.get("users") or [], context["user"])["user"] or {}
            server = str(cluster["server"]).rstrip("/")
        except (KeyError, TypeError) as error:
            raise KubeconfigError(f"the kubeconfig {path} has no usable current-context: {error}") from error
        if "exec" in user or "auth-provider" in user:
            raise KubeconfigError(
                f"{path}: give a client certificate or a token; login commands are not run here"
            )
        token = user.get("token")
        if token is None and "tokenFile" in user:
            token = (path.parent / user["tokenFile"]).read_text().strip()
        context_ = _ssl_context(path.parent, cluster, user) if server.startswith("https:") else None
        return cls(server, context_, token)


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise KeyError(name)


def _pem(folder: Path, section: dict[str, Any], key: str) -> bytes | None:
    if section.get(f"{key}-data"):
        return base64.b64decode(section[f"{key}-data"])
    if section.get(key):
        return (folder / str(section[key])).read_bytes()
    return None


def _ssl_context(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    authority = _pem(folder, cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _pem(folder, user, "client-certificate"), _pem(folder, user, "client-key")
    if certificate is not None and key is not None:
        # The ssl module loads a key only from a file: one that only this user can read, gone at once.
        descriptor, name = tempfile.mkstemp(prefix="devcluster-client-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(certificate + b"\n" + key)
            context.load_cert_chain(name)
        finally:
            os.unlink(name)
    return context
