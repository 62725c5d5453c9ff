"""What a run goes on with of earlier runs: their windows where those are kept, the ledger's counts where they are not."""

from typing import Any

from gatewright_analysis.evidence.model import Clock, Counts, Window
from gatewright_analysis.evidence.packed import encode
from gatewright_analysis.evidence.record import CheckRecord, RunRecord
from gatewright_analysis.kinds.contract import Stage
from gatewright_analysis.ledger import Drawn, draw_key
from gatewright_analysis.task import Prior
from gatewright_analysis.verdict import CheckStatus
from gatewright_operator.evidence_store import manifest
from gatewright_operator.pooling import Stored
from tests import judging
from tests.unit.test_draws import ARTIFACT, DIGEST, WORLD, memory, result, spec, verdict

NEW = "2222222222"


def windows(bad: int, n: int) -> tuple[Window, ...]:
    return (Window(0, Counts(n - bad, bad)),)


def stored(*kept: tuple[str, tuple[Window, ...]], step: str = "1", revision: str = NEW) -> Stored:
    """Runs of one step that left these windows of the check `faithfulness`."""
    runs: dict[str, Any] = {}
    for name, seen in kept:
        record = RunRecord(
            run=name,
            stage="Canary",
            clock=Clock(600.0, 600.0, 1200.0, 30.0),
            e_processes=1,
            has_stable=True,
            last_gate=True,
            on_inconclusive="Hold",
            checks={"faithfulness": CheckRecord(windows=seen)},
        )
        raw, digest = encode(record)
        checks = [{"id": "faithfulness", "statistics": {"ticketUsed": True}}]
        run = {
            "spec": {"step": step, "revision": revision},
            "status": {"verdict": {"checks": checks}},
        }
        runs[name] = (run, manifest(f"{name}-0", "shop", "checkout", {}, raw, digest))
    return Stored(runs)


def drawn(*results: dict[str, Any]) -> Drawn:
    given = (verdict(f"run-{n}", found, attempt=n) for n, found in enumerate(results, start=1))
    found = memory(*given).draws.on(draw_key("faithfulness", ARTIFACT, DIGEST, WORLD), tuple(Stage))
    assert found is not None
    return found


def total(priors: tuple[Prior, ...] | None) -> tuple[int, int]:
    """(good, bad) of all windows."""
    assert priors is not None
    counts = [w.canary for prior in priors for w in prior.windows]
    return sum(c.good for c in counts), sum(c.bad for c in counts)


def test_each_draws_windows_are_added_up_and_its_look_is_spent() -> None:
    kept = stored(("run-1", windows(10, 100)), ("run-2", windows(8, 120)))
    priors = kept.draws(spec(), "faithfulness", drawn(result(), result()))
    assert priors is not None
    assert [prior.ticket_used for prior in priors] == [True, True]
    assert total(priors) == (202, 18)


def test_an_attempt_that_spent_nothing_counts_where_it_was_at_this_step() -> None:
    kept = stored(("run-1", windows(10, 100)), ("run-9", windows(1, 30)))
    assert total(kept.draws(spec(), "faithfulness", drawn(result()))) == (119, 11)
    elsewhere = Stored({**kept.runs, **stored(("run-9", windows(1, 30)), step="3").runs})
    assert total(elsewhere.draws(spec(), "faithfulness", drawn(result()))) == (90, 10)


def test_evidence_that_went_with_its_rollout_is_counted_as_the_ledger_has_it() -> None:
    """The last draw's counts hold those of the draws before it, whether or not their windows are kept."""
    first, second = (
        result(),
        result(statistics={"s": 360, "f": 40, "n": 400, "missing": 3, "ticketUsed": True}),
    )
    kept = stored(("run-1", windows(20, 200)))
    priors = kept.draws(spec(), "faithfulness", drawn(first, second))
    assert total(priors) == (360, 40)
    assert priors is not None
    assert [(p.ticket_used, p.windows[0].missing) for p in priors] == [(True, 3)]


def test_repeated_items_and_scores_are_not_told_by_counts() -> None:
    for lost in ({"clusters": 40}, {"total": 171.5}):
        found = drawn(result(statistics={"s": 180, "f": 20, "n": 200, "ticketUsed": True, **lost}))
        assert stored().draws(spec(), "faithfulness", found) is None, lost
        kept = stored(("run-1", windows(20, 200)))
        assert total(kept.draws(spec(), "faithfulness", found)) == (180, 20)


def test_a_counted_check_pools_the_attempts_of_its_own_step_and_version_alone() -> None:
    here = stored(("run-1", windows(1, 50)))
    other_step = stored(("run-2", windows(2, 50)), step="3")
    other_version = stored(("run-3", windows(3, 50)), revision="3333333333")
    kept = Stored({**here.runs, **other_step.runs, **other_version.runs})
    assert total(kept.attempts(spec(), "faithfulness")) == (49, 1)
    assert kept.attempts(spec(), "other")[0].windows == ()


def test_samples_that_are_ordered_pass_by_evidence_over_all_of_them_alone() -> None:
    """385 of 410 together: enough for a second look, not for fifty to one."""
    found = drawn(result(statistics={"s": 225, "f": 25, "n": 250, "ticketUsed": True}))
    priors = stored().draws(spec(), "faithfulness", found)
    assert priors is not None
    more = judging.windows(20, (0, 8))
    held = judging.judged(judging.task(judging.sampled(), prior=priors), more)
    assert held.ci_lower is not None
    assert held.ci_lower >= 0.9
    assert held.status is not CheckStatus.PASS
    passed = judging.judged(judging.task(judging.sampled(), prior=priors), judging.windows(20, (0, 20)))
    assert passed.status is CheckStatus.PASS
