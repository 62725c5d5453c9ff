"""An operator that freezes ahead of any write and wakes when another has decided otherwise changes nothing that counts."""

import asyncio

import pytest

from gatewright_analysis.kinds.rollout import Phase
from gatewright_operator import ledger_store
from gatewright_operator.resources import DEPLOYMENTS, HTTPROUTES, SERVICES
from tests.property import sim_objects as objects
from tests.property.sim_api import Call, Client, Object
from tests.property.sim_explore import Known, Moment, each_write
from tests.property.sim_objects import CANARY, NAME, NAMESPACE
from tests.property.sim_operator import Course, Process, promote_all, run, settle
from tests.property.sim_scenarios import Scenario, judged, perform
from tests.property.sim_world import World

RELEASE = Scenario("promoted", rollout=objects.rollout(bake=None))
BREACH = Scenario("restored", judged(bake="ROLLBACK"), ends=Phase.ROLLED_BACK, serves="v1")


def traffic(world: World) -> list[Object | None]:
    """What decides who serves: weights, selectors, the user's Deployment."""
    wanted = ((HTTPROUTES, NAME), (SERVICES, NAME), (SERVICES, CANARY), (DEPLOYMENTS, NAME))
    return [(world.api.get(resource, NAMESPACE, name) or {}).get("spec") for resource, name in wanted]


ACTS = ("Abort", "push v3", "push v1", "delete", "nothing")
SHARE = 3
"""Each act meets every third write, each write an act or two: all of them with all take two CPU minutes."""


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("release", [RELEASE, BREACH], ids=str)
async def test_a_woken_operator_finds_its_plan_void(
    release: Scenario, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # While it is frozen no time passes for it.
    monkeypatch.setattr(ledger_store, "BACK_PATIENCE_SECONDS", 3600.0)
    known = Known()
    async for moment, number in each_write(release):
        if number % SHARE == ACTS.index(act) % SHARE:
            await _freeze(release, moment, number, act, known)


async def _freeze(release: Scenario, moment: Moment, number: int, act: str, known: Known) -> None:
    world, invariants = moment.again()
    frozen, wake = asyncio.Event(), asyncio.Event()

    async def before(call: Call) -> None:
        if call.number == number:
            frozen.set()
            await wake.wait()

    sleeper = Process(world, Client(world.api, before=before))
    asleep = asyncio.create_task(sleeper.work())
    await frozen.wait()
    perform(world, act)
    course = Course(
        judge=release.judge if act == "nothing" else promote_all, check=lambda world: invariants.endpoints()
    )
    other = Process(world)
    where = f"frozen ahead of {moment.writes[number]}, woken after {act}"
    try:
        await run(other, course)
        await settle(other)
        invariants.at_rest()
        before_waking = traffic(world)
        wake.set()
        await asleep
        assert traffic(world) == before_waking, "it changed who serves"
        await run(other, course)
        await settle(other)
        invariants.at_rest()
    except AssertionError as error:
        raise AssertionError(f"{where}: {error}") from error
    finally:
        wake.set()
        if not asleep.done():
            asleep.cancel()
