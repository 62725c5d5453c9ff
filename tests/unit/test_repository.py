"""What is true of the repository as a whole: where things are, what is imported when, what is generated."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools import generate

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "analysis": "gatewright_analysis",
    "operator": "gatewright_operator",
    "cli": "gatewright_cli",
}
HEAVY = {"kopf", "kubernetes", "scipy", "numpy", "pandas", "pydantic", "prometheus_api_client", "aiohttp"}
LINES = 400
"""Past about 300 a module has a second noun in it (CONTRIBUTING.md)."""


def modules() -> list[Path]:
    """Every Python file that is ours, relative to the root."""
    folders = [*PACKAGES, "devcluster", "tools", "tests"]
    return sorted(path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*.py"))


def test_the_operator_folder_is_no_package() -> None:
    """`operator` is a module of the standard library; a package of that name would take its place."""
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_each_folder_holds_one_typed_package() -> None:
    for folder, package in PACKAGES.items():
        found = {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")}
        assert found == {package}, f"{folder}/ holds {sorted(found)}, and should hold {package} alone"
        assert (ROOT / folder / package / "py.typed").exists(), f"{package} says nowhere that it is typed"


@pytest.mark.parametrize("folder", [*PACKAGES, "devcluster", "tools"])
def test_no_module_is_longer_than_a_reader_keeps_in_mind(folder: str) -> None:
    paths = [path for path in modules() if path.parts[0] == folder]
    assert paths, f"{folder}/ has no modules"
    lengths = {str(path): len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in paths}
    assert not {path: n for path, n in lengths.items() if n > LINES}, "look for the second noun in these"


@pytest.mark.parametrize("command", ["kubectl_gate", "gatewright"])
def test_the_commands_start_without_the_heavy_packages(command: str) -> None:
    """The plugin starts in under half a second only as long as none of these is on its path."""
    program = (
        "import sys; from gatewright_cli import main; "
        f"\ntry: main.{command}(['--help'])\nexcept SystemExit: pass\n"
        f"print(sorted({HEAVY!r} & sys.modules.keys()), file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout, f"{command} --help printed nothing"
    assert run.stderr.strip() == "[]", f"{command} --help imports {run.stderr.strip()}"


def imported(path: Path) -> set[str]:
    """Top-level names of everything that a module imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def test_nobody_imports_by_the_name_of_a_folder() -> None:
    for path in modules():
        assert not imported(path) & {"analysis", "cli"}, f"{path} imports by folder; write gatewright_…"


TRESPASSES = {
    "analysis stands alone": ("cli/gatewright_cli/durations.py", "import gatewright_operator"),
    "analysis knows no Kubernetes": ("analysis/gatewright_analysis/names.py", "import kubernetes"),
    "the pure core": ("analysis/gatewright_analysis/names.py", "import os"),
    "plan is pure": ("operator/gatewright_operator/plan/__init__.py", "import time"),
    "kopf only": ("operator/gatewright_operator/plan/__init__.py", "import kopf"),
    "scipy only": ("operator/gatewright_operator/plan/__init__.py", "import scipy"),
    "prometheus-api-client only": ("cli/gatewright_cli/durations.py", "import prometheus_api_client"),
}
"""Contract on imports → a module that breaks it, and the line by which it does."""


def lint_imports(root: Path) -> str:
    code = "import sys; from importlinter.cli import lint_imports_command as lint; sys.exit(lint())"
    environment = {"PATH": "", "PYTHONPATH": ":".join(str(root / folder) for folder in PACKAGES)}
    command = [sys.executable, "-c", code, "--no-cache"]
    run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert "Contracts" in run.stdout, f"import-linter did not run: {run.stdout}{run.stderr}"
    return run.stdout


def test_every_contract_on_imports_catches_what_it_forbids(tmp_path: Path) -> None:
    """A contract that names the wrong module keeps silent; so each is shown one trespass."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for folder in PACKAGES:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path, line in TRESPASSES.values():
        with (tmp_path / path).open("a", encoding="utf-8") as module:
            module.write(f"\n{line}\n")
    verdicts = re.sub(r"\s+", " ", lint_imports(tmp_path))
    for contract in TRESPASSES:
        assert re.search(rf"{re.escape(contract)}[^.]*? BROKEN", verdicts), (
            f"silent: {contract} …: {verdicts}"
        )


def test_generated_files_are_what_their_sources_say() -> None:
    stale = generate.drift(generate.generated())
    assert not stale, f"run `make generate`; these differ: {[str(path) for path in stale]}"


def test_the_lock_names_no_index_and_hashes_every_package() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert not re.search(r"https?://|--index-url|--find-links", text)
    pinned = re.findall(r"^(\S+==\S+).*?(?=^\S|\Z)", text, flags=re.MULTILINE | re.DOTALL)
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(pinned) == len(entries)
    assert all("--hash=sha256:" in entry for entry in entries)


def test_every_direct_dependency_is_in_the_lock() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8").lower()
    for requirement in wanted:
        name = re.split(r"[<>=!\[ ;]", requirement)[0].lower()
        assert f"\n{name}==" in lock, f"{name} is not locked: run `make lock`"


def test_the_images_lock_is_a_part_of_the_lock() -> None:
    """The operator's image holds what the tests ran with."""
    pins = [
        set(re.findall(r"^\S+==\S+", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE))
        for name in ("requirements-image.lock", "requirements.lock")
    ]
    assert pins[0]
    assert pins[0] <= pins[1], f"run `make lock`: {sorted(pins[0] - pins[1])}"


def test_nothing_is_left_for_later_without_being_said() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX)\b|pytest\.mark\.(skip|xfail)|pytest\.skip\(")
    here = Path(__file__).relative_to(ROOT)
    found = [
        str(path)
        for path in modules()
        if path != here and marks.search((ROOT / path).read_text(encoding="utf-8"))
    ]
    assert not found, f"unfinished, or tests that do not run: {found}"


def test_the_pages_link_to_pages_that_exist() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    assert pages
    for page in pages:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if not re.match(r"[a-z]+:", target):
                assert (page.parent / target).exists(), (
                    f"{page.relative_to(ROOT)} links to {target}: no such file"
                )
