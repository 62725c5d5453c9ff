"""What the page asks the API server: it reads objects, and has tokens and rights reviewed. It writes nothing."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

from gatewright_analysis.names import GROUP
from gatewright_cli.kube import Object, path
from gatewright_cli.server.access import Access

_SECONDS: Final = 10.0
_PAGE: Final = 500


class Absent(Exception):
    """There is no such object."""


class Trouble(Exception):
    """The API server did not answer, or refused the page itself; the message is a sentence for the viewer."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks, as the API server knows the token's owner."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Right:
    """One question of the kind `kubectl auth can-i`; an empty namespace means all of them."""

    verb: str
    resource: str
    namespace: str
    name: str = ""
    group: str = GROUP


class _Bearer(httpx.Auth):
    def __init__(self, access: Access) -> None:
        self._access = access

    def auth_flow(self, request: httpx.Request) -> Any:
        token = self._access.token()
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token}"
        yield request


class Cluster:
    """The API server, with the page's own rights."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    @classmethod
    def of(cls, access: Access) -> Self:
        limits = httpx.Limits(max_connections=16)
        return cls(
            httpx.AsyncClient(
                base_url=access.server,
                verify=access.tls,
                auth=_Bearer(access),
                timeout=_SECONDS,
                limits=limits,
                follow_redirects=False,
                trust_env=False,
                headers={"User-Agent": "gatewright-server", "Accept": "application/json"},
            )
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def ready(self) -> None:
        """Raises Trouble when the API server does not answer."""
        await self._call("GET", "/version")

    async def get(self, kind: str, namespace: str, name: str) -> Object:
        """Raises Absent and Trouble."""
        return await self._call("GET", path(kind, namespace, name))

    async def find(self, kind: str, namespace: str, name: str) -> Object | None:
        """The object, None where there is none. Raises Trouble."""
        try:
            return await self.get(kind, namespace, name)
        except Absent:
            return None

    async def every(self, kind: str, namespace: str | None, labels: str = "") -> list[Object]:
        """All objects of a kind, page by page; `namespace` None means all namespaces. Raises Absent and Trouble."""
        found: list[Object] = []
        more = ""
        while True:
            query = f"limit={_PAGE}" + (f"&labelSelector={quote(labels)}" if labels else "")
            answer = await self._call(
                "GET", path(kind, namespace, query=query + (f"&continue={quote(more)}" if more else ""))
            )
            found += answer.get("items") or []
            more = str((answer.get("metadata") or {}).get("continue") or "")
            if not more:
                return found

    async def who(self, token: str) -> Viewer | None:
        """The owner of a token, None when the API server does not accept it. Raises Trouble."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        answer = await self._call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body)
        status = answer.get("status") or {}
        user = status.get("user") or {}
        if not status.get("authenticated") or not user.get("username"):
            return None
        extra = {str(key): tuple(map(str, values)) for key, values in (user.get("extra") or {}).items()}
        return Viewer(
            str(user["username"]),
            str(user.get("uid") or ""),
            tuple(map(str, user.get("groups") or ())),
            tuple(sorted(extra.items())),
        )

    async def may(self, viewer: Viewer, right: Right) -> bool:
        """Whether the API server would let the viewer. Raises Trouble."""
        attributes = {"verb": right.verb, "group": right.group, "resource": right.resource}
        attributes |= {
            key: value for key, value in (("namespace", right.namespace), ("name", right.name)) if value
        }
        spec: dict[str, Any] = {
            "user": viewer.user,
            "groups": list(viewer.groups),
            "extra": {key: list(values) for key, values in viewer.extra},
            "resourceAttributes": attributes,
        }
        if viewer.uid:
            spec["uid"] = viewer.uid
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = await self._call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
        status = answer.get("status") or {}
        return status.get("allowed") is True and status.get("denied") is not True

    async def _call(self, method: str, url: str, body: Mapping[str, Any] | None = None) -> Object:
        try:
            answer = await self._client.request(method, url, json=body)
        except (httpx.HTTPError, OSError) as error:
            # Not the error's own words: they may quote what was sent.
            raise Trouble(
                f"The API server does not answer ({type(error).__name__}). Try again in a moment."
            ) from error
        if answer.status_code == 404:
            raise Absent(url)
        if answer.status_code in (401, 403):
            raise Trouble(
                "The API server refuses the page's own service account: its rights are those of the chart's "
                "ClusterRole gatewright-server."
            )
        if answer.status_code >= 400:
            raise Trouble(
                f"The API server answers with an error ({answer.status_code}). Try again in a moment."
            )
        try:
            parsed = answer.json()
        except json.JSONDecodeError as error:
            raise Trouble("What answers is no API server: it speaks no JSON.") from error
        if not isinstance(parsed, dict):
            raise Trouble("What answers is no API server: it gives no object.")
        return parsed
