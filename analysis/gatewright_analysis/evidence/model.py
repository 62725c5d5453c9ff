"""What evidence is, once it has been read: integer counts of closed windows, scrape-wide ticks, facts about pods, faults.

All times are seconds after t0 of the gate (a float; negative before it), so that nothing here knows a clock.
"""

from dataclasses import dataclass

from gatewright_analysis.reasons import Reason


@dataclass(frozen=True, slots=True)
class Counts:
    """Events of one arm: `good` and `bad` are integers ≥ 0."""

    good: int
    bad: int

    @property
    def n(self) -> int:
        return self.good + self.bad

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.good + other.good, self.bad + other.bad)


@dataclass(frozen=True, slots=True)
class Fault:
    """Evidence that can't be used: why (an evidence reason) and one sentence of detail without any body of an answer."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Window:
    """A closed window (t0 + k·w, t0 + (k+1)·w]: the same for both arms. With a fault, its counts do not count."""

    index: int
    canary: Counts
    stable: Counts | None = None
    missing: int = 0
    """Canary events without a usable verdict (sampled checks)."""
    fault: Fault | None = None
    resets: int = 0


@dataclass(frozen=True, slots=True)
class Tick:
    """One scrape interval, for the total-failure rule only: (end - scrape interval, end]."""

    end: float
    canary: Counts
    stable: Counts | None = None


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What the canary's pods have shown since the weight was set (evidence kind `pods`)."""

    expected: int
    ready: int
    restarts: int
    """Restarts of the chosen containers after the weight was set, summed over all pods seen, dead ones included."""
    failing: tuple[str, ...] = ()
    """Containers that exit non-zero again and again (CrashLoopBackOff), as POD/CONTAINER."""
    infrastructure: Fault | None = None
    """Unschedulable, image or quota trouble: never the version's fault, so HOLD."""
    ready_throughout: bool = True


@dataclass(frozen=True, slots=True)
class Clock:
    """Where a look stands: seconds after t0, and the gate's bounds in seconds."""

    now: float
    duration: float
    max_duration: float
    window: float
