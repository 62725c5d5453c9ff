"""MetricSources as readers: address, login and CA put together, allowed namespaces honoured, faults counted."""

import base64
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from pydantic import ValidationError
from requests.auth import AuthBase

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.question import Answer, Question
from gatewright_analysis.kinds.source import Auth, MetricSource, SecretKey
from gatewright_analysis.providers.pool import ReaderPool
from gatewright_analysis.providers.prometheus import PrometheusReader
from gatewright_analysis.providers.transport import Bearer, basic
from gatewright_analysis.reasons import Reason
from gatewright_operator.api import Api
from gatewright_operator.cache import Cache
from gatewright_operator.errors import ApiError
from gatewright_operator.metrics import Metrics
from gatewright_operator.resources import METRIC_SOURCES, SECRETS

log = logging.getLogger(__name__)

Json = dict[str, Any]


NO_ANSWER = frozenset(
    (
        Reason.UNREACHABLE,
        Reason.TIMEOUT,
        Reason.SERVER_ERROR,
        Reason.TLS_ERROR,
        Reason.UNAUTHORIZED,
        Reason.REDIRECTED,
        Reason.NOT_JSON,
    )
)
"""Faults that speak of the source as a whole and not of a question."""


def _named(source: str, fault: Fault) -> Fault:
    known = source in fault.detail
    return fault if known else Fault(fault.reason, f"{fault.detail} (MetricSource {source})")


class _MissingSecret(Exception):
    """A Secret or its key is not there; the message says which."""


class Sources:
    """Readers by MetricSource name, connected at first use and anew when the source changes."""

    def __init__(self, api: Api, cache: Cache, metrics: Metrics, *, namespace: str) -> None:
        self._api = api
        self._cache = cache
        self._metrics = metrics
        self._namespace = namespace
        self._pool = ReaderPool()
        self._connected: dict[str, str] = {}
        self.on_fault: Callable[[str], None] = lambda name: None
        """Told the name of a source that gave no answer."""

    def get(self, name: str) -> MetricSource | None:
        """The source as it is now; None when it is missing or does not parse."""
        raw = self._cache.get(METRIC_SOURCES, "", name)
        if raw is None:
            return None
        try:
            return MetricSource.model_validate(raw)
        except ValidationError as error:
            log.warning("MetricSource does not parse", extra={"source": name, "error": str(error)})
            return None

    def forget(self, name: str) -> None:
        self._pool.forget(name)
        self._connected.pop(name, None)

    async def read_all(self, questions: Iterable[Question]) -> dict[Question, Answer]:
        """An answer to every question, when the slowest source has answered or run out of time."""
        answers: dict[Question, Answer] = {}
        async for _, of_one in self.read_each(questions):
            answers |= of_one
        return answers

    async def read_each(
        self, questions: Iterable[Question]
    ) -> AsyncIterator[tuple[str, dict[Question, Answer]]]:
        """(source, its answers) as they come in; one that can't be connected to answers with the fault that says why."""
        by_source: dict[str, list[Question]] = {}
        for question in questions:
            by_source.setdefault(question.source, []).append(question)
        reachable: list[Question] = []
        for name, asked in by_source.items():
            fault = await self._connect(name)
            if fault is None:
                reachable += asked
            else:
                yield name, self._counted(dict.fromkeys(asked, fault))
        async for answers in self._pool.read_each(reachable):
            yield next(iter(answers)).source, self._counted(answers)

    def _counted(self, answers: dict[Question, Answer]) -> dict[Question, Answer]:
        """Counts what went wrong, and names the source in it: a person who reads of it has to know which one."""
        for question, answer in answers.items():
            if isinstance(answer, Fault):
                self._metrics.provider_errors.inc(source=question.source, reason=answer.reason)
                if answer.reason in NO_ANSWER:
                    self.on_fault(question.source)
                if answer.reason in (Reason.UNAUTHORIZED, Reason.TLS_ERROR):
                    # A Secret may have been rotated: the next look reads it again.
                    self.forget(question.source)
        return {
            q: _named(q.source, answer) if isinstance(answer, Fault) else answer
            for q, answer in answers.items()
        }

    async def _connect(self, name: str) -> Fault | None:
        source = self.get(name)
        if source is None:
            return Fault(Reason.SOURCE_NOT_FOUND, f"MetricSource {name} does not exist")
        version = f"{source.metadata.uid}/{source.metadata.generation}"
        if self._connected.get(name) == version:
            return None
        spec = source.spec
        if spec.address is None:
            return Fault(Reason.SOURCE_KIND, f"MetricSource {name} holds result files and answers no queries")
        try:
            auth = await self._auth(spec.auth)
            ca = await self._secret(spec.ca) if spec.ca is not None else None
            reader = PrometheusReader(
                spec.address,
                timeout_seconds=spec.timeout.total_seconds(),
                auth=auth,
                ca=ca,
            )
        except (_MissingSecret, ValueError) as error:
            return Fault(Reason.SECRET_NOT_FOUND, f"MetricSource {name}: {error}")
        except ApiError as error:
            return Fault(
                Reason.UNREACHABLE, f"the Secret of MetricSource {name} cannot be read now: {error.reason}"
            )
        self._pool.use(name, reader)
        self._connected[name] = version
        return None

    async def _auth(self, auth: Auth | None) -> AuthBase | None:
        if auth is None:
            return None
        if auth.bearer is not None:
            return Bearer((await self._secret(auth.bearer)).decode().strip())
        if auth.basic is not None:
            user = (await self._secret(auth.basic.username)).decode().strip()
            password = (await self._secret(auth.basic.password)).decode().strip()
            return basic(user, password)
        return None

    async def _secret(self, reference: SecretKey) -> bytes:
        """A key of a Secret in the operator's own namespace: nowhere else are Secrets read."""
        raw = await self._api.get(SECRETS, self._namespace, reference.name)
        value = ((raw or {}).get("data") or {}).get(reference.key)
        if value is None:
            raise _MissingSecret(
                f"Secret {self._namespace}/{reference.name} has no key {reference.key}; create it"
            )
        return base64.b64decode(value)
