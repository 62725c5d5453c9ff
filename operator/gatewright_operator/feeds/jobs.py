"""A Job that is started once for each gate, and read until it is over."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from gatewright_analysis.evidence.model import Fault, JobFacts
from gatewright_analysis.evidence.record import CheckRecord
from gatewright_analysis.facts import judge_job
from gatewright_analysis.kinds.evidence import JobEvidence
from gatewright_analysis.names import JOB_STARTED
from gatewright_analysis.reasons import Reason
from gatewright_analysis.verdict import CheckResult
from gatewright_operator.errors import AlreadyExists, ApiError, NotLeading, Refused
from gatewright_operator.feeds.base import Json, priors
from gatewright_operator.feeds.facts import FactFeed
from gatewright_operator.job_facts import facts, gone
from gatewright_operator.job_manifest import UnusableTemplate, belongs_to, job_name, manifest
from gatewright_operator.resources import CRON_JOBS, GATE_RUNS, JOBS, PODS

READ_EVERY = timedelta(seconds=2)
"""Jobs are not watched: each reading is two calls."""


@dataclass(slots=True)
class JobFeed(FactFeed):
    """One Job of one check at one gate.

    It is started when the gate's clock starts, and never again: a Job that was deleted would be a second draw. That one
    was started stands as an annotation on the GateRun, written before the Job, so that a later process knows it too.
    """

    job: JobFacts | None = None
    over: bool = False
    """Nothing that is read now could change what it came to."""
    seen: bool = False
    """It was there once, seen by this process."""
    tried: bool = False
    """The mark on the GateRun is this process' own, so a Job that is not there may still be made."""
    read_at: datetime | None = None

    async def read(self, now: datetime) -> None:
        started = now >= self.desk.run.spec.clock.starts_at
        if self.over or not started or (self.read_at is not None and now - self.read_at < READ_EVERY):
            return
        self.read_at = now
        try:
            self.fault = await self._follow(now)
        except NotLeading:
            raise
        except Refused as error:
            self.fault = Fault(
                Reason.JOB_TROUBLE, f"the API server refuses Job {self._name}: {error.message}"[:300]
            )
        except ApiError as error:
            self.fault = Fault(
                Reason.UNREACHABLE, f"Job {self._name} can't be read now: {error.message}"[:300]
            )

    def result(self, now: datetime) -> CheckResult:
        return judge_job(self.task, self.job, self.desk.clock(now), fault=self.fault)

    def record(self, now: datetime) -> CheckRecord:
        return CheckRecord(job=self.job, fault=self.fault, prior=priors(self.task))

    @property
    def _name(self) -> str:
        return job_name(self.desk.run.metadata.name, self.check.id)

    @property
    def _asked(self) -> JobEvidence:
        assert self.evidence.job is not None
        return self.evidence.job

    async def _follow(self, now: datetime) -> Fault | None:
        """Reads the Job, or starts it where it never was. What keeps it from being started, else None."""
        namespace = self.desk.run.metadata.namespace
        job = await self.desk.api.get(JOBS, namespace, self._name)
        if job is None:
            if self.seen or (self._marked and not self.tried):
                self.job, self.over = gone(self._name), True
                return None
            return await self._start(now)
        if not belongs_to(job, self.desk.run):
            return Fault(
                Reason.JOB_TROUBLE,
                f"Job {self._name} exists and is not this run's: delete or rename it, and order a Retry",
            )
        self.seen = True
        of_job = f"batch.kubernetes.io/job-name={self._name}"
        pods = await self.desk.api.list(PODS, namespace, labels=of_job)
        self.job = facts(job, pods, self._asked.report)
        self.over = any(
            c["type"] in ("Complete", "Failed") and c["status"] == "True"
            for c in (job.get("status") or {}).get("conditions") or ()
        )
        return None

    async def _start(self, now: datetime) -> Fault | None:
        run, asked = self.desk.run, self._asked
        if now >= run.spec.clock.starts_at + run.spec.clock.max_duration:
            # Held by now, perhaps for want of this Job: what a person looks at does not begin to move again.
            return self.fault
        namespace = run.metadata.namespace
        cron_job = await self.desk.api.get(CRON_JOBS, namespace, asked.cron_job)
        if cron_job is None:
            return Fault(
                Reason.JOB_TROUBLE,
                f"CronJob {asked.cron_job} does not exist in {namespace}: create it, or correct cronJob in the contract",
            )
        try:
            body = manifest(cron_job, run, self.check.id, asked.report)
        except UnusableTemplate as error:
            return Fault(Reason.JOB_TROUBLE, str(error))
        await self._mark()
        try:
            await self.desk.api.create(JOBS, namespace, body)
        except AlreadyExists:
            # An answer that was lost, or another process that led before: the next reading says whose it is.
            return self.fault
        self.seen = True
        return None

    async def _mark(self) -> None:
        """Says on the GateRun, before it is so, that the Job was started."""
        self.tried = True
        if self._marked:
            return
        run = self.desk.run.metadata
        body: Json = {"metadata": {"annotations": {f"{JOB_STARTED}{self.check.id}": self._name}}}
        written = await self.desk.api.patch(GATE_RUNS, run.namespace, run.name, body)
        self.desk.cache.put(GATE_RUNS, written)

    @property
    def _marked(self) -> bool:
        run = self.desk.run.metadata
        raw = self.desk.cache.get(GATE_RUNS, run.namespace, run.name) or {"metadata": {}}
        return f"{JOB_STARTED}{self.check.id}" in (raw["metadata"].get("annotations") or {})
