"""One keep-alive connection of the load generator: sends a request, tells what came of it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """An answer's status and version, or the name of the failure."""

    status: str = ""
    version: str = ""
    error: str | None = None


class Client(asyncio.Protocol):
    """A protocol instead of streams: a third of their cost for each request.

    ``done`` is called once for each request that was sent, and once when the connection is lost without one.
    """

    def __init__(self, done: Callable[["Client", Outcome], None]) -> None:
        self._done = done
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._close_after = False
        self.due: float | None = None
        """When the request that is open now was due; None when none is open."""

    @property
    def usable(self) -> bool:
        """Whether a request can be sent on it."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, request: bytes, due: float) -> None:
        """Send the next request."""
        assert self._transport is not None
        self.due = due
        self._transport.write(request)

    def fail(self, error: str) -> None:
        """Give the open request up."""
        self.close()
        self._done(self, Outcome(error=error))

    def close(self) -> None:
        """Close the connection; an open request is not told of."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Part of asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Part of asyncio.Protocol."""
        if self._transport is not None:
            self._transport = None
            self._done(self, Outcome(error=type(exc).__name__ if exc else "ConnectionClosed"))

    def data_received(self, data: bytes) -> None:
        """Part of asyncio.Protocol."""
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.split(b"\r\n")
        length, version, chunked = 0, "", False
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            match name.lower():
                case b"content-length":
                    length = int(value)
                case b"x-version":
                    version = value.strip().decode("latin-1")
                case b"transfer-encoding":
                    chunked = b"chunked" in value
                case b"connection":
                    self._close_after = value.strip().lower() == b"close"
        if chunked:
            if not body.endswith(b"0\r\n\r\n"):
                return
        elif len(body) < length:
            return
        self._buffer = b""
        status = lines[0].split(b" ", 2)[1].decode("latin-1")
        if self._close_after:
            self.close()
        self._done(self, Outcome(status, version))
