"""When a check's Job is started, when it is read, and that there is never a second one."""

from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from gatewright_analysis.evidence.model import JobPhase
from gatewright_analysis.evidence.packed import encode, windows_of
from gatewright_analysis.evidence.record import RunRecord
from gatewright_analysis.kinds.contract import Stage
from gatewright_analysis.task import CheckTask
from gatewright_analysis.verdict import CheckResult
from gatewright_operator.api import Api
from gatewright_operator.cache import Cache
from gatewright_operator.errors import ApiError, NotLeading, Refused, Unavailable
from gatewright_operator.evidence_store import manifest
from gatewright_operator.feeds.base import Desk
from gatewright_operator.feeds.jobs import JobFeed
from gatewright_operator.plan.snapshot import PinnedContract
from gatewright_operator.resources import CRON_JOBS, GATE_RUNS, JOBS, PODS, Resource
from gatewright_operator.sources import Sources
from tests import judging
from tests.unit.job_objects import (
    NAME,
    RUN,
    T0,
    Json,
    complete,
    cron_job,
    ended,
    failed,
    gate_run,
    job,
    parsed,
    pod,
)
from tests.unit.operator_fakes import FakeApi

MARK = "jobs.gatewright.dev/smoke"


class Shop(FakeApi):
    """A namespace with a CronJob and a run in it."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: list[Json] = []
        self.refuse: ApiError | None = None
        self.lose_answer = False
        self.store(CRON_JOBS, cron_job())
        self.store(GATE_RUNS, gate_run())

    async def list(self, resource: Resource, namespace: str, *, labels: str = "") -> list[Json]:
        await self._answer("list", resource)
        assert resource == PODS and labels == f"batch.kubernetes.io/job-name={NAME}"
        return self.pods

    async def create(self, resource: Resource, namespace: str, body: Json, **_: Any) -> Json:
        if self.refuse is not None:
            raise self.refuse
        body = {**body, "metadata": {**body["metadata"], "uid": "job-uid"}}
        made = await super().create(resource, namespace, body)
        if self.lose_answer:
            raise Unavailable("no answer within 10 s")
        return made

    async def patch(self, resource: Resource, namespace: str, name: str, body: Json, **_: Any) -> Json:
        await self._answer("patch", resource)
        present = self.objects[(resource, namespace, name)]
        metadata = {**present["metadata"], **body["metadata"]}
        return self.store(resource, {**present, "metadata": metadata})

    def becomes(self, found: Json, *pods: Json) -> None:
        self.store(JOBS, found)
        self.pods = list(pods)

    @property
    def job(self) -> Json | None:
        return self.objects.get((JOBS, "shop", NAME))

    @property
    def mark(self) -> str | None:
        found = self.objects[(GATE_RUNS, "shop", RUN)]["metadata"].get("annotations", {}).get(MARK)
        return cast(str | None, found)

    def asked(self, verb: str, plural: str) -> int:
        return self.calls.count((verb, plural))


def feed(shop: Shop, report: str = "ExitCode") -> JobFeed:
    """As one process makes it at its first look: from what its cache holds."""
    limit = {"limit": {"maxBadRatio": 0.05}} if report == "Counts" else {}
    entry = {"stages": ["Canary"], "job": {"cronJob": "smoke", "report": report}}
    spec = judging.contract({"id": "smoke", "oracleKind": "Deterministic", "evidence": [entry], **limit})
    cache = Cache()
    raw = shop.objects[(GATE_RUNS, "shop", RUN)]
    cache.put(GATE_RUNS, raw)
    contract = PinnedContract(spec=spec, name="checkout", generation=1, digest=f"sha256:{'0' * 64}")
    desk = Desk(cast(Api, shop), cache, cast(Sources, None), parsed(raw), contract)
    evidence = spec.checks[0].evidence_at(Stage.CANARY)
    assert evidence is not None
    return JobFeed(desk, spec.checks[0], evidence, CheckTask(spec.checks[0], spec, Stage.CANARY, 1, True))


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


async def looked(given: JobFeed, *seconds: float) -> CheckResult:
    for moment in seconds:
        await given.read(at(moment))
    return given.result(at(seconds[-1]))


async def test_a_job_is_started_when_the_clock_starts_and_not_before() -> None:
    shop = Shop()
    one = feed(shop)
    await looked(one, -6, -3, -0.1)
    assert shop.calls == [] and shop.job is None
    result = await looked(one, 0)
    assert shop.job is not None and shop.mark == NAME
    assert result.status == "pending"


async def test_the_mark_stands_on_the_run_before_the_job_is_made() -> None:
    shop = Shop()
    await looked(feed(shop), 0)
    assert shop.calls.index(("patch", "gateruns")) < shop.calls.index(("create", "jobs"))


async def test_a_job_is_read_at_most_every_two_seconds_and_not_at_all_once_it_is_over() -> None:
    shop = Shop()
    one = feed(shop)
    await looked(one, 0)
    shop.becomes(job(active=1), pod("Running"))
    shop.calls.clear()
    await looked(one, 0.25, 1, 1.9)
    assert shop.calls == []
    await looked(one, 2, 3, 3.9, 4)
    assert (shop.asked("get", "jobs"), shop.asked("list", "pods")) == (2, 2)
    shop.becomes(complete(), pod("Succeeded", ended()))
    assert (await looked(one, 6)).status == "pass"
    shop.calls.clear()
    assert (await looked(one, 8, 60)).status == "pass"
    assert shop.calls == []


async def test_a_failed_job_is_a_breach_and_stands_in_the_record() -> None:
    shop = Shop()
    one = feed(shop)
    await looked(one, 0)
    shop.becomes(failed(), pod("Failed", ended(3)))
    result = await looked(one, 2)
    assert (result.status, result.breach, result.reason) == ("fail", True, "JobFailed")
    record = one.record(at(2))
    assert record.job is not None and (record.job.phase, record.job.exit_code) == (JobPhase.FAILED, 3)


async def test_another_process_finds_the_job_again() -> None:
    shop = Shop()
    await looked(feed(shop), 0)
    shop.becomes(complete(), pod("Succeeded", ended()))
    assert (await looked(feed(shop), 5)).status == "pass"
    assert shop.asked("create", "jobs") == 1


async def test_another_process_starts_no_second_job_when_the_first_is_gone() -> None:
    shop = Shop()
    await looked(feed(shop), 0)
    del shop.objects[(JOBS, "shop", NAME)]
    after = feed(shop)
    result = await looked(after, 5, 7, 120)
    assert (result.status, result.reason, result.breach) == ("inconclusive", "JobTrouble", False)
    assert "is not started twice" in result.message
    assert shop.asked("create", "jobs") == 1


async def test_a_job_that_is_deleted_while_it_runs_is_trouble_and_not_started_again() -> None:
    shop = Shop()
    one = feed(shop)
    await looked(one, 0)
    del shop.objects[(JOBS, "shop", NAME)]
    result = await looked(one, 2, 4)
    assert (result.status, result.reason) == ("pending", "JobTrouble")
    assert shop.asked("create", "jobs") == 1


async def test_an_answer_that_was_lost_makes_no_second_job() -> None:
    shop = Shop()
    one = feed(shop)
    shop.lose_answer = True
    assert (await looked(one, 0)).reason == "SourceUnreachable"
    shop.becomes(complete(), pod("Succeeded", ended()))
    assert (await looked(one, 2)).status == "pass"
    assert shop.asked("create", "jobs") == 1


async def test_a_job_that_somebody_else_made_is_not_this_runs() -> None:
    shop = Shop()
    shop.becomes({**complete(owner="another")}, pod("Succeeded", ended()))
    result = await looked(feed(shop), 0, 120)
    assert (result.status, result.reason) == ("inconclusive", "JobTrouble")
    assert f"Job {NAME} exists and is not this run's" in result.message


async def test_a_missing_cron_job_is_said_and_waited_for_while_the_gate_lasts() -> None:
    shop = Shop()
    there = shop.objects.pop((CRON_JOBS, "shop", "smoke"))
    one = feed(shop)
    result = await looked(one, 0, 2)
    assert (result.status, result.reason) == ("pending", "JobTrouble")
    assert "CronJob smoke does not exist in shop: create it" in result.message
    assert shop.mark is None and shop.job is None
    shop.store(CRON_JOBS, there)
    await looked(one, 4)
    assert shop.job is not None


async def test_no_job_is_started_when_the_gate_is_over() -> None:
    shop = Shop()
    there = shop.objects.pop((CRON_JOBS, "shop", "smoke"))
    one = feed(shop)
    await looked(one, 118)
    shop.store(CRON_JOBS, there)
    result = await looked(one, 120, 130)
    assert shop.job is None
    assert (result.status, result.reason) == ("inconclusive", "JobTrouble")
    assert "CronJob smoke does not exist" in result.message


async def test_a_template_that_cannot_be_used_is_said_and_no_job_made() -> None:
    shop = Shop()
    shop.store(CRON_JOBS, cron_job({"name": "a", "env": [{"name": "GATEWRIGHT_STEP", "value": "x"}]}))
    result = await looked(feed(shop), 0)
    assert result.reason == "JobTrouble" and "sets GATEWRIGHT_STEP itself" in result.message
    assert shop.job is None and shop.mark is None


async def test_a_refusal_is_trouble_and_is_tried_again() -> None:
    shop = Shop()
    shop.refuse = Refused("exceeded quota: jobs, requested: 1, used: 1, limited: 1", status=403)
    one = feed(shop)
    result = await looked(one, 0, 2)
    assert (result.status, result.reason, result.breach) == ("pending", "JobTrouble", False)
    assert "exceeded quota" in result.message
    shop.refuse = None
    await looked(one, 4)
    assert shop.job is not None and one.fault is None


@pytest.mark.parametrize("error", [Unavailable("etcd is slow", status=500), Refused("no", status=403)])
async def test_a_reading_that_fails_is_a_fault_and_never_an_exception(error: ApiError) -> None:
    shop = Shop()
    shop.trouble = lambda verb: error
    one = feed(shop)
    assert (await looked(one, 0)).status == "pending"
    assert (await looked(one, 120)).status == "inconclusive"


async def test_a_process_that_no_longer_leads_goes_no_further() -> None:
    shop = Shop()
    shop.refuse = NotLeading("the Lease is not held")
    with pytest.raises(NotLeading):
        await feed(shop).read(at(0))


async def test_counts_are_judged_and_a_later_attempt_reads_them_from_the_record() -> None:
    shop = Shop()
    one = feed(shop, "Counts")
    await looked(one, 0)
    shop.becomes(complete(), pod("Succeeded", ended(message='{"good": 980, "bad": 20}')))
    result = await looked(one, 2)
    assert (result.status, result.samples, result.score) == ("pass", 1000, 0.98)
    record = RunRecord(
        run=RUN, stage="Canary", clock=one.desk.clock(at(2)), e_processes=1, has_stable=True, last_gate=True,
        on_inconclusive="Hold", checks={"smoke": one.record(at(2))},
    )  # fmt: skip
    raw, digest = encode(record)
    stored = manifest("evidence", "shop", "checkout", {}, raw, digest)
    [window] = windows_of(stored, "smoke")
    assert (window.canary.good, window.canary.bad) == (980, 20)
