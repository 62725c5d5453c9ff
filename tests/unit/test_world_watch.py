"""The watch over models and judges: asked now and then, never waited for long, and unknown is never the same."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import gatewright_operator.world_watch as module
from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.question import Answer, Answered, Question, Sample, Series, labels_of
from gatewright_analysis.kinds.policy import Fingerprint
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.kinds.source import MetricSource
from gatewright_analysis.reasons import Reason
from gatewright_analysis.world import UNWATCHED
from gatewright_operator.world_watch import Reading, WorldWatch, world_seen

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DOWN = Fault(Reason.UNREACHABLE, "the source can't be reached (MetricSource prometheus)")


def model(name: str = "judge-model", source: str = "prometheus") -> Fingerprint:
    return Fingerprint(name=name, source=source, series="judge_info", labels=("version",))


class Sources:
    """Each source says one version, a fault, or nothing at all while it hangs."""

    def __init__(self, **says: str | Fault) -> None:
        self.says: dict[str, str | Fault] = dict(says)
        self.hangs = asyncio.Event()
        self.hangs.set()
        self.asked: list[Question] = []

    def get(self, name: str) -> MetricSource | None:
        spec = {
            "address": "http://127.0.0.1:1", "scrapeInterval": "5s", "producer": "Judge",
            "arms": {"by": "PodName", "label": "pod"},
        }  # fmt: skip
        return MetricSource.model_validate({"spec": spec}) if name in self.says else None

    async def read_all(self, questions: Any) -> dict[Question, Answer]:
        asked = list(questions)
        self.asked += asked
        await self.hangs.wait()
        return {question: self._answer(question) for question in asked}

    def _answer(self, question: Question) -> Answer:
        says = self.says.get(question.source, Fault(Reason.SOURCE_NOT_FOUND, "there is none"))
        if isinstance(says, Fault):
            return says
        labels = labels_of({"__name__": "judge_info", "version": says})
        return Answered((Series(labels, (Sample(question.time, 1.0),)),))


def watch(sources: Sources) -> WorldWatch:
    return WorldWatch(sources)  # type: ignore[arg-type]  # plays the Sources


async def test_a_reading_is_shared_and_asked_anew_after_two_seconds() -> None:
    sources = Sources(prometheus="3")
    watched = watch(sources)
    first = await watched.read([model()], NOW)
    sources.says["prometheus"] = "4"
    soon = await watched.read([model()], NOW + timedelta(seconds=1.9))
    later = await watched.read([model()], NOW + timedelta(seconds=2))
    assert [one["judge-model"].value for one in (first, soon, later)] == [
        "version=3",
        "version=3",
        "version=4",
    ]
    assert len(sources.asked) == 2


async def test_a_source_that_fails_is_told_and_what_was_known_stays_known() -> None:
    sources = Sources(prometheus="3")
    watched = watch(sources)
    await watched.read([model()], NOW)
    sources.says["prometheus"] = DOWN
    reading = (await watched.read([model()], NOW + timedelta(seconds=9)))["judge-model"]
    assert (reading.value, reading.read_at) == ("version=3", NOW)
    assert reading.fault == Fault(DOWN.reason, f"judge-model can't be read: {DOWN.detail}")


async def test_a_source_that_hangs_is_not_waited_for_and_heard_when_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.01)
    sources = Sources(prometheus="3")
    sources.hangs.clear()
    watched = watch(sources)
    assert await watched.read([model()], NOW) == {}
    assert await watched.read([model()], NOW + timedelta(seconds=60)) == {}
    assert len(sources.asked) == 1, "one that hangs is not asked again and again"
    sources.hangs.set()
    await watched.answered([model()])
    assert watched.known([model()])["judge-model"].read_at == NOW, (
        "it says what was at the time of the question"
    )


async def test_one_source_that_hangs_does_not_keep_another_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.01)
    sources = Sources(prometheus="3", other="7")
    read_all = sources.read_all

    async def only_other(questions: Any) -> dict[Question, Answer]:
        asked = list(questions)
        if asked[0].source == "prometheus":
            await asyncio.Event().wait()
        return await read_all(asked)

    monkeypatch.setattr(sources, "read_all", only_other)
    known = await watch(sources).read([model(), model("llm", "other")], NOW)
    assert {name: one.value for name, one in known.items()} == {"llm": "version=7"}


async def test_a_source_that_does_not_exist_is_a_fault() -> None:
    reading = (await watch(Sources()).read([model()], NOW))["judge-model"]
    assert reading.read_at is None
    assert reading.fault is not None
    assert reading.fault.reason is Reason.SOURCE_NOT_FOUND


async def test_what_nobody_asks_about_any_more_is_forgotten() -> None:
    watched = watch(Sources(prometheus="3"))
    await watched.read([model("old")], NOW)
    await watched.read([model()], NOW + module.FORGET_AFTER)
    assert set(watched.known([model("old"), model()])) == {"judge-model"}


def run(**fingerprints: str) -> GateRun:
    """A gate of 60 s with windows of 10 s that began at NOW."""
    digest = "sha256:" + "0" * 64
    clock = {
        "startsAt": NOW, "weightAt": NOW, "duration": "60s", "maxDuration": "120s", "window": "10s", "interval": "5s",
    }  # fmt: skip
    spec = {
        "rollout": "checkout", "rolloutUID": "u", "revision": "0123456789", "step": "1", "weight": 5, "attempt": 1,
        "stage": "Canary", "contract": "checkout", "contractGeneration": 1, "contractDigest": digest,
        "worldSnapshot": digest, "checks": ["a"], "clock": clock, "canary": {"podPrefix": "c-"}, "eProcesses": 1,
        "fingerprints": [{"name": n.replace("_", "-"), "value": v} for n, v in fingerprints.items()],
    }  # fmt: skip
    return GateRun.model_validate({"spec": spec})


def read_at(seconds: float, value: str = "version=3", fault: Fault | None = None) -> dict[str, Reading]:
    at = NOW + timedelta(seconds=seconds)
    return {"judge-model": Reading(at, value, at, fault)}


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_a_run_without_fingerprints_is_not_watched() -> None:
    assert world_seen(run(), {}, at(60)) == UNWATCHED


@pytest.mark.parametrize(
    ("read", "now", "known"),
    [(50, 60, True), (49.9, 60, False), (60, 100, True), (59, 100, False), (95, 100, True)],
)
def test_a_promotion_rests_on_a_reading_of_the_last_window_or_after_the_duration(
    read: float, now: float, known: bool
) -> None:
    seen = world_seen(run(judge_model="version=3"), read_at(read), at(now))
    assert (seen.unknown is None, seen.drifted) == (known, "")


def test_what_was_never_read_is_unknown_and_no_drift() -> None:
    seen = world_seen(run(judge_model="version=3"), {}, at(60))
    assert seen.drifted == ""
    assert seen.unknown == Fault(Reason.TIMEOUT, "judge-model can't be read: its source has not answered yet")
    failed = {"judge-model": Reading(NOW, fault=DOWN)}
    assert world_seen(run(judge_model="version=3"), failed, at(60)).unknown == DOWN


def test_one_of_two_that_is_unknown_is_enough() -> None:
    both = run(judge_model="version=3", llm="version=7")
    assert world_seen(both, read_at(60), at(60)).unknown is not None


def test_another_value_is_a_drift_also_when_the_newest_question_failed() -> None:
    for fault in (None, DOWN):
        seen = world_seen(run(judge_model="version=3"), read_at(58, "version=4", fault), at(60))
        assert seen.drifted.startswith(
            "judge-model was version=3 when the attempt began and is version=4 now"
        )
