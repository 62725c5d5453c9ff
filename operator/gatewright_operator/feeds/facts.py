"""Feeds that rest on facts of the cluster, and those whose result stands already."""

from dataclasses import dataclass
from datetime import datetime

from gatewright_analysis.evidence.model import Fault, PodFacts
from gatewright_analysis.evidence.question import Answers, Question
from gatewright_analysis.evidence.record import CheckRecord
from gatewright_analysis.facts import judge_pods
from gatewright_analysis.kinds.contract import Check, Evidence, Stage
from gatewright_analysis.task import CheckTask
from gatewright_analysis.verdict import CheckResult
from gatewright_operator.feeds.base import Desk, priors
from gatewright_operator.pods import facts
from gatewright_operator.resources import DEPLOYMENTS, PODS


@dataclass(slots=True)
class FactFeed:
    """A feed that asks no MetricSource."""

    desk: Desk
    check: Check
    evidence: Evidence
    task: CheckTask
    source: str | None = None
    fault: Fault | None = None

    def questions(self, now: datetime) -> tuple[Question, ...]:
        return ()

    def absorb(self, answers: Answers, births: dict[str, float], now: datetime) -> None:
        raise NotImplementedError(f"{type(self).__name__} asks no questions")

    async def read(self, now: datetime) -> None:
        return None

    def behind(self, now: datetime) -> bool:
        return False


@dataclass(slots=True)
class PodsFeed(FactFeed):
    """The canary's own pods."""

    pods: PodFacts | None = None

    async def read(self, now: datetime) -> None:
        run, spec = self.desk.run, self.evidence.pods
        assert spec is not None
        if run.spec.stage is Stage.BAKE:
            of_revision = f"pod-template-hash={run.spec.canary.revision}"
            found = await self.desk.api.list(PODS, run.metadata.namespace, labels=of_revision)
            pods = [p for p in found if p["metadata"]["name"].startswith(run.spec.canary.pod_prefix)]
        else:
            pods = self.desk.canary_pods()
        deployment = self.desk.cache.get(DEPLOYMENTS, run.metadata.namespace, run.spec.canary.workload)
        expected = deployment["spec"].get("replicas", 1) if deployment is not None else 0
        self.pods = facts(
            pods,
            expected=expected,
            since=run.spec.clock.weight_at,
            containers=spec.containers,
            baseline=0,
        )

    def result(self, now: datetime) -> CheckResult:
        return judge_pods(self.task, self.pods, self.desk.clock(now), fault=self.fault)

    def record(self, now: datetime) -> CheckRecord:
        return CheckRecord(pods=self.pods, fault=self.fault, prior=priors(self.task))


@dataclass(slots=True)
class CachedFeed(FactFeed):
    """A sampled check that was judged already on the same artifact, contract and world: asking again is no new draw."""

    def result(self, now: datetime) -> CheckResult:
        assert self.task.cached is not None
        return self.task.cached

    def record(self, now: datetime) -> CheckRecord:
        assert self.task.cached is not None
        return CheckRecord(cached_from=self.task.cached.cached_from, cached=self.task.cached.wire())
