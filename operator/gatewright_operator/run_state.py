"""What one run has seen so far: a feed for each check."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from typing import Any, Self

from gatewright_analysis.evidence.model import Clock
from gatewright_analysis.evidence.question import Question
from gatewright_analysis.evidence.record import RunRecord
from gatewright_analysis.kinds.base import format_time
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.ledger import Drawn, Draws
from gatewright_analysis.recall import cached, drawn, more_may_come, standing
from gatewright_analysis.task import CheckTask
from gatewright_analysis.verdict import CheckResult
from gatewright_analysis.waived import under_waivers
from gatewright_analysis.world import WorldSeen
from gatewright_operator.api import Api
from gatewright_operator.cache import Cache
from gatewright_operator.feeds.base import Desk, Feed
from gatewright_operator.feeds.make import feed_of
from gatewright_operator.plan.snapshot import PinnedContract
from gatewright_operator.pooling import Stored
from gatewright_operator.sources import Sources

Json = dict[str, Any]

CATCH_UP_SECONDS = 0.25
"""Until the next look while a closed window could be read but was not yet."""


class RunState:
    """Kept between looks in memory only."""

    def __init__(
        self, desk: Desk, feeds: list[Feed], drawn: Mapping[str, Drawn], evidence_of: Mapping[str, str]
    ) -> None:
        self._desk = desk
        self._feeds = feeds
        self._drawn = drawn
        """What other runs have drawn, by id of the check."""
        self._evidence_of = evidence_of
        """Digests of other runs' evidence that this one rests on, by run."""
        self.run = desk.run
        self.contract = desk.contract
        pinned = {one.name for one in desk.run.spec.fingerprints}
        self.fingerprints = tuple(f for f in desk.contract.spec.world.fingerprints if f.name in pinned)

    @classmethod
    async def begin(
        cls,
        *,
        api: Api,
        cache: Cache,
        sources: Sources,
        run: GateRun,
        contract: PinnedContract,
        draws: Draws,
    ) -> Self:
        """A run at its first look, or after a restart: evidence of earlier attempts is read once, its own is asked for
        again. `draws`: what the ledger remembers; a check that was judged already is not judged anew."""
        desk = Desk(api, cache, sources, run, contract)
        spec, namespace, name = run.spec, run.metadata.namespace, run.metadata.name
        stored = await Stored.read(api, cache, namespace, spec.pooled_from)
        earlier = await Stored.read(api, cache, namespace, spec.earlier_runs)
        by_id = {c.id: c for c in contract.spec.checks}
        feeds, before = [], dict[str, Drawn]()
        for check in (by_id[check_id] for check_id in spec.checks):
            entry = check.evidence_at(spec.stage)
            if entry is None:
                continue
            known = standing(check, contract.spec, spec, draws, run=name)
            prior = stored.attempts(spec, check.id)
            found = drawn(check, spec, draws, but=name)
            if found is not None:
                before[check.id] = found
                more = stored.draws(spec, check.id, found) if known is None else ()
                # Samples can't be added to what is lost: then the old answer stands.
                known, prior = (cached(check, spec, found), ()) if more is None else (known, more)
            # In a thread: planning the samples of a very strict limit takes a second of computing.
            task = await asyncio.to_thread(
                CheckTask,
                check=check,
                contract=contract.spec,
                stage=spec.stage,
                e_processes=spec.e_processes,
                has_stable=spec.stable is not None,
                prior=prior,
                earlier=earlier.windows(check.id),
                last_gate=spec.last_gate,
                cached=known,
            )
            feeds.append(feed_of(desk, check, entry, task))
        return cls(desk, feeds, before, {**stored.digests, **earlier.digests})

    def more_samples_may_come(self, result: CheckResult) -> bool:
        """A person may order more samples of this check after this run."""
        return more_may_come(result, self._drawn.get(result.id))

    def clock(self, now: datetime) -> Clock:
        return self._desk.clock(now)

    def next_look(self, now: datetime) -> float:
        """Seconds until the next multiple of `interval` after t0, so that looks fall on the same times after a restart."""
        interval = self.run.spec.clock.interval.total_seconds()
        if any(feed.behind(now) for feed in self._feeds):
            return min(CATCH_UP_SECONDS, interval)
        since = (now - self.run.spec.clock.starts_at).total_seconds()
        return interval - since % interval

    def producer(self, check_id: str) -> str:
        """Who makes the numbers of a check; the platform where no MetricSource is asked."""
        check = next((feed.check for feed in self._feeds if feed.check.id == check_id), None)
        entry = None if check is None else check.evidence_at(self.run.spec.stage)
        if entry is None or entry.source is None:
            return "Platform"
        source = self._desk.sources.get(entry.source)
        return source.spec.producer if source is not None else ""

    async def look(self, now: datetime) -> AsyncGenerator[None, None]:
        """Reads what is new for every check, and comes back whenever one more source has answered.

        A source that fails is a fault of its own checks only, and one that hangs does not delay the others.
        """
        asked: dict[str, list[Feed]] = {}
        questions: dict[Question, None] = {}
        for feed in self._feeds:
            await feed.read(now)
            if feed.source is not None and (wanted := feed.questions(now)):
                asked.setdefault(feed.source, []).append(feed)
                questions |= dict.fromkeys(wanted)
        births = self._desk.births()
        async for name, answers in self._desk.sources.read_each(questions):
            for feed in asked[name]:
                # Thousands of samples after a restart: not in the way of everybody else's looks.
                await asyncio.to_thread(feed.absorb, answers, births, now)
            yield

    def results(self, now: datetime) -> tuple[CheckResult, ...]:
        """Every check as it stands at this look, under the waivers that count at this moment."""
        found = (feed.result(now) for feed in self._feeds)
        return under_waivers(found, self.run.spec.waivers, self.contract.spec, now)

    def record(self, now: datetime, world: WorldSeen) -> RunRecord:
        """What the verdict of this look rests on."""
        spec = self.run.spec
        return RunRecord(
            run=self.run.metadata.name,
            stage=spec.stage,
            clock=self.clock(now),
            e_processes=spec.e_processes,
            has_stable=spec.stable is not None,
            last_gate=spec.last_gate,
            on_inconclusive=spec.on_inconclusive,
            pooled_from=spec.pooled_from,
            earlier_runs=spec.earlier_runs,
            expected=spec.checks,
            evidence_of=self._evidence_of,
            drifted=world.drifted,
            world_unknown=world.unknown,
            at=format_time(now) if spec.waivers else "",
            waivers=tuple(waiver.wire() for waiver in spec.waivers),
            checks={feed.check.id: feed.record(now) for feed in self._feeds},
        )
