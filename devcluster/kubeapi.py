"""A small asynchronous client of the Kubernetes API on plain dicts, for the parts of the development cluster.

It reads a kubeconfig (client certificate or token), and offers get, list, create, replace, patch, delete
and a watch that never ends: it resumes where it was, lists again after 410 Gone, and tells what vanished.
Objects stay dicts because decoding a Pod into a class costs ten times what ``json.loads`` does.
"""

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import aiohttp

from devcluster.access import Access
from devcluster.api_errors import ApiError as ApiError
from devcluster.api_errors import Conflict as Conflict
from devcluster.api_errors import Gone as Gone
from devcluster.api_errors import NotFound as NotFound
from devcluster.api_errors import error_of
from devcluster.resources import Resource

log = logging.getLogger(__name__)

Json = dict[str, Any]
JsonList = list[Any]

WATCH_SECONDS = 290
WATCH_SILENCE_SECONDS = 150.0
"""A watch without a byte for this long is taken for dead: the server sends a bookmark about every minute."""

METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
"""Asks for objects without spec and status."""

PATCH_TYPES: Mapping[str, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True)
class WatchEvent:
    """What a watch tells: an object is new, changed or gone; ``SYNCED`` ends a listing and carries none."""

    kind: Literal["ADDED", "MODIFIED", "DELETED", "SYNCED"]
    object: Json


