"""What every request passes: methods that are refused, and headers that keep a browser from doing more than show."""

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

WRITABLE: Final = frozenset(("/sign-in", "/sign-out"))
"""Where POST is taken: it opens and ends a session here, and touches no object of the cluster."""
HEADERS: Final = {
    # No script at all, nothing from anywhere else, in no frame; forms go back here.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class Door:
    """GET and HEAD everywhere, POST at the two forms of the session; all else is 405, before anything is looked at."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        allowed = methods(scope["path"])
        if scope["method"] not in allowed:
            said = "This page only shows. Decide by the commands that it gives.\n"
            refused = PlainTextResponse(said, 405, headers={"Allow": ", ".join(allowed)})
            await refused(scope, receive, sending)
            return
        await self._app(scope, receive, sending)


def methods(path: str) -> tuple[str, ...]:
    """Those that are taken at a path."""
    if path == "/sign-out":
        return ("POST",)
    return ("GET", "HEAD", "POST") if path in WRITABLE else ("GET", "HEAD")
