"""M4: the interval of clustered samples (statistics.md, section 6, R4 55)."""

import pytest
from scipy.stats import t as student

from gatewright_analysis.statistics.clustered import LEAST_CLUSTERS, clustered_interval
from gatewright_analysis.statistics.errors import NoConclusion
from gatewright_analysis.statistics.wilson import wilson_interval, wilson_limits

TEN = [(good, 10) for good in (9, 10, 6, 10, 8, 10, 10, 7, 10, 10)]


def test_interval_equals_the_reference() -> None:
    found = clustered_interval(TEN)
    assert (found.share, found.clusters, found.n) == (0.9, 10, 100)
    assert found.deff == pytest.approx(2.469136, abs=1e-6)
    assert found.n_eff == pytest.approx(40.5, abs=1e-6)
    assert found.low == pytest.approx(0.745084, abs=1e-6)
    assert wilson_limits(found.share, found.n_eff)[0] == pytest.approx(0.770489, abs=1e-6), (
        "with z instead of t"
    )


def test_the_quantile_follows_the_confidence() -> None:
    found = clustered_interval(TEN, confidence=0.99)
    assert (found.low, found.high) == pytest.approx(wilson_limits(0.9, 40.5, float(student.ppf(0.995, 9))))


def test_many_clusters_of_one_are_independent_samples() -> None:
    found = clustered_interval([(1, 1)] * 1900 + [(0, 1)] * 100)
    assert 1.0 <= found.deff < 1.001
    assert (found.low, found.high) == pytest.approx(wilson_interval(1900, 2000), abs=1e-4)


def test_clusters_that_agree_more_than_chance_are_not_worth_more_than_their_samples() -> None:
    found = clustered_interval([(9, 10)] * 40)
    assert found.deff == 1.0
    assert found.n_eff == 400


@pytest.mark.parametrize("good", [0, 10])
def test_when_all_samples_are_equal_each_cluster_counts_once(good: int) -> None:
    found = clustered_interval([(good, 10)] * 40)
    assert (found.deff, found.n_eff) == (10.0, 40.0)
    assert (found.low == 0.0) == (good == 0)
    assert (found.high == 1.0) == (good == 10)


def test_clusters_that_are_all_good_or_all_bad_count_about_once() -> None:
    found = clustered_interval([(10, 10)] * 36 + [(0, 10)] * 4)
    assert found.n_eff == pytest.approx(39.0)


def test_clusters_without_samples_do_not_count() -> None:
    assert clustered_interval([*TEN, (0, 0), (0, 0)]) == clustered_interval(TEN)


@pytest.mark.parametrize("clusters", [[], [(3, 4)], [(3, 4), (0, 0)]])
def test_fewer_than_two_clusters_have_no_interval(clusters: list[tuple[int, int]]) -> None:
    with pytest.raises(NoConclusion, match="at least 2"):
        clustered_interval(clusters)


@pytest.mark.parametrize("cluster", [(-1, 3), (1.5, 3), (True, 3), (1, 3.0)])
def test_what_is_no_count_is_refused(cluster: tuple[int, int]) -> None:
    with pytest.raises(NoConclusion, match="whole number"):
        clustered_interval([(1, 2), cluster])


def test_more_good_samples_than_samples_are_refused() -> None:
    with pytest.raises(NoConclusion, match="more good samples"):
        clustered_interval([(1, 2), (5, 4)])


def test_the_least_clusters_are_those_of_the_page() -> None:
    assert LEAST_CLUSTERS == 30
