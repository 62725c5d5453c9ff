"""A gauge of a Prometheus, read at the end of windows that lie `spacing` apart: the kind `value`."""

from dataclasses import dataclass, replace
from datetime import datetime

from gatewright_analysis.evidence.gauges import GaugeCollector
from gatewright_analysis.evidence.lint import arms_problem
from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.question import Answers, Question
from gatewright_analysis.evidence.record import CheckRecord
from gatewright_analysis.kinds.evidence import ValueScope
from gatewright_analysis.reasons import Reason
from gatewright_operator.feeds.base import GRACE_WINDOWS, WindowFeed


@dataclass(slots=True)
class GaugeFeed(WindowFeed):
    """One query for each reading; the canary's arm alone, or both arms' namespace."""

    collector: GaugeCollector | None = None

    def questions(self, now: datetime) -> tuple[Question, ...]:
        collector = self.collector or self._connect()
        if collector is None:
            return ()
        asked = collector.questions(now.timestamp())
        # Windows without a reading close with time alone, whether something is asked or not.
        self.take(collector.windows())
        return asked

    def absorb(self, answers: Answers, births: dict[str, float], now: datetime) -> None:
        collector, clock = self.collector, self.desk.clock(now)
        assert collector is not None
        collector.absorb(answers, now.timestamp())
        self.fault = collector.fault
        self.take(collector.windows())
        if clock.now > clock.max_duration + GRACE_WINDOWS * clock.window:
            end = self.desk.run.spec.clock.starts_at.timestamp() + clock.max_duration
            self.take(collector.finish(end))

    def behind(self, now: datetime) -> bool:
        collector = self.collector
        return collector is not None and self.fault is None and collector.window_pending(now.timestamp())

    def record(self, now: datetime) -> CheckRecord:
        rendered = "" if self.collector is None else self.collector.rendered_digest
        # Not super(): a dataclass with slots is another class than the one it was written as.
        return replace(WindowFeed.record(self, now), rendered=rendered)

    def _connect(self) -> GaugeCollector | None:
        """A collector as soon as its source is there and may be used; until then the fault says why not."""
        run, name, spec = self.desk.run, self.source, self.evidence.value
        assert name is not None
        assert spec is not None
        source = self.desk.sources.get(name)
        if source is None:
            self.fault = Fault(Reason.SOURCE_NOT_FOUND, f"MetricSource {name} does not exist")
            return None
        own = spec.scope is ValueScope.CANARY
        if own and (problem := arms_problem(source, run.spec.canary, run.spec.stable)) is not None:
            self.fault = problem
            return None
        try:
            self.collector = GaugeCollector(
                evidence=self.evidence,
                source=source.spec,
                namespace=run.metadata.namespace,
                canary=run.spec.canary,
                t0=run.spec.clock.starts_at.timestamp(),
                window_seconds=run.spec.clock.window.total_seconds(),
            )
        except ValueError as error:
            self.fault = Fault(Reason.INVALID_SPEC, str(error))
        return self.collector
