"""Verdicts of a ledger, given again from the evidence that they rest on, and compared number by number. Pure.

The contract comes from the ledger, the evidence by its digest, and both go through the judge and the decision that the
operator uses. What a person did with the verdict (an approval, a Reject) stands in entries of its own and is not
replayed; approvals that reached to a later gate are part of that gate's evidence, and count there as they did.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from gatewright_analysis.decide import Outcome, decide
from gatewright_analysis.evidence.model import Window
from gatewright_analysis.evidence.packed import DIGEST_ANNOTATION, unpack
from gatewright_analysis.evidence.record import CheckRecord, RunRecord, UnreadableRecord, read
from gatewright_analysis.growing import blocks_more
from gatewright_analysis.judge import CheckEvidence, judge
from gatewright_analysis.kinds.contract import GateContractSpec, Stage
from gatewright_analysis.kinds.rollout import OnInconclusive
from gatewright_analysis.kinds.run import RunWaiver
from gatewright_analysis.ledger import Entry, EntryKind, digest_of_bytes
from gatewright_analysis.task import CheckTask, Prior
from gatewright_analysis.verdict import CheckResult, Verdict
from gatewright_analysis.waived import under_waivers

_NOT_JUDGED: Final = frozenset(("producer", "evidence", "fixHint"))
"""Of a check's result: what is put beside it, and no part of the contract's version."""
_MOST_DIFFERENCES: Final = 50


class Unreplayable(Exception):
    """This verdict can't be given again; the message says what is missing or wrong."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One verdict entry: what it says, and how the replay differs."""

    sequence: int
    kind: str
    run: str
    step: str
    attempt: int
    decision: str
    reason: str
    problem: str = ""
    """Why it could not be replayed; empty when it could."""
    differences: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        return not self.problem and not self.differences


class Evidence:
    """Stored records by the digest of what they hold; what ConfigMaps claim of themselves is only a claim."""

    def __init__(self, config_maps: Iterable[Mapping[str, Any]]) -> None:
        self._records: dict[str, bytes] = {}
        self._wrong: dict[str, str] = {}
        for config_map in config_maps:
            metadata = config_map.get("metadata") or {}
            claimed = str((metadata.get("annotations") or {}).get(DIGEST_ANNOTATION, ""))
            name = str(metadata.get("name", "?"))
            try:
                raw = unpack(config_map)
            except UnreadableRecord as error:
                self._wrong[claimed] = f"the evidence in ConfigMap {name} can't be read: {error}"
                continue
            digest = digest_of_bytes(raw)
            self._records[digest] = raw
            if claimed != digest:
                self._wrong[claimed] = f"digest mismatch: ConfigMap {name} says {claimed} and holds {digest}"

    def record(self, digest: str, whose: str) -> RunRecord:
        """Raises Unreplayable when it is gone, was changed, or can't be read."""
        raw = self._records.get(digest)
        if raw is None:
            gone = f"the evidence of {whose} ({digest}) is gone"
            raise Unreplayable(self._wrong.get(digest, gone))
        try:
            return read(raw)
        except UnreadableRecord as error:
            raise Unreplayable(f"the evidence of {whose} can't be read: {error}") from error


def replay(entries: Sequence[Entry], config_maps: Iterable[Mapping[str, Any]]) -> tuple[Replayed, ...]:
    """Every entry of the kinds Verdict, Blocked and Breach, in their order. `entries` are of a chain that was verified."""
    ledger = _Ledger.of(entries, Evidence(config_maps))
    kinds = (EntryKind.VERDICT, EntryKind.BLOCKED, EntryKind.BREACH)
    return tuple(_replayed(entry, ledger) for entry in entries if entry.key.kind in kinds)


