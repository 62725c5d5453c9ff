"""Verdicts are bound to the models and judges that an attempt began with: no weight rises on those of another world."""

from dataclasses import replace
from typing import Any

import pytest

from gatewright_analysis.kinds.rollout import Phase, RolloutStatus
from gatewright_operator.resources import GATE_ORDERS, GATE_REVIEWS, GATE_RUNS, ROLLOUTS
from tests.property import sim_objects as objects
from tests.property.sim_api import OPERATOR, Object
from tests.property.sim_operator import Course, Process, pass_time, run, settle
from tests.property.sim_scenarios import Scenario, begin, deciding, judged
from tests.property.sim_world import Judge, World, give_verdict

BEGAN = {"judge-model": "version=3"}
PLAIN = Scenario("promoted", rollout=objects.rollout(bake=None), fingerprints=BEGAN)
DRIFTED = (
    "judge-model was version=3 when the attempt began and is version=4 now, although nothing was deployed"
)


def status(world: World) -> RolloutStatus:
    rollout = world.rollout()
    assert rollout is not None
    return rollout.status


def drift(world: World) -> None:
    world.fingerprints["judge-model"] = "version=4"


def runs(world: World) -> list[Any]:
    found = (raw["spec"] for raw in world.api.all(GATE_RUNS, objects.NAMESPACE))
    return sorted(found, key=lambda spec: spec["clock"]["weightAt"])


def is_in(*phases: Phase, step: int | None = None) -> Any:
    return lambda world: status(world).phase in phases and step in (None, status(world).current_step)


async def _until(process: Process, judge: Judge, over: Any) -> None:
    await run(process, Course(judge=judge, over=over), quiet=over)


def never(world: World, run_: Object) -> str | None:
    return None


def promoted_entries(world: World) -> list[Any]:
    return [e for e in world.ledger() if e.key.kind == "Promoted"]


def assert_held_by_drift(world: World) -> None:
    hold = status(world).hold
    assert status(world).phase is Phase.HELD
    assert hold is not None
    assert hold.reason == "WorldDrifted"
    assert hold.message.startswith(DRIFTED)
    assert not promoted_entries(world)


async def test_every_gate_of_an_attempt_and_its_bake_are_bound_to_what_stood_when_it_began() -> None:
    scenario = Scenario("baked", fingerprints=BEGAN)
    process, invariants = await begin(scenario, check_idempotent=True)
    await run(process, scenario.course(invariants))
    found = runs(process.world)
    assert [spec["step"] for spec in found] == ["1", "3", "bake"]
    assert [spec["fingerprints"] for spec in found] == [[{"name": "judge-model", "value": "version=3"}]] * 3


async def test_later_gates_keep_the_values_of_the_first_so_that_a_drift_shows() -> None:
    """As the gate's own look would say; here the planner is told nothing until the gate has begun."""
    process, _ = await begin(PLAIN)
    await _until(
        process,
        lambda w, r: "PROMOTE" if r["spec"]["step"] == "1" else None,
        is_in(Phase.PROGRESSING, step=3),
    )
    assert [spec["fingerprints"][0]["value"] for spec in runs(process.world)] == ["version=3", "version=3"]


async def test_a_contract_without_fingerprints_binds_to_the_images_alone() -> None:
    process, invariants = await begin(replace(PLAIN, fingerprints={}))
    await run(process, PLAIN.course(invariants))
    watched, invariants = await begin(PLAIN)
    await run(watched, PLAIN.course(invariants))
    plain, bound = runs(process.world), runs(watched.world)
    assert "fingerprints" not in plain[0] or plain[0]["fingerprints"] == []
    assert plain[0]["worldSnapshot"] != bound[0]["worldSnapshot"]


