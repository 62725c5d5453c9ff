"""`kubectl gate pause`, `resume` and `override`: what they write, and what they refuse before anything is written."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gatewright_analysis.kinds.review import GateOrder, OrderKind
from gatewright_cli import decide, orders
from gatewright_cli.decide import Word
from gatewright_cli.errors import NotAllowed, UsageError
from gatewright_cli.kube import User
from gatewright_cli.parser import gate_parser
from gatewright_cli.view import View
from tests.unit.cli_objects import CANARY, OTHER, canary, rollout

ME = User("sre-1", ("sre", "system:authenticated"))
STEPS = [{"setWeight": 25}, {"gate": {}}, {"setWeight": 50}, {"gate": {}}]


def on_its_way(phase: str = "Progressing", **status: Any) -> View:
    raw = rollout(phase=phase, canary=canary(), **status)
    raw["spec"]["steps"] = STEPS
    return View(raw)


def order(view: View, verb: str, **word: Any) -> GateOrder:
    return GateOrder.model_validate(
        decide.order_of(view, ME, Word(verb, "checkout", "orders get lost", **word), "")
    )


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_pause_and_resume_are_about_the_version_on_its_way(verb: str) -> None:
    spec = order(on_its_way("Paused"), verb).spec
    assert (spec.order, spec.revision) == (OrderKind(verb.capitalize()), CANARY)
    assert spec.override is None
    assert spec.expires_at is None


@pytest.mark.parametrize(
    ("to", "target"), [("promote", "Promote"), ("Promote", "Promote"), ("4", "3"), ("1", "0")]
)
def test_an_override_names_a_step_as_screens_count_them(to: str, target: str) -> None:
    before = datetime.now(UTC)
    spec = order(on_its_way(), "override", to=to, expires="30m", ignore_breach=True).spec
    assert spec.override is not None
    assert (spec.override.to, spec.override.ignore_breach) == (target, True)
    assert spec.expires_at is not None
    assert timedelta(minutes=29) < spec.expires_at - before <= timedelta(minutes=30, seconds=5)


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ({"to": "5", "expires": "30m"}, "'5' is neither promote nor a step from 1 to 4"),
        ({"to": "0", "expires": "30m"}, "neither promote nor a step"),
        ({"to": "next", "expires": "30m"}, "neither promote nor a step"),
        ({"to": "promote", "expires": "2h"}, "an hour at most"),
        ({"to": "promote"}, "needs --to and --expires"),
        ({"expires": "30m"}, "needs --to and --expires"),
    ],
)
def test_an_override_that_can_not_be_meant_is_refused_at_once(word: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        order(on_its_way(), "override", **word)


@pytest.mark.parametrize("missing", ["--to", "--expires"])
def test_where_to_and_until_when_have_no_default(missing: str) -> None:
    given = {"--to": "promote", "--expires": "30m"}
    argv = [text for flag, value in given.items() if flag != missing for text in (flag, value)]
    with pytest.raises(UsageError, match=missing):
        gate_parser().parse_args(["override", "checkout", "--reason", "orders get lost", *argv])


def test_what_was_refused_is_retried_first() -> None:
    view = View(rollout(phase="RolledBack", rejected={"revision": OTHER, "reason": "BreachAbsolute"}))
    with pytest.raises(NotAllowed, match="retry it first, then override") as refused:
        order(view, "override", to="promote", expires="30m")
    assert refused.value.then == "kubectl gate retry checkout -n shop --reason '…'"


@pytest.mark.parametrize("verb", ["pause", "resume", "override"])
def test_at_rest_there_is_nothing_to_order(verb: str) -> None:
    with pytest.raises(NotAllowed, match=f"nothing to {verb}; it is Idle"):
        order(View(rollout(phase="Idle")), verb, to="promote", expires="30m")


def test_who_is_asked_reads_what_an_override_does() -> None:
    spec = {"override": {"to": "3", "ignoreBreach": True}, "expiresAt": "2030-05-01T12:30:00Z"}
    assert orders.consequence(on_its_way(), spec) == (
        "It goes on at step 4 of 4, past the gates between; breaches do not roll back before 2030-05-01T12:30:00Z. "
        "It stands in the ledger under your name."
    )
