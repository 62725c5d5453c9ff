"""Ticks a GateRun: at each look collect, judge, decide; write the verdict once. A look that changes nothing writes nothing.

What is kept between looks can be asked again: windows lie at t0 + k · window and are read at explicit times, so an
operator that starts anew asks the same questions and comes to the same verdict.
"""

import logging
from collections.abc import Callable
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from gatewright_analysis.decide import Outcome, decide
from gatewright_analysis.evidence.packed import encode
from gatewright_analysis.evidence.record import RunRecord
from gatewright_analysis.growing import blocks_more
from gatewright_analysis.kinds.rollout import Phase, Rollout
from gatewright_analysis.kinds.run import GateRun, RunPhase
from gatewright_analysis.ledger import Draws
from gatewright_analysis.reasons import Reason
from gatewright_analysis.verdict import CheckResult, Decision, Verdict
from gatewright_operator.api import Api
from gatewright_operator.apply import owner_reference
from gatewright_operator.cache import Cache
from gatewright_operator.errors import AlreadyExists
from gatewright_operator.evidence_store import manifest
from gatewright_operator.forecast import Forecasts
from gatewright_operator.keys import Key
from gatewright_operator.metrics import Gauge, Metrics
from gatewright_operator.plan.snapshot import PinnedContract
from gatewright_operator.queue import WorkQueue
from gatewright_operator.resources import CONFIGMAPS, GATE_RUNS, ROLLOUTS
from gatewright_operator.run_state import RunState
from gatewright_operator.source_health import SourceHealth
from gatewright_operator.sources import Sources
from gatewright_operator.verdicts import verdict_of
from gatewright_operator.world_watch import WorldWatch, world_seen

log = logging.getLogger(__name__)

Json = dict[str, Any]

NOT_CURRENT_SECONDS = 2.0


def _no_contract(namespace: str, rollout: str, digest: str) -> PinnedContract | None:
    return None


def _no_draws(namespace: str, rollout: str) -> Draws:
    return Draws()


