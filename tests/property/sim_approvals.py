"""A held release, and what two people, a judge and a clock may do to it in any order, with the operator restarted between.

An interleaving is a seed: before which of the operator's writes each act falls, and at which write its process ends.
"""

import hashlib
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from gatewright_analysis.kinds.base import format_time
from gatewright_analysis.kinds.rollout import Phase
from gatewright_analysis.ledger import Entry
from gatewright_analysis.waiver import waiver_in_force
from gatewright_operator.errors import Refused
from gatewright_operator.resources import GATE_CONTRACTS, GATE_RUNS
from tests.property import sim_objects as objects
from tests.property.sim_api import OPERATOR, Call, Client, Object
from tests.property.sim_invariants import Invariants
from tests.property.sim_objects import NAME, NAMESPACE
from tests.property.sim_operator import Course, Crash, Process, at_rest, run
from tests.property.sim_world import REVISIONS, Judge, World, give_verdict

Act = Callable[[World], object]
LATEST_WRITE = 8
"""Acts fall before one of so many writes of the operator; later ones when it has nothing left to do."""
GATES = [{"setWeight": 25}, {"gate": objects.GATE}, {"setWeight": 50}, {"gate": objects.GATE}]
ONE_GATE = GATES[:2]


@lru_cache
def held(judge: Judge, needed: int, gates: int) -> tuple[World, Invariants]:
    """v2, held at the gate that `judge` stops it at; fork it, it is shared."""
    world = World()
    world.furnish(objects.rollout(GATES if gates > 1 else ONE_GATE, bake=None))
    world.api.patch("admin", GATE_CONTRACTS, NAMESPACE, NAME, {"spec": {"hold": {"minApprovals": needed}}})
    invariants = Invariants(world)
    process = Process(world)

    async def go() -> None:
        await run(process, Course())
        world.push("v2")
        await run(process, Course(judge=judge, over=is_held))

    _drive(go())
    return world, invariants


