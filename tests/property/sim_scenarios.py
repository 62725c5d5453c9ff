"""Releases from their beginning to their end, and what two worlds have in common when only accidents differ."""

import json
from dataclasses import dataclass, field
from typing import Any

from gatewright_analysis.kinds.rollout import Phase
from gatewright_analysis.names import LEDGER_LABEL
from gatewright_operator.errors import Refused
from gatewright_operator.resources import (
    CONFIGMAPS,
    CONTROLLER_REVISIONS,
    EVENTS,
    GATE_ORDERS,
    PODS,
    ROLLOUTS,
)
from tests.property import sim_objects as objects
from tests.property.sim_api import Object
from tests.property.sim_invariants import Invariants
from tests.property.sim_objects import NAME, NAMESPACE
from tests.property.sim_operator import Course, People, Process, nobody, run
from tests.property.sim_world import DEVELOPER, REVISIONS, Judge, World, ready


def judged(**by_step: str) -> Judge:
    """The judge who says this at these steps (`s1="HOLD"`, `bake="ROLLBACK"`), at the first attempt, and else PROMOTE."""

    def judge(world: World, run: Object) -> str | None:
        step, attempt = run["spec"]["step"], run["spec"]["attempt"]
        return by_step.get(step if step == "bake" else f"s{step}", "PROMOTE") if attempt == 1 else "PROMOTE"

    return judge


def deciding(decision: str) -> People:
    """Whoever is held gets this review (`Approve`, `Reject`) or order (`Retry`, `Abort`), once per hold."""

    def people(world: World) -> bool:
        rollout = world.rollout()
        if rollout is None or rollout.status.phase is not Phase.HELD:
            return False
        world.review(decision) if decision in ("Approve", "Reject", "RequestChanges") else world.order(
            decision
        )
        return True

    return people


def once_escalated(decision: str) -> People:
    """Nobody decides before the second call."""
    decide = deciding(decision)

    def people(world: World) -> bool:
        rollout = world.rollout()
        hold = rollout.status.hold if rollout is not None else None
        return hold is not None and hold.escalated_at is not None and decide(world)

    return people


def replacing_the_model(world: World) -> bool:
    """In a pause of the first attempt another model answers, and whoever is held tries again."""
    rollout = world.rollout()
    if rollout is None or rollout.status.phase is not Phase.PAUSED or rollout.status.attempt > 1:
        return deciding("Retry")(world)
    drifts = world.fingerprints["judge-model"] != "version=4"
    world.fingerprints["judge-model"] = "version=4"
    return drifts


def pausing(*, where: Phase = Phase.PROGRESSING, step: int = 1) -> People:
    """Pauses it there, and sends it on when everything else has come to a stand."""

    def people(world: World) -> bool:
        rollout = world.rollout()
        if rollout is None or rollout.status.canary is None:
            return False
        said = [o["spec"]["order"] for o in world.api.all(GATE_ORDERS)]
        if not said and (rollout.status.phase, rollout.status.current_step) == (where, step):
            world.order("Pause")
        elif said == ["Pause"] and rollout.status.paused is not None and rollout.status.paused.order:
            world.order("Resume")
        else:
            return False
        return True

    return people


def overriding(to: str, *, step: int = 1) -> People:
    """Sends it past its gates there, once."""

    def people(world: World) -> bool:
        rollout = world.rollout()
        here = rollout is not None and (rollout.status.phase, rollout.status.current_step)
        if here != (Phase.PROGRESSING, step) or world.api.all(GATE_ORDERS):
            return False
        world.emergency(to)
        return True

    return people


def in_phase(phase: Phase, act: str, *, step: int | None = None) -> People:
    """Does something once, when the Rollout is in this phase: `push VERSION`, `delete`, `Abort`."""

    def people(world: World) -> bool:
        rollout = world.rollout()
        if (
            rollout is None
            or rollout.status.phase is not phase
            or step not in (None, rollout.status.current_step)
        ):
            return False
        return perform(world, act)

    return people


