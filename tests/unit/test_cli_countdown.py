"""How long a HOLD still waits, as the plugin says it."""

from typing import Any

import pytest

from gatewright_cli import decide
from gatewright_cli.countdown import countdown
from gatewright_cli.errors import NotAllowed
from gatewright_cli.report import render
from gatewright_cli.view import View
from tests.unit.cli_objects import NOW, at, canary, held, hold, rollout

CASES: list[tuple[str, dict[str, Any], str]] = [
    ("both lie ahead", {"escalateAt": at(minutes=12)}, "escalates in 12m, the wait ends in 20h"),
    ("nothing says when it is escalated", {}, "the wait ends in 20h"),
    ("it is due and the operator has not come to it", {"escalateAt": at(minutes=-1)}, "escalates now, the wait ends in 20h"),
    (
        "it was escalated",
        {"escalateAt": at(minutes=-3), "escalatedAt": at(minutes=-3)},
        "escalated 3m ago, the wait ends in 20h",
    ),
    (
        "the wait is over",
        {"escalatedAt": at(minutes=-3), "deadline": at(minutes=-2)},
        "escalated 3m ago, the wait ended 2m ago, and somebody has to decide",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_it_says_how_long_is_left(changes: dict[str, Any], said: str) -> None:
    assert countdown(hold(**changes), NOW) == said


def test_a_clock_that_stands_still_says_since_when_why_and_what_is_left_then() -> None:
    stopped = hold(
        escalateAt=at(minutes=2),
        deadline=at(hours=1),
        clockStoppedSince=at(minutes=-5),
        clockStoppedBy="prometheus (SourceUnreachable)",
    )
    said = countdown(stopped, NOW)
    assert said.startswith("clock stopped since ")
    assert "Z (5m) because a source is down: prometheus (SourceUnreachable); " in said
    assert said.endswith("escalates after 7m more, the wait ends after 1h5m more")
    escalated = countdown(stopped | {"escalatedAt": at(minutes=-6)}, NOW)
    assert escalated.startswith("escalated 6m ago; clock stopped since ")
    assert escalated.endswith("; the wait ends after 1h5m more")


def test_status_shows_it_within_the_screen() -> None:
    stands = hold(clockStoppedSince=at(minutes=-5), clockStoppedBy="prometheus (SourceUnreachable)")
    lines = render(View(held(hold=stands)), NOW)
    assert any("clock stopped since" in line for line in lines)
    assert all(len(line) <= 100 for line in lines)


def test_what_is_not_held_cannot_be_escalated() -> None:
    with pytest.raises(NotAllowed, match="is not held, so there is nothing to escalate; it is Progressing"):
        decide.order_revision(View(rollout(phase="Progressing", canary=canary())), "escalate", "")
