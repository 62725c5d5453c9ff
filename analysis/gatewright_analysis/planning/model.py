"""What a plan says, in numbers and sentences."""

import math
from dataclasses import dataclass
from typing import Any

from gatewright_analysis.kinds.contract import (
    Require,
    Stage,
)


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """One check at one gate. Numbers are None where the check counts nothing, or the rate is not known."""

    check: str
    kind: str
    require: Require
    threshold: float | None = None
    n_min: int | None = None
    planned: int | None = None
    power: float | None = None
    """P(it passes) at the planned samples."""
    per_minute: float | None = None
    """Events a minute that meet the canary."""
    minutes: float | None = None
    """Until the planned samples are there; infinite when none come."""
    expected: int | None = None
    """Samples by the gate's deadline; of a pooled check those of the gates before, too."""
    power_in_gate: float | None = None
    """P(it passes) with those."""


@dataclass(frozen=True, slots=True)
class GatePlan:
    """One gate, its weight in percent, its lengths in minutes (None without a Rollout)."""

    name: str
    stage: Stage
    weight: int | None
    minutes: float | None
    max_minutes: float | None
    window_seconds: float
    named: tuple[str, ...]
    lenient: bool = False
    """A bake that completes where evidence is short."""
    checks: tuple[CheckPlan, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """A sentence that says what to do. `never`: something can't pass as it stands."""

    sentence: str
    check: str = ""
    gate: str = ""
    never: bool = False
    slow: bool = False
    """It is the rate that stands against it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All gates, what all required checks together come to, and what somebody should know."""

    gates: tuple[GatePlan, ...]
    joint_power: float | None
    problems: tuple[Problem, ...]

    @property
    def never_passes(self) -> bool:
        return any(problem.never for problem in self.problems)

    def wire(self) -> dict[str, Any]:
        """As `gatewright plan -o json` prints it; minutes that never end are null with `perMinute` 0."""
        return {
            "gates": [
                {
                    "name": gate.name,
                    "stage": gate.stage.value,
                    "weight": gate.weight,
                    "minutes": gate.minutes,
                    "maxMinutes": gate.max_minutes,
                    "checks": [_wire(check) for check in gate.checks],
                }
                for gate in self.gates
            ],
            "jointPower": _digits(self.joint_power),
            "neverPasses": self.never_passes,
            "warnings": [
                {"check": p.check, "gate": p.gate, "neverPasses": p.never, "sentence": p.sentence}
                for p in self.problems
            ],
        }


def _wire(check: CheckPlan) -> dict[str, Any]:
    return {
        "check": check.check,
        "kind": check.kind,
        "require": check.require.value,
        "threshold": _digits(check.threshold),
        "nMin": check.n_min,
        "planned": check.planned,
        "power": _digits(check.power),
        "perMinute": _digits(check.per_minute),
        "minutes": _digits(check.minutes),
        "expected": check.expected,
        "powerInGate": _digits(check.power_in_gate),
    }


def _digits(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else round(value, 6)
