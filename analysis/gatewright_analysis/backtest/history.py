"""Recorded evidence of a span that lies behind, read from counters as an operator would have read it then."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gatewright_analysis.backtest.lines import Recording
from gatewright_analysis.evidence.collector import Collector
from gatewright_analysis.evidence.model import Fault, Window
from gatewright_analysis.evidence.question import Answer, Question
from gatewright_analysis.kinds.contract import Evidence
from gatewright_analysis.kinds.run import ArmRef
from gatewright_analysis.kinds.source import MetricSourceSpec

MOST_WINDOWS: Final = 200_000
_ROUNDS: Final = 100_000
_ATTEMPTS: Final = 3
_EVEN_WEIGHT: Final = 50
"""What share the canary had is not known, only that both arms had traffic."""


class SourceFailed(Exception):
    """The source gave no usable answer; the message says why."""


@dataclass(frozen=True, slots=True)
class Span:
    """(start, end] in Unix seconds, cut into windows of `step` seconds. Raises ValueError with a sentence."""

    start: float
    end: float
    step: float

    def __post_init__(self) -> None:
        if not self.start < self.end:
            raise ValueError("--from must lie before --to")
        if self.step <= 0 or self.end - self.start < self.step:
            raise ValueError("the span between --from and --to must hold at least one window of --step")
        if (self.end - self.start) / self.step > MOST_WINDOWS:
            raise ValueError(
                f"that are more than {MOST_WINDOWS:,} windows: use a longer --step, or a shorter span"
            )


def read_history(
    evidence: Evidence,
    source: MetricSourceSpec,
    *,
    namespace: str,
    canary: ArmRef,
    stable: ArmRef | None,
    span: Span,
    for_seconds: float,
    read: Callable[[Question], Answer],
) -> Recording:
    """The windows of one check. Raises ValueError when selectors, arms or the window can't be used, and SourceFailed.

    Windows without a usable sample are there with their fault, as they would have been for the operator.
    """
    own = Collector(
        evidence=evidence,
        source=source,
        namespace=namespace,
        canary=canary,
        stable=stable,
        weight=_EVEN_WEIGHT if stable is not None else 100,
        t0=span.start,
        window_seconds=span.step,
        for_seconds=for_seconds,
    )
    interval = source.scrape_interval.total_seconds()
    windows: list[Window] = []
    asked: tuple[Question, ...] = ()
    failures = 0
    for _ in range(_ROUNDS):
        questions = own.questions(span.end + 3 * interval)
        if questions == asked and not failures:
            break
        answers = {question: read(question) for question in questions}
        own.absorb(answers)
        windows += own.windows()
        wrong = [answer for answer in answers.values() if isinstance(answer, Fault)]
        failures = failures + 1 if wrong else 0
        if failures >= _ATTEMPTS:
            raise SourceFailed(f"{wrong[0].detail.rstrip('.')}.")
        asked = questions
    windows += own.finish(span.end + 1e-6)
    count = int((span.end - span.start) / span.step + 1e-9)
    windows = windows[:count]
    ends = [(window.index + 1) * span.step for window in windows]
    return Recording(windows, ends, has_stable=stable is not None)
