"""Events from counters of a Prometheus, window by window: counts, latency, burnRate, and samples with passed and total."""

from dataclasses import dataclass, replace
from datetime import datetime

from gatewright_analysis.evidence.collector import Collector
from gatewright_analysis.evidence.lint import arms_problem
from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.question import Answers, Question
from gatewright_analysis.evidence.record import CheckRecord
from gatewright_analysis.reasons import Reason
from gatewright_analysis.total_failure import TotalFailureFound
from gatewright_operator.feeds.base import GRACE_WINDOWS, WindowFeed


@dataclass(slots=True)
class CounterFeed(WindowFeed):
    """Raw samples are asked for, and counted here."""

    collector: Collector | None = None
    _failed: TotalFailureFound | None = None
    """The total failure that `ticks` show."""

    def questions(self, now: datetime) -> tuple[Question, ...]:
        collector = self.collector or self._connect()
        return () if collector is None else collector.questions(now.timestamp())

    def absorb(self, answers: Answers, births: dict[str, float], now: datetime) -> None:
        collector, clock = self.collector, self.desk.clock(now)
        assert collector is not None
        collector.absorb(answers, births)
        self.fault = collector.fault
        self.take(collector.windows())
        if clock.now > clock.max_duration + GRACE_WINDOWS * clock.window:
            end = self.desk.run.spec.clock.starts_at.timestamp() + clock.max_duration
            self.take(collector.finish(end))
        ticks = collector.ticks(now.timestamp())
        self.monitor.add_ticks(ticks)
        if self.monitor.total_failure is None or self.monitor.total_failure != self._failed:
            # A failure that was found stays found; those that showed it would be forgotten before a later verdict.
            self.ticks, self._failed = ticks, self.monitor.total_failure

    def behind(self, now: datetime) -> bool:
        collector = self.collector
        return collector is not None and self.fault is None and collector.window_pending(now.timestamp())

    def record(self, now: datetime) -> CheckRecord:
        rendered = "" if self.collector is None else self.collector.rendered_digest
        # Not super(): a dataclass with slots is another class than the one it was written as.
        return replace(WindowFeed.record(self, now), rendered=rendered)

    def _connect(self) -> Collector | None:
        """A collector as soon as its source is there and may be used; until then the fault says why not."""
        run, name = self.desk.run, self.source
        assert name is not None
        source = self.desk.sources.get(name)
        if source is None:
            self.fault = Fault(Reason.SOURCE_NOT_FOUND, f"MetricSource {name} does not exist")
            return None
        if (problem := arms_problem(source, run.spec.canary, run.spec.stable)) is not None:
            self.fault = problem
            return None
        try:
            self.collector = Collector(
                evidence=self.evidence,
                source=source.spec,
                namespace=run.metadata.namespace,
                canary=run.spec.canary,
                stable=run.spec.stable,
                weight=run.spec.weight,
                t0=run.spec.clock.starts_at.timestamp(),
                window_seconds=run.spec.clock.window.total_seconds(),
                for_seconds=self.desk.contract.spec.total_failure.for_.total_seconds(),
            )
        except ValueError as error:
            self.fault = Fault(Reason.INVALID_SPEC, str(error))
        return self.collector
