"""An approval that lands together with something else: 100 interleavings each, and never a promotion that the rules forbid.

Each walk is a whole release in memory; a hundred of them take half a minute of CPU.
"""

from collections.abc import Callable
from datetime import timedelta

from gatewright_analysis.kinds.base import format_time
from gatewright_analysis.kinds.rollout import Phase
from gatewright_operator.resources import GATE_REVIEWS
from gatewright_operator.workload import revision_of
from tests.property.sim_api import Object
from tests.property.sim_approvals import (
    Act,
    Interleaving,
    approve,
    approve_as_seen,
    assert_promoted_by_the_rules,
    breach_of,
    held,
    held_run,
    more_blocks,
    pass_seconds,
    promoted,
    push,
    until_deadline,
)
from tests.property.sim_invariants import Invariants
from tests.property.sim_world import REVISIONS, World

INTERLEAVINGS = 100


def first_gate_holds(world: World, run: Object) -> str | None:
    """v2 is held at its first gate, and every later version too: an approval of v2 must not let those on."""
    return "HOLD" if run["spec"]["step"] == "1" and run["spec"]["attempt"] == 1 else "PROMOTE"


async def walked(
    acts: Callable[[World], list[Act]], *, needed: int = 1, seeds: int = INTERLEAVINGS
) -> list[World]:
    """The ends of all interleavings of these acts; the rules hold in each. Every other release has one gate alone, so
    that an approval promotes it at once."""
    ends = []
    for seed in range(seeds):
        start, before = held(first_gate_holds, needed, 1 + seed % 2)
        world = start.fork()
        Invariants(world, before=before)
        try:
            await Interleaving(seed, acts(world)).walk(world, first_gate_holds)
            assert_promoted_by_the_rules(world, needed)
        except AssertionError as error:
            raise AssertionError(f"interleaving {seed}: {error}") from error
        ends.append(world)
    return ends


def phase(world: World) -> Phase | None:
    rollout = world.rollout()
    assert rollout is not None
    return rollout.status.phase


async def test_with_a_new_revision() -> None:
    for world in await walked(lambda world: [approve_as_seen(world, "reviewer-a"), push("v3")]):
        assert not promoted(world, "v3"), "v3 was held too, and nobody approved it"
        deployment, rollout = world.deployment(), world.rollout()
        assert deployment is not None
        assert rollout is not None
        if revision_of(deployment) == REVISIONS["v2"]:
            assert rollout.status.phase is Phase.IDLE, "v3 was refused while v2 was being rolled out"
            continue
        assert rollout.status.phase is Phase.HELD
        assert rollout.status.canary is not None
        assert rollout.status.canary.revision == REVISIONS["v3"]


async def test_with_a_breach() -> None:
    def acts(world: World) -> list[Act]:
        return [approve_as_seen(world, "reviewer-a"), breach_of(held_run(world)["metadata"]["name"])]

    for world in await walked(acts):
        if any(e.key.kind == "Completed" for e in world.ledger() if e.key.revision == REVISIONS["v2"]):
            continue
        assert phase(world) is Phase.ROLLED_BACK, "a proven breach rolls back, approved or not"


async def test_with_the_time_out() -> None:
    def acts(world: World) -> list[Act]:
        left = until_deadline(world)
        ends = format_time(world.now + left)
        return [approve("reviewer-a", expiresAt=ends), pass_seconds(left.total_seconds())]

    ends = await walked(acts)
    assert {phase(world) for world in ends} == {Phase.HELD, Phase.IDLE}, "both orders were tried"


async def test_with_a_check_that_newly_blocks() -> None:
    def acts(world: World) -> list[Act]:
        return [approve_as_seen(world, "reviewer-a"), more_blocks(held_run(world)["metadata"]["name"])]

    ends = await walked(acts)
    assert {phase(world) for world in ends} == {Phase.HELD, Phase.IDLE}


async def test_two_people_at_once() -> None:
    ends = await walked(lambda world: [approve("reviewer-a"), approve("reviewer-b")], needed=2)
    for world in ends:
        assert phase(world) is Phase.IDLE, "two people have approved, and it does not go on"


async def test_one_person_twice_is_not_two() -> None:
    ends = await walked(lambda world: [approve("reviewer-a"), approve("reviewer-a")], needed=2, seeds=30)
    for world in ends:
        assert phase(world) is Phase.HELD
        said = {(r.get("status") or {}).get("message", "") for r in world.api.all(GATE_REVIEWS)}
        assert any("it counts once, and there are 1 of 2 approvals" in message for message in said), said


async def test_an_approval_that_has_ended_is_nobodys() -> None:
    def acts(world: World) -> list[Act]:
        soon = format_time(world.now + timedelta(seconds=5))
        return [approve("reviewer-a", expiresAt=soon), pass_seconds(6), approve("reviewer-b")]

    await walked(acts, needed=2, seeds=30)
    # In the order that matters most: the first has ended before the second comes.
    world, _ = held(first_gate_holds, 2, 2)
    world = world.fork()
    one = Interleaving(0, acts(world))
    one.acts, one.at, one.crash_at = acts(world), [0, 99, 100], None
    await one.walk(world, first_gate_holds)
    assert phase(world) is Phase.HELD
    rollout = world.rollout()
    assert rollout is not None
    assert rollout.status.hold is not None
    assert [a.reviewer for a in rollout.status.hold.approvals] == ["reviewer-b"]


async def test_approvals_count_no_more_once_more_blocks() -> None:
    def acts(world: World) -> list[Act]:
        name = held_run(world)["metadata"]["name"]
        return [approve_as_seen(world, "reviewer-a"), more_blocks(name), approve_as_seen(world, "reviewer-b")]

    await walked(acts, needed=2, seeds=50)
