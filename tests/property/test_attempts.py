"""Attempts: samples are added by a person's order alone, budgets are opened by a person's Retry alone, and a restart of
the operator, a lost status or a ledger read from any entry on changes nothing about either."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatewright_analysis.kinds.rollout import Phase
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.ledger import Ledger, NewEntry, draw_key, fold
from gatewright_analysis.recall import judged_artifact
from gatewright_operator.resources import GATE_CONTRACTS, GATE_ORDERS, GATE_RUNS
from tests.judging import contract, sampled
from tests.property import sim_objects as objects
from tests.property.sim_api import Call, Client, Object
from tests.property.sim_invariants import Invariants
from tests.property.sim_objects import NAME, NAMESPACE
from tests.property.sim_operator import Course, Crash, Process, at_rest, nobody, run, settle
from tests.property.sim_scenarios import Scenario, begin, judged
from tests.property.sim_world import REVISIONS, World, give_verdict
from tests.unit.test_draws import order, result, verdict

ONE_STEP = objects.rollout([{"setWeight": 25}, {"gate": objects.GATE}], bake=None)


def asked(world: World, *checks: dict[str, Any], **spec: Any) -> None:
    """Another contract, before anything is pushed."""
    live = world.api.get(GATE_CONTRACTS, NAMESPACE, NAME)
    assert live is not None
    found = contract(*checks).wire() if checks else live["spec"]
    world.api.replace("admin", GATE_CONTRACTS, NAMESPACE, NAME, live | {"spec": found | spec})


def held_by(world: World, given: dict[str, Any]) -> bool:
    """A HOLD of every run without a verdict, on this result of its one check; False when there is none."""
    open_ = [r for r in world.api.all(GATE_RUNS, NAMESPACE) if not (r.get("status") or {}).get("verdict")]
    for raw in open_:
        give_verdict(world, raw, "HOLD")
        spec = GateRun.model_validate(raw).spec
        said = {
            "checks": [given],
            "blocking": [given["id"]],
            "change": {"artifactDigest": judged_artifact(spec), "configDigest": spec.config_digest},
        }
        world.api.patch(
            "system:serviceaccount:gatewright:operator", GATE_RUNS, NAMESPACE, raw["metadata"]["name"],
            {"status": {"verdict": said}}, subresource="status",
        )  # fmt: skip
    return bool(open_)


def runs(world: World) -> list[Object]:
    """GateRuns, by attempt."""
    return sorted(world.api.all(GATE_RUNS, NAMESPACE), key=lambda r: r["spec"]["attempt"])


def answers(world: World) -> list[tuple[str, str]]:
    """(outcome, reason) of each order, in the order they were given."""
    found = sorted(world.api.all(GATE_ORDERS), key=lambda o: o["metadata"]["name"])
    return [(o["status"]["outcome"], o["status"]["reason"]) for o in found if o.get("status")]


async def at_hold(given: dict[str, Any], *checks: dict[str, Any]) -> tuple[Process, Course]:
    """A release that is held by `given`, and the course on which whoever is held orders more samples, four times at
    most."""

    def people(world: World) -> bool:
        rollout = world.rollout()
        if held_by(world, given):
            return True
        if rollout is None or rollout.status.phase is not Phase.HELD or len(world.api.all(GATE_ORDERS)) >= 4:
            return False
        world.order("MoreSamples")
        return True

    world = World()
    world.furnish(ONE_STEP)
    asked(world, *checks)
    process = Process(world, check_idempotent=True)
    await run(process, Course())
    world.push("v2")

    def over(world: World) -> bool:
        rollout = world.rollout()
        return rollout is not None and rollout.status.phase is Phase.HELD

    return process, Course(judge=lambda world, run: None, people=people, over=over)


async def test_more_samples_go_on_from_those_there_are_and_there_are_two_more_attempts() -> None:
    process, course = await at_hold(result(), sampled())
    await run(process, course)
    first, second, third = runs(process.world)
    names = [r["metadata"]["name"] for r in (first, second, third)]
    assert [r["spec"]["moreSamples"] for r in (first, second, third)] == [False, True, True]
    assert second["spec"]["pooledFrom"] == names[:1]
    assert third["spec"]["pooledFrom"] == names[:2]
    assert answers(process.world) == [
        *[("Accepted", "Retried")] * 2,
        *[("Refused", "SamplesExhausted")] * 2,
    ]


async def test_an_operator_that_dies_after_each_write_obeys_an_order_for_more_samples_once() -> None:
    process, course = await at_hold(result(), sampled())
    world = process.world

    async def die(call: Call) -> None:
        raise Crash

    for _ in range(200):
        process = Process(world, Client(world.api, after=die))
        try:
            await run(process, course)
        except Crash:
            continue
        break
    else:
        raise AssertionError(f"200 restarts, and still on the way: {process._where()}")
    assert [r["spec"]["moreSamples"] for r in runs(world)] == [False, True, True]
    ordered = [e for e in world.ledger() if e.key.kind == "Order"]
    assert len({e.key.cause for e in ordered}) == len(ordered) == 2


@pytest.mark.parametrize(
    ("given", "checks", "reason"),
    [
        (result(id="http-success", oracleKind="Deterministic"), (), "NothingToRetry"),
        (result("inconclusive"), (sampled(),), "NothingToRetry"),
    ],
    ids=["a counted check", "no sample spent"],
)
async def test_an_order_for_samples_where_none_can_be_added_is_refused_with_a_sentence(
    given: dict[str, Any], checks: tuple[dict[str, Any], ...], reason: str
) -> None:
    process, course = await at_hold(given, *checks)
    await run(process, course)
    world = process.world
    assert set(answers(world)) == {("Refused", reason)}
    said = world.api.all(GATE_ORDERS)[0]["status"]["message"]
    assert "Retry" in said, said
    assert len(runs(world)) == 1, "it was held, and is held still"


async def test_a_run_begins_when_all_that_it_may_take_from_the_ledger_stands_there() -> None:
    """Two gates with nothing between them: the verdict of the first is written before the second run is made."""
    steps = [{"setWeight": 25}, {"gate": objects.GATE}, {"gate": objects.GATE}]
    process, _ = await begin(Scenario("two gates", rollout=objects.rollout(steps, bake=None)))
    world = process.world
    stood: list[list[str]] = []

    async def look(call: Call) -> None:
        if call.resource == GATE_RUNS and call.verb == "create":
            stood.append([e.key.step for e in world.ledger() if e.key.kind == "Verdict"])

    process.client.before = look
    await run(process, Course())
    assert stood == [[], ["1"]]


async def exhausted(disturbed: str) -> tuple[Process, Invariants]:
    """A budget of one, v2 rolled back, v3 pushed; then something that must not matter."""
    scenario = Scenario("budget", judged(s1="ROLLBACK"), rollout=ONE_STEP)
    world = World()
    world.furnish(ONE_STEP)
    asked(world, attempts={"budget": 1})
    invariants = Invariants(world)
    process = Process(world, check_idempotent=True)
    await run(process, Course())
    world.push("v2")
    await run(process, scenario.course(invariants))
    world.push("v3")
    await run(process, scenario.course(invariants))
    if disturbed == "a lost status":
        world.wipe_status()
        invariants.wiped = True
    if disturbed in ("a lost status", "a restart"):
        process = Process(world, check_idempotent=True)
    if disturbed == "a template that comes again":
        world.push("v1")
        await run(process, Course())
        world.push("v3")
    await run(process, scenario.course(invariants))
    await settle(process)
    return process, invariants


@pytest.mark.parametrize(
    "disturbed", ["nothing", "a restart", "a lost status", "a template that comes again"]
)
async def test_a_budget_that_is_used_up_is_opened_by_a_persons_retry_alone(disturbed: str) -> None:
    process, invariants = await exhausted(disturbed)
    world = process.world
    rollout, deployment = world.rollout(), world.deployment()
    assert rollout is not None
    assert deployment is not None
    status = rollout.status
    stalled = next(c for c in status.conditions if c.type == "Stalled")
    assert (status.phase, stalled.status, stalled.reason) == (Phase.ROLLED_BACK, "True", "AttemptsExhausted")
    assert deployment["spec"]["paused"] is True
    assert (status.attempts.used, status.attempts.budget) == (1, 1)
    assert status.escalation is not None
    assert (status.escalation.cause, status.escalation.resolution) == ("AttemptsExhausted", "")
    assert "kubectl gate retry checkout -n shop" in status.message
    assert not [e for e in world.ledger() if e.key.kind == "Started" and e.key.revision == REVISIONS["v3"]]
    assert len([e for e in world.ledger() if e.key.kind == "Held"]) == 1

    world.order("Retry", REVISIONS["v2"])
    await run(process, Course())
    assert answers(world) == [("Refused", "WrongRevision")]
    world.order("Retry", REVISIONS["v3"])
    await run(process, Course(judge=judged(), over=at_rest, check=lambda world: invariants.endpoints()))
    await settle(process)
    rollout = world.rollout()
    assert rollout is not None
    assert rollout.status.stable is not None
    assert rollout.status.stable.revision == REVISIONS["v3"]
    assert rollout.status.attempts.used == 0
    assert rollout.status.escalation is not None
    assert "ordered a Retry" in rollout.status.escalation.resolution


async def test_a_lost_status_in_a_gate_is_no_attempt_of_its_own() -> None:
    """The one revision that is on its way does not stand in its own way."""
    process, invariants = await begin(Scenario("wiped", rollout=objects.rollout(bake=None)))
    world = process.world
    asked(world, attempts={"budget": 1})

    def wiped(world: World) -> bool:
        rollout = world.rollout()
        if rollout is None or rollout.status.current_step != 3 or invariants.wiped:
            return False
        invariants.wiped = True
        world.wipe_status()
        return True

    await run(process, Course(people=wiped))
    await run(process, Course(people=nobody))
    rollout = world.rollout()
    assert rollout is not None
    assert rollout.status.stable is not None
    assert rollout.status.stable.revision == REVISIONS["v2"]


REVISION = [f"{n:010x}" for n in (1, 2)]
results = st.builds(
    result,
    st.sampled_from(["pass", "fail", "below_threshold", "inconclusive", "pending"]),
    cachedFrom=st.sampled_from(["", "", "run-x"]),
)
events = st.lists(
    st.one_of(
        st.tuples(st.just("verdict"), st.sampled_from(REVISION), st.sampled_from(["u1", "u2"]), results),
        st.tuples(
            st.just("order"), st.sampled_from(REVISION), st.just("u1"), st.sampled_from(["Retry", "Abort"])
        ),
    ),
    max_size=8,
)


def written(happened: list[tuple[str, str, str, Any]]) -> Ledger:
    new: list[NewEntry] = []
    for n, (kind, revision, uid, what) in enumerate(happened):
        one = (
            verdict(f"run-{n}", what, revision=revision, attempt=n, uid=uid)
            if kind == "verdict"
            else order(what, revision, cause=f"uid-{n}")
        )
        new.append(replace(one))
    return Ledger().append(new).ledger


@settings(max_examples=60, deadline=None)
@given(events)
def test_a_ledger_read_up_to_any_entry_remembers_the_same_draws(
    happened: list[tuple[str, str, str, Any]],
) -> None:
    """What a run takes from the ledger when it begins is what it takes after a restart, its own verdict being written."""
    entries = written(happened).entries
    whole = fold(entries, rollout_uid="u1").draws
    assert fold(entries, rollout_uid="u2").draws == whole, "draws are of all Rollouts of the name"
    for count in range(len(entries)):
        before = fold(entries[:count], rollout_uid="u1").draws
        for key, found in before.by_key.items():
            assert whole.by_key[key][: len(found)] == found, "a draw was forgotten or changed"
        if entries[count].key.kind != "Verdict":
            continue
        after = fold(entries[: count + 1], rollout_uid="u1").draws
        own = entries[count].body["verdict"]
        change = own["change"]
        key = draw_key(
            "faithfulness", change["artifactDigest"], change["contractDigest"], change["worldSnapshot"]
        )
        stages = ("Canary",)
        assert after.on(key, stages, but=own["runId"]) == before.on(key, stages), (
            "a restart changed what stands"
        )  # type: ignore[arg-type]
