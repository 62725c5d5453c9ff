"""Pushed result files of a suite, window by window: scores, paired, and samples with a suite."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.record import CheckRecord
from gatewright_analysis.evidence.suites import Suite, wanted
from gatewright_analysis.judge import with_judge
from gatewright_analysis.reasons import Reason
from gatewright_analysis.task import Bounds
from gatewright_analysis.verdict import CheckResult
from gatewright_operator.errors import ApiError, Refused
from gatewright_operator.feeds.base import WindowFeed
from gatewright_operator.pushed_files import PushedFiles

SPACING_SECONDS: Final = 2.0
"""Between two looks at what was pushed."""
SETTLE_SECONDS: Final = 1.5
"""After a window's end before it is closed: creation times are known to the second, and clocks differ a little. By then
nothing that is still to come can carry a time inside it."""
MOST_CLUSTERS: Final = 40_000
"""Items of all result files of one gate together: what its stored evidence has room for."""


@dataclass(slots=True)
class SuiteFeed(WindowFeed):
    """Files are looked for where the MetricSource says, and counted here."""

    files: PushedFiles | None = None
    suite: Suite | None = None
    asked_at: float | None = None
    """When was last asked, in seconds after t0, whatever the answer was."""
    seen_at: float | None = None
    """When the last answer was asked for."""

    async def read(self, now: datetime) -> None:
        bounds, at = self._bounds, self.desk.clock(now).now
        if self.monitor.next_index > bounds.last_index or not self._due(at):
            return
        self.asked_at = at
        self.fault = self._connect()
        if self.fault is not None:
            return
        assert self.files is not None and self.suite is not None
        try:
            fresh = await self.files.look()
        except ApiError as error:
            self.fault = _unreadable(error, self.files.namespace)
            return
        self.seen_at = at
        for one in fresh:
            self.suite.see(one)
        while self.monitor.next_index <= bounds.last_index and self._closes(self.monitor.next_index) <= at:
            self.take((self.suite.close(self.monitor.next_index),))
        self.fault = self.suite.fault(unread=self.files.unread)

    def behind(self, now: datetime) -> bool:
        at, following = self.desk.clock(now).now, self.monitor.next_index
        return following <= self._bounds.last_index and self._closes(following) <= at and self._due(at)

    def result(self, now: datetime) -> CheckResult:
        # Not super(): a dataclass with slots is another class than the one it was written as.
        found = WindowFeed.result(self, now)
        return (
            found if self.suite is None else with_judge(self.task, found, self.suite.judge, self.suite.seed)
        )

    def record(self, now: datetime) -> CheckRecord:
        record, suite = WindowFeed.record(self, now), self.suite
        if suite is None:
            return record
        return replace(record, files=suite.files, judge=suite.judge, seed=suite.seed)

    @property
    def _bounds(self) -> Bounds:
        clock = self.desk.run.spec.clock
        return Bounds(
            clock.duration.total_seconds(), clock.max_duration.total_seconds(), clock.window.total_seconds()
        )

    def _closes(self, index: int) -> float:
        """Seconds after t0 from which on nothing can be added to a window."""
        return self._bounds.end_of(index) + SETTLE_SECONDS

    def _due(self, at: float) -> bool:
        if self.asked_at is None or at - self.asked_at >= SPACING_SECONDS:
            return True
        # The last look of all comes as early as it can, whenever the one before was.
        last = self._closes(self._bounds.last_index)
        return self.asked_at < last <= at

    def _connect(self) -> Fault | None:
        """Where the files lie, as soon as the source is there; until then why that is not known."""
        if self.files is not None:
            return None
        run, name = self.desk.run, self.evidence.source
        assert name is not None and self.evidence.suite is not None
        source = self.desk.sources.get(name)
        if source is None:
            return Fault(Reason.SOURCE_NOT_FOUND, f"MetricSource {name} does not exist")
        if source.spec.evidence is None:
            sentence = f"MetricSource {name} is a Prometheus and holds no result files"
            return Fault(Reason.SOURCE_KIND, f"{sentence}: name one with spec.evidence")
        namespace = source.spec.evidence.namespace or run.metadata.namespace
        contract, stage = self.desk.contract.spec, run.spec.stage
        sharing = [
            c
            for c in contract.checks
            if c.id in run.spec.checks
            and (entry := c.evidence_at(stage)) is not None
            and entry.suite is not None
        ]
        self.files = PushedFiles(self.desk.api, namespace, self.evidence.suite)
        self.suite = Suite(
            wanted(self.task, run.spec, namespace),
            t0=run.spec.clock.starts_at.timestamp(),
            window=run.spec.clock.window.total_seconds(),
            most_clusters=MOST_CLUSTERS // len(sharing),
        )
        return None

    def _window_pending(self, clock: object) -> bool:
        """A file may still count in a window that has ended; what is wrong with others does not change that."""
        return self.monitor.next_index <= self._bounds.last_index


def _unreadable(error: ApiError, namespace: str) -> Fault:
    if isinstance(error, Refused):
        said = f"the operator may not read ConfigMaps in {namespace}: give it the right of its chart"
        return Fault(Reason.UNAUTHORIZED, said)
    return Fault(
        Reason.UNREACHABLE, f"the ConfigMaps in {namespace} can't be read now: {error.message}"[:512]
    )
