"""One operator process on the simulated world, and the course of a simulation: who acts next until all is quiet.

The real Intake, Cache, Reconciler, Observer, planner, Applier and LedgerStore; only the judge and the network are played.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.kinds.policy import Fingerprint
from gatewright_analysis.kinds.rollout import Phase, Rollout
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.reasons import Reason
from gatewright_operator.cache import Cache
from gatewright_operator.errors import ApiError, Conflict
from gatewright_operator.intake import Intake
from gatewright_operator.keys import Key
from gatewright_operator.metrics import Metrics
from gatewright_operator.plan.actions import Emit
from gatewright_operator.plan.core import plan
from gatewright_operator.reconcile import Reconciler
from gatewright_operator.resources import GATE_RUNS, ROLLOUTS
from gatewright_operator.watched import WATCHED
from gatewright_operator.world_watch import Reading
from tests.property.sim_api import Client, Object, labels_match
from tests.property.sim_objects import NAME, NAMESPACE
from tests.property.sim_world import STEP_SECONDS, Judge, World, give_verdict

HOT = 60
"""Reconciles without a tick of the clock; more is a loop."""
ROUNDS = 600
KEY = Key("rollout", NAMESPACE, NAME)


class Crash(BaseException):
    """The process is gone: nothing it would have done next happens."""


class Queue:
    """The work queue in simulated time."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._due: dict[Key, None] = {}
        self._later: dict[Key, datetime] = {}

    def add(self, key: Key) -> None:
        self._due[key] = None

    def add_after(self, key: Key, seconds: float) -> None:
        at = self._now() + timedelta(seconds=seconds)
        self._later[key] = min(at, self._later.get(key, at))

    def take(self) -> Key | None:
        for key, at in list(self._later.items()):
            if at <= self._now():
                self._due[key] = None
        key = next(iter(self._due), None)
        if key is not None:
            del self._due[key]
            self._later.pop(key, None)
        return key

    def next_at(self) -> datetime | None:
        return min(self._later.values(), default=None)


class Recorder:
    """Events, in the order they were told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def event(self, regarding: Object, type: str, reason: str, message: str, action: str) -> None:
        self.told.append((str(reason), message))


class _NoTicker:
    """Runs are judged by the simulation, so their keys are not worked on."""

    contract_by_digest: Any = None
    watch: Any = None

    def __init__(self, watch: Any) -> None:
        self.watch = watch


class _PlayedWatch:
    """What models and judges say of themselves, as the world has it."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def read(self, fingerprints: tuple[Fingerprint, ...], now: datetime) -> dict[str, Reading]:
        return self.known(fingerprints)

    def known(self, fingerprints: tuple[Fingerprint, ...]) -> dict[str, Reading]:
        now, says = self._world.now, self._world.fingerprints
        silent = Fault(Reason.UNREACHABLE, "judge-model can't be read: its source is away")
        return {
            f.name: Reading(now, says[f.name], now) if f.name in says else Reading(now, fault=silent)
            for f in fingerprints
        }


class Process:
    """An operator with an empty memory, started at this moment."""

    def __init__(self, world: World, client: Client | None = None, *, check_idempotent: bool = False) -> None:
        self.world = world
        self.client = client or Client(world.api)
        self.cache = Cache()
        self.queue = Queue(lambda: world.now)
        self.recorder = Recorder()
        self._intake = Intake(self.cache, self.queue, Metrics())  # type: ignore[arg-type]  # a queue in simulated time
        self._check_idempotent = check_idempotent
        self._failed = False
        self.reconciler = Reconciler(
            api=self.client,  # type: ignore[arg-type]  # plays the Api
            cache=self.cache,
            recorder=self.recorder,  # type: ignore[arg-type]
            metrics=Metrics(),
            ticker=_NoTicker(_PlayedWatch(world)),  # type: ignore[arg-type]
            clock=lambda: world.now,
        )
        self._seen = len(world.api.history)
        for watched in WATCHED:
            for obj in world.api.all(watched.resource, labels=watched.labels):
                self._intake.changed(watched.resource, obj, listed=True)
        self._intake.everything(spread_seconds=0.0)

    def sync(self) -> None:
        """Takes in what the watches tell."""
        news, self._seen = self.world.api.history[self._seen :], len(self.world.api.history)
        for resource, before, after in news:
            for watched in WATCHED:
                if watched.resource != resource:
                    continue
                if after is not None and labels_match(after["metadata"].get("labels") or {}, watched.labels):
                    self._intake.changed(resource, after)
                elif before is not None and labels_match(
                    before["metadata"].get("labels") or {}, watched.labels
                ):
                    gone = after or before
                    self._intake.gone(resource, gone)

    async def work(self) -> bool:
        """Reconciles until no key is due; True when there was one."""
        worked = 0
        self.sync()
        while (key := self.queue.take()) is not None:
            if key.kind not in ("rollout", "workload"):
                continue
            worked += 1
            assert worked < HOT, f"{key} is reconciled again and again without end: {self._where()}"
            self._failed = True
            try:
                seconds = await self.reconciler(key)
            except Conflict:
                self.queue.add_after(key, 0.05)
            except ApiError:
                self.queue.add_after(key, 0.5)
            else:
                self._failed = False
                if seconds is not None:
                    self.queue.add_after(key, seconds)
            self.sync()
        if worked and self._check_idempotent:
            await self.assert_nothing_left()
        return worked > 0

    async def assert_nothing_left(self) -> None:
        """Planning again right after a plan was carried out asks for no further write."""
        raw = self.cache.get(ROLLOUTS, NAMESPACE, NAME)
        if raw is None or self._failed:
            return
        _, snapshot = await self.reconciler._observer.observe(raw)
        again = plan(snapshot)
        left = [a for a in again.actions if not isinstance(a, Emit)]
        assert not left, f"planned twice, and the second time it still wants to do {left} ({self._where()})"

    def _where(self) -> str:
        rollout = self.world.rollout()
        if rollout is None:
            return "the Rollout is gone"
        return f"phase {rollout.status.phase}, step {rollout.status.current_step}: {rollout.status.message}"