@dataclass(frozen=True, slots=True)
class _Ledger:
    """What a verdict's replay looks up beside its own evidence."""

    evidence: Evidence
    contracts: Mapping[str, Any]
    """Canonical specs by digest."""
    verdicts: Mapping[str, Entry]
    """The verdict of each run."""
    holds: Mapping[str, tuple[Entry, ...]]
    """By run, in their order: its verdict, and what more was found to block while it was held."""
    approvals: Mapping[str, int]
    """Where each approval stands: sequence numbers by name of the GateReview."""

    @classmethod
    def of(cls, entries: Sequence[Entry], evidence: Evidence) -> "_Ledger":
        holds = dict[str, tuple[Entry, ...]]()
        for entry in entries:
            if entry.key.kind in (EntryKind.VERDICT, EntryKind.BLOCKED):
                run = _run_of(entry)
                holds[run] = (*holds.get(run, ()), entry)
        return cls(
            evidence,
            {e.key.cause: e.body.get("spec") for e in entries if e.key.kind == EntryKind.CONTRACT},
            {_run_of(e): e for e in entries if e.key.kind == EntryKind.VERDICT},
            holds,
            {
                str(e.body.get("name", "")): e.sequence
                for e in entries
                if e.key.kind == EntryKind.REVIEW and (e.body.get("spec") or {}).get("decision") == "Approve"
            },
        )

    def held_before(self, entry: Entry) -> Verdict | None:
        """What was held when a Blocked entry was written; None for every other kind. Raises Unreplayable."""
        if entry.key.kind != EntryKind.BLOCKED:
            return None
        earlier = [e for e in self.holds.get(_run_of(entry), ()) if e.sequence < entry.sequence]
        if not earlier:
            raise Unreplayable("the ledger does not hold the verdict that was held before")
        return _verdict(earlier[-1].body.get("verdict") or {})


def _run_of(entry: Entry) -> str:
    return str((entry.body.get("verdict") or {}).get("runId"))


def _replayed(entry: Entry, ledger: _Ledger) -> Replayed:
    body = entry.body.get("verdict") or {}
    found = Replayed(
        entry.sequence,
        entry.key.kind,
        str(body.get("runId", "")),
        entry.key.step,
        entry.key.attempt,
        str(body.get("decision", "")),
        str(body.get("reason", "")),
    )
    try:
        differences = tuple(_differences(entry, body, ledger))
    except Unreplayable as error:
        return _with(found, problem=str(error))
    return _with(found, differences=differences[:_MOST_DIFFERENCES])


def _with(found: Replayed, *, problem: str = "", differences: tuple[str, ...] = ()) -> Replayed:
    return Replayed(
        found.sequence, found.kind, found.run, found.step, found.attempt, found.decision, found.reason, problem,
        differences,
    )  # fmt: skip


def _verdict(body: Mapping[str, Any]) -> Verdict:
    try:
        return Verdict.model_validate(body)
    except ValidationError as error:
        raise Unreplayable(f"the verdict can't be read: {error.errors()[0]['msg']}") from error


def _differences(entry: Entry, body: Mapping[str, Any], ledger: _Ledger) -> Iterator[str]:
    verdict = _verdict(body)
    if verdict.evidence_digest is None:
        raise Unreplayable("the verdict names no evidence")
    record = ledger.evidence.record(verdict.evidence_digest, f"run {verdict.run_id}")
    if record.run != verdict.run_id:
        yield f"run: the evidence is of {record.run}, the verdict of {verdict.run_id}"
    for waiver in record.waivers:
        name = str(waiver.get("review"))
        if ledger.approvals.get(name, entry.sequence) >= entry.sequence:
            yield f"waivers: {name} counted, and no approval of this name stands in the ledger before"
    contract = _contract(verdict, ledger.contracts)
    try:
        results, outcome = judge_again(record, contract, ledger.evidence, held=ledger.held_before(entry))
    except (ValueError, KeyError) as error:
        raise Unreplayable(f"the evidence does not fit the contract: {error}") from error
    decision = None if outcome.decision is None else outcome.decision.value
    yield from _compared("decision", decision, verdict.decision.value)
    yield from _compared("reason", outcome.reason.value, verdict.reason)
    yield from _compared("blocking", list(outcome.blocking), list(verdict.blocking))
    yield from _compared("message", outcome.message, verdict.message)
    said = {check.id: check for check in verdict.checks}
    for check_id in sorted(said.keys() | results.keys()):
        if check_id not in said or check_id not in results:
            where = "evidence" if check_id in results else "verdict"
            yield f"{check_id}: only the {where} speaks of it"
            continue
        yield from _compared(check_id, _judged(results[check_id]), _judged(said[check_id]))
        yield from _taken_over(results[check_id], ledger.verdicts)


def _contract(verdict: Verdict, contracts: Mapping[str, Any]) -> GateContractSpec:
    digest = verdict.change.contract_digest
    spec = contracts.get(str(digest))
    if spec is None:
        raise Unreplayable(f"the ledger holds no contract with the digest {digest}")
    try:
        return GateContractSpec.model_validate(spec)
    except ValidationError as error:
        raise Unreplayable(f"the contract {digest} can't be read: {error.errors()[0]['msg']}") from error


