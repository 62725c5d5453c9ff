"""How much more the windows of one arm differ than independent requests would (statistics.md 7.2)."""


class Dispersion:
    """φ over closed windows, as a fold: φ = max(1, (X² + 2·3) / (windows + 1)), X² = Σ (e − m·p̂)² /
    (m·p̂·(1−p̂)).

    It starts at 3 with the weight of two windows, because the first windows say nothing about bursts. Windows
    without requests say nothing either and don't count. A measured heuristic, no theorem: counts divided by φ
    go into E⁻.
    """

    __slots__ = ("_bad", "_n", "_squares", "_windows")

    def __init__(self) -> None:
        self._windows = 0
        self._bad = 0
        self._n = 0
        self._squares = 0.0

    def add(self, bad: int, n: int) -> None:
        """One closed window: `bad` of `n` events."""
        if n == 0:
            return
        self._windows += 1
        self._bad += bad
        self._n += n
        self._squares += bad * bad / n

    @property
    def phi(self) -> float:
        """≥ 1; X² is 0 while nothing or everything was bad."""
        chi_squared = 0.0
        if 0 < self._bad < self._n:
            share = self._bad / self._n
            # Σ(e − m·p̂)²/m = Σe²/m − p̂·Σe, because p̂ = Σe/Σm: the fold needs no list of windows.
            chi_squared = max(0.0, self._squares - share * self._bad) / (share * (1 - share))
        return max(1.0, (chi_squared + 6.0) / (self._windows + 1))
