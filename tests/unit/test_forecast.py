"""What the traffic of the last days says of a contract: asked seldom, told once, and unknown where it can't be read."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.question import Answer, Answered, Question, Sample, Series
from gatewright_analysis.kinds.base import Condition
from gatewright_analysis.kinds.rollout import Phase, Rollout, RolloutStatus
from gatewright_analysis.kinds.source import MetricSource
from gatewright_analysis.reasons import Reason
from gatewright_operator.forecast import Forecasts
from gatewright_operator.plan.actions import Plan
from gatewright_operator.plan.conditions import finished
from gatewright_operator.plan.snapshot import Forecast, PinnedContract, Problem, Snapshot
from gatewright_operator.workload import DeploymentView, deployment_view
from tests.unit.test_feasibility import check, contract, rollout, source

NOW = datetime(2030, 1, 9, tzinfo=UTC)


class Played:
    """Sources that answer with the same number, or a fault."""

    def __init__(self, answer: float | Fault = 0.0, by: str = "PodName") -> None:
        self.answer = answer
        self.by = by
        self.asked: list[Question] = []

    def get(self, name: str) -> MetricSource | None:
        return source(name, arms={"by": self.by, "label": "pod"}) if name == "prometheus" else None

    async def read_all(self, questions: Iterable[Question]) -> dict[Question, Answer]:
        self.asked += questions
        if isinstance(self.answer, Fault):
            return dict.fromkeys(self.asked, self.answer)
        return {q: Answered((Series(frozenset(), (Sample(q.time, self.answer),)),)) for q in self.asked}


def deployment(age: timedelta = timedelta(days=30)) -> DeploymentView:
    return deployment_view(
        {
            "metadata": {
                "name": "checkout", "namespace": "shop", "uid": "d", "resourceVersion": "1",
                "creationTimestamp": (NOW - age).isoformat(),
            },
            "spec": {"template": {"spec": {"containers": [{"name": "app", "image": "app:1"}]}}},
        }
    )  # fmt: skip


def picture(*checks: dict[str, Any], age: timedelta = timedelta(days=30), generation: int = 1) -> Snapshot:
    spec = contract(*checks)
    metadata = {"name": "checkout", "namespace": "shop", "uid": "u", "generation": generation}
    body = rollout({"maxDuration": "20m"}, weight=5).wire() | {"workloadRef": {"name": "checkout"}}
    raw = {"metadata": metadata, "spec": body, "status": {"phase": "Idle"}}
    return Snapshot(
        now=NOW,
        rollout=Rollout.model_validate(raw),
        contract=PinnedContract("checkout", 1, f"digest of {len(checks)}", spec),
        deployment=deployment(age),
    )


def asked(forecasts: Forecasts, s: Snapshot) -> bool:
    return asyncio.run(forecasts.ask(s))


def test_one_question_about_three_days_of_the_workloads_own_pods() -> None:
    sources = Played(3 * 24 * 60 * 200.0)
    forecasts, s = Forecasts(sources), picture(check(), check("again"))  # type: ignore[arg-type]
    assert asked(forecasts, s)
    [question] = sources.asked
    assert question.query == (
        'sum(increase(all_total{namespace="shop",pod=~"checkout-[a-z0-9]+-[a-z0-9]{5}"}[259200s]))'
    )
    found = forecasts.known(s)
    assert found is not None and (found.status, found.reason) == ("False", Reason.TRAFFIC_TOO_LOW)
    assert found.message.startswith(
        "The check success needs 5.7 hours at this rate (10 events a minute at the canary)"
    )
    assert found.message.endswith("And 1 more: gatewright plan tells all.")


def test_enough_traffic_is_feasible_and_weak_traffic_is_a_note() -> None:
    forecasts, s = Forecasts(Played(3 * 24 * 60 * 10_000.0)), picture()  # type: ignore[arg-type]
    asked(forecasts, s)
    assert forecasts.known(s) == Forecast("True", Reason.FEASIBLE, "")
    forecasts = Forecasts(Played(3 * 24 * 60 * 1000.0))  # type: ignore[arg-type]
    asked(forecasts, s)
    found = forecasts.known(s)
    assert found is not None and found.status == "True" and "needs 68.9 minutes" in found.message


def test_a_young_workload_is_asked_about_its_own_age() -> None:
    sources = Played(600.0)
    forecasts, s = Forecasts(sources), picture(age=timedelta(seconds=60))  # type: ignore[arg-type]
    asked(forecasts, s)
    assert sources.asked[0].query.endswith("[60s]))")
    found = forecasts.known(s)
    assert found is not None and "30 events a minute at the canary" in found.message
    assert Forecasts(sources).due_in(picture(age=timedelta(seconds=10))) == 20.0  # type: ignore[arg-type]


def test_what_can_not_be_read_is_unknown() -> None:
    forecasts, s = Forecasts(Played(Fault(Reason.UNREACHABLE, "nobody answers"))), picture()  # type: ignore[arg-type]
    asked(forecasts, s)
    assert forecasts.known(s) == Forecast(
        "Unknown",
        Reason.RATE_UNKNOWN,
        "The traffic of the last days is not known, so nothing can be said of it: success: nobody answers.",
    )


def test_it_is_asked_at_rest_once_an_hour_and_when_something_changed() -> None:
    forecasts, s = Forecasts(Played(1e6)), picture()  # type: ignore[arg-type]
    assert forecasts.due_in(s) == 0.0 and forecasts.known(s) is None
    asked(forecasts, s)
    assert forecasts.due_in(s) == 3600.0
    assert forecasts.due_in(replace(s, now=NOW + timedelta(minutes=59))) == 60.0
    assert forecasts.due_in(picture(generation=2)) == 0.0 and forecasts.known(picture(generation=2)) is None
    assert forecasts.due_in(picture(check(), check("more"))) == 0.0
    busy = s.rollout.model_copy(update={"status": RolloutStatus(phase=Phase.PROGRESSING)})
    assert forecasts.due_in(replace(s, rollout=busy)) is None
    assert forecasts.due_in(replace(s, findings=(Problem(Reason.NEVER_PASSES, "Never."),))) is None
    assert forecasts.due_in(replace(s, contract=None)) is None
    forecasts.forget("shop", "checkout")
    assert forecasts.due_in(s) == 0.0


def test_a_rate_that_moved_little_is_told_as_it_was() -> None:
    sources = Played(3 * 24 * 60 * 200.0)
    forecasts, s = Forecasts(sources), picture()  # type: ignore[arg-type]
    assert asked(forecasts, s)
    first = forecasts.known(s)
    sources.answer = 3 * 24 * 60 * 180.0
    assert not asked(forecasts, s) and forecasts.known(s) == first
    sources.answer = 3 * 24 * 60 * 120.0
    assert asked(forecasts, s) and forecasts.known(s) != first


@pytest.mark.parametrize("by", ["Service", "Workload", "PodLabel"])
def test_a_source_tells_the_arm_in_its_own_way_or_is_not_asked(by: str) -> None:
    sources = Played(1e9, by)
    forecasts, s = Forecasts(sources), picture()  # type: ignore[arg-type]
    asked(forecasts, s)
    wanted = (
        ['sum(increase(all_total{namespace="shop",pod="checkout"}[259200s]))'] if by == "Workload" else []
    )
    assert [q.query for q in sources.asked] == wanted


def feasible(s: Snapshot) -> Condition:
    status = finished(s, Plan((), s.rollout.status))
    assert status is not None
    return next(c for c in status.conditions if c.type == "Feasible")


def test_the_condition_says_what_the_traffic_says_and_stands_until_it_is_asked_again() -> None:
    low = replace(picture(), forecast=Forecast("False", Reason.TRAFFIC_TOO_LOW, "It needs hours."))
    said = feasible(low)
    assert (said.status, said.reason, said.message) == ("False", "TrafficTooLow", "It needs hours.")
    assert feasible(replace(low, findings=(Problem(Reason.NEVER_PASSES, "Never."),))).message == "Never."
    assert feasible(replace(low, forecast=Forecast("Unknown", Reason.RATE_UNKNOWN, "?"))).status == "Unknown"
    assert feasible(picture()).status == "True"
    status = low.rollout.status.model_copy(update={"conditions": (said,)})
    again = replace(low, rollout=low.rollout.model_copy(update={"status": status}), forecast=None)
    assert feasible(again) == said, "an operator that starts anew writes nothing before it knows more"
