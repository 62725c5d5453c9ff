"""The pass side of a counted or sampled check: has it proven itself (statistics.md R2, R3)?"""

from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from gatewright_analysis.evidence.model import Counts, Fault, Window
from gatewright_analysis.kinds.contract import Require
from gatewright_analysis.reasons import Reason
from gatewright_analysis.sample import Scores, sample_of
from gatewright_analysis.schedule import Schedule
from gatewright_analysis.task import SAMPLES_FLOOR, Bounds, CheckTask

MAX_MISSING: Final = 0.05
MAX_FAULTED: Final = 0.2
"""A gate may lose at most a fifth of its windows: a canary that can't be scraped while it fails must not pass
by hiding."""


class Outcome(Enum):
    """How the pass side ended."""

    PASSED_BY_E = auto()
    PASSED_BY_WILSON = auto()
    PASSED_BY_SCHEDULE = auto()
    """At a look of the contract's own schedule (`spending`)."""
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
    look that failed is spent for all attempts. With `spending` looks are taken on its schedule alone.

    No pass is taken at a window that can't be used, after losing more than a fifth of this attempt's windows,
    with more than 5 % of the verdicts missing, or without a single sample of this attempt. Missing verdicts
    count as bad for a pass and as good for a failure. Their share is of what might be good: bad samples in
    the denominator would let one more failure cure it.
    """

    def __init__(self, task: CheckTask, bounds: Bounds) -> None:
        self._task = task
        self._bounds = bounds
        self._terms = task.terms
        self.sample = sample_of(task.kind, task.terms)
        self._schedule = None if task.check.spending is None else Schedule(task.check.spending, task.terms)
        self._step = Counts(0, 0)
        """What this step alone saw, over all its attempts."""
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
        return self.sample.n

    @property
    def passed(self) -> bool:
        return self.ended is not None and self.ended.outcome in (
            Outcome.PASSED_BY_E,
            Outcome.PASSED_BY_WILSON,
            Outcome.PASSED_BY_SCHEDULE,
        )

    @property
    def missing_too_many(self) -> bool:
        missing = self.sample.missing
        good = self.sample.total if isinstance(self.sample, Scores) else self.sample.good
        return missing > MAX_MISSING * (good + missing)

    @property
    def faulted_too_many(self) -> bool:
        return self.faulted_now > MAX_FAULTED * self.windows_now

    def add_earlier(self, window: Window) -> None:
        """A window of an earlier step of this rollout: evidence for a pooled check, and no look."""
        if window.fault is None:
            self._count(window)

    def add_prior(self, window: Window) -> None:
        """A window of an earlier attempt: evidence, but no look."""
        if window.fault is None:
            self._step += window.canary
            self._count(window)

    def add(self, window: Window) -> None:
        """The next window of this attempt; windows after the last that counts are ignored."""
        if window.index > self._bounds.last_index:
            return
        self.windows_now += 1
        self.fault_at_end = window.fault
        if window.fault is None:
            self.samples_now += window.canary.n + len(window.scores)
            self._step += window.canary
            self._count(window)
        else:
            self.faulted_now += 1
            self.latest_fault = window.fault
        unusable = window.fault is not None or self.missing_too_many or self.samples_now == 0
        if unusable or self.sample.fault() is not None:
            return
        if self._task.sampled:
            self._look_for_failure(window.index)
        if window.index >= self._bounds.first_pass_index and not self.faulted_too_many:
            self._look_for_pass(window.index)

    def tail_bad_ratio(self) -> float | None:
        """Bad ratio over the newest windows that hold at least a third of the samples; None without
        samples."""
        if self.n == 0 or not self._ends:
            return None
        # The newest window that starts with at most two thirds of the samples before it.
        position = bisect_right(self._ends, self.n - -(-self.n // 3))
        before, bad_before = (self._ends[position - 1], self._bads[position - 1]) if position else (0, 0)
        return (self.sample.bad - bad_before) / (self.n - before)

    def step_bad_ratio(self) -> float | None:
        """Of this step alone; None without an event."""
        return self._step.bad / self._step.n if self._step.n else None

    def _count(self, window: Window) -> None:
        self.sample.add(window)
        if window.canary.n:
            self._ends.append(self.n)
            self._bads.append(self.sample.bad)

    def _keeps_limit_now(self) -> bool:
        """The rule of every pass of events: the last third keeps the limit, and of a pooled check this step does."""
        if self._task.sampled:
            return True
        if self._task.pooled and self._step.bad > self._terms.limit * self._step.n:
            return False
        tail = self.tail_bad_ratio()
        return tail is not None and tail <= self._terms.limit

    def _look_for_failure(self, index: int) -> None:
        """A sampled check fails early by E⁻, also after an early pass; the planned look is the last word."""
        decided = self.ended is not None and self.ended.outcome not in (
            Outcome.PASSED_BY_E,
            Outcome.NO_BREACH,
        )
        if decided or not self.sample.bad_share_is_high:
            return
        if self.sample.log_e_fail() >= self._terms.log_e_pass:
            self.ended = Ended(Outcome.FAILED, index)

    def _look_for_pass(self, index: int) -> None:
        if self.ended is not None and self.ended.outcome is not Outcome.NO_BREACH:
            return
        waits = self._task.pooled and not self._task.last_gate
        if self.n >= self._terms.min_samples and not waits:
            kept = self._keeps_limit_now()
            if self._schedule is not None:
                self._look_by_schedule(index, self._schedule, kept=kept)
            else:
                self._look_at_once(index, kept=kept)
        if self.ended is None and self._task.require is Require.NO_BREACH and self.n >= SAMPLES_FLOOR:
            self.ended = Ended(Outcome.NO_BREACH, index)

    def _look_at_once(self, index: int, *, kept: bool) -> None:
        # E⁺ can't suffice above the limit; asking costs more than the rest of the window.
        promising = kept and self.sample.bad_share_is_low
        if promising and self.sample.log_e_pass() >= self._terms.log_e_pass and self._bound_agrees():
            self.ended = Ended(Outcome.PASSED_BY_E, index)
            return
        due = self.n >= self._terms.planned or index == self._bounds.last_index
        if due and not self.ticket_used:
            self._take_planned_look(index, kept=kept)

    def _bound_agrees(self) -> bool:
        """The promise is always "lower bound at or above the threshold"; E⁺ alone errs there in a few cases of other
        confidences than 0.95, and with clusters."""
        return not self.sample.takes_planned_look or self.sample.interval()[0] >= self._terms.threshold

    def _take_planned_look(self, index: int, *, kept: bool) -> None:
        self.ticket_used = True
        if not self.sample.takes_planned_look:
            self.ended = Ended(Outcome.LOOK_SPENT, index)
            return
        low, high = self.sample.interval()
        if low >= self._terms.threshold:
            if kept:
                self.ended = Ended(Outcome.PASSED_BY_WILSON, index)
            self.drifted = not kept
        elif self._task.sampled and high < self._terms.threshold:
            self.ended = Ended(Outcome.FAILED, index)
        elif self._task.sampled:
            self.ended = Ended(Outcome.LOOK_SPENT, index)

    def _look_by_schedule(self, index: int, schedule: Schedule, *, kept: bool) -> None:
        if self.ticket_used:
            return
        last = index == self._bounds.last_index
        if not schedule.due(self.n, last=last):
            return
        passed = schedule.look(self.sample.good, self.n + self.sample.missing, last=last)
        self.ticket_used = schedule.over
        if passed and kept:
            self.ended = Ended(Outcome.PASSED_BY_SCHEDULE, index)
        elif schedule.over and self._task.sampled:
            self.ended = Ended(Outcome.LOOK_SPENT, index)
        self.drifted = passed and not kept

    def unusable(self) -> Fault | None:
        """Why this evidence could not be a pass at its end, or None when it could be used."""
        if self.missing_too_many:
            missing = self.sample.missing
            lost = f"{missing} of {self.n + missing} samples have no verdict"
            return Fault(Reason.MISSING_TOO_MANY, f"{lost}, at most 5 % may be missing")
        if self.fault_at_end is not None:
            return self.fault_at_end
        if self.faulted_too_many and self.latest_fault is not None:
            lost = f"{self.faulted_now} of {self.windows_now} windows can't be used"
            return Fault(self.latest_fault.reason, f"{lost}, the latest because {self.latest_fault.detail}")
        if self.samples_now == 0:
            return Fault(Reason.NO_DATA, "there was nothing to judge in this attempt")
        return self.sample.fault()
