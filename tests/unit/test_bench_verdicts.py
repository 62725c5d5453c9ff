"""The benchmark of verdicts: its rules are the ones that it names, and the whole of it runs."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, norm

from gatewright_analysis.breach import BreachMonitor
from gatewright_analysis.evidence.model import Counts, Window
from tests.bench.verdicts import exact, ours
from tests.bench.verdicts.__main__ import PLOT, write
from tests.bench.verdicts.arrays import absolute, phi, two_arm
from tests.bench.verdicts.rules import Answers, Call, argo, flagger, kayenta, shift_z, wilson_only
from tests.bench.verdicts.traffic import CANDIDATES, KINDS, STARTS, WINDOWS, Traffic, Windows, draw

HEALTHY, ALL_FAILS = CANDIDATES[0], CANDIDATES[-1]


def windows(*bad: int, n: int = 100, lost: tuple[int, ...] = ()) -> Windows:
    """One run: the canary's bad ones in the first windows, none after; stable has none."""
    canary = np.zeros((1, WINDOWS), dtype=np.int64)
    canary[0, : len(bad)] = bad
    size = np.full_like(canary, n)
    unread = np.zeros(canary.shape, dtype=np.bool_)
    unread[0, list(lost)] = True
    return Windows(size, canary, size, np.zeros_like(canary), unread)


def traffic(per_scrape: int, *, lost: bool = False) -> Traffic:
    n = np.full((1, len(STARTS)), per_scrape)
    return Traffic(n, n * 0, n, n * 0, np.full((1, WINDOWS), lost))


def only(answers: Answers) -> tuple[Call, float]:
    return Call(int(answers.calls[0])), float(answers.seconds[0])


def test_the_whole_benchmark_runs_and_writes_its_page_and_picture(tmp_path: Path) -> None:
    page = tmp_path / "verdict-quality.md"
    write(page, quick=True)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!-- Written by `make bench-verdicts`.")
    assert "none of these figures means anything" in text
    for kind in KINDS:
        assert f"| {kind.name} " in text
    assert "| false ROLLBACK, steady at the limit" in text
    assert f"({PLOT})" in text
    assert ElementTree.parse(tmp_path / PLOT).getroot().tag.endswith("svg")


@pytest.mark.parametrize(
    ("per_scrape", "lost"), [(0, False), (50, True)], ids=["no requests", "nothing read"]
)
def test_ours_promotes_nothing_without_evidence_and_rolls_nothing_back(per_scrape: int, lost: bool) -> None:
    assert only(ours.judge(traffic(per_scrape, lost=lost))) == (Call.HOLD, 1200.0)


def test_ours_promotes_a_flawless_canary_when_the_duration_is_over() -> None:
    assert only(ours.judge(traffic(50))) == (Call.PROMOTE, 600.0)


@pytest.mark.parametrize(("scrape", "seconds"), [(5, 15.0), (15, 45.0)])
def test_ours_rolls_a_total_failure_back_after_three_scrapes(scrape: int, seconds: float) -> None:
    found = ours.judge(draw(KINDS[0], ALL_FAILS, 3), scrape=scrape)
    assert found.calls.tolist() == [Call.ROLLBACK] * 3
    assert float(np.median(found.seconds)) == seconds


