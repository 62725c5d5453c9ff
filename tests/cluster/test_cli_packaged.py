"""The self-contained build of the plugin, run on a real API server, and its krew manifest."""

import hashlib
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.support import kubectl_program
from tests.cluster.test_cli import Release, Said
from tests.cluster.test_cli_verbs import CONTRACT, hold, release, write_ledger
from tools import plugin_package

__all__ = ["hold", "release"]  # fixtures
pytestmark = pytest.mark.cluster

KREW = {
    "metadata.name": r"gate",
    "spec.version": r"v\d+\.\d+\.\d+",
    "spec.homepage": r"https://\S+",
    "spec.shortDescription": r".{1,50}",
    "spec.description": r"(?s).+",
}


class TestSelfContained:
    """`make plugin`: a folder that needs no Python, and a manifest for krew."""

    @pytest.mark.timeout(1500)
    def test_it_runs_from_a_folder_without_any_python_and_krew_can_read_its_manifest(
        self, hold: Release, tmp_path: Path
    ) -> None:
        # Slow: PyInstaller looks at every module, for about a minute of one core.
        dist = tmp_path / "dist"
        assert plugin_package.main(["--dist", str(dist), "--url", "https://releases.example/{archive}"]) == 0
        [archive] = plugin_package.archives(dist)
        with tarfile.open(archive.file) as packed:
            packed.extractall(tmp_path, filter="data")
        folder = tmp_path / "kubectl-gate"
        assert (folder / "LICENSE").exists()
        said = self.run(folder, hold, "gate", "status", "checkout", "-n", hold.shop.namespace)
        assert said.code == 0, said.err
        assert said.out.startswith(f"checkout in {hold.shop.namespace}: Held")
        # The kinds, the statistics and the ledger are in it as well.
        explained = self.run(
            folder, hold, "gate", "explain", "checkout/http-success", "-n", hold.shop.namespace
        )
        assert "planned, where a version half-way to perfect passes with" in explained.out, explained.err
        contract = tmp_path / "contract.json"
        contract.write_text(json.dumps(CONTRACT))
        linted = self.run(folder, hold, "gate", "lint", str(contract))
        assert (linted.code, linted.out.splitlines()[0]) == (0, "1 object: no errors, no warnings."), (
            linted.err
        )
        write_ledger(hold)
        verified = self.run(folder, hold, "gate", "ledger", "verify", "checkout", "-n", hold.shop.namespace)
        assert "4 entries in 1 segments" in verified.out, verified.err
        completed = self.run(folder, hold, "__complete", "gate", "can-i", "-n", hold.shop.namespace, "")
        assert [line.split("\t")[0] for line in completed.out.splitlines()] == [
            "approve", "operate", "override", "checkout", ":36",
        ]  # fmt: skip
        self.manifest(yaml.safe_load((dist / "gate.yaml").read_text()), archive)

    def run(self, folder: Path, release: Release, *words: str) -> Said:
        """kubectl with the folder on its PATH, and no Python at hand; krew links programs, so we do too."""
        linked = folder.parent / "bin"
        linked.mkdir(exist_ok=True)
        for name in ("kubectl-gate", "kubectl_complete-gate"):
            if not (linked / name).exists():
                (linked / name).symlink_to(folder / name)
        done = subprocess.run(
            [kubectl_program(), *words],
            env={
                "PATH": f"{linked}{os.pathsep}{kubectl_program().parent}",
                "KUBECONFIG": str(release.shop.admin),
                "HOME": str(folder.parent),
                "PYTHONPATH": "",
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def manifest(self, found: Any, archive: plugin_package.Archive) -> None:
        assert (found["apiVersion"], found["kind"]) == (
            "krew.googlecontainertools.github.com/v1alpha2",
            "Plugin",
        )
        for path, pattern in KREW.items():
            value: Any = found
            for part in path.split("."):
                value = value[part]
            assert re.fullmatch(pattern, value), f"{path} is {value!r}"
        [platform] = found["spec"]["platforms"]
        assert platform["selector"] == {"matchLabels": {"os": archive.os, "arch": archive.arch}}
        assert platform["uri"] == f"https://releases.example/{archive.file.name}"
        assert platform["sha256"] == hashlib.sha256(archive.file.read_bytes()).hexdigest()
        [files] = platform["files"]
        with tarfile.open(archive.file) as packed:
            names = packed.getnames()
        assert f"{files['from'].rstrip('*')}{platform['bin']}" in names
