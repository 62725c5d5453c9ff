"""What is asked of one check at one gate, and the numbers that follow from it (statistics.md R2)."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gatewright_analysis.evidence.model import Clock, Window
from gatewright_analysis.kinds.contract import Check, GateContractSpec, OnBreach, OracleKind, Require, Stage
from gatewright_analysis.statistics.plan import default_planned_samples
from gatewright_analysis.statistics.wilson import least_samples

SAMPLES_FLOOR: Final = 40
"""Below it Wilson's real error reaches 5.8 %."""
_BREACH_ODDS: Final = 100.0
_EDGE: Final = 1e-9
"""Slack when seconds are compared: 20 windows of 0.1 s end at 2.0000000000000004."""


@dataclass(frozen=True, slots=True)
class Prior:
    """An earlier attempt at this step with this revision, whose evidence goes on: its windows, and whether
    its `Statistics.ticket_used` was true."""

    windows: tuple[Window, ...]
    ticket_used: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """The gate's windows: which is the first that may pass, and which is the last that counts."""

    duration: float
    max_duration: float
    window: float

    @classmethod
    def of(cls, clock: Clock) -> "Bounds":
        return cls(clock.duration, clock.max_duration, clock.window)

    def end_of(self, index: int) -> float:
        """Seconds after t0 at which window `index` closes."""
        return (index + 1) * self.window

    @property
    def last_index(self) -> int:
        """The last window that ends by `max_duration`; the first one where none does."""
        return max(1, math.floor(self.max_duration / self.window + _EDGE)) - 1

    @property
    def first_pass_index(self) -> int:
        """The first window that ends at or after `duration`, or the last that counts where windows don't
        divide the gate."""
        return min(math.ceil(self.duration / self.window - _EDGE) - 1, self.last_index)


@dataclass(frozen=True, slots=True)
class CheckTask:
    """One check at one gate: everything that is fixed before the first window closes."""

    check: Check
    contract: GateContractSpec
    stage: Stage
    e_processes: int
    """m: see `count_e_processes`."""
    has_stable: bool
    """A stable arm serves beside the canary; false in Bake."""
    prior: tuple[Prior, ...] = ()
    by_windows: bool = False
    """Judge total failure by windows, because nothing finer is known (backtest). By ticks otherwise."""
    terms: "Terms" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.check.limit is not None:
            object.__setattr__(self, "terms", Terms.of(self.check, self.e_processes))

    @property
    def kind(self) -> str:
        """The evidence kind at this stage, or "" when the check does not judge here."""
        entry = self.check.evidence_at(self.stage)
        return "" if entry is None else entry.kind

    @property
    def sampled(self) -> bool:
        return self.check.oracle_kind is OracleKind.SAMPLED

    @property
    def attempts(self) -> int:
        return 1 + len(self.prior)

    @property
    def on_breach(self) -> OnBreach:
        return self.contract.on_breach(self.check)


@dataclass(frozen=True, slots=True)
class Terms:
    """The contract's demands in numbers. Ratios are good / n unless their name says bad; evidence in natural
    logarithms."""

    threshold: float
    """t: the least good ratio."""
    limit: float
    """The largest bad ratio, 1 − t without its rounding."""
    min_samples: int
    n_min: int
    planned: int
    log_e_pass: float
    """What E⁺ must reach, and a sampled check's E⁻: 50, or 100 below t = 0.8, so that together with Wilson <
    5 %."""
    log_e_breach: float
    """What convicts a deterministic check: 100 · m."""
    min_increase: float

    @classmethod
    def of(cls, check: Check, e_processes: int) -> "Terms":
        """Raises ValueError when the check has no limit, or m is below 1."""
        if check.limit is None:
            raise ValueError(f"check {check.id} needs a limit")
        if e_processes < 1:
            raise ValueError(f"m counts e-processes and is at least 1, not {e_processes}")
        threshold = check.limit.threshold
        limit = check.limit.max_bad_ratio
        if limit is None:
            limit = round(1.0 - threshold, 12)
        n_min = least_samples(threshold)
        versus = check.versus_stable
        increase = versus.min_increase if versus is not None else None
        return cls(
            threshold=threshold,
            limit=limit,
            min_samples=check.min_samples or max(SAMPLES_FLOOR, n_min),
            n_min=n_min,
            planned=check.planned_samples or default_planned_samples(threshold),
            log_e_pass=math.log(50.0 if threshold >= 0.8 else 100.0),
            log_e_breach=math.log(_BREACH_ODDS * e_processes),
            min_increase=limit / 10 if increase is None else increase,
        )


def count_e_processes(
    contract: GateContractSpec, gates: Iterable[tuple[Stage, Iterable[str]]], *, has_stable: bool
) -> int:
    """m of a whole rollout: one e-process for each gate (bake included), each check that can roll back there,
    each route.

    `gates` gives each gate's stage and the ids of the checks that judge at it. A check has the absolute route
    where it counts events, and the two-arm route too where it says `versusStable` and a stable arm serves
    (`has_stable`, never in Bake). At least 1. Raises KeyError for an id that the contract doesn't have.
    """
    checks = {check.id: check for check in contract.checks}
    count = 0
    for stage, ids in gates:
        for check in (checks[id_] for id_ in ids):
            entry = check.evidence_at(stage)
            counted = entry is not None and entry.kind in ("counts", "latency")
            if not counted or check.require is Require.ADVISORY:
                continue
            if contract.on_breach(check) is OnBreach.ROLLBACK:
                two_arm = check.versus_stable is not None and has_stable and stage is Stage.CANARY
                count += 2 if two_arm else 1
    return max(1, count)