def test_the_same_traffic_is_drawn_each_time() -> None:
    first, second = (draw(KINDS[2], HEALTHY, 3).canary_bad for _ in range(2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, draw(KINDS[2], HEALTHY, 3, salt="practice").canary_bad)


@pytest.mark.parametrize(
    ("seen", "limit", "expected"),
    [
        (windows(6), 0, (Call.ROLLBACK, 30.0)),
        (windows(5), 0, (Call.PROMOTE, 600.0)),
        (windows(6, 6, 6), 3, (Call.PROMOTE, 600.0)),
        (windows(6, 6, 6, 6), 3, (Call.ROLLBACK, 120.0)),
        (windows(n=0), 3, (Call.HOLD, 30.0)),
        (windows(lost=(2, 3, 4, 5)), 3, (Call.PROMOTE, 720.0)),
        (windows(lost=(2, 3, 4, 5, 6)), 3, (Call.ROLLBACK, 210.0)),
    ],
    ids=["above", "at the limit", "three", "four", "0/0", "four errors", "five errors"],
)
def test_argo_counts_failures_pauses_on_nothing_and_aborts_on_errors_in_a_row(
    seen: Windows, limit: int, expected: tuple[Call, float]
) -> None:
    assert only(argo(seen, failure_limit=limit)) == expected


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (windows(), (Call.PROMOTE, 600.0)),
        (windows(11), (Call.PROMOTE, 660.0)),
        (windows(*[11, 0] * 5), (Call.ROLLBACK, 360.0)),
        (windows(n=0), (Call.ROLLBACK, 360.0)),
        (windows(lost=tuple(range(10))), (Call.ROLLBACK, 360.0)),
    ],
    ids=["good", "one bad check", "five bad checks", "no values", "no answer"],
)
def test_flagger_rolls_back_at_the_tick_after_the_last_failed_check(
    seen: Windows, expected: tuple[Call, float]
) -> None:
    assert only(flagger(seen, threshold=5)) == expected


def test_kayenta_judges_at_half_and_at_the_end_and_fails_without_data() -> None:
    assert only(kayenta(windows())) == (Call.PROMOTE, 600.0)
    assert only(kayenta(windows(*[10] * 20))) == (Call.ROLLBACK, 300.0)
    assert only(kayenta(windows(n=0))) == (Call.ROLLBACK, 300.0)


def test_kayentas_statistic_is_mann_whitneys() -> None:
    rng = np.random.default_rng(1)
    canary, stable = rng.integers(0, 9, (20, 12)) / 1.0, rng.integers(0, 6, (20, 11)) / 1.0
    z = shift_z(canary, stable, 0.0)
    wanted = mannwhitneyu(canary, stable, alternative="greater", method="asymptotic", axis=1).pvalue
    assert (z > 0).sum() > 10
    assert norm.sf(z)[z > 0] == pytest.approx(wanted[z > 0])


def test_wilson_alone_decides_at_the_first_window_that_it_can() -> None:
    assert only(wilson_only(windows())) == (Call.PROMOTE, 30.0)
    assert only(wilson_only(windows(20))) == (Call.ROLLBACK, 30.0)
    assert only(wilson_only(windows(n=0)))[0] is Call.HOLD


@pytest.mark.parametrize("versus_stable", [False, True])
def test_rules_over_many_runs_agree_with_the_monitor(versus_stable: bool) -> None:
    seen = draw(KINDS[3], CANDIDATES[4], 40).windows()
    arms = (seen.canary_bad, seen.canary_n, seen.stable_bad, seen.stable_n)
    by = np.maximum(phi(*arms[:2]), phi(*arms[2:]))
    if versus_stable:
        wanted = two_arm(*arms, by).any(axis=1)
    else:
        wanted = absolute(*arms[:2], 0.05, phi(*arms[:2])).any(axis=1)
    found = []
    for run in range(40):
        asked = ours.task(ours.contract(versus_stable=versus_stable), has_stable=versus_stable)
        monitor = BreachMonitor(asked, ours.BOUNDS)
        crossed = False
        for index, (bad, n, other, beside) in enumerate(
            zip(*(counts[run].tolist() for counts in arms), strict=True)
        ):
            monitor.add(Window(index, Counts(n - bad, bad), Counts(beside - other, other)))
            evidence = monitor.log_e_two_arm()
            crossed |= evidence is not None and evidence >= asked.terms.log_e_breach
        found.append(crossed if versus_stable else monitor.breach is not None)
    assert 0 < sum(found) < 40
    assert found == wanted.tolist()


def test_the_exact_walk_equals_the_published_figures() -> None:
    assert exact.wilson_error(0.8, 40, most=200) == pytest.approx(0.0298, abs=5e-5)
    assert exact.wilson_error(0.5, 40, most=200) == pytest.approx(0.0349, abs=5e-5)
    assert exact.least_breach(40, 0.01, 10) == 0.15
