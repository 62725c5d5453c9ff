"""One check at one gate, window by window: an incremental fold and, at any time, the check's result.

What a check's result is follows from the windows and ticks alone. The clock decides only what can no longer
follow: that evidence which never came is missing. So the same windows, one by one or all at once after a
restart, give the same result.
"""

from dataclasses import dataclass
from typing import Final

from gatewright_analysis import explain
from gatewright_analysis.breach import BreachMonitor
from gatewright_analysis.evidence.model import Clock, Counts, Fault, Tick, Window
from gatewright_analysis.kinds.contract import OnBreach, Require
from gatewright_analysis.proof import Outcome, Proof
from gatewright_analysis.reasons import Reason
from gatewright_analysis.sample import Clusters, Scores
from gatewright_analysis.statistics.evalue import samples_for_pass
from gatewright_analysis.statistics.plan import formula_samples
from gatewright_analysis.statistics.wilson import wilson_interval
from gatewright_analysis.task import SAMPLES_FLOOR, Bounds, CheckTask
from gatewright_analysis.total_failure import TotalFailureFound
from gatewright_analysis.verdict import CheckResult, CheckStatus, Statistics

GRACE_WINDOWS: Final = 2
"""How long after `maxDuration` a closed window may still be on its way; after that what is missing stays
missing."""
_FLOOR: Final = -999.0
"""The lowest e-value shown: JSON knows no infinity, and nobody needs 1e-434."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check's evidence comes to, without its numbers and sentences."""

    status: CheckStatus
    reason: Reason
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Glance:
    """The numbers of one look, unrounded, without a sentence: what a plot needs of each of many looks."""

    n: int
    score: float | None
    ci_lower: float | None
    ci_upper: float | None
    threshold: float | None
    log_e_pass: float | None
    log_e_fail: float | None


