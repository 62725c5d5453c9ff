"""Log lines: a constant message, and keys for the rest (`log.info("weight set", extra={"rollout": …,
"percent": 5})`)."""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Literal

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TextFormatter(logging.Formatter):
    """`2026-05-04T10:00:00.000Z INFO gatewright_operator.main leading identity=…`"""

    def format(self, record: logging.LogRecord) -> str:
        """One line, followed by the trace if there is one."""
        pairs = "".join(f" {key}={_text(value)}" for key, value in _extras(record).items())
        line = f"{_time(record)} {record.levelname} {record.name} {record.getMessage()}{pairs}"
        return f"{line}\n{trace}" if (trace := _trace(record)) else line


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON; values that JSON has no form for become text."""
        fields = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_extras(record),
        }
        if trace := _trace(record):
            fields["trace"] = trace
        return json.dumps(fields, default=str, ensure_ascii=False)


class Sparse(logging.Filter):
    """Lets a logger say something at most every `seconds`: while a server is away, each watch repeats itself
    for ever."""

    def __init__(self, seconds: float = 30.0) -> None:
        super().__init__()
        self._seconds = seconds
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this record is let through."""
        if record.created < self._last.get(record.name, float("-inf")) + self._seconds:
            return False
        self._last[record.name] = record.created
        return True


def configure(*, form: Literal["text", "json"], level: str) -> None:
    """Log to standard error; the libraries below us only when they warn."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    logging.getLogger("gatewright_operator").setLevel(level)
    logging.getLogger("gatewright_analysis").setLevel(level)
    # At DEBUG kopf prints whole bodies, and at INFO a line per event. Never below WARNING, whatever our own
    # level is.
    for library in ("kopf", "asyncio", "aiohttp", "kubernetes", "urllib3", "httpx"):
        logging.getLogger(library).setLevel(logging.WARNING)
    logging.getLogger("kopf._cogs.clients.watching").addFilter(Sparse())
    # We own the signals; kopf, in its thread, finds that worth a warning at each start.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _OWN and not key.startswith("_")}


def _text(value: object) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(c in text for c in ' "=\n\t') else text


def _time(record: logging.LogRecord) -> str:
    stamp = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return stamp.replace("+00:00", "Z")


def _trace(record: logging.LogRecord) -> str:
    return "".join(traceback.format_exception(*record.exc_info)).rstrip() if record.exc_info else ""
