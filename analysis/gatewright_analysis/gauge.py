"""A gauge inside its limits, reading by reading (statistics.md R2, `value`)."""

import math
from typing import Final

from gatewright_analysis import explain
from gatewright_analysis.evidence.model import Clock, Fault, Tick, Window
from gatewright_analysis.evidence.windows import reads_at
from gatewright_analysis.facts import plain
from gatewright_analysis.kinds.contract import OnBreach, Require
from gatewright_analysis.kinds.evidence import ValueScope
from gatewright_analysis.monitor import Finding, Glance
from gatewright_analysis.proof import MAX_FAULTED
from gatewright_analysis.reasons import Reason
from gatewright_analysis.task import Bounds, CheckTask
from gatewright_analysis.total_failure import TotalFailureFound
from gatewright_analysis.verdict import CheckResult, CheckStatus, Statistics

_CONSECUTIVE: Final = 3


class ValueMonitor:
    """Fold closed windows with `add`; read with `result`.

    Readings are taken at windows that lie at least `spacing` apart (`reads_at`); what others say doesn't count. Breach:
    three consecutive readings outside; one that is missing starts the count again, because absence proves nothing.
    Pass, at or after `duration`: at least `minWindows` readings, the newest `minWindows` all inside, and no more than a
    fifth missing.
    """

    def __init__(self, task: CheckTask, bounds: Bounds) -> None:
        entry = task.check.evidence_at(task.stage)
        if entry is None or entry.value is None:
            raise ValueError(f"check {task.check.id} has no gauge at stage {task.stage}")
        self._task = task
        self._bounds = bounds
        self._spec = entry.value
        self._next = 0
        self._readings = 0
        self._missing = 0
        self._inside_in_a_row = 0
        self._outside_in_a_row = 0
        self._newest: float | None = None
        self._fault: Fault | None = None
        self._passed_at: int | None = None
        self.breached_at: float | None = None

    @property
    def next_index(self) -> int:
        """The window that `add` expects."""
        return self._next

    @property
    def total_failure(self) -> TotalFailureFound | None:
        """A gauge has none."""
        return None

    def add(self, window: Window) -> None:
        """The next closed window. Raises ValueError for one that was already there: evidence is append-only."""
        if window.index < self._next:
            raise ValueError(
                f"window {window.index} comes after window {self._next - 1}: evidence is append-only"
            )
        for index in range(self._next, window.index):
            if self._reads_at(index):
                self._miss(Fault(Reason.NO_DATA, f"window {index} was never read"))
        self._next = window.index + 1
        if self._reads_at(window.index):
            self._take(window)
        if window.index < self._bounds.first_pass_index or window.index > self._bounds.last_index:
            return
        if self._passed_at is None and self._inside_long_enough():
            self._passed_at = window.index

    def add_ticks(self, ticks: tuple[Tick, ...]) -> None:
        """A gauge has no total failure."""

    def result(
        self, clock: Clock, *, fault: Fault | None = None, window_pending: bool = False
    ) -> CheckResult:
        """The check as it stands; `fault` is why the newest reading failed."""
        status, reason, sentence = self._find(clock, fault)
        numbers = Statistics(
            n=self._readings,
            missing=self._missing,
            windows=self._readings,
            look=self._next,
            value=None if self._newest is None else round(self._newest, 9),
            attempts=self._task.attempts,
        )
        found = plain(self._task, status, reason, explain.clip(sentence), statistics=numbers)
        shared = self._spec.scope is ValueScope.WORKLOAD
        return found.model_copy(
            update={
                "samples": self._readings,
                "planned": self._spec.min_windows,
                "on_breach": OnBreach.HOLD if shared else self._task.on_breach,
            }
        )

    def find(self, clock: Clock, *, fault: Fault | None = None, window_pending: bool = False) -> Finding:
        """`result` in short."""
        status, reason, _ = self._find(clock, fault)
        return Finding(status, reason)

    def glance(self) -> Glance:
        """How many readings there were: a gauge has no share and no bounds."""
        return Glance(self._readings, None, None, None, None, None, None)

    def _reads_at(self, index: int) -> bool:
        return reads_at(index, self._bounds.window, self._spec.spacing.total_seconds())

    def _miss(self, fault: Fault) -> None:
        self._missing += 1
        self._inside_in_a_row = 0
        self._outside_in_a_row = 0
        self._fault = fault

    def _take(self, window: Window) -> None:
        value = window.value
        if window.fault is not None or value is None or not math.isfinite(value):
            self._miss(window.fault or Fault(Reason.NOT_A_NUMBER, "the value is no finite number"))
            return
        self._newest, self._fault = value, None
        self._readings += 1
        if self._is_inside(value):
            self._inside_in_a_row += 1
            self._outside_in_a_row = 0
            return
        self._inside_in_a_row = 0
        self._outside_in_a_row += 1
        if self._outside_in_a_row >= _CONSECUTIVE and self.breached_at is None:
            self.breached_at = self._bounds.end_of(window.index)

    def _is_inside(self, value: float) -> bool:
        low, high = self._spec.min, self._spec.max
        return (low is None or value >= low) and (high is None or value <= high)

    def _inside_long_enough(self) -> bool:
        few_missing = self._missing <= MAX_FAULTED * (self._readings + self._missing)
        return few_missing and self._inside_in_a_row >= self._spec.min_windows

    def _find(self, clock: Clock, fault: Fault | None) -> tuple[CheckStatus, Reason, str]:
        shown = self._shown()
        if self.breached_at is not None:
            return (
                CheckStatus.FAIL,
                Reason.VALUE_OUTSIDE,
                f"Outside its limits {_CONSECUTIVE} times in a row: {shown}.",
            )
        if self._passed_at is not None and clock.now >= clock.duration:
            times = self._spec.min_windows
            return CheckStatus.PASS, Reason.PASSED, f"Inside its limits {times} times in a row: {shown}."
        known = fault or self._fault
        at_end = self._next > self._bounds.last_index or clock.now >= clock.max_duration
        quiet = self._task.require is Require.NO_BREACH and self._readings > 0 and known is None
        if quiet and clock.now >= clock.duration:
            return CheckStatus.NOT_PROVEN, Reason.NOT_PROVEN, f"No breach, and not proven either: {shown}."
        if not at_end:
            tail = "" if known is None else f"; the newest reading can't be used: {known.detail.rstrip('.')}"
            return CheckStatus.PENDING, Reason.COLLECTING, f"So far {shown}{tail}."
        if known is not None or self._readings == 0:
            why = known or Fault(Reason.NO_DATA, "there was no reading")
            return (
                CheckStatus.INCONCLUSIVE,
                why.reason,
                f"The evidence can't be used: {why.detail.rstrip('.')}.",
            )
        least = self._spec.min_windows
        if self._readings < least:
            return (
                CheckStatus.BELOW_THRESHOLD,
                Reason.LOW_TRAFFIC,
                f"Too few readings, {least} are needed: {shown}.",
            )
        return (
            CheckStatus.BELOW_THRESHOLD,
            Reason.BELOW_THRESHOLD,
            f"Not inside {least} times in a row: {shown}.",
        )

    def _shown(self) -> str:
        low, high = self._spec.min, self._spec.max
        wanted = " and ".join(
            part
            for part in (
                None if low is None else f"at least {low:g}",
                None if high is None else f"at most {high:g}",
            )
            if part
        )
        newest = "no reading" if self._newest is None else f"newest value {self._newest:g}"
        return f"{newest} ({wanted}), {self._readings} readings, {self._missing} missing"
