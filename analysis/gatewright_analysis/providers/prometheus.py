"""Reads from a Prometheus-compatible API through prometheus-api-client, with every way to fail told apart."""

import threading
from typing import Final

from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from requests.auth import AuthBase
from requests.exceptions import RequestException
from urllib3.util.retry import Retry

from gatewright_analysis.evidence.question import Answer, Question
from gatewright_analysis.providers.answers import error_type, read_answer
from gatewright_analysis.providers.transport import (
    BoundedSession,
    context_of,
    fault_of_exception,
    fault_of_status,
)

MAX_BYTES: Final = 8 * 2**20


class PrometheusReader:
    """A MetricsReader for one address. Safe to share between threads: each gets a session of its own."""

    def __init__(
        self,
        address: str,
        *,
        timeout_seconds: float,
        auth: AuthBase | None = None,
        ca: bytes | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """`address` is the base URL; `ca` holds the PEM certificates to trust instead of the public ones.

        Raises ValueError when `ca` holds no certificate.
        """
        self._address = address.rstrip("/")
        self._timeout_seconds = timeout_seconds
        self._auth = auth
        self._ca = None if ca is None else context_of(ca)
        self._max_bytes = max_bytes
        self._local = threading.local()
        self._lock = threading.Lock()
        self._sessions: list[BoundedSession] = []

    @property
    def deadline_seconds(self) -> float:
        """A little more than the source's time-out: connecting has its own."""
        return self._timeout_seconds + 1.0

    def read(self, question: Question) -> Answer:
        """See `MetricsReader.read`."""
        client, session = self._connection()
        # The server is told when to stop as well; an explicit time makes a replay the same question.
        params = {"time": f"{question.time:.3f}", "timeout": f"{self._timeout_seconds:.3f}"}
        if question.lookback is not None:
            params["lookback_delta"] = f"{question.lookback:.3f}"
        try:
            client.custom_query(question.query, params=params)
        except PrometheusApiClientException:
            return fault_of_status(session.last.status_code, error_type(session.last.decoded))
        except RequestException as error:
            return fault_of_exception(error, self._timeout_seconds)
        return read_answer(question, session.last.decoded)

    def close(self) -> None:
        """See `MetricsReader.close`."""
        with self._lock:
            sessions, self._sessions = self._sessions, []
        for session in sessions:
            session.close()

    def _connection(self) -> tuple[PrometheusConnect, BoundedSession]:
        """This thread's client and the session under it."""
        own: tuple[PrometheusConnect, BoundedSession] | None = getattr(self._local, "own", None)
        if own is None:
            session = BoundedSession(
                self._address,
                timeout_seconds=self._timeout_seconds,
                max_bytes=self._max_bytes,
                auth=self._auth,
                ca=self._ca,
            )
            own = PrometheusConnect(self._address, session=session, retry=Retry(0), method="POST"), session
            self._local.own = own
            with self._lock:
                self._sessions.append(session)
        return own
