"""A waiver over several steps, and two people where the contract wants two, through the whole operator on the simulated API."""

from typing import Any

from gatewright_analysis.kinds.rollout import Phase
from gatewright_analysis.names import WRITTEN_BY
from gatewright_operator.resources import GATE_CONTRACTS, GATE_REVIEWS, GATE_RUNS
from tests.property import sim_objects as objects
from tests.property.sim_api import Object
from tests.property.sim_approvals import GATES, is_held, over
from tests.property.sim_invariants import Invariants
from tests.property.sim_objects import NAME, NAMESPACE
from tests.property.sim_operator import Course, Process, run
from tests.property.sim_world import DEVELOPER, World


def first_gate_holds(world: World, run_: Object) -> str | None:
    return "HOLD" if run_["spec"]["step"] == "1" else "PROMOTE"


async def begun(hold: dict[str, Any], *, written_by: str = "") -> tuple[World, Process, Course]:
    world = World()
    world.furnish(objects.rollout(GATES))
    patch: Object = {"spec": {"hold": hold}}
    if written_by:
        patch["metadata"] = {"annotations": {WRITTEN_BY: written_by}}
    world.api.patch("admin", GATE_CONTRACTS, NAMESPACE, NAME, patch)
    invariants = Invariants(world)
    process, course = Process(world), Course(judge=first_gate_holds, over=over)
    await run(process, Course(check=lambda w: invariants.endpoints()))
    world.push("v2")
    await run(process, course)
    assert is_held(world)
    return world, process, course


def waivers(world: World) -> dict[str, list[str]]:
    """By step: the reviews that its run began with."""
    runs = world.api.all(GATE_RUNS)
    return {r["spec"]["step"]: [w["review"] for w in r["spec"].get("waivers", ())] for r in runs}


def answers(world: World) -> list[str]:
    return [r["status"]["message"] for r in world.api.all(GATE_REVIEWS)]


async def test_a_waiver_reaches_the_gates_that_its_span_names() -> None:
    world, process, course = await begun({})
    review = world.review("Approve", through="Remaining")
    await run(process, course)
    assert waivers(world) == {"1": [], "3": [review], "bake": [review]}


async def test_a_waiver_without_a_span_is_for_its_own_step() -> None:
    world, process, course = await begun({})
    world.review("Approve")
    await run(process, course)
    assert waivers(world) == {"1": [], "3": [], "bake": []}


async def test_a_span_beyond_the_last_step_is_refused() -> None:
    world, process, course = await begun({})
    world.review("Approve", through="9")
    await run(process, course)
    assert is_held(world)
    [said] = answers(world)
    assert "has no step 9" in said
    assert "the last one is 3" in said


async def test_two_spans_reach_as_far_as_the_shorter() -> None:
    world, process, course = await begun({"minApprovals": 2})
    world.review("Approve", through="3")
    await run(process, course)
    rollout = world.rollout()
    assert rollout is not None
    assert rollout.status.hold is not None
    assert [a.reviewer for a in rollout.status.hold.approvals] == ["reviewer-a"]
    world.review("Approve", through="Remaining", reviewer="reviewer-b")
    await run(process, course)
    found = waivers(world)
    assert (len(found["3"]), found["bake"]) == (2, [])
    assert "(1 of 2 approvals)" in answers(world)[0]
    assert "(2 of 2 approvals)" in answers(world)[1]


ENFORCED = {"separationOfDuties": "Enforce"}


async def test_one_person_for_change_and_contract_is_held_until_another_approves() -> None:
    world, process, course = await begun(ENFORCED, written_by=DEVELOPER)
    rollout = world.rollout()
    assert rollout is not None
    assert rollout.status.hold is not None
    hold = rollout.status.hold
    assert (hold.reason, hold.contract_written_by) == ("SameAuthor", DEVELOPER)
    assert (hold.blocking, rollout.status.weight.actual) == (("separation-of-duties",), 0)
    world.review("Approve", reviewer=DEVELOPER)
    await run(process, course)
    assert is_held(world)
    assert "somebody else has to approve it" in answers(world)[0]
    world.review("Approve")
    await run(process, course)
    rollout = world.rollout()
    assert rollout is not None
    assert rollout.status.hold is not None
    assert rollout.status.hold.step == "1", "it went on to its first gate"


async def test_a_retry_goes_on_after_another_person_has_written_the_contract() -> None:
    world, process, course = await begun(ENFORCED, written_by=DEVELOPER)
    world.order("Retry")
    await run(process, course)
    rollout = world.rollout()
    assert rollout is not None
    assert rollout.status.hold is not None
    assert rollout.status.hold.reason == "SameAuthor", "a Retry alone is no second person"
    note = {"metadata": {"annotations": {WRITTEN_BY: "sre-b"}}}
    world.api.patch("sre-b", GATE_CONTRACTS, NAMESPACE, NAME, note)
    world.order("Retry")
    await run(process, course)
    rollout = world.rollout()
    assert rollout is not None
    assert rollout.status.phase is Phase.HELD
    assert rollout.status.hold is not None
    assert (rollout.status.hold.step, rollout.status.hold.contract_written_by) == ("1", "sre-b")


async def test_an_unproven_writer_is_nobody() -> None:
    world, _, _ = await begun(ENFORCED, written_by="system:admin")
    rollout = world.rollout()
    assert rollout is not None
    assert rollout.status.hold is not None
    assert rollout.status.hold.step == "1", "held by its gate alone"
