"""The one door to the API server: plain dicts in and out, errors typed by consequence."""

import functools
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kubernetes.aio.client import Configuration

from gatewright_analysis.names import FIELD_MANAGER, GROUP
from gatewright_operator.errors import NotFound, Unavailable
from gatewright_operator.login import login
from gatewright_operator.resources import Resource
from gatewright_operator.transport import ListingExpired, Transport

Object = dict[str, Any]

CHUNK = 250
"""Objects per page of a listing: a page decodes in a few milliseconds, so the event loop is never held up."""
RESTARTED_LISTINGS = 2
"""How often a listing starts over when its continue token expires on the way."""

_MERGE = "application/merge-patch+json"
_APPLY = "application/apply-patch+yaml"
_JSON = "application/json"
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@dataclass(frozen=True)
class Listing:
    """All objects of a kind, and the resourceVersion at which they were so."""

    items: list[Object]
    resource_version: str


class Api(Transport):
    """Calls to one API server. Every method raises the errors of `errors.py`, and nothing else."""

    @classmethod
    async def connect(cls, kubeconfig: Path | None = None, **options: Any) -> Self:
        """An Api for the current context of a kubeconfig, or with None for the pod's own service account.

        `options` are those of `Transport`. Raises LoginError.
        """
        configuration = Configuration()
        await login(configuration, kubeconfig)
        relogin = functools.partial(login, configuration, kubeconfig)
        return cls(configuration, relogin=relogin if kubeconfig else None, **options)

    async def get(
        self, resource: Resource, namespace: str, name: str, *, timeout_seconds: float | None = None
    ) -> Object | None:
        """One object, or None when it (or its namespace, or its kind) is not there."""
        with suppress(NotFound):
            return await self.call(
                "get", resource, resource.path(namespace, name), timeout_seconds=timeout_seconds
            )
        return None

    async def list(
        self, resource: Resource, namespace: str | None, *, labels: str = "", fields: str = ""
    ) -> list[Object]:
        """All objects of one namespace (None: of all), filtered on the server by label and field
        selectors."""
        return (await self.listing(resource, namespace, labels=labels, fields=fields)).items

    async def metadata(self, resource: Resource, namespace: str | None, *, labels: str = "") -> Listing:
        """Like `listing`, without what the objects hold: for those that may hold a megabyte each."""
        return await self.listing(resource, namespace, labels=labels, accept=_METADATA)

    async def listing(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        labels: str = "",
        fields: str = "",
        accept: str = _JSON,
    ) -> Listing:
        """Like `list`, with the resourceVersion of the listing."""
        for _ in range(RESTARTED_LISTINGS):
            with suppress(ListingExpired):
                return await self._pages(resource, namespace, labels=labels, fields=fields, accept=accept)
        raise Unavailable(
            f"listing {resource}: the server's continue token expired again and again", status=410
        )

    async def create(
        self,
        resource: Resource,
        namespace: str,
        body: Object,
        *,
        dry_run: bool = False,
        timeout_seconds: float | None = None,
    ) -> Object:
        """Make an object; AlreadyExists when one of its name exists."""
        return await self.call(
            "create",
            resource,
            resource.path(namespace),
            body=body,
            query=_write_query(resource, dry_run),
            timeout_seconds=timeout_seconds,
        )

    async def replace(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Object,
        *,
        subresource: str = "",
        dry_run: bool = False,
        timeout_seconds: float | None = None,
    ) -> Object:
        """Write an object as a whole; with the resourceVersion in `body`, Conflict when it changed since."""
        return await self.call(
            "update",
            resource,
            resource.path(namespace, name, subresource),
            body=body,
            query=_write_query(resource, dry_run),
            timeout_seconds=timeout_seconds,
        )

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Object,
        *,
        subresource: str = "",
        resource_version: str | None = None,
        dry_run: bool = False,
    ) -> Object:
        """JSON merge patch (None deletes a field, a list replaces the list).

        With `resource_version`, Conflict when the object changed since; without, the last writer wins.
        """
        if resource_version is not None:
            body = {**body, "metadata": {**body.get("metadata", {}), "resourceVersion": resource_version}}
        return await self.call(
            "patch",
            resource,
            resource.path(namespace, name, subresource),
            body=body,
            query=_write_query(resource, dry_run),
            content_type=_MERGE,
        )

    async def apply(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Object,
        *,
        field_manager: str = FIELD_MANAGER,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Server-side apply; Conflict when another manager owns a field and `force` is not given."""
        query = {
            **_write_query(resource, dry_run),
            "fieldManager": field_manager,
            "force": "true" if force else "false",
        }
        return await self.call(
            "apply",
            resource,
            resource.path(namespace, name, subresource),
            body=body,
            query=query,
            content_type=_APPLY,
        )

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str = "Background",
    ) -> None:
        """Ask for an object's removal; one that is gone already is fine.

        With `uid` or `resource_version`, Conflict when it is another object, or has changed. The object may
        stay for a while (grace period, finalizers).
        """
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
            "preconditions": {key: value for key, value in preconditions.items() if value is not None},
        }
        with suppress(NotFound):
            await self.call("delete", resource, resource.path(namespace, name), body=body)

    async def _pages(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        labels: str,
        fields: str,
        accept: str,
    ) -> Listing:
        query = {"limit": str(CHUNK)}
        query |= {"labelSelector": labels} if labels else {}
        query |= {"fieldSelector": fields} if fields else {}
        items: list[Object] = []
        while True:
            page = await self.call("list", resource, resource.path(namespace), query=query, accept=accept)
            for item in page.get("items") or ():
                # Lists of built-in kinds leave these out of their items.
                items.append({"apiVersion": resource.api_version, "kind": resource.kind, **item})
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                return Listing(items, str(metadata.get("resourceVersion", "")))
            query["continue"] = metadata["continue"]


def _write_query(resource: Resource, dry_run: bool) -> dict[str, str]:
    query = {"fieldManager": FIELD_MANAGER}
    if resource.group == GROUP:
        # A status field that an older CRD does not know would be dropped without a word, a hold among them.
        query["fieldValidation"] = "Strict"
    return query | {"dryRun": "All"} if dry_run else query
