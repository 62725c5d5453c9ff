"""An API server that fails, answers into the void, or lets others write first costs time and nothing else."""

from collections import Counter
from collections.abc import Callable

import pytest

from gatewright_analysis.kinds.rollout import Phase
from gatewright_operator.errors import Unavailable
from gatewright_operator.resources import CONFIGMAPS, DEPLOYMENTS, HTTPROUTES, ROLLOUTS, SERVICES, Resource
from tests.property import sim_objects as objects
from tests.property.sim_api import Call, Client
from tests.property.sim_objects import NAME, NAMESPACE
from tests.property.sim_operator import Course, Process, pass_time, promote_all, run, settle
from tests.property.sim_scenarios import Scenario, begin, deciding, in_phase, judged
from tests.property.sim_world import World, paused

Written = tuple[str, Resource, str]

RELEASES = [
    Scenario("promoted to the end and baked"),
    Scenario("promoted by replicas", rollout=objects.rollout(traffic=objects.BY_REPLICAS, bake=None)),
    Scenario("rolled back at the last gate", judged(s3="ROLLBACK"), ends=Phase.ROLLED_BACK, serves="v1"),
    Scenario("held and approved", judged(s1="HOLD"), deciding("Approve"), rollout=objects.rollout(bake=None)),
    Scenario(
        "held and tried again", judged(s3="HOLD"), deciding("Retry"), rollout=objects.rollout(bake=None)
    ),
    Scenario("a breach in the bake", judged(bake="ROLLBACK"), ends=Phase.ROLLED_BACK, serves="v1"),
    Scenario("superseded", people=in_phase(Phase.PROGRESSING, "push v3", step=3), serves="v3"),
    Scenario(
        "deleted at a gate", people=in_phase(Phase.PROGRESSING, "delete", step=3), ends=None, serves="v1"
    ),
]


class EachOnce:
    """Strikes at each write once: the second write to an object after one that went through is another one."""

    def __init__(self, strike: Callable[[Call], None]) -> None:
        self._strike = strike
        self._through: Counter[Written] = Counter()
        self._struck: set[tuple[Written, int]] = set()

    async def __call__(self, call: Call) -> None:
        what = (call.verb, call.resource, call.name)
        this = (what, self._through[what])
        if this not in self._struck:
            self._struck.add(this)
            self._strike(call)
        else:
            self._through[what] += 1


def unavailable(call: Call) -> None:
    raise Unavailable(f"no answer to {call.verb} {call.resource}")


def others_first(world: World) -> Callable[[Call], None]:
    """Somebody else writes an annotation of their own just ahead of the operator."""

    def strike(call: Call) -> None:
        if world.api.get(call.resource, call.namespace, call.name) is not None:
            world.touch(call.resource, call.name, str(call.number))

    return strike


@pytest.mark.parametrize("fault", ["others write first", "never sent", "answer lost"])
@pytest.mark.parametrize("release", RELEASES, ids=str)
async def test_a_release_whose_every_write_goes_wrong_once_ends_as_if_none_had(
    release: Scenario, fault: str
) -> None:
    process, invariants = await begin(release)
    if fault == "answer lost":
        process.client.after = EachOnce(unavailable)
    else:
        strike = unavailable if fault == "never sent" else others_first(process.world)
        process.client.before = EachOnce(strike)
    await run(process, release.course(invariants))
    await settle(process)
    release.assert_ended(process.world, invariants)


async def test_annotations_that_others_write_in_the_middle_of_a_release_stay() -> None:
    release = Scenario("promoted", rollout=objects.rollout(bake=None))
    process, invariants = await begin(release)
    process.client.before = EachOnce(others_first(process.world))
    await run(process, release.course(invariants))
    for resource in (DEPLOYMENTS, HTTPROUTES, SERVICES):
        obj = process.world.api.get(resource, NAMESPACE, NAME)
        assert obj is not None
        assert "example.org/note" in obj["metadata"]["annotations"], f"the note on {resource} was lost"


def no_ledger(call: Call) -> None:
    if call.resource == CONFIGMAPS:
        raise Unavailable("the ledger cannot be written")


async def _at_gate(release: Scenario, step: int) -> Process:
    """The release when the gate at `step` has begun to run."""
    process, invariants = await begin(release)

    def there(world: World) -> bool:
        rollout = world.rollout()
        return rollout is not None and rollout.status.current_step == step and rollout.status.run != ""

    await run(process, Course(judge=lambda world, r: None if r["spec"]["step"] == str(step) else "PROMOTE", over=there,
                              check=lambda world: invariants.endpoints()))  # fmt: skip
    return process


async def _break_ledger(process: Process) -> None:
    async def before(call: Call) -> None:
        no_ledger(call)

    process.client.before = before


@pytest.mark.parametrize("step", [1, 3])
async def test_no_ledger_no_promotion_and_no_higher_weight(step: int) -> None:
    release = Scenario("promoted", rollout=objects.rollout(bake=None))
    process = await _at_gate(release, step)
    world, weight = process.world, process.world.canary_weight()
    await _break_ledger(process)
    await pass_time(process, Course(), 90)
    deployment = world.deployment()
    assert deployment is not None
    assert world.canary_weight() == weight, "the weight rose without its entry"
    assert paused(deployment), "promoted without its entry"
    rollout = world.rollout()
    assert rollout is not None
    assert "ledger" in rollout.status.message, f"nobody is told why it waits: {rollout.status.message}"
    process.client.before = None
    await run(process, Course())
    rollout = world.rollout()
    assert rollout is not None
    assert rollout.status.phase is Phase.IDLE


@pytest.mark.parametrize("way", ["verdict", "Abort", "push v1", "delete"])
async def test_without_a_ledger_traffic_goes_back_all_the_same(way: str) -> None:
    release = Scenario("rolled back", judged(s3="ROLLBACK"), in_phase(Phase.PROGRESSING, way, step=3))
    process = await _at_gate(release, 3)
    world = process.world
    assert world.canary_weight() > 0
    await _break_ledger(process)
    began = world.now
    course = Course(judge=release.judge if way == "verdict" else promote_all, people=release.people)
    await run(process, Course(course.judge, course.people, over=lambda world: world.canary_weight() == 0))
    assert (world.now - began).total_seconds() < 10, "traffic waited for the ledger"
    process.client.before = None
    await run(process, course)
    await settle(process)
    kinds = [e.key.kind for e in world.ledger()]
    assert kinds.count("Back") == 1, "what moved without its entry was not written afterwards"
    assert kinds[-1] == "RolledBack"


async def test_status_keeps_the_ledger_head_while_the_ledger_cannot_be_written() -> None:
    process = await _at_gate(Scenario("promoted"), 3)
    before = process.world.rollout()
    assert before is not None
    await _break_ledger(process)
    await pass_time(process, Course(), 90)
    after = process.world.rollout()
    assert after is not None
    assert after.status.ledger.sequence >= before.status.ledger.sequence, "the head went back"


async def test_the_rollout_is_never_written_by_two_operators_into_one_status() -> None:
    """Two that are both awake take turns by compare-and-swap: every status follows from the one before it."""
    release = Scenario("promoted", rollout=objects.rollout(bake=None))
    process, invariants = await begin(release)
    world = process.world
    second = Process(world, Client(world.api))
    work = process.work

    async def both() -> bool:
        one, two = await work(), await second.work()
        return one or two

    process.work = both  # type: ignore[method-assign]
    await run(process, release.course(invariants))
    await settle(process)
    release.assert_ended(world, invariants)
    assert world.api.get(ROLLOUTS, NAMESPACE, NAME) is not None