def judge_again(
    record: RunRecord, contract: GateContractSpec, evidence: Evidence, *, held: Verdict | None = None
) -> tuple[dict[str, CheckResult], Outcome]:
    """What `record` comes to by `contract`; `held`: the HOLD that it may have made wider. Raises Unreplayable where
    another run's evidence is missing."""
    stage = Stage(record.stage)
    results = {}
    for check_id, own in record.checks.items():
        task = task_again(record, contract, check_id, evidence)
        seen = CheckEvidence(
            own.windows, own.ticks, own.pods, own.job, own.fault, own.window_pending, own.judge, own.seed
        )
        results[check_id] = judge(task, seen, record.clock)
    if record.waivers:
        waivers = [RunWaiver.model_validate(one) for one in record.waivers]
        covered = under_waivers(results.values(), waivers, contract, datetime.fromisoformat(record.at))
        results = {result.id: result for result in covered}
    return results, _decided(record, contract, stage, results, held)


def task_again(record: RunRecord, contract: GateContractSpec, check_id: str, evidence: Evidence) -> CheckTask:
    """What was asked of one check in `record`. Raises KeyError for a check that the contract or the record doesn't have,
    Unreplayable where another run's evidence is missing."""
    own = record.checks[check_id]
    return CheckTask(
        check={check.id: check for check in contract.checks}[check_id],
        contract=contract,
        stage=Stage(record.stage),
        e_processes=record.e_processes,
        has_stable=record.has_stable,
        prior=tuple(_prior(record, check_id, own, evidence)),
        earlier=_earlier(record, check_id, evidence),
        last_gate=record.last_gate,
        cached=None if own.cached is None else CheckResult.model_validate(own.cached),
    )


def _decided(
    record: RunRecord,
    contract: GateContractSpec,
    stage: Stage,
    results: Mapping[str, CheckResult],
    held: Verdict | None,
) -> Outcome:
    if held is not None:
        wider = blocks_more(results.values(), contract, held, stage=stage, last_gate=record.last_gate)
        if wider is None:
            raise Unreplayable("the evidence shows nothing that did not block before")
        return wider
    return decide(
        results.values(),
        contract,
        record.clock,
        expected=record.expected or tuple(results),
        stage=stage,
        last_gate=record.last_gate,
        on_inconclusive=OnInconclusive(record.on_inconclusive),
        drifted=record.drifted,
        world_unknown=record.world_unknown,
    )


def _prior(record: RunRecord, check: str, own: CheckRecord, evidence: Evidence) -> Iterator[Prior]:
    for before in own.prior:
        if not before.run:
            yield Prior(before.windows, before.ticket_used)
            continue
        found = _check_of(record, before.run, check, evidence)
        yield Prior.of(found, ticket_used=before.ticket_used, run=before.run)


def _earlier(record: RunRecord, check: str, evidence: Evidence) -> tuple[Window, ...]:
    runs = [run for run in record.earlier_runs if run in record.evidence_of]
    return tuple(window for run in runs for window in _windows(record, run, check, evidence))


def _windows(record: RunRecord, run: str, check: str, evidence: Evidence) -> tuple[Window, ...]:
    found = _check_of(record, run, check, evidence)
    return () if found is None else found.pooled_windows


def _check_of(record: RunRecord, run: str, check: str, evidence: Evidence) -> CheckRecord | None:
    digest = record.evidence_of.get(run)
    if digest is None:
        raise Unreplayable(f"the evidence does not say which evidence of the earlier run {run} was counted")
    return evidence.record(digest, f"the earlier run {run}").checks.get(check)


def _taken_over(result: CheckResult, verdicts: Mapping[str, Entry]) -> Iterator[str]:
    """A result that was taken over is the one that the other run's verdict holds; a ledger that lost it can't say."""
    entry = verdicts.get(result.cached_from) if result.cached_from else None
    if entry is None:
        return
    checks = (entry.body.get("verdict") or {}).get("checks", ())
    there = next((check for check in checks if check.get("id") == result.id), None)
    where = f"{result.id} (as {result.cached_from} found)"
    if there is None:
        yield f"{where}: that run did not judge it"
        return
    own = result.wire()
    for name in ("status", "reason", "statistics"):
        yield from _compared(f"{where}.{name}", own.get(name), there.get(name))


def _judged(result: CheckResult) -> dict[str, Any]:
    return {key: value for key, value in result.wire().items() if key not in _NOT_JUDGED}


def _compared(where: str, again: Any, said: Any) -> Iterator[str]:
    """A sentence for each leaf that differs."""
    if isinstance(again, dict) and isinstance(said, dict):
        for key in sorted(again.keys() | said.keys()):
            yield from _compared(f"{where}.{key}", again.get(key), said.get(key))
    elif again != said:
        yield f"{where}: the verdict says {_shown(said)}, the evidence gives {_shown(again)}"


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)
