"""What others take away or change in the middle of a release: it holds or goes back, and nobody's request meets no pod."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from gatewright_analysis.kinds.base import format_time
from gatewright_analysis.kinds.rollout import Phase, RolloutStatus
from gatewright_operator.errors import Unavailable
from gatewright_operator.resources import (
    CONFIGMAPS,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    GATE_ORDERS,
    GATE_REVIEWS,
    GATE_RUNS,
    HTTPROUTES,
    VALIDATING_POLICIES,
)
from gatewright_operator.traffic.gateway_api import RouteView
from tests.property import sim_objects as objects
from tests.property.sim_api import Call, Object
from tests.property.sim_invariants import Invariants
from tests.property.sim_objects import CANARY, NAME, NAMESPACE
from tests.property.sim_operator import Course, Process, pass_time, promote_all, run, settle
from tests.property.sim_scenarios import Scenario, begin, judged, perform
from tests.property.sim_world import CONTROLLER, DEVELOPER, REVISIONS, Judge, World, give_verdict

PLAIN = Scenario("plain", rollout=objects.rollout(bake=None))


def undecided(world: World, run_: Object) -> str | None:
    return None


def status(world: World) -> RolloutStatus:
    rollout = world.rollout()
    assert rollout is not None
    return rollout.status


def in_phase(phase: Phase) -> Callable[[World], bool]:
    return lambda world: world.rollout() is not None and status(world).phase is phase


def serving(world: World) -> set[str]:
    """Versions behind the stable Service."""
    return {p["spec"]["containers"][0]["image"].partition(":")[2] for p in world.backend_pods(NAME)}


def rules(world: World) -> list[Object]:
    """A copy of the route's rules, to change."""
    live = world.api.get(HTTPROUTES, NAMESPACE, NAME)
    assert live is not None
    return [
        rule | {"backendRefs": [dict(ref) for ref in rule["backendRefs"]]} for rule in live["spec"]["rules"]
    ]


def write_rules(world: World, found: list[Object]) -> None:
    live = world.api.get(HTTPROUTES, NAMESPACE, NAME)
    assert live is not None
    world.api.replace("other", HTTPROUTES, NAMESPACE, NAME, live | {"spec": live["spec"] | {"rules": found}})


async def at_gate(step: int) -> tuple[Process, Invariants]:
    """The release while the gate at `step` runs, undecided."""
    process, invariants = await begin(PLAIN)

    def there(world: World) -> bool:
        return (
            in_phase(Phase.PROGRESSING)(world)
            and status(world).current_step == step
            and status(world).run != ""
        )

    def judge(world: World, run_: Object) -> str | None:
        return None if run_["spec"]["step"] == str(step) else "PROMOTE"

    await run(process, Course(judge=judge, over=there))
    return process, invariants


def unwatched(process: Process) -> World:
    """The world, where what others do to the traffic from now on is theirs: the invariants speak of the operator alone."""
    process.world.api.watchers.clear()
    return process.world


async def held(judge: Judge) -> tuple[Process, Invariants]:
    process, invariants = await begin(Scenario("held", judge))
    await run(process, Course(judge=judge, over=in_phase(Phase.HELD)))
    return process, invariants


# Who may say yes


async def test_while_a_policy_that_proves_who_a_reviewer_is_is_missing_no_approval_counts() -> None:
    process, invariants = await held(judged(s1="HOLD"))
    world = process.world
    policy = world.api.all(VALIDATING_POLICIES)[-1]
    world.api.delete("admin", VALIDATING_POLICIES, "", policy["metadata"]["name"])
    name = world.review("Approve")
    await settle(process, 30)
    assert world.outcome(GATE_REVIEWS, name) == "Refused", "anybody could have written that name"
    assert in_phase(Phase.HELD)(world)
    metadata = {k: v for k, v in policy["metadata"].items() if k in ("name", "labels")}
    world.api.create("admin", VALIDATING_POLICIES, "", {"metadata": metadata, "spec": policy["spec"]})
    early = world.review("Approve")
    await settle(process, 30)
    assert world.outcome(GATE_REVIEWS, early) == "Refused", "the policy may not have been in force yet"
    world.advance(10)
    world.review("Approve")
    await run(process, Course(check=lambda world: invariants.endpoints()))
    PLAIN.assert_ended(world, invariants)


