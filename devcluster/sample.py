"""A service whose faults are set by its environment: ``python -m devcluster.sample``.

======================= ========= ====================================================================
variable                default   meaning
======================= ========= ====================================================================
``POD_LISTEN_IP``       127.0.0.1 where it listens
``PORT``                8080      where it listens
``VERSION``             v1        shown in each answer's body and in its ``x-version`` header
``ERROR_RATE``          0         share of requests answered with 500
``ERROR_PATTERN``       random    ``even``: exact shares, evenly spread, instead of drawn by chance;
                                  ``bursts``: all of a quarter of a minute's errors come in one stretch
``ERROR_AFTER_SECONDS`` 0         no request fails before this time: a version that turns bad later
``OUTAGE_FILE``         (none)    while a file of this name exists, every request fails: what all depend on
``SEED``                (none)    makes the chances repeatable
``LATENCY_MS``          0         mean time to answer; drawn from half to one and a half of it
``LATENCY_SLOW_RATE``   0         share of requests that take ``LATENCY_SLOW_MS`` (1000) instead
``JUDGE_PASS_RATE``     (none)    counts a verdict, faithful or unfaithful, with each request
``MODEL_INFO``          (none)    labels of an info metric: ``model=j-1,version=3`` → ``model_info``
``READY``               true      ``false``: /readyz answers 503
``START_DELAY_SECONDS`` 0         listens only after this time
``CRASH_AFTER_SECONDS`` (none)    exits with code 1 after this time
``DRAIN_SECONDS``       1         after SIGTERM serves this long, then finishes and exits with 0
``GAUGE``               0         the value of the gauge ``queue_depth``
``LAZY_SERIES``         false     ``true``: series appear with their first event
======================= ========= ====================================================================

A POST to ``/model-info/LABEL/VALUE`` changes one of the labels of ``MODEL_INFO``, as a model does that is
replaced behind its address while nothing is deployed.

/metrics, /healthz, /readyz and /model-info are not counted. Only the standard library's light modules are imported: a
start takes a fraction of what asyncio alone would.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable

from devcluster.sample_http import EventLoop, HttpServer, Reply
from devcluster.sample_metrics import VERDICTS, Metrics

BURST_SECONDS = 15.0
FINISH_SECONDS = 30.0
LAST_WORDS_SECONDS = 0.1


class BadSetting(Exception):
    """A variable has a value that cannot be used; the message names it."""


def number(name: str, default: float, *, highest: float = float("inf")) -> float:
    """A setting from 0 to ``highest``. Raises BadSetting."""
    text = os.environ.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1.0
    if not 0 <= value <= highest:
        raise BadSetting(f"{name}={text!r} must be a number from 0 to {highest:g}")
    return value


def choice(name: str, default: str, *allowed: str) -> str:
    """A setting with a few allowed values. Raises BadSetting."""
    value = os.environ.get(name) or default
    if value not in allowed:
        raise BadSetting(f"{name}={value!r} must be one of {', '.join(allowed)}")
    return value


def chance(rate: float, pattern: str, generator: random.Random) -> Callable[[], bool]:
    """A function that says yes in this share of its calls: by chance, exactly and evenly spread, or in bursts."""
    if pattern == "random":
        return lambda: generator.random() < rate
    if pattern == "bursts":
        return lambda: time.monotonic() % BURST_SECONDS < rate * BURST_SECONDS
    calls = 0

    def even() -> bool:
        nonlocal calls
        calls += 1
        # Computed from the count, not added up: a sum of 0.1s drifts away from the share.
        return int(calls * rate + 1e-9) > int((calls - 1) * rate + 1e-9)

    return even


def labels(name: str) -> dict[str, str]:
    """A setting of the form ``a=b,c=d``; empty when it is not set. Raises BadSetting."""
    text = os.environ.get(name, "")
    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    if not all(label.isidentifier() and separator for label, separator, _ in pairs):
        raise BadSetting(f"{name}={text!r} must be of the form label=value,label=value")
    return {label: value for label, _, value in pairs}


class Sample:
    """The service: what it answers, and how it ends."""

    def __init__(self, loop: EventLoop) -> None:
        """Read the environment. Raises BadSetting."""
        seed = os.environ.get("SEED")
        generator = random.Random(seed or None)
        pattern = choice("ERROR_PATTERN", "random", "random", "even", "bursts")
        self._loop, self._draw = loop, generator.random
        self._version = os.environ.get("VERSION") or "v1"
        self._fails = chance(number("ERROR_RATE", 0, highest=1), pattern, generator)
        self._fails_from = time.monotonic() + number("ERROR_AFTER_SECONDS", 0)
        self._outage = os.environ.get("OUTAGE_FILE", "")
        self._is_slow = chance(number("LATENCY_SLOW_RATE", 0, highest=1), pattern, generator)
        self._latency_seconds = number("LATENCY_MS", 0) / 1000
        self._slow_seconds = number("LATENCY_SLOW_MS", 1000) / 1000
        judged = bool(os.environ.get("JUDGE_PASS_RATE"))
        self._passes = chance(number("JUDGE_PASS_RATE", 1, highest=1), pattern, generator) if judged else None
        self._ready = choice("READY", "true", "true", "false") == "true"
        self._drain_seconds = number("DRAIN_SECONDS", 1)
        self._metrics = Metrics(
            lazy_series=choice("LAZY_SERIES", "false", "true", "false") == "true",
            judged=judged,
            queue_depth=number("GAUGE", 0),
            model=labels("MODEL_INFO"),
        )
        self._headers = f"Content-Type: application/json\r\nx-version: {self._version}\r\n"
        self._pod = os.environ.get("HOSTNAME", "")
        self._server: HttpServer | None = None
        self._draining = False
        loop.on_signal(signal.SIGTERM, self._terminate)
        loop.on_signal(signal.SIGINT, loop.stop)

    def listen(self) -> None:
        """Start serving."""
        address = os.environ.get("POD_LISTEN_IP") or "127.0.0.1"
        port = int(number("PORT", 8080, highest=65535))
        self._server = HttpServer(self._loop, address, port, self.handle)
        print(f"sample {self._version} listens on {address}:{port}", flush=True)

    def handle(self, method: str, path: str, reply: Reply) -> None:
        """Answer a request, now or after the latency that was drawn for it."""
        match path:
            case "/metrics":
                reply(200, self._metrics.text(), "Content-Type: text/plain; version=0.0.4\r\n")
            case "/healthz":
                reply(200, b"ok\n", "")
            case "/readyz":
                ready = self._ready and not self._draining
                reply(200 if ready else 503, b"ready\n" if ready else b"not ready\n", "")
            case _ if path.startswith("/model-info/") and method == "POST":
                label, _, value = path.removeprefix("/model-info/").partition("/")
                known = self._metrics.set_model(label, value)
                reply(200 if known else 404, b"changed\n" if known else b"no such label\n", "")
            case _:
                self._serve(path, reply)

    def _serve(self, path: str, reply: Reply) -> None:
        began = time.perf_counter()
        fails = time.monotonic() >= self._fails_from and self._fails()
        fails = fails or (self._outage != "" and os.path.exists(self._outage))
        code = 500 if fails else 200
        if self._passes is not None:
            self._metrics.verdict(VERDICTS[0] if self._passes() else VERDICTS[1])

        def answer() -> None:
            self._metrics.request(code, path, time.perf_counter() - began)
            body = f'{{"version": "{self._version}", "pod": "{self._pod}", "code": {code}}}\n'
            reply(code, body.encode(), self._headers)

        seconds = self._slow_seconds if self._is_slow() else self._latency_seconds * (0.5 + self._draw())
        if seconds > 0:
            self._loop.call_later(seconds, answer)
        else:
            answer()

    def _terminate(self) -> None:
        """Go on serving while the news spreads that this pod ends; then finish and go."""
        if self._server is None or self._draining:
            self._loop.stop()
            return
        self._draining = self._server.close_after_reply = True
        self._loop.call_later(self._drain_seconds, self._finish)

    def _finish(self) -> None:
        assert self._server is not None
        self._server.stop_listening()
        # What was on its way at this moment is still read and answered.
        self._loop.call_later(LAST_WORDS_SECONDS, self._end_when_idle)
        self._loop.call_later(FINISH_SECONDS, self._loop.stop)

    def _end_when_idle(self) -> None:
        assert self._server is not None
        self._server.close_idle()
        if self._server.busy:
            self._loop.call_later(0.01, self._end_when_idle)
        else:
            self._loop.stop()


def crash() -> None:
    """End as a bug would: at once, whatever is open."""
    print("sample crashes, as CRASH_AFTER_SECONDS says", flush=True)
    os._exit(1)


def main() -> int:
    """Serve until told to stop; the exit code."""
    loop = EventLoop()
    try:
        sample = Sample(loop)
        if os.environ.get("CRASH_AFTER_SECONDS"):
            loop.call_later(number("CRASH_AFTER_SECONDS", 0), crash)
        delay = number("START_DELAY_SECONDS", 0)
    except BadSetting as error:
        print(error, file=sys.stderr)
        return 2
    if delay > 0:
        loop.call_later(delay, sample.listen)
    else:
        sample.listen()
    loop.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
