"""Folders that outlive one cluster: the cache of built binaries, and where a cluster is by default."""

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster.errors import DevclusterError

Report = Callable[[str], None]


def cache_dir() -> Path:
    """The folder for binaries that are built once: ``$XDG_CACHE_HOME`` or ``~/.cache``, then our own name."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "gatewright" / "devcluster"


def default_instance_dir() -> Path:
    """The folder that ``up`` uses when nobody names one: ``$XDG_STATE_HOME`` or ``~/.local/state``."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "gatewright" / "devcluster"


def full_disk_sentence(folder: Path) -> str:
    """The sentence for a full disk, with the space that is left where ``folder`` (or its parent) lies."""
    place = folder
    while not place.exists():
        place = place.parent
    free_mib = shutil.disk_usage(place).free // 2**20
    return (
        f"The disk that holds {place} is full ({free_mib} MiB free): "
        "free about 9 GiB (the Go build cache is the largest part) and run the command again."
    )


@contextmanager
def disk_errors_as_sentences(folder: Path) -> Iterator[None]:
    """Turns the operating system's errors about ``folder`` into a :class:`DevclusterError`."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DevclusterError(full_disk_sentence(folder)) from error
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise DevclusterError(
                f"Cannot write to {folder} ({error.strerror}): make it writable, "
                "or set XDG_CACHE_HOME to a folder that is."
            ) from error
        raise


@contextmanager
def exclusive(lock_file: Path, report: Report) -> Iterator[None]:
    """Holds an advisory lock on ``lock_file``, so that two processes never build the same thing twice.

    The kernel drops the lock when its holder dies, so there is no stale lock to clean up.
    """
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("Another process is building the development cluster's binaries; waiting for it.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Writes ``text`` so that a reader sees either the old content or the new one, never a part."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w") as handle:
            handle.write(text)
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
