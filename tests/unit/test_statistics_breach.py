"""M5 and the deflation: the two-arm e-value against reference values, φ against its definition."""

import pytest

from gatewright_analysis.statistics.dispersion import Dispersion
from gatewright_analysis.statistics.two_arm import TwoArm


def _log_e(*windows: tuple[int, int, float]) -> float:
    arms = TwoArm(1.0)
    for canary_bad, stable_bad, share in windows:
        arms.add(canary_bad, stable_bad, share)
    return arms.log_e()


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ([(5, 5, 0.1)], 4.378088),
        ([(10, 10, 0.1)], 9.188484),
        ([(3, 27, 0.1)], -1.547181),
        ([(2, 1, 0.1), (3, 2, 0.1), (4, 1, 0.25)], 8.893044),
        ([(0, 10, 0.5)], -3.014549),
    ],
)
def test_two_arm_equals_the_reference(windows: list[tuple[int, int, float]], expected: float) -> None:
    assert _log_e(*windows) == pytest.approx(expected, abs=1e-6)


def test_two_arm_without_a_bad_event_says_nothing() -> None:
    assert _log_e((0, 0, 0.3), (0, 0, 0.5)) == pytest.approx(0.0)


def test_two_arm_does_not_depend_on_the_order_of_windows() -> None:
    windows = [(2, 1, 0.1), (3, 2, 0.1), (4, 1, 0.25), (0, 9, 0.5)]
    assert _log_e(*windows) == pytest.approx(_log_e(*reversed(windows)), abs=1e-12)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_window_in_which_one_arm_had_no_requests_compares_nothing(share: float) -> None:
    with pytest.raises(ValueError, match="both arms"):
        TwoArm(1.25).add(1, 0, share)


def test_a_single_burst_convicts_nobody_however_large() -> None:
    arms = TwoArm(1.25)
    for _ in range(10):
        arms.add(0, 1, 0.25)
    arms.add(500, 0, 0.25)
    assert arms.log_e() > 100
    assert arms.log_e_robust(1.0) <= 0.0


def test_two_equal_bursts_count_as_one() -> None:
    once, twice = TwoArm(1.25), TwoArm(1.25)
    once.add(20, 1, 0.25)
    for _ in range(2):
        twice.add(20, 1, 0.25)
    assert twice.log_e_robust(1.0) == pytest.approx(once.log_e())


def _phi(windows: list[tuple[int, int]]) -> float:
    dispersion = Dispersion()
    for bad, n in windows:
        dispersion.add(bad, n)
    return dispersion.phi


def _phi_by_definition(windows: list[tuple[int, int]]) -> float:
    share = sum(bad for bad, _ in windows) / sum(n for _, n in windows)
    squares = sum((bad - n * share) ** 2 / (n * share * (1 - share)) for bad, n in windows)
    return max(1.0, (squares + 2 * 3) / (len(windows) + 1))


@pytest.mark.parametrize(
    "windows",
    [
        [(3, 100), (9, 120), (0, 80)],
        [(50, 100), (0, 100), (0, 100), (1, 7)],
        [(1, 1000)] * 20,
    ],
)
def test_phi_of_the_fold_equals_its_definition(windows: list[tuple[int, int]]) -> None:
    assert _phi(windows) == pytest.approx(_phi_by_definition(windows), rel=1e-9)


def test_phi_starts_at_six_and_falls_with_steady_windows() -> None:
    assert _phi([]) == 6.0
    assert _phi([(0, 50)]) == 3.0
    assert _phi([(0, 50)] * 10) == 1.0


def test_phi_ignores_windows_without_requests() -> None:
    busy = [(3, 100), (9, 120)]
    assert _phi([*busy, (0, 0), (0, 0)]) == _phi(busy)


def test_phi_of_windows_that_are_all_bad_has_no_spread() -> None:
    assert _phi([(100, 100)] * 3) == pytest.approx(1.5)


def test_phi_is_never_below_one() -> None:
    assert _phi([(1, 100)] * 1000) == 1.0
