"""Pause, Resume and Override: in force from the ledger, whatever the process, the status and the moment."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatewright_analysis.kinds.rollout import Phase
from gatewright_operator.resources import DEPLOYMENTS, GATE_ORDERS, GATE_RUNS
from tests.property import sim_objects as objects
from tests.property.sim_api import Call, Client
from tests.property.sim_explore import meddled, moments
from tests.property.sim_invariants import Invariants
from tests.property.sim_objects import NAMESPACE
from tests.property.sim_operator import Course, Crash, Process, pass_time, run, settle
from tests.property.sim_scenarios import Scenario, begin, deciding, judged, perform
from tests.property.sim_world import REVISIONS, World, give_verdict

V2 = REVISIONS["v2"]
PLAIN = Scenario("a release", rollout=objects.rollout(bake=None))
WAITING = objects.rollout(
    [
        {"setWeight": 25},
        {"gate": objects.GATE},
        {"pause": {}},
        {"setWeight": 50},
        {"gate": objects.GATE},
    ],
    bake=None,
)


def status(world: World) -> Any:
    """The Rollout's, as it is reported."""
    rollout = world.rollout()
    assert rollout is not None
    return rollout.status


def outcome(world: World, name: str) -> tuple[str, str]:
    raw = world.api.get(GATE_ORDERS, NAMESPACE, name)
    assert raw is not None
    found = raw.get("status") or {}
    return found.get("outcome", ""), found.get("message", "")


def kinds(world: World) -> list[str]:
    return [e.key.kind for e in world.ledger()]


async def until(process: Process, course: Course, phase: Phase, *, step: int | None = None) -> None:
    """Goes on until the Rollout is in this phase (and at this step)."""

    def there(world: World) -> bool:
        found = status(world)
        return found.phase is phase and step in (None, found.current_step)

    for _ in range(2000):
        if there(process.world):
            return
        await pass_time(process, course, 0.5)
    raise AssertionError(f"never {phase} at {step}: {process._where()}")


async def at_gate(scenario: Scenario = PLAIN, *, step: int = 1) -> tuple[Process, Invariants, Course]:
    process, invariants = await begin(scenario)
    course = scenario.course(invariants)
    await until(process, course, Phase.PROGRESSING, step=step)
    return process, invariants, course


async def test_a_paused_gate_gives_its_verdict_after_the_resume() -> None:
    process, invariants, course = await at_gate()
    world = process.world
    paused = world.order("Pause", reason="looking at the queue")
    await until(process, course, Phase.PAUSED)
    assert outcome(world, paused)[0] == "Accepted"
    await pass_time(process, course, 600)
    found = status(world)
    assert (found.phase, found.current_step) == (Phase.PAUSED, 1)
    assert found.paused is not None
    assert (found.paused.by, found.paused.reason) == ("sre-a", "looking at the queue")
    assert found.paused.run == f"checkout-{V2}-1-1"
    assert "paused by sre-a since" in found.message
    again = world.order("Pause")
    await pass_time(process, course, 5)
    assert outcome(world, again)[0] == "Refused"
    assert "sre-a has paused it since" in outcome(world, again)[1]
    resumed = world.order("Resume")
    await run(process, course)
    assert outcome(world, resumed)[0] == "Accepted"
    PLAIN.assert_ended(world, invariants)
    assert status(world).paused is None
    late = world.order("Resume", V2)
    await pass_time(process, course, 5)
    assert outcome(world, late) == ("Refused", "Nothing is paused; the rollout is Idle.")


async def test_a_breach_in_a_pause_rolls_back_at_once() -> None:
    process, invariants, course = await at_gate()
    world = process.world
    world.order("Pause")
    await until(process, course, Phase.PAUSED)
    give_verdict(world, world.api.all(GATE_RUNS)[0], "ROLLBACK")
    await run(process, course)
    assert status(world).phase is Phase.ROLLED_BACK
    assert status(world).rejected.reason == "BreachAbsolute"
    invariants.at_rest()


async def test_between_two_gates_the_last_run_goes_on_for_breaches() -> None:
    process, invariants, course = await at_gate(Scenario("waits", rollout=WAITING))
    world = process.world
    await until(process, course, Phase.PAUSED, step=2)
    assert status(world).paused.run == f"checkout-{V2}-1-1"
    assert status(world).paused.by == ""
    (run_,) = world.api.all(GATE_RUNS)
    give_verdict(world, run_, "ROLLBACK", breach=True)
    await run(process, course)
    assert status(world).phase is Phase.ROLLED_BACK
    invariants.at_rest()


