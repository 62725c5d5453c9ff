"""Numbers of one check for one run: which questions to ask at a look, and the closed windows that the answers
give.

Pure and incremental: a look asks for what is new, a fresh collector asks for everything since t0 and gets the
same windows. A window's counts and fault rest on nothing but samples up to its end, so the time of a look
changes nothing.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from gatewright_analysis.evidence.model import Counts, Fault, Tick, Window
from gatewright_analysis.evidence.question import Answered, Answers, Expect, Question
from gatewright_analysis.evidence.soundness import Soundness
from gatewright_analysis.evidence.streams import ArmName, Part, Stream, build_streams, rendered_digest
from gatewright_analysis.evidence.tally import Sum
from gatewright_analysis.evidence.targets import Targets, target_key
from gatewright_analysis.evidence.windows import Grid
from gatewright_analysis.kinds.contract import Evidence
from gatewright_analysis.kinds.run import ArmRef
from gatewright_analysis.kinds.source import MetricSourceSpec
from gatewright_analysis.reasons import Reason

MAX_CHUNKS: Final = 8
"""Questions per stream and look: a long backlog is caught up over several looks."""
FIRST_CHUNK_SCRAPES: Final = 60
CHUNK_SCRAPES: Final = (4, 7200)
ANSWER_SAMPLES: Final = (2_500, 10_000)
"""Answers outside make the next pieces twice or half as long: 10,000 samples are about 300 kB."""
MAX_TICKS: Final = 3600
"""Ticks at a time, the newest: what lies before them is left to the windows."""
LATE_SCRAPES: Final = 20
"""How late a source may store samples (remote write) and still be read."""
_EDGE: Final = 1e-6


class Collector:
    """Reads one check's evidence for one run.

    A look: `questions(now)`, answer them by any reader, `absorb(answers)`, then `windows()` and `ticks(now)`.
    All times are Unix seconds, lengths seconds; what it returns counts seconds after t0.
    """

    def __init__(
        self,
        *,
        evidence: Evidence,
        source: MetricSourceSpec,
        namespace: str,
        canary: ArmRef,
        stable: ArmRef | None,
        weight: int,
        t0: float,
        window_seconds: float,
        for_seconds: float,
    ) -> None:
        """`weight` is the canary's share in percent; `for_seconds` the contract's `totalFailure.for`.

        Raises ValueError with a sentence when a selector, the arms or the window can't be used.
        """
        if source.arms is None:
            raise ValueError(f"the MetricSource {evidence.source} holds result files and no counters")
        self._grid = Grid(t0, window_seconds, source.scrape_interval.total_seconds())
        interval = self._grid.scrape_interval
        self._start = t0 - window_seconds - 3 * interval
        self._tick_span = max(2 * for_seconds, for_seconds + window_seconds) + 3 * interval
        self._source = evidence.source or ""
        refs = {ArmName.CANARY: canary} | ({} if stable is None else {ArmName.STABLE: stable})
        self._arms = source.arms
        self._streams = build_streams(evidence, source.arms, refs, namespace, self._start)
        self._part = next(stream.part for stream in self._streams if stream.part is not Part.TOTAL)
        self._has_stable = stable is not None
        expected = [ArmName.CANARY] if weight > 0 else []
        expected += [ArmName.STABLE] if stable is not None and weight < 100 else []
        le = None if evidence.latency is None else evidence.latency.le
        self._sound = Soundness(self._streams, tuple(expected), self._grid, le)
        self._targets = Targets(self._grid, self._start, le)
        self._newest: dict[ArmName, float] = {}
        self._window_sums: defaultdict[int, Sum] = defaultdict(Sum)
        self._tick_sums: defaultdict[int, Sum] = defaultdict(Sum)
        self._next_window = 0
        self._closed: list[Window] = []
        self._asked: dict[Question, tuple[int, ...]] = {}
        self._listing: dict[Question, ArmName] = {}
        self._chunk_scrapes = FIRST_CHUNK_SCRAPES
        self._now = self._start
        self._ticks_until = self._start
        self._fault: Fault | None = None

    @property
    def rendered_digest(self) -> str:
        """sha256 of the rendered selectors, for the evidence."""
        return rendered_digest(self._streams)

    @property
    def fault(self) -> Fault | None:
        """Why the evidence can't be used as of the last look, None when it can."""
        return self._fault

    def questions(self, now: float) -> tuple[Question, ...]:
        """What to ask at `now`: everything that is not known for good yet, in pieces that stay small."""
        self._now = now
        asked: dict[Question, tuple[int, ...]] = {}
        for index, stream in enumerate(self._streams):
            for question in self._pieces(stream, now):
                streams = asked.get(question, ())
                asked[question] = (*streams, index)
        self._asked = asked
        since = now - LATE_SCRAPES * self._grid.scrape_interval
        self._listing = {
            Question(self._source, selector.range(now - since), now, since): arm
            for arm, selector in self._sound.listings()
        }
        return (*asked, *self._listing)

    def absorb(self, answers: Answers, births: Mapping[str, float] | None = None) -> None:
        """Take in the answers to the last `questions`; those that are missing or faults are asked for again
        next time.

        `births` are creation times of pods by name, where the caller knows them: a counter of a pod younger
        than the window starts at 0 (statistics.md 7.6).
        """
        trouble: list[Fault] = []
        for question, streams in self._asked.items():
            answer = answers.get(question)
            if isinstance(answer, Answered):
                for index in streams:
                    self._take(index, question, answer, births or {})
            elif answer is not None:
                trouble.append(answer)
        for question, arm in self._listing.items():
            answer = answers.get(question)
            if isinstance(answer, Answered):
                self._sound.listed(arm, answer)
            elif answer is not None:
                trouble.append(answer)
        self._fit_chunk(answers, trouble)
        self._advance()
        self._forget_ticks()
        self._fault = trouble[0] if trouble else self._sound.fault_now(self._now, self._newest)

    def windows(self) -> tuple[Window, ...]:
        """Windows that were closed since the last call, in order."""
        closed, self._closed = tuple(self._closed), []
        return closed

    def finish(self, until: float) -> tuple[Window, ...]:
        """At the end of a gate: the windows up to `until` that could not be closed, with the fault that kept
        them open.
        """
        fault = self._fault or Fault(Reason.STALE, "the source gave no sample from after the window's end")
        zero = Counts(0, 0)
        while self._grid.window_bounds(self._next_window)[1] <= until:
            self._closed.append(
                Window(self._next_window, zero, zero if self._has_stable else None, fault=fault)
            )
            self._next_window += 1
        return self.windows()

    def window_pending(self, now: float) -> bool:
        """True when a window has ended long enough ago to be read, and could not be read yet."""
        return self._grid.closed_windows(now) > self._next_window

    def ticks(self, now: float) -> tuple[Tick, ...]:
        """The complete ticks since the last call, newer than closed windows; none while the evidence is
        unsound.

        They reach back far enough for the total-failure rule (twice `for`, or `for` and one window), before
        t0 too. A tick whose numbers can't be used is left out.
        """
        if self._sound.fault_for_all() is not None:
            return ()
        sums = defaultdict(Sum, {index: own.copy() for index, own in self._tick_sums.items()})
        for reading in self._targets.preview():
            sums[self._grid.tick_at(reading.at)].add(reading, self._streams[reading.counter.stream])
        readable = min(now, *(stream.answered for stream in self._streams)) - self._grid.settle
        last = self._grid.tick_at(readable + _EDGE)
        if self._grid.tick_end(last) > readable - self._grid.t0 + _EDGE:
            last -= 1
        found = [self._tick(index, sums.get(index, Sum())) for index in range(self._first_tick(), last + 1)]
        self._ticks_until = max(self._ticks_until, readable)
        return tuple(tick for tick in found if tick is not None)

    def _first_tick(self) -> int:
        """Where the next ticks begin. The first scrapes of all are where counting begins, not events."""
        oldest = self._grid.tick_at(self._now) - MAX_TICKS
        first = max(self._ticks_until - self._tick_span, self._start + 2 * self._grid.scrape_interval)
        return max(oldest, self._grid.tick_at(first) + 1)

    def _tick(self, index: int, own: Sum) -> Tick | None:
        canary, stable = (own.arms[arm].counts(self._part) for arm in (ArmName.CANARY, ArmName.STABLE))
        faulty = own.fault is not None and own.fault.reason is not Reason.SCRAPE_GAP
        if canary is None or stable is None or faulty:
            return None
        return Tick(self._grid.tick_end(index), canary, stable if self._has_stable else None)

    def _pieces(self, stream: Stream, now: float) -> list[Question]:
        """The questions of one stream from where it was left, each at most a chunk long."""
        start = stream.resume
        if self._newest:
            # A source that lags is asked again from its newest sample on, within reason.
            start = min(start, max(*self._newest.values(), now - LATE_SCRAPES * self._grid.scrape_interval))
        pieces: list[Question] = []
        start = (
            math.floor(start * 1000) / 1000
        )  # asked to the millisecond, and never later than what is known
        while start < now and len(pieces) < MAX_CHUNKS:
            end = round(min(start + self._chunk_scrapes * self._grid.scrape_interval, now), 3)
            if end <= start:
                break
            expect = Expect.HISTOGRAMS if stream.part is Part.NATIVE else Expect.SAMPLES
            pieces.append(Question(self._source, stream.selector.range(end - start), end, start, expect))
            start = end
        return pieces

    def _take(self, index: int, question: Question, answer: Answered, births: Mapping[str, float]) -> None:
        stream = self._streams[index]
        if question.start > stream.answered:
            return  # a piece before it is missing: both are asked for again
        for series in answer.series:
            key = target_key(series, self._arms)
            self._targets.add(index, key, series, births.get(key.pod))
            if stream.part.tells_all:
                times = [one.at for one in series.samples[-1:]] + [one.at for one in series.histograms[-1:]]
                self._newest[stream.arm] = max(self._newest.get(stream.arm, self._start), *times)
        interval = self._grid.scrape_interval
        stream.answered = max(stream.answered, question.time)
        stream.final = max(stream.final, min(question.time, self._now - interval))
        stream.resume = max(stream.resume, min(question.time, self._now - 2 * interval))

    def _fit_chunk(self, answers: Answers, trouble: list[Fault]) -> None:
        """Shorter pieces after large answers, longer ones while answers are small."""
        least, most = CHUNK_SCRAPES
        few, many = ANSWER_SAMPLES
        full = self._chunk_scrapes * self._grid.scrape_interval
        sizes = [
            answer.samples
            for question in self._asked
            if isinstance(answer := answers.get(question), Answered)
            and question.time - question.start >= full - 0.01
        ]
        largest = max(sizes, default=few)
        if largest > many or any(fault.reason is Reason.TOO_LARGE for fault in trouble):
            self._chunk_scrapes = max(least, self._chunk_scrapes // 2)
        elif largest < few:
            self._chunk_scrapes = min(most, self._chunk_scrapes * 2)

    def _advance(self) -> None:
        """Read for good what can't change any more, and close windows on the way."""
        if not self._newest:
            return
        # Beyond the newest sample of all, the source may be behind: what it has not given yet is not known to
        # be absent.
        horizon = min(max(self._newest.values()), *(stream.final for stream in self._streams))
        while (end := self._grid.window_bounds(self._next_window)[1]) <= horizon:
            self._settle(end)
            if self._sound.needs_listing():
                return
            self._closed.append(self._close(self._next_window))
            self._next_window += 1
        self._settle(horizon)

    def _settle(self, until: float) -> None:
        sums: tuple[Sum, ...] = ()
        at = -math.inf
        for reading in self._targets.settle(until):
            self._sound.read(reading)
            if not reading.tells:
                continue
            if reading.at != at:  # all counters of one scrape come together
                at, sums = reading.at, self._sums_at(reading.at)
            for own in sums:
                own.add(reading, self._streams[reading.counter.stream])

    def _sums_at(self, at: float) -> tuple[Sum, ...]:
        """The tick that holds a moment, and its window unless that is closed or before t0."""
        window, tick = self._grid.window_at(at), self._tick_sums[self._grid.tick_at(at)]
        return (tick, self._window_sums[window]) if window >= self._next_window else (tick,)

    def _close(self, index: int) -> Window:
        own = self._window_sums.pop(index, None) or Sum()
        end = self._grid.window_bounds(index)[1]
        counts = {arm: own.arms[arm].counts(self._part) for arm in ArmName}
        fault = self._sound.fault_of_window(end, own, counts)
        canary, stable = (counts[arm] or Counts(0, 0) for arm in (ArmName.CANARY, ArmName.STABLE))
        return Window(index, canary, stable if self._has_stable else None, fault=fault, resets=own.resets)

    def _forget_ticks(self) -> None:
        oldest = self._first_tick()
        for index in [index for index in self._tick_sums if index < oldest]:
            del self._tick_sums[index]
