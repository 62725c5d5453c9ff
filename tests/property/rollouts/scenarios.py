"""Courses of a release that people know: each with the end it must have, whatever breaks on the way."""

from collections.abc import Mapping
from typing import Any

from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.verdict import Decision
from tests.property.rollouts.drive import Act, Judge, Scenario, When
from tests.property.rollouts.server import Object
from tests.property.rollouts.world import GATE, SimWorld, revision

V1, V2, V3 = revision("v1"), revision("v2"), revision("v3")
PROMOTE, HOLD, ROLLBACK = Decision.PROMOTE, Decision.HOLD, Decision.ROLLBACK

PROMOTED: Object = {"phase": "Idle", "serving": [V2], "template": V2, "stable": V2, "paused": False}
REFUSED: Object = {
    "phase": "RolledBack",
    "serving": [V1],
    "template": V2,
    "stable": V1,
    "paused": True,
    "rejected": V2,
}
STAYED: Object = {"phase": "Idle", "serving": [V1], "template": V1, "stable": V1, "paused": False}
RESTORED: Object = {
    "phase": "RolledBack",
    "serving": [V1],
    "template": V1,
    "stable": V1,
    "paused": False,
    "rejected": V2,
}
THIRD: Object = {"phase": "Idle", "serving": [V3], "template": V3, "stable": V3, "paused": False}
GONE: Object = {"gone": True, "gated": False}


def verdicts(script: Mapping[tuple[str, int], Decision], of: str = V2) -> Judge:
    """A judge by (step, attempt), for one revision; everything else is promoted."""

    def judge(run: GateRun) -> Decision | None:
        if run.spec.revision != of:
            return PROMOTE
        return script.get((run.spec.step, run.spec.attempt), PROMOTE)

    return judge


def once(world: SimWorld) -> bool:
    return True


def held(world: SimWorld) -> bool:
    return world.phase == "Held"


def phase(name: str, step: int | None = None) -> When:
    def when(world: SimWorld) -> bool:
        return world.phase == name and step in (None, world.status.get("currentStep"))

    return when


def image(tag: str) -> Act:
    def act(world: SimWorld) -> None:
        world.set_image(tag)

    return act


def review(decision: str, **changes: Any) -> Act:
    def act(world: SimWorld) -> None:
        world.review(decision, **changes)

    return act


def order(kind: str, of: str = V2) -> Act:
    def act(world: SimWorld) -> None:
        world.order(kind, of)

    return act


def delete(world: SimWorld) -> None:
    world.delete_rollout()


def wipe(world: SimWorld) -> None:
    world.wipe_status()


def breach(step: str) -> Act:
    """A proven breach after the HOLD at a step."""

    def act(world: SimWorld) -> None:
        run = next(r for r in world.runs() if r.spec.step == step)
        world.give(run, ROLLBACK, as_breach=True)

    return act


RELEASE: tuple[tuple[When, Act], ...] = ((once, image("v2")),)


def course(
    name: str, *more: tuple[When, Act], ends: Object, judge: Judge | None = None, **options: Any
) -> Scenario:
    return Scenario(name, RELEASE + more, ends, judge, tuple(options.items()))


