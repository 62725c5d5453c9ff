"""What is asked of one check at one gate, and the numbers that follow from it (statistics.md R2)."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gatewright_analysis.evidence.model import Clock, JudgeIdentity, Window
from gatewright_analysis.evidence.record import CheckRecord
from gatewright_analysis.kinds.contract import (
    Calibration,
    Check,
    Evidence,
    GateContractSpec,
    Limit,
    OnBreach,
    OracleKind,
    Pool,
    Require,
    Stage,
)
from gatewright_analysis.kinds.evidence import JobReport, ValueScope
from gatewright_analysis.kinds.policy import ErrorBudget
from gatewright_analysis.reasons import Reason
from gatewright_analysis.statistics.calibration import JudgeCalibration
from gatewright_analysis.statistics.confidence import Confidence
from gatewright_analysis.statistics.plan import default_planned_samples
from gatewright_analysis.statistics.wilson import least_samples
from gatewright_analysis.verdict import CheckResult

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
    run: str = ""
    """GateRun whose stored evidence it is, where there is one."""
    files: tuple[str, ...] = ()
    """sha256 of the result files and records that its windows hold: they are not counted again."""
    judge: JudgeIdentity | None = None
    """What gave the verdicts in them."""

    @classmethod
    def of(cls, record: CheckRecord | None, *, ticket_used: bool, run: str) -> "Prior":
        """From what was stored of the check at `run`; what was seen while its judge drifted speaks of no one world, so
        it is void."""
        fault = None if record is None else record.fault
        if record is None or (fault is not None and fault.reason is Reason.WORLD_DRIFTED):
            return cls((), ticket_used, run)
        return cls(record.pooled_windows, ticket_used, run, record.files, record.judge)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The gate's windows: which is the first that may pass, and which is the last that counts."""

    duration: float
    max_duration: float
    window: float
    """Seconds of a window; of recorded evidence with windows of many lengths, a usual one."""
    ends: tuple[float, ...] = ()
    """Seconds after t0 at which recorded windows closed, all of them, growing; empty for windows of one length."""
    last_index: int = field(init=False)
    """The last window that ends by `max_duration`; the first one where none does."""
    first_pass_index: int = field(init=False)
    """The first window that ends at or after `duration`, or the last that counts where windows don't divide the gate."""

    def __post_init__(self) -> None:
        if not self.ends:
            last = max(1, math.floor(self.max_duration / self.window + _EDGE)) - 1
            first = math.ceil(self.duration / self.window - _EDGE) - 1
        else:
            last = max(1, bisect_right(self.ends, self.max_duration + _EDGE)) - 1
            first = bisect_left(self.ends, self.duration - _EDGE)
        object.__setattr__(self, "last_index", last)
        object.__setattr__(self, "first_pass_index", min(first, last))

    @classmethod
    def of(cls, clock: Clock) -> "Bounds":
        return cls(clock.duration, clock.max_duration, clock.window)

    def end_of(self, index: int) -> float:
        """Seconds after t0 at which window `index` closes."""
        return self.ends[index] if self.ends else (index + 1) * self.window


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
    earlier: tuple[Window, ...] = ()
    """Windows of the rollout's earlier steps, for `pool: Rollout` only."""
    last_gate: bool = True
    """No gate of this rollout comes after this one before 100 %."""
    cached: CheckResult | None = None
    """What a sampled check came to on the same artifact, contract and world: asking again is no new draw."""
    terms: "Terms" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        limit, entry = self.check.limit_at(self.stage), self.check.evidence_at(self.stage)
        if limit is not None and entry is not None:
            terms = Terms.of(self.check, entry, limit, self.e_processes, family=self.family)
            object.__setattr__(self, "terms", terms)

    @property
    def kind(self) -> str:
        """The evidence kind at this stage, or "" when the check does not judge here."""
        entry = self.check.evidence_at(self.stage)
        return "" if entry is None else entry.kind

    @property
    def sampled(self) -> bool:
        return self.check.oracle_kind is OracleKind.SAMPLED

    @property
    def family(self) -> bool:
        """Three artifacts share one chance of a false promotion."""
        return self.sampled and self.contract.attempts.error_budget is ErrorBudget.FAMILY

    @property
    def pooled(self) -> bool:
        """Its pass may rest on the steps before."""
        return self.check.pool is Pool.ROLLOUT and self.stage is Stage.CANARY

    @property
    def require(self) -> Require:
        """What is asked for here: a pooled check proves itself at the last gate, before it no breach is enough."""
        return required(self.check, self.stage, last_gate=self.last_gate)

    @property
    def attempts(self) -> int:
        return 1 + len(self.prior)

    @property
    def on_breach(self) -> OnBreach:
        entry = self.check.evidence_at(self.stage)
        if entry is not None and entry.value is not None and entry.value.scope is ValueScope.WORKLOAD:
            # Canary and stable share that value, so it can't tell who moved it.
            return OnBreach.HOLD
        return self.contract.on_breach(self.check)


