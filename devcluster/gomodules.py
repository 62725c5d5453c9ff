"""Builds the control plane's commands from checked-in ``go.mod`` / ``go.sum`` files, once, into the cache.

Each module below ``build/`` has a cache folder of its own, named by everything that decides the bytes of its
binaries: ``go.mod``, ``go.sum``, the flags, and the platform. So a change to one module rebuilds only that
one, and a binary that is in the cache is never checked again.
"""

import hashlib
import json
import os
import platform
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

from devcluster.cache import Report, cache_dir, disk_errors_as_sentences, exclusive, write_atomically
from devcluster.errors import DevclusterError
from devcluster.failures import sentence_for_failed_download
from devcluster.toolchain import BUILD_FOLDER, Version, find_go, go_environment, parse_version

PROGRESS_SECONDS = 10.0


def required_version(folder: str, module: str) -> str:
    """The version of ``module`` that ``build/FOLDER/go.mod`` requires, such as ``v1.36.3``."""
    for line in (BUILD_FOLDER / folder / "go.mod").read_text().splitlines():
        words = line.replace("require", "", 1).split()
        if len(words) >= 2 and words[0] == module:
            return words[1]
    raise DevclusterError(
        f"devcluster/build/{folder}/go.mod does not require {module}: run `go mod tidy` there."
    )


def minimum_go(folder: str) -> Version:
    """The Go version that the ``go`` line of ``build/FOLDER/go.mod`` asks for."""
    for line in (BUILD_FOLDER / folder / "go.mod").read_text().splitlines():
        if line.startswith("go ") and (version := parse_version(line)) is not None:
            return version
    raise DevclusterError(f"devcluster/build/{folder}/go.mod has no `go` line: run `go mod tidy` there.")


@dataclass(frozen=True)
class GoCommand:
    """One command to build: the binary's name, its package, and its module (a folder of ``build/``)."""

    name: str
    package: str
    folder: str

    def flags(self) -> list[str]:
        """The flags of ``go build``: unstamped servers say v0.0.0, and clients misjudge them."""
        stamps: dict[str, str] = {}
        tags: list[str] = []
        if self.folder == "kubernetes":
            version = required_version("kubernetes", "k8s.io/kubernetes")
            major, minor = version.removeprefix("v").split(".")[:2]
            prefix = "k8s.io/component-base/version"
            stamps = {
                f"{prefix}.gitVersion": version,
                f"{prefix}.gitMajor": major,
                f"{prefix}.gitMinor": minor,
                f"{prefix}.gitTreeState": "clean",
            }
        elif self.folder == "prometheus":
            # Prometheus 3.16.0 is published as module version v0.316.0.
            _, minor, patch = required_version("prometheus", "github.com/prometheus/prometheus").split(".")
            product = f"{int(minor) // 100}.{int(minor) % 100}.{patch}"
            stamps = {"github.com/prometheus/common/version.Version": product}
            tags = ["-tags", "remove_all_sd,enable_kubernetes_sd"]
        elif self.folder == "helm":
            stamps = {"helm.sh/helm/v4/internal/version.version": required_version("helm", "helm.sh/helm/v4")}
        ldflags = " ".join(["-s -w", *(f"-X {name}={value}" for name, value in stamps.items())])
        return [*tags, "-ldflags", ldflags]


COMMANDS = {
    command.name: command
    for command in (
        GoCommand("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", "kubernetes"),
        GoCommand("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", "kubernetes"),
        GoCommand("etcd", "go.etcd.io/etcd/server/v3", "kubernetes"),
        GoCommand("kubectl", "k8s.io/kubernetes/cmd/kubectl", "kubernetes"),
        GoCommand("prometheus", "github.com/prometheus/prometheus/cmd/prometheus", "prometheus"),
        GoCommand("helm", "helm.sh/helm/v4/cmd/helm", "helm"),
    )
}


def cache_folder(folder: str) -> Path:
    """Where the results of module ``build/FOLDER`` are cached."""
    source = BUILD_FOLDER / folder
    flags = {command.name: command.flags() for command in COMMANDS.values() if command.folder == folder}
    digest = hashlib.sha256()
    for part in (
        (source / "go.mod").read_bytes(),
        (source / "go.sum").read_bytes(),
        json.dumps(flags, sort_keys=True).encode(),
        f"{platform.system()}/{platform.machine()}".encode(),
    ):
        digest.update(hashlib.sha256(part).digest())
    return cache_dir() / f"{folder}-{digest.hexdigest()[:12]}"


