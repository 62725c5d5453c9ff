"""Every way in which an API server, or what stands before it, can answer badly: typed, bounded, and never
taken for a fact.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from gatewright_operator.api import Api
from gatewright_operator.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    NotLeading,
    Refused,
    Unavailable,
)
from gatewright_operator.login import LoginError
from gatewright_operator.metrics import Metrics
from gatewright_operator.resources import CONFIGMAPS, DEPLOYMENTS, HTTPROUTES, LEASES, ROLLOUTS

Object = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """A local server whose answer each test chooses; it keeps what it was asked."""

    def __init__(self) -> None:
        self.answer: Handler | None = None
        self.asked: list[tuple[str, str, dict[str, str], dict[str, str], Any]] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = json.loads(raw) if raw else None
        self.asked.append((request.method, request.path, dict(request.query), dict(request.headers), body))
        assert self.answer is not None
        return await self.answer(request)

    def says(self, status: int, body: str | Object, **headers: str) -> None:
        """Answer everything so."""
        text = body if isinstance(body, str) else json.dumps(body)
        kind = "text/html" if isinstance(body, str) else "application/json"

        async def answer(_: web.Request) -> web.StreamResponse:
            return web.Response(status=status, text=text, content_type=kind, headers=headers)

        self.answer = answer


def refusal(code: int, reason: str, message: str, **details: Any) -> Object:
    """A Status object, as a real API server sends it."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": code,
    }


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    handler = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    handler.port = runner.addresses[0][1]  # type: ignore[attr-defined]
    yield handler
    await runner.cleanup()


def kubeconfig(path: Path, server: str, token: str = "t0k3n") -> Path:
    """A kubeconfig with a token."""
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": server}}],
                "users": [{"name": "u", "user": {"token": token}}],
            }
        )
    )
    return path


@pytest.fixture
async def api(server: Server, tmp_path: Path) -> AsyncIterator[Api]:
    address = f"http://127.0.0.1:{server.port}"  # type: ignore[attr-defined]
    api = await Api.connect(kubeconfig(tmp_path / "k", address), timeout_seconds=1.0, metrics=Metrics())
    yield api
    await api.close()


async def read(api: Api) -> Object | None:
    """The call that most tests make."""
    return await api.get(DEPLOYMENTS, "shop", "checkout")


async def test_a_server_that_hangs_is_unavailable_after_the_time_out(server: Server, api: Api) -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.Response()

    server.answer = hang
    started = time.monotonic()
    with pytest.raises(Unavailable, match="no answer within 1 s"):
        await read(api)
    assert time.monotonic() - started < 3
    assert len(server.asked) == 1, "the client repeated the call by itself"


async def test_a_server_that_hangs_in_the_middle_of_an_answer_is_unavailable_too(
    server: Server, api: Api
) -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"kind": "Deploy')
        await asyncio.sleep(30)
        return response

    server.answer = half
    with pytest.raises(Unavailable, match="no answer within"):
        await read(api)


async def test_an_answer_that_breaks_off_is_unavailable(server: Server, api: Api) -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"kind": "Deploy')
        assert request.transport is not None
        request.transport.close()
        return response

    server.answer = broken
    with pytest.raises(Unavailable):
        await read(api)


async def test_nobody_there_is_unavailable(tmp_path: Path, unused_port: int) -> None:
    api = await Api.connect(kubeconfig(tmp_path / "k2", f"http://127.0.0.1:{unused_port}"))
    with pytest.raises(Unavailable, match="ClientConnectorError"):
        await read(api)
    await api.close()


