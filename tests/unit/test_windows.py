"""Windows and ticks follow from t0 alone."""

import pytest

from gatewright_analysis.evidence.windows import Grid

GRID = Grid(t0=1_700_000_000.0, window=30.0, scrape_interval=5.0)


@pytest.mark.parametrize(
    ("offset", "window"),
    [(-30.0, -2), (-0.001, -1), (0.0, -1), (0.001, 0), (30.0, 0), (30.001, 1), (60.0, 1)],
)
def test_a_sample_belongs_to_the_window_that_is_open_on_the_left_and_closed_on_the_right(
    offset: float, window: int
) -> None:
    assert GRID.window_at(GRID.t0 + offset) == window
    start, end = GRID.window_bounds(window)
    assert start < GRID.t0 + offset <= end


@pytest.mark.parametrize(
    ("now", "closed"), [(-100.0, 0), (0.0, 0), (34.999, 0), (35.0, 1), (64.9, 1), (65.0, 2), (335.0, 11)]
)
def test_a_window_is_usable_one_scrape_interval_after_its_end(now: float, closed: int) -> None:
    assert GRID.closed_windows(GRID.t0 + now) == closed


def test_windows_of_a_tenth_of_a_second_do_not_drift() -> None:
    grid = Grid(t0=1_700_000_000.3, window=0.3, scrape_interval=0.1)
    for index in range(10_000):
        assert grid.window_at(grid.window_bounds(index)[1]) == index


def test_ticks_are_one_scrape_interval_long_and_end_where_windows_end() -> None:
    assert GRID.tick_at(GRID.t0 + 5.0) == 0
    assert GRID.tick_at(GRID.t0 + 5.001) == 1
    assert GRID.tick_end(5) == 30.0
    assert GRID.tick_end(-1) == 0.0


def test_a_tick_of_one_second_settles_in_three_tenths() -> None:
    assert Grid(t0=0.0, window=10.0, scrape_interval=1.0).settle == pytest.approx(0.3)
    assert Grid(t0=0.0, window=60.0, scrape_interval=30.0).settle == 2.0


def test_one_missed_scrape_is_no_gap_and_two_are() -> None:
    assert GRID.gap > 2 * 5.0
    assert GRID.gap < 3 * 5.0


@pytest.mark.parametrize(("window", "interval"), [(9.9, 5.0), (5.0, 5.0)])
def test_a_window_shorter_than_two_scrapes_is_refused(window: float, interval: float) -> None:
    with pytest.raises(ValueError, match="at least two scrape intervals"):
        Grid(t0=0.0, window=window, scrape_interval=interval)


def test_a_grid_without_a_scrape_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="scrape interval above 0"):
        Grid(t0=0.0, window=10.0, scrape_interval=0.0)