def cached(name: str) -> Path | None:
    """The cached binary ``name``; None when it has not been built yet."""
    binary = cache_folder(COMMANDS[name].folder) / name
    return binary if binary.exists() else None


def build(names: list[str], report: Report) -> dict[str, Path]:
    """Builds those of ``names`` that are not cached, one after the other, and says how far it is.

    Each binary is moved into the cache when it is complete, so an interrupted build goes on where it stopped.

    Raises:
        DevclusterError: no Go, no network, a full disk, or a compile error, each as one sentence.
    """
    with disk_errors_as_sentences(cache_dir()):
        cache_dir().mkdir(parents=True, exist_ok=True)
        with exclusive(cache_dir() / "build.lock", report):
            missing = [COMMANDS[name] for name in names if cached(name) is None]
            if missing:
                go = find_go(max(minimum_go(command.folder) for command in missing), report)
                report(
                    f"Building {len(missing)} programs from source, once (about ten minutes on two cores)."
                )
                for number, command in enumerate(missing, start=1):
                    _build_one(go, command, f"[{number}/{len(missing)}] {command.name}", report)
    return {name: cache_folder(COMMANDS[name].folder) / name for name in names}


def _build_one(go: Path, command: GoCommand, label: str, report: Report) -> None:
    source = BUILD_FOLDER / command.folder
    target = cache_folder(command.folder)
    target.mkdir(parents=True, exist_ok=True)
    partial = target / f".{command.name}-{os.getpid()}"
    started = time.monotonic()
    tags = [flag for flag in command.flags() if "ldflags" not in flag and not flag.startswith("-s ")]
    report(f"{label}: fetching its sources")
    packages = _run_go([go, "list", *tags, "-deps", command.package], source, command.name, target)
    total = len(packages.splitlines())
    lines: list[str] = []
    with subprocess.Popen(
        [go, "build", "-v", *command.flags(), "-o", str(partial), command.package],
        cwd=source,
        env=go_environment(),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        pump = threading.Thread(target=lines.extend, args=(process.stderr,), daemon=True)
        pump.start()
        try:
            while True:
                try:
                    process.wait(PROGRESS_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    seconds = time.monotonic() - started
                    report(
                        f"{label}: {_compiled(lines)} packages compiled (of at most {total}), {seconds:.0f} s"
                    )
            pump.join()
            if process.returncode != 0:
                raise DevclusterError(sentence_for_failed_download(command.name, "".join(lines), target))
            os.replace(partial, target / command.name)
        finally:
            process.kill()
            pump.join()
            partial.unlink(missing_ok=True)
    seconds = time.monotonic() - started
    report(f"{label}: ready after {seconds:.0f} s ({_compiled(lines)} packages compiled)")


def _compiled(lines: list[str]) -> int:
    return sum(1 for line in list(lines) if not line.startswith("go: "))


def _run_go(command: list[str | Path], source: Path, what: str, writing_to: Path) -> str:
    result = subprocess.run(
        command, cwd=source, env=go_environment(), capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise DevclusterError(sentence_for_failed_download(what, result.stderr or result.stdout, writing_to))
    return result.stdout


def gateway_api_crds(report: Report) -> Path:
    """A JSON file with the Gateway API's standard-channel CRDs, taken from its Go module.

    The module's files are YAML of several hundred kilobytes, which takes Python seconds to read; they are
    turned into JSON once, when they are cached.
    """
    result = cache_folder("gateway-api") / "crds.json"
    if result.exists():
        return result
    with disk_errors_as_sentences(cache_dir()):
        cache_dir().mkdir(parents=True, exist_ok=True)
        with exclusive(cache_dir() / "build.lock", report):
            if result.exists():
                return result
            go = find_go(minimum_go("gateway-api"), report)
            module = f"sigs.k8s.io/gateway-api@{required_version('gateway-api', 'sigs.k8s.io/gateway-api')}"
            report("Fetching the Gateway API's resource definitions")
            answer = _run_go(
                [go, "mod", "download", "-json", module],
                BUILD_FOLDER / "gateway-api",
                "the Gateway API's resource definitions",
                cache_dir(),
            )
            files = sorted((Path(json.loads(answer)["Dir"]) / "config" / "crd" / "standard").glob("*.yaml"))
            documents = [
                document for file in files for document in yaml.load_all(file.read_text(), yaml.CSafeLoader)
            ]
            crds = [
                document
                for document in documents
                if document and document["kind"] == "CustomResourceDefinition"
            ]
            result.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(result, json.dumps(crds))
    return result
