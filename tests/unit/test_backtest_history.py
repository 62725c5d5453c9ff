"""A span that lies behind is read to its end, in as many pieces as it takes."""

import pytest

from gatewright_analysis.backtest.history import SourceFailed, Span, read_history
from gatewright_analysis.backtest.lines import Recording
from gatewright_analysis.evidence.model import Counts, Fault
from gatewright_analysis.evidence.question import Answer, Question
from gatewright_analysis.providers.fake import FakeReader
from gatewright_analysis.reasons import Reason
from tests.unit.evidence_world import (
    CANARY,
    COUNTS,
    NAMESPACE,
    STABLE,
    T0,
    canary_pod,
    run_seconds,
    source,
    stable_pod,
)


def reading(reader: FakeReader, seconds: float, step: float = 10.0, *, asked: list[Question]) -> Recording:
    def read(question: Question) -> Answer:
        asked.append(question)
        return reader.read(question)

    return read_history(
        COUNTS,
        source(),
        namespace=NAMESPACE,
        canary=CANARY,
        stable=STABLE,
        span=Span(T0, T0 + seconds, step),
        for_seconds=5.0,
        read=read,
    )


def test_a_long_span_comes_in_pieces_and_whole() -> None:
    reader, asked = FakeReader(), []
    run_seconds(reader, [(canary_pod(), 3, 1), (stable_pod(), 9, 0)], -60, 1520)
    found = reading(reader, 1500, asked=asked)
    assert len(found.windows) == 150 and found.ends[-1] == 1500.0 and found.has_stable
    assert {w.canary for w in found.windows} == {Counts(30, 10)}
    assert {w.stable for w in found.windows} == {Counts(90, 0)}
    assert {w.fault for w in found.windows} == {None}
    assert max(q.time - q.start for q in asked) < 1500, "it was asked for in pieces"


def test_a_span_that_the_source_does_not_cover_has_windows_that_can_not_be_used() -> None:
    reader: FakeReader = FakeReader()
    run_seconds(reader, [(canary_pod(), 3, 1), (stable_pod(), 9, 0)], -60, 100)
    found = reading(reader, 200, asked=[])
    assert len(found.windows) == 20
    assert [w.index for w in found.windows if w.fault is None] == list(range(9))
    assert all(w.fault is not None for w in found.windows[10:])


def test_a_source_that_fails_again_and_again_is_an_error() -> None:
    class Broken(FakeReader):
        def read(self, question: Question) -> Answer:
            return Fault(Reason.UNREACHABLE, "nobody answers")

    with pytest.raises(SourceFailed, match="nobody answers"):
        reading(Broken(), 100, asked=[])


@pytest.mark.parametrize(
    ("start", "end", "step", "said"),
    [
        (10, 10, 1, "--from must lie before --to"),
        (0, 10, 20, "at least one window"),
        (0, 10**6, 1, "more than 200,000"),
    ],
)
def test_a_span_has_windows(start: float, end: float, step: float, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Span(start, end, step)
