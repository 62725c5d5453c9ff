"""What a contract's `confidence` means: the z of the planned look, and how much the looks before it may err.

`confidence` is two-sided, 0.90 … 0.999; a candidate at its threshold is promoted with probability < 1 − confidence,
however often one looks. That is spent on two things: the one Wilson look, and the e-value at all other looks
(P(E ever ≥ 1/α_e) ≤ α_e, statistics.md 4.1). At 0.95 it is R2: α_e = 0.02 (E ≥ 50), and 0.01 (E ≥ 100) below
t = 0.8; elsewhere α_e = 0.2·(1 − confidence).

The exact error of the Wilson look, as a share of 1 − confidence, at its worst n ≥ 40 (and n ≥ n_min):

    confidence   at t = .5, .7, .8, .85, .9, .95, .98, .99, .995              worst of all t ≥ .5
    0.90         .632 .608 .621 .636 .678 .694 .681 .676 .671                 .730
    0.95         .660 .623 .574 .559 .528 .511 .504 .502 .502                 .697, and .596 from .8 on
    0.975        .663 .560 .515 .501 .499 .497 .494 .491 .486                 .710
    0.99         .686 .515 .499 .497 .495 .490 .482 .474 .462                 .718
    0.999        .654 .497 .491 .487 .480 .467 .444 .420 .386                 .689

So the union is at most 0.93·(1 − confidence), and 4.98 % at 0.95 from t = .8 on. Nothing is claimed below t = .5.

At the default these odds pass nothing that Wilson would not, elsewhere from `least_samples(t, z)` samples on, with this
z: a contract's own `minSamples` must not go under it. The one exception found is a family at 0.999 (281 of 282 at
t = .95), so whoever judges at another confidence asks Wilson too before an early pass; that can only lower the error.

`family` (`errorBudget: family`) divides by three, for three distinct artifacts under one contract (section 8): at
0.95 z = 2.394, E ≥ 120, and E ≥ 300 below t = 0.8. One artifact then errs with at most 0.83 + 0.84 %, and one of three
with at most 4.9 %; the exact walk over the looks finds at most 3.5 %, because the two parts overlap.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from gatewright_analysis.statistics.errors import NoConclusion
from gatewright_analysis.statistics.wilson import Z95

LEAST: Final = 0.90
MOST: Final = 0.999
FAMILY: Final = 3
"""Artifacts that share one error budget."""
_INTERIM_SHARE = 0.2
_DEFAULT = 0.95
_HIGH_THRESHOLD = 0.8
"""From here on Wilson's error is at most 2.98 % at 0.95, which leaves twice as much to the other looks."""


@dataclass(frozen=True, slots=True)
class Confidence:
    """A `confidence`, and whether three artifacts share its error budget.

    Raises NoConclusion outside 0.90 … 0.999.
    """

    stated: float = _DEFAULT
    family: bool = False

    def __post_init__(self) -> None:
        if not LEAST <= self.stated <= MOST:
            raise NoConclusion(f"confidence must lie between {LEAST} and {MOST}, not {self.stated!r}.")

    @property
    def level(self) -> float:
        """The two-sided confidence of one artifact's intervals."""
        return 1.0 - (1.0 - self.stated) / FAMILY if self.family else self.stated

    @property
    def z(self) -> float:
        """The normal quantile of the planned look."""
        # The constant differs from what the standard library computes in the last digit, and stands in old verdicts.
        return Z95 if self.level == _DEFAULT else NormalDist().inv_cdf((1.0 + self.level) / 2.0)

    def odds(self, threshold: float) -> float:
        """What E⁺ (and a sampled check's E⁻) must reach at an interim look."""
        high = threshold >= _HIGH_THRESHOLD
        if self.stated == _DEFAULT:
            if self.family:
                return 120.0 if high else 300.0
            return 50.0 if high else 100.0
        return (FAMILY if self.family else 1) / (_INTERIM_SHARE * (1.0 - self.stated))

    def log_e(self, threshold: float) -> float:
        """The natural logarithm of `odds`."""
        return math.log(self.odds(threshold))
