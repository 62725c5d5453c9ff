"""M11: what a judge's verdicts mean, from how often it agreed with people (statistics.md, section 6).

A judge with sensitivity `sens` and specificity `spec` shows q = p·sens + (1 − p)(1 − spec) where the truth is p. The
engine then judges q against t', the largest rate that a truth of at most t can show.
"""

from dataclasses import dataclass

from gatewright_analysis.statistics.errors import NoConclusion, open_share, whole
from gatewright_analysis.statistics.wilson import Z95, wilson_interval


def rogan_gladen(apparent: float, sensitivity: float, specificity: float) -> float:
    """The true ratio behind an apparent one: (q + spec − 1)/(sens + spec − 1), kept within [0, 1]; for display.

    Raises NoConclusion when a figure is outside [0, 1], and when the judge is no better than a coin.
    """
    figures = {"apparent ratio": apparent, "sensitivity": sensitivity, "specificity": specificity}
    for what, value in figures.items():
        if not 0.0 <= value <= 1.0:
            raise NoConclusion(f"The {what} must lie between 0 and 1, not {value!r}.")
    _better_than_chance(sensitivity, specificity)
    return min(1.0, max(0.0, (apparent + specificity - 1.0) / (sensitivity + specificity - 1.0)))


@dataclass(frozen=True, slots=True)
class JudgeCalibration:
    """A judge against labels that people gave; raises NoConclusion on counts from which it can't be known.

    Good items that it passed (`true_pass`) and failed (`false_fail`), bad ones that it failed (`true_fail`) and
    passed (`false_pass`).
    """

    true_pass: int
    false_fail: int
    true_fail: int
    false_pass: int

    def __post_init__(self) -> None:
        for count in (self.true_pass, self.false_fail, self.true_fail, self.false_pass):
            whole(count, "A number of labelled items")
        if self.true_pass + self.false_fail == 0 or self.true_fail + self.false_pass == 0:
            raise NoConclusion(
                "A judge is calibrated on items of both kinds: label at least one good and one bad item."
            )
        _better_than_chance(self.sensitivity, self.specificity)

    @property
    def sensitivity(self) -> float:
        """The share of good items that the judge passes."""
        return self.true_pass / (self.true_pass + self.false_fail)

    @property
    def specificity(self) -> float:
        """The share of bad items that it fails."""
        return self.true_fail / (self.true_fail + self.false_pass)

    def threshold(self, threshold: float, z: float = Z95) -> float:
        """t' = t·sens_U + (1 − t)(1 − spec_L), with the Wilson limits of both; at least `threshold` of a judge that
        errs rather in the canary's favour.

        Raises NoConclusion when the labels leave it open whether the judge is better than a coin.
        """
        open_share(threshold, "The threshold")
        high = wilson_interval(self.true_pass, self.true_pass + self.false_fail, z)[1]
        low = wilson_interval(self.true_fail, self.true_fail + self.false_pass, z)[0]
        # Below, a worse candidate would look better, and t' would not be the largest rate that it can show.
        _better_than_chance(high, low)
        return threshold * high + (1.0 - threshold) * (1.0 - low)


def _better_than_chance(sensitivity: float, specificity: float) -> None:
    if sensitivity + specificity <= 1.0:
        raise NoConclusion(
            f"A judge with sensitivity {sensitivity:.3g} and specificity {specificity:.3g} is no better than a coin: "
            "calibrate it on more labelled items, or use another judge."
        )
