"""The operator finds pushed result files: where the source says, each body once, and no wrong one stops it."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from gatewright_analysis.evidence.model import Counts, JudgeIdentity
from gatewright_analysis.evidence.record import RunRecord, read, write
from gatewright_analysis.kinds.base import ObjectMeta
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.kinds.source import MetricSource
from gatewright_analysis.ledger import canonical, world_snapshot
from gatewright_analysis.names import EVIDENCE_DIGEST, EVIDENCE_RECORD_KEY
from gatewright_analysis.reasons import Reason
from gatewright_analysis.results import EvidenceRecord, pack
from gatewright_analysis.verdict import CheckStatus
from gatewright_operator.api import Api
from gatewright_operator.cache import Cache
from gatewright_operator.errors import ApiError, Refused, Unavailable
from gatewright_operator.feeds.base import Desk
from gatewright_operator.feeds.make import feed_of
from gatewright_operator.feeds.suites import SuiteFeed
from gatewright_operator.plan.snapshot import PinnedContract
from gatewright_operator.pushed_files import NEWEST
from gatewright_operator.resources import CONFIGMAPS, METRIC_SOURCES
from gatewright_operator.source_health import SourceHealth
from gatewright_operator.sources import Sources
from gatewright_operator.workload import declared_world
from tests.unit.operator_fakes import FakeApi
from tests.unit.test_suites import MINE, good, spec, task

START = datetime(2026, 1, 1, tzinfo=UTC)


class OneSource:
    """Stands for Sources: knows one MetricSource."""

    def __init__(self, evidence: dict[str, str] | None) -> None:
        self.evidence = evidence

    def get(self, name: str) -> MetricSource | None:
        if self.evidence is None:
            return None
        return MetricSource.model_validate({"spec": {"evidence": self.evidence, "producer": "Judge"}})


def feed(api: FakeApi, evidence: dict[str, str] | None = {}) -> SuiteFeed:  # noqa: B006 — never changed
    asked = task()
    run = GateRun(metadata=ObjectMeta(name="run", namespace="shop"), spec=spec())
    contract = PinnedContract("checkout", 1, MINE, asked.contract)
    desk = Desk(cast(Api, api), Cache(), cast(Sources, OneSource(evidence)), run, contract)
    made = feed_of(desk, asked.check, asked.check.evidence[0], asked)
    assert isinstance(made, SuiteFeed)
    return made


def store(api: FakeApi, own: EvidenceRecord, at: float = -5, namespace: str = "shop", **fields: Any) -> str:
    """Pushes a record, created `at` seconds after t0."""
    packed = pack(own)
    name = f"evidence-s-{packed.digest[7:19]}"
    created = (START + timedelta(seconds=at)).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {
        "name": name, "namespace": namespace, "uid": f"uid-{len(api.objects)}", "creationTimestamp": created,
        "annotations": {EVIDENCE_DIGEST: packed.digest},
    }  # fmt: skip
    body = {"immutable": True, "metadata": metadata, "binaryData": {EVIDENCE_RECORD_KEY: packed.data}}
    api.store(CONFIGMAPS, body | fields)
    return name


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


async def look(made: SuiteFeed, *seconds: float) -> None:
    for at in seconds:
        await made.read(after(at))


async def test_windows_close_in_time_and_the_same_after_a_restart() -> None:
    api = FakeApi()
    store(api, good(60), -5)
    made = feed(api)
    await look(made, -3, 31)
    assert made.windows == [], "something may still carry a time inside it"
    await look(made, 33)
    store(api, good(10, first=100), 40)
    await look(made, 62)
    assert [window.canary for window in made.windows] == [Counts(60, 0), Counts(10, 0)]
    again = feed(api)
    await look(again, 62)
    assert again.windows == made.windows


async def test_every_body_is_read_once_and_looks_keep_a_distance() -> None:
    api = FakeApi()
    store(api, good(60))
    made = feed(api)
    await look(made, 0, 1, 1.9, 2, 4)
    assert [verb for verb, _ in api.calls].count("list") == 3
    assert [verb for verb, _ in api.calls].count("get") == 1


async def test_what_it_rests_on_is_stored_and_read_back() -> None:
    api = FakeApi()
    own = good(60, seed=7)
    store(api, own)
    made = feed(api)
    await look(made, 40)
    record = made.record(after(40))
    assert (record.files, record.judge, record.seed) == (
        (own.digest, own.source.digest), JudgeIdentity("judge-x", "3"), 7,
    )  # fmt: skip
    run = RunRecord("run", "Canary", made.desk.clock(after(40)), 1, True, True, "Hold", checks={"c": record})
    assert read(canonical(write(run))) == run
    assert "judged by judge-x 3" in made.result(after(40)).message


async def test_nothing_was_pushed_at_the_end_of_the_gate() -> None:
    made = feed(FakeApi())
    await look(made, 600, 1202)
    result = made.result(after(1202))
    assert (result.status, result.reason) == (CheckStatus.INCONCLUSIVE, Reason.NO_RESULT_FILE)
    await look(made, 1300)
    assert [verb for verb, _ in cast(FakeApi, made.desk.api).calls].count("list") == 2, "the gate is over"


async def test_the_namespace_is_the_source_s() -> None:
    api = FakeApi()
    store(api, good(60))
    store(api, good(50, first=100), namespace="results")
    made = feed(api, {"namespace": "results"})
    await look(made, 40)
    assert made.windows[0].canary == Counts(50, 0)


async def test_one_that_may_change_is_no_evidence() -> None:
    api = FakeApi()
    name = store(api, good(60), immutable=False)
    made = feed(api)
    await look(made, 40)
    assert made.windows[0].canary == Counts(0, 0)
    assert made.fault is not None
    assert f"ConfigMap {name} can't be used: it is not immutable" in made.fault.detail


async def test_the_newest_are_read_and_the_rest_is_said() -> None:
    api = FakeApi()
    for n in range(NEWEST + 2):
        store(api, good(1, first=n), -100 + n)
    made = feed(api)
    await look(made, 40)
    assert made.windows[0].canary == Counts(NEWEST, 0)
    assert made.fault is not None
    assert "2 files older than the newest were not read" in made.fault.detail


@pytest.mark.parametrize(
    ("error", "reason"),
    [(Unavailable("no answer"), Reason.UNREACHABLE), (Refused("forbidden", status=403), Reason.UNAUTHORIZED)],
)
async def test_a_server_that_does_not_answer_is_a_fault_and_the_next_look_goes_on(
    error: ApiError, reason: Reason
) -> None:
    api = FakeApi()
    store(api, good(60))
    made = feed(api)
    api.trouble = lambda verb: error
    await look(made, 40)
    assert made.fault is not None
    assert made.fault.reason is reason
    api.trouble = lambda verb: None
    await look(made, 43)
    assert made.windows[0].canary == Counts(60, 0)


async def test_a_source_that_is_missing_is_a_fault() -> None:
    made = feed(FakeApi(), None)
    await look(made, 10)
    assert made.fault is not None
    assert made.fault.reason is Reason.SOURCE_NOT_FOUND


async def test_a_source_of_files_is_ready_and_nobody_is_asked() -> None:
    api, cache = FakeApi(), Cache()
    raw = {
        "metadata": {"name": "results", "generation": 1},
        "spec": {"evidence": {"namespace": "results"}, "producer": "Judge"},
    }
    cache.put(METRIC_SOURCES, api.store(METRIC_SOURCES, raw))

    class Read(OneSource):
        def get(self, name: str) -> MetricSource | None:
            return MetricSource.model_validate(cache.get(METRIC_SOURCES, "", name))

    health = SourceHealth(cast(Api, api), cache, cast(Sources, Read({})))
    assert await health.check("results", START) == 300
    written = cache.get(METRIC_SOURCES, "", "results")
    assert written is not None
    [ready] = written["status"]["conditions"]
    assert (ready["status"], ready["reason"]) == ("True", "SourceAnswers")
    assert "ConfigMaps in the namespace results" in ready["message"]


def test_a_template_declares_its_world_by_annotations() -> None:
    prefix = "world.gatewright.dev/"
    annotations = {f"{prefix}model": "m1", f"{prefix}long": "x" * 1025, "other": "y"}
    found = declared_world({"metadata": {"annotations": annotations}})
    assert found["model"] == "m1"
    assert found["long"].startswith("sha256:")
    assert found.keys() == {"model", "long"}
    many = declared_world({"metadata": {"annotations": {f"{prefix}{n}": "v" for n in range(65)}}})
    assert list(many) == ["all"]
    assert declared_world({"metadata": {}}) == {}


def test_the_declared_world_is_part_of_the_snapshot() -> None:
    images = [("app", MINE)]
    bare, declared = world_snapshot(images), world_snapshot(images, declared={"model": "m1"})
    assert declared not in (bare, world_snapshot(images, declared={"model": "m2"}))
    assert world_snapshot(images, declared={}) == bare
