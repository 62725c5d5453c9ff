"""From a pydantic model to the structural schema that Kubernetes takes.

pydantic emits JSON Schema 2020-12; a CRD takes a subset of OpenAPI 3.0 without references, unions and null.
What can't be said in that subset stops the build: there is no silent loss.
"""

import ast
import inspect
import sys
from datetime import timedelta
from functools import cache
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from gatewright_analysis.kinds.base import Model, format_duration

Schema = dict[str, Any]

_KEPT = frozenset(
    {
        "type",
        "description",
        "format",
        "pattern",
        "enum",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "maxProperties",
        "required",
        "default",
        "x-kubernetes-validations",
    }
)
_DROPPED = frozenset({"title", "$defs"})


class NotStructural(ValueError):
    """A model says something that a CRD can't: change the model."""


def structural(model: type[Model]) -> Schema:
    """The schema of `model`: everything in place, every field described, no keyword that Kubernetes refuses.

    `metadata` is left out: its schema is Kubernetes' own.

    Raises NotStructural where the model can't be said in a CRD, or where a field has no description.
    """
    document = model.model_json_schema(by_alias=True, schema_generator=_Described)
    document.get("properties", {}).pop("metadata", None)
    return _convert(document, document.get("$defs", {}), (model.__name__,))


def unbounded(schema: Schema, path: str = "") -> list[str]:
    """Paths of strings, lists and maps without a bound: near such, a CEL rule costs more than is allowed."""
    found = []
    match schema.get("type"):
        case "string" if not schema.keys() & {"maxLength", "enum"} and schema.get("format") != "date-time":
            found.append(path)
        case "array":
            if "maxItems" not in schema:
                found.append(path)
            found += unbounded(schema["items"], f"{path}[]")
        case "object":
            if "additionalProperties" in schema:
                if "maxProperties" not in schema:
                    found.append(path)
                found += unbounded(schema["additionalProperties"], f"{path}.*")
            for name, child in schema.get("properties", {}).items():
                found += unbounded(child, f"{path}.{name}")
    return found


def without_defaults(schema: Schema) -> Schema:
    """The same schema without defaults: a status says what was seen, and what was not seen stays out."""
    bare = {key: value for key, value in schema.items() if key != "default"}
    if "properties" in bare:
        bare["properties"] = {name: without_defaults(child) for name, child in bare["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in bare:
            bare[key] = without_defaults(bare[key])
    return bare


class _Described(GenerateJsonSchema):
    """Takes the docstrings under the fields as their descriptions.

    pydantic can do so itself, but at each import; the plugin's cold start would pay for what only this needs.
    """

    def encode_default(self, dft: Any) -> Any:
        """pydantic would write a default duration in ISO 8601, which the pattern beside it refuses."""
        return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        described = super().model_schema(schema)
        cls: type[Model] = schema["cls"]
        for name, text in _field_docs(cls).items():
            alias = cls.model_fields[name].alias or name
            described["properties"][alias]["description"] = text
        return described


def _field_docs(cls: type[Model]) -> dict[str, str]:
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, Model):
            docs |= _docs_of_module(base.__module__).get(base.__name__, {})
    return {name: text for name, text in docs.items() if name in cls.model_fields}


@cache
def _docs_of_module(name: str) -> dict[str, dict[str, str]]:
    """Docstrings that follow an annotated name, by class."""
    tree = ast.parse(inspect.getsource(sys.modules[name]))
    return {node.name: _docs_of_class(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _docs_of_class(node: ast.ClassDef) -> dict[str, str]:
    docs = {}
    for field, text in zip(node.body, node.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                docs[name] = " ".join(words.split())
    return docs


def _convert(node: Schema, defs: Schema, trail: tuple[str, ...]) -> Schema:
    node, trail = _resolved(node, defs, trail)
    result: Schema = {}
    for key, value in node.items():
        match key:
            case "properties":
                result[key] = {
                    name: _with_description(_convert(child, defs, (*trail, name)), (*trail, name))
                    for name, child in value.items()
                }
            case "items":
                result[key] = _convert(value, defs, (*trail, "[]"))
            case "additionalProperties":
                if isinstance(value, dict):
                    result[key] = _convert(value, defs, (*trail, "*"))
            case "exclusiveMinimum" | "exclusiveMaximum":
                # OpenAPI 3.0: a flag beside the bound, not the bound itself.
                result["minimum" if key == "exclusiveMinimum" else "maximum"] = value
                result[key] = True
            case "const":
                result["enum"] = [value]
            case "description":
                result[key] = " ".join(value.split())
            case _ if key in _KEPT:
                result[key] = value
            case _ if key not in _DROPPED:
                raise NotStructural(f"{'.'.join(trail)}: {key} can't stand in a CRD")
    return _tidy(result)


def _resolved(node: Schema, defs: Schema, trail: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
    """`node` with its reference put in place and `| None` taken away: in Kubernetes, unset is not null.

    `trail` names where we are, the models that were entered included, so that an endless one is seen.
    """
    node = dict(node)
    if "anyOf" in node:
        options = [option for option in node.pop("anyOf") if option != {"type": "null"}]
        if len(options) != 1:
            raise NotStructural(f"{'.'.join(trail)}: a union; make it one optional member per kind")
        node = _merged(options[0], node)
        if node.get("default", ...) is None:
            del node["default"]
        return _resolved(node, defs, trail)
    if "$ref" in node:
        name = node.pop("$ref").rpartition("/")[2]
        if name in trail:
            raise NotStructural(f"{'.'.join(trail)}: {name} contains itself")
        return _resolved(_merged(defs[name], node), defs, (*trail, name))
    return node, trail


def _merged(inner: Schema, outer: Schema) -> Schema:
    """What stands at the field goes before what stands at its type; rules of both hold."""
    merged = inner | outer
    rules = [*inner.get("x-kubernetes-validations", ()), *outer.get("x-kubernetes-validations", ())]
    return merged | ({"x-kubernetes-validations": rules} if rules else {})


def _with_description(node: Schema, trail: tuple[str, ...]) -> Schema:
    if not node.get("description"):
        raise NotStructural(
            f"{'.'.join(trail)}: a docstring under the field is missing; kubectl explain shows it"
        )
    return node


def _tidy(node: Schema) -> Schema:
    """A default that an object's own fields' defaults make up again becomes `{}`: each stands once."""
    default = node.get("default")
    if isinstance(default, dict) and "properties" in node:
        own = {name: child["default"] for name, child in node["properties"].items() if "default" in child}
        made = {name: _filled(node["properties"][name], value) for name, value in own.items()}
        # What is empty by default has lost its default on the way here (below).
        said = {name: value for name, value in default.items() if name in own or value not in ("", [])}
        node["default"] = {} if said == made else default
    if node.get("default") in ("", []):
        # Empty by default is what unset means; saying so would only lengthen every stored object.
        del node["default"]
    order = ("description", "type")
    return {key: node[key] for key in (*order, *(k for k in node if k not in order)) if key in node}


def _filled(node: Schema, value: Any) -> Any:
    """`value` with the defaults of its fields put in, as the API server does."""
    if not isinstance(value, dict):
        return value
    own = {n: _filled(c, c["default"]) for n, c in node.get("properties", {}).items() if "default" in c}
    return own | value
