"""An empty cluster's stored state, made once, from which every later cluster starts.

A fresh API server spends seconds of CPU time on what is the same each time: the default roles, and the rules
of the Gateway API's definitions. So the first start runs etcd and the API server alone, keeps etcd's files in
the cache, and every cluster begins with a copy of them. Nothing secret is in there: keys, certificates and
tokens are each cluster's own.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from devcluster.bootstrap import RULES
from devcluster.cache import Report, cache_dir, disk_errors_as_sentences, exclusive
from devcluster.parts import SERVICE_NETWORK

_CHUNK = 1 << 20


def seed_folder(programs: Mapping[str, Path], crds: Path | None) -> Path:
    """Where the seed for these programs and definitions is; its name tells all that decides it."""
    decides: list[object] = [RULES, SERVICE_NETWORK, None if crds is None else crds.parent.name]
    for name in ("etcd", "kube-apiserver"):
        status = programs[name].stat()
        decides.append([str(programs[name].resolve()), status.st_size, status.st_mtime_ns])
    digest = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:12]
    return cache_dir() / f"seed-{digest}"


def ensure_seed(folder: Path, make: Callable[[Path], None], report: Report) -> Path:
    """The seed in ``folder``; if it is not there yet, ``make`` puts a stopped etcd's files at a path."""
    if folder.exists():
        return folder
    with disk_errors_as_sentences(cache_dir()), exclusive(cache_dir() / "seed.lock", report):
        if not folder.exists():
            report("Preparing an empty cluster, once; later ones start from it.")
            with tempfile.TemporaryDirectory(dir=cache_dir(), prefix=".seed-") as partial:
                make(Path(partial) / "etcd")
                os.replace(Path(partial) / "etcd", folder)
    return folder


def plant(seed: Path, target: Path) -> None:
    """Copies etcd's files; long stretches of zeros (a log laid out in advance) take no space."""
    for source in seed.rglob("*"):
        destination = target / source.relative_to(seed)
        if source.is_dir():
            destination.mkdir(parents=True, exist_ok=True)
        else:
            destination.parent.mkdir(parents=True, exist_ok=True)
            _copy_sparsely(source, destination)
    target.chmod(0o700)


def _copy_sparsely(source: Path, destination: Path) -> None:
    zeros = bytes(_CHUNK)
    with source.open("rb") as reader, destination.open("wb") as writer:
        while chunk := reader.read(_CHUNK):
            if chunk == zeros[: len(chunk)]:
                writer.seek(len(chunk), os.SEEK_CUR)
            else:
                writer.write(chunk)
        writer.truncate(source.stat().st_size)
    destination.chmod(0o600)
