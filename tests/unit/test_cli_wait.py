"""`status --wait`: the release that the workload carries now, and never the one before."""

from datetime import timedelta
from typing import Any

import pytest

from gatewright_cli.errors import Exit, Unreachable
from gatewright_cli.status import Options, follow
from gatewright_cli.view import View
from gatewright_cli.wait import Target, judge, look
from tests.unit.cli_objects import CANARY, OTHER, STABLE, canary, deployment, held, hold, rollout, stable

IDLE_AT_STABLE = {
    "phase": "Idle",
    "stable": stable(),
    "observedRevision": STABLE,
    "observedWorkloadGeneration": 6,
}
PROGRESSING = {
    "phase": "Progressing",
    "message": "Step 1.",
    "stable": stable(),
    "canary": canary(),
    "observedRevision": CANARY,
    "observedWorkloadGeneration": 7,
}
PROMOTED = {
    "phase": "Idle",
    "stable": stable(CANARY),
    "observedRevision": CANARY,
    "observedWorkloadGeneration": 8,
}
REJECTED = {"revision": CANARY, "reason": "BreachAbsolute", "message": "10 % of requests failed."}
ROLLED_BACK = {
    "phase": "RolledBack",
    "stable": stable(),
    "rejected": REJECTED,
    "observedRevision": CANARY,
    "observedWorkloadGeneration": 7,
}

STATES: list[tuple[str, dict[str, Any], Exit | None]] = [
    ("is judged: go on", PROGRESSING, None),
    ("is paused between steps: go on", {**PROGRESSING, "phase": "Paused"}, None),
    ("is held: say so at once", {**PROGRESSING, "phase": "Held", "hold": hold()}, Exit.HELD),
    ("is being promoted: go on", {**PROGRESSING, "phase": "Promoting"}, None),
    ("bakes, though it is stable already: go on", {**PROMOTED, "phase": "Baking"}, None),
    ("is held in its bake", {**PROMOTED, "phase": "Held", "hold": hold(step="bake")}, Exit.HELD),
    ("is stable and at rest: promoted", PROMOTED, Exit.OK),
    ("is going back: wait for the end of it", {**PROGRESSING, "phase": "RollingBack"}, None),
    ("was rolled back", ROLLED_BACK, Exit.ROLLED_BACK),
    (
        "failed its bake, and the version before is being put back",
        {**PROMOTED, "phase": "Restoring", "observedRevision": STABLE, "rejected": REJECTED},
        None,
    ),
    (
        "failed its bake, and the workload carries the version before again",
        {**ROLLED_BACK, "observedRevision": STABLE},
        Exit.ROLLED_BACK,
    ),
    (
        "was rolled back, and a newer one is on its way",
        {**PROGRESSING, "canary": canary(OTHER), "observedRevision": OTHER, "rejected": REJECTED},
        Exit.ROLLED_BACK,
    ),
    (
        "gave way to a newer template",
        {**PROGRESSING, "canary": canary(OTHER), "observedRevision": OTHER},
        Exit.SUPERSEDED,
    ),
    ("was taken back by its author", IDLE_AT_STABLE, Exit.SUPERSEDED),
    ("is tried again after a rollback", {**PROGRESSING, "rejected": REJECTED}, None),
    ("was seen and has not started yet", {**IDLE_AT_STABLE, "observedRevision": CANARY}, None),
]


@pytest.mark.parametrize(("status", "expected"), [s[1:] for s in STATES], ids=[s[0] for s in STATES])
def test_a_revision_that(status: dict[str, Any], expected: Exit | None) -> None:
    finding = judge(CANARY, rollout(**status))
    assert finding.code == expected, finding.sentence


def test_success_of_the_release_before_is_no_answer() -> None:
    target, finding = look(None, None, rollout(**IDLE_AT_STABLE), deployment(generation=7))
    assert finding.code is None
    assert "operator" in finding.sentence
    assert target == Target(7, deployment()["spec"]["template"])


def test_rollback_of_the_release_before_is_no_answer() -> None:
    before = {**ROLLED_BACK, "rejected": {**REJECTED, "revision": OTHER}, "observedRevision": OTHER}
    _, finding = look(None, None, rollout(**before), deployment(generation=8))
    assert finding.code is None


def test_a_status_about_an_older_spec_of_the_rollout_is_no_answer() -> None:
    stale = rollout(generation=4, **{**PROMOTED, "observedGeneration": 3})
    _, finding = look(None, None, stale, deployment(generation=8))
    assert finding.code is None


def test_a_workload_at_rest_was_promoted() -> None:
    _, finding = look(None, None, rollout(**PROMOTED), deployment(generation=8))
    assert finding.code is Exit.OK


def test_scaling_during_the_wait_is_no_new_release() -> None:
    target = Target(7, deployment()["spec"]["template"])
    target_then, finding = look(target, None, rollout(**PROMOTED), deployment(generation=8))
    assert finding.code is Exit.OK
    assert target_then is not None
    assert target_then.revision == CANARY


def test_another_template_before_the_operator_saw_the_first_supersedes_it() -> None:
    target = Target(7, deployment()["spec"]["template"])
    newer = {**PROGRESSING, "observedRevision": OTHER, "observedWorkloadGeneration": 8}
    _, finding = look(target, None, rollout(**newer), deployment(generation=8, image="shop/checkout:1.9.0"))
    assert finding.code is Exit.SUPERSEDED
    assert OTHER in finding.sentence