def _drive(coroutine: Any) -> None:
    """Nothing in the simulation waits for a real loop."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration:
        pass


def is_held(world: World) -> bool:
    rollout = world.rollout()
    return rollout is not None and rollout.status.phase is Phase.HELD


def over(world: World) -> bool:
    return is_held(world) or at_rest(world)


@dataclass
class Interleaving:
    """One order of acts, drawn from a seed."""

    seed: int
    acts: list[Act]
    at: list[int] = field(init=False)
    crash_at: int | None = field(init=False)
    writes: int = 0

    def __post_init__(self) -> None:
        draw = random.Random(self.seed)
        order = draw.sample(range(len(self.acts)), len(self.acts))
        self.acts = [self.acts[i] for i in order]
        self.at = sorted(draw.randint(0, LATEST_WRITE) for _ in self.acts)
        # The first comes to a world at rest: nothing else would make the operator write.
        self.at[0] = 0
        self.crash_at = draw.choice([None, *range(1, LATEST_WRITE)])

    def due(self, world: World) -> bool:
        """Does what falls before the next write; True when something did."""
        done = False
        while self.acts and self.at[0] <= self.writes:
            self.at.pop(0)
            self.acts.pop(0)(world)
            done = True
        return done

    async def before(self, world: World) -> None:
        self.due(world)
        self.writes += 1
        if self.writes == self.crash_at:
            raise Crash

    def people(self, world: World) -> bool:
        """The operator has nothing to do: what is left comes now."""
        if not self.acts:
            return False
        self.writes = max(self.writes, self.at[0])
        return self.due(world)

    async def walk(self, world: World, judge: Judge) -> None:
        """From the held world to rest; a new process where one ended."""
        self.due(world)

        async def before(_: Call) -> None:
            await self.before(world)

        course = Course(judge=judge, people=self.people, over=lambda w: not self.acts and over(w))
        for _ in range(3):
            try:
                await run(Process(world, Client(world.api, before=before)), course)
                return
            except Crash:
                continue
        raise AssertionError("one crash, and it does not end")


def approve(reviewer: str, **changes: Any) -> Act:
    """Of what is held as the reviewer looks; nothing where nothing is held any more."""

    def act(world: World) -> None:
        if is_held(world):
            world.review("Approve", reviewer=reviewer, **changes)

    return act


def approve_as_seen(world: World, reviewer: str) -> Act:
    """Of what is held now, whenever it is sent: it was looked at before."""
    rollout = world.rollout()
    assert rollout is not None and rollout.status.hold is not None and rollout.status.canary is not None
    hold = rollout.status.hold
    seen = {
        "run": hold.run,
        "revision": rollout.status.canary.revision,
        "step": hold.step,
        "evidenceDigest": hold.evidence_digest,
        "worldSnapshot": hold.world_snapshot,
        "checks": list(hold.blocking),
    }

    def act(later: World) -> None:
        if is_held(later):
            later.review("Approve", reviewer=reviewer, **seen)

    return act


def held_run(world: World) -> Object:
    rollout = world.rollout()
    assert rollout is not None and rollout.status.hold is not None
    raw = world.api.get(GATE_RUNS, NAMESPACE, rollout.status.hold.run)
    assert raw is not None
    return raw


def breach_of(run_name: str) -> Act:
    """The look that was on its way as the approval came: it writes what it found."""

    def act(world: World) -> None:
        raw, rollout = world.api.get(GATE_RUNS, NAMESPACE, run_name), world.rollout()
        canary = rollout.status.canary if rollout is not None else None
        if raw is not None and canary is not None and canary.revision == REVISIONS["v2"]:
            give_verdict(world, raw, "ROLLBACK", breach=True)

    return act


def more_blocks(run_name: str, *, check: str = "latency") -> Act:
    """A look finds one more check that blocks, while it is held."""

    def act(world: World) -> None:
        raw = world.api.get(GATE_RUNS, NAMESPACE, run_name)
        assert raw is not None
        before = raw["status"]["verdict"]
        wider = before | {
            "blocking": [*before["blocking"], check],
            "evidenceDigest": "sha256:" + hashlib.sha256(f"{run_name}/{check}".encode()).hexdigest(),
            "reason": "BreachAbsolute",
            "message": f"Since it was held: {check} broke its limit.",
            "finishedAt": format_time(world.now),
        }
        world.api.patch(
            OPERATOR, GATE_RUNS, NAMESPACE, run_name, {"status": {"held": wider}}, subresource="status"
        )

    return act


def push(version: str) -> Act:
    """Another template; refused while one is being rolled out."""

    def act(world: World) -> None:
        with suppress(Refused):
            world.push(version)

    return act


def pass_seconds(seconds: float) -> Act:
    return lambda world: world.advance(seconds)


def assert_promoted_by_the_rules(world: World, needed: int) -> None:
    """Every gate that held, and was passed, was passed by enough people's approvals of the newest evidence there was in
    the ledger, all of them in force at one moment."""
    entries = world.ledger()
    passed = [e for e in entries if e.key.kind in ("Promoted", "WeightSet")]
    for run_, given in _held_runs(entries).items():
        beyond = [e for e in passed if _beyond(e, given[0]) and e.sequence > given[0].sequence]
        if not beyond:
            continue
        upto = beyond[0].sequence
        newest = [e for e in given if e.sequence < upto][-1]
        digest = newest.body["verdict"]["evidenceDigest"]
        said = [
            e
            for e in entries
            if e.key.kind == "Review"
            and e.sequence < upto
            and e.body["spec"]["decision"] == "Approve"
            and e.body["spec"]["evidenceDigest"] == digest
        ]
        assert said, f"{run_} was passed without an approval of what was last found ({digest})"
        at = max(e.at for e in said)
        who = {e.actor.name for e in said if waiver_in_force(e.at, _ends(e), at)}
        assert len(who) >= needed, f"{run_} was passed by {who or 'nobody'}, and {needed} must approve"


def _held_runs(entries: tuple[Entry, ...]) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.key.kind in ("Verdict", "Blocked") and entry.body["verdict"]["decision"] == "HOLD":
            found.setdefault(entry.body["verdict"]["runId"], []).append(entry)
    return found


def _beyond(entry: Entry, hold: Entry) -> bool:
    same = (entry.key.revision, entry.key.attempt) == (hold.key.revision, hold.key.attempt)
    return same and (entry.key.kind == "Promoted" or int(entry.key.step) > int(hold.key.step))


def _ends(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry.body["spec"]["expiresAt"])


def promoted(world: World, version: str = "v2") -> bool:
    return any(e.key.kind == "Promoted" and e.key.revision == REVISIONS[version] for e in world.ledger())


def until_deadline(world: World) -> timedelta:
    rollout = world.rollout()
    assert rollout is not None and rollout.status.hold is not None
    return rollout.status.hold.deadline - world.now