async def test_resume_ends_a_step_that_waits() -> None:
    scenario = Scenario("waits", rollout=WAITING)
    process, invariants, course = await at_gate(scenario)
    world = process.world
    await until(process, course, Phase.PAUSED, step=2)
    await pass_time(process, course, 3600)
    assert status(world).current_step == 2
    resumed = world.order("Resume")
    await run(process, course)
    assert outcome(world, resumed)[0] == "Accepted"
    scenario.assert_ended(world, invariants)


async def test_resume_ends_a_timed_step_early_and_a_pause_on_top_of_it() -> None:
    scenario = Scenario("waits", rollout=objects.rollout(objects.WITH_PAUSE, bake=None))
    process, invariants, course = await at_gate(scenario)
    world = process.world
    await until(process, course, Phase.PAUSED, step=2)
    world.order("Pause")
    await pass_time(process, course, 120)
    assert (status(world).phase, status(world).current_step) == (Phase.PAUSED, 2), (
        "its time is over, the Pause is not"
    )
    world.order("Resume")
    await pass_time(process, course, 2)
    assert (status(world).phase, status(world).current_step) == (Phase.PROGRESSING, 3)
    await run(process, course)
    scenario.assert_ended(world, invariants)


@pytest.mark.parametrize("gate", [1, 3])
async def test_an_approval_takes_effect_and_the_next_step_waits_for_the_resume(gate: int) -> None:
    scenario = Scenario("held", judged(**{f"s{gate}": "HOLD"}), rollout=objects.rollout(bake=None))
    process, invariants = await begin(scenario)
    world, course = process.world, scenario.course(invariants)
    await until(process, course, Phase.HELD)
    world.order("Pause")
    await pass_time(process, course, 5)
    assert status(world).phase is Phase.HELD
    assert status(world).paused.by == "sre-a"
    world.review("Approve")
    await pass_time(process, course, 600)
    assert status(world).phase is Phase.PAUSED
    assert status(world).hold is None
    assert "Promoted" not in kinds(world)
    world.order("Resume")
    await run(process, course)
    scenario.assert_ended(world, invariants)


async def test_a_waiver_that_ended_in_the_pause_is_asked_for_again() -> None:
    scenario = Scenario("held", judged(s3="HOLD"), rollout=objects.rollout(bake=None))
    process, invariants = await begin(scenario)
    world, course = process.world, scenario.course(invariants)
    await until(process, course, Phase.HELD)
    world.order("Pause")
    await pass_time(process, course, 5)
    world.review("Approve")
    await until(process, course, Phase.PAUSED)
    world.advance(2 * 3600)
    world.order("Resume")
    await pass_time(process, course, 30)
    assert status(world).phase is Phase.HELD
    assert "Promoted" not in kinds(world)


async def test_a_pause_survives_a_restart_and_a_wiped_status() -> None:
    process, invariants, course = await at_gate(step=3)
    world = process.world
    world.order("Pause")
    await until(process, course, Phase.PAUSED)
    world.wipe_status()
    process = Process(world)
    await pass_time(process, course, 900)
    found = status(world)
    assert (found.phase, found.paused.by) == (Phase.PAUSED, "sre-a")
    assert world.canary_weight() == 0
    world.order("Resume")
    await run(process, course)
    PLAIN.assert_ended(world, invariants)


async def test_override_promotes_at_once_and_says_so() -> None:
    process, invariants, course = await at_gate(Scenario("a release"))
    world = process.world
    name = world.emergency("Promote")
    await pass_time(process, course, 30)
    assert outcome(world, name)[0] == "Accepted"
    await run(process, course)
    order, promoted = kinds(world).index("Order"), kinds(world).index("Promoted")
    assert order < promoted
    assert "Verdict" not in kinds(world)[:promoted]
    assert ("Overridden", outcome(world, name)[1]) in process.recorder.told
    Scenario("a release").assert_ended(world, invariants)


async def test_override_to_a_step_sets_the_weight_that_it_needs() -> None:
    process, invariants, course = await at_gate()
    world = process.world
    world.emergency("3")
    await until(process, course, Phase.PROGRESSING, step=3)
    assert world.canary_weight() == 50
    condition = next(c for c in status(world).conditions if c.type == "Overridden")
    assert "sends it on to step 4" in condition.message
    back = world.emergency("1")
    await pass_time(process, course, 5)
    assert outcome(world, back)[0] == "Refused"
    assert "goes forward only" in outcome(world, back)[1]
    await run(process, course)
    PLAIN.assert_ended(world, invariants)


async def test_an_override_passes_over_what_lies_between() -> None:
    steps = [*objects.WITH_PAUSE, {"gate": objects.GATE}]
    scenario = Scenario("long", rollout=objects.rollout(steps, bake=None))
    process, invariants, course = await at_gate(scenario)
    process.world.emergency("4")
    await pass_time(process, course, 10)
    assert status(process.world).current_step == 4
    await run(process, course)
    scenario.assert_ended(process.world, invariants)


