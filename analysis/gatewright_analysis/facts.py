"""Checks that rest on facts: the canary's own pods, and Jobs (statistics.md R2, R3)."""

import math
from typing import Final

from gatewright_analysis import explain
from gatewright_analysis.evidence.model import Clock, Counts, Fault, JobFacts, JobPhase, PodFacts
from gatewright_analysis.kinds.contract import OnBreach, OracleKind, Require
from gatewright_analysis.kinds.evidence import JobReport
from gatewright_analysis.reasons import Reason
from gatewright_analysis.statistics.evalue import log_e_fail, log_e_pass
from gatewright_analysis.statistics.exact import p_value_above
from gatewright_analysis.statistics.wilson import wilson_interval
from gatewright_analysis.task import SAMPLES_FLOOR, CheckTask
from gatewright_analysis.verdict import CheckResult, CheckStatus, Statistics

_RESTARTS_ABOVE: Final = 2


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
        return plain(task, status, known.reason, f"The pods can't be judged: {known.detail.rstrip('.')}.")
    shown = f"{facts.ready} of {facts.expected} pods ready, {facts.restarts} restarts ({allowed} allowed)"
    if facts.failing:
        names = ", ".join(facts.failing[:3]) + (", …" if len(facts.failing) > 3 else "")
        message = f"Containers exit again and again: {names}; {shown}."
        return plain(task, CheckStatus.FAIL, Reason.POD_FAILURE, message, facts)
    if facts.restarts >= allowed + _RESTARTS_ABOVE:
        return plain(task, CheckStatus.FAIL, Reason.POD_FAILURE, f"Containers restart: {shown}.", facts)
    if facts.infrastructure is not None:
        status = CheckStatus.INCONCLUSIVE if at_end else CheckStatus.PENDING
        message = f"The cluster can't run the pods, which says nothing of the version: {shown}; "
        message += f"{facts.infrastructure.detail.rstrip('.')}."
        return plain(task, status, facts.infrastructure.reason, message, facts)
    ready = facts.expected > 0 and facts.ready >= facts.expected
    if ready and facts.ready_throughout and facts.restarts <= allowed and clock.now >= clock.duration:
        return plain(task, CheckStatus.PASS, Reason.PASSED, f"Ready throughout: {shown}.", facts)
    if task.require is Require.NO_BREACH and ready and clock.now >= clock.duration:
        return plain(task, CheckStatus.NOT_PROVEN, Reason.NOT_PROVEN, f"No breach: {shown}.", facts)
    if at_end:
        message = f"Not ready throughout, and nothing that proves the version at fault: {shown}."
        return plain(task, CheckStatus.BELOW_THRESHOLD, Reason.PODS_NOT_READY, message, facts)
    return plain(task, CheckStatus.PENDING, Reason.COLLECTING, f"So far {shown}.", facts)


def judge_job(
    task: CheckTask, job: JobFacts | None, clock: Clock, *, fault: Fault | None = None
) -> CheckResult:
    """A check on a Job: its exit code, or one look at the counts that it reports (M6; statistics.md R2, R3).

    What the cluster did to the Job (no room, no image, evicted, out of time) says nothing of the version. Counts are
    judged once, when the Job is over: a breach at the exact binomial tail of 1 % over the rollout's e-processes, a pass
    by the Wilson bound. The counts of earlier attempts at the step add to them; once a look was taken, more is judged
    by E⁺ and E⁻ alone, because a new look for each attempt would be a new draw.
    """
    entry = task.check.evidence_at(task.stage)
    if entry is None or entry.job is None:
        raise ValueError(f"check {task.check.id} does not judge a Job at stage {task.stage}")
    at_end = clock.now >= clock.max_duration
    trouble = fault or (None if job is None else job.trouble)
    if job is None or trouble is not None:
        known = trouble or Fault(Reason.NO_DATA, "the Job was not started")
        status = CheckStatus.INCONCLUSIVE if at_end else CheckStatus.PENDING
        return plain(task, status, known.reason, f"The Job can't be judged: {known.detail.rstrip('.')}.")
    if job.phase in (JobPhase.WAITING, JobPhase.RUNNING):
        status = CheckStatus.INCONCLUSIVE if at_end else CheckStatus.PENDING
        reason = Reason.JOB_UNFINISHED if at_end else Reason.COLLECTING
        return plain(task, status, reason, f"The Job {job.name} is not over yet.")
    if entry.job.report is JobReport.EXIT_CODE:
        return _by_exit_code(task, job)
    return _by_report(task, job)


def _by_exit_code(task: CheckTask, job: JobFacts) -> CheckResult:
    if job.phase is JobPhase.SUCCEEDED:
        return plain(task, CheckStatus.PASS, Reason.PASSED, f"The Job {job.name} ended with exit code 0.")
    code = "" if job.exit_code is None else f" with exit code {job.exit_code}"
    found = Statistics(exit_code=job.exit_code, attempts=task.attempts)
    return plain(
        task,
        CheckStatus.FAIL,
        Reason.JOB_FAILED,
        f"The Job {job.name} failed{code}; see its log.",
        statistics=found,
    )


