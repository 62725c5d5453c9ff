"""The breach side of a deterministic check: may what the canary did send it back (statistics.md R2, R3)?"""

from dataclasses import dataclass

from gatewright_analysis.evidence.model import Counts, Tick, Window
from gatewright_analysis.reasons import Reason
from gatewright_analysis.statistics.dispersion import Dispersion
from gatewright_analysis.statistics.evalue import log_e_fail
from gatewright_analysis.statistics.two_arm import TwoArm
from gatewright_analysis.task import Bounds, CheckTask, Terms
from gatewright_analysis.total_failure import (
    TotalFailureFound,
    find_total_failure,
    find_total_failure_by_windows,
)

_BAD_WINDOWS = 2
_RANK = {Reason.TOTAL_FAILURE: 0, Reason.BREACH_TWO_ARM: 1, Reason.BREACH_ABSOLUTE: 2}


@dataclass(frozen=True, slots=True)
class Breach:
    """Proven: by which route, and at which second after t0 the evidence sufficed."""

    at: float
    reason: Reason


class AbsoluteRoute:
    """E⁻ against the absolute limit, deflated by the larger φ of both arms."""

    def __init__(self, terms: Terms, *, has_stable: bool) -> None:
        self._terms = terms
        self._has_stable = has_stable
        self._dispersion = (Dispersion(), Dispersion())
        self.canary = Counts(0, 0)
        self.stable = Counts(0, 0)
        self.windows = 0

    def add(self, canary: Counts, stable: Counts | None) -> None:
        self.canary += canary
        self._dispersion[0].add(canary.bad, canary.n)
        if stable is not None:
            self.stable += stable
            self._dispersion[1].add(stable.bad, stable.n)
        self.windows += canary.n > 0

    @property
    def phi(self) -> float:
        """The larger of both arms' φ."""
        return max(self._dispersion[0].phi, self._dispersion[1].phi if self._has_stable else 1.0)

    def log_e(self) -> float:
        phi = self.phi
        return log_e_fail(self.canary.good / phi, self.canary.bad / phi, self._terms.threshold)

    def broken(self) -> bool:
        above = self.canary.bad > self._terms.limit * self.canary.n
        return above and self.log_e() >= self._terms.log_e_breach

    def stable_keeps_limit(self) -> bool:
        """Stable without a request excludes no shared cause."""
        if not self._has_stable:
            return True
        return self.stable.n > 0 and self.stable.bad <= self._terms.limit * self.stable.n


