"""What all feeds have in common, and the context that they work in."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from gatewright_analysis.evidence.model import Clock, Fault, Tick, Window
from gatewright_analysis.evidence.question import Answers, Question
from gatewright_analysis.evidence.record import CheckRecord, PriorRecord
from gatewright_analysis.judge import Monitor
from gatewright_analysis.kinds.contract import Check, Evidence
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.names import ROLLOUT_LABEL
from gatewright_analysis.task import CheckTask
from gatewright_analysis.verdict import CheckResult
from gatewright_operator.api import Api
from gatewright_operator.cache import Cache
from gatewright_operator.plan.snapshot import PinnedContract
from gatewright_operator.resources import PODS
from gatewright_operator.sources import Sources

Json = dict[str, Any]

GRACE_WINDOWS = 2
"""Windows after `maxDuration` in which the last closed one may still arrive; then what is missing stays missing."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What feeds read with, and what they read for."""

    api: Api
    cache: Cache
    sources: Sources
    run: GateRun
    contract: PinnedContract

    def clock(self, now: datetime) -> Clock:
        clock = self.run.spec.clock
        return Clock(
            now=(now - clock.starts_at).total_seconds(),
            duration=clock.duration.total_seconds(),
            max_duration=clock.max_duration.total_seconds(),
            window=clock.window.total_seconds(),
        )

    def canary_pods(self) -> list[Json]:
        """Pods of the canary arm: by name, because that is what both stages have in common."""
        run = self.run
        return [
            p
            for p in self.cache.all(PODS, run.metadata.namespace)
            if (p["metadata"].get("labels") or {}).get(ROLLOUT_LABEL) == run.spec.rollout
            and p["metadata"]["name"].startswith(run.spec.canary.pod_prefix)
        ]

    def births(self) -> dict[str, float]:
        """Unix times at which the canary's pods were created."""
        return {
            p["metadata"]["name"]: datetime.fromisoformat(p["metadata"]["creationTimestamp"]).timestamp()
            for p in self.canary_pods()
        }


def priors(task: CheckTask) -> tuple[PriorRecord, ...]:
    """Which earlier attempts the check rests on, for its record."""
    return tuple(PriorRecord(own.run, own.ticket_used, () if own.run else own.windows) for own in task.prior)


class Feed(Protocol):
    """The evidence of one check at one gate, kept between looks in memory only."""

    check: Check
    source: str | None
    """MetricSource whose questions it asks; None where it reads elsewhere, in `read`."""

    def questions(self, now: datetime) -> tuple[Question, ...]:
        """What to ask the MetricSource at this look."""
        ...

    def absorb(self, answers: Answers, births: dict[str, float], now: datetime) -> None:
        """Takes the answers to its own questions. Runs in a thread: it may take a while after a restart."""
        ...

    async def read(self, now: datetime) -> None:
        """Reads what is no question to a MetricSource: pods, Jobs, result files."""
        ...

    def behind(self, now: datetime) -> bool:
        """A closed window could be read by now, and was not yet."""
        ...

    def result(self, now: datetime) -> CheckResult:
        """The check as it stands."""
        ...

    def record(self, now: datetime) -> CheckRecord:
        """What the result rests on."""
        ...


@dataclass(slots=True)
class WindowFeed:
    """A feed that is judged window by window; what differs is where the windows come from."""

    desk: Desk
    check: Check
    evidence: Evidence
    task: CheckTask
    monitor: Monitor
    source: str | None = None
    windows: list[Window] = field(default_factory=list)
    ticks: tuple[Tick, ...] = ()
    fault: Fault | None = None

    def questions(self, now: datetime) -> tuple[Question, ...]:
        return ()

    def absorb(self, answers: Answers, births: dict[str, float], now: datetime) -> None:
        raise NotImplementedError(f"{type(self).__name__} asks no questions")

    async def read(self, now: datetime) -> None:
        return None

    def behind(self, now: datetime) -> bool:
        return False

    def take(self, windows: tuple[Window, ...]) -> None:
        for window in windows:
            self.windows.append(window)
            self.monitor.add(window)

    def _window_pending(self, clock: Clock) -> bool:
        """A window that has just ended is on its way, unless the source is known to fail."""
        return (self.monitor.next_index + 1) * clock.window <= clock.now and self.fault is None

    def result(self, now: datetime) -> CheckResult:
        clock = self.desk.clock(now)
        return self.monitor.result(clock, fault=self.fault, window_pending=self._window_pending(clock))

    def record(self, now: datetime) -> CheckRecord:
        return CheckRecord(
            windows=tuple(self.windows),
            ticks=self.ticks,
            fault=self.fault,
            window_pending=self._window_pending(self.desk.clock(now)),
            prior=priors(self.task),
        )
