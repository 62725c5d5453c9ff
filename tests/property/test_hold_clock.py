"""Time in a HOLD: it calls louder once, it ends by no clock but where a breach was proven, and it never promotes. Neither a
restart nor a source that is away takes time from a person."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatewright_analysis.kinds.base import format_time
from gatewright_analysis.kinds.rollout import HoldStatus, Phase
from gatewright_operator.errors import Unavailable
from gatewright_operator.plan.hold_clock import _turned
from gatewright_operator.plan.snapshot import SourceState
from gatewright_operator.resources import CONFIGMAPS, GATE_ORDERS, GATE_REVIEWS
from tests.property.hold_walk import (
    MINUTE,
    ONE_STEP,
    START,
    entries,
    held,
    hold_of,
    promoted,
    report,
    status,
    wait,
    work,
)
from tests.property.sim_api import Call, Client
from tests.property.sim_objects import NAMESPACE
from tests.property.sim_operator import Course, Crash, Process, run, settle
from tests.property.sim_scenarios import begin
from tests.property.sim_world import World

# Escalation


async def test_what_nobody_decides_is_escalated_once_and_says_so() -> None:
    process, _ = await held()
    world = process.world
    since = hold_of(world).since
    assert hold_of(world).escalate_at == since + 15 * MINUTE
    await wait(process, 14 * MINUTE)
    assert hold_of(world).escalated_at is None
    await wait(process, 40 * MINUTE)
    hold, open_ = hold_of(world), status(world).escalation
    assert hold.escalated_at == since + 15 * MINUTE
    assert open_ is not None
    assert (open_.opened_at, open_.cause, open_.resolution) == (hold.escalated_at, hold.reason, "")
    assert status(world).message.startswith("Escalated. Nobody decided within 15m. Held at step 2 of 2: ")
    [said] = [c for c in status(world).conditions if c.type == "Held"]
    assert (said.reason, said.message.startswith("Escalated at 2030-")) == ("Escalated", True)
    [entry] = entries(world, "Escalated")
    assert entry.key.cause == hold.evidence_digest
    assert [reason for reason, _ in process.recorder.told].count("Escalated") == 1
    world.review("Approve")
    await work(process)
    closed = status(world).escalation
    assert closed is not None
    assert "reviewer-a approved" in closed.resolution


async def test_the_end_of_the_wait_escalates_where_it_comes_first_and_it_stays_held_and_open_to_a_decision() -> (
    None
):
    process, invariants = await held(escalateAfter="3h", timeout="30m")
    world = process.world
    await wait(process, 24 * 60 * MINUTE)
    hold = hold_of(world)
    assert hold.escalated_at == hold.deadline == hold.since + 30 * MINUTE
    assert "beyond its deadline" in status(world).message
    assert len(entries(world, "Escalated")) == 1
    name = world.review("Approve")
    await run(process, Course())
    assert world.outcome(GATE_REVIEWS, name) == "Accepted"
    ONE_STEP.assert_ended(world, invariants)


async def test_an_order_escalates_once_also_while_the_clock_stands_still() -> None:
    process, _ = await held()
    world = process.world
    report(world, down=True)
    await wait(process, MINUTE)
    first = world.order("Escalate")
    await work(process)
    at = hold_of(world).escalated_at
    assert at is not None
    assert world.outcome(GATE_ORDERS, first) == "Accepted"
    second = world.order("Escalate")
    report(world, down=False)
    await wait(process, 40 * MINUTE)
    assert world.outcome(GATE_ORDERS, second) == "Refused"
    assert hold_of(world).escalated_at == at, "it was escalated twice"
    assert len(entries(world, "Escalated")) == 1
    assert [e.body["spec"]["order"] for e in entries(world, "Order")] == ["Escalate"]


async def test_where_nothing_is_held_there_is_nothing_to_escalate() -> None:
    process, _ = await begin(ONE_STEP)
    world = process.world
    await run(process, Course(judge=lambda world, run_: None, over=lambda world: bool(status(world).run)))
    name = world.order("Escalate")
    await settle(process, 5)
    told = world.api.get(GATE_ORDERS, NAMESPACE, name)
    assert told is not None
    assert told["status"]["outcome"] == "Refused"
    assert told["status"]["message"].startswith("Nothing is held, so there is nothing to escalate")


@pytest.mark.parametrize("by", ["clock", "order"])
async def test_a_crash_at_any_write_of_an_escalation_leaves_exactly_one(by: str) -> None:
    for number in range(6):
        process, _ = await held()
        world = process.world
        seen = 0

        async def die(call: Call, number: int = number) -> None:
            nonlocal seen
            seen += 1
            if seen == number + 1:
                raise Crash

        due = hold_of(world).escalate_at
        assert due is not None
        name = ""
        if by == "order":
            name = world.order("Escalate")
        else:
            world.now = due
        dying = Process(world, Client(world.api, before=die))
        try:
            await work(dying)
        except Crash:
            world.advance(7)
            await work(Process(world))
        hold = hold_of(world)
        [entry] = entries(world, "Escalated")
        assert format_time(hold.escalated_at or START) == entry.body["at"], "status and ledger differ"
        assert status(world).escalation is not None
        if by == "order":
            assert world.outcome(GATE_ORDERS, name) == "Accepted", f"killed before write {number}"
            assert len(entries(world, "Order")) == 1


async def test_a_ledger_that_cannot_be_written_does_not_keep_the_call_waiting_and_hears_of_it_later() -> None:
    process, _ = await held()
    world = process.world

    async def away(call: Call) -> None:
        if call.resource == CONFIGMAPS:
            raise Unavailable("the ledger cannot be written")

    process.client.before = away
    await wait(process, 20 * MINUTE)
    at = hold_of(world).escalated_at
    assert at == hold_of(world).since + 15 * MINUTE
    assert not entries(world, "Escalated")
    await work(Process(world))
    [entry] = entries(world, "Escalated")
    assert entry.body["at"] == format_time(at)
    assert hold_of(world).escalated_at == at


# What a time-out may do


@settings(max_examples=15)
@given(
    breach=st.booleans(),
    on_timeout=st.sampled_from(["Hold", "Rollback"]),
    escalate=st.sampled_from(["5m", "60m", "5h"]),
    moves=st.lists(
        st.tuples(st.sampled_from(["down", "up", "restart", "wait"]), st.integers(1, 50)), max_size=8
    ),
)
async def test_no_clock_ever_promotes_and_it_reverts_only_what_is_proven_bad(
    breach: bool, on_timeout: str, escalate: str, moves: list[tuple[str, int]]
) -> None:
    """About 2 s of CPU for all examples."""
    process, _ = await held(breach=breach, onTimeout=on_timeout, escalateAfter=escalate)
    world = process.world
    for move, minutes in [*moves, ("up", 1), ("wait", 24 * 60)]:
        if move in ("down", "up"):
            report(world, down=move == "down")
        elif move == "restart":
            world.now += minutes * MINUTE
            process = Process(world)
        await wait(process, minutes * MINUTE)
        assert not promoted(world), "a clock promoted"
    if breach and on_timeout == "Rollback":
        assert status(world).phase is Phase.ROLLED_BACK
        [back] = entries(world, "Back")
        assert back.body["reason"] == "HoldTimedOut"
    else:
        assert status(world).phase is Phase.HELD
        assert not entries(world, "Back")
        assert len(entries(world, "Escalated")) == 1
    assert len(entries(world, "Escalated")) <= 1


# Restarts


@settings(max_examples=10)
@given(
    moves=st.lists(st.tuples(st.sampled_from(["down", "up", "wait"]), st.integers(1, 12)), max_size=6),
    restarts=st.sets(st.integers(0, 11), max_size=6),
)
async def test_a_restart_at_any_point_moves_no_deadline(
    moves: list[tuple[str, int]], restarts: set[int]
) -> None:
    """About 2 s of CPU for all examples. The operator starts anew before it takes in a report, or is away for a wait."""
    process, _ = await held()
    world = process.world
    deadline, began = hold_of(world).deadline, None
    for number, (move, minutes) in enumerate(moves):
        if move in ("down", "up"):
            report(world, down=move == "down")
            if move == "down" and began is None:
                began = world.now
            elif move == "up" and began is not None:
                deadline, began = deadline + (world.now - began), None
            process = Process(world) if 2 * number in restarts else process
            await work(process)
        if 2 * number + 1 in restarts:
            world.now += minutes * MINUTE
            process = Process(world)
            await work(process)
        else:
            await wait(process, minutes * MINUTE)
    hold = hold_of(world)
    assert (hold.deadline, hold.clock_stopped_since) == (deadline, began)
    assert (hold.escalated_at is None) == ((began or world.now) < deadline - 45 * MINUTE), (
        "the two clocks do not move together"
    )


# Clocks that stand still


async def test_while_its_source_is_down_the_wait_does_not_count_and_says_so() -> None:
    process, _ = await held()
    world = process.world
    first = hold_of(world)
    await wait(process, 10 * MINUTE)
    report(world, down=True)
    gone = world.now
    await wait(process, 5 * 60 * MINUTE)
    hold = hold_of(world)
    assert (hold.clock_stopped_since, hold.clock_stopped_by) == (gone, "prometheus (SourceUnreachable)")
    assert hold.escalated_at is None
    assert "The wait does not count since 2030-" in status(world).message
    assert "prometheus (SourceUnreachable)" in status(world).message
    told = [reason for reason, _ in process.recorder.told]
    report(world, down=False)
    back = world.now
    await work(process)
    hold = hold_of(world)
    assert hold.deadline == first.deadline + (back - gone)
    assert first.escalate_at is not None
    assert hold.escalate_at == first.escalate_at + (back - gone)
    assert (hold.clock_stopped_since, hold.clock_stopped_by) == (None, "")
    assert "does not count" not in status(world).message
    assert [reason for reason, _ in process.recorder.told] == told, (
        "a source is reported once, not by each Rollout"
    )
    await wait(process, 6 * MINUTE)
    assert hold_of(world).escalated_at == hold.escalate_at


async def test_an_approval_counts_while_the_clock_stands_still() -> None:
    process, invariants = await held()
    world = process.world
    report(world, down=True)
    await wait(process, 120 * MINUTE)
    world.review("Approve")
    await run(process, Course())
    ONE_STEP.assert_ended(world, invariants)


@given(
    turns=st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 600)), max_size=30),
    lag=st.integers(0, 5),
)
def test_the_times_that_sources_were_down_add_up_where_they_overlap_once(
    turns: list[tuple[str, int]], lag: int
) -> None:
    """Of two sources, each goes and comes back; the hold is looked at `lag` seconds after each change."""
    now = START
    first = HoldStatus(
        run="run", evidence_digest="sha256:" + "0" * 64, step="1", since=now, reason="LowTraffic",
        deadline=now + timedelta(days=30), escalate_at=now + timedelta(days=20),
    )  # fmt: skip
    hold, states = first, {name: SourceState(False, now) for name in ("a", "b")}
    began, spent = None, timedelta(0)
    for name, seconds in turns:
        now += timedelta(seconds=seconds + lag)
        states[name] = SourceState(not states[name].down, now, "SourceTimeout")
        down = any(state.down for state in states.values())
        if down and began is None:
            began = now
        elif not down and began is not None:
            spent, began = spent + (now - began), None
        hold = _turned(hold, states, now + timedelta(seconds=lag))
        assert hold.clock_stopped_since == began
        assert (hold.clock_stopped_by != "") == down
        assert hold.deadline == first.deadline + spent
        assert first.escalate_at is not None
        assert hold.escalate_at == first.escalate_at + spent


async def test_a_wait_that_is_over_does_not_begin_again_with_a_source_that_goes() -> None:
    process, _ = await held()
    world = process.world
    await wait(process, 90 * MINUTE)
    before = hold_of(world)
    report(world, down=True)
    await wait(process, 60 * MINUTE)
    report(world, down=False)
    await wait(process, MINUTE)
    assert hold_of(world) == before


async def test_a_status_that_is_wiped_ends_the_hold_and_the_next_one_waits_the_whole_time() -> None:
    process, invariants = await held()
    world = process.world
    first = hold_of(world)
    await wait(process, 30 * MINUTE)
    world.wipe_status()

    def judge(world: World, run_: Any) -> str | None:
        return "HOLD"

    await run(process, Course(judge=judge, over=lambda world: status(world).phase is Phase.HELD))
    again = hold_of(world)
    assert again.run != first.run, "what was held went on, and nobody knew for how long"
    assert again.deadline == again.since + 60 * MINUTE
    assert again.escalated_at is None
    await wait(process, 20 * MINUTE)
    assert len(entries(world, "Escalated")) == 2
    assert not promoted(world)
    world.order("Abort")
    await run(process, Course(judge=judge, over=lambda world: status(world).phase is Phase.ROLLED_BACK))
    await settle(process)
    invariants.at_rest()
