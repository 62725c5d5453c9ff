"""Stand-ins for the API server in unit tests: as little of it as the operator's shell needs."""

import asyncio
from collections.abc import Callable
from typing import Any

from gatewright_operator.api import Listing
from gatewright_operator.errors import AlreadyExists, ApiError, Conflict, NotFound
from gatewright_operator.resources import Resource

Object = dict[str, Any]


class FakeApi:
    """Objects with versions. `trouble` is asked before every call and may raise; `hang` makes calls wait for
    ever.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[Resource, str, str], Object] = {}
        self.version = 0
        self.calls: list[tuple[str, str]] = []
        self.trouble: Callable[[str], ApiError | None] = lambda verb: None
        self.hang = False

    async def _answer(self, verb: str, resource: Resource) -> None:
        self.calls.append((verb, resource.plural))
        if self.hang:
            await asyncio.Event().wait()
        error = self.trouble(verb)
        if error is not None:
            raise error
        # An answer never comes in the same turn of the loop.
        await asyncio.sleep(0)

    def store(self, resource: Resource, obj: Object) -> Object:
        """Put an object there, with the next version."""
        self.version += 1
        metadata = obj["metadata"] | {"resourceVersion": str(self.version)}
        stored = obj | {"metadata": metadata}
        self.objects[(resource, metadata.get("namespace", ""), metadata["name"])] = stored
        return stored

    async def get(self, resource: Resource, namespace: str, name: str, **_: Any) -> Object | None:
        await self._answer("get", resource)
        return self.objects.get((resource, namespace, name))

    async def create(self, resource: Resource, namespace: str, body: Object, **_: Any) -> Object:
        await self._answer("create", resource)
        if (resource, namespace, body["metadata"]["name"]) in self.objects:
            raise AlreadyExists("it exists", status=409)
        return self.store(resource, body)

    async def replace(self, resource: Resource, namespace: str, name: str, body: Object, **_: Any) -> Object:
        await self._answer("replace", resource)
        present = self.objects.get((resource, namespace, name))
        if present is None:
            raise NotFound("it is gone", status=404)
        if present["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise Conflict("it changed", status=409)
        return self.store(resource, body)

    async def metadata(self, resource: Resource, namespace: str | None, **_: Any) -> Listing:
        listed = await self.listing(resource, namespace)
        return Listing([{"metadata": item["metadata"]} for item in listed.items], listed.resource_version)

    async def listing(self, resource: Resource, namespace: str | None, **_: Any) -> Listing:
        await self._answer("list", resource)
        items = [
            obj for (kind, at, _), obj in self.objects.items() if kind == resource and namespace in (None, at)
        ]
        return Listing(items, str(self.version))
