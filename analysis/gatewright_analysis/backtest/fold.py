"""Recorded evidence to a verdict: the looks of an operator that was there, one after the other.

Every distinct t is a look. What is judged and decided, and how, is the operator's own: `monitor_for` and `decide`. A
verdict can change only where a check's finding changes or the clock passes a bound, so only there it is asked for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from typing import Any, Final, NamedTuple

from gatewright_analysis.backtest.lines import Recording
from gatewright_analysis.decide import Outcome, decide
from gatewright_analysis.evidence.model import Clock
from gatewright_analysis.explain import clip
from gatewright_analysis.facts import plain
from gatewright_analysis.feasibility import checks_of
from gatewright_analysis.judge import Monitor, monitor_for
from gatewright_analysis.kinds.contract import GateContractSpec, Stage, Tier
from gatewright_analysis.monitor import GRACE_WINDOWS, Finding
from gatewright_analysis.reasons import Reason
from gatewright_analysis.task import CheckTask, count_e_processes
from gatewright_analysis.verdict import CheckResult, CheckStatus, Decision

_USUAL_WINDOW: Final = 30.0
"""Seconds; where nothing was recorded."""
_FLOOR: Final = 999.0


class NothingToJudge(ValueError):
    """No check is left to judge; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The one gate at which the evidence is judged; lengths in seconds."""

    stage: Stage = Stage.CANARY
    duration: float | None = None
    """No pass before it; the last t when None."""
    max_duration: float | None = None
    """The deadline; `duration`, or the last t if that is later, when None."""
    warmup: float = 0.0
    """Windows that begin before it don't count, and the gate's clock starts at it."""
    checks: tuple[str, ...] = ()
    """Ids of the checks that judge; all that have evidence at the stage when empty."""
    tier: Tier | None = None
    """Only checks of this tier."""


class Look(NamedTuple):
    """One check at one look. `t` is as recorded; ratios are good / n, e-values natural logarithms."""

    t: float
    check: str
    n: int
    score: float | None
    ci_lower: float | None
    ci_upper: float | None
    threshold: float | None
    log_e_pass: float | None
    log_e_fail: float | None
    status: CheckStatus
    value: float | None = None
    """The reading of a gauge at this look."""

    def wire(self) -> dict[str, Any]:
        """camelCase, six decimals; numbers that JSON doesn't know are null."""
        return {
            "t": self.t,
            "check": self.check,
            "n": self.n,
            "score": _rounded(self.score),
            "ciLower": _rounded(self.ci_lower),
            "ciUpper": _rounded(self.ci_upper),
            "threshold": _rounded(self.threshold),
            "logEPass": _rounded(self.log_e_pass),
            "logEFail": _rounded(self.log_e_fail),
            "status": self.status.value,
        } | ({} if self.value is None else {"value": self.value})


@dataclass(frozen=True, slots=True)
class Ended:
    """What came out of it, and when."""

    decision: Decision
    at_seconds: float
    """As `t` is recorded."""
    reason: Reason
    message: str
    blocking: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Backtest:
    """The verdict, the checks as they stood then, and all looks."""

    ended: Ended
    checks: tuple[CheckResult, ...]
    breach: Ended | None
    """The ROLLBACK of a breach that was proven after a HOLD."""
    looks: tuple[Look, ...]
    left_out: tuple[str, ...]
    """Checks with evidence at the stage that were told not to judge."""

    def wire(self) -> dict[str, Any]:
        """As `gatewright backtest -o json` prints it."""
        later = self.breach
        return {
            "decision": self.ended.decision.value,
            "decidedAtSeconds": self.ended.at_seconds,
            "reason": self.ended.reason.value,
            "message": self.ended.message,
            "blocking": list(self.ended.blocking),
            "checks": [check.wire() for check in self.checks],
            "leftOut": list(self.left_out),
            "breach": None
            if later is None
            else {
                "decision": later.decision.value,
                "decidedAtSeconds": later.at_seconds,
                "reason": later.reason.value,
                "message": later.message,
            },
            "looks": [look.wire() for look in self.looks],
        }


def backtest(
    contract: GateContractSpec,
    recordings: Mapping[str, Recording],
    settings: Settings,
    *,
    keep_looks: bool = True,
) -> Backtest:
    """Judges `recordings` (by check id) at one gate. Never a PROMOTE where a check that has to pass has no evidence.

    `keep_looks` False leaves out the numbers of the single looks, which cost most. Raises NothingToJudge when the
    settings leave no check, and KeyError for a check that the contract doesn't have.
    """
    fold = _Fold(contract, recordings, settings, keep_looks=keep_looks)
    fold.run()
    return fold.result()


