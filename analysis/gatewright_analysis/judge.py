"""Judge one check: evidence in, result out. Pure; the operator, the backtest and the tests all come through
here."""

from dataclasses import dataclass
from typing import Protocol

from gatewright_analysis import explain
from gatewright_analysis.evidence.model import (
    Clock,
    Fault,
    JobFacts,
    JudgeIdentity,
    PodFacts,
    Tick,
    Window,
)
from gatewright_analysis.facts import judge_job, judge_pods, plain
from gatewright_analysis.gauge import ValueMonitor
from gatewright_analysis.monitor import CheckMonitor, Finding, Glance
from gatewright_analysis.reasons import Reason
from gatewright_analysis.task import Bounds, CheckTask
from gatewright_analysis.total_failure import TotalFailureFound
from gatewright_analysis.verdict import CheckResult, CheckStatus


class Monitor(Protocol):
    """A check that is judged window by window: what a caller with many looks keeps."""

    @property
    def next_index(self) -> int: ...

    @property
    def total_failure(self) -> TotalFailureFound | None: ...

    def add(self, window: Window) -> None: ...

    def add_ticks(self, ticks: tuple[Tick, ...]) -> None: ...

    def result(
        self, clock: Clock, *, fault: Fault | None = None, window_pending: bool = False
    ) -> CheckResult: ...

    def find(self, clock: Clock, *, fault: Fault | None = None, window_pending: bool = False) -> Finding: ...

    def glance(self) -> Glance: ...


@dataclass(frozen=True, slots=True)
class CheckEvidence:
    """Everything that was collected for one check at one gate so far."""

    windows: tuple[Window, ...] = ()
    ticks: tuple[Tick, ...] = ()
    pods: PodFacts | None = None
    job: JobFacts | None = None
    fault: Fault | None = None
    """Why the newest reading failed, if it did."""
    window_pending: bool = False
    """A window is closed, but can't be read yet."""
    judge: JudgeIdentity | None = None
    """What gave the verdicts, where result files say it."""
    seed: int | None = None
    """Seed that their items were drawn with."""


def judge(task: CheckTask, evidence: CheckEvidence, clock: Clock) -> CheckResult:
    """The result of one check from all of its evidence.

    The same as feeding a `CheckMonitor` window by window, which is what a caller with many looks keeps
    instead. Raises ValueError when windows are out of order.
    """
    if task.cached is not None:
        return task.cached
    match task.kind:
        case "":
            message = f"The contract gives no evidence for this check at stage {task.stage}."
            return plain(task, CheckStatus.INCONCLUSIVE, Reason.NO_EVIDENCE_FOR_STAGE, message)
        case "pods":
            return judge_pods(task, evidence.pods, clock, fault=evidence.fault)
        case "job":
            return judge_job(task, evidence.job, clock, fault=evidence.fault)
        case _:
            monitor = monitor_for(task, Bounds.of(clock))
            assert monitor is not None
            for window in evidence.windows:
                monitor.add(window)
            monitor.add_ticks(evidence.ticks)
            found = monitor.result(clock, fault=evidence.fault, window_pending=evidence.window_pending)
            return with_judge(task, found, evidence.judge, evidence.seed)


def with_judge(
    task: CheckTask, result: CheckResult, judge: JudgeIdentity | None, seed: int | None
) -> CheckResult:
    """The result, and who gave the verdicts that it rests on."""
    statistics = result.statistics
    if statistics is not None and seed is not None:
        result = result.model_copy(update={"statistics": statistics.model_copy(update={"seed": seed})})
    if judge is None or not judge.id:
        return result
    message = explain.judged_by(result.message, str(judge), calibrated=task.check.calibration is not None)
    return result.model_copy(update={"message": message})


def monitor_for(task: CheckTask, bounds: Bounds) -> Monitor | None:
    """What folds the windows of a check; None for one that rests on facts (pods, job) or has no evidence here."""
    match task.kind:
        case "" | "pods" | "job":
            return None
        case "value":
            return ValueMonitor(task, bounds)
        case _:
            return CheckMonitor(task, bounds)
