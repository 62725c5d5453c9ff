"""The looks that a HOLD rests on, from what is stored: the record by its digest, and the contract by its own. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from gatewright_analysis.evidence.packed import decode
from gatewright_analysis.evidence.record import UnreadableRecord
from gatewright_analysis.kinds.contract import GateContractSpec
from gatewright_analysis.ledger import ContractTooLarge, EntryKind, canonical_contract
from gatewright_analysis.looks import looks_again
from gatewright_analysis.replay import Evidence, Unreplayable
from gatewright_cli.kube import Object
from gatewright_cli.server.chart import Chart, chart
from gatewright_cli.server.explained import evidence_name


@dataclass(frozen=True, slots=True)
class Plots:
    """A chart by check, or the sentence that says why there is none. `problem` is what concerns them all."""

    charts: Mapping[str, Chart] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


def contract_of(digest: str, present: Object | None, segments: Iterable[Object]) -> GateContractSpec | None:
    """The contract of this digest: the present one if nobody has edited it, else as the ledger keeps it. What is found
    is digested again, so nothing has to be believed."""
    candidates = [] if present is None else [present.get("spec")]
    for segment in segments:
        for text in (segment.get("data") or {}).values():
            candidates += _recorded(text, digest)
    for spec in candidates:
        try:
            found = GateContractSpec.model_validate(spec)
            if canonical_contract(found).digest == digest:
                return found
        except (ValidationError, ContractTooLarge, TypeError):
            continue
    return None


def _recorded(text: str, digest: str) -> list[object]:
    if digest not in text:
        return []
    try:
        entry = json.loads(text)
        key = entry["key"]
        return [entry["body"]["spec"]] if (key["kind"], key["cause"]) == (EntryKind.CONTRACT, digest) else []
    except (ValueError, KeyError, TypeError):
        return []


def needed(config_map: Object) -> tuple[str, ...]:
    """Names of the ConfigMaps of other runs that this record rests on; none where it can't be read."""
    try:
        of = decode(config_map).evidence_of
    except UnreadableRecord:
        return ()
    return tuple(evidence_name({"run": run, "evidenceDigest": digest}) for run, digest in of.items())


def plots(
    digest: str, config_maps: Sequence[Object], contract: GateContractSpec | None, checks: Sequence[str]
) -> Plots:
    """The charts of these checks from the evidence with this digest."""
    if contract is None:
        return Plots(problem="The contract that judged is neither there as it was nor in the ledger.")
    evidence = Evidence(config_maps)
    try:
        record = evidence.record(digest, "this hold")
    except Unreplayable as error:
        return Plots(problem=_sentence(error))
    charts, missing = {}, {}
    for check in checks:
        try:
            looks = looks_again(record, contract, check, evidence)
        except Unreplayable as error:
            missing[check] = _sentence(error)
            continue
        own = record.checks[check]
        if looks:
            charts[check] = chart(check, looks)
        elif own.cached_from:
            missing[check] = (
                f"The answer was taken over from run {own.cached_from}: nothing new was drawn here."
            )
        elif own.windows or (own.pods is None and own.job is None):
            missing[check] = "No window of it was read."
        else:
            missing[check] = "It rests on facts, not on counts over time."
    return Plots(charts, missing)


def _sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."