async def test_an_override_sets_a_weight_again_that_somebody_took_away() -> None:
    steps = [*objects.WITH_PAUSE, {"gate": objects.GATE}]
    scenario = Scenario("contested", rollout=objects.rollout(steps, bake=None))
    process, invariants, course = await at_gate(scenario)
    world = process.world
    world.set_weights(100, 0)
    await until(process, course, Phase.HELD)
    assert world.canary_weight() == 0
    world.emergency("4")
    await until(process, course, Phase.PROGRESSING, step=4)
    assert world.canary_weight() == 25
    await run(process, course)
    scenario.assert_ended(world, invariants)


async def test_an_override_of_more_than_an_hour_and_one_that_has_ended_are_refused() -> None:
    process, _, course = await at_gate()
    world = process.world
    long, over = world.emergency("Promote", minutes=61), world.emergency("Promote", minutes=0)
    await pass_time(process, course, 5)
    assert "after 1h at most" in outcome(world, long)[1]
    assert "before it was heard" in outcome(world, over)[1]
    assert "Promoted" not in kinds(world)


async def test_an_override_of_a_refused_version_says_to_retry_first() -> None:
    scenario = Scenario("refused", judged(s1="ROLLBACK"), ends=Phase.ROLLED_BACK, serves="v1")
    process, invariants = await begin(scenario)
    await run(process, scenario.course(invariants))
    name = process.world.emergency("Promote")
    await pass_time(process, scenario.course(invariants), 5)
    assert outcome(process.world, name)[0] == "Refused"
    assert "Order a Retry first" in outcome(process.world, name)[1]


@pytest.mark.parametrize("order", ["Pause", "Resume", "Override"])
async def test_in_a_bake_there_is_nothing_to_stop(order: str) -> None:
    process, invariants = await begin(Scenario("a release"))
    course = Scenario("a release").course(invariants)
    await until(process, course, Phase.BAKING)
    world = process.world
    name = world.emergency("Promote") if order == "Override" else world.order(order)
    await pass_time(process, course, 5)
    said, message = outcome(world, name)
    assert said == "Refused"
    assert {"Pause": "nothing to stop", "Resume": "Nothing is paused", "Override": "past its gates"}[
        order
    ] in message


@pytest.mark.parametrize("where", ["gate", "bake"])
async def test_breaches_are_let_be_until_the_override_ends(where: str) -> None:
    steps = {"gate": {"s3": "ROLLBACK"}, "bake": {"bake": "ROLLBACK"}}[where]
    scenario = Scenario("breaches", judged(**steps), ends=Phase.ROLLED_BACK, serves="v1")
    process, invariants = await begin(scenario)
    world, course = process.world, scenario.course(invariants)
    await until(process, course, Phase.PROGRESSING, step=1)
    world.emergency("3" if where == "gate" else "Promote", ignore_breach=True, minutes=20)
    await pass_time(process, course, 15 * 60)
    assert status(world).phase is (Phase.PROGRESSING if where == "gate" else Phase.BAKING)
    assert kinds(world).count("BreachIgnored") == 1
    assert "is let be until" in status(world).message
    assert any(reason == "BreachIgnored" for reason, _ in process.recorder.told)
    await run(process, course)
    scenario.assert_ended(world, invariants)


async def test_an_abort_ends_what_was_overridden() -> None:
    process, invariants, course = await at_gate()
    world = process.world
    world.emergency("3", ignore_breach=True)
    await until(process, course, Phase.PROGRESSING, step=3)
    world.order("Abort")
    await run(process, course)
    assert status(world).phase is Phase.ROLLED_BACK
    invariants.at_rest()


async def test_no_version_is_on_its_way_when_the_operator_finds_it_unpaused_by_kubectl() -> None:
    """The operator was down when the version came, and when somebody with the verb sent it out."""
    scenario = Scenario("by kubectl")
    process, invariants = await begin(scenario)
    world = process.world
    world.override()
    for _ in range(20):
        world.step()
    process = Process(world)
    await run(process, scenario.course(invariants))
    entry = next(e for e in world.ledger() if e.key.kind == "Overridden")
    assert (entry.actor.name, entry.body["by"]) == ("sre-on-call", "sre-on-call")
    assert kinds(world).index("Overridden") < kinds(world).index("Promoted")
    scenario.assert_ended(world, invariants)