class CheckMonitor:
    """Fold closed windows with `add`, ticks with `add_ticks`; read with `result`.

    Windows come in the order of their index. One that is skipped counts as a window that can't be used:
    nothing is known of it. Windows after the last one that ends by `maxDuration` still convict a
    deterministic check, they no longer pass one.
    """

    def __init__(self, task: CheckTask, bounds: Bounds) -> None:
        """Raises ValueError for a check that counts nothing (pods, or no evidence at this stage)."""
        if task.kind not in ("counts", "latency", "burnRate", "samples", "scores", "paired"):
            raise ValueError(f"check {task.check.id} has no counted evidence at stage {task.stage}")
        self._task = task
        self._bounds = bounds
        self._proof = Proof(task, bounds)
        self._breach = None if task.sampled else BreachMonitor(task, bounds)
        for window in task.earlier if task.pooled else ():
            self._proof.add_earlier(window)
            if self._breach is not None:
                self._breach.add_earlier(window)
        for prior in task.prior:
            for window in prior.windows:
                self._proof.add_prior(window)
                if self._breach is not None:
                    self._breach.add(window, counts_now=False)
        entry = task.check.evidence_at(task.stage)
        self._in_files = entry is not None and entry.suite is not None
        self._next = 0

    @property
    def next_index(self) -> int:
        """The window that `add` expects."""
        return self._next

    @property
    def total_failure(self) -> TotalFailureFound | None:
        """What the rule of total failure found, None while it found nothing."""
        return None if self._breach is None else self._breach.total_failure

    def add(self, window: Window) -> None:
        """The next closed window. Raises ValueError for one that was already there: evidence is
        append-only."""
        if window.index < self._next:
            raise ValueError(
                f"window {window.index} comes after window {self._next - 1}: evidence is append-only"
            )
        while self._next < window.index:
            lost = Fault(Reason.NO_DATA, f"window {self._next} was never read")
            self._take(Window(self._next, Counts(0, 0), fault=lost))
        self._take(window)

    def add_ticks(self, ticks: tuple[Tick, ...]) -> None:
        """Scrape-wide counts for the total-failure rule, at least `for` and one window of them (from before
        t0 on where there are any); they may overlap those of earlier calls. Sampled checks have no such rule
        and ignore them."""
        if self._breach is not None:
            self._breach.add_ticks(ticks)

    def result(
        self, clock: Clock, *, fault: Fault | None = None, window_pending: bool = False
    ) -> CheckResult:
        """The check as it stands. `fault` is why the newest reading failed, `window_pending` that a closed
        window can't be read yet. Messages speak of `clock.now`; what is found does not depend on it before
        the deadline has passed."""
        finding = self.find(clock, fault=fault, window_pending=window_pending)
        task, proof, breach = self._task, self._proof, self._breach
        terms = task.terms
        proven = finding.status is CheckStatus.FAIL and breach is not None and breach.breach is not None
        sample = proof.sample
        counts, stable = Counts(sample.good, sample.bad), None
        if breach is not None:
            stable = breach.stable if task.has_stable else None
            if proven:
                # It may have come after the last window that could pass: told with all that led to it.
                counts = breach.canary
            if finding.reason is Reason.TOTAL_FAILURE and breach.total_failure is not None:
                counts, stable = breach.total_failure.canary, breach.total_failure.stable
        missing = sample.missing
        low, high = sample.interval() if sample.n + missing else (None, None)
        if proven and counts.n:
            low, high = wilson_interval(counts.good, counts.n, terms.z)
        n = sample.n if isinstance(sample, Scores) else counts.n
        share = (sample.share if not proven else counts.good / counts.n) if n else None
        ended = finding.status is not CheckStatus.PENDING
        effect = sample.design_effect() if isinstance(sample, Clusters) else None
        statistics = Statistics(
            s=counts.good,
            f=counts.bad,
            n=n,
            missing=missing,
            planned_n=terms.planned,
            n_min=terms.n_min,
            ticket_used=proof.ticket_used,
            lb=_rounded(low),
            ub=_rounded(high),
            z=_rounded(terms.z),
            log_e_pass=_rounded(sample.log_e_pass()),
            log_e_fail=_rounded(sample.log_e_fail() if breach is None else breach.log_e_absolute()),
            log_e_two_arm=None if breach is None else _rounded(breach.log_e_two_arm()),
            breach_threshold=_rounded(terms.log_e_pass if breach is None else terms.log_e_breach),
            tail_bad_ratio=_rounded(proof.tail_bad_ratio()),
            attempts=task.attempts,
            windows=proof.windows_now if breach is None else breach.windows,
            bad_windows=0 if breach is None else breach.bad_windows,
            phi=None if breach is None else _rounded(breach.phi),
            stable_s=None if stable is None else stable.good,
            stable_f=None if stable is None else stable.bad,
            total=_rounded(sample.total) if isinstance(sample, Scores) else None,
            clusters=sample.count if isinstance(sample, Clusters) and sample.repeated else None,
            deff=None if effect is None else _rounded(effect[0]),
            n_eff=None if effect is None else _rounded(effect[1]),
            look=proof.windows_now,
            anytime_lb=_rounded(sample.anytime_bound()) if ended and n else None,
            threshold_adjusted=_rounded(terms.threshold) if task.check.calibration is not None else None,
            step_bad_ratio=_rounded(proof.step_bad_ratio()) if task.pooled else None,
        )
        shared = finding.reason is Reason.SHARED_OUTAGE
        return CheckResult(
            id=task.check.id,
            oracle_kind=task.check.oracle_kind,
            require=task.require,
            tier=task.check.cost,
            status=finding.status,
            breach=proven,
            on_breach=OnBreach.HOLD if shared else task.on_breach,
            score=_rounded(share),
            ci_lower=statistics.lb,
            ci_upper=statistics.ub,
            threshold=_rounded(terms.stated),
            samples=n,
            planned=terms.planned,
            reason=finding.reason,
            message=self._sentence(finding, statistics, clock),
            fix_hint=task.check.fix_hint,
            statistics=statistics,
        )

    def find(self, clock: Clock, *, fault: Fault | None = None, window_pending: bool = False) -> Finding:
        """The first of these that holds, from the proven down to the unknown: `result` in short."""
        breach, ended = self._breach, self._proof.ended
        if self._task.sampled and fault is not None and fault.reason is Reason.WORLD_DRIFTED:
            # Another judge than the one before: whatever its verdicts add up to, they speak of two worlds.
            return Finding(CheckStatus.INCONCLUSIVE, Reason.WORLD_DRIFTED, fault)
        if breach is not None and breach.breach is not None:
            return Finding(CheckStatus.FAIL, breach.breach.reason)
        if breach is not None and breach.shared_outage:
            return Finding(CheckStatus.FAIL, Reason.SHARED_OUTAGE)
        if ended is not None and ended.outcome is Outcome.FAILED:
            return Finding(CheckStatus.FAIL, Reason.FAILED_THRESHOLD)
        if ended is not None and ended.outcome is Outcome.LOOK_SPENT:
            return Finding(CheckStatus.BELOW_THRESHOLD, Reason.BELOW_THRESHOLD)
        if ended is not None and clock.now >= clock.duration:
            if ended.outcome is Outcome.NO_BREACH:
                return Finding(CheckStatus.NOT_PROVEN, Reason.NOT_PROVEN)
            return Finding(CheckStatus.PASS, Reason.PASSED)
        if ended is None and self._next > self._bounds.last_index:
            return self._find_at_end(fault)
        if ended is None and clock.now >= self._deadline(window_pending=window_pending):
            known = fault or self._proof.latest_fault
            return Finding(
                CheckStatus.INCONCLUSIVE,
                Reason.NO_DATA if known is None else known.reason,
                known or Fault(Reason.NO_DATA, f"window {self._next} was never read"),
            )
        newest = fault or self._proof.fault_at_end
        return Finding(CheckStatus.PENDING, Reason.COLLECTING, newest)

    def glance(self) -> Glance:
        """The numbers as they stand: far cheaper than `result`."""
        sample = self._proof.sample
        low, high = sample.interval() if sample.n + sample.missing else (None, None)
        return Glance(
            sample.n,
            sample.share if sample.n else None,
            low,
            high,
            self._task.terms.stated,
            sample.log_e_pass(),
            sample.log_e_fail() if self._breach is None else self._breach.log_e_absolute(),
        )

    def _take(self, window: Window) -> None:
        self._proof.add(window)
        if self._breach is not None:
            self._breach.add(window)
        self._next = window.index + 1

    def _find_at_end(self, fault: Fault | None) -> Finding:
        proof = self._proof
        unusable = proof.unusable()
        if unusable is not None:
            if unusable.reason is Reason.NO_DATA and proof.samples_now == 0 and fault is not None:
                # Nothing came; who was asked can say why.
                unusable = fault
            return Finding(CheckStatus.INCONCLUSIVE, unusable.reason, unusable)
        if proof.n < self._task.terms.min_samples:
            return Finding(CheckStatus.BELOW_THRESHOLD, Reason.LOW_TRAFFIC)
        return Finding(
            CheckStatus.BELOW_THRESHOLD, Reason.DRIFTED_TAIL if proof.drifted else Reason.BELOW_THRESHOLD
        )

    def _deadline(self, *, window_pending: bool) -> float:
        grace = GRACE_WINDOWS * self._bounds.window if window_pending else 0.0
        return max(self._bounds.max_duration, self._bounds.end_of(self._bounds.last_index)) + grace

    def _sentence(self, finding: Finding, statistics: Statistics, clock: Clock) -> str:
        proof, breach, task = self._proof, self._breach, self._task
        elapsed = proof.windows_now * self._bounds.window
        limit, entry = task.check.limit_at(task.stage), task.check.evidence_at(task.stage)
        burn = None if entry is None else entry.burn_rate
        return explain.check_sentence(
            explain.Numbers(
                kind=task.kind,
                states_bad_ratio=limit is not None and limit.max_bad_ratio is not None,
                objective=None if burn is None else burn.objective,
                limit=task.terms.limit,
                statistics=statistics,
                log_e_pass_needed=task.terms.log_e_pass,
                by_wilson=proof.ended is not None
                and proof.ended.outcome in (Outcome.PASSED_BY_WILSON, Outcome.PASSED_BY_SCHEDULE),
                max_ratio=None if task.check.versus_stable is None else task.check.versus_stable.max_ratio,
                still_needed=self._still_needed(finding.status),
                per_second=proof.samples_now / elapsed if elapsed else 0.0,
                seconds_left=max(0.0, clock.max_duration - clock.now),
                seconds_to_duration=max(0.0, clock.duration - clock.now),
                least=task.terms.min_samples,
                in_files=self._in_files,
                smallest_provable=breach.smallest_provable()
                if breach is not None and finding.status is CheckStatus.NOT_PROVEN
                else None,
            ),
            finding.status,
            finding.reason,
            finding.fault,
        )

    def _still_needed(self, status: CheckStatus) -> float:
        """Samples that a pass still lacks if the ratio stays as it is; 0 where nothing is waited for."""
        proof, terms = self._proof, self._task.terms
        if status not in (CheckStatus.PENDING, CheckStatus.BELOW_THRESHOLD):
            return 0.0
        if self._task.require is Require.NO_BREACH:
            return max(0.0, SAMPLES_FLOOR - proof.n)
        share = proof.sample.share if proof.n else 1.0
        # A spent look leaves E⁺ alone.
        wanted = (
            samples_for_pass(share, terms.threshold, terms.log_e_pass)
            if proof.ticket_used
            else formula_samples(terms.threshold, share)
        )
        return max(0.0, max(float(terms.min_samples), wanted) - proof.n)


def _rounded(value: float | None) -> float | None:
    """Six decimals: the same bytes in the ledger on machines whose last bits differ."""
    return None if value is None else round(max(value, _FLOOR), 6)