class RunTicker:
    """All runs of one operator process."""

    def __init__(
        self, *, api: Api, cache: Cache, queue: WorkQueue[Key], metrics: Metrics, namespace: str
    ) -> None:
        self._api = api
        self._cache = cache
        self._queue = queue
        self._metrics = metrics
        self._sources = Sources(api, cache, metrics, namespace=namespace)
        self.health = SourceHealth(api, cache, self._sources)
        self._sources.on_fault = self._doubt
        self.watch = WorldWatch(self._sources)
        self.forecasts = Forecasts(self._sources)
        self._states: dict[Key, RunState] = {}
        self.contract_by_digest: Callable[[str, str, str], PinnedContract | None] = _no_contract
        self.draws: Callable[[str, str], Draws] = _no_draws

    def _doubt(self, source: str) -> None:
        """A look got no answer: the source is asked now, not when its turn comes, because clocks stop while it is down."""
        if self.health.doubt(source):
            self._queue.add(Key("source", "", source))

    def forget(self, key: Key) -> None:
        state = self._states.pop(key, None)
        if state is not None:
            for gauge in self._gauges():
                for check in state.run.spec.checks:
                    gauge.remove(**_labels(state.run, check))

    def _gauges(self) -> tuple[Gauge, ...]:
        m = self._metrics
        return (
            m.check_good_ratio,
            m.check_lower_bound,
            m.check_upper_bound,
            m.check_threshold,
            m.check_samples,
        )

    def _show(self, run: GateRun, results: tuple[CheckResult, ...]) -> None:
        """What the last look found, for dashboards: it costs no API write there."""
        for result in results:
            values = (result.score, result.ci_lower, result.ci_upper, result.threshold, float(result.samples))
            for gauge, value in zip(self._gauges(), values, strict=True):
                if value is not None:
                    gauge.set(value, **_labels(run, result.id))

    async def tick(self, key: Key, raw: Json) -> float | None:
        """One look. Seconds until the next one, None when the run needs no more."""
        run = GateRun.model_validate(raw)
        rollout_raw = self._cache.get(ROLLOUTS, key.namespace, run.spec.rollout)
        if rollout_raw is None or rollout_raw["metadata"]["uid"] != run.spec.rollout_uid:
            self.forget(key)
            return None
        rollout = Rollout.model_validate(rollout_raw)
        wanted = _wanted(run, rollout)
        if wanted is not None:
            if wanted < 0:
                self.forget(key)
                return None
            return wanted
        now = datetime.now(UTC)
        started = monotonic()
        state = self._states.get(key) or await self._state(key, run)
        if state is None:
            return 1.0
        self._states[key] = state
        before = (run.spec.clock.weight_at - now).total_seconds()
        if before > 0:
            return before
        self.watch.ask(state.fingerprints, now)
        convicted = False
        async with aclosing(state.look(now)) as looks:
            async for _ in looks:
                if convicted := self._convicts(run, state, now):
                    break
        if not convicted:
            await self.watch.answered(state.fingerprints)
        delay = await self._judge(key, raw, run, rollout, state, now)
        spent = monotonic() - started
        return None if delay is None else max(0.05, delay - spent)

    async def _state(self, key: Key, run: GateRun) -> RunState | None:
        contract = self._pinned(key.namespace, run)
        if contract is None:
            log.warning("the pinned contract is not in the ledger yet", extra={"run": run.metadata.name})
            return None
        return await RunState.begin(
            api=self._api,
            cache=self._cache,
            sources=self._sources,
            run=run,
            contract=contract,
            draws=self.draws(key.namespace, run.spec.rollout),
        )

    def _pinned(self, namespace: str, run: GateRun) -> PinnedContract | None:
        return self.contract_by_digest(namespace, run.spec.rollout, run.spec.contract_digest)

    def _convicts(self, run: GateRun, state: RunState, now: datetime) -> bool:
        """A proven breach does not wait for the sources that have not answered yet; everything else does."""
        clock = state.clock(now)
        outcome = decide(
            state.results(now),
            state.contract.spec,
            clock,
            expected=run.spec.checks,
            stage=run.spec.stage,
            last_gate=run.spec.last_gate,
            on_inconclusive=run.spec.on_inconclusive,
        )
        return outcome.decision is Decision.ROLLBACK

    async def _judge(
        self, key: Key, raw: Json, run: GateRun, rollout: Rollout, state: RunState, now: datetime
    ) -> float | None:
        clock = state.clock(now)
        results = state.results(now)
        world = world_seen(run, self.watch.known(state.fingerprints), now)
        self._show(run, results)
        outcome = decide(
            results,
            state.contract.spec,
            clock,
            expected=run.spec.checks,
            stage=run.spec.stage,
            last_gate=run.spec.last_gate,
            on_inconclusive=run.spec.on_inconclusive,
            drifted=world.drifted,
            world_unknown=world.unknown,
        )
        held = run.status.verdict is not None
        if held and world.drifted and _is_news(rollout):
            self._queue.add(Key("rollout", key.namespace, rollout.metadata.name))
        slot = "breach" if held else "verdict"
        # While nothing moves, only a breach ends a run: its verdict is due when somebody has ordered Resume.
        if (held or _is_watched(run, rollout)) and outcome.decision is not Decision.ROLLBACK:
            wider = _wider(run, rollout, state, results) if held else None
            if wider is None:
                return state.next_look(now)
            slot, outcome = "held", wider
        if outcome.decision is None:
            return state.next_look(now)
        await self._write(
            key, raw, run, state.record(now, world), verdict_of(run, state, results, outcome, now), slot=slot
        )
        self._queue.add(Key("rollout", key.namespace, rollout.metadata.name))
        self._metrics.verdicts.inc(decision=outcome.decision, reason=outcome.reason)
        self._metrics.time_to_decision.observe(max(0.0, clock.now), decision=outcome.decision)
        if outcome.decision is Decision.HOLD:
            return state.next_look(now)
        self.forget(key)
        return None

    async def _write(
        self, key: Key, raw: Json, run: GateRun, record: RunRecord, verdict: Verdict, *, slot: str
    ) -> None:
        """Evidence first, then the verdict that names its digest; the GateRun's resourceVersion lets only one through.

        `slot`: its field in the GateRun's status. The one verdict that ended the gate keeps its evidence there.
        """
        evidence, digest = encode(record)
        # Named by what it holds: a crash before the verdict leaves a record that no verdict names, and no conflict.
        name = f"{run.metadata.name}-{digest[7:17]}"
        owner = owner_reference({**raw, "kind": GATE_RUNS.kind, "apiVersion": GATE_RUNS.api_version})
        body = manifest(name, key.namespace, run.spec.rollout, owner, evidence, digest)
        verdict = verdict.model_copy(update={"evidence_digest": digest})
        with suppress(AlreadyExists):
            await self._api.create(CONFIGMAPS, key.namespace, body)
        status: Json = {
            "phase": RunPhase.DECIDED,
            "message": verdict.message,
        }
        status[slot] = verdict.wire()
        if slot == "verdict":
            status["evidence"] = {"configMap": name, "digest": digest}
        answer = await self._api.patch(
            GATE_RUNS,
            key.namespace,
            run.metadata.name,
            {"status": status},
            subresource="status",
            resource_version=run.metadata.resource_version,
        )
        self._cache.put(GATE_RUNS, answer)
        log.info(
            "verdict",
            extra={
                "run": run.metadata.name,
                "namespace": key.namespace,
                "decision": verdict.decision,
                "reason": verdict.reason,
            },
        )


