"""Time in a HOLD: it calls louder once, it ends by no clock but where a breach was proven, and it never promotes. Neither a
restart nor a source that is away takes time from a person."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatewright_analysis.kinds.base import format_time
from gatewright_analysis.kinds.rollout import HoldStatus, Phase, RolloutStatus
from gatewright_operator.errors import Unavailable
from gatewright_operator.plan.hold_clock import _turned
from gatewright_operator.plan.snapshot import SourceState
from gatewright_operator.resources import (
    CONFIGMAPS,
    GATE_CONTRACTS,
    GATE_ORDERS,
    GATE_REVIEWS,
    GATE_RUNS,
    METRIC_SOURCES,
)
from tests.property import sim_objects as objects
from tests.property.sim_api import OPERATOR, Call, Client
from tests.property.sim_invariants import Invariants
from tests.property.sim_objects import NAME, NAMESPACE
from tests.property.sim_operator import KEY, Course, Crash, Process, run, settle
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


@settings(max_examples=25)
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


@settings(max_examples=15)
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


# Who is heard first


@contextmanager
def operator_away(process: Process, length: timedelta) -> Iterator[World]:
    """The operator does nothing for so long; what is done in the block is done at its beginning."""
    yield process.world
    process.world.now += length


@pytest.mark.parametrize("after", [timedelta(minutes=59), timedelta(minutes=61)], ids=["before", "after"])
async def test_a_review_that_was_written_while_the_operator_was_down_is_heard_before_the_time_out_acts(
    after: timedelta,
) -> None:
    """Before the deadline or after it: nothing had been written of a time-out, so the review was the first."""
    process, invariants = await held(breach=True, onTimeout="Rollback")
    world = process.world
    world.now = hold_of(world).since + after
    with operator_away(process, 30 * MINUTE):
        name = world.review("Approve")
    again = Process(world)
    await run(again, Course())
    assert world.outcome(GATE_REVIEWS, name) == "Accepted"
    assert not entries(world, "Back")
    ONE_STEP.assert_ended(world, invariants)


async def test_an_approval_that_ended_before_it_was_heard_does_not_keep_the_time_out_from_acting() -> None:
    process, invariants = await held(breach=True, onTimeout="Rollback")
    world = process.world
    world.now = hold_of(world).since + 55 * MINUTE
    with operator_away(process, 30 * MINUTE):
        name = world.review("Approve", expiresAt=format_time(world.now + 10 * MINUTE))
    again = Process(world)
    await run(again, Course(over=lambda world: status(world).phase is Phase.ROLLED_BACK))
    told = world.api.get(GATE_REVIEWS, NAMESPACE, name)
    assert told is not None
    assert (told["status"]["outcome"], told["status"]["reason"]) == ("Refused", "Expired")
    assert [e.body["reason"] for e in entries(world, "Back")] == ["HoldTimedOut"]
    await settle(again)
    invariants.at_rest()


async def test_a_review_that_no_watch_has_told_of_counts_before_a_time_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process, _ = await held(breach=True, onTimeout="Rollback")
    world = process.world
    world.now = hold_of(world).deadline
    name = world.review("RequestChanges")
    monkeypatch.setattr(process, "sync", lambda: None)
    process.queue.add(KEY)
    await process.work()
    assert world.outcome(GATE_REVIEWS, name) == "Accepted", (
        "the time-out did not look for what was written before it"
    )


async def test_what_is_written_after_the_time_out_acted_is_too_late() -> None:
    process, invariants = await held(breach=True, onTimeout="Rollback")
    world = process.world
    spec = world.review("RequestChanges")
    await work(process)
    held_then = hold_of(world)
    assert world.outcome(GATE_REVIEWS, spec) == "Accepted"
    revision = status(world).canary
    assert revision is not None
    await wait(process, 61 * MINUTE)
    assert status(world).phase is Phase.ROLLED_BACK
    late = world._say(
        GATE_REVIEWS,
        {
            "rollout": NAME,
            "rolloutUID": (world.rollout() or pytest.fail("gone")).metadata.uid,
            "run": held_then.run,
            "revision": revision.revision,
            "step": held_then.step,
            "evidenceDigest": held_then.evidence_digest,
            "worldSnapshot": held_then.world_snapshot,
            "checks": list(held_then.blocking),
            "decision": "Approve",
            "reviewer": "reviewer-a",
            "reason": "looked at the errors, they are known",
            "expiresAt": format_time(world.now + timedelta(hours=1)),
        },
    )
    await settle(process)
    assert world.outcome(GATE_REVIEWS, late) == "Refused"
    assert not promoted(world)
    invariants.at_rest()
