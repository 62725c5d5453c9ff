"""Everything in this repository that is generated from something else.

python -m tools.generate            write it
python -m tools.generate --check    exit 1 and name every file that is not what its source says

| file | source |
| --- | --- |
| `crds/*.yaml` | the kinds in `gatewright_analysis.kinds` |
| `charts/gatewright/crds-source/*.yaml` | the same, marked to outlive an uninstall of the chart |
| `docs/reference/kinds.md` | the same |
| `charts/gatewright/templates/policies/*.yaml` | the policies in `gatewright_operator.policies` |
| `docs/reference/reasons.md` | the sentences in `gatewright_analysis.reasons` |
| `docs/reference/command-line.md` | the commands of `gatewright_cli` |
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from gatewright_analysis import crd
from tools import policies, reasons, reference

ROOT = Path(__file__).resolve().parents[1]
CHART_CRDS = Path("charts/gatewright/crds-source")
CHART_POLICIES = Path("charts/gatewright/templates/policies")


def chart_copy(text: str) -> str:
    """A CRD as the chart installs it: an uninstall must not delete anybody's Rollouts and reviews."""
    marked = text.replace(
        "\nmetadata:\n", '\nmetadata:\n  annotations:\n    "helm.sh/resource-policy": keep\n', 1
    )
    if marked == text:
        raise ValueError("a generated CRD has no metadata block where the chart's annotation could go")
    return marked


def generated() -> dict[Path, str]:
    """Path below the root → text, for every generated file."""
    crds = crd.files()
    files = {Path("crds") / name: text for name, text in crds.items()}
    files |= {CHART_CRDS / name: chart_copy(text) for name, text in crds.items()}
    files |= {CHART_POLICIES / name: text for name, text in policies.files().items()}
    files[Path("docs/reference/kinds.md")] = reference.kinds(crds)
    files[Path("docs/reference/command-line.md")] = reference.command_line()
    files[Path("docs/reference/reasons.md")] = reasons.page()
    return files


def drift(files: Mapping[Path, str]) -> list[Path]:
    """Files that differ from what they are generated from, are missing, or are left over."""
    changed = {path for path, text in files.items() if not _says(ROOT / path, text)}
    folders = {path.parent for path in files if path.suffix == ".yaml"}
    left_over = {
        path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).glob("*.yaml")
    } - files.keys()
    return sorted(changed | left_over)


def _says(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.generate", description="Write all generated files."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file would change")
    options = parser.parse_args(arguments)
    files = generated()
    stale = drift(files)
    for path in stale:
        if options.check:
            print(f"{path} is not what it is generated from: run `make generate`.", file=sys.stderr)
        elif path in files:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(files[path], encoding="utf-8")
            print(f"wrote {path}")
        else:
            (ROOT / path).unlink()
            print(f"removed {path}")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