def _labels(run: GateRun, check: str) -> dict[str, str]:
    return {
        "namespace": run.metadata.namespace,
        "rollout": run.spec.rollout,
        "step": run.spec.step,
        "check": check,
    }


def _wider(
    run: GateRun, rollout: Rollout, state: RunState, results: tuple[CheckResult, ...]
) -> Outcome | None:
    """More that blocks than what is held now, where the Rollout has taken in what was found before."""
    held, hold = run.status.held or run.status.verdict, rollout.status.hold
    if held is None or hold is None or not hold.blocking or hold.evidence_digest != held.evidence_digest:
        return None
    return blocks_more(results, state.contract.spec, held, stage=run.spec.stage, last_gate=run.spec.last_gate)


def _is_news(rollout: Rollout) -> bool:
    """The Rollout is held for another reason than a world that drifted."""
    hold = rollout.status.hold
    return hold is not None and hold.reason != Reason.WORLD_DRIFTED


def _is_watched(run: GateRun, rollout: Rollout) -> bool:
    """It goes on looking for a breach while the Rollout is paused."""
    paused = rollout.status.paused
    return paused is not None and paused.run == run.metadata.name


def _step_of(rollout: Rollout) -> str:
    status = rollout.status
    baking = status.phase is Phase.BAKING or (status.hold is not None and status.hold.step == "bake")
    return "bake" if baking else str(status.current_step)


def _wanted(run: GateRun, rollout: Rollout) -> float | None:
    """None: look now. A negative number: never again. Else: seconds until it is worth asking again."""
    status, verdict = rollout.status, run.status.verdict
    if status.canary is None or status.canary.revision != run.spec.revision or run.status.breach is not None:
        return -1.0
    if _is_watched(run, rollout):
        return -1.0 if verdict is not None and verdict.decision is Decision.ROLLBACK else None
    if verdict is None:
        on_its_way = status.phase in (Phase.PROGRESSING, Phase.BAKING, Phase.HELD)
        # A gate that an Override passed over is judged no more.
        current = (run.spec.step, run.spec.attempt) == (_step_of(rollout), status.attempt)
        return None if on_its_way and current else NOT_CURRENT_SECONDS
    if verdict.decision is not Decision.HOLD:
        return -1.0
    if status.hold is not None and status.hold.run == run.metadata.name:
        return None
    # The Rollout has not taken the HOLD in yet, or a person has ended it.
    return NOT_CURRENT_SECONDS if status.phase is Phase.PROGRESSING else -1.0
