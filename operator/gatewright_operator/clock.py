"""What time it is: handed in, so that a test can be elsewhere in time."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """This machine's wall clock. What is measured between two machines is never decided by it alone."""
    return datetime.now(UTC)