def _by_report(task: CheckTask, job: JobFacts) -> CheckResult:
    if job.phase is JobPhase.FAILED or job.good is None or job.bad is None or job.good + job.bad == 0:
        silent = job.phase is JobPhase.FAILED or job.good is None or job.bad is None
        said = "reported no counts" if silent else "reported 0 of 0"
        message = f"The Job {job.name} {said}: it has to write its counts to the termination message."
        return plain(task, CheckStatus.INCONCLUSIVE, Reason.NO_DATA, message)
    terms, own = task.terms, Counts(job.good, job.bad)
    total = sum((w.canary for p in task.prior for w in p.windows if w.fault is None), own)
    spent = any(prior.ticket_used for prior in task.prior)
    low, high = wilson_interval(total.good, total.n, terms.z)
    status, reason, said = _word_on(task, own, total, low=low, high=high, spent=spent)
    numbers = Statistics(
        s=total.good, f=total.bad, n=total.n, planned_n=terms.planned, n_min=terms.n_min, attempts=task.attempts,
        ticket_used=spent or total.n >= terms.min_samples, lb=round(low, 6), ub=round(high, 6), z=round(terms.z, 6),
        look=1,
    )  # fmt: skip
    shown = f"{explain.percent(total.bad / total.n)} of {total.n:,} were bad ({explain.percent(terms.limit)} allowed)"
    result = plain(task, status, reason, f"{said} the Job {job.name}: {shown}.", statistics=numbers)
    return result.model_copy(
        update={
            "score": round(total.good / total.n, 6),
            "ci_lower": numbers.lb,
            "ci_upper": numbers.ub,
            "threshold": round(terms.stated, 6),
            "samples": total.n,
            "planned": terms.planned,
        }
    )


def _word_on(
    task: CheckTask, own: Counts, total: Counts, *, low: float, high: float, spent: bool
) -> tuple[CheckStatus, Reason, str]:
    """What the counts prove: `own` of this Job, `total` with those of earlier attempts; `low` and `high` bound the
    good ratio. `spent`: the one Wilson look was taken by an earlier attempt.
    """
    terms = task.terms
    if task.sampled:
        missed = log_e_fail(total.good, total.bad, terms.threshold) >= terms.log_e_pass
        if missed if spent else high < terms.threshold:
            return CheckStatus.FAIL, Reason.FAILED_THRESHOLD, "Proven to miss its threshold by"
    elif _breaks(task, own, total):
        return CheckStatus.FAIL, Reason.BREACH_ABSOLUTE, "The limit is broken, as shown by"
    if total.n >= terms.min_samples and own.bad <= terms.limit * own.n:
        # The newest Job keeps the limit by itself: it is to a Job's attempts what the last third is to windows.
        by_e = log_e_pass(total.good, total.bad, terms.threshold) >= terms.log_e_pass
        if by_e if spent else low >= terms.threshold:
            return CheckStatus.PASS, Reason.PASSED, "Proven by"
    if task.require is Require.NO_BREACH and total.n >= SAMPLES_FLOOR:
        return CheckStatus.NOT_PROVEN, Reason.NOT_PROVEN, "No breach, and no proof either, by"
    if total.n < terms.min_samples:
        said = f"At least {terms.min_samples:,} events are needed, more than were reported by"
        return CheckStatus.BELOW_THRESHOLD, Reason.LOW_TRAFFIC, said
    return CheckStatus.BELOW_THRESHOLD, Reason.BELOW_THRESHOLD, "Neither proven nor disproven by"


def _breaks(task: CheckTask, own: Counts, total: Counts) -> bool:
    """One look has the exact tail (M6); with an earlier attempt's counts it would be a second one, so E⁻ then."""
    terms = task.terms
    if total.bad <= terms.limit * total.n:
        return False
    if total == own:
        return p_value_above(own.bad, own.n, terms.limit) <= math.exp(-terms.log_e_breach)
    return log_e_fail(total.good, total.bad, 1.0 - terms.limit) >= terms.log_e_breach


def plain(
    task: CheckTask,
    status: CheckStatus,
    reason: Reason,
    message: str,
    facts: PodFacts | None = None,
    *,
    statistics: Statistics | None = None,
) -> CheckResult:
    """A result that rests on no counts of windows."""
    failed = status is CheckStatus.FAIL
    if facts is not None:
        statistics = Statistics(restarts=facts.restarts, ready=facts.ready, attempts=task.attempts)
    return CheckResult(
        id=task.check.id,
        oracle_kind=task.check.oracle_kind,
        require=task.require,
        tier=task.check.cost,
        status=status,
        breach=failed and task.check.oracle_kind is OracleKind.DETERMINISTIC,
        on_breach=task.on_breach if task.check.oracle_kind is OracleKind.DETERMINISTIC else OnBreach.HOLD,
        reason=reason,
        message=message[:1024],
        fix_hint=task.check.fix_hint,
        statistics=statistics,
    )
