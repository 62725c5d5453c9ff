"""A gauge for one check at one run: which questions to ask at a look, and the closed windows that the answers give.

One instant query at the end of each window whose reading counts, at an explicit time, asked one scrape later; so a
collector that starts anew asks the same and gets the same. Pure. The reading is of samples no older than two scrapes
(statistics.md 7.6): the query looks back no further, and each of its selectors must have had a sample since then, which
also holds what a range such as `[5m]` would still show of a target that is gone.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gatewright_analysis.evidence.armquery import parse_arm_query
from gatewright_analysis.evidence.model import Counts, Fault, Window
from gatewright_analysis.evidence.promql import Matcher, arm_matchers
from gatewright_analysis.evidence.question import Answered, Answers, Expect, Question
from gatewright_analysis.evidence.windows import Grid, reads_at
from gatewright_analysis.kinds.contract import Evidence
from gatewright_analysis.kinds.evidence import Aggregate, ValueEvidence, ValueScope
from gatewright_analysis.kinds.run import ArmRef
from gatewright_analysis.kinds.source import Arms, MetricSourceSpec
from gatewright_analysis.reasons import Reason

LOOKBACK_SCRAPES: Final = 2
MAX_WINDOWS: Final = 60
"""Readings asked for at one look: a long backlog is caught up over several."""
PATIENCE_SCRAPES: Final = 4
"""How long after a window's end "no data" may still mean that the source is late."""
_FINAL: Final = frozenset(
    {Reason.NO_DATA, Reason.NOT_A_NUMBER, Reason.INFINITE, Reason.UNEXPECTED_SERIES, Reason.WRONG_RESULT_TYPE}
)
"""What a source says of its numbers; everything else says that it could not be asked, so it is asked again."""
_NOTHING: Final = Counts(0, 0)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What is asked for one window: the query, and whether each selector has a sample that is new enough."""

    value: Question
    fresh: tuple[Question, ...]


class GaugeCollector:
    """Reads the gauge of one check for one run.

    A look: `questions(now)`, answer them by any reader, `absorb(answers, now)`, then `windows()`. Times are Unix seconds,
    lengths seconds. A window has a `value` or a `fault`; one whose reading doesn't count has neither.
    """

    def __init__(
        self,
        *,
        evidence: Evidence,
        source: MetricSourceSpec,
        namespace: str,
        canary: ArmRef,
        t0: float,
        window_seconds: float,
    ) -> None:
        """Raises ValueError with a sentence when the query, the arms or the window can't be used."""
        spec = evidence.value
        if spec is None:
            raise ValueError(f"evidence of the kind {evidence.kind} is no gauge")
        if source.arms is None:
            raise ValueError(f"the MetricSource {spec.source} holds result files and no gauges")
        self._spec = spec
        self._grid = Grid(t0, window_seconds, source.scrape_interval.total_seconds())
        matchers = gauge_matchers(spec, source.arms, namespace, canary)
        query = parse_arm_query(spec.query)
        self._query = query.render(*matchers)
        self._selectors = query.render_selectors(*matchers)
        self._next_window = 0
        self._kept: dict[Question, Answered | Fault] = {}
        self._asked: dict[int, _Reading] = {}
        self._closed: list[Window] = []
        self._fault: Fault | None = None

    @property
    def rendered_digest(self) -> str:
        """sha256 of the rendered query, for the evidence."""
        return "sha256:" + hashlib.sha256(self._query.encode()).hexdigest()

    @property
    def fault(self) -> Fault | None:
        """Why the newest reading failed as of the last look, None when it did not."""
        return self._fault

    def questions(self, now: float) -> tuple[Question, ...]:
        """What to ask at `now`: the readings that are due and not known for good yet. Windows that need none are
        closed, so take `windows()` afterwards, too."""
        self._advance(now)
        due = range(self._next_window, self._grid.closed_windows(now))
        reading = [index for index in due if self._reads_at(index)][:MAX_WINDOWS]
        self._asked = {index: self._reading(index) for index in reading}
        wanted = (question for own in self._asked.values() for question in (own.value, *own.fresh))
        return tuple(dict.fromkeys(question for question in wanted if question not in self._kept))

    def absorb(self, answers: Answers, now: float) -> None:
        """Take in the answers to the last `questions`; what could not be asked is asked again next time."""
        self._fault = None
        for own in self._asked.values():
            for question in (own.value, *own.fresh):
                answer = answers.get(question)
                if answer is None or question in self._kept:
                    continue
                if isinstance(answer, Answered) or self._is_final(answer, question.time, now):
                    self._kept[question] = answer
                else:
                    self._fault = self._fault or answer
        self._advance(now)

    def windows(self) -> tuple[Window, ...]:
        """Windows that were closed since the last call, in order."""
        closed, self._closed = tuple(self._closed), []
        return closed

    def finish(self, until: float) -> tuple[Window, ...]:
        """At the end of a gate: the windows up to `until` that could not be read, with the fault that says why."""
        fault = self._fault or Fault(Reason.STALE, "the source gave no reading for the window's end")
        while self._end(self._next_window) <= until:
            index = self._next_window
            self._closed.append(Window(index, _NOTHING, fault=fault if self._reads_at(index) else None))
            self._next_window += 1
        return self.windows()

    def window_pending(self, now: float) -> bool:
        """True when a window has ended long enough ago to be read, and could not be read yet."""
        return self._grid.closed_windows(now) > self._next_window

    def _reads_at(self, index: int) -> bool:
        return reads_at(index, self._grid.window, self._spec.spacing.total_seconds())

    def _end(self, index: int) -> float:
        return self._grid.window_bounds(index)[1]

    def _reading(self, index: int) -> _Reading:
        at = round(self._end(index), 3)
        back = LOOKBACK_SCRAPES * self._grid.scrape_interval
        millis = round(back * 1000)
        source = self._spec.source
        return _Reading(
            Question(source, self._query, at, at - back, Expect.VALUES, back),
            tuple(
                Question(
                    source,
                    f"count(last_over_time({selector}[{millis}ms]))",
                    at,
                    at - back,
                    Expect.VALUE,
                    back,
                )
                for selector in self._selectors
            ),
        )

    def _is_final(self, fault: Fault, at: float, now: float) -> bool:
        late = fault.reason is Reason.NO_DATA and now < at + PATIENCE_SCRAPES * self._grid.scrape_interval
        return fault.reason in _FINAL and not late

    def _advance(self, now: float) -> None:
        """Close the windows that are known, in order."""
        while self._next_window < self._grid.closed_windows(now):
            index = self._next_window
            if self._reads_at(index):
                own = self._asked.get(index)
                answers = [] if own is None else [self._kept.get(q) for q in (own.value, *own.fresh)]
                known = [answer for answer in answers if answer is not None]
                if own is None or len(known) < len(answers):
                    return
                self._closed.append(self._close(index, own))
                for question in (own.value, *own.fresh):
                    self._kept.pop(question, None)
            else:
                self._closed.append(Window(index, _NOTHING))
            self._next_window += 1

    def _close(self, index: int, own: _Reading) -> Window:
        stale = [
            selector
            for selector, question in zip(self._selectors, own.fresh, strict=True)
            if isinstance(self._kept[question], Fault)
        ]
        answer = self._kept[own.value]
        if isinstance(answer, Answered) and stale:
            back = LOOKBACK_SCRAPES * self._grid.scrape_interval
            found: float | Fault = Fault(
                Reason.STALE, f"{stale[0]} had no sample in the {back:g} s before: is it still scraped?"
            )
        elif isinstance(answer, Answered):
            found = aggregated([series.samples[0].value for series in answer.series], self._spec.aggregate)
        else:
            found = answer
        if isinstance(found, Fault):
            self._fault = self._fault or found
            return Window(index, _NOTHING, fault=found)
        return Window(index, _NOTHING, value=found)


