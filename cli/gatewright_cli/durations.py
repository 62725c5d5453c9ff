"""Lengths of time on the command line, in the spelling of Kubernetes: `30s`, `10m`, `1h30m`, and days: `3d`.

The kinds parse the same spelling with pydantic, which takes longer to import than a whole command may run.
"""

import re
from datetime import timedelta

from gatewright_cli.errors import UsageError

LONGEST = timedelta(days=366)
_PART = re.compile(r"(\d+)(ms|s|m|h|d)")
_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def length_of(text: object) -> timedelta | None:
    """The length that `text` spells, as typed or as it stands in an object; None for anything else."""
    parts = _PART.findall(text) if isinstance(text, str) else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    try:
        return sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in parts), timedelta())
    except OverflowError:
        return None


def parse(text: str, option: str) -> timedelta:
    """Raises UsageError that names `option` for anything but a length above 0 and below a year."""
    length = length_of(text)
    if length is None:
        raise UsageError(f"{option} {text!r} is not a length of time: write it as 30s, 10m, 1h30m or 3d.")
    if not timedelta() < length <= LONGEST:
        raise UsageError(f"{option} must be longer than 0 and no longer than a year.")
    return length
