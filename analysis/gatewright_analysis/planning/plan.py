"""How likely and how soon a contract can pass and convict, before anything is released (statistics.md, section 5; R2).

A candidate is taken to lie half-way between its limit and perfect, as planned samples are. Rates are events per minute of
the whole service; what meets the canary is its weight's share. Pure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gatewright_analysis.feasibility import checks_of
from gatewright_analysis.kinds.contract import (
    Check,
    GateContractSpec,
    OracleKind,
    Pool,
    Require,
    Stage,
)
from gatewright_analysis.kinds.rollout import OnInconclusive, RolloutSpec
from gatewright_analysis.planning.model import CheckPlan, GatePlan, Plan, Problem
from gatewright_analysis.planning.problems import (
    breach_problems,
    gauge_problems,
    joint_problems,
    pass_problems,
)
from gatewright_analysis.statistics.plan import expected_minutes, joint_power, power_at
from gatewright_analysis.task import Terms, count_e_processes, required


def plan_contract(
    contract: GateContractSpec,
    rollout: RolloutSpec | None = None,
    rates: Mapping[str, float] | None = None,
) -> Plan:
    """`rates` are events per minute by check id; checks that are missing there are planned in samples only."""
    known = rates or {}
    gates = tuple(_gates(rollout)) if rollout is not None else tuple(_stages(contract))
    m = _e_processes(contract, gates, rollout)
    planned: list[GatePlan] = []
    problems: list[Problem] = []
    collected: dict[str, float] = {}
    last = max((k for k, gate in enumerate(gates) if gate.stage is Stage.CANARY), default=-1)
    for number, gate in enumerate(gates):
        checks = []
        for check in checks_of(contract, gate.stage, gate.named):
            one, found = _check(
                contract, check, gate, known.get(check.id), collected, m, last_gate=number >= last
            )
            checks.append(one)
            problems += found
        planned.append(replace(gate, checks=tuple(checks)))
    joint = _joint(planned)
    problems += joint_problems(planned, joint)
    return Plan(tuple(planned), joint, tuple(dict.fromkeys(problems)))


def _gates(rollout: RolloutSpec) -> Iterator[GatePlan]:
    weight = 0
    for number, step in enumerate(rollout.steps):
        weight = step.set_weight or weight
        if step.gate is not None:
            gate = step.gate
            yield GatePlan(
                f"the gate at step {number}", Stage.CANARY, weight, gate.duration.total_seconds() / 60,
                gate.deadline.total_seconds() / 60, gate.window.total_seconds(), gate.checks,
            )  # fmt: skip
    if rollout.bake is not None:
        bake, minutes = rollout.bake, rollout.bake.duration.total_seconds() / 60
        lenient = bake.on_inconclusive is OnInconclusive.COMPLETE
        window = bake.window.total_seconds()
        yield GatePlan("the bake", Stage.BAKE, 100, minutes, minutes, window, (), lenient)


def _stages(contract: GateContractSpec) -> Iterator[GatePlan]:
    """Without a Rollout: every stage that a check has evidence for, as one gate of unknown length."""
    for stage in Stage:
        if checks_of(contract, stage):
            yield GatePlan(f"the stage {stage}", stage, None, None, None, 30.0, ())


def _e_processes(contract: GateContractSpec, gates: tuple[GatePlan, ...], rollout: RolloutSpec | None) -> int:
    judging = [(gate.stage, [c.id for c in checks_of(contract, gate.stage, gate.named)]) for gate in gates]
    return count_e_processes(contract, judging if rollout is not None else judging[:1], has_stable=True)


def _check(
    contract: GateContractSpec,
    check: Check,
    gate: GatePlan,
    rate: float | None,
    collected: dict[str, float],
    m: int,
    *,
    last_gate: bool,
) -> tuple[CheckPlan, list[Problem]]:
    """`collected` are the events of pooled checks at the gates before; this gate's are added."""
    entry, limit = check.evidence_at(gate.stage), check.limit_at(gate.stage)
    assert entry is not None
    wanted = required(check, gate.stage, last_gate=last_gate)
    if limit is None:
        bare = CheckPlan(check.id, entry.kind, wanted)
        return bare, [] if entry.value is None else list(gauge_problems(check, gate, wanted))
    try:
        terms = Terms.of(check, entry, limit, m)
    except ValueError as error:
        sentence = f"The check {check.id} can never pass: {error}"
        return CheckPlan(check.id, entry.kind, wanted), [Problem(sentence, check.id, never=True)]
    halfway = terms.threshold + (1 - terms.threshold) / 2
    per_minute = minutes = power_in_gate = None
    expected: int | None = None
    if rate is not None and gate.weight is not None and gate.max_minutes is not None:
        per_minute = rate * gate.weight / 100
        minutes = expected_minutes(terms.planned, rate, gate.weight)
        seen = per_minute * gate.max_minutes
        if check.pool is Pool.ROLLOUT and gate.stage is Stage.CANARY:
            seen += collected.get(check.id, 0.0)
            collected[check.id] = seen
        expected = int(seen + 1e-9)
        at = min(expected, terms.planned)
        power_in_gate = power_at(at, terms.threshold, halfway, terms.z) if at >= terms.min_samples else 0.0
    own = CheckPlan(
        check.id, entry.kind, wanted, terms.stated, terms.n_min, terms.planned,
        power_at(terms.planned, terms.threshold, halfway, terms.z), per_minute, minutes, expected, power_in_gate,
    )  # fmt: skip
    found = [*pass_problems(check, own, terms, gate)]
    if per_minute is not None and check.oracle_kind is OracleKind.DETERMINISTIC and entry.counted:
        found += breach_problems(contract, check, own, terms, gate, rate or 0.0)
    return own, found


def _joint(gates: list[GatePlan]) -> float | None:
    """Of all checks that must pass somewhere, each once, at their planned samples."""
    powers = {
        check.check: check.power
        for gate in gates
        for check in gate.checks
        if check.require is Require.PASS and check.power is not None
    }
    return joint_power(powers.values()) if powers else None
