"""Manifests that no API server has seen: parsed, and held to the rules without which nothing could be judged.

The API server checks every rule of the kinds by their CEL; here are those on which the judge relies.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from gatewright_analysis.kinds.base import Model
from gatewright_analysis.kinds.contract import Check, GateContractSpec, OracleKind, Require
from gatewright_analysis.kinds.evidence import KINDS, JobReport
from gatewright_analysis.kinds.rollout import RolloutSpec
from gatewright_analysis.kinds.source import MetricSourceSpec
from gatewright_analysis.names import GROUP
from gatewright_analysis.task import Terms

_Spec = TypeVar("_Spec", bound=Model)
_OWN_LIMIT = ("pods", "value", "burnRate", "paired")
_SAMPLED = ("samples", "scores", "paired")
_FACTS = ("pods", "value", "burnRate")


class UnreadableManifest(ValueError):
    """The manifest can't be used; the message says why, and what is wanted."""


def contract_of(document: object) -> GateContractSpec:
    """The spec of a GateContract or ClusterGateContract. Raises UnreadableManifest."""
    raw = _spec_of(document, "GateContract", "ClusterGateContract")
    for number, check in enumerate(raw.get("checks") or ()):
        for place, entry in enumerate((check.get("evidence") or ()) if isinstance(check, Mapping) else ()):
            found = [kind for kind in KINDS if isinstance(entry, Mapping) and entry.get(kind) is not None]
            if len(found) != 1:
                has = " and ".join(found) if found else "none"
                raise UnreadableManifest(
                    f"spec.checks.{number}.evidence.{place} has {has} of {', '.join(KINDS)}: an entry has exactly one."
                )
    contract = _parsed(GateContractSpec, raw)
    for problem in _problems(contract):
        raise UnreadableManifest(problem)
    return contract


def rollout_of(document: object) -> RolloutSpec:
    """The spec of a Rollout. Raises UnreadableManifest."""
    return _parsed(RolloutSpec, _spec_of(document, "Rollout"))


def source_of(document: object) -> MetricSourceSpec:
    """The spec of a MetricSource. Raises UnreadableManifest."""
    return _parsed(MetricSourceSpec, _spec_of(document, "MetricSource"))


def _spec_of(document: object, *kinds: str) -> Mapping[str, Any]:
    if not isinstance(document, Mapping) or document.get("kind") not in kinds:
        raise UnreadableManifest(f"A manifest of the kind {' or '.join(kinds)} is wanted.")
    if not str(document.get("apiVersion", "")).startswith(f"{GROUP}/"):
        raise UnreadableManifest(
            f"A {document['kind']} of {GROUP} is wanted, not {document.get('apiVersion')}."
        )
    spec = document.get("spec")
    if not isinstance(spec, Mapping):
        raise UnreadableManifest(f"The {document['kind']} has no spec.")
    return spec


def _parsed(model: type[_Spec], raw: Mapping[str, Any]) -> _Spec:
    try:
        return model.model_validate(dict(raw))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(("spec", *map(str, first["loc"])))
        raise UnreadableManifest(f"{where}: {first['msg']}.") from error


def _problems(contract: GateContractSpec) -> Iterator[str]:
    """Sentences as the API server would say them."""
    ids = [check.id for check in contract.checks]
    twice = sorted({id_ for id_ in ids if ids.count(id_) > 1})
    if twice:
        yield f"Two checks have the id {twice[0]}: each needs its own."
    if not any(check.require is Require.PASS for check in contract.checks):
        yield "At least one check needs require: Pass, or nothing would have to be proven."
    for check in contract.checks:
        for problem in _problems_of(check):
            yield f"Check {check.id}: {problem}"


def _problems_of(check: Check) -> Iterator[str]:
    kinds = [entry.kind for entry in check.evidence]
    stages = [stage for entry in check.evidence for stage in entry.stages]
    sampled = check.oracle_kind is OracleKind.SAMPLED
    if len(set(stages)) < len(stages):
        yield "a stage stands once in its evidence; take it out of the other entry."
    if not sampled and any(kind in _SAMPLED for kind in kinds):
        yield "evidence of the kinds samples, scores and paired needs oracleKind: Sampled."
    if sampled and any(kind in _FACTS for kind in kinds):
        yield "evidence of the kinds pods, value and burnRate needs oracleKind: Deterministic."
    limit = check.limit
    if limit is not None and (limit.max_bad_ratio is None) == (limit.min_good_ratio is None):
        yield "a limit is exactly one of maxBadRatio and minGoodRatio."
    for entry in check.evidence:
        by_exit_code = entry.job is not None and entry.job.report is JobReport.EXIT_CODE
        if limit is None and entry.kind not in _OWN_LIMIT and not by_exit_code:
            yield "it needs a limit: maxBadRatio or minGoodRatio."
        if entry.value is not None and entry.value.min is None and entry.value.max is None:
            yield "a value needs a limit: min, max, or both."
        if entry.burn_rate is not None and not 0 < entry.burn_rate.limit < 1:
            yield "maxBurn times (1 - objective) must lie between 0 and 1."
    for entry in check.evidence:
        allowed = check.limit_at(entry.stages[0])
        if check.calibration is not None and allowed is not None:
            try:
                Terms.of(check, entry, allowed, 1)
            except ValueError as error:
                yield str(error)
    if check.min_samples and check.planned_samples and check.min_samples > check.planned_samples:
        yield "plannedSamples must not be below minSamples."