def test_a_status_that_is_ahead_of_our_read_of_the_workload_is_not_believed_yet() -> None:
    target = Target(7, deployment()["spec"]["template"])
    ahead = rollout(**{**PROMOTED, "observedWorkloadGeneration": 9})
    target_then, finding = look(target, None, ahead, deployment(generation=8))
    assert (finding.code, target_then) == (None, target)


def test_once_the_revision_is_known_a_later_template_supersedes_it() -> None:
    target, finding = look(None, None, rollout(**PROGRESSING), deployment())
    assert finding.code is None
    later = {
        **PROGRESSING,
        "canary": canary(OTHER),
        "observedRevision": OTHER,
        "observedWorkloadGeneration": 8,
    }
    _, finding = look(target, None, rollout(**later), deployment(generation=8, image="shop/checkout:1.9.0"))
    assert finding.code is Exit.SUPERSEDED


def test_with_an_image_the_wait_begins_when_the_workload_carries_it() -> None:
    target, finding = look(
        None, "shop/checkout:1.8.0", rollout(**IDLE_AT_STABLE), deployment(6, "shop/checkout:1.7.3")
    )
    assert (target, finding.code) == (None, None)
    assert "shop/checkout:1.8.0" in finding.sentence
    target, finding = look(target, "shop/checkout:1.8.0", rollout(**PROMOTED), deployment(generation=8))
    assert finding.code is Exit.OK


def test_an_image_may_be_named_by_its_digest() -> None:
    image = "sha256:" + "1" * 64
    _, finding = look(None, image, rollout(**PROMOTED), deployment(8, f"shop/checkout@{image}"))
    assert finding.code is Exit.OK


def test_a_missing_workload_is_waited_for() -> None:
    target, finding = look(None, None, rollout(), None)
    assert (target, finding.code) == (None, None)


def test_a_rollout_that_is_being_deleted_ends_the_wait() -> None:
    going = rollout(**PROGRESSING)
    going["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    _, finding = look(None, None, going, deployment())
    assert finding.code is Exit.ERROR


class Script:
    """Stands for the reader: one answer a second, the last one for ever; errors are raised."""

    def __init__(self, *answers: View | Exception) -> None:
        self.answers = list(answers)
        self.now = 0.0

    def read(self) -> View:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def end(self, **options: Any) -> tuple[Exit | None, str]:
        wanted = Options("checkout", wait=True, **options)
        *_, (_, finding) = follow(self, wanted, lambda: self.now, self.sleep)  # type: ignore[arg-type] - a fake reader
        return finding.code, finding.sentence


def view(status: dict[str, Any], generation: int = 7) -> View:
    return View(rollout(**status), deployment(generation))


def test_waiting_ends_with_the_verdict() -> None:
    script = Script(view(IDLE_AT_STABLE), view(PROGRESSING), view(PROMOTED, 8))
    assert script.end() == (Exit.OK, f"Promoted: revision {CANARY} is stable.")


def test_waiting_survives_an_api_server_that_is_away() -> None:
    script = Script(Unreachable("refused"), view(PROGRESSING), Unreachable("refused"), view(ROLLED_BACK))
    code, sentence = script.end()
    assert code is Exit.ROLLED_BACK
    assert "10 % of requests failed." in sentence


def test_waiting_ends_when_the_time_is_up_and_says_what_was_waited_for() -> None:
    script = Script(view(PROGRESSING))
    code, sentence = script.end(timeout=timedelta(seconds=90))
    assert code is Exit.TIMED_OUT
    assert sentence == "No verdict within 1m30s. Step 1."
    assert script.now == pytest.approx(90)


def test_stalled_ends_the_wait_when_it_stays() -> None:
    stalled = {
        **IDLE_AT_STABLE,
        "conditions": [
            {"type": "Stalled", "status": "True", "reason": "ContractNotFound", "message": "No contract."}
        ],
    }
    script = Script(view(stalled))
    assert script.end() == (Exit.ERROR, "Nothing moves: No contract.")
    assert script.now == pytest.approx(10)


def test_stalled_for_a_moment_is_forgiven() -> None:
    conditions = [{"type": "Stalled", "status": "True", "reason": "ContractNotFound"}]
    before, amid = ({**status, "conditions": conditions} for status in (IDLE_AT_STABLE, PROGRESSING))
    script = Script(*[view(before)] * 8, view(PROGRESSING), *[view(amid)] * 8, view(PROMOTED, 8))
    assert script.end()[0] is Exit.OK


def test_held_answers_at_once_with_the_reason() -> None:
    script = Script(View(held(), deployment()))
    code, sentence = script.end()
    assert code is Exit.HELD
    assert sentence == f"Revision {CANARY} is held: http-success is neither proven nor disproven."
    assert script.now == 0


def test_the_changing_screen_ends_with_the_wait(capsys: pytest.CaptureFixture[str]) -> None:
    from gatewright_cli.live import screen

    script = Script(view(PROGRESSING), Unreachable("refused"), view(PROMOTED, 8))
    looks = follow(script, Options("checkout", wait=True, watch=True), lambda: script.now, script.sleep)  # type: ignore[arg-type] - a fake reader
    assert screen(looks, "").code is Exit.OK
    assert "checkout in shop: Idle" in capsys.readouterr().out