People = Callable[[World], bool]
"""Does what somebody would do in this state; False when there is nothing to do. Keeps no memory of its own."""


def nobody(world: World) -> bool:
    return False


def promote_all(world: World, run: Object) -> str | None:
    return "PROMOTE"


def at_rest(world: World) -> bool:
    """The release is over, one way or the other."""
    rollout = world.rollout()
    if rollout is None:
        return True
    status = rollout.status
    deployment = world.deployment()
    if deployment is None:
        return status.phase is None
    if status.phase is Phase.ROLLED_BACK:
        return True
    return (
        status.phase is Phase.IDLE
        and status.observed_workload_generation == deployment["metadata"]["generation"]
    )


@dataclass(frozen=True)
class Course:
    """Who judges and who decides, and when it is over."""

    judge: Judge = promote_all
    people: People = nobody
    over: Callable[[World], bool] = at_rest
    check: Callable[[World], None] = field(default=lambda world: None)
    """Looked at after every round of the world."""

    def with_people(self, people: People) -> "Course":
        return replace(self, people=people)


async def run(
    process: Process,
    course: Course,
    *,
    quiet: Callable[[World], bool] = lambda world: False,
    rounds: int = ROUNDS,
) -> None:
    """Lets everybody act in turn until it is over and quiet. Raises AssertionError when nothing is left to happen.

    `quiet` is asked whenever operator and controllers have nothing to do; True ends the run early.
    """
    world = process.world
    for _ in range(rounds):
        worked = await process.work()
        moved = world.step()
        course.check(world)
        if worked or moved:
            world.advance(STEP_SECONDS)
            continue
        if quiet(world):
            return
        if _judge(world, course.judge) or course.people(world):
            continue
        if course.over(world):
            return
        later = [t for t in (process.queue.next_at(), _next_verdict(world, course.judge)) if t is not None]
        assert later, f"nothing is left to happen, and it is not over: {process._where()}"
        world.now = max(world.now, min(later))
    raise AssertionError(f"no end after {rounds} rounds: {process._where()}")


def _open_runs(world: World) -> list[tuple[GateRun, Object]]:
    """GateRuns that the operator's ticker would look at now."""
    rollout = world.rollout()
    if rollout is None or rollout.status.canary is None:
        return []
    found = []
    for raw in world.api.all(GATE_RUNS, NAMESPACE):
        run_ = GateRun.model_validate(raw)
        if run_.status.verdict is None and _is_current(run_, rollout):
            found.append((run_, raw))
    return found


def _is_current(run_: GateRun, rollout: Rollout) -> bool:
    status = rollout.status
    assert status.canary is not None
    return (
        status.phase in (Phase.PROGRESSING, Phase.BAKING, Phase.HELD)
        and (run_.spec.revision, run_.spec.attempt) == (status.canary.revision, status.attempt)
        and run_.spec.rollout_uid == rollout.metadata.uid
    )


def _judge(world: World, judge: Judge) -> bool:
    given = False
    for run_, raw in _open_runs(world):
        decision = judge(world, raw)
        due = run_.spec.clock.starts_at + (
            timedelta(0) if decision == "ROLLBACK" else run_.spec.clock.duration
        )
        if decision is not None and due <= world.now:
            give_verdict(world, raw, decision)
            given = True
    return given


def _next_verdict(world: World, judge: Judge) -> datetime | None:
    dues = [
        run_.spec.clock.starts_at + (timedelta(0) if decision == "ROLLBACK" else run_.spec.clock.duration)
        for run_, raw in _open_runs(world)
        if (decision := judge(world, raw)) is not None
    ]
    return min(dues, default=None)


async def pass_time(process: Process, course: Course, seconds: float) -> None:
    """Goes on for so long, whether or not anything comes of it."""
    world = process.world
    end = world.now + timedelta(seconds=seconds)
    while world.now < end:
        await process.work()
        world.step()
        course.check(world)
        if not _judge(world, course.judge):
            course.people(world)
        world.advance(STEP_SECONDS)


async def settle(process: Process, seconds: float = 60.0) -> None:
    """Goes on for a while after the end, so that what comes late comes."""
    end = process.world.now + timedelta(seconds=seconds)
    for _ in range(ROUNDS):
        if await process.work() or process.world.step():
            process.world.advance(STEP_SECONDS)
            continue
        at = process.queue.next_at()
        if at is None or at > end:
            return
        process.world.now = max(process.world.now, at)
    raise AssertionError(f"it never comes to rest: {process._where()}")