def perform(world: World, act: str) -> bool:
    """One thing that somebody may do at any moment; False when it was done before, or means nothing."""
    verb, _, what = act.partition(" ")
    rollout, deployment = world.rollout(), world.deployment()
    match verb:
        case "push" if deployment is not None:
            if deployment["spec"]["template"] == objects.template(what):
                return False
            try:
                world.push(what)
            except Refused:
                return False
        case "delete" if rollout is not None and rollout.metadata.deletion_timestamp is None:
            world.api.delete(DEVELOPER, ROLLOUTS, NAMESPACE, NAME)
        case "Abort" | "Retry" if rollout is not None and rollout.status.canary is not None:
            world.order(verb)
        case "Pause" | "Resume" if rollout is not None and rollout.status.canary is not None:
            world.order(verb)
        case "Override" if rollout is not None and rollout.status.canary is not None:
            to, _, also = what.partition(" ")
            world.emergency(to, ignore_breach=also == "ignoring breaches")
        case "wipe" if rollout is not None and rollout.status.phase is not None:
            world.wipe_status()
        case "weights":
            world.set_weights(10, 90)
        case _:
            return False
    return True


@dataclass(frozen=True)
class Scenario:
    """A release: how it begins (version `push`ed at rest), who judges and decides, and how it must end."""

    name: str
    judge: Judge = field(default=lambda world, run: "PROMOTE")
    people: People = nobody
    rollout: dict[str, Any] = field(default_factory=objects.rollout)
    push: str = "v2"
    ends: Phase | None = Phase.IDLE
    """None: the Rollout is gone."""
    serves: str = "v2"
    fingerprints: dict[str, str] = field(default_factory=dict)
    """What the models say of themselves that the contract names."""

    def __str__(self) -> str:
        return self.name

    def course(self, invariants: Invariants) -> Course:
        return Course(judge=self.judge, people=self.people, check=lambda world: invariants.endpoints())

    def assert_ended(self, world: World, invariants: Invariants) -> None:
        rollout, deployment = world.rollout(), world.deployment()
        phase = rollout.status.phase if rollout else None
        assert phase == self.ends, (
            f"it ended {phase}, not {self.ends}: {rollout.status.message if rollout else ''}"
        )
        invariants.at_rest()
        assert deployment is not None
        serving = {p["spec"]["containers"][0]["image"] for p in world.backend_pods(NAME)}
        assert serving == {f"shop/checkout:{self.serves}"}, f"{serving} serve"
        if rollout is not None:
            assert rollout.status.stable is not None
            assert rollout.status.stable.revision == REVISIONS[self.serves]


async def begin(scenario: Scenario, **options: Any) -> tuple[Process, Invariants]:
    """The world at the moment at which the new version was pushed, with an operator that has adopted the workload."""
    world = World(fingerprints=dict(scenario.fingerprints))
    world.furnish(scenario.rollout)
    invariants = Invariants(world)
    process = Process(world, **options)
    await run(process, Course(check=lambda world: invariants.endpoints()))
    world.push(scenario.push)
    return process, invariants


_ACCIDENTAL = {
    "resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "observedGeneration",
    "observedWorkloadGeneration", "message", "conditions", "since", "at", "progressAt", "stepStartedAt", "deadline",
    "startsAt", "weightAt", "startedAt", "finishedAt", "observedAt", "head", "ownerReferences", "rolloutUID",
    "expiresAt", "deletionTimestamp", "selector", "reviews", "escalateAt", "escalatedAt", "openedAt", "clockStoppedSince",
}  # fmt: skip
"""Times, versions and names that the server gives: two runs that differ in nothing else have gone the same way."""


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if k not in _ACCIDENTAL and v not in ({}, None)}
    return [_plain(v) for v in value] if isinstance(value, list) else value


def essence(world: World) -> str:
    """All that is essential about a world, as text that can be compared."""
    found: list[Any] = [
        [
            e.key.kind,
            e.key.revision,
            e.key.step,
            e.key.attempt,
            "" if e.key.kind in ("Review", "Order") else e.key.cause,
        ]
        for e in world.ledger()
    ]
    pods = [
        (sorted(p["metadata"]["labels"].items()), ready(p), "deletionTimestamp" in p["metadata"])
        for p in world.pods()
    ]
    found.append(sorted(map(repr, pods)))
    for (resource, _, name), obj in world.api.objects.items():
        ours = LEDGER_LABEL in (obj["metadata"].get("labels") or {})
        if resource not in (PODS, EVENTS, CONTROLLER_REVISIONS) and not (resource == CONFIGMAPS and ours):
            found.append([str(resource), name, _plain(obj)])
    return json.dumps(sorted(found, key=repr), sort_keys=True, default=str)


def differences(one: str, other: str) -> str:
    """What stands in only one of two worlds' essences, for the message of a failure."""
    a, b = ({json.dumps(part, sort_keys=True) for part in json.loads(text)} for text in (one, other))
    return "\n".join(
        [*(f"  here: {part}" for part in sorted(a - b)), *(f"  there: {part}" for part in sorted(b - a))]
    )
