"""What the API server's refusals mean to a caller."""

import json


class ApiError(Exception):
    """The API server answered with an error, or no answer came (``status`` 0)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class NotFound(ApiError):
    """404: the object, or its whole kind, does not exist."""


class Conflict(ApiError):
    """409: it exists already, or a precondition (resourceVersion, uid) does not hold: read again."""


class Gone(ApiError):
    """410: the resourceVersion is too old; list again."""


def error_of(status: int, raw: bytes) -> ApiError:
    """The error that an answer of 400 or above stands for."""
    try:
        answer = json.loads(raw)
        reason, message = str(answer.get("reason", "")), str(answer.get("message", ""))
    except (ValueError, AttributeError):
        reason, message = "", raw[:500].decode(errors="replace")
    kind = {404: NotFound, 409: Conflict, 410: Gone}.get(status, ApiError)
    return kind(status, reason, message)
