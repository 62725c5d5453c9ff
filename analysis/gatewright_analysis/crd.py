"""CRDs, generated from the kinds.

python -m gatewright_analysis.crd --write [DIR]    write DIR/gatewright.dev_PLURAL.yaml (default DIR: crds)
python -m gatewright_analysis.crd --check [DIR]    exit 1 and say which file differs from its model
"""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from gatewright_analysis.kinds.base import Model
from gatewright_analysis.kinds.contract import GateContract
from gatewright_analysis.kinds.review import GateOrder, GateReview
from gatewright_analysis.kinds.rollout import Rollout
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.kinds.sink import NotificationSink
from gatewright_analysis.kinds.source import MetricSource
from gatewright_analysis.names import GROUP, VERSION
from gatewright_analysis.schema import Schema, structural, without_defaults

CATEGORY: Final = "gatewright"
_HEADER = "# Generated from gatewright_analysis.kinds by `make generate`: change the models, not this file.\n"
_API_VERSION = "Version of this schema: gatewright.dev/v1alpha1."


@dataclass(frozen=True)
class Column:
    """A printer column. `wide` ones show with `-o wide` only."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False

    def wire(self) -> dict[str, Any]:
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return column | ({"priority": 1} if self.wide else {})


@dataclass(frozen=True)
class Kind:
    """One kind: its model, its names, what `kubectl get` shows, by which fields a list can be filtered."""

    model: type[Model]
    plural: str
    short: str
    columns: tuple[Column, ...]
    selectable: tuple[str, ...] = ()
    cluster: bool = False

    @property
    def name(self) -> str:
        return self.model.__name__

    @property
    def file(self) -> str:
        return f"{GROUP}_{self.plural}.yaml"


_AGE = Column("Age", ".metadata.creationTimestamp", "date")
_MESSAGE = Column("Message", ".status.message")
_WHY = Column("Why", ".spec.reason", wide=True)

KINDS: Final = (
    Kind(
        GateContract,
        "gatecontracts",
        "gct",
        (
            Column("Breach", ".spec.failMode"),
            Column("Hold", ".spec.hold.timeout"),
            Column("Then", ".spec.hold.onTimeout"),
            Column("Waiver", ".spec.hold.maxWaiver"),
            Column("Version", ".metadata.generation", "integer"),
            _AGE,
        ),
    ),
    Kind(
        Rollout,
        "rollouts",
        "gwr",
        (
            Column("Phase", ".status.phase"),
            Column("Step", ".status.currentStep", "integer"),
            Column("Weight", ".status.weight.actual", "integer"),
            Column("Verdict", ".status.verdict.decision"),
            _AGE,
            # Last, because it is long: kubectl pads every column but the last.
            _MESSAGE,
            Column("Workload", ".spec.workloadRef.name", wide=True),
            Column("Contract", ".spec.contractRef.name", wide=True),
            Column("Revision", ".status.canary.revision", wide=True),
            Column("Attempt", ".status.attempt", "integer", wide=True),
            Column("Escalated", ".status.hold.escalatedAt", "date", wide=True),
            Column("Guard", ".status.guard", wide=True),
        ),
        selectable=(".status.phase", ".spec.contractRef.name", ".spec.workloadRef.name"),
    ),
    Kind(
        GateRun,
        "gateruns",
        "gr",
        (
            Column("Rollout", ".spec.rollout"),
            Column("Step", ".spec.step"),
            Column("Attempt", ".spec.attempt", "integer"),
            Column("Phase", ".status.phase"),
            Column("Verdict", ".status.verdict.decision"),
            Column("Reason", ".status.verdict.reason"),
            _AGE,
            Column("Revision", ".spec.revision", wide=True),
            Column("Weight", ".spec.weight", "integer", wide=True),
            Column("Message", ".status.message", wide=True),
        ),
        selectable=(".spec.rollout", ".spec.rolloutUID", ".status.phase"),
    ),
    Kind(
        GateReview,
        "gatereviews",
        "grv",
        (
            Column("Rollout", ".spec.rollout"),
            Column("Step", ".spec.step"),
            Column("Decision", ".spec.decision"),
            Column("Reviewer", ".spec.reviewer"),
            Column("Expires", ".spec.expiresAt"),
            Column("Outcome", ".status.outcome"),
            _AGE,
            Column("Run", ".spec.run", wide=True),
            _WHY,
            Column("Message", ".status.message", wide=True),
        ),
        selectable=(".spec.rollout", ".spec.rolloutUID", ".spec.run"),
    ),
    Kind(
        GateOrder,
        "gateorders",
        "gord",
        (
            Column("Rollout", ".spec.rollout"),
            Column("Order", ".spec.order"),
            Column("By", ".spec.orderedBy"),
            Column("Outcome", ".status.outcome"),
            _AGE,
            Column("Revision", ".spec.revision", wide=True),
            _WHY,
            Column("Message", ".status.message", wide=True),
        ),
        selectable=(".spec.rollout", ".spec.rolloutUID"),
    ),
    Kind(
        MetricSource,
        "metricsources",
        "gms",
        (
            Column("Address", ".spec.address"),
            Column("Arms", ".spec.arms.by"),
            Column("Producer", ".spec.producer"),
            Column("Scrape", ".spec.scrapeInterval"),
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            _AGE,
            Column("Message", '.status.conditions[?(@.type=="Ready")].message', wide=True),
        ),
        cluster=True,
    ),
    Kind(
        NotificationSink,
        "notificationsinks",
        "gns",
        (
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            Column("Sent", ".status.sent", "integer"),
            Column("Waiting", ".status.waiting", "integer"),
            Column("Given-Up", ".status.givenUp", "integer"),
            Column("Last", ".status.lastSentAt", "date"),
            _AGE,
            Column("Notices", ".spec.notices", wide=True),
            Column("Message", '.status.conditions[?(@.type=="Ready")].message', wide=True),
        ),
        cluster=True,
    ),
)


def crd(kind: Kind) -> dict[str, Any]:
    """The CustomResourceDefinition of one kind, as an object."""
    schema = _root(structural(kind.model))
    singular = kind.name.lower()
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [column.wire() for column in kind.columns],
    }
    if kind.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in kind.selectable]
    if "status" in schema["properties"]:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster" if kind.cluster else "Namespaced",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": singular,
                "shortNames": [kind.short],
                "categories": [CATEGORY],
            },
            "versions": [version],
        },
    }


def files() -> dict[str, str]:
    """All CRDs: file name → YAML text."""
    return {kind.file: _HEADER + _yaml(crd(kind)) for kind in KINDS}


def drift(folder: Path) -> list[str]:
    """Names of CRD files under `folder` that differ from their model, are missing, or belong to no kind."""
    wanted = files()
    there = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob(f"{GROUP}_*.yaml"))}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def write(folder: Path) -> list[str]:
    """Write all CRDs under `folder`, remove those of no kind; returns the names that changed."""
    changed = drift(folder)
    wanted = files()
    folder.mkdir(parents=True, exist_ok=True)
    for name in changed:
        if name in wanted:
            (folder / name).write_text(wanted[name], encoding="utf-8")
        else:
            (folder / name).unlink()
    return changed


def _root(schema: Schema) -> Schema:
    properties = dict(schema["properties"])
    if "status" in properties:
        properties["status"] = without_defaults(properties["status"])
    head = {
        "apiVersion": {"description": _API_VERSION, "type": "string"},
        "kind": {"description": "Name of this kind.", "type": "string"},
        "metadata": {"type": "object"},
    }
    return schema | {"properties": head | properties}


class _Dumper(yaml.SafeDumper):
    """YAML as people write it: lists indented under their key, no anchors."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # The API server reads YAML 1.1 to the letter: there a field called n or y is a boolean.
    quoted = "'" if text.lower() in ("n", "y") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=quoted)


_Dumper.add_representer(str, _string)


def _yaml(document: Mapping[str, Any]) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gatewright_analysis.crd", description="Generate the CRDs."
    )
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", action="store_true", help="write the files")
    mode.add_argument("--check", action="store_true", help="fail when a file differs from its model")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("crds"), help="default: crds")
    options = parser.parse_args(arguments)
    if options.write:
        for name in write(options.folder):
            print(f"wrote {options.folder / name}")
        return 0
    stale = drift(options.folder)
    for name in stale:
        print(f"{options.folder / name} is not what its model says: run `make generate`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
