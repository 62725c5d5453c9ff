"""The clocks of a HOLD where they meet the rest of the operator: which keys a source wakes, when it is doubted, what is
measured."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from gatewright_analysis.kinds.rollout import HoldStatus, Phase, Rollout, RolloutStatus
from gatewright_operator.api import Api
from gatewright_operator.cache import Cache
from gatewright_operator.hold_metrics import forget_hold, measure_hold, oldest_hold_seconds
from gatewright_operator.keys import Key, RolloutIndex
from gatewright_operator.metrics import Metrics
from gatewright_operator.plan.actions import AppendLedger, Entry, Plan
from gatewright_operator.plan.hold_clock import resolved
from gatewright_operator.plan.snapshot import Snapshot, SourceState
from gatewright_operator.resources import METRIC_SOURCES
from gatewright_operator.source_health import DOUBTED_SECONDS, SourceHealth, source_states
from gatewright_operator.sources import Sources
from tests.property import sim_objects as objects

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
NAMES = {"namespace": "shop", "rollout": "checkout"}


def source(status: str | None = None) -> dict[str, Any]:
    condition = {
        "type": "Ready",
        "status": status,
        "reason": "SourceUnreachable",
        "lastTransitionTime": "2030-01-01T11:00:00Z",
    }
    found = {} if status is None else {"status": {"conditions": [condition]}}
    return {"metadata": {"name": "prometheus", "uid": "s", "resourceVersion": "1"}, **found}


def cache_with(one: dict[str, Any]) -> Cache:
    cache = Cache()
    cache.put(METRIC_SOURCES, one)
    return cache


def test_a_source_is_down_when_its_own_condition_says_so_and_unknown_before_it_was_asked() -> None:
    since = NOW - timedelta(hours=1)
    assert source_states(cache_with(source("False"))) == {
        "prometheus": SourceState(True, since, "SourceUnreachable")
    }
    assert source_states(cache_with(source("True")))["prometheus"].down is False
    assert source_states(cache_with(source())) == {}


def test_a_look_without_an_answer_has_the_source_asked_at_once_but_not_at_every_look() -> None:
    now = [100.0]
    health = SourceHealth(
        cast(Api, None), cache_with(source("True")), cast(Sources, None), clock=lambda: now[0]
    )
    assert health.doubt("prometheus")
    now[0] += DOUBTED_SECONDS - 1
    assert not health.doubt("prometheus"), "it was asked a moment ago"
    now[0] += 1
    assert health.doubt("prometheus")


def test_a_source_that_is_known_to_be_down_is_not_doubted() -> None:
    health = SourceHealth(
        cast(Api, None), cache_with(source("False")), cast(Sources, None), clock=lambda: 100.0
    )
    assert not health.doubt("prometheus")


def run_of(rollout: str, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "shop", "name": f"{rollout}-1-1"},
        "spec": {"rollout": rollout},
        "status": status,
    }


def test_a_source_wakes_the_rollouts_that_are_held_beside_the_runs_that_still_judge() -> None:
    runs = [
        run_of("held", phase="Decided", verdict={"decision": "HOLD"}),
        run_of("passed", phase="Decided", verdict={"decision": "PROMOTE"}),
        run_of("judging"),
    ]
    assert RolloutIndex().concerned(METRIC_SOURCES, source(), runs=runs) == {
        Key("source", "", "prometheus"),
        Key("rollout", "shop", "held"),
        Key("rollout", "shop", "judging"),
        Key("run", "shop", "judging-1-1"),
    }


def hold(**changes: Any) -> HoldStatus:
    fields = {
        "run": "checkout-1-1", "evidence_digest": "sha256:" + "0" * 64, "step": "1", "since": NOW - timedelta(minutes=20),
        "reason": "LowTraffic", "deadline": NOW + timedelta(hours=1),
    }  # fmt: skip
    return HoldStatus(**{**fields, **changes})


def snapshot(status: RolloutStatus) -> Snapshot:
    metadata = {"name": "checkout", "namespace": "shop"}
    body = objects.rollout() | {"metadata": metadata, "status": status.wire()}
    return Snapshot(now=NOW, rollout=Rollout.model_validate(body))


def entry(kind: str, **spec: str) -> Entry:
    return Entry(kind, "0123456789", "1", 1, "c", {"spec": spec})


def test_what_a_scrape_tells_of_a_hold_begins_and_ends_with_it() -> None:
    metrics = Metrics()
    held = RolloutStatus(phase=Phase.HELD, hold=hold(clock_stopped_since=NOW))
    measure_hold(metrics, snapshot(RolloutStatus()), Plan((), held, None), held)
    assert metrics.held_since.value(**NAMES) == (NOW - timedelta(minutes=20)).timestamp()
    assert metrics.hold_clock_stopped.value(**NAMES) == 1
    going = RolloutStatus(phase=Phase.HELD, hold=hold())
    measure_hold(metrics, snapshot(held), Plan((), going, None), going)
    assert not list(metrics.hold_clock_stopped.samples())
    forget_hold(metrics, **NAMES)
    assert not list(metrics.held_since.samples())
    assert oldest_hold_seconds(metrics) == 0


def test_the_age_of_the_longest_hold_is_the_one_that_is_told() -> None:
    metrics, now = Metrics(), datetime.now(UTC).timestamp()
    metrics.held_since.set(now - 60, namespace="shop", rollout="one")
    metrics.held_since.set(now - 600, namespace="shop", rollout="two")
    assert 600 <= oldest_hold_seconds(metrics) < 660


def test_the_time_to_a_persons_decision_is_counted_when_its_entry_is_written() -> None:
    metrics = Metrics()
    before, after = RolloutStatus(phase=Phase.HELD, hold=hold()), RolloutStatus(phase=Phase.PROGRESSING)
    written = AppendLedger((entry("Review", decision="Approve"), entry("WeightSet")), required=True)
    measure_hold(metrics, snapshot(before), Plan((written,), after, None), after)
    assert metrics.time_to_human_decision.count(decision="Approve") == 1
    assert 'gatewright_time_to_human_decision_seconds_sum{decision="Approve"} 1200' in metrics.render()


def test_an_escalation_is_counted_once_and_by_what_did_it() -> None:
    metrics = Metrics()
    before = RolloutStatus(phase=Phase.HELD, hold=hold())
    after = RolloutStatus(phase=Phase.HELD, hold=hold(escalated_at=NOW))
    by_clock = AppendLedger((entry("Escalated"),), required=False)
    by_order = AppendLedger((entry("Order", order="Escalate"), entry("Escalated")), required=False)
    measure_hold(metrics, snapshot(before), Plan((by_clock,), after, None), after)
    measure_hold(metrics, snapshot(before), Plan((by_order,), after, None), after)
    # The ledger was away when it was escalated, and takes the entry now.
    measure_hold(metrics, snapshot(after), Plan((by_clock,), after, None), after)
    assert (metrics.escalations.value(by="clock"), metrics.escalations.value(by="order")) == (1, 1)


def test_an_escalation_that_the_budget_of_attempts_opened_is_not_closed_by_the_end_of_a_hold() -> None:
    opened = {"opened_at": NOW, "cause": "AttemptsExhausted"}
    before = RolloutStatus(phase=Phase.HELD, hold=hold(escalated_at=NOW))
    after = RolloutStatus.model_validate({"escalation": opened})
    assert resolved(before, after, "somebody approved") == after.escalation
    mine = RolloutStatus.model_validate({"escalation": opened | {"cause": "LowTraffic"}})
    closed = resolved(before, mine, "somebody approved")
    assert closed is not None
    assert closed.resolution == "somebody approved"
    assert resolved(RolloutStatus(), mine, "x") == mine.escalation, "it was not this hold's"
