"""Evidence that is added up: over the steps of a rollout (`pool: Rollout`), and over the attempts of a step
(statistics.md R2)."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gatewright_analysis.decide import decide
from gatewright_analysis.evidence.model import Clock, Counts, Window
from gatewright_analysis.kinds.contract import Require
from gatewright_analysis.monitor import CheckMonitor
from gatewright_analysis.reasons import Reason
from gatewright_analysis.statistics.wilson import wilson_interval
from gatewright_analysis.task import Bounds, CheckTask, Prior
from gatewright_analysis.verdict import CheckResult, CheckStatus, Decision
from gatewright_operator.resources import GATE_RUNS
from tests import judging
from tests.property import sim_objects as objects
from tests.property.sim_api import OPERATOR, Object
from tests.property.sim_objects import NAME, NAMESPACE
from tests.property.sim_operator import Course, Process, at_rest, run
from tests.property.sim_scenarios import deciding
from tests.property.sim_world import World
from tests.property.test_attempts import asked

LIMIT = 0.05
BOUNDS = Bounds(120.0, 120.0, 30.0)
"""A gate of four windows."""
END = Clock(120.0, 120.0, 120.0, 30.0)
POOLED = judging.check(pool="Rollout", limit={"maxBadRatio": LIMIT})


def gate(counts: list[tuple[int, int]]) -> tuple[Window, ...]:
    """Windows from (bad, n); stable is clean."""
    return tuple(Window(i, Counts(n - bad, bad), Counts(n, 0)) for i, (bad, n) in enumerate(counts))


def at_gate(
    *, last: bool, earlier: tuple[Window, ...] = (), check: dict[str, Any] | None = None
) -> CheckTask:
    asked = judging.task(check or POOLED)
    return CheckTask(asked.check, asked.contract, asked.stage, 10, True, earlier=earlier, last_gate=last)


def result(task: CheckTask, now: tuple[Window, ...]) -> CheckResult:
    monitor = CheckMonitor(task, BOUNDS)
    for window in now:
        monitor.add(window)
    return monitor.result(END)


gates = st.lists(
    st.integers(0, 120).flatmap(lambda n: st.tuples(st.integers(0, max(0, n // 8)), st.just(n))),
    min_size=4,
    max_size=4,
).map(gate)


@settings(max_examples=30, deadline=None)
@given(gates, gates)
def test_a_pooled_check_asks_for_no_breach_before_the_last_gate_and_for_a_proof_there(
    before: tuple[Window, ...], now: tuple[Window, ...]
) -> None:
    early, late = at_gate(last=False), at_gate(last=True, earlier=before)
    first, last = result(early, now), result(late, now)
    assert (first.require, last.require) == (Require.NO_BREACH, Require.PASS)
    assert first.status is not CheckStatus.PASS, "a part proved what the whole is to prove"
    if first.status is CheckStatus.NOT_PROVEN:
        said = decide([first], early.contract, END, expected=[first.id], last_gate=False)
        assert said.decision is Decision.PROMOTE
        said = decide([first], early.contract, END, expected=[first.id], last_gate=True)
        assert said.decision is Decision.HOLD, "what is not proven passed at the last gate"
    if last.status is CheckStatus.PASS:
        both = [*before, *now]
        good, bad = sum(w.canary.good for w in both), sum(w.canary.bad for w in both)
        assert wilson_interval(good, good + bad, late.terms.z)[0] >= late.terms.threshold - 1e-9
        own_bad, own = sum(w.canary.bad for w in now), sum(w.canary.n for w in now)
        assert own > 0
        assert own_bad <= LIMIT * own, "the steps before hid that this one breaks the limit"


def test_the_planned_look_over_the_whole_rollout_is_one() -> None:
    """Taken at the first window of the last gate that may pass, on all counts, and not again."""
    doubtful = gate([(7, 200)] * 4)
    late = at_gate(last=True, earlier=doubtful)
    monitor = CheckMonitor(late, Bounds(60.0, 120.0, 30.0))
    for window in gate([(5, 100), (5, 100)]):
        monitor.add(window)
    looked = monitor.result(END).statistics
    assert looked is not None
    assert (looked.ticket_used, looked.n) == (True, 1000)
    for window in gate([(0, 0), (0, 0), (0, 100), (0, 100)])[2:]:
        monitor.add(window)
    again = monitor.result(END)
    assert again.ci_lower is not None
    assert again.ci_lower > 0.95, "a second look would have passed it"
    assert again.status is CheckStatus.BELOW_THRESHOLD


def test_early_good_steps_hide_no_bad_one() -> None:
    """A last step at twice the limit after 2,000 clean requests: nearly always hidden where the step's own ratio does
    not count, and about once in a hundred with it (R2: 95 % and 1 %)."""
    rng = np.random.default_rng(8)
    clean = gate([(0, 500)] * 4)
    joined = judging.task(
        judging.check(limit={"maxBadRatio": LIMIT}), prior=(Prior(clean, ticket_used=False),)
    )
    pooled = at_gate(last=True, earlier=clean)
    hidden = {"joined": 0, "pooled": 0}
    for _ in range(150):
        now = gate([(int(bad), 50) for bad in rng.binomial(50, 2 * LIMIT, size=4)])
        hidden["joined"] += result(joined, now).status is CheckStatus.PASS
        hidden["pooled"] += result(pooled, now).status is CheckStatus.PASS
    assert hidden["joined"] / 150 > 0.9
    assert hidden["pooled"] / 150 <= 0.03


def test_a_retry_after_a_failed_look_passes_by_evidence_alone() -> None:
    """The second attempt's counts would pass by the Wilson bound from its first window on; fifty to one comes later."""
    first = Prior(tuple(judging.windows(40, (1, 20))), ticket_used=True)
    task = judging.task(prior=(first,))
    monitor = CheckMonitor(task, judging.BOUNDS)
    passed_at = wilson_at = None
    for window in judging.windows(40, (0, 60)):
        monitor.add(window)
        end = judging.BOUNDS.end_of(window.index)
        found = monitor.result(judging.at(end))
        assert found.statistics is not None
        if wilson_at is None and end >= judging.DURATION and (found.ci_lower or 0) >= 0.95:
            wilson_at = window.index
        if passed_at is None and found.status is CheckStatus.PASS:
            passed_at, odds = window.index, found.statistics.log_e_pass
    assert wilson_at is not None
    assert passed_at is not None
    assert odds is not None
    assert odds >= task.terms.log_e_pass
    fresh = Prior(first.windows, ticket_used=False)
    kept = judging.judged(judging.task(prior=(fresh,)), judging.windows(wilson_at + 1, (0, 60)))
    assert kept.status is CheckStatus.PASS, "with its look unspent it passes there"


