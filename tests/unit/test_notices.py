"""Notices are a pure function of status: the same HOLD is always the same notice."""

from datetime import timedelta

import pytest

from gatewright_analysis.kinds.base import Condition
from gatewright_analysis.kinds.rollout import (
    CanaryStatus,
    Phase,
    RejectedStatus,
    RolloutStatus,
    StableStatus,
    VerdictSummary,
)
from gatewright_analysis.kinds.sink import NoticeKind, NotificationSinkSpec
from gatewright_analysis.notify.notices import SOURCE_GRACE, TOLD_FOR, Notice, for_sink
from tests.unit.notices import NOON, WEBHOOK, at, held, notices, source

STARVED = {
    "reason": "SourceTimeout",
    "message": "The evidence can't be used: no answer (MetricSource prometheus).",
}


def on(*kinds: NoticeKind, selective: bool = False) -> NotificationSinkSpec:
    selector = {"namespaces": {"matchLabels": {"team": "a"}}} if selective else {}
    return NotificationSinkSpec.model_validate(WEBHOOK.wire() | {"notices": list(kinds)} | selector)


def told(spec: NotificationSinkSpec, *found: Notice, minutes: float = 10, sources: tuple = ()) -> list[str]:  # type: ignore[type-arg]
    standing = for_sink(spec, at(-60), found, sources, at(minutes))
    return [str(n.kind) for n in standing if not n.waits]


def test_a_hold_is_one_notice_whatever_its_evidence_grows_to() -> None:
    [before] = notices(held())
    [after] = notices(
        held(evidence_digest="sha256:" + "1" * 64, blocking=("http-success", "p99"), since=at(5))
    )
    assert (before.key, before.subject) == (after.key, after.subject)


@pytest.mark.parametrize("other", [{"run": "checkout-0123456789-1-2"}, {"run": "checkout-9876543210-1-1"}])
def test_another_run_is_another_hold(other: dict[str, str]) -> None:
    [one], [two] = notices(held()), notices(held(**other))
    assert one.key != two.key and one.subject != two.subject


def test_a_rollout_of_the_same_name_after_deletion_is_another() -> None:
    [one] = notices(held())
    [two] = notices(held(), namespace="shop-again")
    assert one.key != two.key


def test_each_escalation_is_one_notice_about_the_same_hold() -> None:
    first, second = notices(held(escalated_at=at(15))), notices(held(escalated_at=at(40)))
    assert [n.kind for n in first] == [NoticeKind.HELD, NoticeKind.ESCALATED]
    assert first[0].key == second[0].key and first[1].key != second[1].key
    assert len({n.subject for n in first + second}) == 1


def test_a_hold_says_who_why_until_when_and_how_to_decide() -> None:
    [notice] = notices(held())
    assert (notice.initiator, notice.step, notice.deadline) == ("developer-a", "step 2 of 4", at(24 * 60))
    assert notice.commands == (
        "kubectl gate approve checkout -n shop --expires 4h --reason '…'",
        "kubectl gate request-changes checkout -n shop --reason '…'",
        "kubectl gate reject checkout -n shop --reason '…'",
    )


def test_a_hold_without_a_verdict_can_be_retried_and_not_approved() -> None:
    [notice] = notices(held(blocking=()))
    assert notice.commands[0] == "kubectl gate retry checkout -n shop --reason '…'"


def test_by_default_only_holds_and_escalations_are_told() -> None:
    assert told(WEBHOOK, *notices(held(escalated_at=at(5))), *notices(_rolled_back())) == [
        "Escalated",
        "Held",
    ]


def test_a_hold_that_rests_on_a_source_that_is_down_is_told_as_the_source() -> None:
    down = (source(ready="False"),)
    found = [n for name in ("a", "b", "c") for n in notices(held(**STARVED), name)]
    standing = for_sink(WEBHOOK, at(-60), found, down, at(10))
    [one] = [n for n in standing if not n.waits]
    assert one.kind is NoticeKind.SOURCE_DOWN
    assert one.held == ("shop/a", "shop/b", "shop/c")
    assert {n.subject for n in found} <= {n.subject for n in standing}, "the holds stand, so nothing ends"


def test_the_sources_that_stop_the_clocks_are_those_that_it_rests_on() -> None:
    stopped = {
        "clock_stopped_since": at(1),
        "clock_stopped_by": "gateway (SourceTimeout), prom.west (TlsError)",
    }
    [notice] = notices(held(**STARVED | stopped))
    assert notice.rests_on == {"gateway", "prom.west", "prometheus"}
    [other] = notices(held(**stopped))
    assert other.rests_on == frozenset(), "it was judged by the numbers that there were"


def test_when_the_source_answers_again_what_is_still_held_is_told() -> None:
    found = notices(held(**STARVED))
    assert told(WEBHOOK, *found, sources=(source(),)) == ["Held"]


