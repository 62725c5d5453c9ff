"""The routes: the queue, a page per HOLD, signing in and out, and whether the process is well."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qs, quote

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from gatewright_cli.server import views
from gatewright_cli.server.cluster import Absent, Cluster, Trouble, Viewer
from gatewright_cli.server.door import Door
from gatewright_cli.server.pages import page, style
from gatewright_cli.server.reading import Held, Reading
from gatewright_cli.server.rights import Rights
from gatewright_cli.server.sessions import MAX_TOKEN, Seal, Sessions

SESSION_COOKIE: Final = "__Host-gatewright"
FORM_COOKIE: Final = "__Host-gatewright-form"
"""The prefix makes a browser insist on Secure, on Path=/ and on this very host."""
_LABEL: Final = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NAMESPACE: Final = re.compile(_LABEL)
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_NEXT: Final = re.compile(rf"/|/holds|/holds/{_LABEL}/[a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?")
_MAX_FORM: Final = 2 * MAX_TOKEN
_NOT_ACCEPTED: Final = (
    "The API server does not accept this token: it may have ended, or be of another cluster."
)

Showing = Callable[[Request, Viewer, str | None], Awaitable[Response]]


class Site:
    """One page server: what it reads from, and who is signed in."""

    def __init__(self, cluster: Cluster, namespaces: tuple[str, ...] = ()) -> None:
        self._cluster = cluster
        self._rights = Rights(cluster)
        self._reading = Reading(cluster, self._rights, namespaces)
        self._sessions = Sessions()
        self._seal = Seal()

    def app(self) -> Starlette:
        routes = [
            Route("/", self._to_viewer(self._queue)),
            Route("/holds", self._to_viewer(self._queue)),
            Route("/holds/{namespace}/{name}", self._to_viewer(self._hold)),
            Route("/sign-in", self._sign_in, methods=["GET", "POST"]),
            Route("/sign-out", self._sign_out, methods=["POST"]),
            Route("/page.css", self._style),
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
        ]
        return Starlette(
            routes=routes,
            middleware=[Middleware(Door)],
            lifespan=self._living,
            exception_handlers={404: self._unknown, Trouble: self._trouble, Absent: self._unknown},
        )

    @asynccontextmanager
    async def _living(self, _: Starlette) -> AsyncIterator[None]:
        yield
        await self._cluster.close()

    def _to_viewer(self, show: Showing) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            bearer = _bearer(request)
            session = request.cookies.get(SESSION_COOKIE, "")
            token = bearer if bearer is not None else self._sessions.token(session)
            if token is None:
                return self._nobody(request)
            viewer = await self._rights.who(token) if 0 < len(token) <= MAX_TOKEN else None
            if viewer is None and bearer is not None:
                headers = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
                return PlainTextResponse(f"{_NOT_ACCEPTED}\n", 401, headers=headers)
            if viewer is None:
                self._sessions.end(session)
                return self._form(request.url.path, 401, _NOT_ACCEPTED)
            leave = None if bearer is not None else self._seal.of(session)
            return await show(request, viewer, leave)

        return endpoint

    def _nobody(self, request: Request) -> Response:
        # A browser keeps our cookie back where another site's link led here, as in a chat's message: once more, from here.
        if request.headers.get("sec-fetch-site") == "cross-site":
            return page("again.html", target=_next(request.url.path))
        if "text/html" not in request.headers.get("accept", "text/html"):
            said = "Send a token that the API server accepts: Authorization: Bearer TOKEN.\n"
            return PlainTextResponse(said, 401, headers={"WWW-Authenticate": "Bearer"})
        return RedirectResponse(f"/sign-in?next={quote(request.url.path)}", 303)

    async def _queue(self, _: Request, viewer: Viewer, leave: str | None) -> Response:
        found, now = await self._reading.queue(viewer), datetime.now(UTC)
        rows = [views.row(rollout, may, viewer.user, now) for rollout, may in found]
        return page("queue.html", viewer=viewer.user, leave=leave, rows=rows, count=views.oldest(found, now))

    async def _hold(self, request: Request, viewer: Viewer, leave: str | None) -> Response:
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        if not (_NAMESPACE.fullmatch(namespace) and _NAME.fullmatch(name)):
            raise Absent(name)
        try:
            found = await self._reading.hold(viewer, namespace, name)
        except Absent:
            return page("unknown.html", 404, viewer=viewer.user, leave=leave)
        now = datetime.now(UTC)
        if isinstance(found, Held):
            return page(
                "hold.html", viewer=viewer.user, leave=leave, **views.hold_page(found, viewer.user, now)
            )
        return page("over.html", viewer=viewer.user, leave=leave, **views.over_page(found, now))

    async def _sign_in(self, request: Request) -> Response:
        if request.method != "POST":
            return self._form(request.query_params.get("next", "/"))
        fields = await _fields(request)
        target = _next(fields.get("next", "/"))
        if not self._ours(request, FORM_COOKIE, fields):
            return self._form(
                target, 403, "This form was not sent from this page, or is too old. Send it again."
            )
        token = fields.get("token", "").strip().removeprefix("Bearer ").strip()
        if not token or len(token) > MAX_TOKEN or await self._rights.who(token) is None:
            return self._form(target, 401, _NOT_ACCEPTED)
        answer = RedirectResponse(target, 303)
        _set(answer, SESSION_COOKIE, self._sessions.start(token))
        answer.delete_cookie(FORM_COOKIE, path="/", secure=True, httponly=True, samesite="strict")
        return answer

    async def _sign_out(self, request: Request) -> Response:
        if not self._ours(request, SESSION_COOKIE, await _fields(request)):
            return page(
                "error.html", 403, sentence="This form was not sent from this page: you are still signed in."
            )
        self._sessions.end(request.cookies[SESSION_COOKIE])
        answer = RedirectResponse("/sign-in", 303)
        answer.delete_cookie(SESSION_COOKIE, path="/", secure=True, httponly=True, samesite="strict")
        return answer

    def _ours(self, request: Request, cookie: str, fields: dict[str, str]) -> bool:
        """Whether a form came from a page that we gave to this very browser."""
        site = request.headers.get("sec-fetch-site", "same-origin")
        return site == "same-origin" and self._seal.fits(
            request.cookies.get(cookie, ""), fields.get("seal", "")
        )

    def _form(self, target: str, status: int = 200, problem: str = "") -> Response:
        nonce = Sessions.number()
        answer = page(
            "sign_in.html", status, seal=self._seal.of(nonce), target=_next(target), problem=problem
        )
        _set(answer, FORM_COOKIE, nonce)
        return answer

    async def _style(self, _: Request) -> Response:
        return Response(style(), media_type="text/css")

    async def _healthz(self, _: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _readyz(self, _: Request) -> Response:
        try:
            await self._cluster.ready()
        except (Trouble, Absent) as error:
            return PlainTextResponse(f"{error}\n", 503)
        return PlainTextResponse("ok\n")

    async def _unknown(self, _: Request, __: Exception) -> Response:
        return page("unknown.html", 404)

    async def _trouble(self, _: Request, error: Exception) -> Response:
        return page("error.html", 503, sentence=str(error))


def _bearer(request: Request) -> str | None:
    """The token of the Authorization header, None without that header; empty for another scheme."""
    header = request.headers.get("authorization")
    if header is None:
        return None
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _next(target: str) -> str:
    """Where to go after signing in: a page of ours, never what a link may have smuggled in."""
    return target if _NEXT.fullmatch(target) else "/"


async def _fields(request: Request) -> dict[str, str]:
    """The first value of each field; none for a body that is too long to be one of our forms."""
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > _MAX_FORM:
                return {}
        found = parse_qs(body.decode("utf-8"), max_num_fields=8)
    except (ClientDisconnect, ValueError):
        return {}
    return {key: values[0] for key, values in found.items()}


def _set(answer: Response, name: str, value: str) -> None:
    """Until the browser is closed."""
    answer.set_cookie(name, value, path="/", secure=True, httponly=True, samesite="strict")