SCENARIOS = (
    course("promoted to the end", ends=PROMOTED),
    course("promoted by replicas, without a bake", ends=PROMOTED, traffic="replicas", bake=None),
    course("promoted beside a third backend", ends=PROMOTED, third_backend=True),
    course(
        "two weights with the same canary size",
        ends=PROMOTED,
        steps=({"setWeight": 10}, {"gate": GATE}, {"setWeight": 20}, {"gate": GATE}),
    ),
    course("rolled back at the first gate", judge=verdicts({("1", 1): ROLLBACK}), ends=REFUSED),
    course("rolled back at the last gate", judge=verdicts({("4", 1): ROLLBACK}), ends=REFUSED),
    course("rolled back by replicas", judge=verdicts({("1", 1): ROLLBACK}), ends=REFUSED, traffic="replicas"),
    course("held and approved", (held, review("Approve")), judge=verdicts({("1", 1): HOLD}), ends=PROMOTED),
    course(
        "held at the last gate and approved",
        (held, review("Approve")),
        judge=verdicts({("4", 1): HOLD}),
        ends=PROMOTED,
    ),
    course("held and rejected", (held, review("Reject")), judge=verdicts({("4", 1): HOLD}), ends=REFUSED),
    course("held and retried", (held, order("Retry")), judge=verdicts({("4", 1): HOLD}), ends=PROMOTED),
    course(
        "held, changes requested, then retried and rolled back",
        (held, review("RequestChanges")),
        (lambda w: bool(w.status.get("hold", {}).get("note")), order("Retry")),
        judge=verdicts({("1", 1): HOLD, ("1", 2): ROLLBACK}),
        ends=REFUSED,
    ),
    course("held and superseded", (held, image("v3")), judge=verdicts({("1", 1): HOLD}), ends=THIRD),
    course("held, then a breach", (held, breach("1")), judge=verdicts({("1", 1): HOLD}), ends=REFUSED),
    course("superseded at a gate", (phase("Progressing", 1), image("v3")), ends=THIRD),
    course("superseded at a pause", (phase("Paused"), image("v3")), ends=THIRD),
    course("reverted at the last gate", (phase("Progressing", 4), image("v1")), ends=STAYED),
    course("aborted at a gate", (phase("Progressing", 1), order("Abort")), ends=REFUSED),
    course(
        "rolled back and retried",
        (phase("RolledBack"), order("Retry")),
        judge=verdicts({("1", 1): ROLLBACK}),
        ends=PROMOTED,
    ),
    course(
        "rolled back, then taken back",
        (phase("RolledBack"), image("v1")),
        judge=verdicts({("1", 1): ROLLBACK}),
        ends=STAYED,
    ),
    course("a breach in the bake", judge=verdicts({("bake", 1): ROLLBACK}), ends=RESTORED),
    course("aborted in the bake", (phase("Baking"), order("Abort")), ends=RESTORED),
    course("aborted while promoting", (phase("Promoting"), order("Abort")), ends=RESTORED),
    course(
        "held in the bake and approved",
        (held, review("Approve")),
        judge=verdicts({("bake", 1): HOLD}),
        ends=PROMOTED,
    ),
    course(
        "held in the bake and rejected",
        (held, review("Reject")),
        judge=verdicts({("bake", 1): HOLD}),
        ends=RESTORED,
    ),
    course(
        "held in the bake and superseded",
        (held, image("v3")),
        judge=verdicts({("bake", 1): HOLD}),
        ends=THIRD,
    ),
    course(
        "held in the bake, then a breach",
        (held, breach("bake")),
        judge=verdicts({("bake", 1): HOLD}),
        ends=RESTORED,
    ),
    course("superseded in the bake", (phase("Baking"), image("v3")), ends=THIRD),
    course("deleted at a gate", (phase("Progressing", 4), delete), ends=GONE | {"serving": [V1]}),
    course(
        "deleted while held", (held, delete), judge=verdicts({("1", 1): HOLD}), ends=GONE | {"serving": [V1]}
    ),
    course(
        "deleted while promoting",
        (phase("Promoting"), delete),
        ends=GONE | {"serving": [V2], "paused": False},
    ),
    course("deleted in the bake", (phase("Baking"), delete), ends=GONE | {"serving": [V2], "paused": False}),
    course(
        "deleted on the way back",
        (phase("RollingBack"), delete),
        judge=verdicts({("4", 1): ROLLBACK}),
        ends=GONE | {"serving": [V1]},
    ),
    course("deleted at rest", (phase("Progressing", 4), image("v1")), (phase("Idle"), delete), ends=GONE),
    course("status lost at a gate", (phase("Progressing", 4), wipe), ends=PROMOTED),
    course("status lost while promoting", (phase("Promoting"), wipe), ends=PROMOTED),
    course("status lost in the bake", (phase("Baking"), wipe), ends=PROMOTED),
    course(
        "status lost on the way back",
        (phase("RollingBack"), wipe),
        judge=verdicts({("4", 1): ROLLBACK}),
        ends=REFUSED,
    ),
    course(
        "status lost after a rollback",
        (phase("RolledBack"), wipe),
        judge=verdicts({("1", 1): ROLLBACK}),
        ends=REFUSED,
    ),
    course(
        "status lost while restoring",
        (phase("Restoring"), wipe),
        judge=verdicts({("bake", 1): ROLLBACK}),
        ends=RESTORED,
    ),
)
