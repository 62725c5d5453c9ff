"""Finds the programs a development cluster is made of: at hand where a version fits, else built once."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from devcluster import gomodules
from devcluster.cache import Report, cache_dir, write_atomically
from devcluster.toolchain import Version, parse_version

PROGRAMS = tuple(gomodules.COMMANDS)


@dataclass(frozen=True)
class Fit:
    """Which versions of a program at hand are good enough: ``at_least`` ≤ version < ``below``."""

    version_arguments: tuple[str, ...]
    at_least: Version
    below: Version


def _kubernetes_minor() -> int:
    return int(gomodules.required_version("kubernetes", "k8s.io/kubernetes").split(".")[1])


def fit(name: str) -> Fit:
    """The versions of program ``name`` that fit.

    Server and controller manager: the very minor version that the checked-in build has, since admission
    policies differ between minors. kubectl: one minor to either side, as Kubernetes supports it. Helm: 3.14
    is the first whose upgrade takes all the flags that ``install`` uses.
    """
    minor = _kubernetes_minor()
    return {
        "kube-apiserver": Fit(("--version",), (1, minor, 0), (1, minor + 1, 0)),
        "kube-controller-manager": Fit(("--version",), (1, minor, 0), (1, minor + 1, 0)),
        "etcd": Fit(("--version",), (3, 5, 0), (4, 0, 0)),
        "kubectl": Fit(("version", "--client"), (1, minor - 1, 0), (1, minor + 2, 0)),
        "prometheus": Fit(("--version",), (3, 0, 0), (4, 0, 0)),
        "helm": Fit(("version", "--short"), (3, 14, 0), (5, 0, 0)),
    }[name]


def _candidates(name: str) -> list[Path]:
    found = []
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        candidate = Path(assets) / name
        if os.access(candidate, os.X_OK):
            found.append(candidate)
    if on_path := shutil.which(name):
        found.append(Path(on_path))
    return found


class _VersionMemo:
    """Remembers which version a file answered with: asking costs a tenth of a second per program."""

    def __init__(self) -> None:
        self._file = cache_dir() / "versions.json"
        try:
            self._known: dict[str, str] = dict(json.loads(self._file.read_text()))
        except (OSError, ValueError, TypeError):
            self._known = {}

    def ask(self, program: Path, arguments: tuple[str, ...]) -> Version | None:
        status = program.stat()
        key = f"{program.resolve()}|{status.st_mtime_ns}|{status.st_size}"
        if key not in self._known:
            try:
                answer = subprocess.run(
                    [program, *arguments], capture_output=True, text=True, timeout=30, check=False
                )
            except (OSError, subprocess.SubprocessError):
                return None
            self._known[key] = answer.stdout + answer.stderr if answer.returncode == 0 else ""
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self._file, json.dumps(self._known, indent=1))
            except OSError:
                pass  # A memo that cannot be kept costs time at the next start, nothing else.
        return parse_version(self._known[key])


def at_hand(name: str, report: Report) -> Path | None:
    """The program ``name`` of ``KUBEBUILDER_ASSETS`` or PATH, if one fits; says so when one does not."""
    wanted = fit(name)
    memo = _VersionMemo()
    for candidate in _candidates(name):
        version = memo.ask(candidate, wanted.version_arguments)
        if version is not None and wanted.at_least <= version < wanted.below:
            return candidate
        shown = "of an unknown version" if version is None else ".".join(map(str, version))
        report(f"{candidate} is {shown}, which does not fit; using the development cluster's own build.")
    return None


def ensure(*names: str, report: Report) -> dict[str, Path]:
    """Paths of the programs ``names``, built first where they are neither at hand nor cached.

    Raises:
        DevclusterError: a program could not be built; the message says why.
    """
    found: dict[str, Path] = {}
    missing: list[str] = []
    for name in names:
        # The cache is looked at before PATH is mentioned: a warm start says nothing about misfits it does not
        # use.
        own = gomodules.cached(name)
        program = at_hand(name, report if own is None else _silent) or own
        if program is None:
            missing.append(name)
        else:
            found[name] = program
    if missing:
        found |= gomodules.build(missing, report)
    return found


def _silent(_: str) -> None:
    pass
