"""The event loop and HTTP/1.1 server of the sample service.

It stands on ``select.epoll`` alone: importing asyncio takes five times as long as starting the interpreter
and doubles the memory, and a rollout in the development cluster starts dozens of these processes on two
cores.
"""

import heapq
import os
import select
import signal
import socket
import time
from collections.abc import Callable

MAX_REQUEST_BYTES = 1_000_000
REASONS = {200: "OK", 404: "Not Found", 500: "Internal Server Error", 503: "Service Unavailable"}

Reply = Callable[[int, bytes, str], None]
"""Call it once with the status, the body, and further header lines (each with its line end)."""

Handler = Callable[[str, str, Reply], None]
"""Gets the method, the path without its query, and the reply to call, now or later."""


class EventLoop:
    """Calls back when a file is ready, a timer is due or a signal came."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._signals: dict[int, Callable[[], None]] = {}
        self._running = True
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        # Through a pipe, so that a signal ends the wait in epoll; a handler alone would not.
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self._signal_reader = reader
        self.watch(reader, select.EPOLLIN, self._on_signal)

    def watch(self, descriptor: int, events: int, handler: Callable[[int], None]) -> None:
        """Call the handler with what is ready, each time something is."""
        if descriptor in self._handlers:
            self._epoll.modify(descriptor, events)
        else:
            self._epoll.register(descriptor, events)
        self._handlers[descriptor] = handler

    def forget(self, descriptor: int) -> None:
        """End a ``watch``; do this before closing the file."""
        if self._handlers.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call back once, after this time."""
        self._sequence += 1
        heapq.heappush(self._timers, (time.monotonic() + seconds, self._sequence, callback))

    def on_signal(self, number: int, callback: Callable[[], None]) -> None:
        """Call back when this signal comes."""
        self._signals[number] = callback
        signal.signal(number, lambda *_: None)

    def stop(self) -> None:
        """Let ``run`` return."""
        self._running = False

    def run(self) -> None:
        """Serve until ``stop``."""
        while self._running:
            wait = max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None
            for descriptor, events in self._epoll.poll(wait):
                handler = self._handlers.get(descriptor)
                if handler is not None:
                    handler(events)
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                heapq.heappop(self._timers)[2]()

    def _on_signal(self, _: int) -> None:
        for number in os.read(self._signal_reader, 64):
            if number in self._signals:
                self._signals[number]()


class HttpServer:
    """HTTP/1.1 with keep-alive on one address."""

    def __init__(self, loop: EventLoop, address: str, port: int, handler: Handler) -> None:
        """Listen. Raises OSError when the address is taken."""
        self.loop, self.handler = loop, handler
        self.connections: set[Connection] = set()
        self.close_after_reply = False
        """Tell clients to come back on another connection: the service is about to end."""
        self._listener = socket.create_server((address, port), backlog=1024)
        self._listener.setblocking(False)
        loop.watch(self._listener.fileno(), select.EPOLLIN, self._accept)

    @property
    def busy(self) -> int:
        """Requests that are not answered yet."""
        return sum(connection.busy for connection in self.connections)

    def stop_listening(self) -> None:
        """Take what stands in the queue, then no more connections."""
        self._accept(0)
        self.loop.forget(self._listener.fileno())
        self._listener.close()

    def close_idle(self) -> None:
        """Close the connections that wait for nothing."""
        for connection in [each for each in self.connections if not each.busy]:
            connection.close()

    def _accept(self, _: int) -> None:
        while True:
            try:
                peer, _address = self._listener.accept()
            except OSError:
                return
            peer.setblocking(False)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections.add(Connection(self, peer))


class Connection:
    """One client; its requests are answered one after the other."""

    __slots__ = ("_close", "_head_only", "_in", "_out", "_server", "_socket", "busy")

    def __init__(self, server: HttpServer, peer: socket.socket) -> None:
        self._server, self._socket = server, peer
        self._in = self._out = b""
        self._close = self._head_only = False
        self.busy = False
        """Whether a request is being answered."""
        server.loop.watch(peer.fileno(), select.EPOLLIN, self._ready)

    def close(self) -> None:
        """Close it, whatever is open."""
        if self._socket.fileno() >= 0:
            self._server.loop.forget(self._socket.fileno())
            self._socket.close()
            self._server.connections.discard(self)

    def _ready(self, events: int) -> None:
        if events & select.EPOLLOUT:
            self._flush()
        elif events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            try:
                data = self._socket.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data or len(self._in) > MAX_REQUEST_BYTES:
                self.close()
                return
            self._in += data
            self._next_request()

    def _next_request(self) -> None:
        if self.busy or b"\r\n\r\n" not in self._in:
            return
        head, _, rest = self._in.partition(b"\r\n\r\n")
        fields = head.decode("latin-1").split("\r\n")
        words = fields[0].split(" ")
        if len(words) != 3:
            self.close()
            return
        length, chunked = 0, False
        for field in fields[1:]:
            name, _, value = field.partition(":")
            match name.lower():
                case "content-length":
                    length = int(value)
                case "transfer-encoding":
                    chunked = "chunked" in value.lower()
                case "connection":
                    self._close = "close" in value.lower()
                case "expect":
                    self._socket.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        if chunked:
            end = 0 if rest.startswith(b"0\r\n\r\n") else rest.find(b"\r\n0\r\n\r\n") + 2
            if end == 1:
                return
            length = end + 5
        if len(rest) < length:
            return
        self._in = rest[length:]
        self.busy = True
        self._head_only = words[0] == "HEAD"
        self._server.handler(words[0], words[1].partition("?")[0], self._reply)

    def _reply(self, status: int, body: bytes, headers: str) -> None:
        self._close = self._close or self._server.close_after_reply
        last = "Connection: close\r\n" if self._close else ""
        reason = REASONS.get(status, "Other")
        head = f"HTTP/1.1 {status} {reason}\r\nContent-Length: {len(body)}\r\n{headers}{last}\r\n"
        self._out = head.encode() + (b"" if self._head_only else body)
        self._flush()

    def _flush(self) -> None:
        if self._socket.fileno() < 0:
            return
        try:
            self._out = self._out[self._socket.send(self._out) :]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        if self._out:
            self._server.loop.watch(self._socket.fileno(), select.EPOLLOUT, self._ready)
            return
        self.busy = False
        if self._close:
            self.close()
            return
        self._server.loop.watch(self._socket.fileno(), select.EPOLLIN, self._ready)
        self._next_request()
