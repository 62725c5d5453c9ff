"""An operator that dies at any write and starts anew takes the release to the same end, and decides nothing twice."""

import pytest

from gatewright_analysis.kinds.rollout import Phase
from tests.property import sim_objects as objects
from tests.property.sim_api import Call, Client
from tests.property.sim_invariants import Invariants
from tests.property.sim_operator import Crash, Process, run, settle
from tests.property.sim_scenarios import (
    Scenario,
    begin,
    deciding,
    differences,
    essence,
    in_phase,
    judged,
    once_escalated,
    overriding,
    pausing,
    replacing_the_model,
)
from tests.property.sim_world import World

SCENARIOS = [
    Scenario("promoted to the end and baked"),
    Scenario("promoted by replicas", rollout=objects.rollout(traffic=objects.BY_REPLICAS, bake=None)),
    Scenario("a pause between two gates", rollout=objects.rollout(objects.WITH_PAUSE, bake=None)),
    Scenario("rolled back at the first gate", judged(s1="ROLLBACK"), ends=Phase.ROLLED_BACK, serves="v1"),
    Scenario("rolled back at the last gate", judged(s3="ROLLBACK"), ends=Phase.ROLLED_BACK, serves="v1"),
    Scenario(
        "rolled back by replicas", judged(s3="ROLLBACK"), ends=Phase.ROLLED_BACK, serves="v1",
        rollout=objects.rollout(traffic=objects.BY_REPLICAS),
    ),
    Scenario("held and approved", judged(s1="HOLD"), deciding("Approve"), rollout=objects.rollout(bake=None)),
    Scenario("held at the last gate and approved", judged(s3="HOLD"), deciding("Approve"), rollout=objects.rollout(bake=None)),
    Scenario(
        "held, escalated by the clock, and approved", judged(s1="HOLD"), once_escalated("Approve"),
        rollout=objects.rollout(bake=None),
    ),
    Scenario("held and rejected", judged(s1="HOLD"), deciding("Reject"), ends=Phase.ROLLED_BACK, serves="v1"),
    Scenario("held and tried again", judged(s3="HOLD"), deciding("Retry"), rollout=objects.rollout(bake=None)),
    Scenario("aborted while held", judged(s3="HOLD"), deciding("Abort"), ends=Phase.ROLLED_BACK, serves="v1"),
    Scenario("a breach in the bake", judged(bake="ROLLBACK"), ends=Phase.ROLLED_BACK, serves="v1"),
    Scenario("held in the bake and approved", judged(bake="HOLD"), deciding("Approve")),
    Scenario("held in the bake and rejected", judged(bake="HOLD"), deciding("Reject"), ends=Phase.ROLLED_BACK, serves="v1"),
    Scenario(
        "superseded at the second gate", people=in_phase(Phase.PROGRESSING, "push v3", step=3), serves="v3",
        rollout=objects.rollout(bake=None),
    ),
    Scenario("reverted at the second gate", people=in_phase(Phase.PROGRESSING, "push v1", step=3), serves="v1"),
    Scenario(
        "a model replaced in a pause, and tried again", people=replacing_the_model,
        rollout=objects.rollout(objects.WITH_PAUSE, bake=None), fingerprints={"judge-model": "version=3"},
    ),
    Scenario("paused and sent on", people=pausing(), rollout=objects.rollout(bake=None)),
    Scenario("overridden to its promotion", people=overriding("Promote"), rollout=objects.rollout(bake=None)),
    Scenario("overridden to a later step", people=overriding("3"), rollout=objects.rollout(bake=None)),
    Scenario("deleted at a gate", people=in_phase(Phase.PROGRESSING, "delete", step=3), ends=None, serves="v1"),
    Scenario("deleted while held", judged(s1="HOLD"), in_phase(Phase.HELD, "delete"), ends=None, serves="v1"),
    Scenario("deleted in the bake", people=in_phase(Phase.BAKING, "delete"), ends=None),
]  # fmt: skip


def restarted_at(
    process: Process, forks: list[tuple[World, Invariants, Call]], invariants: Invariants
) -> None:
    """Keeps a copy of the world as it is ahead of each write of this process."""

    async def keep(call: Call) -> None:
        world = process.world.fork()
        forks.append((world, Invariants(world, before=invariants), call))

    process.client.before = keep


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_a_crash_before_any_write_changes_nothing_about_the_end(scenario: Scenario) -> None:
    process, invariants = await begin(scenario, check_idempotent=True)
    forks: list[tuple[World, Invariants, Call]] = []
    seen: set[str] = set()
    restarted_at(process, forks, invariants)

    def remember(world: World) -> bool:
        seen.add(essence(world))
        return False

    await run(process, scenario.course(invariants), quiet=remember)
    await settle(process)
    scenario.assert_ended(process.world, invariants)
    end = essence(process.world)
    for world, watched, call in forks:
        again = Process(world)
        try:
            await run(again, scenario.course(watched), quiet=lambda world: essence(world) in seen)
        except AssertionError as error:
            raise AssertionError(f"killed before {call}: {error}") from error
        if essence(world) not in seen:
            await settle(again)
            other = differences(essence(world), end)
            assert not other, f"killed before {call}, it ended otherwise:\n{other}"
            scenario.assert_ended(world, watched)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_an_operator_that_dies_after_each_single_write_still_arrives(scenario: Scenario) -> None:
    process, invariants = await begin(scenario)
    world = process.world

    async def die(call: Call) -> None:
        raise Crash

    for _ in range(300):
        process = Process(world, Client(world.api, after=die))
        try:
            await run(process, scenario.course(invariants))
        except Crash:
            continue
        break
    else:
        raise AssertionError(f"300 restarts, and still on the way: {process._where()}")
    await settle(Process(world))
    scenario.assert_ended(world, invariants)
