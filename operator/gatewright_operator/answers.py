"""Reads what an API server (or whatever stands before it) answered, and turns refusals into the errors of
`errors.py`."""

import json
from typing import Any

from gatewright_operator.errors import AlreadyExists, ApiError, Conflict, NotFound, Refused, Unavailable

KIND_NOT_SERVED = "KindNotServed"
"""Reason of a NotFound for a kind whose CRD (or API version) is not installed."""
UNKNOWN_PATH = b"404 page not found"
"""What an API server says, as plain text, about the path of a kind that it does not have; so do many
proxies."""
EXCERPT = 200
"""Characters of an answer that is no Kubernetes answer which may stand in an error message."""


def parse(raw: bytes, *, what: str) -> dict[str, Any]:
    """The object in a successful answer. Raises Unavailable for anything but a JSON object: a proxy's page,
    say."""
    try:
        answer = json.loads(raw)
    except ValueError as error:
        raise Unavailable(
            f"{what}: the answer is not JSON, so it is not the API server's: {_excerpt(raw)}"
        ) from error
    if not isinstance(answer, dict):
        raise Unavailable(f"{what}: the answer is no object: {_excerpt(raw)}")
    return answer


def error_from(
    status: int, raw: bytes, retry_after: str | None, *, what: str, creating: bool, always_served: bool
) -> ApiError:
    """The error for an HTTP status of 300 and above.

    `creating` says that the call was a create, `always_served` that every API server has this kind.
    """
    try:
        answer = json.loads(raw)
    except ValueError:
        answer = None
    if status == 404 and raw.strip() == UNKNOWN_PATH and not always_served:
        return NotFound(
            f"{what}: the API server does not have this kind", status=status, reason=KIND_NOT_SERVED
        )
    if not isinstance(answer, dict) or answer.get("kind") != "Status":
        # Whoever said this does not speak for the cluster: a proxy's 404 must not look like "there is no such
        # object".
        return Unavailable(
            f"{what}: {status}, and the answer is not the API server's: {_excerpt(raw)}",
            status=status,
            retry_after_seconds=_seconds(retry_after),
        )
    message = str(answer.get("message") or f"{what}: {status}")
    reason, details = str(answer.get("reason") or ""), answer.get("details") or {}
    if status == 409:
        # A create conflicts by its name alone; the word is there to tell it from a namespace that is going
        # away.
        kind = AlreadyExists if creating and reason in ("AlreadyExists", "") else Conflict
        return kind(message, status=status, reason=reason, details=details)
    if status == 404:
        return NotFound(message, status=status, reason=reason, details=details)
    if status in (400, 403, 405, 406, 413, 415, 422):
        return Refused(message, status=status, reason=reason, details=details)
    return Unavailable(
        message, status=status, reason=reason, details=details, retry_after_seconds=_seconds(retry_after)
    )


def no_answer(message: str) -> Unavailable:
    """The error for a call that got no answer; whether a write happened is not known."""
    return Unavailable(message)


def _seconds(retry_after: str | None) -> float | None:
    # The header may also hold a date; API servers send seconds.
    return float(retry_after) if retry_after and retry_after.isdecimal() else None


def _excerpt(raw: bytes) -> str:
    return repr(raw[:EXCERPT].decode(errors="replace"))