async def test_a_drift_between_a_promising_verdict_and_its_effect_holds() -> None:
    """The last gate's PROMOTE stands on the GateRun, and the operator that would act on it starts only now."""
    process, _ = await begin(PLAIN)
    world = process.world
    await _until(process, judged(s3=None), is_in(Phase.PROGRESSING, step=3))  # type: ignore[arg-type]
    await pass_time(process, Course(judge=never), 5)
    [_, last] = sorted(world.api.all(GATE_RUNS, objects.NAMESPACE), key=lambda raw: raw["spec"]["step"])
    give_verdict(world, last, "PROMOTE")
    drift(world)
    successor = Process(world)
    await settle(successor, 30)
    assert_held_by_drift(world)
    assert world.canary_weight() > 0
    verdicts = [e.body["verdict"]["decision"] for e in world.ledger() if e.key.kind == "Verdict"]
    assert verdicts == ["PROMOTE", "PROMOTE"], "the verdict was given, and stands in the ledger"


async def test_a_drift_in_a_pause_holds_before_the_next_step() -> None:
    scenario = Scenario(
        "with a pause", rollout=objects.rollout(objects.WITH_PAUSE, bake=None), fingerprints=BEGAN
    )
    process, _ = await begin(scenario)
    await _until(process, judged(), is_in(Phase.PAUSED))
    drift(process.world)
    await settle(process, 120)
    assert_held_by_drift(process.world)
    assert len(runs(process.world)) == 1, "a gate began in a world that nobody was bound to"


async def test_a_drift_while_the_canary_grows_for_the_next_weight_holds_at_the_old_weight() -> None:
    process, _ = await begin(PLAIN)

    def drift_when_it_grows(world: World) -> None:
        canary = world.deployment(objects.CANARY)
        if canary is not None and canary["spec"]["replicas"] == 2:
            drift(world)

    course = Course(judge=judged(), check=drift_when_it_grows, over=is_in(Phase.HELD))
    await run(process, course, quiet=is_in(Phase.HELD))
    assert_held_by_drift(process.world)
    assert process.world.canary_weight() == 25
    assert len(runs(process.world)) == 1


async def _held_and_drifted() -> Process:
    process, _ = await begin(PLAIN)
    await _until(process, judged(s1="HOLD"), is_in(Phase.HELD))
    return process


async def test_an_approval_of_what_was_seen_before_the_drift_does_not_count_after_it() -> None:
    process = await _held_and_drifted()
    world = process.world
    approval = world.review("Approve")
    drift(world)
    await settle(process, 30)
    assert world.outcome(GATE_REVIEWS, approval) == "Refused"
    assert_held_by_drift(world)
    later = world.review("Approve")
    await settle(process, 30)
    assert world.outcome(GATE_REVIEWS, later) == "Refused", "void evidence cannot be waived"
    assert_held_by_drift(world)


async def test_an_approval_that_had_its_effect_in_the_same_world_counts() -> None:
    process = await _held_and_drifted()
    approval = process.world.review("Approve")
    await settle(process, 1)
    assert process.world.outcome(GATE_REVIEWS, approval) == "Accepted"
    assert status(process.world).phase is Phase.PROGRESSING


async def test_a_retry_after_a_drift_judges_anew_in_the_new_world_and_pools_nothing() -> None:
    process = await _held_and_drifted()
    world = process.world
    drift(world)
    order = world.order("Retry")
    await run(process, Course(judge=judged()))
    assert world.outcome(GATE_ORDERS, order) == "Accepted"
    assert status(world).phase is Phase.IDLE
    first, *later = runs(world)
    assert all(spec["fingerprints"][0]["value"] == "version=4" for spec in later)
    assert {spec["worldSnapshot"] for spec in later}.isdisjoint({first["worldSnapshot"]})
    assert not any(spec.get("pooledFrom") for spec in later)


async def test_a_retry_in_the_same_world_pools_as_ever() -> None:
    process = await _held_and_drifted()
    world = process.world
    world.order("Retry")
    await run(process, Course(judge=judged()))
    first, again, _ = runs(world)
    assert first["worldSnapshot"] == again["worldSnapshot"]
    assert len(again["pooledFrom"]) == 1


async def test_a_hold_that_rests_on_a_proven_breach_still_does_after_a_drift() -> None:
    process = await _held_and_drifted()
    world = process.world
    hold = status(world).hold
    assert hold is not None
    live = world.api.get(GATE_RUNS, objects.NAMESPACE, hold.run)
    assert live is not None
    drift(world)
    world.touch(ROLLOUTS, objects.NAME, "look again")
    await settle(process, 5)
    assert_held_by_drift(world)
    give_verdict(world, live, "ROLLBACK", breach=True)
    await settle(process, 60)
    assert status(world).phase is Phase.ROLLED_BACK


