"""Sums of increments per window and per tick, for each arm."""

import math
from dataclasses import dataclass, field

from gatewright_analysis.evidence.model import Counts, Fault
from gatewright_analysis.evidence.streams import ArmName, Part, Stream
from gatewright_analysis.evidence.targets import Reading
from gatewright_analysis.reasons import Reason


@dataclass(slots=True)
class ArmSum:
    """Events of one arm: `part` are the bad or the good ones, whichever the evidence counts."""

    total: int = 0
    part: int = 0

    def counts(self, part: Part) -> Counts | None:
        """Good and bad events; None when the part is larger than the total, which no true count is."""
        if self.part > self.total:
            return None
        rest = self.total - self.part
        return Counts(good=rest, bad=self.part) if part is Part.BAD else Counts(good=self.part, bad=rest)


@dataclass(slots=True)
class Sum:
    """One window or one tick."""

    arms: dict[ArmName, ArmSum] = field(default_factory=lambda: {arm: ArmSum() for arm in ArmName})
    resets: int = 0
    fault: Fault | None = None
    """The first sample that could not be counted, or the first hole: the same whatever order they are added
    in.
    """
    fault_at: float = math.inf

    def add(self, reading: Reading, stream: Stream) -> None:
        arm = self.arms[stream.arm]
        if stream.part is Part.TOTAL:
            arm.total += reading.amount
        elif stream.part is Part.NATIVE:
            arm.total += reading.amount
            arm.part += reading.good
        else:
            arm.part += reading.amount
        self.resets += reading.reset
        fault = _reading_fault(reading)
        if fault is None:
            return
        earlier = (reading.at, fault.detail) < (
            self.fault_at,
            "" if self.fault is None else self.fault.detail,
        )
        if self.fault is None or earlier:
            self.fault, self.fault_at = fault, reading.at

    def copy(self) -> "Sum":
        return Sum(
            {arm: ArmSum(own.total, own.part) for arm, own in self.arms.items()},
            self.resets,
            self.fault,
            self.fault_at,
        )


def _reading_fault(reading: Reading) -> Fault | None:
    if reading.fault is not None:
        return reading.fault
    if reading.gap_since is not None:
        seconds = reading.at - reading.gap_since
        return Fault(
            Reason.SCRAPE_GAP, f"a target was not scraped for {seconds:.1f} s, so its events can't be placed"
        )
    return None
