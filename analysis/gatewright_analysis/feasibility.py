"""What can be known before a rollout starts: contracts and steps that could never pass, or whose evidence is not there.

The API server checks each object alone; this looks at contract, Rollout and MetricSources together. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from gatewright_analysis.evidence.lint import fingerprint_problem, source_problems, window_problem
from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.windows import readings_apart
from gatewright_analysis.kinds.contract import Check, GateContractSpec, OracleKind, Require, Stage
from gatewright_analysis.kinds.rollout import RolloutSpec
from gatewright_analysis.kinds.source import MetricSource
from gatewright_analysis.ledger.canonical import ContractTooLarge, canonical_contract
from gatewright_analysis.reasons import Reason
from gatewright_analysis.statistics.errors import NoConclusion
from gatewright_analysis.statistics.spending import MOST_SAMPLES
from gatewright_analysis.task import Bounds, CheckTask

MAX_REPLICAS_WEIGHT = 50
"""Beyond it the canary would need more pods than stable has: c / (N + c) with c ≤ N."""
_SCRAPES_FOR_TOTAL_FAILURE = 3


class Finding(NamedTuple):
    """One thing that is wrong: a reason, and a sentence that says what to do."""

    reason: Reason
    sentence: str


@dataclass(frozen=True, slots=True)
class _Gate:
    """A place where checks judge: its name in sentences, its stage, its lengths in seconds, and the ids it names."""

    name: str
    stage: Stage
    bounds: Bounds
    named: tuple[str, ...] = ()


def findings(
    contract: GateContractSpec,
    rollout: RolloutSpec,
    sources: Mapping[str, MetricSource],
    namespace_labels: Mapping[str, str],
) -> tuple[Finding, ...]:
    """All that must be mended before a start. Empty: nothing known stands in the way.

    `sources` are all MetricSources by name; `namespace_labels` the labels of the Rollout's namespace.
    """
    gates = tuple(_gates(rollout))
    used = _used(contract, gates)
    found = (
        *_size(contract),
        *_weights(rollout),
        *(finding for gate in gates for finding in _judging(contract, gate)),
        *_samples(contract, used),
        *(finding for gate in gates for finding in _readings(contract, gate)),
        *_sources(used, sources, namespace_labels),
        *_fingerprints(contract, sources, namespace_labels),
        *(finding for gate in gates for finding in _windows(contract, gate, sources)),
    )
    return tuple(dict.fromkeys(found))


def warnings(
    contract: GateContractSpec, rollout: RolloutSpec, sources: Mapping[str, MetricSource]
) -> tuple[Finding, ...]:
    """What somebody should know, though the rollout can start."""
    used = _used(contract, tuple(_gates(rollout)))
    return tuple(_total_failure(contract, used, sources))


def checks_of(contract: GateContractSpec, stage: Stage, named: tuple[str, ...] = ()) -> tuple[Check, ...]:
    """The checks that judge at a stage: those named, or all; in both cases only those with evidence for it."""
    return tuple(
        check
        for check in contract.checks
        if check.evidence_at(stage) is not None and (not named or check.id in named)
    )


def _gates(rollout: RolloutSpec) -> Iterator[_Gate]:
    for number, step in enumerate(rollout.steps):
        if step.gate is not None:
            yield _Gate(
                f"the gate at step {number}",
                Stage.CANARY,
                _bounds(step.gate.duration, step.gate.deadline, step.gate.window),
                step.gate.checks,
            )
    if rollout.bake is not None:
        bake = rollout.bake
        yield _Gate("the bake", Stage.BAKE, _bounds(bake.duration, bake.duration, bake.window))


def _bounds(duration: timedelta, deadline: timedelta, window: timedelta) -> Bounds:
    return Bounds(duration.total_seconds(), deadline.total_seconds(), window.total_seconds())


def _used(contract: GateContractSpec, gates: Iterable[_Gate]) -> tuple[Check, ...]:
    """The checks that judge somewhere in this rollout, with the evidence they use there, in the contract's order."""
    places = {
        (check.id, gate.stage) for gate in gates for check in checks_of(contract, gate.stage, gate.named)
    }
    used = []
    for check in contract.checks:
        evidence = tuple(e for e in check.evidence if any((check.id, stage) in places for stage in e.stages))
        if evidence:
            used.append(check.model_copy(update={"evidence": evidence}))
    return tuple(used)


def _size(contract: GateContractSpec) -> Iterator[Finding]:
    try:
        canonical_contract(contract)
    except ContractTooLarge as error:
        yield Finding(Reason.CONTRACT_TOO_LARGE, str(error))


def _weights(rollout: RolloutSpec) -> Iterator[Finding]:
    if rollout.traffic.replicas is None:
        return
    for number, step in enumerate(rollout.steps):
        if step.set_weight is not None and step.set_weight > MAX_REPLICAS_WEIGHT:
            yield Finding(
                Reason.WEIGHT_UNREACHABLE,
                f"Step {number} asks for weight {step.set_weight}, and traffic by replicas reaches {MAX_REPLICAS_WEIGHT}: "
                "lower the weight, or move traffic by gatewayAPI.",
            )


