"""Whether the numbers of a check can be used: series for each arm, no overlap, labels that exist, buckets, no
holes.

Each rule is a small predicate that returns the fault or None; the first that applies is the reason that is
shown.
"""

from collections.abc import Mapping

from gatewright_analysis.evidence.buckets import is_boundary, resolution_fault, without_bucket
from gatewright_analysis.evidence.model import Counts, Fault
from gatewright_analysis.evidence.promql import Selector
from gatewright_analysis.evidence.question import Answered, Labels
from gatewright_analysis.evidence.streams import ArmName, Part, Stream
from gatewright_analysis.evidence.tally import Sum
from gatewright_analysis.evidence.targets import Reading
from gatewright_analysis.evidence.windows import Grid
from gatewright_analysis.reasons import Reason


class Soundness:
    """What has been seen of the series so far, and the rules over it."""

    def __init__(
        self, streams: list[Stream], expected: tuple[ArmName, ...], grid: Grid, le: float | None
    ) -> None:
        """`expected` are the arms that get traffic; `le` is the bucket boundary of a latency check."""
        self._streams = streams
        self._expected = expected
        self._grid = grid
        self._le = le
        self._last: dict[ArmName, float] = {}
        self._confused: Fault | None = _same_question(streams)
        self._boundaries: dict[ArmName, frozenset[str]] = {}
        self._inside_a_bucket: Fault | None = None

    def read(self, reading: Reading) -> None:
        """Note a sample that has been read for good."""
        stream = self._streams[reading.counter.stream]
        if stream.part.tells_all:
            self._last[stream.arm] = max(self._last.get(stream.arm, reading.at), reading.at)
        if reading.fault is not None and reading.fault.reason is Reason.BUCKET_RESOLUTION:
            # A bucket that le divides is never empty again, but by a new start: no window can be told from here on.
            self._inside_a_bucket = self._inside_a_bucket or reading.fault
        if reading.counter.labels not in stream.seen:
            stream.seen[reading.counter.labels] = reading.at
            self._confused = self._confused or self._seen_twice(stream, reading.counter.labels)

    def fault_of_window(self, end: float, own: Sum, counts: Mapping[ArmName, Counts | None]) -> Fault | None:
        """Why the window that ends at `end` (Unix seconds) can't be used. Call when nothing later has been
        read.
        """
        return (
            self.fault_for_all()
            or self._silent(end)
            or own.fault
            or next((self._more_than_all(arm) for arm in self._expected if counts[arm] is None), None)
        )

    def fault_for_all(self) -> Fault | None:
        """Why nothing can be used as things stand, whatever the window."""
        return self._confused or self._arm_without_series() or self._label_absent() or self._no_bucket()

    def fault_now(self, now: float, newest: Mapping[ArmName, float]) -> Fault | None:
        """Why nothing can be used at a look; `newest` is the time of each arm's newest sample, settled or
        not.
        """
        stale = next(
            (arm for arm in self._expected if arm in newest and newest[arm] < now - self._grid.gap), None
        )
        if stale is not None:
            age = now - newest[stale]
            return self._confused or Fault(
                Reason.STALE, f"the newest sample of {stale} is {age:.0f} s old: is it still scraped?"
            )
        if all(arm in newest for arm in self._expected) and not all(
            arm in self._last for arm in self._expected
        ):
            return self._confused  # its first samples are there, they only wait to be read for good
        return self.fault_for_all()

    def listings(self) -> tuple[tuple[ArmName, Selector], ...]:
        """Selectors of all buckets, for the arms where the boundary was not found."""
        return tuple(
            (arm, _all_buckets(stream))
            for arm in self._unresolved()
            if arm not in self._boundaries
            for stream in self._of(arm, Part.GOOD)
        )

    def listed(self, arm: ArmName, answer: Answered) -> None:
        """The answer to a listing."""
        self._boundaries[arm] = frozenset(text for series in answer.series if (text := series.label("le")))

    def needs_listing(self) -> bool:
        """True while a window must wait to name the boundaries that there are."""
        return bool(self.listings())

    def _of(self, arm: ArmName, part: Part) -> list[Stream]:
        return [stream for stream in self._streams if stream.arm is arm and stream.part is part]

    def _seen_twice(self, stream: Stream, labels: Labels) -> Fault | None:
        for other in self._streams:
            if other is stream or other.part is not stream.part or labels not in other.seen:
                continue
            if other.arm is not stream.arm:
                return Fault(
                    Reason.ARMS_NOT_SEPARABLE,
                    "one series belongs to canary and to stable: the source's arms label does not tell them apart",
                )
            return Fault(
                Reason.UNEXPECTED_SERIES,
                f"two selectors of {stream.part} match the same series, which would be counted twice",
            )
        return None

    def _arm_without_series(self) -> Fault | None:
        there = {stream.arm for stream in self._streams if stream.part.tells_all and stream.seen}
        missing = next((arm for arm in self._expected if arm not in there), None)
        if missing is None:
            return None
        asked = [s.written.render() for s in self._streams if s.arm is missing and s.part.tells_all]
        names = (" and " if self._le is None else " or ").join(asked)
        if there:
            return Fault(
                Reason.ARMS_NOT_SEPARABLE,
                f"{missing} should have traffic, but {names} has no series for it, only for the other arm",
            )
        return Fault(
            Reason.NO_DATA, f"{names} has no series for {missing}: check its name, and that it is scraped"
        )

    def _label_absent(self) -> Fault | None:
        """No series of the part means 0 only where it is sure that there would be one (DESIGN, `counts`)."""
        for stream in self._streams:
            if stream.part is Part.TOTAL or self._le is not None or stream.arm not in self._expected:
                continue
            twins = [other for other in self._streams if other.written == stream.written]
            if any(twin.seen and twin.part is stream.part for twin in twins):
                continue
            required = stream.written.required_labels
            totals = [
                {name for name, _ in labels}
                for total in self._streams
                if total.part is Part.TOTAL and total.written.metric == stream.written.metric
                for labels in total.seen
            ]
            if any(required <= names for names in totals):
                continue
            return Fault(
                Reason.TOTAL_WITHOUT_BAD_LABEL,
                f"{stream.written.render()} has no series, and nothing shows that it would have: no series of "
                f"`total` with the same metric carries {', '.join(sorted(required)) or 'its name'}",
            )
        return None

    def _unresolved(self) -> list[ArmName]:
        """Arms with a histogram whose count has a series without the bucket."""
        if self._le is None:
            return []
        le = self._le
        return [
            arm
            for arm in ArmName
            if not {without_bucket(labels) for total in self._of(arm, Part.TOTAL) for labels in total.seen}
            <= {
                without_bucket(labels)
                for good in self._of(arm, Part.GOOD)
                for labels in good.seen
                if is_boundary(dict(labels).get("le"), le)
            }
        ]

    def _no_bucket(self) -> Fault | None:
        if self._inside_a_bucket is not None:
            return self._inside_a_bucket
        for arm in self._unresolved():
            return resolution_fault(self._le or 0.0, self._boundaries.get(arm, ()))
        return None

    def _silent(self, end: float) -> Fault | None:
        for arm in self._expected:
            if self._last.get(arm, end) <= end - self._grid.gap:
                return Fault(
                    Reason.SCRAPE_GAP,
                    f"no target of {arm} was scraped in the last two scrape intervals of the window",
                )
        return None

    def _more_than_all(self, arm: ArmName) -> Fault:
        part = next(stream.part for stream in self._streams if stream.part is not Part.TOTAL)
        return Fault(
            Reason.NOT_A_COUNTER,
            f"{arm} has more {part} events than events in all: `{part}` must count a part of what `total` counts",
        )


def _same_question(streams: list[Stream]) -> Fault | None:
    """Arms that are asked for by the same selector can't be told apart, whatever comes back."""
    asked = [
        {stream.selector for stream in streams if stream.arm is arm and stream.part is Part.TOTAL}
        for arm in ArmName
    ]
    if asked[0] & asked[1]:
        return Fault(
            Reason.ARMS_NOT_SEPARABLE,
            "canary and stable have the same name where the source tells them apart: use a source that "
            "tells arms apart by PodName or PodLabel",
        )
    return None


def _all_buckets(stream: Stream) -> Selector:
    return Selector(stream.selector.metric, tuple(m for m in stream.selector.matchers if m.label != "le"))
