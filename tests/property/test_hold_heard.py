"""Who is heard before a time-out acts: of a decision and a time-out, the first to be written counts."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from gatewright_analysis.kinds.base import format_time
from gatewright_analysis.kinds.rollout import Phase
from gatewright_operator.resources import GATE_REVIEWS
from tests.property.hold_walk import (
    MINUTE,
    ONE_STEP,
    entries,
    held,
    hold_of,
    promoted,
    status,
    wait,
    work,
)
from tests.property.sim_objects import NAME, NAMESPACE
from tests.property.sim_operator import KEY, Course, Process, run, settle
from tests.property.sim_world import World


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
