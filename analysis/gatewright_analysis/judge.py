"""Judge one check: evidence in, result out. Pure; the operator, the backtest and the tests all come through
here."""

from dataclasses import dataclass

from gatewright_analysis.evidence.model import Clock, Fault, PodFacts, Tick, Window
from gatewright_analysis.kinds.contract import OracleKind, Require
from gatewright_analysis.monitor import CheckMonitor
from gatewright_analysis.reasons import Reason
from gatewright_analysis.task import Bounds, CheckTask
from gatewright_analysis.verdict import CheckResult, CheckStatus, Statistics

_RESTARTS_ABOVE = 2


@dataclass(frozen=True, slots=True)
class CheckEvidence:
    """Everything that was collected for one check at one gate so far."""

    windows: tuple[Window, ...] = ()
    ticks: tuple[Tick, ...] = ()
    pods: PodFacts | None = None
    fault: Fault | None = None
    """Why the newest reading failed, if it did."""
    window_pending: bool = False
    """A window is closed, but can't be read yet."""


def judge(task: CheckTask, evidence: CheckEvidence, clock: Clock) -> CheckResult:
    """The result of one check from all of its evidence.

    The same as feeding a `CheckMonitor` window by window, which is what a caller with many looks keeps
    instead. Raises ValueError when windows are out of order.
    """
    match task.kind:
        case "":
            message = f"The contract gives no evidence for this check at stage {task.stage}."
            return _plain(task, CheckStatus.INCONCLUSIVE, Reason.NO_EVIDENCE_FOR_STAGE, message)
        case "pods":
            return judge_pods(task, evidence.pods, clock, fault=evidence.fault)
        case _:
            monitor = CheckMonitor(task, Bounds.of(clock))
            for window in evidence.windows:
                monitor.add(window)
            monitor.add_ticks(evidence.ticks)
            return monitor.result(clock, fault=evidence.fault, window_pending=evidence.window_pending)


def judge_pods(
    task: CheckTask, facts: PodFacts | None, clock: Clock, *, fault: Fault | None = None
) -> CheckResult:
    """A check on the canary's own pods (statistics.md R2, pods).

    Breach: containers that exit non-zero again and again, or two restarts more than `maxRestarts`; one more
    is no breach, and no pass. Trouble of the infrastructure is never the version's. Pass: ready throughout,
    when `duration` is over.
    """
    entry = task.check.evidence_at(task.stage)
    if entry is None or entry.pods is None:
        raise ValueError(f"check {task.check.id} does not judge pods at stage {task.stage}")
    allowed = entry.pods.max_restarts
    at_end = clock.now >= clock.max_duration
    if facts is None or fault is not None:
        known = fault or Fault(Reason.NO_DATA, "the canary's pods were not read")
        status = CheckStatus.INCONCLUSIVE if at_end else CheckStatus.PENDING
        return _plain(task, status, known.reason, f"The pods can't be judged: {known.detail.rstrip('.')}.")
    shown = f"{facts.ready} of {facts.expected} pods ready, {facts.restarts} restarts ({allowed} allowed)"
    if facts.failing:
        names = ", ".join(facts.failing[:3]) + (", …" if len(facts.failing) > 3 else "")
        message = f"Containers exit again and again: {names}; {shown}."
        return _plain(task, CheckStatus.FAIL, Reason.POD_FAILURE, message, facts)
    if facts.restarts >= allowed + _RESTARTS_ABOVE:
        return _plain(task, CheckStatus.FAIL, Reason.POD_FAILURE, f"Containers restart: {shown}.", facts)
    if facts.infrastructure is not None:
        status = CheckStatus.INCONCLUSIVE if at_end else CheckStatus.PENDING
        message = f"The cluster can't run the pods, which says nothing of the version: {shown}; "
        message += f"{facts.infrastructure.detail.rstrip('.')}."
        return _plain(task, status, facts.infrastructure.reason, message, facts)
    ready = facts.expected > 0 and facts.ready >= facts.expected
    if ready and facts.ready_throughout and facts.restarts <= allowed and clock.now >= clock.duration:
        return _plain(task, CheckStatus.PASS, Reason.PASSED, f"Ready throughout: {shown}.", facts)
    if task.check.require is Require.NO_BREACH and ready and clock.now >= clock.duration:
        return _plain(task, CheckStatus.NOT_PROVEN, Reason.NOT_PROVEN, f"No breach: {shown}.", facts)
    if at_end:
        message = f"Not ready throughout, and nothing that proves the version at fault: {shown}."
        return _plain(task, CheckStatus.BELOW_THRESHOLD, Reason.PODS_NOT_READY, message, facts)
    return _plain(task, CheckStatus.PENDING, Reason.COLLECTING, f"So far {shown}.", facts)


def _plain(
    task: CheckTask, status: CheckStatus, reason: Reason, message: str, facts: PodFacts | None = None
) -> CheckResult:
    """A result that rests on no counts."""
    failed = status is CheckStatus.FAIL
    statistics = None
    if facts is not None:
        statistics = Statistics(restarts=facts.restarts, ready=facts.ready, attempts=task.attempts)
    return CheckResult(
        id=task.check.id,
        oracle_kind=task.check.oracle_kind,
        require=task.check.require,
        status=status,
        breach=failed and task.check.oracle_kind is OracleKind.DETERMINISTIC,
        on_breach=task.on_breach,
        reason=reason,
        message=message[:1024],
        fix_hint=task.check.fix_hint,
        statistics=statistics,
    )
