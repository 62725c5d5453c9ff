"""Looks on a fixed schedule, for contracts with `spending` (M9, statistics.md 4.3)."""

from gatewright_analysis.kinds.contract import Spending
from gatewright_analysis.statistics.errors import NoConclusion
from gatewright_analysis.statistics.spending import Spending as SpendingFunction
from gatewright_analysis.statistics.spending import boundaries
from gatewright_analysis.task import Terms


class Schedule:
    """A fold over the looks that were taken.

    A look is due once a further part of the planned samples is in; its limit is worked out from how many samples there
    really are, so a window that brings more than one part costs a look and no guarantee. The last look is at the
    planned samples, or at the gate's end with fewer.
    """

    def __init__(self, spending: Spending, terms: Terms) -> None:
        self._function = SpendingFunction(spending.function.value)
        self._terms = terms
        self._parts = [-(-terms.planned * part // spending.looks) for part in range(1, spending.looks + 1)]
        self._taken: list[int] = []
        self._shares: list[float] = []
        self.over = False

    def due(self, n: int, *, last: bool) -> bool:
        """Whether `n` samples are enough for a further look; at the gate's `last` window one always is."""
        if self.over:
            return False
        before = self._taken[-1] if self._taken else 0
        return n > before and (last or any(before < part <= n for part in self._parts))

    def look(self, good: int, n: int, *, last: bool) -> bool:
        """Whether `good` of `n` pass at this look."""
        self.over = last or n >= self._terms.planned
        self._taken.append(n)
        # The whole error may be spent at the last look only, also where it comes with fewer samples than planned.
        self._shares.append(1.0 if self.over else n / self._terms.planned)
        error = 1.0 - self._terms.level
        try:
            limits = boundaries(
                self._taken, self._terms.threshold, error, self._function, shares=self._shares
            )
        except NoConclusion:
            # More samples came at once than a schedule can be worked out for: no pass.
            return False
        return good >= limits.counts[-1]