class BreachMonitor:
    """A fold over the closed windows of one step, attempt after attempt; it goes on after a pass and after a
    HOLD.

    Two routes: E⁻ of the absolute limit, and the comparison with stable where the contract says
    `versusStable`; of a pooled check one more E⁻ runs over the whole rollout. Each needs `ln(100·m)` and two bad windows *of this attempt*: what an earlier attempt
    showed counts as evidence, but a canary that is clean now is not sent back for it alone. The absolute
    route convicts only while stable keeps the limit itself over the same windows; otherwise it is a shared
    outage, which only holds. What was proven once stays proven.
    """

    def __init__(self, task: CheckTask, bounds: Bounds) -> None:
        self._task = task
        self._bounds = bounds
        self._terms = task.terms
        versus = task.check.versus_stable
        self._two_arm = TwoArm(versus.max_ratio) if versus is not None and task.has_stable else None
        self._max_ratio = 0.0 if versus is None else versus.max_ratio
        self._total_ratio = max(task.contract.total_failure.bad_ratio, self._terms.limit)
        """A limit above `totalFailure.badRatio` allows what the rule would call a failure: the limit is the
        contract's word."""
        self._step = AbsoluteRoute(task.terms, has_stable=task.has_stable)
        self._rollout = AbsoluteRoute(task.terms, has_stable=task.has_stable) if task.pooled else None
        self._compared = (Counts(0, 0), Counts(0, 0))
        self.bad_windows = 0
        self._worse_windows = 0
        self._newest: list[Window] = []
        self._breaches: dict[Reason, float] = {}
        self.shared_outage = False
        self.total_failure: TotalFailureFound | None = None

    def add(self, window: Window, *, counts_now: bool = True) -> None:
        """One closed window of the step. `counts_now` is false for windows of earlier attempts, which convict
        nobody."""
        if self._task.by_windows and counts_now:
            self._newest = [*self._newest[-4:], window]
        if window.fault is not None:
            return
        canary, stable = window.canary, window.stable if self._task.has_stable else None
        self._step.add(canary, stable)
        if self._rollout is not None:
            self._rollout.add(canary, stable)
        if canary.n:
            if counts_now and canary.bad > self._terms.limit * canary.n:
                self.bad_windows += 1
            if stable is not None and stable.n:
                self._compare(canary, stable, counts_now=counts_now)
        if counts_now:
            self._judge(self._bounds.end_of(window.index))

    def add_earlier(self, window: Window) -> None:
        """A window of an earlier step of this rollout, for the E⁻ that runs over all of it."""
        if self._rollout is not None and window.fault is None:
            self._rollout.add(window.canary, window.stable if self._task.has_stable else None)

    def add_ticks(self, ticks: tuple[Tick, ...]) -> None:
        """Scrape-wide counts for the total-failure rule; they may overlap those of earlier calls."""
        if self._task.by_windows:
            return
        rule = self._task.contract.total_failure
        found = find_total_failure(
            ticks,
            bad_ratio=self._total_ratio,
            for_seconds=rule.for_.total_seconds(),
            window_seconds=self._bounds.window,
            has_stable=self._task.has_stable,
        )
        self._found_total_failure(found)

    @property
    def breach(self) -> Breach | None:
        """The earliest proof, whatever order windows and ticks came in."""
        if not self._breaches:
            return None
        reason = min(self._breaches, key=lambda found: (self._breaches[found], _RANK[found]))
        return Breach(self._breaches[reason], reason)

    @property
    def canary(self) -> Counts:
        return self._step.canary

    @property
    def stable(self) -> Counts:
        return self._step.stable

    @property
    def windows(self) -> int:
        return self._step.windows

    @property
    def phi(self) -> float:
        """The larger of both arms' φ."""
        return self._step.phi

    def log_e_absolute(self) -> float:
        """Of this step, or of the whole rollout where that says more."""
        if self._rollout is None:
            return self._step.log_e()
        return max(self._step.log_e(), self._rollout.log_e())

    def log_e_two_arm(self) -> float | None:
        """None where the contract doesn't compare with stable."""
        return None if self._two_arm is None else self._two_arm.log_e_robust(self.phi)

    def smallest_provable(self) -> float:
        """The least bad ratio that would have been a proven absolute breach with as many requests as there
        were, 0 … 1."""
        n, phi = self.canary.n, self.phi
        low, high = 0, n
        while low < high:
            bad = (low + high) // 2
            if log_e_fail((n - bad) / phi, bad / phi, self._terms.threshold) >= self._terms.log_e_breach:
                high = bad
            else:
                low = bad + 1
        return high / n if n else 1.0

    def _compare(self, canary: Counts, stable: Counts, *, counts_now: bool) -> None:
        if self._two_arm is None:
            return
        self._compared = (self._compared[0] + canary, self._compared[1] + stable)
        self._two_arm.add(canary.bad, stable.bad, canary.n / (canary.n + stable.n))
        if counts_now and canary.bad * stable.n > self._max_ratio * stable.bad * canary.n:
            self._worse_windows += 1

    def _judge(self, at: float) -> None:
        if self._task.by_windows:
            self._found_total_failure(
                find_total_failure_by_windows(
                    self._newest, end=at, bad_ratio=self._total_ratio, has_stable=self._task.has_stable
                )
            )
        if self._two_arm_breached():
            self._found(Reason.BREACH_TWO_ARM, at)
        if self.bad_windows < _BAD_WINDOWS:
            return
        routes = (self._step,) if self._rollout is None else (self._step, self._rollout)
        for route in routes:
            if not route.broken():
                continue
            if route.stable_keeps_limit():
                self._found(Reason.BREACH_ABSOLUTE, at)
            else:
                # Kept like a breach: how often somebody looked must not decide whether it was seen.
                self.shared_outage = True

    def _two_arm_breached(self) -> bool:
        canary, stable = self._compared
        if self._two_arm is None or self._worse_windows < _BAD_WINDOWS:
            return False
        increase = canary.bad / canary.n - stable.bad / stable.n
        # The cheap conditions first: almost every window of a healthy canary ends here.
        return (
            increase >= self._terms.min_increase
            and self._two_arm.log_e_robust(self.phi) >= self._terms.log_e_breach
        )

    def _found_total_failure(self, found: TotalFailureFound | None) -> None:
        if found is not None and (self.total_failure is None or found.at < self.total_failure.at):
            self.total_failure = found
            self._found(Reason.TOTAL_FAILURE, found.at)

    def _found(self, reason: Reason, at: float) -> None:
        self._breaches[reason] = min(at, self._breaches.get(reason, at))