async def test_what_an_approval_must_name_is_looked_at_again_though_no_policy_kept_it_out() -> None:
    process, _ = await held(judged(s1="HOLD"))
    world = process.world
    hold = status(world).hold
    assert hold is not None
    other = f"sha256:{'0' * 64}"
    soon = format_time(world.now + timedelta(hours=73))
    machine = "system:serviceaccount:shop:release-bot"
    for changes, sentence in (
        (
            {"worldSnapshot": other},
            f"What is held now was judged in the world {hold.world_snapshot}, not in {other}.",
        ),
        ({"checks": [*hold.blocking, "latency"]}, "An approval names exactly the checks that block: "),
        ({"step": "3"}, "What is held now is step 1, not 3."),
        (
            {"evidenceDigest": other},
            f"What is held now is run {hold.run}, and its evidence is {hold.evidence_digest}",
        ),
        ({"through": "0"}, "The waiver would end with step 0, before what is held now, step 1."),
        ({"expiresAt": soon}, "The contract allows waivers of 72h; this one would end at"),
        ({"reviewer": machine}, f"The contract of rollout {NAME} does not let {machine} decide"),
    ):
        name = world.review("Approve", **changes)
        await settle(process, 30)
        assert world.outcome(GATE_REVIEWS, name) == "Refused", changes
        said = world.api.get(GATE_REVIEWS, NAMESPACE, name)
        assert said is not None
        assert sentence in said["status"]["message"]
        assert in_phase(Phase.HELD)(world)


async def test_a_machine_orders_only_where_the_contract_lists_it() -> None:
    process, _ = await held(judged(s1="HOLD"))
    world = process.world
    machine = "system:serviceaccount:shop:release-bot"
    name = world.order("Retry", orderedBy=machine)
    await settle(process, 30)
    assert world.outcome(GATE_ORDERS, name) == "Refused"
    said = world.api.get(GATE_ORDERS, NAMESPACE, name)
    assert said is not None
    assert f"does not let {machine} decide" in said["status"]["message"]


async def test_the_condition_says_which_policy_makes_waivers_unavailable_and_a_rejection_counts_all_the_same() -> (
    None
):
    process, _ = await held(judged(s1="HOLD"))
    world = process.world
    world.api.delete("admin", VALIDATING_POLICIES, "", "gatewright-review-scope")
    await settle(process, 30)
    found = {c.type: c for c in status(world).conditions}
    assert found["WaiversUnavailable"].status == "True"
    assert "policy gatewright-review-scope is missing" in found["WaiversUnavailable"].message
    assert found["Guarded"].status == "True", "new templates are held all the same"
    approval, rejection = world.review("Approve"), world.review("Reject")
    await settle(process, 30)
    assert world.outcome(GATE_REVIEWS, approval) == "Refused"
    assert world.outcome(GATE_REVIEWS, rejection) == "Accepted"


async def test_the_condition_says_which_policy_of_the_guard_was_altered() -> None:
    process, _ = await held(judged(s1="HOLD"))
    world = process.world
    policy = world.api.get(VALIDATING_POLICIES, "", "gatewright-guard")
    assert policy is not None
    spec = policy["spec"] | {"failurePolicy": "Ignore"}
    world.api.replace("admin", VALIDATING_POLICIES, "", "gatewright-guard", policy | {"spec": spec})
    await settle(process, 30)
    found = {c.type: c for c in status(world).conditions}
    assert (found["Guarded"].status, found["Guarded"].reason) == ("False", "GuardMissing")
    assert "policy gatewright-guard does not fail closed" in found["Guarded"].message
    assert found["WaiversUnavailable"].status == "False"
    name = world.review("Approve")
    await settle(process, 30)
    assert world.outcome(GATE_REVIEWS, name) == "Refused", "what nothing holds is not let on"


async def test_who_started_a_change_cannot_approve_it_though_no_policy_kept_the_review_out() -> None:
    process, _ = await held(judged(s1="HOLD"))
    world = process.world
    name = world.review("Approve", reviewer=DEVELOPER)
    await settle(process, 30)
    assert world.outcome(GATE_REVIEWS, name) == "Refused"
    assert in_phase(Phase.HELD)(world)


# What was refused stays refused