@pytest.fixture
async def unused_port() -> int:
    """A port on which nobody listens (a moment ago somebody did)."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


@pytest.mark.parametrize("status", [408, 410, 500, 502, 503, 504])
async def test_server_errors_are_unavailable_with_the_servers_own_words(
    server: Server, api: Api, status: int
) -> None:
    server.says(status, refusal(status, "InternalError", "etcdserver: request timed out"))
    with pytest.raises(Unavailable, match="etcdserver: request timed out") as caught:
        await read(api)
    assert caught.value.status == status


async def test_too_many_requests_say_when_to_come_again(server: Server, api: Api) -> None:
    server.says(429, refusal(429, "TooManyRequests", "slow down"), **{"Retry-After": "7"})
    with pytest.raises(Unavailable) as caught:
        await read(api)
    assert caught.value.retry_after_seconds == 7.0


@pytest.mark.parametrize(
    ("status", "reason"),
    [(400, "BadRequest"), (403, "Forbidden"), (413, "RequestEntityTooLarge"), (422, "Invalid")],
)
async def test_a_refusal_carries_the_servers_own_sentence(
    server: Server, api: Api, status: int, reason: str
) -> None:
    server.says(status, refusal(status, reason, "ask an SRE", causes=[{"reason": "NamespaceTerminating"}]))
    with pytest.raises(Refused, match=r"^ask an SRE$") as caught:
        await api.create(CONFIGMAPS, "shop", {"metadata": {"name": "x"}})
    assert (caught.value.status, caught.value.reason) == (status, reason)
    assert caught.value.causes == ("NamespaceTerminating",)


async def test_a_conflict_and_an_object_that_exists_are_told_apart(server: Server, api: Api) -> None:
    server.says(409, refusal(409, "AlreadyExists", "it exists"))
    with pytest.raises(AlreadyExists):
        await api.create(CONFIGMAPS, "shop", {"metadata": {"name": "x"}})
    server.says(409, refusal(409, "Conflict", "it changed"))
    with pytest.raises(Conflict) as caught:
        await api.create(CONFIGMAPS, "shop", {"metadata": {"name": "x"}})
    assert not isinstance(caught.value, AlreadyExists)


async def test_only_the_api_server_can_say_that_something_is_not_there(server: Server, api: Api) -> None:
    server.says(404, refusal(404, "NotFound", 'deployments.apps "checkout" not found'))
    assert await read(api) is None
    await api.delete(DEPLOYMENTS, "shop", "checkout")

    for page in ("<html>no such site</html>", "404 page not found"):
        server.says(404, page)
        with pytest.raises(Unavailable, match="not the API server's"):
            await read(api)


async def test_a_kind_that_is_not_installed_is_not_found(server: Server, api: Api) -> None:
    server.says(404, "404 page not found\n")
    assert await api.get(HTTPROUTES, "shop", "checkout") is None
    with pytest.raises(NotFound, match="does not have this kind"):
        await api.list(ROLLOUTS, None)


@pytest.mark.parametrize("body", ["<html>log in first</html>", "", '["a list"]', '"text"', "null"])
async def test_a_proxys_page_with_status_200_is_no_answer(server: Server, api: Api, body: str) -> None:
    server.says(200, body)
    with pytest.raises(Unavailable):
        await read(api)


@pytest.mark.parametrize("status", [302, 403, 409, 422])
async def test_a_proxys_page_with_any_status_is_no_refusal(server: Server, api: Api, status: int) -> None:
    server.says(status, "<html>computer says no</html>")
    with pytest.raises(Unavailable, match="not the API server's"):
        await api.replace(DEPLOYMENTS, "shop", "checkout", {})


async def test_no_error_shows_more_than_an_excerpt_of_a_page(server: Server, api: Api) -> None:
    server.says(200, "x" * 100_000)
    with pytest.raises(Unavailable) as caught:
        await read(api)
    assert len(str(caught.value)) < 500


async def test_a_token_that_ran_out_is_read_anew(server: Server, tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{server.port}"  # type: ignore[attr-defined]
    path = kubeconfig(tmp_path / "k3", address, token="old")
    api = await Api.connect(path)

    async def guarded(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization", "").endswith("new"):
            return web.json_response({"kind": "Deployment"})
        return web.json_response(refusal(401, "Unauthorized", "Unauthorized"), status=401)

    server.answer = guarded
    kubeconfig(path, address, token="new")
    with pytest.raises(Unavailable, match="Unauthorized"):
        await read(api)
    assert await read(api) == {"kind": "Deployment"}
    await api.close()


async def test_a_listing_whose_continue_token_expires_starts_over(server: Server, api: Api) -> None:
    pages = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal pages
        pages += 1
        if "continue" not in request.query:
            return web.json_response(
                {
                    "metadata": {"continue": "c", "resourceVersion": "9"},
                    "items": [{"metadata": {"name": "a"}}],
                }
            )
        if pages == 2:
            return web.json_response(refusal(410, "Expired", "too old"), status=410)
        return web.json_response(
            {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "b"}}]}
        )

    server.answer = answer
    listing = await api.listing(DEPLOYMENTS, "shop")
    assert [item["metadata"]["name"] for item in listing.items] == ["a", "b"]
    assert listing.items[0]["kind"] == "Deployment"
    assert listing.items[0]["apiVersion"] == "apps/v1"
    assert listing.resource_version == "9"


async def test_a_listing_whose_continue_token_always_expires_ends(server: Server, api: Api) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if "continue" not in request.query:
            return web.json_response({"metadata": {"continue": "c"}, "items": []})
        return web.json_response(refusal(410, "Expired", "too old"), status=410)

    server.answer = answer
    with pytest.raises(Unavailable, match="again and again"):
        await api.list(DEPLOYMENTS, None)


async def test_each_write_says_what_it_is(server: Server, api: Api) -> None:
    server.says(200, {"kind": "Deployment"})
    body = {"metadata": {"name": "checkout"}}
    await api.create(DEPLOYMENTS, "shop", body, dry_run=True)
    await api.replace(DEPLOYMENTS, "shop", "checkout", body, subresource="scale")
    await api.patch(DEPLOYMENTS, "shop", "checkout", {"spec": None}, resource_version="7")
    await api.apply(DEPLOYMENTS, "shop", "checkout", body, field_manager="gatewright-x", force=True)
    await api.delete(DEPLOYMENTS, "shop", "checkout", uid="u", resource_version="8")
    at = "/apis/apps/v1/namespaces/shop/deployments"
    assert [(method, path) for method, path, *_ in server.asked] == [
        ("POST", at),
        ("PUT", f"{at}/checkout/scale"),
        ("PATCH", f"{at}/checkout"),
        ("PATCH", f"{at}/checkout"),
        ("DELETE", f"{at}/checkout"),
    ]
    created, _, patched, applied, deleted = server.asked
    assert created[2] == {"fieldManager": "gatewright", "dryRun": "All"}
    assert patched[3]["Content-Type"] == "application/merge-patch+json"
    assert patched[4] == {"spec": None, "metadata": {"resourceVersion": "7"}}
    assert applied[3]["Content-Type"] == "application/apply-patch+yaml"
    assert applied[2] == {"fieldManager": "gatewright-x", "force": "true"}
    assert deleted[4]["preconditions"] == {"uid": "u", "resourceVersion": "8"}
    assert deleted[4]["propagationPolicy"] == "Background"
    assert created[3]["Authorization"] == "Bearer t0k3n"


async def test_unknown_fields_of_our_own_kinds_are_never_dropped_without_a_word(
    server: Server, api: Api
) -> None:
    server.says(200, {"kind": "Rollout"})
    await api.replace(ROLLOUTS, "shop", "checkout", {}, subresource="status")
    assert server.asked[0][2]["fieldValidation"] == "Strict"


async def test_without_the_lease_nothing_but_the_lease_is_written(server: Server, api: Api) -> None:
    server.says(200, {"kind": "Whatever"})
    api.may_write = lambda: False
    writes: list[Awaitable[object]] = [
        api.create(CONFIGMAPS, "shop", {}),
        api.replace(CONFIGMAPS, "shop", "x", {}),
        api.patch(CONFIGMAPS, "shop", "x", {}),
        api.apply(CONFIGMAPS, "shop", "x", {}),
        api.delete(CONFIGMAPS, "shop", "x"),
    ]
    for write in writes:
        with pytest.raises(NotLeading):
            await write
    assert server.asked == []
    await read(api)
    await api.replace(LEASES, "gatewright-system", "gatewright", {})
    assert len(server.asked) == 2


async def test_writes_wait_for_the_rate_limit_and_reads_do_not(server: Server, tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{server.port}"  # type: ignore[attr-defined]
    server.says(200, {"kind": "ConfigMap"})
    slow = await Api.connect(kubeconfig(tmp_path / "k4", address), writes_per_second=20, write_burst=1)
    started = time.monotonic()
    for _ in range(5):
        await slow.patch(CONFIGMAPS, "shop", "x", {})
    assert time.monotonic() - started >= 4 / 20
    await slow.close()


async def test_calls_are_counted_by_what_became_of_them(server: Server, tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{server.port}"  # type: ignore[attr-defined]
    metrics = Metrics()
    api = await Api.connect(kubeconfig(tmp_path / "k5", address), metrics=metrics)
    server.says(200, {"kind": "Deployment"})
    await read(api)
    server.says(503, refusal(503, "ServiceUnavailable", "not now"))
    with pytest.raises(Unavailable):
        await read(api)
    await api.close()
    assert metrics.api_calls.value(verb="get", resource="deployments", code="200") == 1
    assert metrics.api_calls.value(verb="get", resource="deployments", code="503") == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no kubeconfig"),
        ("not: a kubeconfig", "cannot log in"),
        ("{", "cannot log in"),
        ("- a list", "cannot log in"),
    ],
)
async def test_a_kubeconfig_that_is_none_is_told_of_in_a_sentence(
    tmp_path: Path, content: str | None, said: str
) -> None:
    path = tmp_path / "odd"
    if content is not None:
        path.write_text(content)
    with pytest.raises(LoginError, match=said):
        await Api.connect(path)


async def test_a_kubeconfig_without_credentials_is_refused_instead_of_being_nobody(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "anonymous", "http://127.0.0.1:1")
    config = yaml.safe_load(path.read_text())
    config["users"][0]["user"] = {}
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(LoginError, match="neither a token nor a client certificate"):
        await Api.connect(path)


async def test_every_error_is_one_of_the_tree() -> None:
    for kind in (AlreadyExists, Conflict, NotFound, Refused, Unavailable, NotLeading):
        assert issubclass(kind, ApiError)
    assert issubclass(NotLeading, Unavailable)