async def test_a_model_that_cannot_be_read_keeps_the_first_gate_from_beginning_until_it_can() -> None:
    process, invariants = await begin(PLAIN)
    world = process.world
    world.fingerprints = {}
    await _until(process, judged(), is_in(Phase.PROGRESSING, step=1))
    await settle(process, 60)
    assert runs(world) == []
    assert "the gate has not begun yet, because judge-model can't be read" in status(world).message
    stalled = {c.type: (c.status, c.reason) for c in status(world).conditions}["Stalled"]
    assert stalled == ("True", "SourceUnreachable")
    world.fingerprints = dict(BEGAN)
    await run(process, PLAIN.course(invariants))
    PLAIN.assert_ended(world, invariants)


async def test_a_model_that_is_never_read_ends_in_a_hold_that_a_retry_ends() -> None:
    process, _ = await begin(PLAIN)
    world = process.world
    world.fingerprints = {}
    await _until(process, judged(), is_in(Phase.HELD))
    hold = status(world).hold
    assert hold is not None
    assert hold.reason == "SourceUnreachable"
    assert hold.message.startswith("The gate could not begin for 10m, because judge-model can't be read")
    assert runs(world) == []
    world.fingerprints = {"judge-model": "version=9"}
    await run(process, Course(judge=judged(), people=deciding("Retry")))
    assert status(world).phase is Phase.IDLE
    assert {spec["fingerprints"][0]["value"] for spec in runs(world)} == {"version=9"}


async def test_a_model_that_cannot_be_read_later_is_no_drift() -> None:
    process, invariants = await begin(PLAIN)
    await _until(process, judged(), is_in(Phase.PROGRESSING, step=1))
    process.world.fingerprints = {}
    await run(process, PLAIN.course(invariants))
    PLAIN.assert_ended(process.world, invariants)


@pytest.mark.parametrize("field", ["fingerprints", "verdict"])
async def test_a_run_that_is_bound_to_another_world_decides_nothing(field: str) -> None:
    """Under the name of the second gate's run stands one with another's fingerprints, or a verdict on another world."""
    process, _ = await begin(PLAIN)
    world, api = process.world, process.world.api
    await _until(
        process, lambda w, r: "PROMOTE" if r["spec"]["step"] == "1" else None, lambda w: len(runs(w)) == 2
    )
    [_, live] = sorted(api.all(GATE_RUNS, objects.NAMESPACE), key=lambda raw: raw["spec"]["step"])
    metadata = {k: v for k, v in live["metadata"].items() if k in ("name", "labels")}
    spec = live["spec"]
    if field == "fingerprints":
        spec = spec | {"fingerprints": [{"name": "judge-model", "value": "version=4"}]}
    api.delete("admin", GATE_RUNS, objects.NAMESPACE, live["metadata"]["name"])
    planted = api.create(OPERATOR, GATE_RUNS, objects.NAMESPACE, {"metadata": metadata, "spec": spec})
    told = (
        planted
        if field == "fingerprints"
        else planted | {"spec": spec | {"worldSnapshot": "sha256:" + "0" * 64}}
    )
    give_verdict(world, told, "PROMOTE")
    await settle(process, 120)
    assert status(world).phase is Phase.PROGRESSING, "a verdict on another world was obeyed"
    assert not promoted_entries(world)


async def test_a_bake_whose_world_is_never_known_ends_without_a_verdict_and_reverts_nothing() -> None:
    scenario = Scenario("held in the bake", judged(bake="HOLD"), fingerprints=BEGAN)
    process, invariants = await begin(scenario)
    world = process.world
    await _until(process, scenario.judge, is_in(Phase.HELD))
    world.order("Retry")
    world.fingerprints = {}
    await run(process, scenario.course(invariants))
    scenario.assert_ended(world, invariants)
    assert "The bake ends without a verdict" in status(world).message
