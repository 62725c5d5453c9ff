"""A person's word on a HOLD: how far it reaches, that it is about what was shown, and what is said to have followed."""

import io
from datetime import timedelta
from typing import Any

import pytest

from gatewright_analysis.kinds.review import GateReview
from gatewright_cli import gatereview
from gatewright_cli.case import Case
from gatewright_cli.decide import Word
from gatewright_cli.errors import Exit, NotAllowed, Superseded, UsageError
from gatewright_cli.flags import KubeFlags
from gatewright_cli.kube import User
from gatewright_cli.view import View
from tests.unit.cli_objects import DIGEST, NOW, OTHER, WORLD, at, canary, check, held, hold, rollout, run

ME = User("sre-1", ("sre", "system:authenticated"))
FLAGS = KubeFlags((("--context", "prod"),), "shop")
WORD = Word("approve", "checkout", "logs are clean", expires="24h")


def spec_of(word: Word = WORD, **changes: Any) -> Any:
    manifest = gatereview.review_of(View(held(hold=hold(**changes))), ME, word, NOW + timedelta(hours=24), "")
    GateReview.model_validate(manifest)
    return manifest["spec"]


@pytest.mark.parametrize(
    ("said", "reach"), [("4", "3"), ("3", "2"), ("remaining", "Remaining"), ("Remaining", "Remaining")]
)
def test_a_span_is_named_by_the_numbers_on_the_screen(said: str, reach: str) -> None:
    word = Word("approve", "checkout", "logs are clean", expires="24h", through=said)
    assert spec_of(word)["through"] == reach


@pytest.mark.parametrize("said", ["", "1", "2", "5", "-1", "³", "99999", "bake", "all"])
def test_a_span_that_ends_where_nothing_is_held_back_is_refused(said: str) -> None:
    with pytest.raises(UsageError, match=r"name a step from 3 to 4, or remaining\.") as refused:
        gatereview.through(View(held()), said)
    assert refused.value.then == "kubectl gate review checkout -n shop"


def test_after_the_last_gate_only_what_remains_can_be_named() -> None:
    with pytest.raises(UsageError, match=r"is no step after what is held \(step 4 of 4\): name remaining\."):
        gatereview.through(View(held(hold=hold(step="3"))), "4")


@pytest.mark.parametrize("changes", [{"blocking": []}, {"worldSnapshot": None}])
def test_where_no_gate_has_judged_there_is_nothing_to_waive(changes: dict[str, Any]) -> None:
    with pytest.raises(NotAllowed, match="There is nothing to waive: no gate has judged what is held"):
        spec_of(**changes)
    reject = gatereview.review_of(
        View(held(hold=hold(**changes))), ME, Word("reject", "checkout", "not like this"), None, ""
    )
    assert reject["spec"]["decision"] == "Reject"


def test_without_a_terminal_and_without_yes_nothing_is_decided() -> None:
    with pytest.raises(UsageError, match="there is no terminal to ask at: add --yes") as refused:
        gatereview.may_go_on(WORD, terminal=False, flags=FLAGS)
    assert refused.value.code == Exit.USAGE
    assert refused.value.then == "kubectl gate review checkout -n shop --context=prod"
    assert gatereview.may_go_on(WORD, terminal=True, flags=FLAGS) is True
    meant = Word("approve", "checkout", "logs are clean", expires="24h", yes=True)
    assert gatereview.may_go_on(meant, terminal=False, flags=FLAGS) is False
    assert gatereview.may_go_on(meant, terminal=True, flags=FLAGS) is False


@pytest.mark.parametrize(
    ("typed", "answer"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_the_evidence_is_shown_and_only_yes_is_a_yes(
    typed: str, answer: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    case = Case(View(held(), run=run(check())), None)
    word = Word("approve", "checkout", "logs are clean", expires="24h", through="4")
    assert gatereview.confirmed(case, spec_of(word)) is answer
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = shown.err.splitlines()
    assert "checkout in shop: held at step 2 of 4, 5 % of the traffic" in lines[0]
    assert lines[-3:] == [
        "Approve, as sre-1: logs are clean",
        "  waives http-success until 2030-05-02T12:00:00Z, through step 4 of 4",
        "Approve? [y/N] ",
    ]
    assert len(lines) <= 40


@pytest.mark.parametrize(
    "changes",
    [
        {"hold": hold(evidenceDigest=WORLD)},
        {"hold": hold(run="checkout-2")},
        {"hold": hold(step="3")},
        {"hold": hold(worldSnapshot=DIGEST)},
        {"hold": hold(blocking=["http-success", "pods"])},
        {"canary": canary(OTHER)},
    ],
)
def test_what_changed_while_it_was_looked_at_is_not_decided_on(changes: dict[str, Any]) -> None:
    with pytest.raises(
        Superseded, match=r"the evidence changed: look again\. Nothing was written\."
    ) as stopped:
        gatereview.still_held(View(held()), View(held(**changes)), " --context=prod")
    assert stopped.value.then == "kubectl gate review checkout -n shop --context=prod"
    assert stopped.value.code == Exit.SUPERSEDED


def test_a_rollout_of_the_same_name_is_another() -> None:
    other = held()
    other["metadata"] |= {"uid": "uid-2"}
    with pytest.raises(Superseded):
        gatereview.still_held(View(held()), View(other), "")


def test_a_hold_that_only_ages_is_the_same() -> None:
    older = held(hold=hold(note="look at the log", escalatedAt=at(), deadline=at(hours=19)))
    gatereview.still_held(View(held()), View(older), "")


def test_a_hold_that_ended_while_it_was_looked_at_is_said() -> None:
    with pytest.raises(Superseded, match="it ended: Rollout checkout is RolledBack now"):
        gatereview.still_held(View(held()), View(rollout(phase="RolledBack")), "")


ONE = {"reviewer": "sre-1", "review": "r", "expiresAt": at(hours=1)}


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (None, ()),
        (
            held(hold=hold(approvals=[ONE], approvalsNeeded=2)),
            ("1 of 2 approvals: one more person has to approve before it goes on.",),
        ),
        (
            held(hold=hold(approvals=[ONE], approvalsNeeded=3)),
            ("1 of 3 approvals: 2 more people have to approve before it goes on.",),
        ),
        (held(hold=hold(note="why are they 12?")), ("It stays held: why are they 12?.",)),
        (
            held(phase="Progressing", hold=None, currentStep=2, message="25 % to the canary."),
            ("Now Progressing at step 3 of 4: 25 % to the canary.",),
        ),
        (
            held(hold=hold(run="other"), message="Held at step 2: a breach."),
            ("Now Held at step 2 of 4: Held at step 2: a breach.",),
        ),
        (
            rollout(phase="RollingBack", message="All traffic goes back."),
            ("Now RollingBack: All traffic goes back.",),
        ),
    ],
)
def test_what_followed_is_said(after: Any, said: tuple[str, ...]) -> None:
    assert tuple(gatereview.followed(View(held()), after)) == said
