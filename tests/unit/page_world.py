"""An API server of a few objects for the review page: it answers reads and reviews, and remembers every request."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from gatewright_cli.server.app import Site
from gatewright_cli.server.cluster import Cluster

Object = dict[str, Any]
Rule = Callable[[Object], bool]


def everything(_: Object) -> bool:
    return True


@dataclass
class World:
    """`may` answers an access review by its resourceAttributes; `down` makes every answer an error."""

    objects: list[Object] = field(default_factory=list)
    tokens: dict[str, str] = field(default_factory=lambda: {"good": "oncall"})
    may: Rule = everything
    down: bool = False
    asked: list[tuple[str, str]] = field(default_factory=list)
    reviewed: list[Object] = field(default_factory=list)

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append((request.method, request.url.path))
        if self.down:
            raise httpx.ConnectError("refused")
        if request.method == "POST":
            return httpx.Response(201, json={"status": self._review(json.loads(request.content))})
        if request.url.path == "/version":
            return httpx.Response(200, json={"major": "1"})
        return self._read(request.url.path)

    def _review(self, body: Object) -> Object:
        self.reviewed.append(body)
        if body["kind"] == "TokenReview":
            name = self.tokens.get(body["spec"]["token"])
            return {"authenticated": False} if name is None else {"authenticated": True, "user": {
                "username": name, "uid": "u1", "groups": ["oncall"], "extra": {"scopes": ["a", "b"]}}}  # fmt: skip
        return {"allowed": self.may(body["spec"]["resourceAttributes"])}

    def _read(self, path: str) -> httpx.Response:
        parts = path.split("/")
        namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts else None
        rest = parts[parts.index("namespaces") + 2 :] if namespace else parts[-1:]
        kind = {"configmaps": "ConfigMap", "gatecontracts": "GateContract", "gateruns": "GateRun",
                "rollouts": "Rollout", "gatereviews": "GateReview", "gateorders": "GateOrder"}[rest[0]]  # fmt: skip
        found = [
            each
            for each in self.objects
            if each["kind"] == kind and namespace in (None, each["metadata"]["namespace"])
        ]
        if len(rest) == 1:
            return httpx.Response(200, json={"items": found, "metadata": {}})
        named = [each for each in found if each["metadata"]["name"] == rest[1]]
        return httpx.Response(200, json=named[0]) if named else httpx.Response(404, json={"kind": "Status"})

    def site(self, *namespaces: str) -> httpx.AsyncClient:
        """A client of the page, at an https address so that cookies are kept."""
        client = httpx.AsyncClient(transport=httpx.MockTransport(self.answer), base_url="https://api.invalid")
        app = Site(Cluster(client), namespaces).app()
        return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="https://page.invalid")