class _Fold:
    def __init__(
        self,
        contract: GateContractSpec,
        recordings: Mapping[str, Recording],
        settings: Settings,
        *,
        keep_looks: bool,
    ) -> None:
        known = {check.id for check in contract.checks}
        for name in settings.checks:
            if name not in known:
                raise KeyError(name)
        here = checks_of(contract, settings.stage)
        judging = [
            check
            for check in here
            if (not settings.checks or check.id in settings.checks)
            and (settings.tier is None or check.cost is settings.tier)
        ]
        if not judging:
            raise NothingToJudge(
                f"No check is left to judge at the stage {settings.stage}: it needs one with evidence there that "
                "neither --checks nor --tier leaves out."
            )
        self._contract = contract
        self._stage = settings.stage
        self._warmup = settings.warmup
        self._keep_looks = keep_looks
        self._ids = tuple(check.id for check in judging)
        self.left_out = tuple(check.id for check in here if check not in judging)
        self._recordings = {
            name: recordings[name].after(settings.warmup) for name in self._ids if name in recordings
        }
        last = max((r.ends[-1] for r in self._recordings.values() if r.ends), default=0.0)
        self._duration = last if settings.duration is None else settings.duration
        self._max_duration = (
            max(self._duration, last) if settings.max_duration is None else settings.max_duration
        )
        self._recordings = {
            name: recording.until(self._duration, self._max_duration)
            for name, recording in self._recordings.items()
        }
        self._window = max((r.usual_window for r in self._recordings.values()), default=_USUAL_WINDOW)
        self._tasks = self._make_tasks()
        self._monitors: dict[str, Monitor] = {}
        for name, recording in self._recordings.items():
            monitor = monitor_for(self._tasks[name], recording.bounds(self._duration, self._max_duration))
            if monitor is not None and recording.windows:
                self._monitors[name] = monitor
        self._findings: dict[str, Finding] = {}
        self._bounds_passed = (False, False, False)
        self._looks: list[Look] = []
        self._ended: Ended | None = None
        self._breach: Ended | None = None
        self._checks: tuple[CheckResult, ...] = ()

    def _make_tasks(self) -> dict[str, CheckTask]:
        with_stable = any(recording.has_stable for recording in self._recordings.values())
        m = count_e_processes(self._contract, [(self._stage, self._ids)], has_stable=with_stable)
        checks = {check.id: check for check in self._contract.checks}
        return {
            name: CheckTask(
                check=checks[name],
                contract=self._contract,
                stage=self._stage,
                e_processes=m,
                has_stable=name in self._recordings and self._recordings[name].has_stable,
                by_windows=True,
            )
            for name in self._ids
        }

    def run(self) -> None:
        for end, found in groupby(self._windows(), key=lambda item: item[0]):
            clock = self._clock(end)
            changed = self._pass_bounds(clock)
            for _, name, index in found:
                changed |= self._take(name, index, clock)
            if changed:
                self._decide(clock)
            if self._ended is not None and not self._goes_on():
                return
        if self._ended is None:
            # Whatever did not come until now is missing.
            self._decide(
                self._clock(self._max_duration + GRACE_WINDOWS * self._window), at=self._max_duration
            )

    def result(self) -> Backtest:
        assert self._ended is not None, "decide gives a verdict after the deadline"
        return Backtest(self._ended, self._checks, self._breach, tuple(self._looks), self.left_out)

    def _windows(self) -> Iterator[tuple[float, str, int]]:
        """(end, check, index) of all windows, in order of time."""
        return merge(
            *(
                [(end, name, index) for index, end in enumerate(self._recordings[name].ends)]
                for name in self._monitors
            )
        )

    def _take(self, name: str, index: int, clock: Clock) -> bool:
        """Whether the check stands differently after this window."""
        monitor, window = self._monitors[name], self._recordings[name].windows[index]
        monitor.add(window)
        finding = monitor.find(clock)
        changed = finding != self._findings.get(name)
        self._findings[name] = finding
        if self._keep_looks:
            own = monitor.glance()
            self._looks.append(
                Look(
                    clock.now + self._warmup,
                    name,
                    own.n,
                    own.score,
                    own.ci_lower,
                    own.ci_upper,
                    own.threshold,
                    own.log_e_pass,
                    own.log_e_fail,
                    finding.status,
                    window.value,
                )
            )
        return changed

    def _pass_bounds(self, clock: Clock) -> bool:
        passed = (
            clock.now >= clock.duration,
            clock.now >= clock.max_duration,
            clock.now >= clock.max_duration + GRACE_WINDOWS * clock.window,
        )
        changed, self._bounds_passed = passed != self._bounds_passed, passed
        return changed

    def _decide(self, clock: Clock, *, at: float | None = None) -> None:
        results = tuple(self._result(name, clock) for name in self._ids)
        outcome = decide(results, self._contract, clock, expected=self._ids, stage=self._stage)
        if outcome.decision is None:
            return
        ended = Ended(
            outcome.decision,
            (clock.now if at is None else at) + self._warmup,
            outcome.reason,
            self._message(outcome),
            outcome.blocking,
        )
        if self._ended is None:
            self._ended, self._checks = ended, results
        elif self._ended.decision is Decision.HOLD and outcome.decision is Decision.ROLLBACK:
            self._breach = self._breach or ended

    def _result(self, name: str, clock: Clock) -> CheckResult:
        task, monitor = self._tasks[name], self._monitors.get(name)
        if monitor is not None:
            return monitor.result(clock)
        if task.kind in ("pods", "job"):
            sentence = f"It rests on {task.kind}, of which nothing is recorded: leave it out with --checks, or it holds."
        else:
            sentence = "The evidence holds nothing of this check."
        return plain(task, CheckStatus.PENDING, Reason.NO_DATA, sentence)

    def _message(self, outcome: Outcome) -> str:
        if not self.left_out:
            return outcome.message
        return clip(f"{outcome.message} Not judged, as asked: {', '.join(self.left_out)}.")

    def _goes_on(self) -> bool:
        """A HOLD goes on listening for a breach; and a plot shows all that was recorded."""
        assert self._ended is not None
        return self._keep_looks or self._ended.decision is Decision.HOLD

    def _clock(self, now: float) -> Clock:
        return Clock(now, self._duration, self._max_duration, self._window)


def _rounded(value: float | None) -> float | None:
    """JSON knows no infinity, and nobody needs e^-999."""
    return None if value is None else round(min(max(value, -_FLOOR), _FLOOR), 6)
