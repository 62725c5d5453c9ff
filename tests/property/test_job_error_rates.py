"""How often the judge is wrong on a Job's counts, exactly, over three attempts at a step (statistics.md R2, M6)."""

from collections import defaultdict
from collections.abc import Callable

import pytest
from scipy.special import bdtr

from gatewright_analysis.evidence.model import Counts, JobFacts, JobPhase, Window
from gatewright_analysis.facts import judge_job
from gatewright_analysis.kinds.contract import Stage
from gatewright_analysis.task import CheckTask, Prior
from gatewright_analysis.verdict import CheckResult, CheckStatus
from tests import judging

END = judging.at(judging.MAX_DURATION)
NEGLIGIBLE = 1e-9
E_PROCESSES = 10
ATTEMPTS = 3


def ever(limit: float, n: int, wrong: Callable[[CheckResult], bool], *, at_most: bool) -> float:
    """P(one of three attempts is judged `wrong`) when each Job reports `n` events whose bad ratio is the limit.

    `wrong` is monotone in the bad events: true at or below some number of them (`at_most`), or at or above it.
    """
    evidence = [{"stages": ["Canary"], "job": {"cronJob": "load", "report": "Counts"}}]
    spec = judging.contract(judging.check("load", limit={"maxBadRatio": limit}, evidence=evidence))
    chance = [float(bdtr(k, n, limit) - (bdtr(k - 1, n, limit) if k else 0.0)) for k in range(n + 1)]
    before: dict[int, float] = {0: 1.0}
    found = 0.0
    for attempt in range(ATTEMPTS):
        after: defaultdict[int, float] = defaultdict(float)
        for bad_before, mass in before.items():
            window = Window(0, Counts(n * attempt - bad_before, bad_before))
            prior = (Prior((window,), ticket_used=True),) if attempt else ()
            task = CheckTask(spec.checks[0], spec, Stage.CANARY, E_PROCESSES, True, prior)

            def is_wrong(bad: int, task: CheckTask = task) -> bool:
                facts = JobFacts("load", JobPhase.SUCCEEDED, good=n - bad, bad=bad)
                return wrong(judge_job(task, facts, END))

            edge = _edge(n, is_wrong, at_most=at_most)
            for bad, own in enumerate(chance):
                if mass * own < NEGLIGIBLE:
                    continue
                if bad < edge if at_most else bad >= edge:
                    found += mass * own
                else:
                    after[bad_before + bad] += mass * own
        before = after
    return found


def _edge(n: int, is_wrong: Callable[[int], bool], *, at_most: bool) -> int:
    """The first number of bad events at which the answer changes; n + 1 where it never does."""
    low, high = 0, n + 1
    while low < high:
        middle = (low + high) // 2
        if is_wrong(middle) is at_most:
            low = middle + 1
        else:
            high = middle
    return low


@pytest.mark.parametrize(
    ("limit", "n", "expected"), [(0.1, 100, 0.0240), (0.05, 100, 0.0079), (0.01, 500, 0.0074)]
)
def test_a_version_at_the_limit_rarely_passes(limit: float, n: int, expected: float) -> None:
    passes = ever(limit, n, lambda result: result.status is CheckStatus.PASS, at_most=True)
    assert passes == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("limit", "n", "expected"), [(0.05, 100, 0.000467), (0.05, 1000, 0.000649), (0.01, 500, 0.000648)]
)
def test_a_version_at_the_limit_is_hardly_ever_sent_back(limit: float, n: int, expected: float) -> None:
    convicted = ever(limit, n, lambda result: result.breach, at_most=False)
    assert convicted == pytest.approx(expected, abs=2e-6)
    assert convicted <= 1 / (100 * E_PROCESSES)