async def test_a_refused_version_is_not_tried_again_without_a_retry_whatever_came_between() -> None:
    def judge(world: World, run_: Object) -> str | None:
        return "ROLLBACK" if run_["spec"]["revision"] == REVISIONS["v2"] else "PROMOTE"

    process, invariants = await begin(PLAIN)
    world = process.world
    course = Course(judge=judge, check=lambda world: invariants.endpoints())
    await run(process, course)
    world.push("v3")
    await run(process, course)
    assert serving(world) == {"v3"}
    world.push("v2")
    await run(process, course)
    assert in_phase(Phase.ROLLED_BACK)(world)
    started = [entry.key.revision for entry in world.ledger() if entry.key.kind == "Started"]
    assert started == [REVISIONS["v2"], REVISIONS["v3"]], "it was tried again, and nobody had asked for it"
    world.order("Retry", REVISIONS["v2"])
    await run(process, Course(over=in_phase(Phase.IDLE)))
    PLAIN.assert_ended(world, invariants)


async def test_a_refusal_outlives_the_status_that_reported_it() -> None:
    process, invariants = await begin(PLAIN)
    world = process.world
    await run(process, Course(judge=judged(s1="ROLLBACK")))
    world.wipe_status()
    await run(process, Course(over=in_phase(Phase.ROLLED_BACK)))
    await settle(process)
    replace(PLAIN, ends=Phase.ROLLED_BACK, serves="v1").assert_ended(world, invariants)
    assert [entry.key.kind for entry in world.ledger()].count("Started") == 1


# The way back after 100 %, and past the guard


async def test_a_template_that_got_past_the_guard_before_any_release_is_put_back() -> None:
    world = World()
    world.furnish(objects.rollout())
    process = Process(world)
    await run(process, Course())
    # Neither held nor stamped, as if the policies had not run.
    world.push("v2", user=CONTROLLER)
    for _ in range(3):
        world.step()
    await run(process, Course(over=in_phase(Phase.ROLLED_BACK)))
    await settle(process)
    assert serving(world) == {"v1"}
    rejected = status(world).rejected
    assert rejected is not None
    assert rejected.revision == REVISIONS["v2"]


async def test_a_restore_finds_the_template_also_where_somebody_deleted_its_record() -> None:
    process, invariants = await begin(Scenario("bake"))
    world = process.world
    await run(process, Course(over=in_phase(Phase.BAKING)), quiet=in_phase(Phase.BAKING))
    for record in world.api.all(CONTROLLER_REVISIONS):
        world.api.delete("admin", CONTROLLER_REVISIONS, NAMESPACE, record["metadata"]["name"])
    scenario = Scenario("bake", judged(bake="ROLLBACK"), ends=Phase.ROLLED_BACK, serves="v1")
    await run(process, scenario.course(invariants))
    await settle(process)
    scenario.assert_ended(world, invariants)


# What others do to the traffic


ONE_RULE = objects.route


def two_rules() -> Object:
    body = ONE_RULE()
    body["spec"]["rules"].insert(
        1, {"backendRefs": [dict(r) for r in body["spec"]["rules"][0]["backendRefs"]]}
    )
    return body


@pytest.mark.parametrize("stolen", [90, 10], ids=["up", "down"])
async def test_a_weight_that_was_changed_in_the_second_rule_alone_is_contested_and_raised_in_none(
    stolen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "route", two_rules)
    process, _ = await at_gate(1)
    world = unwatched(process)
    found = rules(world)
    found[1]["backendRefs"][0]["weight"], found[1]["backendRefs"][1]["weight"] = 100 - stolen, stolen
    write_rules(world, found)
    await run(process, Course(judge=undecided, over=in_phase(Phase.HELD)))
    hold = status(world).hold
    assert hold is not None
    assert hold.reason == "RouteContested"
    assert [rule["backendRefs"][1]["weight"] for rule in rules(world)[:2]] == [0, 0]
    world.order("Retry")
    await run(process, Course())
    assert serving(world) == {"v2"}


async def test_a_canary_that_somebody_deletes_leaves_no_request_with_nobody() -> None:
    process, _ = await at_gate(1)
    world = unwatched(process)
    assert world.canary_weight() > 0
    world.api.delete("other", DEPLOYMENTS, NAMESPACE, CANARY)
    await run(process, Course(judge=undecided, over=in_phase(Phase.HELD)))
    assert world.canary_weight() == 0, "requests go to a canary that is not there"
    world.order("Retry")

    def somebody_answers(world: World) -> None:
        assert world.canary_weight() == 0 or world.backend_pods(CANARY)

    await run(process, Course(check=somebody_answers))
    assert serving(world) == {"v2"}


