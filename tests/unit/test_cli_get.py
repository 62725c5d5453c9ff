"""`kubectl gate get`: the tree, its JSON, and what `--watch` takes for a change. Pure."""

import itertools
from typing import Any

import pytest

from gatewright_cli import get, tree
from gatewright_cli.errors import Unreachable
from gatewright_cli.formats import Output
from gatewright_cli.output import Style, width
from gatewright_cli.view import View
from tests.unit.cli_objects import CANARY, NOW, STABLE, at, check, held, hold, rollout, run, stable

PODS = check(
    "pods", status="pass", reason="Passed", score=None, ciLower=None, ciUpper=None, threshold=None, samples=0,
    planned=None, statistics={"restarts": 0, "ready": 1},
)  # fmt: skip


def lines(view: View, *runs: dict[str, Any], **how: bool) -> list[str]:
    return tree.render(tree.nodes(view, runs, NOW), **how)


def test_a_held_rollout_is_a_tree_of_steps_and_checks() -> None:
    view = View(held(hold=hold(escalateAt=at(minutes=3))))
    assert lines(view, run(attempt=1, name="first"), run(check(), PODS, attempt=2)) == [
        "NAME                  STATUS           WEIGHT  ATTEMPT  SAYS",
        "checkout              Held             5 %              BelowThreshold, escalates in 3m, the wait e…",
        "├─ ✓ 1  5 %           done",
        "├─ ▸ 2  gate 10m      HOLD                     2        BelowThreshold, 12m ago",
        "│  ├─ ! http-success  below_threshold                   99.48 % (98.71–99.80 %) ≥ 99 % n 812/1038",
        "│  └─ ✓ pods          pass                              Passed",
        "├─ · 3  25 %",
        "├─ · 4  gate 10m",
        "└─ · bake 30m",
    ]


def test_wide_says_which_revision_and_run_and_cuts_nothing() -> None:
    [_, root, *_, at_check, _, _, _, _] = lines(View(held()), run(check(), PODS), wide=True, namespaced=True)[
        :9
    ]
    assert root.startswith("shop/checkout")
    assert CANARY in root
    assert at_check.endswith("n 812/1038")


def test_runs_of_other_revisions_and_steps_do_not_count() -> None:
    others = (run(check(), revision=STABLE), run(check(), step="3", revision=STABLE))
    assert not [line for line in lines(View(held()), *others) if "http-success" in line]


@pytest.mark.parametrize(
    ("status", "marks"),
    [
        ({"phase": "Progressing", "currentStep": 2}, "✓✓▸··"),
        ({"phase": "Baking", "currentStep": 3}, "✓✓✓✓▸"),
        ({"phase": "Held", "currentStep": 3, "hold": hold(step="bake")}, "✓✓✓✓▸"),
        ({"phase": "Idle", "stable": stable()}, "✓✓✓✓✓"),
        ({"phase": "RolledBack", "currentStep": 1}, "·····"),
        ({}, "·····"),
    ],
)
def test_marks_say_what_is_done_what_is_now_and_what_is_ahead(status: dict[str, Any], marks: str) -> None:
    found = tree.nodes(View(rollout(**status)), (), NOW)
    assert "".join(node.mark for node in found[1:]) == marks


def test_a_list_shows_the_steps_only_of_what_is_on_its_way() -> None:
    assert len(tree.nodes(View(rollout(phase="Idle", stable=stable())), (), NOW, whole=False)) == 1
    assert len(tree.nodes(View(held()), (), NOW, whole=False)) == 6


def test_colours_change_no_column() -> None:
    found = tree.nodes(View(held()), [run(check())], NOW)
    plain, coloured = tree.render(found), tree.render(found, Style(colour=True))
    assert [width(line) for line in plain] == [width(line) for line in coloured]


def test_json_has_the_steps_with_their_checks() -> None:
    shown = tree.data(View(held()), [run(check(), PODS)])
    assert (shown["phase"], shown["revision"]) == ("Held", CANARY)
    gate = shown["steps"][1]
    assert (gate["step"], gate["state"], gate["decision"], gate["attempts"]) == ("1", "now", "HOLD", 1)
    assert [each["id"] for each in gate["checks"]] == ["http-success", "pods"]
    assert [each["step"] for each in shown["steps"]] == ["0", "1", "2", "3", "bake"]


def test_a_countdown_is_no_change_and_a_status_is() -> None:
    later = NOW.replace(hour=13)
    options = get.Options("checkout")
    before = get.changes([(View(held()), [run(check())])], options, NOW)
    assert get.changes([(View(held()), [run(check())])], options, later) == before
    after = get.changes([(View(held()), [run(check(status="fail", reason="FailedThreshold"))])], options, NOW)
    assert {key for key, line in after.items() if before[key] != line} == {"shop/checkout/1/http-success"}
    assert after["shop/checkout/1/http-success"].startswith("shop/checkout/1/http-success  fail")


def test_a_change_is_a_document_a_line_for_programs() -> None:
    found = get.changes([(View(held()), ())], get.Options("checkout", output=Output.JSON), NOW)
    assert found["shop/checkout"].startswith('{"namespace": "shop", "name": "checkout"')


def test_a_watch_outlives_an_api_server_that_is_away() -> None:
    answers: list[Any] = [[], Unreachable("refused"), []]

    def read() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    looks = list(itertools.islice(get.follow(read, lambda _: None), 3))
    assert [type(look) for look in looks] == [list, Unreachable, list]
    with pytest.raises(Unreachable):
        next(get.follow(lambda: (_ for _ in ()).throw(Unreachable("no")), lambda _: None))