def gauge_matchers(spec: ValueEvidence, arms: Arms, namespace: str, canary: ArmRef) -> tuple[Matcher, ...]:
    """What `$arm` stands for: the namespace and the canary, or the namespace alone for a value that both arms share.
    Raises ValueError when the arm lacks what the source tells by."""
    if spec.scope is ValueScope.WORKLOAD:
        return (Matcher(arms.namespace_label, "=", namespace),)
    return arm_matchers(arms, canary, namespace)


def aggregated(values: Iterable[float], how: Aggregate | None) -> float | Fault:
    """One value of several series, or why there is none. Sums are exact, whatever the order of the series."""
    given = list(values)
    if not given:
        return Fault(Reason.NO_DATA, "the query has no result")
    if len(given) > 1 and how is None:
        return Fault(
            Reason.UNEXPECTED_SERIES,
            f"the query gives {len(given)} values: say with aggregate how they become one, or aggregate in the query",
        )
    try:
        match how:
            case Aggregate.MIN:
                value = min(given)
            case Aggregate.MAX:
                value = max(given)
            case Aggregate.AVG:
                value = math.fsum(given) / len(given)
            case _:
                value = math.fsum(given)
    except OverflowError:
        return Fault(Reason.INFINITE, "the sum of the values is too large for a number")
    if not math.isfinite(value):
        return Fault(Reason.NOT_A_NUMBER, "the value is no finite number")
    return value
