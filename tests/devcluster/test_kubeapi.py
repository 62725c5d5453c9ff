"""The client's watch against an API server that breaks off, forgets and comes back."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from devcluster.access import Access, KubeconfigError
from devcluster.kubeapi import ApiError, Conflict, Json, KubeApi, NotFound, WatchEvent
from devcluster.resources import HTTP_ROUTES, PODS

Answer = Callable[[web.Request], web.StreamResponse | None]


def pod(name: str, version: int) -> Json:
    """A pod as a listing has it."""
    return {"metadata": {"name": name, "namespace": "shop", "resourceVersion": str(version)}}


def listing(version: int, *pods: Json) -> web.Response:
    """A list answer."""
    return web.json_response({"metadata": {"resourceVersion": str(version)}, "items": list(pods)})


class Server:
    """Plays an API server: ``lists`` and ``watches`` are used up one after the other, the last watch stays open."""

    def __init__(self) -> None:
        self.lists: list[web.Response] = []
        self.watches: list[list[Json] | int] = []
        self.asked: list[str] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a list or a watch."""
        if "watch" not in request.query:
            self.asked.append("list")
            return self.lists.pop(0)
        self.asked.append(f"watch from {request.query['resourceVersion']}")
        step = self.watches.pop(0) if self.watches else None
        if isinstance(step, int):
            return web.json_response({"reason": "Expired", "message": "too old"}, status=step)
        response = web.StreamResponse()
        await response.prepare(request)
        for event in step or []:
            text = json.dumps(event).encode() + b"\n"
            # In two pieces, as a network may deliver it.
            await response.write(text[:7])
            await response.write(text[7:])
        if step is None:
            await asyncio.sleep(3600)
        return response


@asynccontextmanager
async def serving(server: Server) -> AsyncIterator[KubeApi]:
    """The client of this server."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    async with KubeApi(Access(f"http://{host}:{port}", None, None)) as api:
        yield api
    await runner.cleanup()


async def collect(api: KubeApi, count: int) -> list[str]:
    """The next events of a watch, as ``KIND name``."""
    seen: list[str] = []

    async def read() -> None:
        watch = api.watch(PODS)
        async for event in watch:
            seen.append(describe(event))
            if len(seen) == count:
                await watch.aclose()  # type: ignore[attr-defined]
                return

    async with asyncio.timeout(10):
        await read()
    return seen


def describe(event: WatchEvent) -> str:
    """``KIND name``."""
    return f"{event.kind} {event.object['metadata']['name']}" if event.object else event.kind


async def test_a_watch_lists_first_then_follows() -> None:
    server = Server()
    server.lists = [listing(5, pod("a", 3))]
    server.watches = [[{"type": "ADDED", "object": pod("b", 6)}, {"type": "DELETED", "object": pod("a", 7)}]]
    async with serving(server) as api:
        assert await collect(api, 4) == ["ADDED a", "SYNCED", "ADDED b", "DELETED a"]


async def test_a_watch_that_ends_goes_on_from_the_last_version_it_saw() -> None:
    server = Server()
    server.lists = [listing(5)]
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "40"}}}
    server.watches = [
        [{"type": "ADDED", "object": pod("a", 6)}, bookmark],
        [{"type": "MODIFIED", "object": pod("a", 41)}],
    ]
    async with serving(server) as api:
        assert await collect(api, 3) == ["SYNCED", "ADDED a", "MODIFIED a"]
    assert server.asked[:3] == ["list", "watch from 5", "watch from 40"]


@pytest.mark.parametrize("how", ["status", "event"])
async def test_after_410_it_lists_again_and_tells_what_vanished_meanwhile(how: str) -> None:
    server = Server()
    server.lists = [
        listing(5, pod("gone", 1), pod("same", 2), pod("new", 3)),
        listing(90, pod("same", 2), pod("new", 80)),
    ]
    error: Json = {"type": "ERROR", "object": {"code": 410, "message": "too old"}}
    server.watches = [410 if how == "status" else [error]]
    async with serving(server) as api:
        seen = await collect(api, 7)
    assert seen[3] == "SYNCED"
    assert seen[4:] == ["DELETED gone", "MODIFIED new", "SYNCED"]
    assert server.asked[:3] == ["list", "watch from 5", "list"]


async def test_a_server_error_is_tried_again_from_the_same_version() -> None:
    server = Server()
    server.lists = [listing(5)]
    server.watches = [500, 503, [{"type": "ADDED", "object": pod("a", 6)}]]
    async with serving(server) as api:
        assert await collect(api, 2) == ["SYNCED", "ADDED a"]
    assert server.asked[:4] == ["list", "watch from 5", "watch from 5", "watch from 5"]


async def test_a_kind_that_is_not_served_yet_is_empty_until_it_is() -> None:
    server = Server()
    server.lists = [web.json_response({"message": "no such kind"}, status=404), listing(5, pod("a", 3))]
    async with serving(server) as api:
        seen: list[str] = []
        async with asyncio.timeout(10):
            async for event in api.watch(HTTP_ROUTES, missing_ok=True):
                seen.append(describe(event))
                if len(seen) == 3:
                    break
    assert seen == ["SYNCED", "ADDED a", "SYNCED"]


async def test_a_watch_without_the_right_to_it_says_so() -> None:
    server = Server()
    server.lists = [web.json_response({"reason": "Forbidden", "message": "you may not"}, status=403)]
    async with serving(server) as api:
        with pytest.raises(ApiError, match="403 Forbidden: you may not"):
            await collect(api, 1)


@pytest.mark.parametrize(("status", "kind"), [(404, NotFound), (409, Conflict), (422, ApiError)])
async def test_an_error_has_the_type_that_says_what_to_do(status: int, kind: type[ApiError]) -> None:
    server = Server()
    server.lists = [web.json_response({"reason": "R", "message": "M"}, status=status)]
    async with serving(server) as api:
        with pytest.raises(kind) as caught:
            await api.get(PODS, "a", "shop")
    assert (caught.value.status, caught.value.reason, caught.value.message) == (status, "R", "M")


async def test_no_answer_at_all_is_status_zero() -> None:
    async with KubeApi(Access("http://127.0.0.1:9", None, None)) as api:
        with pytest.raises(ApiError) as caught:
            await api.get(PODS, "a", "shop")
    assert caught.value.status == 0


def kubeconfig(path: Path, user: Json) -> Path:
    """A kubeconfig with this user."""
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def test_a_kubeconfig_with_a_token_is_read(tmp_path: Path) -> None:
    access = Access.from_kubeconfig(kubeconfig(tmp_path / "config", {"token": "t"}))
    assert (access.server, access.token) == ("http://127.0.0.1:9", "t")


def test_a_kubeconfig_that_runs_a_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="login commands are not run here"):
        Access.from_kubeconfig(kubeconfig(tmp_path / "config", {"exec": {"command": "login"}}))


@pytest.mark.parametrize("text", ["", "a: b", "{"])
def test_a_file_that_is_no_kubeconfig_is_named_in_the_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(KubeconfigError, match=str(tmp_path / "config")):
        Access.from_kubeconfig(tmp_path / "config")
