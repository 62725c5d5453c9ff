"""What can go wrong between the operator and the API server, typed by what the caller can do about it.

ApiError
├── Conflict          the world is not what was planned from: observe and plan again, never send again
│   └── AlreadyExists a create that was done before, by us or by somebody else: read it and decide
├── NotFound          the object, its namespace or its whole kind is not there
├── Refused           understood, and no (right, admission, schema): a person must change something
└── Unavailable       no answer, or not now: the same call may succeed later; a write may have happened
    ├── NotLeading    this process may not write at the moment; nothing was sent
    └── LedgerUnwritable  what comes next waits for its entry
"""

from typing import Any


class ApiError(Exception):
    """Base of all; `message` is the server's own sentence, `status` the HTTP status (0: no answer came)."""

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.details = details or {}

    @property
    def causes(self) -> tuple[str, ...]:
        """Machine words for the causes that the server lists, such as `NamespaceTerminating` or
        `FieldValueInvalid`."""
        return tuple(str(cause.get("reason", "")) for cause in self.details.get("causes") or ())


class Conflict(ApiError):
    """409: a precondition (resourceVersion, uid) does not hold, or another manager owns the field."""


class AlreadyExists(Conflict):
    """409 to a create: an object of this name exists."""


class NotFound(ApiError):
    """404."""


class Refused(ApiError):
    """400, 403, 405, 413, 415, 422: the call as it is will never succeed; `message` says why."""


class Unavailable(ApiError):
    """Time-out, connection trouble, 401 while a token is renewed, 408, 410, 429, 5xx, or an answer that is no
    Kubernetes answer."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        details: dict[str, Any] | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message, status=status, reason=reason, details=details)
        self.retry_after_seconds = retry_after_seconds


class NotLeading(Unavailable):
    """A write was wanted after the Lease ran out; it was not sent."""


class LedgerUnwritable(Unavailable):
    """An entry that must stand before its effect could not be written, whatever the reason."""
