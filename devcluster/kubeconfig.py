"""Kubeconfig files: each one is a single file that carries everything a client needs."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from devcluster.cache import write_atomically
from devcluster.certs import KeyPair


def write_for_certificate(path: Path, server: str, authority: bytes, user: str, pair: KeyPair) -> None:
    """Writes the kubeconfig of a user who shows a client certificate."""
    credentials = {"client-certificate-data": _base64(pair.certificate), "client-key-data": _base64(pair.key)}
    _write(path, server, authority, user, credentials)


def write_for_token(path: Path, server: str, authority: bytes, user: str, token: str) -> None:
    """Writes the kubeconfig of a user who shows a bearer token."""
    _write(path, server, authority, user, {"token": token})


def file_name(user: str, groups: tuple[str, ...]) -> str:
    """The name of the kubeconfig of ``user`` in ``groups``.

    The groups are part of it: the same name with other groups is another identity, and must not change the
    rights of a file that is already handed out.
    """
    # A colon separates paths in KUBECONFIG.
    name = quote(user, safe="@").replace("%3A", "_")
    if groups:
        name += "." + hashlib.sha256(json.dumps(sorted(groups)).encode()).hexdigest()[:8]
    return f"{name}.kubeconfig"


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _write(path: Path, server: str, authority: bytes, user: str, credentials: dict[str, str]) -> None:
    name = "devcluster"
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": server, "certificate-authority-data": _base64(authority)}}
        ],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user, "namespace": "default"}}],
        "current-context": name,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    # JSON is YAML, and is written and read many times faster.
    write_atomically(path, json.dumps(config, indent=1) + "\n", mode=0o600)
