"""The pass side of a counted or sampled check: has it proven itself (statistics.md R2, R3)?"""

from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from gatewright_analysis.evidence.model import Fault, Window
from gatewright_analysis.kinds.contract import Require
from gatewright_analysis.reasons import Reason
from gatewright_analysis.statistics.evalue import log_e_fail, log_e_pass
from gatewright_analysis.statistics.wilson import wilson_interval
from gatewright_analysis.task import SAMPLES_FLOOR, Bounds, CheckTask

MAX_MISSING: Final = 0.05
MAX_FAULTED: Final = 0.2
"""A gate may lose at most a fifth of its windows: a canary that can't be scraped while it fails must not pass
by hiding."""


class Outcome(Enum):
    """How the pass side ended."""

    PASSED_BY_E = auto()
    PASSED_BY_WILSON = auto()
    NO_BREACH = auto()
    """Only what `require: NoBreach` asks for: enough samples by `duration`. A proof may still follow."""
    FAILED = auto()
    """A sampled check, proven to be below its threshold."""
    LOOK_SPENT = auto()
    """A sampled check whose one planned look proved neither."""


@dataclass(frozen=True, slots=True)
class Ended:
    outcome: Outcome
    index: int
    """The window at which it ended."""


class Proof:
    """A fold over the closed windows of one step, attempt after attempt, up to the last one that ends by
    `maxDuration`.

    Everything here happens at a window, never at a look: the same windows give the same answer whenever they
    are asked for. A pass is taken at the first window, at or after `duration`, at which E⁺ suffices *then*,
    or at the one planned Wilson look: the first such window with the planned samples, else the last window. A
    look that failed is spent for all attempts.

    No pass is taken at a window that can't be used, after losing more than a fifth of this attempt's windows,
    with more than 5 % of the verdicts missing, or without a single sample of this attempt. Missing verdicts
    count as bad for a pass and as good for a failure. Their share is of what might be good: bad samples in
    the denominator would let one more failure cure it.
    """

    def __init__(self, task: CheckTask, bounds: Bounds) -> None:
        self._task = task
        self._bounds = bounds
        self._terms = task.terms
        self.good = 0
        self.bad = 0
        self.missing = 0
        self.samples_now = 0
        """Samples of this attempt."""
        self.windows_now = 0
        self.faulted_now = 0
        self.latest_fault: Fault | None = None
        self.fault_at_end: Fault | None = None
        """The fault of the newest window, if it has one."""
        self.ticket_used = any(prior.ticket_used for prior in task.prior)
        self.drifted = False
        """The planned look would have passed, had the last third of the samples kept the limit."""
        self.ended: Ended | None = None
        self._ends: list[int] = []
        self._bads: list[int] = []

    @property
    def n(self) -> int:
        return self.good + self.bad

    @property
    def passed(self) -> bool:
        return self.ended is not None and self.ended.outcome in (
            Outcome.PASSED_BY_E,
            Outcome.PASSED_BY_WILSON,
        )

    @property
    def missing_too_many(self) -> bool:
        return self.missing > MAX_MISSING * (self.good + self.missing)

    @property
    def faulted_too_many(self) -> bool:
        return self.faulted_now > MAX_FAULTED * self.windows_now

    def add_prior(self, window: Window) -> None:
        """A window of an earlier attempt: evidence, but no look."""
        if window.fault is None:
            self._count(window)

    def add(self, window: Window) -> None:
        """The next window of this attempt; windows after the last that counts are ignored."""
        if window.index > self._bounds.last_index:
            return
        self.windows_now += 1
        self.fault_at_end = window.fault
        if window.fault is None:
            self.samples_now += window.canary.n
            self._count(window)
        else:
            self.faulted_now += 1
            self.latest_fault = window.fault
        if window.fault is not None or self.missing_too_many or self.samples_now == 0:
            return
        if self._task.sampled:
            self._look_for_failure(window.index)
        if window.index >= self._bounds.first_pass_index and not self.faulted_too_many:
            self._look_for_pass(window.index)

    def interval(self) -> tuple[float, float]:
        """Wilson limits of the good ratio, missing verdicts counted against either side; n + missing must be
        at least 1."""
        total = self.n + self.missing
        return wilson_interval(self.good, total)[0], wilson_interval(self.good + self.missing, total)[1]

    def log_e_pass(self) -> float:
        return log_e_pass(self.good, self.bad + self.missing, self._terms.threshold)

    def log_e_fail(self) -> float:
        return log_e_fail(self.good + self.missing, self.bad, self._terms.threshold)

    def tail_bad_ratio(self) -> float | None:
        """Bad ratio over the newest windows that hold at least a third of the samples; None without
        samples."""
        if self.n == 0:
            return None
        # The newest window that starts with at most two thirds of the samples before it.
        position = bisect_right(self._ends, self.n - -(-self.n // 3))
        before, bad_before = (self._ends[position - 1], self._bads[position - 1]) if position else (0, 0)
        return (self.bad - bad_before) / (self.n - before)

    def _count(self, window: Window) -> None:
        self.good += window.canary.good
        self.bad += window.canary.bad
        self.missing += window.missing
        if window.canary.n:
            self._ends.append(self.n)
            self._bads.append(self.bad)

    def _tail_keeps_limit(self) -> bool:
        tail = self.tail_bad_ratio()
        return tail is not None and tail <= self._terms.limit

    def _look_for_failure(self, index: int) -> None:
        """A sampled check fails early by E⁻, also after an early pass; the planned look is the last word."""
        decided = self.ended is not None and self.ended.outcome not in (
            Outcome.PASSED_BY_E,
            Outcome.NO_BREACH,
        )
        if decided or self.bad <= self._terms.limit * self.n:
            return
        if self.log_e_fail() >= self._terms.log_e_pass:
            self.ended = Ended(Outcome.FAILED, index)

    def _look_for_pass(self, index: int) -> None:
        if self.ended is not None and self.ended.outcome is not Outcome.NO_BREACH:
            return
        if self.n >= self._terms.min_samples:
            tail_kept = self._task.sampled or self._tail_keeps_limit()
            # E⁺ can't suffice above the limit; asking costs more than the rest of the window.
            promising = self.bad + self.missing <= self._terms.limit * (self.n + self.missing)
            if promising and tail_kept and self.log_e_pass() >= self._terms.log_e_pass:
                self.ended = Ended(Outcome.PASSED_BY_E, index)
                return
            due = self.n >= self._terms.planned or index == self._bounds.last_index
            if due and not self.ticket_used:
                self._take_planned_look(index, tail_kept=tail_kept)
        if self.ended is None and self._task.check.require is Require.NO_BREACH and self.n >= SAMPLES_FLOOR:
            self.ended = Ended(Outcome.NO_BREACH, index)

    def _take_planned_look(self, index: int, *, tail_kept: bool) -> None:
        self.ticket_used = True
        low, high = self.interval()
        if low >= self._terms.threshold:
            if tail_kept:
                self.ended = Ended(Outcome.PASSED_BY_WILSON, index)
            self.drifted = not tail_kept
        elif self._task.sampled and high < self._terms.threshold:
            self.ended = Ended(Outcome.FAILED, index)
        elif self._task.sampled:
            self.ended = Ended(Outcome.LOOK_SPENT, index)

    def unusable(self) -> Fault | None:
        """Why this evidence could not be a pass at its end, or None when it could be used."""
        if self.missing_too_many:
            lost = f"{self.missing} of {self.n + self.missing} samples have no verdict"
            return Fault(Reason.MISSING_TOO_MANY, f"{lost}, at most 5 % may be missing")
        if self.fault_at_end is not None:
            return self.fault_at_end
        if self.faulted_too_many and self.latest_fault is not None:
            lost = f"{self.faulted_now} of {self.windows_now} windows can't be used"
            return Fault(self.latest_fault.reason, f"{lost}, the latest because {self.latest_fault.detail}")
        if self.samples_now == 0:
            return Fault(Reason.NO_DATA, "there was nothing to judge in this attempt")
        return None
