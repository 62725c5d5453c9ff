"""A version that is held in the simulated world, and time that passes there."""

from datetime import UTC, datetime, timedelta
from typing import Any

from gatewright_analysis.kinds.base import format_time
from gatewright_analysis.kinds.rollout import HoldStatus, RolloutStatus
from gatewright_operator.resources import GATE_CONTRACTS, GATE_RUNS, METRIC_SOURCES
from tests.property import sim_objects as objects
from tests.property.sim_api import OPERATOR
from tests.property.sim_invariants import Invariants
from tests.property.sim_objects import NAME, NAMESPACE
from tests.property.sim_operator import Course, Process, run
from tests.property.sim_scenarios import Scenario, begin
from tests.property.sim_world import World, give_verdict

ONE_STEP = Scenario("held", rollout=objects.rollout([{"setWeight": 25}, {"gate": objects.GATE}], bake=None))
MINUTE = timedelta(minutes=1)
HOLD = {"escalateAfter": "15m", "timeout": "60m"}
START = datetime(2030, 1, 1, tzinfo=UTC)
BREACH = {
    "id": "http-success",
    "oracleKind": "Deterministic",
    "require": "Pass",
    "status": "fail",
    "breach": True,
    "reason": "BreachAbsolute",
}


def status(world: World) -> RolloutStatus:
    rollout = world.rollout()
    assert rollout is not None
    return rollout.status


def hold_of(world: World) -> HoldStatus:
    hold = status(world).hold
    assert hold is not None, f"it is not held: {status(world).message}"
    return hold


async def held(*, breach: bool = False, **hold: str) -> tuple[Process, Invariants]:
    """A version that is held at its only gate, by a contract with these waits."""
    process, invariants = await begin(ONE_STEP)
    world = process.world
    world.api.patch("admin", GATE_CONTRACTS, NAMESPACE, NAME, {"spec": {"hold": {**HOLD, **hold}}})
    await run(process, Course(judge=lambda world, run_: None, over=lambda world: bool(status(world).run)))
    [raw] = world.api.all(GATE_RUNS, NAMESPACE)
    give_verdict(world, raw, "HOLD")
    if breach:
        said = {"status": {"verdict": {"checks": [BREACH]}}}
        world.api.patch(OPERATOR, GATE_RUNS, NAMESPACE, raw["metadata"]["name"], said, subresource="status")
    await work(process)
    assert hold_of(world).breach is breach
    return process, invariants


async def work(process: Process) -> None:
    """Operator and controllers, until neither has anything to do."""
    while await process.work() or process.world.step():
        process.world.advance(0.5)


async def wait(process: Process, length: timedelta) -> None:
    """Time passes, and the operator works whenever it wants to."""
    world = process.world
    end = world.now + length
    await work(process)
    while (at := process.queue.next_at()) is not None and at <= end:
        world.now = max(world.now, at)
        await work(process)
    world.now = max(world.now, end)
    await work(process)


def report(world: World, *, down: bool) -> None:
    """What the operator's own question to the source came to, at this moment."""
    condition = {
        "type": "Ready",
        "status": "False" if down else "True",
        "reason": "SourceUnreachable" if down else "SourceAnswers",
        "message": "",
        "lastTransitionTime": format_time(world.now),
    }
    body = {"status": {"observedGeneration": 1, "conditions": [condition]}}
    world.api.patch(OPERATOR, METRIC_SOURCES, "", "prometheus", body, subresource="status")


def entries(world: World, kind: str) -> list[Any]:
    return [entry for entry in world.ledger() if entry.key.kind == kind]


def promoted(world: World) -> bool:
    return bool(entries(world, "Promoted"))
