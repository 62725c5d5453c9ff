"""The demo's parts that need no cluster: what it shows, and which failures it calls lost."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from devcluster.demo.look import CANARY, STABLE, Look
from devcluster.demo.numbers import ArmCounts, CheckLook
from devcluster.demo.panel import panel
from devcluster.demo.traffic import lost, on_purpose
from devcluster.demo.view import PlainView
from devcluster.load import LoadReport

CHECK = CheckLook("http-success", 0.985, 0.961, 0.994, 0.95, 300)
LOOK = Look(
    seconds=7.0,
    phase="Progressing",
    step="step 2 of 4",
    desired=25,
    actual=10,
    message="Step 2 of 4: gate at weight 25.",
    checks=(CHECK,),
    arms={STABLE: ArmCounts(900, 9), CANARY: ArmCounts(300, 6)},
    requests=1200,
    lost=3,
)


def report(
    statuses: dict[str, int], versions: dict[str, dict[str, int]], errors: dict[str, int] | None = None
) -> LoadReport:
    return LoadReport(
        "http://127.0.0.1/", 1.0, 1.0, sum(statuses.values()), statuses, versions, errors or {}, {}, 0.0
    )


def test_a_failure_that_the_service_was_told_to_make_is_not_lost() -> None:
    seen = report({"200": 90, "500": 10}, {"v1": {"200": 90, "500": 10}})
    assert (on_purpose(seen), lost(seen)) == (10, 0)


@pytest.mark.parametrize("status", ["500", "503", "404"])
def test_an_answer_of_the_gateway_itself_is_lost(status: str) -> None:
    seen = report({"200": 90, status: 2}, {"v1": {"200": 90}, "": {status: 2}})
    assert (on_purpose(seen), lost(seen)) == (0, 2)


def test_an_unexpected_answer_of_the_service_and_a_missing_one_are_lost() -> None:
    seen = report({"200": 90, "503": 2}, {"v1": {"200": 90, "503": 2}}, {"TimeoutError": 3})
    assert lost(seen) == 5


def test_without_a_terminal_a_change_makes_a_line_and_sameness_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with PlainView() as view:
        view.show(LOOK)
        view.show(replace(LOOK, seconds=7.5))
        view.show(replace(LOOK, seconds=8.0, actual=25))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "gate at weight" in line] == [
        "   7.0 s  Progressing, step 2 of 4, weight 10 % of 25 %: Step 2 of 4: gate at weight 25.",
        "   8.0 s  Progressing, step 2 of 4, weight 25 % of 25 %: Step 2 of 4: gate at weight 25.",
    ]
    assert sum("http-success" in line for line in lines) == 1, (
        "numbers come every few seconds, not at each look"
    )
    assert "98.5 % good, bounds 96.1 % to 99.4 %, must prove 95.0 % (n 300)" in "\n".join(lines)
    assert "gateway: stable 900 requests, 1.0 % failed; canary 300 requests, 2.0 % failed" in "\n".join(lines)


def test_the_panel_shows_step_weight_bounds_threshold_gateway_and_message() -> None:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    with console.capture() as capture:
        console.print(panel("Good (v2)", LOOK))
    text = capture.get()
    for part in (
        "Good (v2)",
        "step 2 of 4",
        "10 % of the traffic, 25 % wanted",
        "96.1 %",
        "95.0 %",
        "99.4 %",
        "stable 900 requests, 1.0 % failed",
        "canary 300 requests, 2.0 % failed",
        "1200 requests so far, 3 lost",
        LOOK.message,
    ):
        assert part in text, f"the panel lacks {part!r}:\n{text}"
