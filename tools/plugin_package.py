"""The self-contained plugin: an archive for this machine's system, its sha256, and the krew manifest of all archives.

python -m tools.plugin_package [--dist DIR] [--url TEMPLATE] [--homepage URL]

Needs no Python where it is unpacked. Only this machine's system can be built here; the manifest lists what lies in DIR.
"""

import argparse
import gzip
import hashlib
import platform
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from string import Template

ROOT = Path(__file__).resolve().parents[1]
URL = "https://releases.example/gatewright/v{version}/{archive}"
HOMEPAGE = "https://releases.example/gatewright"
NAME = "kubectl-gate"
_ARCHES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_SYSTEMS = {"linux": "linux", "darwin": "darwin"}


@dataclass(frozen=True)
class Archive:
    """A built archive: where it is, and the system and processor that it is for, in krew's words."""

    file: Path
    os: str
    arch: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.file.read_bytes()).hexdigest()


def version() -> str:
    project: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project["version"]


def here() -> tuple[str, str]:
    """(os, arch) of this machine. Raises SystemExit for one that nobody has built for."""
    system, machine = platform.system().lower(), platform.machine().lower()
    if system not in _SYSTEMS or machine not in _ARCHES:
        raise SystemExit(
            f"There is no self-contained plugin for {system}/{machine}: install the Python package."
        )
    return _SYSTEMS[system], _ARCHES[machine]


def build(dist: Path) -> Archive:
    """The archive for this machine, in `dist`. Raises SystemExit with PyInstaller's own words when it fails."""
    work = dist / "plugin-build"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    command = [
        sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level=WARN", f"--distpath={work / 'out'}",
        f"--workpath={work / 'work'}", str(ROOT / "packaging" / "plugin.spec"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"PyInstaller failed:\n{done.stdout}{done.stderr}")
    folder = work / "out" / NAME
    shutil.copy(ROOT / "LICENSE", folder)
    system, arch = here()
    file = dist / f"{NAME}-{version()}-{system}-{arch}.tar.gz"
    _pack(folder, file)
    archive = Archive(file, system, arch)
    Path(f"{file}.sha256").write_text(f"{archive.sha256}  {file.name}\n")
    shutil.rmtree(work)
    return archive


def _pack(folder: Path, file: Path) -> None:
    """Sorted, owned by nobody, without times: the same files make the same archive."""

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime = 0
        return info

    with (
        file.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for path in sorted(folder.rglob("*")):
            if path.is_file() or path.is_symlink():
                archive.add(path, f"{NAME}/{path.relative_to(folder)}", recursive=False, filter=plain)


def archives(dist: Path) -> list[Archive]:
    """What was built of this version, on this machine or brought from others."""
    found = []
    for file in sorted(dist.glob(f"{NAME}-{version()}-*.tar.gz")):
        system, _, arch = (
            file.name.removeprefix(f"{NAME}-{version()}-").removesuffix(".tar.gz").partition("-")
        )
        found.append(Archive(file, system, arch))
    return found


def manifest(built: list[Archive], url: str, homepage: str) -> str:
    """The krew manifest; `url` may hold {version}, {archive}, {os} and {arch}."""
    folder = ROOT / "packaging" / "krew"
    platforms = [
        Template((folder / "platform.yaml").read_text()).substitute(
            os=one.os,
            arch=one.arch,
            sha256=one.sha256,
            uri=url.format(version=version(), archive=one.file.name, os=one.os, arch=one.arch),
        )
        for one in built
    ]
    text = Template((folder / "gate.yaml").read_text()).substitute(
        version=version(), homepage=homepage, platforms="".join(platforms).rstrip("\n")
    )
    return text.partition("\n")[2]  # without the template's own comment


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="folder for what is built (dist)")
    parser.add_argument("--url", default=URL, help=f"where archives can be loaded from (default {URL})")
    parser.add_argument("--homepage", default=HOMEPAGE, help=f"of the project (default {HOMEPAGE})")
    args = parser.parse_args(arguments)
    args.dist.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    archive = build(args.dist)
    (args.dist / "gate.yaml").write_text(manifest(archives(args.dist), args.url, args.homepage))
    size = archive.file.stat().st_size / 2**20
    print(f"{archive.file} ({size:.0f} MiB, {time.monotonic() - began:.0f} s) and {args.dist / 'gate.yaml'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
