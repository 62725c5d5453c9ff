"""One call to the API server, with an end: time-out, rate limit, log-in, and errors typed by consequence.

The official client does the log-in and the connections. Its generated classes are not used: they cost ten
times what reading the JSON does, and they repeat calls and choose content types by themselves.
"""

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any
from urllib.parse import urlencode, urlsplit

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.client.exceptions import ApiException

from gatewright_analysis.names import GROUP
from gatewright_operator.answers import error_from, no_answer, parse
from gatewright_operator.errors import ApiError, NotLeading
from gatewright_operator.login import LoginError
from gatewright_operator.metrics import Metrics
from gatewright_operator.resources import EVENTS, HTTPROUTES, LEASES, MUTATING_POLICIES, Resource
from gatewright_operator.throttle import TokenBucket

Object = dict[str, Any]

RELOGIN_SECONDS = 10.0
"""After a 401 the credentials are read anew, at most this often."""

METHODS = {
    "get": "GET",
    "list": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "apply": "PATCH",
    "delete": "DELETE",
}

_OPTIONAL_GROUPS = (GROUP, HTTPROUTES.group, MUTATING_POLICIES.group)
"""Groups that come with CRDs, or with newer servers only."""


class ListingExpired(ApiError):
    """The continue token of a listing is too old: start over."""

    def __init__(self) -> None:
        super().__init__("the continue token expired", status=410)


class Transport:
    """Calls to one API server.

    `timeout_seconds` bounds each call (of a listing: each page) as a whole; writes may wait for the rate
    limit before. `may_write` is asked before every write but a Lease's: False raises NotLeading and nothing
    is sent. `relogin` renews the credentials after a 401.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        relogin: Callable[[], Awaitable[None]] | None = None,
        timeout_seconds: float = 10.0,
        writes_per_second: float = 50.0,
        write_burst: int = 100,
        metrics: Metrics | None = None,
    ) -> None:
        # The client's own repeats would multiply the time-out and hide what happened.
        configuration.retries = None
        # As kubectl does: a proxy from the environment is not asked for what runs on this machine.
        configuration.client_session_kwargs = {"trust_env": not on_loopback(configuration.host)}
        self.configuration = configuration
        """Where the server is and how to log in there, as the official client puts it."""
        self._client = ApiClient(configuration)
        self._client.user_agent = "gatewright-operator"
        self._relogin = relogin
        self._relogin_at = float("-inf")
        self._timeout_seconds = timeout_seconds
        self._writes = TokenBucket(rate=writes_per_second, burst=write_burst)
        # Events are only news: they get a small rate of their own and never use up what effects need.
        self._events = TokenBucket(rate=10.0, burst=50)
        self._metrics = metrics or Metrics()
        self.may_write: Callable[[], bool] = lambda: True

    def new_session(self, *, listed: Callable[[str], None] | None = None) -> aiohttp.ClientSession:
        """Connections of their own to the same server, for the event loop that runs now, logged in as this
        is.

        The credentials are looked up for each request, so a token that is replaced needs no new session.
        `listed` is told the path of everything that was read by a GET that is not a watch.
        """

        async def authorise(
            request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
        ) -> aiohttp.ClientResponse:
            token = await self.configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
            if token:
                request.headers["Authorization"] = token
            response = await handler(request)
            read = request.method == "GET" and response.status == 200 and "watch" not in request.url.query
            if listed is not None and read:
                listed(request.url.path)
            return response

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._client.rest_client.ssl_context),
            headers={"User-Agent": self._client.user_agent},
            proxy=self.configuration.proxy or None,
            trust_env=not on_loopback(self.configuration.host),
            middlewares=(authorise,),
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()  # type: ignore[no-untyped-call]  # the client carries no types

    async def call(
        self,
        verb: str,
        resource: Resource,
        path: str,
        *,
        body: Object | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
        accept: str = "application/json",
    ) -> Object:
        """One call, and its answer; `verb` is one of `METHODS`, `accept` the form that the answer is wanted in."""
        if verb not in ("get", "list"):
            await self._admit(resource)
        seconds = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        code = "0"
        try:
            async with asyncio.timeout(seconds):
                status, retry_after, raw = await self._send(
                    METHODS[verb], path, query, body, content_type, accept
                )
            code = str(status)
            if status == 401:
                await self._login_again()
            if status >= 300:
                if verb == "list" and status == 410 and query and "continue" in query:
                    raise ListingExpired
                raise error_from(
                    status,
                    raw,
                    retry_after,
                    what=f"{verb} {path}",
                    creating=verb == "create",
                    always_served=resource.group not in _OPTIONAL_GROUPS,
                )
            return parse(raw, what=f"{verb} {path}")
        except TimeoutError as error:
            raise no_answer(f"{verb} {path}: no answer within {seconds:g} s") from error
        except (aiohttp.ClientError, OSError, ApiException) as error:
            raise no_answer(f"{verb} {path}: {type(error).__name__}: {error}") from error
        finally:
            self._metrics.api_calls.inc(verb=verb, resource=resource.plural, code=code)

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Object | None,
        content_type: str,
        accept: str,
    ) -> tuple[int, str | None, bytes]:
        _, url, headers, _, _ = await self._client.param_serialize(
            method, path, header_params={"Accept": accept}, auth_settings=["BearerToken"]
        )
        headers["Content-Type"] = content_type
        if query:
            url = f"{url}?{urlencode(query)}"
        # The client has a time-out of five minutes of its own unless it is given one; ours is around this
        # call.
        response = await self._client.call_api(
            method, url, headers, body, _request_timeout=aiohttp.ClientTimeout(total=None)
        )
        try:
            raw: bytes = await response.read()  # type: ignore[no-untyped-call]  # as above
            return response.status, response.headers.get("Retry-After"), raw
        finally:
            response.response.release()

    async def _admit(self, resource: Resource) -> None:
        """Before a write: wait for the rate limit, then make sure that this process may still write."""
        if resource == LEASES:
            return
        waited = await (self._events if resource == EVENTS else self._writes).take()
        if waited:
            self._metrics.api_wait.inc(waited)
        if not self.may_write():
            raise NotLeading("the Lease is not held (any more): nothing is written")

    async def _login_again(self) -> None:
        if self._relogin is None or monotonic() - self._relogin_at < RELOGIN_SECONDS:
            return
        self._relogin_at = monotonic()
        with suppress(LoginError):
            await self._relogin()


def on_loopback(server: str) -> bool:
    """Whether a server's URL names this machine."""
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
