"""M8: both arms answered the same items, so only the pairs that differ say something (statistics.md 4.5).

A *win* is an item that the canary passed and stable did not, a *loss* the other way round. If neither is better, a
pair that differs is a win with probability ½: the sequential McNemar test is M2 at t = ½, valid at every look.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gatewright_analysis.statistics.errors import whole
from gatewright_analysis.statistics.evalue import log_e_fail, log_e_pass
from gatewright_analysis.statistics.exact import p_value_above


@dataclass(frozen=True, slots=True)
class Pairs:
    """Counts of pairs; raises NoConclusion on counts that are none."""

    wins: int
    losses: int
    ties: int = 0
    """Pairs that agree: shown, and no evidence either way."""

    def __post_init__(self) -> None:
        whole(self.wins, "The canary's wins")
        whole(self.losses, "The canary's losses")
        whole(self.ties, "The pairs that agree")

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool, bool]]) -> "Pairs":
        """From (canary passed, stable passed) of each item."""
        wins = losses = ties = 0
        for canary, stable in pairs:
            wins += canary and not stable
            losses += stable and not canary
            ties += canary == stable
        return cls(wins, losses, ties)

    def __add__(self, other: "Pairs") -> "Pairs":
        return Pairs(self.wins + other.wins, self.losses + other.losses, self.ties + other.ties)

    def log_e_better(self) -> float:
        """Evidence that the canary wins more than half of the pairs that differ."""
        return log_e_pass(self.wins, self.losses, 0.5)

    def log_e_worse(self) -> float:
        """Evidence that it loses more than half of them."""
        return log_e_fail(self.wins, self.losses, 0.5)

    def p_value_better(self) -> float:
        """One-sided exact p-value of a single look: for reports, not for looking again."""
        return p_value_above(self.wins, self.wins + self.losses, 0.5)

    def p_value_worse(self) -> float:
        """The other side."""
        return p_value_above(self.losses, self.wins + self.losses, 0.5)