def required(check: Check, stage: Stage, *, last_gate: bool) -> Require:
    """What the contract asks of `check` at one gate."""
    waits = check.pool is Pool.ROLLOUT and stage is Stage.CANARY and not last_gate
    return Require.NO_BREACH if waits and check.require is Require.PASS else check.require


@dataclass(frozen=True, slots=True)
class Terms:
    """The contract's demands in numbers. Ratios are good / n unless their name says bad; evidence in natural
    logarithms."""

    threshold: float
    """t: the least good ratio; of a judge that errs, the largest apparent ratio that a true t can show."""
    limit: float
    """The largest bad ratio, 1 − t without its rounding."""
    stated: float
    """The least good ratio as the contract says it."""
    level: float
    """The two-sided confidence of the bounds."""
    z: float
    """Its normal quantile."""
    min_samples: int
    n_min: int
    planned: int
    log_e_pass: float
    """What E⁺ must reach, and a sampled check's E⁻."""
    log_e_breach: float
    """What convicts a deterministic check: 100 · m."""
    min_increase: float

    @classmethod
    def of(
        cls, check: Check, entry: Evidence, limit: Limit, e_processes: int, *, family: bool = False
    ) -> "Terms":
        """`entry` is the check's evidence at the stage and `limit` what is allowed there; `family`: three artifacts share the chance of a false promotion. Raises ValueError when m is below 1."""
        if e_processes < 1:
            raise ValueError(f"m counts e-processes and is at least 1, not {e_processes}")
        confidence = Confidence(check.confidence, family=family)
        threshold = limit.threshold
        if check.calibration is not None:
            threshold = _judge(check.calibration).threshold(threshold, confidence.z)
        largest = limit.max_bad_ratio
        if largest is None or check.calibration is not None:
            largest = round(1.0 - threshold, 12)
        n_min = least_samples(threshold, confidence.z)
        versus = check.versus_stable
        increase = versus.min_increase if versus is not None else None
        return cls(
            threshold=threshold,
            limit=largest,
            stated=limit.threshold,
            level=confidence.level,
            z=confidence.z,
            # Below n_min nothing can be proven, whatever the contract says.
            min_samples=max(check.min_samples or SAMPLES_FLOOR, n_min),
            n_min=n_min,
            planned=check.planned_samples or default_planned_samples(threshold, z=confidence.z),
            # No planned look is taken on scores, so E⁺ has the whole chance.
            log_e_pass=-math.log1p(-confidence.level)
            if entry.scores is not None
            else confidence.log_e(threshold),
            log_e_breach=math.log(_BREACH_ODDS * e_processes),
            min_increase=largest / 10 if increase is None else increase,
        )


def _judge(calibration: Calibration) -> JudgeCalibration:
    return JudgeCalibration(
        true_pass=calibration.passed_good,
        false_fail=calibration.failed_good,
        true_fail=calibration.failed_bad,
        false_pass=calibration.passed_bad,
    )


def count_e_processes(
    contract: GateContractSpec, gates: Iterable[tuple[Stage, Iterable[str]]], *, has_stable: bool
) -> int:
    """m of a whole rollout: one e-process for each gate (bake included), each check that can roll back there,
    each route.

    `gates` gives each gate's stage and the ids of the checks that judge at it. A check has the absolute route
    where it counts events, and the two-arm route too where it says `versusStable` and a stable arm serves
    (`has_stable`, never in Bake); a pooled one has one more that runs over the whole rollout. A Job that reports
    counts is one. At least 1. Raises KeyError for an id that the contract doesn't have.
    """
    checks = {check.id: check for check in contract.checks}
    count = 0
    pooled: set[str] = set()
    for stage, ids in gates:
        for check in (checks[id_] for id_ in ids):
            entry = check.evidence_at(stage)
            if entry is None or check.require is Require.ADVISORY:
                continue
            if contract.on_breach(check) is not OnBreach.ROLLBACK:
                continue
            if entry.counted:
                two_arm = check.versus_stable is not None and has_stable and stage is Stage.CANARY
                count += 2 if two_arm else 1
                if check.pool is Pool.ROLLOUT and stage is Stage.CANARY:
                    pooled.add(check.id)
            elif entry.job is not None and entry.job.report is JobReport.COUNTS:
                count += 1
    return max(1, count + len(pooled))
