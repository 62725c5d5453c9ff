"""Where the files of one cluster are, and on which ports its parts listen."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import DevclusterError

_MARKER = ".devcluster"


@dataclass(frozen=True)
class Ports:
    """The loopback ports of one cluster."""

    etcd: int
    etcd_peer: int
    api_server: int
    prometheus: int
    gateway: int
    gateway_admin: int


@dataclass(frozen=True)
class Layout:
    """Where the files of one cluster are, below its folder."""

    folder: Path

    @property
    def pki(self) -> Path:
        return self.folder / "pki"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def users(self) -> Path:
        return self.folder / "users"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    @property
    def audit_policy(self) -> Path:
        return self.folder / "audit-policy.yaml"

    @property
    def prometheus_config(self) -> Path:
        return self.folder / "prometheus.yaml"

    @property
    def admin_kubeconfig(self) -> Path:
        return self.folder / "admin.kubeconfig"

    def kubeconfig_of(self, part: str) -> Path:
        """The kubeconfig that a part of the cluster itself uses."""
        return self.folder / "parts" / f"{part}.kubeconfig"

    def ready_file(self, part: str) -> Path:
        """The file by which the node and the gateway say that they are ready."""
        return self.folder / part / "ready"


def claim_folder(folder: Path) -> None:
    """Makes the folder, and makes sure that what is in it is ours to remove."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (folder / _MARKER).exists():
        if any(folder.iterdir()):
            raise DevclusterError(
                f"{folder} holds files that no development cluster made: "
                "name an empty or new folder by --dir."
            )
        (folder / _MARKER).touch()


def clear_folder(folder: Path) -> None:
    """Removes what an earlier cluster left; our supervisor, who holds the lock, runs already."""
    kept = {_MARKER, "lock", "control.sock", "state.json", "logs"}
    for entry in [*folder.iterdir(), *(folder / "logs").iterdir()]:
        if entry.name in kept or entry.name in ("supervisor.log",):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            os.unlink(entry)
