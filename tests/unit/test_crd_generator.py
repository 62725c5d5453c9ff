"""The CRDs are what their models say, in the subset of OpenAPI that Kubernetes takes."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from pydantic import Field

from gatewright_analysis import crd, schema
from gatewright_analysis.kinds.base import Duration, Model
from gatewright_analysis.schema import NotStructural, structural, unbounded

CRDS = Path(__file__).resolve().parents[2] / "crds"
KINDS = {kind.name: kind for kind in crd.KINDS}
NOT_IN_A_CRD = {
    "$ref",
    "$defs",
    "anyOf",
    "oneOf",
    "allOf",
    "const",
    "title",
    "prefixItems",
    "uniqueItems",
    "not",
}


def openapi(name: str) -> dict[str, Any]:
    found: dict[str, Any] = crd.crd(KINDS[name])["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from nodes(node[key], f"{path}[]")


def test_the_files_are_what_the_models_say() -> None:
    stale = crd.drift(CRDS)
    assert not stale, f"{stale} differ from their models: run `make generate`"


@pytest.mark.parametrize("name", KINDS)
def test_a_schema_is_structural(name: str) -> None:
    for path, node in nodes(openapi(name)):
        assert "type" in node, f"{name}{path} has no type"
        foreign = node.keys() & NOT_IN_A_CRD
        assert not foreign, f"{name}{path} holds {foreign}, which Kubernetes refuses"


@pytest.mark.parametrize("name", KINDS)
def test_every_string_list_and_map_is_bounded(name: str) -> None:
    schema = openapi(name)
    for part in ("spec", "status"):
        loose = unbounded(schema["properties"].get(part, {}))
        assert not loose, f"{name}.{part} has unbounded {loose}: CEL rules near them cost too much"


@pytest.mark.parametrize("name", KINDS)
def test_every_field_is_described(name: str) -> None:
    for path, node in nodes(openapi(name)):
        if not path.endswith("[]") and path != ".metadata":
            words = node.get("description", "") or ("known" if path in (".apiVersion", ".kind") else "")
            assert words, f"{name}{path} has no description, so kubectl explain has nothing to say"


@pytest.mark.parametrize("name", KINDS)
def test_a_status_has_no_defaults(name: str) -> None:
    status = openapi(name)["properties"].get("status", {"type": "object"})
    made_up = [path for path, node in nodes(status) if "default" in node]
    assert not made_up, f"{name}.status{made_up}: a report does not say what was not seen"


@pytest.mark.parametrize("name", KINDS)
def test_the_sentence_of_a_rule_is_a_sentence(name: str) -> None:
    for path, node in nodes(openapi(name)):
        for rule in node.get("x-kubernetes-validations", ()):
            message = rule["message"]
            assert message.endswith("."), f"{name}{path}: {message!r} is no sentence"
            assert len(message.split()) > 4, f"{name}{path}: {message!r} does not tell what to do"


def test_printer_columns_and_filters_point_at_fields_that_exist() -> None:
    for kind in crd.KINDS:
        known = {path for path, _ in nodes(openapi(kind.name))}
        paths = [column.path for column in kind.columns] + list(kind.selectable)
        for path in paths:
            if not path.startswith(".metadata"):
                plain = path.replace('[?(@.type=="Ready")]', "[]")
                assert plain in known, f"{kind.name}: {path} is no field"


def test_defaults_stand_once_and_in_the_units_that_people_write() -> None:
    spec = openapi("GateContract")["properties"]["spec"]["properties"]
    assert spec["hold"]["default"] == {}
    assert spec["hold"]["properties"]["timeout"]["default"] == "24h"
    assert spec["totalFailure"]["properties"]["for"]["default"] == "15s"


def test_written_files_are_the_same_again(tmp_path: Path) -> None:
    assert len(crd.write(tmp_path)) == len(crd.KINDS)
    assert crd.write(tmp_path) == [], "a second run changes nothing"
    assert crd.drift(tmp_path) == []
    for path in tmp_path.iterdir():
        assert yaml.safe_load(path.read_text())["kind"] == "CustomResourceDefinition"


def test_a_changed_missing_or_foreign_file_is_drift(tmp_path: Path) -> None:
    crd.write(tmp_path)
    (tmp_path / "gatewright.dev_rollouts.yaml").write_text("# edited\n")
    (tmp_path / "gatewright.dev_gateruns.yaml").unlink()
    (tmp_path / "gatewright.dev_freezes.yaml").write_text("{}\n")
    (tmp_path / "README.yaml").write_text("{}\n")
    assert crd.drift(tmp_path) == [
        f"gatewright.dev_{name}.yaml" for name in ("freezes", "gateruns", "rollouts")
    ]
    assert crd.main(["--check", str(tmp_path)]) == 1
    assert crd.main(["--write", str(tmp_path)]) == 0
    assert crd.main(["--check", str(tmp_path)]) == 0
    assert (tmp_path / "README.yaml").exists(), "files that are not ours stay"


class Endless(Model):
    inner: "Endless | None" = None
    """Itself."""


class Union(Model):
    either: Annotated[int | str, Field(max_length=3)] = 1
    """Two types."""


class Silent(Model):
    field: Annotated[str, Field(max_length=3)] = ""


class Bounds(Model):
    above: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """A share."""
    wait: Duration = timedelta(minutes=90)
    """A time."""
    maybe: Annotated[str, Field(max_length=3)] | None = None
    """Unset is not null."""


@pytest.mark.parametrize(
    ("model", "complaint"),
    [(Endless, "contains itself"), (Union, "a union"), (Silent, "a docstring under the field is missing")],
)
def test_what_a_crd_cannot_say_stops_the_build(model: type[Model], complaint: str) -> None:
    with pytest.raises(NotStructural, match=complaint):
        structural(model)


def test_bounds_durations_and_unset_are_said_as_kubernetes_wants_them() -> None:
    properties = structural(Bounds)["properties"]
    assert properties["above"] == {
        "description": "A share.",
        "type": "number",
        "default": 0.5,
        "minimum": 0,
        "exclusiveMinimum": True,
        "maximum": 1,
        "exclusiveMaximum": True,
    }
    assert properties["wait"]["default"] == "1h30m"
    assert properties["maybe"] == {"description": "Unset is not null.", "type": "string", "maxLength": 3}


def test_an_unbounded_string_list_or_map_is_found() -> None:
    loose = {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "list": {"type": "array", "items": {"type": "string", "maxLength": 1}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "fine": {"type": "string", "enum": ["a"]},
        },
    }
    assert schema.unbounded(loose) == [".text", ".list", ".map", ".map.*"]
