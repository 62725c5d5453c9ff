"""Manifests that no API server has seen: all that is wrong with them, each finding with the path of its field. Pure.

One object: what its model and the kinds' own rules refuse, and fields that nobody reads. Those that belong together: what
the operator would say before a start (`feasibility`), and what `gatewright plan` knows.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from gatewright_analysis.crd import KINDS as ALL_KINDS
from gatewright_analysis.feasibility import findings, warnings
from gatewright_analysis.kinds.base import Model
from gatewright_analysis.kinds.contract import GateContract, Require
from gatewright_analysis.kinds.rollout import Rollout
from gatewright_analysis.kinds.source import MetricSource, Producer
from gatewright_analysis.manifests import UnreadableManifest, contract_of
from gatewright_analysis.names import API_VERSION, GROUP
from gatewright_analysis.offline_rules import Path, broken
from gatewright_analysis.planning.plan import plan_contract
from gatewright_analysis.reasons import Reason
from gatewright_analysis.schema import Schema, structural

KINDS: Final = {kind.name: kind for kind in ALL_KINDS if kind.name != "GateRun"}
_NEEDS_THE_CLUSTER = frozenset((Reason.SOURCE_NOT_ALLOWED,))
"""Labels of namespaces are not in these files."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object as it was read, and what the caller calls it by."""

    value: Mapping[str, Any]
    name: str


@dataclass(frozen=True, slots=True)
class LintFinding:
    """Where it is (`manifest` as the caller called it, the path of the field), and what to do."""

    manifest: str
    path: Path
    error: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class Linted:
    """`seen`: how many objects are of our kinds. `skipped`: sentences about what could not be checked here."""

    seen: int
    findings: tuple[LintFinding, ...]
    skipped: tuple[str, ...]


@dataclass(slots=True)
class _Together:
    """What could be read, by kind: (manifest, model)."""

    contracts: list[tuple[Manifest, GateContract]] = field(default_factory=list)
    rollouts: list[tuple[Manifest, Rollout]] = field(default_factory=list)
    sources: list[tuple[Manifest, MetricSource]] = field(default_factory=list)


def lint(manifests: Sequence[Manifest]) -> Linted:
    """All findings of all manifests. Objects of other groups are left alone."""
    found: list[LintFinding] = []
    together, seen = _Together(), 0
    for manifest in manifests:
        if not str(manifest.value.get("apiVersion", "")).startswith(f"{GROUP}/"):
            continue
        seen += 1
        wrong, model = _alone(manifest)
        found += wrong
        match model:
            case GateContract():
                together.contracts.append((manifest, model))
            case Rollout():
                together.rollouts.append((manifest, model))
            case MetricSource():
                together.sources.append((manifest, model))
    beside, skipped = _beside(together)
    return Linted(seen, (*found, *beside), skipped)


def _alone(manifest: Manifest) -> tuple[list[LintFinding], Model | None]:
    """What is wrong with one object; the model when nothing is that keeps it from being read."""

    def error(path: Path, sentence: str) -> LintFinding:
        return LintFinding(manifest.name, path, True, sentence)

    value = manifest.value
    kind = KINDS.get(str(value.get("kind")))
    if kind is None:
        have = ", ".join(sorted(KINDS))
        return [
            error(("kind",), f"{GROUP} has no kind {value.get('kind')} that people write; it has {have}.")
        ], None
    if value["apiVersion"] != API_VERSION:
        return [
            error(
                ("apiVersion",), f"{value['apiVersion']} is no version of {kind.name}: write {API_VERSION}."
            )
        ], None
    meta = value.get("metadata")
    if not isinstance(meta, Mapping) or not (meta.get("name") or meta.get("generateName")):
        return [error(("metadata",), f"A {kind.name} needs metadata.name.")], None
    if not isinstance(value.get("spec"), Mapping):
        return [error(("spec",), f"The {kind.name} has no spec.")], None
    unknown = [
        error(path, f"Nobody reads the field {path[-1]}; {_has(known)}.")
        for path, known in _unknown(value["spec"], structural(kind.model)["properties"]["spec"], ("spec",))
    ]
    body = {
        "metadata": {key: meta[key] for key in ("name", "namespace") if key in meta},
        "spec": value["spec"],
    }
    try:
        # Strict, as the API server is: "5" is no number there.
        model = kind.model.model_validate_json(json.dumps(body, default=str), strict=True)
    except ValidationError as refused:
        return [*unknown, *(error(*told) for told in _refusals(refused))], None
    except ValueError as odd:
        return [*unknown, error(("spec",), f"It can't be written as JSON: {odd}.")], None
    wrong = [error(path, sentence) for path, sentence in _rules(model)]
    if not wrong and isinstance(model, GateContract):
        try:
            contract_of(value)
        except UnreadableManifest as refused_:
            wrong.append(error(_place_of_check(str(refused_), model), str(refused_)))
    return [*unknown, *wrong], None if wrong else model


def _rules(model: Model) -> list[tuple[Path, str]]:
    """Evidence with several kinds, or with none, has none that a rule could speak about: that is said first."""
    if isinstance(model, GateContract):
        several = [
            (
                ("spec", "checks", number, "evidence", place),
                "An evidence entry has exactly one kind, such as counts or latency: write one entry per kind, each with its "
                "own stages.",
            )
            for number, check in enumerate(model.spec.checks)
            for place, entry in enumerate(check.evidence)
            if len(entry.model_fields_set - {"stages"}) != 1
        ]
        if several:
            return several
    return list(broken(model))


