"""Releases in which anything may come between at any write: people, crashes, lost answers, other writers, lost status."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gatewright_analysis.kinds.rollout import Phase
from gatewright_operator.errors import Unavailable
from gatewright_operator.resources import SERVICES
from tests.property import sim_objects as objects
from tests.property.sim_api import Call, Client
from tests.property.sim_invariants import Invariants
from tests.property.sim_objects import NAME, NAMESPACE
from tests.property.sim_operator import Course, Crash, Process, run, settle
from tests.property.sim_scenarios import Scenario, begin, judged, perform
from tests.property.sim_world import World

ACTS = [
    "push v1",
    "push v2",
    "push v3",
    "delete",
    "Abort",
    "Retry",
    "wipe",
    "Reject",
    "Approve",
    "lose the pin",
]
FAULTS = ["crash before", "crash after", "never sent", "answer lost", "others first"]

events = st.lists(st.tuples(st.integers(0, 45), st.sampled_from(ACTS + FAULTS)), max_size=6)
verdicts = st.fixed_dictionaries(
    {"s1": st.sampled_from(["PROMOTE", "PROMOTE", "HOLD", "ROLLBACK"]),
     "s3": st.sampled_from(["PROMOTE", "PROMOTE", "HOLD", "ROLLBACK"]),
     "bake": st.sampled_from(["PROMOTE", "HOLD", "ROLLBACK"])}
)  # fmt: skip
traffics = st.sampled_from([objects.GATEWAY, objects.BY_REPLICAS])


def clears_up(world: World) -> bool:
    """Whoever is held in the end is let go, so that every history has an end."""
    rollout = world.rollout()
    if rollout is None or rollout.status.phase is not Phase.HELD:
        return False
    assert rollout.status.hold is not None
    world.review("Approve") if rollout.status.hold.blocking else world.order("Retry")
    return True


def happen(world: World, act: str) -> None:
    rollout = world.rollout()
    held = rollout is not None and rollout.status.phase is Phase.HELD
    match act:
        case "Reject" | "Approve":
            if held:
                world.review(act)
        case "lose the pin":
            live = world.api.get(SERVICES, NAMESPACE, NAME)
            under_way = rollout is not None and rollout.status.phase in (Phase.PROGRESSING, Phase.HELD)
            # Only where the canary has no weight: what the other writer does to the traffic is not the operator's doing.
            if (
                live is not None
                and under_way
                and world.canary_weight() == 0
                and not world.pods({"gatewright.dev/rollout": NAME})
            ):
                world.api.replace(
                    "other-controller",
                    SERVICES,
                    NAMESPACE,
                    NAME,
                    live | {"spec": live["spec"] | {"selector": {"app": NAME}}},
                )
        case _:
            perform(world, act)


@dataclass
class History:
    """What strikes at which write, over all processes of the operator; the client's hooks."""

    world: World
    events: dict[int, list[str]]
    written: int = 0
    after: list[str] = field(default_factory=list)

    async def before_write(self, call: Call) -> None:
        number, self.written = self.written, self.written + 1
        self.after = [e for e in self.events.get(number, ()) if e in ("crash after", "answer lost")]
        for event in self.events.get(number, ()):
            if event in ACTS:
                happen(self.world, event)
            elif event == "others first" and self.world.api.get(call.resource, call.namespace, call.name):
                self.world.touch(call.resource, call.name, str(number))
            elif event == "crash before":
                raise Crash
            elif event == "never sent":
                raise Unavailable("no answer")

    async def after_write(self, call: Call) -> None:
        for event in self.after:
            raise Crash if event == "crash after" else Unavailable("no answer")

    def process(self) -> Process:
        return Process(self.world, Client(self.world.api, before=self.before_write, after=self.after_write))


async def _live(events: list[tuple[int, str]], verdicts: dict[str, str], traffic: dict[str, Any]) -> None:
    scenario = Scenario("history", judged(**verdicts), rollout=objects.rollout(traffic=traffic))
    process, invariants = await begin(scenario)
    world = process.world
    struck: dict[int, list[str]] = {}
    for number, event in events:
        struck.setdefault(number, []).append(event)
    history = History(world, struck)
    course = Course(judge=scenario.judge, people=clears_up, check=lambda world: invariants.endpoints())
    process = history.process()
    for _ in range(12):
        try:
            await run(process, course)
            await settle(process)
            break
        except Crash:
            process = history.process()
    else:
        raise AssertionError("more crashes than were asked for")
    _at_rest(invariants)


def _at_rest(invariants: Invariants) -> None:
    invariants.at_rest()
    rollout = invariants.world.rollout()
    if rollout is not None:
        assert rollout.status.phase in (None, Phase.IDLE, Phase.ROLLED_BACK)
        assert rollout.status.hold is None


@settings(max_examples=40, deadline=None)
@given(events, verdicts, traffics)
def test_whatever_happens_nothing_unjudged_serves_and_all_is_cleared_up(
    events: list[tuple[int, str]], verdicts: dict[str, str], traffic: dict[str, Any]
) -> None:
    asyncio.run(_live(events, verdicts, traffic))
