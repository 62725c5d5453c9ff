"""The feed of one check at one gate."""

from gatewright_analysis.judge import monitor_for
from gatewright_analysis.kinds.contract import Check, Evidence
from gatewright_analysis.task import Bounds, CheckTask
from gatewright_operator.feeds.base import Desk, Feed
from gatewright_operator.feeds.counters import CounterFeed
from gatewright_operator.feeds.facts import CachedFeed, PodsFeed
from gatewright_operator.feeds.jobs import JobFeed


def feed_of(desk: Desk, check: Check, evidence: Evidence, task: CheckTask) -> Feed:
    """Where the evidence of `check` comes from. Raises ValueError for a kind that nothing reads."""
    if task.cached is not None:
        return CachedFeed(desk, check, evidence, task)
    if evidence.pods is not None:
        return PodsFeed(desk, check, evidence, task)
    if evidence.job is not None:
        return JobFeed(desk, check, evidence, task)
    clock = desk.run.spec.clock
    bounds = Bounds(
        clock.duration.total_seconds(), clock.max_duration.total_seconds(), clock.window.total_seconds()
    )
    monitor = monitor_for(task, bounds)
    if monitor is not None and evidence.from_counters:
        return CounterFeed(desk, check, evidence, task, monitor, source=evidence.source)
    raise ValueError(f"nothing reads evidence of the kind {evidence.kind}")
