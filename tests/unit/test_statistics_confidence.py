"""What a contract's confidence buys: z, odds, and the sum of their errors (statistics.md R2, section 8)."""

import math

import numpy as np
import pytest
from scipy.special import betainc

from gatewright_analysis.statistics.confidence import Confidence
from gatewright_analysis.statistics.errors import NoConclusion
from gatewright_analysis.statistics.wilson import Z95, least_samples

THRESHOLDS = (0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995)


def test_the_default_is_that_of_the_page() -> None:
    default = Confidence()
    assert default.z == Z95
    assert [default.odds(t) for t in (0.5, 0.79, 0.8, 0.99)] == [100, 100, 50, 50]
    assert default.log_e(0.9) == math.log(50)


@pytest.mark.parametrize(
    ("stated", "z", "odds"),
    [(0.9, 1.644854, 50), (0.975, 2.241403, 200), (0.99, 2.575829, 500), (0.999, 3.290527, 5000)],
)
def test_elsewhere_a_fifth_of_the_error_goes_to_the_interim_looks(
    stated: float, z: float, odds: float
) -> None:
    confidence = Confidence(stated)
    assert confidence.level == stated
    assert confidence.z == pytest.approx(z, abs=1e-6)
    assert [confidence.odds(t) for t in (0.5, 0.9)] == pytest.approx([odds, odds])


def test_a_family_of_three_shares_the_error() -> None:
    family = Confidence(family=True)
    assert family.level == pytest.approx(1 - 0.05 / 3)
    assert family.z == pytest.approx(2.394, abs=1e-4)
    assert [family.odds(t) for t in (0.7, 0.8, 0.99)] == [300, 120, 120]
    assert Confidence(0.99, family=True).odds(0.9) == pytest.approx(1500)
    n_min = [least_samples(t, family.z) for t in (0.8, 0.9, 0.95, 0.99)]
    assert n_min == [23, 52, 109, 568], "section 8"


@pytest.mark.parametrize("stated", [0.0, 0.5, 0.8999, 0.9991, 1.0, math.nan])
def test_a_confidence_out_of_range_is_refused(stated: float) -> None:
    with pytest.raises(NoConclusion, match=r"between 0\.9 and 0\.999"):
        Confidence(stated)


def _wilson_error(threshold: float, z: float, largest: int = 60_000) -> float:
    """P(pass) at the threshold, at the worst n ≥ max(40, n_min), exact."""
    n = np.arange(max(40, least_samples(threshold, z)), largest)
    critical = np.ceil(n * threshold + z * np.sqrt(n * threshold * (1 - threshold)))
    possible = critical <= n
    return float(
        np.where(possible, betainc(critical, np.where(possible, n - critical + 1, 1), threshold), 0).max()
    )


TABLE = {
    0.90: (0.632, 0.608, 0.621, 0.636, 0.678, 0.694, 0.681, 0.676, 0.671),
    0.95: (0.660, 0.623, 0.574, 0.559, 0.528, 0.511, 0.504, 0.502, 0.502),
    0.975: (0.663, 0.560, 0.515, 0.501, 0.499, 0.497, 0.494, 0.491, 0.486),
    0.99: (0.686, 0.515, 0.499, 0.497, 0.495, 0.490, 0.482, 0.474, 0.462),
    0.999: (0.654, 0.497, 0.491, 0.487, 0.480, 0.467, 0.444, 0.420, 0.386),
}
"""The table of the module's docstring."""


@pytest.mark.parametrize("stated", sorted(TABLE))
def test_the_planned_look_and_all_others_together_err_less_than_promised(stated: float) -> None:
    confidence = Confidence(stated)
    for threshold, share in zip(THRESHOLDS, TABLE[stated], strict=True):
        error = _wilson_error(threshold, confidence.z)
        assert error / (1 - stated) == pytest.approx(share, abs=0.00051), threshold
        assert error + 1 / confidence.odds(threshold) < 1 - stated, threshold


def test_three_artifacts_of_a_family_err_less_than_promised_together() -> None:
    family = Confidence(family=True)
    for threshold in THRESHOLDS:
        one = _wilson_error(threshold, family.z) + 1 / family.odds(threshold)
        assert 1 - (1 - one) ** 3 < 0.05, threshold


@pytest.mark.parametrize(
    ("stated", "lowest", "worst"),
    [
        (0.9, 0.5, 0.730),
        (0.95, 0.5, 0.697),
        (0.95, 0.8, 0.596),
        (0.975, 0.5, 0.710),
        (0.99, 0.5, 0.718),
        (0.999, 0.5, 0.689),
    ],
)
def test_the_worst_of_all_thresholds_is_that_of_the_docstring(
    stated: float, lowest: float, worst: float
) -> None:
    """The error peaks where the critical count jumps: at t = L(k, n). The peak is at small n."""
    z, found = Confidence(stated).z, 0.0
    for n in range(40, 400):
        k = np.arange(n // 2, n + 1)
        share = k / n
        half = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
        low = (share + z * z / (2 * n) - half) / (1 + z * z / n)
        errors = betainc(k, n - k + 1, low)[low >= lowest]
        found = max(found, float(errors.max(initial=0.0)))
    assert found / (1 - stated) == pytest.approx(worst, abs=0.00051)