class KubeApi:
    """Calls to one API server; use it as ``async with KubeApi(access) as api``.

    Every call raises ApiError (NotFound, Conflict, Gone, or with ``status`` 0 when no answer came).
    """

    def __init__(
        self, access: Access, *, user_agent: str = "devcluster", timeout_seconds: float = 30.0
    ) -> None:
        self._access = access
        self._headers = {"User-Agent": user_agent}
        if access.token is not None:
            self._headers["Authorization"] = f"Bearer {access.token}"
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def from_kubeconfig(cls, path: Path, *, user_agent: str = "devcluster") -> Self:
        """A client for the current context of the kubeconfig at this path."""
        return cls(Access.from_kubeconfig(path), user_agent=user_agent)

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._access.ssl_context or True)
        self._session = aiohttp.ClientSession(
            self._access.server, connector=connector, headers=self._headers, timeout=self._timeout
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Json | JsonList | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Json:
        """One call to any path; the answer's JSON (``{"text": …}`` for what is not JSON, such as /readyz)."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": accept} | ({"Content-Type": content_type} if data is not None else {})
        try:
            async with self._open().request(
                method, path, params=params, data=data, headers=headers
            ) as response:
                raw = await response.read()
                if response.status >= 400:
                    raise error_of(response.status, raw)
                if response.content_type != "application/json":
                    return {"text": raw.decode(errors="replace")}
                answer: Json = json.loads(raw)
                return answer
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise ApiError(0, "NoAnswer", f"{method} {path}: {error!r}") from error

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
        """Read one object."""
        return await self.request("GET", resource.path(namespace, name))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> Json:
        """Read a collection; the whole list object, so that its resourceVersion is there too."""
        return await self.request(
            "GET", resource.path(namespace), params=_selectors(label_selector, field_selector)
        )

    async def create(
        self,
        resource: Resource,
        body: Json,
        namespace: str | None = None,
        *,
        name: str | None = None,
        subresource: str | None = None,
    ) -> Json:
        """Create an object, or POST to a subresource of ``name`` (binding, eviction)."""
        return await self.request("POST", resource.path(namespace, name, subresource), body=body)

    async def replace(
        self, resource: Resource, body: Json, namespace: str | None = None, *, subresource: str | None = None
    ) -> Json:
        """PUT an object; with its ``metadata.resourceVersion`` this is a compare-and-swap."""
        name = body["metadata"]["name"]
        return await self.request("PUT", resource.path(namespace, name, subresource), body=body)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Json | JsonList,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        kind: Literal["merge", "json", "strategic", "apply"] = "merge",
        params: Mapping[str, str] | None = None,
    ) -> Json:
        """Patch an object or its subresource; ``apply`` needs ``params={"fieldManager": …}``."""
        path = resource.path(namespace, name, subresource)
        return await self.request("PATCH", path, params=params, body=patch, content_type=PATCH_TYPES[kind])

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        grace_period_seconds: int | None = None,
        uid: str | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] | None = None,
    ) -> Json:
        """Delete an object; with ``uid`` only that very one (Conflict when another has its name by now)."""
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if propagation is not None:
            options["propagationPolicy"] = propagation
        return await self.request("DELETE", resource.path(namespace, name), body=options)

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        missing_ok: bool = False,
        metadata_only: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        """List and then follow a collection for ever.

        First everything that exists comes as ADDED, then one SYNCED, then the changes. Broken connections
        are resumed; after 410 Gone the collection is listed again, what vanished comes as DELETED, and
        another SYNCED follows. With ``missing_ok`` a kind that is not served yet counts as empty and is tried again
        each second; otherwise NotFound is raised, and so is any 401 or 403. With ``metadata_only`` the objects
        have nothing but their metadata.
        """
        known: dict[tuple[str, str], Json] = {}
        version: str | None = None
        failures = 0
        params = _selectors(label_selector, field_selector)
        whole = "application/json"
        list_accept, accept = (
            (METADATA.format("List"), METADATA.format("")) if metadata_only else (whole, whole)
        )
        while True:
            try:
                if version is None:
                    listing = await self.request(
                        "GET", resource.path(namespace), params=params, accept=list_accept
                    )
                    for event in _difference(known, listing.get("items") or []):
                        yield event
                    version = listing["metadata"]["resourceVersion"]
                    yield WatchEvent("SYNCED", {})
                await asyncio.sleep(0.01)  # a server that ends every watch at once must not be hammered
                async for kind, item in self._stream(resource.path(namespace), params, version, accept):
                    failures = 0
                    version = item["metadata"]["resourceVersion"]
                    if kind == "BOOKMARK":
                        continue
                    if kind == "DELETED":
                        known.pop(_key(item), None)
                        yield WatchEvent("DELETED", item)
                    else:
                        yield WatchEvent("MODIFIED" if _key(item) in known else "ADDED", item)
                        known[_key(item)] = item
            except Gone:
                version = None
            except ApiError as error:
                if error.status in (401, 403) or (error.status == 404 and not missing_ok):
                    raise
                if error.status == 404:
                    for event in _difference(known, []):
                        yield event
                    version = None
                    yield WatchEvent("SYNCED", {})
                    await asyncio.sleep(1.0)
                    continue
                failures += 1
                log.info("watch interrupted", extra={"path": resource.path(namespace), "error": str(error)})
                await asyncio.sleep(min(2.0, 0.05 * 2**failures) * random.uniform(0.5, 1.0))

    async def _stream(
        self, path: str, params: Mapping[str, str], version: str, accept: str
    ) -> AsyncIterator[tuple[str, Json]]:
        """The events of one watch request, until the server or the network ends it."""
        asked = {
            **params,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=WATCH_SILENCE_SECONDS)
        try:
            headers = {"Accept": accept}
            async with self._open().get(path, params=asked, headers=headers, timeout=timeout) as response:
                if response.status >= 400:
                    raise error_of(response.status, await response.read())
                rest = b""
                # Lines are cut by hand: the reader's own readline refuses objects above 128 KiB.
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            # Whatever it is that ended the watch, a fresh listing is the safe way on.
                            raise Gone(410, "Expired", str(event["object"].get("message", "")))
                        yield event["type"], event["object"]
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise ApiError(0, "NoAnswer", f"watch {path}: {error!r}") from error

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("use the client as `async with KubeApi(...) as api`")
        return self._session


def _selectors(label_selector: str | None, field_selector: str | None) -> dict[str, str]:
    params = {}
    if label_selector is not None:
        params["labelSelector"] = label_selector
    if field_selector is not None:
        params["fieldSelector"] = field_selector
    return params


def _key(item: Json) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _difference(known: dict[tuple[str, str], Json], items: list[Json]) -> list[WatchEvent]:
    """Bring ``known`` to the listed items and tell what that changed."""
    fresh = {_key(item): item for item in items}
    events = [WatchEvent("DELETED", known.pop(key)) for key in list(known) if key not in fresh]
    for key, item in fresh.items():
        before = known.get(key)
        known[key] = item
        if before is None:
            events.append(WatchEvent("ADDED", item))
        elif before["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
            events.append(WatchEvent("MODIFIED", item))
    return events
