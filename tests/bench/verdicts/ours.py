"""Our verdict on simulated traffic, by the code that the operator runs: task, monitor, decide."""

from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from gatewright_analysis.decide import decide
from gatewright_analysis.evidence.model import Clock, Counts, Fault, Tick, Window
from gatewright_analysis.kinds.contract import GateContractSpec, Stage
from gatewright_analysis.monitor import CheckMonitor
from gatewright_analysis.reasons import Reason
from gatewright_analysis.task import Bounds, CheckTask
from gatewright_analysis.total_failure import find_total_failure
from gatewright_analysis.verdict import CheckStatus, Decision
from tests.bench.verdicts.rules import Answers, Call
from tests.bench.verdicts.traffic import (
    BEFORE,
    DURATION,
    LIMIT,
    MAX_DURATION,
    SCRAPE,
    STARTS,
    WINDOW,
    Ints,
    Traffic,
)

CHECK = "http-success"
E_PROCESSES = 10
"""m as statistics.md reckons with it; four gates and a bake have 9."""
BOUNDS = Bounds(DURATION, MAX_DURATION, WINDOW)
LOST = Fault(Reason.UNREACHABLE, "the source does not answer")
_CALLS = {Decision.PROMOTE: Call.PROMOTE, Decision.HOLD: Call.HOLD, Decision.ROLLBACK: Call.ROLLBACK}


def contract(
    limit: float = LIMIT, *, versus_stable: bool = True, for_seconds: float = 15
) -> GateContractSpec:
    """One counted check with the product's defaults."""
    check = {
        "id": CHECK,
        "oracleKind": "Deterministic",
        "limit": {"maxBadRatio": limit},
        "evidence": [
            {
                "stages": ["Canary", "Bake"],
                "counts": {
                    "source": "prometheus",
                    "bad": ['requests_total{code=~"5.."}'],
                    "total": ["requests_total"],
                },
            }
        ],
    }
    if versus_stable:
        check["versusStable"] = {}
    total = {"for": timedelta(seconds=for_seconds)}
    return GateContractSpec.model_validate({"checks": [check], "totalFailure": total})


def task(spec: GateContractSpec, *, has_stable: bool = True, by_windows: bool = False) -> CheckTask:
    return CheckTask(spec.checks[0], spec, Stage.CANARY, E_PROCESSES, has_stable, (), by_windows)


@dataclass(frozen=True, slots=True)
class OurAnswers(Answers):
    """With the reason of each decision."""

    reasons: tuple[Reason, ...]


def judge(traffic: Traffic, asked: CheckTask | None = None, *, scrape: int = SCRAPE) -> OurAnswers:
    """Each run judged look by look, as a gate is: a look at each closed window, with the scrapes up to it.

    `scrape` is the source's interval in seconds, a divisor of the window and a multiple of the traffic's.
    """
    asked = asked or task(contract(for_seconds=3 * scrape))
    answers = [_judge_one(traffic, run, asked, scrape) for run in range(traffic.runs)]
    return OurAnswers(
        np.array([call for call, _, _ in answers]),
        np.array([at for _, at, _ in answers], dtype=np.float64),
        tuple(reason for _, _, reason in answers),
    )


def _judge_one(traffic: Traffic, run: int, asked: CheckTask, scrape: int) -> tuple[Call, float, Reason]:
    monitor = CheckMonitor(asked, BOUNDS)
    ticks = ticks_of(traffic, run, scrape // SCRAPE)
    before, per_window = BEFORE // scrape, WINDOW // scrape
    # The rule looks back `for` and one window; what an earlier call saw need not come again.
    needed = int(asked.contract.total_failure.for_.total_seconds() + WINDOW) // scrape
    lost = traffic.lost[run].tolist()
    held: tuple[Call, float, Reason] | None = None
    for index in range(MAX_DURATION // WINDOW):
        now = (index + 1) * WINDOW
        first = before + index * per_window
        here = ticks[first : first + per_window]
        if lost[index]:
            monitor.add(Window(index, Counts(0, 0), Counts(0, 0), fault=LOST))
        else:
            canary = sum((tick.canary for tick in here), Counts(0, 0))
            stable = sum((tick.stable for tick in here if tick.stable), Counts(0, 0))
            monitor.add(Window(index, canary, stable))
            monitor.add_ticks(ticks[max(0, first - needed) : first + per_window])
        clock = Clock(now=now, duration=DURATION, max_duration=MAX_DURATION, window=WINDOW)
        finding = monitor.find(clock)
        if now < MAX_DURATION and (
            finding.status is CheckStatus.PENDING or (held is not None and finding.reason is held[2])
        ):
            continue
        outcome = decide([monitor.result(clock)], asked.contract, clock, expected=[CHECK])
        if outcome.decision is None or (held is not None and outcome.decision is not Decision.ROLLBACK):
            continue
        sooner = _total_failure_at(ticks, asked) if outcome.reason is Reason.TOTAL_FAILURE else now
        found = _CALLS[outcome.decision], float(min(sooner, now)), outcome.reason
        if outcome.decision is not Decision.HOLD:
            return found
        # Who holds goes on watching: a breach that is proven later still rolls back.
        held = found
    if held is None:
        raise AssertionError("a gate ends at maxDuration")
    return held


def ticks_of(traffic: Traffic, run: int, joined: int = 1) -> tuple[Tick, ...]:
    """The run's scrapes, `joined` of the traffic's in each."""

    def summed(counts: Ints) -> list[int]:
        return list(counts[run].reshape(-1, joined).sum(axis=1).tolist())

    rows = zip(
        STARTS[::joined].tolist(),
        summed(traffic.canary_n),
        summed(traffic.canary_bad),
        summed(traffic.stable_n),
        summed(traffic.stable_bad),
        strict=True,
    )
    return tuple(
        Tick(start + SCRAPE * joined, Counts(n - bad, bad), Counts(beside - other, other))
        for start, n, bad, beside, other in rows
    )


def _total_failure_at(ticks: tuple[Tick, ...], asked: CheckTask) -> float:
    """The second at which the rule first held; an operator that looks each 10 s sees it before the window closes."""
    rule = asked.contract.total_failure
    found = find_total_failure(
        ticks,
        bad_ratio=max(rule.bad_ratio, asked.terms.limit),
        for_seconds=rule.for_.total_seconds(),
        window_seconds=WINDOW,
        has_stable=asked.has_stable,
    )
    return float(MAX_DURATION) if found is None else found.at