def _judging(contract: GateContractSpec, gate: _Gate) -> Iterator[Finding]:
    known = {check.id: check for check in contract.checks}
    for name in gate.named:
        if name not in known:
            have = ", ".join(sorted(known))
            yield Finding(
                Reason.INVALID_SPEC,
                f"{_start(gate)} names the check {name}, which the contract does not have (it has: {have}).",
            )
        elif known[name].evidence_at(gate.stage) is None:
            yield Finding(
                Reason.NO_EVIDENCE_FOR_STAGE,
                f"{_start(gate)} names the check {name}, which has no evidence for the stage {gate.stage}: "
                f"add {gate.stage} to the stages of its evidence, or take it out of the gate.",
            )
    judging = checks_of(contract, gate.stage, gate.named)
    if not judging and not gate.named:
        yield Finding(
            Reason.NO_EVIDENCE_FOR_STAGE,
            f"No check of the contract has evidence for the stage {gate.stage}, so {gate.name} could never decide: "
            f"add {gate.stage} to the stages of an evidence entry, or take {gate.name} out of the Rollout.",
        )
    elif judging and gate.stage is Stage.CANARY and not any(c.require is Require.PASS for c in judging):
        yield Finding(
            Reason.INVALID_SPEC,
            f"{_start(gate)} has no check with require: Pass, so it would prove nothing: "
            "let one of its checks have require: Pass, or name another check.",
        )


def _samples(contract: GateContractSpec, used: Iterable[Check]) -> Iterator[Finding]:
    for check in used:
        for stage in (stage for entry in check.evidence for stage in entry.stages):
            if check.limit_at(stage) is None:
                continue
            try:
                terms = CheckTask(check, contract, stage, e_processes=1, has_stable=False).terms
            except NoConclusion as error:
                yield Finding(Reason.NEVER_PASSES, f"The check {check.id} can never pass: {error}")
                continue
            if check.require is Require.PASS and terms.planned < terms.n_min:
                yield Finding(
                    Reason.NEVER_PASSES,
                    f"The check {check.id} plans {terms.planned} samples, and even if all of them were good they "
                    f"could not prove {terms.stated:.6g}: plan at least {terms.n_min}, or lower the limit.",
                )
            if check.spending is not None and terms.planned > MOST_SAMPLES:
                yield Finding(
                    Reason.NEVER_PASSES,
                    f"The check {check.id} plans {terms.planned:,} samples, and exact limits of a schedule can be worked "
                    f"out for {MOST_SAMPLES:,} at most: plan fewer, or leave out spending.",
                )


def _readings(contract: GateContractSpec, gate: _Gate) -> Iterator[Finding]:
    for check in checks_of(contract, gate.stage, gate.named):
        entry = check.evidence_at(gate.stage)
        if entry is None or entry.value is None or check.require is not Require.PASS:
            continue
        spec = entry.value
        apart = readings_apart(gate.bounds.window, spec.spacing.total_seconds())
        most = gate.bounds.last_index // apart + 1
        if most < spec.min_windows:
            needed = ((spec.min_windows - 1) * apart + 1) * gate.bounds.window
            yield Finding(
                Reason.NEVER_PASSES,
                f"The check {check.id} needs {spec.min_windows} readings, and {gate.name} has time for {most}: watch "
                f"for at least {needed:g}s (maxDuration of a gate, duration of the bake), or set minWindows or spacing lower.",
            )


def _sources(
    used: Iterable[Check], sources: Mapping[str, MetricSource], namespace_labels: Mapping[str, str]
) -> Iterator[Finding]:
    for check in used:
        for problem in source_problems(check, sources, namespace_labels):
            yield _finding(problem)


def _fingerprints(
    contract: GateContractSpec, sources: Mapping[str, MetricSource], namespace_labels: Mapping[str, str]
) -> Iterator[Finding]:
    for fingerprint in contract.world.fingerprints:
        problem = fingerprint_problem(fingerprint, sources, namespace_labels)
        if problem is not None:
            yield _finding(problem)


def _windows(
    contract: GateContractSpec, gate: _Gate, sources: Mapping[str, MetricSource]
) -> Iterator[Finding]:
    for name in sorted(_source_names(checks_of(contract, gate.stage, gate.named), gate.stage)):
        problem = window_problem(sources[name], gate.bounds.window) if name in sources else None
        if problem is not None:
            yield Finding(
                problem.reason,
                f"{_start(gate)} has windows of {gate.bounds.window:g} s, and the MetricSource {name} scrapes every "
                f"{_scrape_seconds(sources[name]):g} s: a window must hold two scrapes, so set window to at least "
                f"{2 * _scrape_seconds(sources[name]):g}s.",
            )


def _total_failure(
    contract: GateContractSpec, used: Iterable[Check], sources: Mapping[str, MetricSource]
) -> Iterator[Finding]:
    """No reason to refuse: the e-process still convicts, only later."""
    span = contract.total_failure.for_.total_seconds()
    deterministic = [check for check in used if check.oracle_kind is OracleKind.DETERMINISTIC]
    counted = [
        c for c in deterministic if (entry := c.evidence_at(Stage.CANARY)) is not None and entry.counted
    ]
    for name in sorted(_source_names(counted, Stage.CANARY)):
        needed = _SCRAPES_FOR_TOTAL_FAILURE * _scrape_seconds(sources[name]) if name in sources else 0.0
        if span < needed:
            yield Finding(
                Reason.CONTRACT_INVALID,
                f"totalFailure.for is {span:g} s, which holds fewer than three scrapes of the MetricSource {name}: a "
                f"canary that fails outright is seen later than that. Set it to at least {needed:g}s, or scrape faster.",
            )


def _source_names(checks: Iterable[Check], stage: Stage) -> set[str]:
    entries = (check.evidence_at(stage) for check in checks)
    return {entry.source for entry in entries if entry is not None and entry.source is not None}


def _scrape_seconds(source: MetricSource) -> float:
    return source.spec.scrape_interval.total_seconds()


def _finding(problem: Fault) -> Finding:
    sentence = problem.detail[:1].upper() + problem.detail[1:]
    return Finding(problem.reason, sentence if sentence.endswith(".") else f"{sentence}.")


def _start(gate: _Gate) -> str:
    return gate.name[:1].upper() + gate.name[1:]
