"""What can go wrong, typed by what the caller can do about it, and the exit codes that say so."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every command."""

    OK = 0
    """Done; with `status --wait`: promoted, the workload's own revision is stable."""
    ERROR = 1
    USAGE = 2
    ROLLED_BACK = 3
    NOT_ALLOWED = 4
    SUPERSEDED = 5
    HELD = 8
    TIMED_OUT = 124


class GateError(Exception):
    """A sentence for the person at the terminal, and what to type next. Base of all that commands raise."""

    code = Exit.ERROR

    def __init__(self, sentence: str, *, then: str = "", reported: bool = False) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.then = then
        """The next command, ready to paste; empty when there is none."""
        self.reported = reported
        """A JSON document that tells the same is on standard output already."""


class UsageError(GateError):
    """The command line makes no sense; type it differently."""

    code = Exit.USAGE


class NotAllowed(GateError):
    """The API server, one of its policies or the operator refused. Asking again changes nothing."""

    code = Exit.NOT_ALLOWED


class Superseded(GateError):
    """What the command was about is gone, or another by now; look again. Nothing was written."""

    code = Exit.SUPERSEDED


class NotFound(GateError):
    """The object does not exist, or the kinds are not installed."""


class AlreadyExists(GateError):
    """An object of that name is there already."""


class Unreachable(GateError):
    """The API server did not answer. Asking again may help."""
