"""Whatever somebody else does ahead of any single write of the operator, nothing unjudged goes out and all is cleared up."""

import pytest

from gatewright_analysis.kinds.rollout import Phase
from tests.property import sim_objects as objects
from tests.property.sim_explore import Known, Moment, each_write, meddled
from tests.property.sim_operator import Course
from tests.property.sim_scenarios import Scenario, deciding, judged, perform
from tests.property.sim_world import World

RELEASES = [
    Scenario("promoted", rollout=objects.rollout(bake=None)),
    Scenario("promoted by replicas", rollout=objects.rollout(traffic=objects.BY_REPLICAS, bake=None)),
    Scenario("rolled back", judged(s1="ROLLBACK"), ends=Phase.ROLLED_BACK, serves="v1"),
    Scenario(
        "restored after a breach in the bake", judged(bake="ROLLBACK"), ends=Phase.ROLLED_BACK, serves="v1"
    ),
]
ACTS = ["push v3", "push v1", "delete", "Abort", "wipe"]


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("release", RELEASES, ids=str)
async def test_what_people_do_ahead_of_any_write_is_safe_and_ends(release: Scenario, act: str) -> None:
    known = Known()
    async for moment, number in each_write(release):
        await _meddle(release, moment, number, act, known)


async def _meddle(release: Scenario, moment: Moment, number: int, act: str, known: Known) -> None:
    try:
        walked = await meddled(moment, number, lambda world: perform(world, act))
        if walked is None:
            return
        process, invariants = walked
        course = Course(
            judge=release.judge, people=deciding("Retry"), check=lambda world: invariants.endpoints()
        )
        if await known.walk(process, course, invariants):
            _assert_sense(process.world, act)
    except AssertionError as error:
        raise AssertionError(f"{act} ahead of {moment.writes[number]}: {error}") from error


def _assert_sense(world: World, act: str) -> None:
    """What was asked for has come about, unless a breach or its own end came first."""
    rollout = world.rollout()
    if act == "delete":
        assert rollout is None, f"deleted, and still there in phase {rollout.status.phase}"