def _refusals(refused: ValidationError) -> Iterator[tuple[Path, str]]:
    """What the model refuses; not what only follows from it, such as a list that lacks the item that was refused."""
    errors = refused.errors(include_url=False, include_input=False)
    places = [tuple(error["loc"]) for error in errors]
    for where, error in zip(places, errors, strict=True):
        if any(other[: len(where)] == where and len(other) > len(where) for other in places):
            continue
        message = str(error["msg"]).removeprefix("Value error, ")
        yield where, f"{'.'.join(map(str, where))}: {message[:1].lower()}{message[1:]}."


def _has(known: Sequence[str]) -> str:
    return f"here are known: {', '.join(sorted(known))}" if known else "here are no fields"


def _unknown(value: object, schema: Schema, path: Path) -> Iterator[tuple[Path, list[str]]]:
    """Fields that the schema does not know, which the API server drops or refuses."""
    if isinstance(value, Mapping) and "properties" in schema:
        for name, below in value.items():
            if name in schema["properties"]:
                yield from _unknown(below, schema["properties"][name], (*path, name))
            else:
                yield (*path, str(name)), list(schema["properties"])
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for number, below in enumerate(value):
            yield from _unknown(below, schema["items"], (*path, number))


def _beside(together: _Together) -> tuple[list[LintFinding], tuple[str, ...]]:
    """Contracts with the Rollouts that name them, and with the sources that they name."""
    found: list[LintFinding] = []
    skipped: list[str] = []
    sources = {source.metadata.name: source for _, source in together.sources}
    used: set[str] = set()
    for manifest, rollout in together.rollouts:
        contract = next((each for each in together.contracts if _meant(rollout, each[1])), None)
        if contract is None:
            name = rollout.spec.contract_ref.name
            skipped.append(
                f"Rollout {rollout.metadata.name}: its GateContract {name} is not among these files."
            )
            continue
        used.add(contract[0].name)
        found += _release(manifest, rollout, *contract, sources)
    for manifest, model in together.contracts:
        plan = plan_contract(model.spec, None, {})
        for problem in plan.problems:
            # With a Rollout, what can never pass was said above, for its own gates.
            if not (problem.never and manifest.name in used):
                path = _place_of_check(f"check {problem.check}", model)
                found.append(LintFinding(manifest.name, path, problem.never, problem.sentence))
        found += _own_numbers(manifest, model, sources)
    if together.contracts and not sources:
        skipped.append(
            "No MetricSource is among these files: that the sources exist and can serve was not checked."
        )
    return found, tuple(skipped)


def _meant(rollout: Rollout, contract: GateContract) -> bool:
    """By name; the namespace counts where both say one."""
    namespaces = {rollout.metadata.namespace or "", contract.metadata.namespace or ""} - {""}
    return rollout.spec.contract_ref.name == contract.metadata.name and len(namespaces) < 2


def _release(
    manifest: Manifest,
    rollout: Rollout,
    contract_manifest: Manifest,
    contract: GateContract,
    sources: Mapping[str, MetricSource],
) -> Iterator[LintFinding]:
    without = _NEEDS_THE_CLUSTER if sources else _NEEDS_THE_CLUSTER | {Reason.SOURCE_NOT_FOUND}
    for one in findings(contract.spec, rollout.spec, sources, {}):
        if one.reason not in without:
            yield _placed(one.sentence, True, manifest, rollout, contract_manifest, contract)
    for one in warnings(contract.spec, rollout.spec, sources):
        yield _placed(one.sentence, False, manifest, rollout, contract_manifest, contract)


def _placed(
    sentence: str,
    error: bool,
    manifest: Manifest,
    rollout: Rollout,
    contract_manifest: Manifest,
    contract: GateContract,
) -> LintFinding:
    """At the step that the sentence names, else at the check, else at the Rollout."""
    step = re.search(r"\bstep (\d+)", sentence, re.IGNORECASE)
    if step is not None and int(step[1]) < len(rollout.spec.steps):
        return LintFinding(manifest.name, ("spec", "steps", int(step[1])), error, sentence)
    if "the bake" in sentence.lower():
        return LintFinding(manifest.name, ("spec", "bake"), error, sentence)
    path = _place_of_check(sentence, contract)
    if len(path) > 2 or sentence.startswith("totalFailure"):
        return LintFinding(contract_manifest.name, path, error, sentence)
    return LintFinding(manifest.name, ("spec",), error, sentence)


def _place_of_check(sentence: str, contract: GateContract) -> Path:
    named = re.search(r"\bcheck ([a-z0-9-]+)", sentence, re.IGNORECASE)
    ids = [check.id for check in contract.spec.checks]
    if named is not None and named[1] in ids:
        return ("spec", "checks", ids.index(named[1]))
    return ("spec", "totalFailure") if sentence.startswith("totalFailure") else ("spec", "checks")


def _own_numbers(
    manifest: Manifest, contract: GateContract, sources: Mapping[str, MetricSource]
) -> Iterator[LintFinding]:
    """The judged should not be the only one to write the judgement (design, section 1, line 9)."""
    named = [
        entry.source
        for check in contract.spec.checks
        if check.require is Require.PASS
        for entry in check.evidence
    ]
    producers = {
        sources[name].spec.producer if name in sources else None for name in named if name is not None
    }
    if None not in named and producers == {Producer.WORKLOAD}:
        yield LintFinding(
            manifest.name,
            ("spec", "checks"),
            False,
            "All checks that must pass rest on numbers that the workload itself produces: a version that counts wrongly "
            "passes. Add a check on a source of the platform (a proxy, a mesh), or on pods.",
        )
