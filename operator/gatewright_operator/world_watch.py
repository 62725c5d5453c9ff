"""What models and judges say of themselves now: asked of their MetricSources at most every two seconds, however many want to know."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from gatewright_analysis.evidence.fingerprints import fingerprint_question, read_fingerprint
from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.question import Question
from gatewright_analysis.kinds.policy import Fingerprint
from gatewright_analysis.kinds.run import FingerprintValue, GateRun
from gatewright_analysis.reasons import Reason
from gatewright_analysis.world import UNWATCHED, WorldSeen, drift
from gatewright_operator.sources import Sources

READ_EVERY = timedelta(seconds=2)
"""A reading younger than this is not asked for again."""
PATIENCE_SECONDS = 2.0
"""How long a decision waits for an answer. A source that takes longer is heard when it answers, by the next look."""
FORGET_AFTER = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Reading:
    """The newest that is known of one fingerprint."""

    asked_at: datetime
    value: str = ""
    """The last that could be read, at `read_at`."""
    read_at: datetime | None = None
    fault: Fault | None = None
    """Why the newest question got no value; None when it did."""


class WorldWatch:
    """Readings of one operator process, kept in memory: a restart asks again."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._readings: dict[Fingerprint, Reading] = {}
        self._asking: dict[Fingerprint, asyncio.Task[None]] = {}

    async def read(self, fingerprints: Iterable[Fingerprint], now: datetime) -> dict[str, Reading]:
        """What is known, asked anew where that is too old; waits for answers no longer than `PATIENCE_SECONDS`."""
        wanted = tuple(fingerprints)
        self.ask(wanted, now)
        await self.answered(wanted)
        return self.known(wanted)

    def known(self, fingerprints: Iterable[Fingerprint]) -> dict[str, Reading]:
        """The newest readings by name, however old; without those that nobody has answered yet."""
        return {f.name: self._readings[f] for f in fingerprints if f in self._readings}

    def ask(self, fingerprints: Iterable[Fingerprint], now: datetime) -> None:
        """Puts the questions that are due, and does not wait."""
        by_source: dict[str, list[Fingerprint]] = {}
        for one in fingerprints:
            known = self._readings.get(one)
            if one not in self._asking and (known is None or now - known.asked_at >= READ_EVERY):
                by_source.setdefault(one.source, []).append(one)
        for due in by_source.values():
            task = asyncio.create_task(self._ask(due, now), name="world")
            self._asking |= dict.fromkeys(due, task)

    async def answered(self, fingerprints: Iterable[Fingerprint]) -> None:
        """Waits until nothing is being asked, or patience is at its end."""
        tasks = {self._asking[one] for one in fingerprints if one in self._asking}
        if tasks:
            done, _ = await asyncio.wait(tasks, timeout=PATIENCE_SECONDS)
            for task in done:
                task.result()

    async def _ask(self, due: list[Fingerprint], now: datetime) -> None:
        try:
            asked: dict[Fingerprint, Question] = {}
            for one in due:
                try:
                    asked[one] = fingerprint_question(one, self._scrape_seconds(one), now.timestamp())
                except ValueError as error:
                    self._take(one, Fault(Reason.INVALID_SPEC, f"{one.name}: {error}"), now)
            answers = await self._sources.read_all(asked.values())
            for one, question in asked.items():
                seconds = self._scrape_seconds(one)
                self._take(one, read_fingerprint(one, seconds, question.time, answers[question]), now)
        finally:
            for one in due:
                self._asking.pop(one, None)
            self._readings = {f: r for f, r in self._readings.items() if now - r.asked_at < FORGET_AFTER}

    def _scrape_seconds(self, fingerprint: Fingerprint) -> float:
        """Of its source; any number will do for one that is missing, which answers with a fault."""
        source = self._sources.get(fingerprint.source)
        return 1.0 if source is None else source.spec.scrape_interval.total_seconds()

    def _take(self, fingerprint: Fingerprint, found: str | Fault, now: datetime) -> None:
        if not isinstance(found, Fault):
            self._readings[fingerprint] = Reading(now, found, now)
            return
        before = self._readings.get(fingerprint, Reading(now))
        self._readings[fingerprint] = Reading(now, before.value, before.read_at, found)


def drift_since(pinned: Iterable[FingerprintValue], readings: Mapping[str, Reading]) -> str:
    """What of the world that an attempt is bound to is known to be another now, as a sentence; empty: nothing."""
    now = {name: reading.value for name, reading in readings.items() if reading.read_at is not None}
    return drift({one.name: one.value for one in pinned}, now)


def world_seen(run: GateRun, readings: Mapping[str, Reading], now: datetime) -> WorldSeen:
    """The world as a look at `run` knows it. For a promotion every fingerprint must have been read within the last window,
    or after the gate's duration was over."""
    pinned = run.spec.fingerprints
    if not pinned:
        return UNWATCHED
    clock = run.spec.clock
    since = min(clock.starts_at + clock.duration, now - clock.window)
    return WorldSeen(drift_since(pinned, readings), _unknown(pinned, readings, since))


def _unknown(
    pinned: tuple[FingerprintValue, ...], readings: Mapping[str, Reading], since: datetime
) -> Fault | None:
    for one in pinned:
        reading = readings.get(one.name)
        if reading is None or reading.read_at is None or reading.read_at < since:
            return not_read(one.name, reading)
    return None


def not_read(name: str, reading: Reading | None) -> Fault:
    """Why there is no value that is new enough."""
    if reading is not None and reading.fault is not None:
        return reading.fault
    return Fault(Reason.TIMEOUT, f"{name} can't be read: its source has not answered yet")
