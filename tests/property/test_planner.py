"""The reducer has an answer to every picture of the world, the same one each time, and none that promises too much."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gatewright_operator.reconcile as reconcile_module
from gatewright_analysis.kinds.contract import GateContractSpec
from gatewright_analysis.kinds.rollout import Phase
from gatewright_analysis.ledger import LedgerMemory
from gatewright_analysis.names import IN_FLIGHT, PINNED
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.actions import AppendLedger, Emit, PatchDeployment, Plan, SetRoute
from gatewright_operator.plan.core import plan
from gatewright_operator.plan.snapshot import CanaryPods, Fingerprints, Problem, Snapshot
from tests.property import sim_objects as objects
from tests.property.sim_operator import run, settle
from tests.property.sim_scenarios import Scenario, begin, deciding, in_phase, judged
from tests.property.sim_world import REVISIONS

COURSES = [
    Scenario("promoted and baked"),
    Scenario("by replicas", rollout=objects.rollout(traffic=objects.BY_REPLICAS)),
    Scenario("with a pause", rollout=objects.rollout(objects.WITH_PAUSE, bake=None)),
    Scenario("rolled back", judged(s3="ROLLBACK"), ends=Phase.ROLLED_BACK, serves="v1"),
    Scenario("held, tried again", judged(s1="HOLD"), deciding("Retry")),
    Scenario("held in the bake", judged(bake="HOLD"), deciding("Approve")),
    Scenario("restored", judged(bake="ROLLBACK"), ends=Phase.ROLLED_BACK, serves="v1"),
    Scenario("superseded", people=in_phase(Phase.PROGRESSING, "push v3", step=3), serves="v3"),
    Scenario("deleted", people=in_phase(Phase.PROGRESSING, "delete", step=1), ends=None, serves="v1"),
    Scenario("deleted while promoting", people=in_phase(Phase.PROMOTING, "delete"), ends=None),
    Scenario("never ready", push="crash", ends=Phase.ROLLED_BACK, serves="v1"),
]


async def _pictures() -> list[Snapshot]:
    found: list[Snapshot] = []

    def watched(snapshot: Snapshot) -> Plan:
        found.append(snapshot)
        return plan(snapshot)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reconcile_module, "plan", watched)
        for course in COURSES:
            process, invariants = await begin(course)
            await run(process, course.course(invariants))
            await settle(process)
            course.assert_ended(process.world, invariants)
    return found


@cache
def pictures() -> tuple[Snapshot, ...]:
    """Every picture that was planned from in the course of these releases."""
    return tuple(asyncio.run(_pictures()))


Change = Callable[[Snapshot], Snapshot]


def _deployment(**fields: Any) -> Change:
    return lambda s: s if s.deployment is None else replace(s, deployment=replace(s.deployment, **fields))


def _marked(name: str) -> Change:
    return lambda s: (
        s
        if s.deployment is None
        else replace(
            s, deployment=replace(s.deployment, annotations={**s.deployment.annotations, name: "checkout"})
        )
    )


def _route(**fields: Any) -> Change:
    return lambda s: s if s.route is None else replace(s, route=replace(s.route, **fields))


def _status(**fields: Any) -> Change:
    def change(s: Snapshot) -> Snapshot:
        status = s.rollout.status.model_copy(update=fields)
        return replace(s, rollout=s.rollout.model_copy(update={"status": status}))

    return change


def _phase(phase: Phase) -> Change:
    """Another phase, where the status holds what that phase rests on."""

    def change(s: Snapshot) -> Snapshot:
        status = s.rollout.status
        needs = {
            Phase.HELD: (status.canary, status.hold),
            Phase.ROLLING_BACK: (status.canary, status.back),
            Phase.RESTORING: (status.previous, status.rejected),
            Phase.IDLE: (),
            Phase.ROLLED_BACK: (status.rejected,),
        }.get(phase, (status.canary,))
        return s if status.stable is None or None in needs else _status(phase=phase)(s)

    return change


def _deleted(s: Snapshot) -> Snapshot:
    metadata = s.rollout.metadata.model_copy(update={"deletion_timestamp": s.now})
    return replace(s, rollout=s.rollout.model_copy(update={"metadata": metadata}))


def _watched(fingerprints: Fingerprints) -> Change:
    """The pinned contract binds to a model."""
    spec = GateContractSpec.model_validate(objects.contract(watched=("judge-model",))["spec"])

    def change(s: Snapshot) -> Snapshot:
        pinned = None if s.pinned is None else replace(s.pinned, spec=spec)
        return replace(s, pinned=pinned, fingerprints=fingerprints)

    return change


CHANGES: dict[str, Change] = {
    "model drifted": _watched(Fingerprints(drifted="judge-model was 3 and is 4.")),
    "model unknown": _watched(Fingerprints(problem=Problem(Reason.UNREACHABLE, "It can't be read."))),
    "model not looked up": _watched(Fingerprints()),
    "no deployment": lambda s: replace(s, deployment=None),
    "deployment ends": _deployment(deleting=True),
    "stable's template": lambda s: (
        _deployment(revision=s.rollout.status.stable.revision)(s) if s.rollout.status.stable else s
    ),
    "another template": _deployment(revision=REVISIONS["v3"]),
    "paused": _deployment(paused=True),
    "un-paused": _deployment(paused=False),
    "not gated": _deployment(labels={}),
    "not settled": _deployment(available=0),
    "grown": _deployment(replicas=9),
    "to zero": _deployment(replicas=0, total=0, updated=0, available=0),
    "quota": _deployment(replica_failure="exceeded quota"),
    "in flight": _marked(IN_FLIGHT),
    "pinned": _marked(PINNED),
    "unmarked": _deployment(annotations={}),
    "no canary": lambda s: replace(s, canary=None, pods=CanaryPods()),
    "canary ends": lambda s: replace(s, canary=replace(s.canary, deleting=True)) if s.canary else s,
    "pods linger": lambda s: replace(s, pods=CanaryPods(total=2)),
    "pods fail": lambda s: replace(
        s, pods=replace(s.pods, failing=("a/app",)), promoted=CanaryPods(failing=("b/app",))
    ),
    "no route": lambda s: replace(s, route=None),
    "route without us": _route(selected_rules=0, stable_weight=None, canary_weight=None),
    "not accepted": _route(accepted=False, refusal="not yet"),
    "contested up": _route(stable_weight=10, canary_weight=90),
    "contested to rest": _route(stable_weight=100, canary_weight=0, decision=""),
    "mixed": _route(mixed=True),
    "no services": lambda s: replace(s, stable_service=None, canary_service=None, services=()),
    "stable unpinned": lambda s: (
        replace(s, stable_service=replace(s.stable_service, selector={"app": "checkout"}, decision=""))
        if s.stable_service
        else s
    ),
    "no runs": lambda s: replace(s, runs={}),
    "no contract": lambda s: replace(
        s, contract=None, contract_problem=Problem(Reason.CONTRACT_NOT_FOUND, "There is none.")
    ),
    "contract unreadable": lambda s: replace(s, pinned=None),
    "infeasible": lambda s: replace(s, findings=(Problem(Reason.NEVER_PASSES, "It can never pass."),)),
    "rival": lambda s: replace(s, rivals=("older",)),
    "no guard": lambda s: replace(s, guarded=False),
    "ledger broken": lambda s: replace(s, ledger_broken="entry 3 does not follow"),
    "ledger empty": lambda s: replace(s, memory=LedgerMemory()),
    "nothing open": lambda s: replace(s, memory=replace(s.memory, open=None)),
    "sets unknown": lambda s: replace(s, replica_sets=()),
    "no record": lambda s: replace(s, restore=None),
    "namespace ends": lambda s: replace(_deleted(s), namespace_terminating=True),
    "deleted": _deleted,
    "later": lambda s: replace(s, now=s.now + timedelta(minutes=11)),
    "much later": lambda s: replace(s, now=s.now + timedelta(days=2)),
    "steps gone": _status(current_step=40),
    "status lost": _status(phase=None),
    **{f"phase {phase}": _phase(phase) for phase in Phase},
}

changed = st.tuples(
    st.integers(0, 10**6), st.lists(st.sampled_from(sorted(CHANGES)), max_size=4, unique=True)
)  # fmt: skip


def picture(which: tuple[int, list[str]]) -> Snapshot:
    number, names = which
    snapshot = pictures()[number % len(pictures())]
    for name in names:
        snapshot = CHANGES[name](snapshot)
    # They are looked up where a phase needs them; here they are always known.
    known = next(s.replica_sets for s in pictures() if s.replica_sets)
    return snapshot if snapshot.replica_sets is not None else replace(snapshot, replica_sets=known)


@settings(max_examples=1500, deadline=None)
@given(changed)
def test_every_picture_has_an_answer_and_it_is_always_the_same(which: tuple[int, list[str]]) -> None:
    snapshot = picture(which)
    answer = plan(snapshot)
    assert plan(snapshot) == answer
    assert answer.requeue_seconds is None or answer.requeue_seconds >= 0
    if answer.again:
        writes = [a for a in answer.actions if not isinstance(a, Emit)]
        assert writes or answer.status != snapshot.rollout.status, "it would plan the same again for ever"


@settings(max_examples=1500, deadline=None)
@given(changed)
def test_no_answer_raises_a_weight_or_lets_a_template_go_that_the_ledger_does_not_cover(
    which: tuple[int, list[str]],
) -> None:
    snapshot = picture(which)
    entered = {key.local for key in snapshot.memory.keys}
    share = snapshot.route.canary_percent if snapshot.route is not None else 0
    for action in plan(snapshot).actions:
        match action:
            case AppendLedger():
                entered |= {entry.key for entry in action.entries}
            case SetRoute(stable, canary, _) if (
                stable + canary and 100 * canary / (stable + canary) > share + 1
            ):
                assert snapshot.rollout.status.canary is not None
                about = [
                    key
                    for key in entered
                    if key[3] == "WeightSet" and key[0] == snapshot.rollout.status.canary.revision
                ]
                assert about, (
                    f"the canary's weight goes from {share} % to {canary} with nothing in the ledger"
                )
            case PatchDeployment(paused=False):
                _may_go(snapshot, action)


@settings(max_examples=700, deadline=None)
@given(changed)
def test_no_weight_rises_and_nothing_is_promoted_while_the_world_is_known_to_have_drifted(
    which: tuple[int, list[str]],
) -> None:
    snapshot = CHANGES["model drifted"](picture(which))
    deployment, begun = snapshot.deployment, snapshot.memory.open
    by_a_person = deployment is not None and not deployment.paused and not deployment.in_flight
    decided_before = begun is not None and (begun.promoted or begun.back is not None)
    if by_a_person or decided_before:
        return
    share = snapshot.route.canary_percent if snapshot.route is not None else 0
    for action in plan(snapshot).actions:
        match action:
            case SetRoute(stable, canary, _):
                assert stable + canary == 0 or 100 * canary / (stable + canary) <= share + 1
            case AppendLedger():
                assert "Promoted" not in {entry.kind for entry in action.entries}


def _may_go(snapshot: Snapshot, action: PatchDeployment) -> None:
    deployment, status, begun = snapshot.deployment, snapshot.rollout.status, snapshot.memory.open
    assert deployment is not None
    if status.phase is Phase.RESTORING:
        put_back = status.previous
        assert put_back is not None
        assert action.template is not None or deployment.revision == put_back.revision
        return
    assert action.template is None, "only Restoring puts a template on the Deployment"
    stable = status.stable.revision if status.stable is not None else ""
    promoted = begun is not None and begun.promoted and begun.revision == deployment.revision
    assert deployment.revision == stable or promoted, (
        f"{deployment.revision} would be un-paused by nobody's decision"
    )
