"""What every provider of numbers is: something that answers one question, and never raises for what the
source does.
"""

from typing import Protocol

from gatewright_analysis.evidence.question import Answer, Question


class MetricsReader(Protocol):
    """Reads from one source. May be called from several threads at once, and may block."""

    @property
    def deadline_seconds(self) -> float:
        """After this long an answer is no longer waited for."""
        ...

    def read(self, question: Question) -> Answer:
        """The answer, or the fault that stands for it. Raises nothing that the source could cause."""
        ...

    def close(self) -> None:
        """Give connections back; no call of `read` after it."""
        ...
