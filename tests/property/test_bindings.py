"""A decision counts for exactly what it names: change one thing that it is bound to and it counts for nothing."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gatewright_analysis.kinds.base import format_time
from gatewright_analysis.kinds.rollout import Phase
from gatewright_operator.resources import GATE_ORDERS, GATE_REVIEWS, GATE_RUNS, ROLLOUTS
from tests.property import sim_objects as objects
from tests.property.sim_api import OPERATOR, Object
from tests.property.sim_invariants import Invariants
from tests.property.sim_objects import NAME, NAMESPACE
from tests.property.sim_operator import Course, Process, run, settle
from tests.property.sim_scenarios import Scenario, begin, deciding, judged
from tests.property.sim_world import DEVELOPER, REVISIONS, START, World, give_verdict

HELD = Scenario("held", judged(s3="HOLD"), rollout=objects.rollout(bake=None))
NOBODY = "nobody-a"


def is_held(world: World) -> bool:
    rollout = world.rollout()
    return rollout is not None and rollout.status.phase is Phase.HELD


async def _held(scenario: Scenario = HELD) -> tuple[Process, Invariants]:
    process, invariants = await begin(scenario)
    process.world.api.may = lambda user, verb: user != NOBODY
    await run(process, replace(scenario.course(invariants), over=is_held))
    return process, invariants


BOUND_TO: list[dict[str, Any]] = [
    {"revision": REVISIONS["v3"]},
    {"revision": REVISIONS["v1"]},
    {"step": "1"},
    {"step": "bake"},
    {"run": f"{NAME}-{REVISIONS['v2']}-1-1"},
    {"run": f"{NAME}-{REVISIONS['v2']}-3-2"},
    {"evidenceDigest": "sha256:" + "0" * 64},
    {"rolloutUID": "00000000-0000-0000-0000-999999999999"},
    {"reviewer": NOBODY},
    {"expiresAt": format_time(START)},
]


@pytest.mark.parametrize("decision", ["Approve", "Reject", "RequestChanges"])
@pytest.mark.parametrize("changed", BOUND_TO, ids=lambda c: "-".join(c))
async def test_a_review_of_something_else_has_no_effect(changed: dict[str, Any], decision: str) -> None:
    if "expiresAt" in changed and decision != "Approve":
        changed = {"evidenceDigest": "sha256:" + "1" * 64}
    process, invariants = await _held()
    world = process.world
    before = (world.canary_weight(), world.deployment(), len(world.ledger()))
    name = world.review(decision, **changed)
    await settle(process, 30)
    assert world.outcome(GATE_REVIEWS, name) == "Refused", (
        "a review that is bound to something else was obeyed"
    )
    assert is_held(world)
    assert (world.canary_weight(), world.deployment(), len(world.ledger())) == before
    # The right one still counts.
    right = world.review("Approve")
    await run(process, HELD.course(invariants))
    assert world.outcome(GATE_REVIEWS, right) == "Accepted"
    HELD.assert_ended(world, invariants)


@pytest.mark.parametrize("kind", ["Retry", "Abort"])
@pytest.mark.parametrize(
    "changed",
    [{"revision": REVISIONS["v3"]}, {"rolloutUID": "00000000-0000-0000-0000-999999999999"}, {"orderedBy": NOBODY}],
    ids=lambda c: "-".join(c),
)  # fmt: skip
async def test_an_order_for_something_else_has_no_effect(changed: dict[str, Any], kind: str) -> None:
    process, _ = await _held()
    world = process.world
    name = world.order(kind, **changed)
    await settle(process, 30)
    assert world.outcome(GATE_ORDERS, name) == "Refused"
    assert is_held(world)


async def test_an_approval_of_an_earlier_hold_does_not_count_for_the_next_one() -> None:
    """The same step, held again after a Retry: other run, other evidence."""
    process, _invariants = await _held()
    world = process.world
    rollout = world.rollout()
    assert rollout is not None
    assert rollout.status.hold is not None
    first = {"run": rollout.status.hold.run, "evidenceDigest": rollout.status.hold.evidence_digest}
    world.order("Retry")
    again = Course(judge=lambda world, r: "HOLD" if r["spec"]["step"] == "3" else "PROMOTE", over=is_held)
    await run(process, again, quiet=lambda world: world.rollout().status.attempt == 2 and is_held(world))  # type: ignore[union-attr]
    name = world.review("Approve", **first)
    await settle(process, 30)
    assert world.outcome(GATE_REVIEWS, name) == "Refused"
    assert is_held(world)


async def test_an_approval_dies_with_the_revision_that_it_was_for() -> None:
    process, invariants = await _held()
    world = process.world
    name = world.review("Approve")
    world.push("v3")
    await run(process, Course(judge=lambda world, r: None, over=lambda world: bool(world.outcome(GATE_REVIEWS, name)),
                              check=lambda world: invariants.endpoints()))  # fmt: skip
    await settle(process, 60)
    rollout = world.rollout()
    assert rollout is not None
    assert rollout.status.canary is not None
    assert rollout.status.canary.revision == REVISIONS["v3"]
    assert not [e for e in world.ledger() if e.key.kind == "Promoted"]


@pytest.mark.parametrize("decision", ["Approve", "Reject", "Abort", "Retry"])
async def test_a_decision_that_comes_when_nothing_is_held_is_answered_and_does_nothing(decision: str) -> None:
    process, invariants = await _held()
    world = process.world
    review = {"Approve": "Approve", "Reject": "Reject"}.get(decision)
    world.review("Approve")
    name = world.review(review) if review else world.order(decision)
    await run(process, HELD.course(invariants))
    await settle(process)
    resource = GATE_REVIEWS if review else GATE_ORDERS
    assert world.outcome(resource, name), "a decision got no answer"
    if decision in ("Approve", "Retry"):
        HELD.assert_ended(world, invariants)


@pytest.mark.parametrize("decision", ["PROMOTE", "ROLLBACK", "HOLD"])
@pytest.mark.parametrize("field", ["rolloutUID", "contractDigest", "revision", "attempt", "step"])
async def test_a_run_that_is_bound_to_something_else_decides_nothing(field: str, decision: str) -> None:
    """A GateRun stands under the name that this gate's run would have, with another's verdict."""
    process, _invariants = await begin(HELD)
    world, api = process.world, process.world.api
    name = f"{NAME}-{REVISIONS['v2']}-1-1"
    strange = {"rolloutUID": "other", "contractDigest": "sha256:" + "0" * 64, "revision": REVISIONS["v3"],
               "attempt": 7, "step": "3"}[field]  # fmt: skip

    def plant(call_world: World) -> None:
        live = api.get(GATE_RUNS, NAMESPACE, name)
        assert live is not None
        metadata = {k: v for k, v in live["metadata"].items() if k in ("name", "labels")}
        api.delete("admin", GATE_RUNS, NAMESPACE, name)
        planted: Object = {"metadata": metadata, "spec": live["spec"] | {field: strange}}
        give_verdict(world, api.create(OPERATOR, GATE_RUNS, NAMESPACE, planted), decision)

    await run(
        process,
        Course(
            judge=lambda world, r: None, over=lambda world: api.get(GATE_RUNS, NAMESPACE, name) is not None
        ),
    )
    weight, entries = world.canary_weight(), len(world.ledger())
    plant(world)
    await settle(process, 120)
    rollout = world.rollout()
    assert rollout is not None
    assert rollout.status.phase is Phase.PROGRESSING, (
        f"a verdict on something else led to {rollout.status.phase}"
    )
    assert rollout.status.current_step == 1
    assert (world.canary_weight(), len(world.ledger())) == (weight, entries)


async def test_a_bake_run_of_another_rollout_neither_ends_nor_reverts_the_release() -> None:
    process, _invariants = await begin(Scenario("baking"))
    world, api = process.world, process.world.api
    name = f"{NAME}-{REVISIONS['v2']}-bake-1"

    def plant(world: World) -> bool:
        live = api.get(GATE_RUNS, NAMESPACE, name)
        if live is None or live["spec"]["rolloutUID"] == "other":
            return False
        metadata = {k: v for k, v in live["metadata"].items() if k in ("name", "labels")}
        api.delete("admin", GATE_RUNS, NAMESPACE, name)
        planted: Object = {"metadata": metadata, "spec": live["spec"] | {"rolloutUID": "other"}}
        give_verdict(world, api.create(OPERATOR, GATE_RUNS, NAMESPACE, planted), "ROLLBACK")
        return True

    def planted(world: World) -> bool:
        live = api.get(GATE_RUNS, NAMESPACE, name)
        return live is not None and live["spec"]["rolloutUID"] == "other"

    course = Course(
        judge=lambda world, r: "PROMOTE" if r["spec"]["step"] != "bake" else None, people=plant, over=planted
    )
    await run(process, course)
    await settle(process, 120)
    rollout = world.rollout()
    assert rollout is not None
    assert rollout.status.phase is Phase.BAKING, f"another's verdict led to {rollout.status.phase}"


async def test_nothing_is_read_out_of_a_status_that_somebody_forged() -> None:
    """Status only reports: one that says Promoting un-pauses nothing that the ledger does not promote."""
    process, invariants = await _held()
    world = process.world
    live = world.api.get(ROLLOUTS, NAMESPACE, NAME)
    assert live is not None
    status = {k: v for k, v in live["status"].items() if k != "hold"}
    forged = status | {"phase": "Promoting", "previous": status["stable"]}
    world.api.replace("admin", ROLLOUTS, NAMESPACE, NAME, live | {"status": forged}, "status")
    await settle(process, 120)
    invariants.endpoints()
    assert not [e for e in world.ledger() if e.key.kind == "Promoted"]


async def test_a_deadline_alone_never_reverts_or_promotes() -> None:
    process, invariants = await _held()
    world = process.world
    world.now += timedelta(days=3)
    await settle(process, 60)
    assert is_held(world), "a clock decided"
    world.review("Approve")
    await run(process, HELD.course(invariants))
    HELD.assert_ended(world, invariants)


@pytest.mark.parametrize("decision", ["Approve", "Reject"])
async def test_a_decision_in_the_bake_is_answered_with_what_came_of_it(decision: str) -> None:
    scenario = Scenario("held in the bake", judged(bake="HOLD"))
    process, invariants = await _held(scenario)
    name = process.world.review(decision)
    await run(process, scenario.course(invariants))
    assert process.world.outcome(GATE_REVIEWS, name) == "Accepted"


async def test_a_new_template_ends_a_hold_in_the_bake() -> None:
    scenario = Scenario("held in the bake", judged(bake="HOLD"), serves="v3")
    process, invariants = await _held(scenario)
    process.world.push("v3", user=DEVELOPER)
    await run(process, replace(scenario.course(invariants), people=deciding("Approve")))
    scenario.assert_ended(process.world, invariants)


async def test_a_breach_that_is_proven_during_a_hold_turns_it_back_at_once() -> None:
    for scenario in (HELD, Scenario("held in the bake", judged(bake="HOLD"))):
        process, invariants = await _held(scenario)
        world = process.world
        rollout = world.rollout()
        assert rollout is not None
        assert rollout.status.hold is not None
        live = world.api.get(GATE_RUNS, NAMESPACE, rollout.status.hold.run)
        assert live is not None
        give_verdict(world, live, "ROLLBACK", breach=True)
        await run(process, scenario.course(invariants))
        await settle(process)
        replace(scenario, ends=Phase.ROLLED_BACK, serves="v1").assert_ended(world, invariants)