async def test_unpaused_by_kubectl_in_the_middle_of_a_rollout_it_goes_on_to_its_end() -> None:
    scenario = Scenario("by kubectl")
    process, invariants, course = await at_gate(scenario)
    world = process.world
    world.override()
    for _ in range(20):
        world.step()
    await run(Process(world), course)
    assert "Overridden" in kinds(world)
    scenario.assert_ended(world, invariants)


ACTS = (
    "Pause",
    "Resume",
    "Override Promote",
    "Override 3",
    "Override 3 ignoring breaches",
    "Abort",
    "wipe",
    "crash",
    "wait",
)


# About 10 s: a dozen releases, each disturbed up to five times, second by second.
@settings(max_examples=12)
@given(
    st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 30)), min_size=1, max_size=5),
    st.sampled_from(["PROMOTE", "HOLD", "ROLLBACK"]),
)
async def test_whatever_is_ordered_whenever_the_promises_hold(acts: list[tuple[str, int]], last: str) -> None:
    scenario = Scenario("disturbed", judged(s3=last), rollout=WAITING)
    process, invariants = await begin(scenario)
    world, course = process.world, scenario.course(invariants)
    for act, seconds in acts:
        await pass_time(process, course, seconds)
        if act == "crash":
            process = Process(world)
        else:
            perform(world, act)
    await pass_time(process, course, 120)


# About 20 s together: every write of a release, and the release to its end from there.
@pytest.mark.parametrize("act", ["Pause", "Override Promote"])
async def test_an_order_that_comes_before_any_write_keeps_the_promises(act: str) -> None:
    scenario = Scenario("held", judged(s3="HOLD"), deciding("Approve"), rollout=objects.rollout(bake=None))
    for moment in await moments(scenario):
        for number in range(len(moment.writes)):
            found = await meddled(moment, number, lambda world: perform(world, act))
            if found is None:
                continue
            process, invariants = found
            course = scenario.course(invariants)
            await pass_time(process, course, 15)
            if act == "Pause" and status(process.world).phase is Phase.PAUSED:
                process.world.order("Resume")
            await run(process, course)
            scenario.assert_ended(process.world, invariants)


@pytest.mark.parametrize("act", ["Pause", "Resume", "Override Promote", "Override 3"])
async def test_an_operator_that_dies_after_each_single_write_obeys_once(act: str) -> None:
    process, invariants, course = await at_gate()
    world = process.world
    if act == "Resume":
        world.order("Pause")
        await until(process, course, Phase.PAUSED)
    perform(world, act)

    async def die(call: object) -> None:
        raise Crash

    for _ in range(60):
        process = Process(world, Client(world.api, after=die))
        try:
            await process.work()
        except Crash:
            continue
        break
    entries = [e for e in world.ledger() if e.key.kind == "Order"]
    assert len({e.key.cause for e in entries}) == len(entries) == (2 if act == "Resume" else 1)
    process = Process(world)
    if act == "Pause":
        world.order("Resume")
    await run(process, course)
    await settle(process)
    PLAIN.assert_ended(world, invariants)


async def decided_and_not_begun() -> tuple[Process, Invariants, Course]:
    """`Promoted` stands in the ledger, and a crash came before the Deployment was un-paused."""
    process, invariants, course = await at_gate(PLAIN, step=3)
    world = process.world

    async def die(call: Call) -> None:
        if call.resource == DEPLOYMENTS and "Promoted" in kinds(world):
            raise Crash

    process = Process(world, Client(world.api, before=die))
    with pytest.raises(Crash):
        await run(process, course)
    assert status(world).phase in (Phase.PROGRESSING, Phase.PROMOTING)
    world.order("Pause")
    process = Process(world)
    await pass_time(process, course, 60)
    found = status(world)
    assert (found.phase, found.paused.by) == (Phase.PROMOTING, "sre-a")
    return process, invariants, course


async def test_between_its_promotion_and_its_rolling_update_a_pause_still_stops_it() -> None:
    process, invariants, course = await decided_and_not_begun()
    world = process.world
    assert world.canary_weight() == 50
    world.order("Resume")
    await run(process, course)
    PLAIN.assert_ended(world, invariants)


@pytest.mark.parametrize("end", ["breach", "Abort"])
async def test_and_a_breach_or_an_abort_then_is_a_way_back_without_a_pod_replaced(end: str) -> None:
    process, invariants, course = await decided_and_not_begun()
    world = process.world
    if end == "breach":
        last = next(r for r in world.api.all(GATE_RUNS) if r["spec"]["step"] == "3")
        give_verdict(world, last, "ROLLBACK", breach=True)
    else:
        world.order("Abort")
    await run(process, course)
    assert status(world).phase is Phase.ROLLED_BACK
    assert "Restoring" not in kinds(world)
    invariants.at_rest()
