"""What one run has seen so far: a collector and a monitor per counted check, facts about pods for the others."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from gatewright_analysis.evidence.collector import Collector
from gatewright_analysis.evidence.lint import arms_problem
from gatewright_analysis.evidence.model import Clock, Fault, PodFacts, Tick, Window
from gatewright_analysis.evidence.question import Answers, Question
from gatewright_analysis.facts import judge_pods
from gatewright_analysis.judge import CheckEvidence, Monitor, judge, monitor_for
from gatewright_analysis.kinds.contract import Check, Evidence, Stage
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.names import ROLLOUT_LABEL
from gatewright_analysis.reasons import Reason
from gatewright_analysis.task import Bounds, CheckTask, Prior
from gatewright_analysis.verdict import CheckResult
from gatewright_operator.api import Api
from gatewright_operator.cache import Cache
from gatewright_operator.evidence_store import CheckRecord, windows_of
from gatewright_operator.plan.snapshot import PinnedContract
from gatewright_operator.pods import facts
from gatewright_operator.resources import CONFIGMAPS, DEPLOYMENTS, GATE_RUNS, PODS
from gatewright_operator.sources import Sources

Json = dict[str, Any]

CATCH_UP_SECONDS = 0.25
"""Until the next look while a closed window could be read but was not yet."""
GRACE_WINDOWS = 2
"""Windows after `maxDuration` in which the last closed one may still arrive; then what is missing stays missing."""


@dataclass(slots=True)
class CheckState:
    """One check at this gate."""

    check: Check
    evidence: Evidence
    task: CheckTask
    monitor: Monitor | None
    collector: Collector | None = None
    windows: list[Window] = field(default_factory=list)
    ticks: tuple[Tick, ...] = ()
    pods: PodFacts | None = None
    fault: Fault | None = None

    def take(self, windows: tuple[Window, ...]) -> None:
        assert self.monitor is not None
        for window in windows:
            self.windows.append(window)
            self.monitor.add(window)


class RunState:
    """Kept between looks in memory only."""

    def __init__(
        self,
        *,
        api: Api,
        cache: Cache,
        sources: Sources,
        run: GateRun,
        contract: PinnedContract,
        checks: list[CheckState],
    ) -> None:
        self._api = api
        self._cache = cache
        self._sources = sources
        self.run = run
        self.contract = contract
        self._checks = checks

    @classmethod
    async def begin(
        cls, *, api: Api, cache: Cache, sources: Sources, run: GateRun, contract: PinnedContract
    ) -> Self:
        """A run at its first look, or after a restart: evidence of earlier attempts is read once, its own is asked for again."""
        prior_maps = [
            await _stored_evidence(api, cache, run.metadata.namespace, name) for name in run.spec.pooled_from
        ]
        by_id = {c.id: c for c in contract.spec.checks}
        bounds = Bounds(
            run.spec.clock.duration.total_seconds(),
            run.spec.clock.max_duration.total_seconds(),
            run.spec.clock.window.total_seconds(),
        )
        checks = []
        for check_id in run.spec.checks:
            check = by_id[check_id]
            entry = check.evidence_at(run.spec.stage)
            if entry is None:
                continue
            task = CheckTask(
                check=check,
                contract=contract.spec,
                stage=run.spec.stage,
                e_processes=run.spec.e_processes,
                has_stable=run.spec.stable is not None,
                prior=tuple(_prior(m, check_id) for m in prior_maps if m is not None),
            )
            checks.append(CheckState(check, entry, task, monitor_for(task, bounds)))
        return cls(api=api, cache=cache, sources=sources, run=run, contract=contract, checks=checks)

    def clock(self, now: datetime) -> Clock:
        clock = self.run.spec.clock
        return Clock(
            now=(now - clock.starts_at).total_seconds(),
            duration=clock.duration.total_seconds(),
            max_duration=clock.max_duration.total_seconds(),
            window=clock.window.total_seconds(),
        )

    def next_look(self, now: datetime) -> float:
        """Seconds until the next multiple of `interval` after t0, so that looks fall on the same times after a restart."""
        behind = any(
            c.collector is not None and c.fault is None and c.collector.window_pending(now.timestamp())
            for c in self._checks
        )
        interval = self.run.spec.clock.interval.total_seconds()
        if behind:
            return min(CATCH_UP_SECONDS, interval)
        since = (now - self.run.spec.clock.starts_at).total_seconds()
        return interval - since % interval

    def producer(self, check_id: str) -> str:
        entry = next((c.evidence for c in self._checks if c.check.id == check_id), None)
        if entry is None or entry.source is None:
            return "Platform"
        source = self._sources.get(entry.source)
        return source.spec.producer if source is not None else ""

    async def look(self, now: datetime) -> AsyncGenerator[None, None]:
        """Reads what is new for every check, and comes back whenever one more source has answered.

        A source that fails is a fault of its own checks only, and one that hangs does not delay the others.
        """
        asked: dict[str, list[CheckState]] = {}
        questions: dict[Question, None] = {}
        for state in self._checks:
            if state.evidence.kind == "pods":
                state.pods = await self._pod_facts(state)
            elif (collector := state.collector or self._connect(state)) is not None:
                asked.setdefault(state.evidence.source or "", []).append(state)
                questions |= dict.fromkeys(collector.questions(now.timestamp()))
        births = self._births()
        async for name, answers in self._sources.read_each(questions):
            for state in asked[name]:
                # Thousands of samples after a restart: not in the way of everybody else's looks.
                await asyncio.to_thread(self._absorb, state, answers, births, now)
            yield

    def _absorb(self, state: CheckState, answers: Answers, births: dict[str, float], now: datetime) -> None:
        collector, monitor = state.collector, state.monitor
        assert collector is not None and monitor is not None
        collector.absorb(answers, births)
        state.fault = collector.fault
        state.take(collector.windows())
        clock = self.clock(now)
        if clock.now > clock.max_duration + GRACE_WINDOWS * clock.window:
            state.take(collector.finish(self.run.spec.clock.starts_at.timestamp() + clock.max_duration))
        state.ticks = collector.ticks(now.timestamp())
        monitor.add_ticks(state.ticks)

    def _connect(self, state: CheckState) -> Collector | None:
        """A collector as soon as its source is there and may be used; until then the fault says why not."""
        run, name = self.run, state.evidence.source
        assert name is not None
        source = self._sources.get(name)
        if source is None:
            state.fault = Fault(Reason.SOURCE_NOT_FOUND, f"MetricSource {name} does not exist")
            return None
        if (problem := arms_problem(source, run.spec.canary, run.spec.stable)) is not None:
            state.fault = problem
            return None
        try:
            state.collector = Collector(
                evidence=state.evidence,
                source=source.spec,
                namespace=run.metadata.namespace,
                canary=run.spec.canary,
                stable=run.spec.stable,
                weight=run.spec.weight,
                t0=run.spec.clock.starts_at.timestamp(),
                window_seconds=run.spec.clock.window.total_seconds(),
                for_seconds=self.contract.spec.total_failure.for_.total_seconds(),
            )
        except ValueError as error:
            state.fault = Fault(Reason.INVALID_SPEC, str(error))
        return state.collector

    def results(self, clock: Clock) -> tuple[CheckResult, ...]:
        """Every check as it stands at this look."""
        results = []
        for state in self._checks:
            if state.evidence.kind == "pods":
                results.append(judge_pods(state.task, state.pods, clock, fault=state.fault))
            elif state.monitor is None:
                results.append(judge(state.task, CheckEvidence(fault=state.fault), clock))
            else:
                # A window that has just ended is on its way, unless the source is known to fail.
                ended = (state.monitor.next_index + 1) * clock.window <= clock.now
                pending = ended and state.fault is None
                results.append(state.monitor.result(clock, fault=state.fault, window_pending=pending))
        return tuple(results)

    def records(self) -> dict[str, CheckRecord]:
        return {
            s.check.id: CheckRecord(
                windows=tuple(s.windows),
                ticks=s.ticks,
                pods=s.pods,
                rendered=s.collector.rendered_digest if s.collector is not None else "",
            )
            for s in self._checks
        }

    def _pods(self) -> list[Json]:
        """Pods of the canary arm: by name, because that is what both stages have in common."""
        run = self.run
        pods = self._cache.all(PODS, run.metadata.namespace)
        return [
            p
            for p in pods
            if (p["metadata"].get("labels") or {}).get(ROLLOUT_LABEL) == run.spec.rollout
            and p["metadata"]["name"].startswith(run.spec.canary.pod_prefix)
        ]

    def _births(self) -> dict[str, float]:
        return {
            p["metadata"]["name"]: datetime.fromisoformat(p["metadata"]["creationTimestamp"]).timestamp()
            for p in self._pods()
        }

    async def _pod_facts(self, state: CheckState) -> PodFacts | None:
        run, pods_spec = self.run, state.evidence.pods
        assert pods_spec is not None
        if run.spec.stage is Stage.BAKE:
            pods = [
                p
                for p in await self._api.list(
                    PODS, run.metadata.namespace, labels=f"pod-template-hash={run.spec.canary.revision}"
                )
                if p["metadata"]["name"].startswith(run.spec.canary.pod_prefix)
            ]
        else:
            pods = self._pods()
        deployment = self._cache.get(DEPLOYMENTS, run.metadata.namespace, run.spec.canary.workload)
        expected = deployment["spec"].get("replicas", 1) if deployment is not None else 0
        return facts(
            pods,
            expected=expected,
            since=run.spec.clock.weight_at,
            containers=pods_spec.containers,
            baseline=0,
        )


async def _stored_evidence(api: Api, cache: Cache, namespace: str, run: str) -> tuple[Json, Json] | None:
    """(GateRun, evidence ConfigMap) of an earlier attempt; None where it left no evidence."""
    raw = cache.get(GATE_RUNS, namespace, run)
    reference = ((raw or {}).get("status") or {}).get("evidence")
    if raw is None or reference is None:
        return None
    stored = await api.get(CONFIGMAPS, namespace, reference["configMap"])
    return None if stored is None else (raw, stored)


def _prior(stored: tuple[Json, Json], check: str) -> Prior:
    run, evidence = stored
    results = run["status"]["verdict"].get("checks", ())
    used = any(r["id"] == check and (r.get("statistics") or {}).get("ticketUsed", False) for r in results)
    return Prior(windows=windows_of(evidence, check), ticket_used=used)
