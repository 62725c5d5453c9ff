"""What evidence is, once it has been read: integer counts of closed windows, scrape-wide ticks, facts about pods, faults.

All times are seconds after t0 of the gate (a float; negative before it), so that nothing here knows a clock.
"""

from dataclasses import dataclass
from enum import Enum, auto

from gatewright_analysis.reasons import Reason

_SHOWN = 120
"""Characters of a judge's name in sentences."""


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
class Cluster:
    """Samples that hang together: repeats of one item, turns of one conversation."""

    key: str
    """Tells it from others; the same in every window and attempt."""
    good: int
    bad: int
    missing: int = 0


@dataclass(frozen=True, slots=True)
class JudgeIdentity:
    """What gave the verdicts on sampled items, by its own word. Without an id: the result file names none."""

    id: str = ""
    version: str = ""
    fingerprint: str = ""

    def __str__(self) -> str:
        """`judge-x 3 (fp_81a4)`, in characters that can be shown."""
        said = " ".join(part for part in (self.id, self.version) if part) or "no named judge"
        whole = f"{said} ({self.fingerprint})" if self.fingerprint else said
        shown = "".join(char if char.isprintable() else "?" for char in whole)
        return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"


@dataclass(frozen=True, slots=True)
class Window:
    """A closed window (t0 + k·w, t0 + (k+1)·w]: the same for both arms. With a fault, its counts do not count.

    What else a kind of evidence has to say stands beside the counts: `clusters` (of which `canary` and `missing` are
    the sums) for samples that hang together, `scores` (each in [0, 1]; `canary` is empty, and `clusters` say whose they
    are) for scores, `value` for a gauge.
    """

    index: int
    canary: Counts
    stable: Counts | None = None
    missing: int = 0
    """Canary events without a usable verdict (sampled checks)."""
    fault: Fault | None = None
    resets: int = 0
    clusters: tuple[Cluster, ...] = ()
    scores: tuple[float, ...] = ()
    value: float | None = None


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


class JobPhase(Enum):
    """How far a Job has come."""

    WAITING = auto()
    RUNNING = auto()
    SUCCEEDED = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What a check's Job has come to (evidence kind `job`)."""

    name: str
    phase: JobPhase
    exit_code: int | None = None
    """Of the container that failed; None while none has."""
    good: int | None = None
    bad: int | None = None
    """What it reported; None where it reported nothing that can be read."""
    trouble: Fault | None = None
    """Why it says nothing of the version: no room, no image, evicted, out of time, an unreadable report."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Where a look stands: seconds after t0, and the gate's bounds in seconds."""

    now: float
    duration: float
    max_duration: float
    window: float
