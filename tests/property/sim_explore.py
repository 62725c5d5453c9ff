"""Exhaustive walks: the same release again from every point at which something can come between, each to its end.

A walk that comes to a world that an earlier walk has left well goes no further: nothing but the world decides what comes
next (that an operator keeps nothing else is what test_restarts.py shows).
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from tests.property.sim_api import Call, Client
from tests.property.sim_invariants import Invariants
from tests.property.sim_operator import Course, Process, run, settle
from tests.property.sim_scenarios import Scenario, begin, essence
from tests.property.sim_world import World

Meddle = Callable[[World, Call], Awaitable[None]]


@dataclass
class Known:
    """Worlds from which a walk has come to a good end."""

    worlds: set[str] = field(default_factory=set)

    async def walk(self, process: Process, course: Course, invariants: Invariants) -> bool:
        """To the end, or to a world that is known; True when it went all the way."""
        passed: set[str] = set()

        def quiet(world: World) -> bool:
            here = essence(world)
            passed.add(here)
            return here in self.worlds

        await run(process, course, quiet=quiet)
        new = not (passed & self.worlds)
        if new:
            await settle(process)
            invariants.at_rest()
        self.worlds |= passed
        return new


@dataclass(frozen=True)
class Moment:
    """The world as an operator is about to work on it, and the writes that it will then do, in order."""

    world: World
    invariants: Invariants
    writes: tuple[Call, ...]

    def again(self) -> tuple[World, Invariants]:
        world = self.world.fork()
        return world, Invariants(world, before=self.invariants)


async def moments(scenario: Scenario) -> list[Moment]:
    """Every time at which the operator writes something in the course of this release."""
    process, invariants = await begin(scenario)
    found: list[Moment] = []
    work = process.work

    async def watched() -> bool:
        world = process.world.fork()
        before = Invariants(world, before=invariants)
        first = len(process.client.writes)
        worked = await work()
        if len(process.client.writes) > first:
            found.append(Moment(world, before, tuple(process.client.writes[first:])))
        return worked

    process.work = watched  # type: ignore[method-assign]
    await run(process, scenario.course(invariants))
    scenario.assert_ended(process.world, invariants)
    return found


async def meddled(
    moment: Moment, number: int, meddle: Callable[[World], object]
) -> tuple[Process, Invariants] | None:
    """An operator whose write `number` of this moment was preceded by what somebody else did. None: it does not get so far."""
    world, invariants = moment.again()
    done = False

    async def before(call: Call) -> None:
        nonlocal done
        if call.number == number and not done:
            done = True
            meddle(world)

    process = Process(world, Client(world.api, before=before))
    await process.work()
    return (process, invariants) if done else None


async def each_write(scenario: Scenario) -> AsyncIterator[tuple[Moment, int]]:
    for moment in await moments(scenario):
        for number in range(len(moment.writes)):
            yield moment, number