def test_a_retry_that_only_a_second_look_would_pass_stays_held() -> None:
    """30 of 1,000: the Wilson bound is above 95 %, the evidence is not fifty to one."""
    seen = (*judging.windows(30, (1, 20)), *judging.windows(10, (0, 20), start=30))
    now = judging.windows(40, (0, 5))
    fresh = judging.judged(judging.task(prior=(Prior(seen, ticket_used=False),)), now)
    assert fresh.status is CheckStatus.PASS
    again = judging.judged(judging.task(prior=(Prior(seen, ticket_used=True),)), now)
    assert again.ci_lower is not None
    assert again.ci_lower >= 0.95
    assert (again.status, again.reason) == (CheckStatus.BELOW_THRESHOLD, Reason.BELOW_THRESHOLD)


async def test_the_last_gate_is_told_of_the_runs_before_it_over_all_attempts() -> None:
    """Two gates; the second is held once and tried again."""

    def judge(world: World, raw: Object) -> str | None:
        name = raw["metadata"]["name"]
        reference = {"configMap": f"{name}-0", "digest": "sha256:" + "e" * 64}
        world.api.patch(
            OPERATOR, GATE_RUNS, NAMESPACE, name, {"status": {"evidence": reference}}, subresource="status"
        )
        return "HOLD" if (raw["spec"]["step"], raw["spec"]["attempt"]) == ("3", 1) else "PROMOTE"

    world = World()
    world.furnish(objects.rollout(bake=None))
    asked(world, POOLED)
    process = Process(world)
    await run(process, Course())
    world.push("v2")
    await run(process, Course(judge=judge, people=deciding("Retry"), over=at_rest))
    found = {
        (raw["spec"]["step"], raw["spec"]["attempt"]): raw["spec"]
        for raw in world.api.all(GATE_RUNS, NAMESPACE)
    }
    names = {key: f"{NAME}-{spec['revision']}-{key[0]}-{key[1]}" for key, spec in found.items()}
    assert set(found) == {("1", 1), ("3", 1), ("3", 2)}
    early, held, again = found["1", 1], found["3", 1], found["3", 2]
    assert (early["lastGate"], early["earlierRuns"]) == (False, [])
    assert (held["lastGate"], held["earlierRuns"]) == (True, [names["1", 1]])
    assert (again["lastGate"], again["earlierRuns"]) == (True, [names["1", 1]])
    assert again["pooledFrom"] == [names["3", 1]]
    assert early["eProcesses"] == 3, "two gates, and the one that runs over the rollout"


async def test_a_pooled_check_that_no_later_gate_judges_has_to_pass_where_it_is_judged_last() -> None:
    steps = [
        {"setWeight": 25},
        {"gate": objects.GATE},
        {"setWeight": 50},
        {"gate": {**objects.GATE, "checks": ["other"]}},
    ]
    world = World()
    world.furnish(objects.rollout(steps, bake=None))
    asked(world, POOLED, judging.check("other"))
    process = Process(world)
    await run(process, Course())
    world.push("v2")
    await run(process, Course())
    found = {raw["spec"]["step"]: raw["spec"]["lastGate"] for raw in world.api.all(GATE_RUNS, NAMESPACE)}
    assert found == {"1": True, "3": True}
