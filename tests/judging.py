"""Builders for tests of the verdict core: a contract of one check, windows, ticks, clocks."""

from collections.abc import Iterable
from typing import Any

from gatewright_analysis.evidence.model import Clock, Counts, Fault, Tick, Window
from gatewright_analysis.judge import CheckEvidence, judge
from gatewright_analysis.kinds.contract import GateContractSpec, Stage
from gatewright_analysis.monitor import CheckMonitor
from gatewright_analysis.reasons import Reason
from gatewright_analysis.task import Bounds, CheckTask, Prior
from gatewright_analysis.verdict import CheckResult

WINDOW = 30.0
DURATION = 600.0
MAX_DURATION = 1200.0
BOUNDS = Bounds(DURATION, MAX_DURATION, WINDOW)
COUNTS = {
    "counts": {"source": "prometheus", "bad": ['requests_total{code=~"5.."}'], "total": ["requests_total"]}
}
SAMPLES = {"samples": {"source": "prometheus", "passed": ['judged{ok="1"}'], "total": ["judged"]}}
OUTAGE = Fault(Reason.UNREACHABLE, "the source does not answer")


def check(id_: str = "http-success", **fields: Any) -> dict[str, Any]:
    """A deterministic counted check with a limit of 5 %, in the wire's words."""
    given = {
        "id": id_,
        "oracleKind": "Deterministic",
        "limit": {"maxBadRatio": 0.05},
        "evidence": [{"stages": ["Canary", "Bake"], **COUNTS}],
    }
    return given | fields


def sampled(id_: str = "faithfulness", **fields: Any) -> dict[str, Any]:
    """A sampled check with a threshold of 90 %."""
    given = {
        "id": id_,
        "oracleKind": "Sampled",
        "limit": {"minGoodRatio": 0.9},
        "evidence": [{"stages": ["Canary"], **SAMPLES}],
    }
    return given | fields


def pods(id_: str = "pods", **fields: Any) -> dict[str, Any]:
    """A check on the canary's pods."""
    return {
        "id": id_,
        "oracleKind": "Deterministic",
        "evidence": [{"stages": ["Canary"], "pods": fields.pop("pods", {})}],
    } | fields


def contract(*checks: dict[str, Any], **fields: Any) -> GateContractSpec:
    return GateContractSpec.model_validate({"checks": list(checks)} | fields)


def task(
    given: dict[str, Any] | None = None,
    *,
    stage: Stage = Stage.CANARY,
    e_processes: int = 10,
    has_stable: bool = True,
    prior: tuple[Prior, ...] = (),
    by_windows: bool = False,
    **fields: Any,
) -> CheckTask:
    spec = contract(given or check(), **fields)
    return CheckTask(spec.checks[0], spec, stage, e_processes, has_stable, prior, by_windows)


def at(now: float, *, duration: float = DURATION, max_duration: float = MAX_DURATION) -> Clock:
    return Clock(now=now, duration=duration, max_duration=max_duration, window=WINDOW)


def windows(
    count: int,
    canary: tuple[int, int],
    stable: tuple[int, int] | None = (0, 500),
    *,
    start: int = 0,
    missing: int = 0,
    fault: Fault | None = None,
) -> list[Window]:
    """`count` equal windows; arms are (bad, n)."""
    return [
        Window(
            index,
            Counts(canary[1] - canary[0], canary[0]),
            None if stable is None else Counts(stable[1] - stable[0], stable[0]),
            missing=missing,
            fault=fault,
        )
        for index in range(start, start + count)
    ]


def ticks(
    first: float,
    last: float,
    canary: tuple[int, int],
    stable: tuple[int, int] | None = (0, 100),
    step: float = 5,
) -> list[Tick]:
    """Equal ticks that end at `first`, `first` + `step`, … `last`; arms are (bad, n)."""
    ends = [first + step * i for i in range(round((last - first) / step) + 1)]
    beside = None if stable is None else Counts(stable[1] - stable[0], stable[0])
    return [Tick(end, Counts(canary[1] - canary[0], canary[0]), beside) for end in ends]


def judged(
    asked: CheckTask,
    given: Iterable[Window] = (),
    clock: Clock | None = None,
    *,
    ticks: Iterable[Tick] = (),
    fault: Fault | None = None,
    window_pending: bool = False,
) -> CheckResult:
    """The result when all of `given` is in; the clock defaults to the end of the newest window."""
    closed = list(given)
    now = BOUNDS.end_of(closed[-1].index) if closed else 0.0
    evidence = CheckEvidence(tuple(closed), tuple(ticks), fault=fault, window_pending=window_pending)
    return judge(asked, evidence, clock or at(now))


def monitored(asked: CheckTask, given: Iterable[Window], bounds: Bounds = BOUNDS) -> CheckMonitor:
    monitor = CheckMonitor(asked, bounds)
    for window in given:
        monitor.add(window)
    return monitor