@pytest.mark.parametrize("act", ["Abort", "push v1", "delete"])
async def test_a_route_that_lost_its_backends_does_not_keep_the_way_back_waiting(act: str) -> None:
    process, _ = await at_gate(1)
    world = unwatched(process)
    theirs: list[Object] = [{"backendRefs": [{"name": NAME, "port": 80, "weight": 1}]}]
    write_rules(world, theirs)
    perform(world, act)
    began = world.now
    await run(process, Course(judge=undecided, over=lambda world: world.deployment(CANARY) is None))
    assert (world.now - began).total_seconds() < 60
    await settle(process)
    live = world.api.get(HTTPROUTES, NAMESPACE, NAME)
    assert live is not None
    assert live["spec"]["rules"] == theirs, "what somebody else wrote was changed"
    assert not live["metadata"].get("annotations"), "our mark was left on it"


async def test_canary_pods_that_have_traffic_stay_when_more_of_them_do_not_come_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second weight needs another pod, and no node has room for it."""
    process, invariants = await at_gate(1)
    world, weight = process.world, process.world.canary_weight()
    with monkeypatch.context() as patch:
        patch.setattr(World, "_start_pod", lambda self, pod: None)
        await run(process, Course(over=in_phase(Phase.HELD), check=lambda world: invariants.endpoints()))
    hold = status(world).hold
    assert hold is not None
    assert hold.reason == "ProgressDeadlineExceeded"
    assert world.canary_weight() == weight
    assert len(world.backend_pods(CANARY)) == 1, "the pod that serves the canary's share was taken away"
    world.order("Retry")
    await run(process, Course(check=lambda world: invariants.endpoints()))
    PLAIN.assert_ended(world, invariants)


def test_a_share_beside_a_third_backend_is_read_back_as_it_was_written() -> None:
    resting = RouteView("checkout", "1", 1, 100, 0, False, True, True, "", "", "", None)
    for total in range(100, 300):
        route = replace(resting, stable_weight=total)
        for percent in range(101):
            stable, canary = route.weights_for(percent)
            written = replace(route, stable_weight=stable, canary_weight=canary)
            assert stable + canary == total, "the third backend's share was changed"
            assert written.canary_percent == percent
            assert written.weights_for(percent) == (stable, canary)


# What the ledger could not take at once


def breach(world: World) -> None:
    """A proven breach of what is held."""
    hold = status(world).hold
    live = world.api.get(GATE_RUNS, NAMESPACE, hold.run) if hold is not None else None
    assert live is not None
    give_verdict(world, live, "ROLLBACK", breach=True)


TURNS: dict[str, Callable[[World], object]] = {
    "Reject": lambda world: world.review("Reject"),
    "Abort": lambda world: world.order("Abort"),
    "breach": breach,
}


@pytest.mark.parametrize(
    ("judge", "phase", "turn", "entries"),
    [
        (judged(s3="HOLD"), Phase.HELD, "Reject", ["Review", "Back", "RolledBack"]),
        (judged(s3="HOLD"), Phase.HELD, "Abort", ["Order", "Back", "RolledBack"]),
        (judged(s3="HOLD"), Phase.HELD, "breach", ["Breach", "Back", "RolledBack"]),
        (promote_all, Phase.BAKING, "Abort", ["Order", "Restoring", "Restored"]),
        (judged(bake="HOLD"), Phase.HELD, "Reject", ["Review", "Restoring", "Restored"]),
        (judged(bake="HOLD"), Phase.HELD, "breach", ["Breach", "Restoring", "Restored"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_turned_a_release_back_while_the_ledger_was_away_is_written_afterwards(
    judge: Judge, phase: Phase, turn: str, entries: list[str]
) -> None:
    process, invariants = await begin(Scenario("turned back"))
    world = process.world
    await run(process, Course(judge=judge, over=in_phase(phase)), quiet=in_phase(phase))

    async def away(call: Call) -> None:
        if call.resource == CONFIGMAPS:
            raise Unavailable("the ledger cannot be written")

    process.client.before = away
    TURNS[turn](world)
    await pass_time(process, Course(judge=undecided), 40)
    assert (world.canary_weight(), serving(world), world.deployment(CANARY)) == (0, {"v1"}, None), "it waited"
    assert not in_phase(Phase.ROLLED_BACK)(world), "it is over, and the ledger knows nothing of it"
    process.client.before = None
    await run(process, Course(over=in_phase(Phase.ROLLED_BACK)))
    await settle(process)
    invariants.at_rest()
    written = [entry for entry in world.ledger() if entry.key.kind in entries]
    assert [entry.key.kind for entry in written] == entries
    assert written[0].late, "what was written after its effect does not say so"
