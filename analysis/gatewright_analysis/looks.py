"""The looks that led to a verdict, given again from its stored evidence: what a plot shows. Pure.

A look is a closed window; its numbers are those of the monitor that the operator uses (statistics.md, R1 to R6).
"""

from gatewright_analysis.backtest.fold import Look
from gatewright_analysis.evidence.model import Clock
from gatewright_analysis.evidence.record import RunRecord
from gatewright_analysis.judge import monitor_for
from gatewright_analysis.kinds.contract import GateContractSpec
from gatewright_analysis.replay import Evidence, Unreplayable, task_again
from gatewright_analysis.task import Bounds


def looks_again(
    record: RunRecord, contract: GateContractSpec, check_id: str, evidence: Evidence
) -> tuple[Look, ...]:
    """One check's looks, oldest first; `t` is seconds after t0 of the gate.

    None for a check that counts nothing (pods, a Job), or whose result was taken over from another run. Raises
    Unreplayable where the evidence doesn't hold the check, doesn't fit the contract, or rests on evidence that is gone.
    """
    try:
        task = task_again(record, contract, check_id, evidence)
        own, clock = record.checks[check_id], record.clock
        monitor = None if task.cached is not None else monitor_for(task, Bounds.of(clock))
        if monitor is None:
            return ()
        found = []
        for window in own.windows:
            monitor.add(window)
            at = Clock((window.index + 1) * clock.window, clock.duration, clock.max_duration, clock.window)
            seen = monitor.glance()
            found.append(
                Look(
                    at.now,
                    check_id,
                    seen.n,
                    seen.score,
                    seen.ci_lower,
                    seen.ci_upper,
                    seen.threshold,
                    seen.log_e_pass,
                    seen.log_e_fail,
                    monitor.find(at).status,
                    window.value,
                )
            )
        return tuple(found)
    except (KeyError, ValueError) as error:
        raise Unreplayable(f"the evidence of {check_id} does not fit the contract: {error}") from error
