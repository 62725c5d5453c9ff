"""M8: pairs of answers to the same items (statistics.md 4.5, R4 41)."""

import math

import pytest

from gatewright_analysis.statistics.errors import NoConclusion
from gatewright_analysis.statistics.paired import Pairs


@pytest.mark.parametrize(
    ("wins", "losses", "e"), [(9, 1, 18.922108), (8, 0, 100.475454), (15, 5, 4.754081), (10, 10, 0.176197)]
)
def test_evidence_equals_the_reference(wins: int, losses: int, e: float) -> None:
    assert math.exp(Pairs(wins, losses).log_e_better()) == pytest.approx(e, abs=1e-6)
    assert math.exp(Pairs(losses, wins).log_e_worse()) == pytest.approx(e, abs=1e-6)


def test_reported_p_value_equals_the_reference() -> None:
    assert Pairs(9, 1).p_value_better() == 0.0107421875
    assert Pairs(1, 9).p_value_worse() == 0.0107421875


def test_pairs_that_agree_are_counted_and_are_no_evidence() -> None:
    pairs = Pairs.of([(True, False)] * 8 + [(True, True)] * 90 + [(False, False)] * 3 + [(False, True)])
    assert pairs == Pairs(8, 1, 93)
    assert pairs.log_e_better() == Pairs(8, 1).log_e_better()


def test_batches_add_up() -> None:
    assert Pairs(3, 1, 7) + Pairs(6, 0, 2) == Pairs(9, 1, 9)


def test_no_pairs_say_nothing() -> None:
    empty = Pairs.of([])
    assert (empty.log_e_better(), empty.log_e_worse(), empty.p_value_better()) == (0.0, 0.0, 1.0)


@pytest.mark.parametrize("counts", [(-1, 0), (0, -1), (0, 0, -1), (1.5, 0)])
def test_what_is_no_count_is_refused(counts: tuple[int, ...]) -> None:
    with pytest.raises(NoConclusion, match="whole number"):
        Pairs(*counts)