def test_a_hold_for_want_of_answers_waits_until_the_source_was_asked() -> None:
    found, grace = notices(held(**STARVED)), SOURCE_GRACE.total_seconds() / 60
    assert told(WEBHOOK, *found, minutes=grace * 0.9, sources=(source(),)) == []
    assert told(WEBHOOK, *found, minutes=grace, sources=(source(),)) == ["Held"]
    assert told(WEBHOOK, *found, minutes=0, sources=()) == ["Held"], "nobody can be asked"


def test_a_hold_for_another_reason_is_told_whatever_a_source_does() -> None:
    found = notices(held(message="Below, says MetricSource prometheus."))
    assert told(WEBHOOK, *found, sources=(source(ready="False"),)) == ["Held"]


def test_an_escalation_is_told_though_the_source_is_down() -> None:
    found = notices(held(**STARVED, escalated_at=at(9)))
    assert sorted(told(WEBHOOK, *found, sources=(source(ready="False"),))) == ["Escalated", "SourceDown"]


def test_a_source_that_holds_nothing_is_told_to_those_that_ask_and_see_all_namespaces() -> None:
    down = (source(ready="False"),)
    assert told(WEBHOOK, sources=down) == []
    assert told(on(NoticeKind.SOURCE_DOWN), sources=down) == ["SourceDown"]
    assert told(on(NoticeKind.SOURCE_DOWN, selective=True), sources=down) == []


def test_what_was_told_of_a_source_stands_as_long_as_it_is_down_whoever_it_holds() -> None:
    down = (source(ready="False"),)
    [told_] = [n for n in for_sink(WEBHOOK, at(-60), notices(held(**STARVED)), down, at(10)) if not n.waits]
    [left] = for_sink(WEBHOOK, at(-60), (), down, at(20))
    assert (left.key, left.waits) == (told_.key, True)


def test_a_source_that_is_down_again_is_told_again() -> None:
    spec = on(NoticeKind.SOURCE_DOWN)
    [first] = for_sink(spec, at(-60), (), (source(ready="False"),), at(1))
    [again] = for_sink(spec, at(-60), (), (source(ready="False", since=at(5)),), at(6))
    assert first.key != again.key


def _rolled_back() -> RolloutStatus:
    return RolloutStatus(
        phase=Phase.ROLLED_BACK,
        attempt=2,
        canary=CanaryStatus(revision="0123456789"),
        rejected=RejectedStatus(revision="0123456789", reason="Breach", message="9 % bad.", at=NOON),
    )


def _baking(step_started_minutes: float = -5) -> RolloutStatus:
    return RolloutStatus(
        phase=Phase.BAKING,
        attempt=2,
        current_step=4,
        canary=CanaryStatus(revision="0123456789"),
        progress_at=NOON,
        conditions=(
            Condition(
                type="Reconciling",
                status="True",
                reason="Baking",
                last_transition_time=at(step_started_minutes),
            ),
        ),
    )


def _complete(serves: str = "0123456789") -> RolloutStatus:
    return RolloutStatus(
        phase=Phase.IDLE,
        attempt=2,
        progress_at=NOON,
        stable=StableStatus(revision=serves, pod_template_hash="abc", replicas=2),
        verdict=VerdictSummary(
            decision="PROMOTE",
            run="checkout-0123456789-bake-2",
            step="bake",
            reason="AllPassed",
            at=NOON,
        ),
    )


@pytest.mark.parametrize(
    ("status", "kinds"),
    [
        (_rolled_back(), ["RolledBack"]),
        (_baking(), ["Promoted", "Started"]),
        (_complete(), ["Completed"]),
        (_complete(serves="9876543210"), []),
    ],
    ids=["rolled back", "baking", "complete", "reverted to another"],
)
def test_transitions_are_told_to_those_that_ask(status: RolloutStatus, kinds: list[str]) -> None:
    everything = on(*NoticeKind)
    assert sorted(told(everything, *notices(status))) == kinds
    assert told(WEBHOOK, *notices(status)) == []


def test_what_happened_before_a_sink_was_made_or_long_ago_is_no_news() -> None:
    found = notices(_rolled_back())
    everything = on(*NoticeKind)
    assert for_sink(everything, at(1), found, (), at(2)) == ()
    late = NOON + TOLD_FOR + timedelta(seconds=1)
    assert for_sink(everything, at(-60), found, (), late) == ()


def test_what_is_held_now_is_told_to_a_sink_that_is_made_later() -> None:
    [notice] = for_sink(WEBHOOK, at(300), notices(held()), (), at(301))
    assert notice.kind is NoticeKind.HELD


def test_what_is_urgent_comes_first() -> None:
    found = (*notices(held(), "a"), *notices(held(escalated_at=at(15)), "b"))
    assert told(WEBHOOK, *found, minutes=16) == ["Escalated", "Held", "Held"]


@pytest.mark.parametrize("phase", [Phase.ROLLING_BACK, Phase.RESTORING, Phase.PROGRESSING])
def test_a_hold_that_nobody_can_decide_any_more_does_not_stand(phase: Phase) -> None:
    assert [n for n in notices(held().model_copy(update={"phase": phase})) if n.kind is NoticeKind.HELD] == []
