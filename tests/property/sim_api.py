"""An API server in memory: as much of the real one as the operator's core can tell the difference.

Compare-and-swap by resourceVersion, merge patch, generation, status subresource, finalizers, preconditions, dry run,
watches with label selectors. Stored objects are never changed in place, so a copy of the whole server is cheap.
"""

import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from gatewright_analysis.kinds.base import format_time
from gatewright_analysis.names import FIELD_MANAGER
from gatewright_operator.api import Listing
from gatewright_operator.errors import AlreadyExists, Conflict, NotFound, Refused
from gatewright_operator.resources import (
    CONFIGMAPS,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    HTTPROUTES,
    NAMESPACES,
    SELF_SUBJECT_REVIEWS,
    SERVICES,
    SUBJECT_ACCESS_REVIEWS,
    Resource,
)

Object = dict[str, Any]
Ref = tuple[Resource, str, str]

OPERATOR = "operator"
_NO_STATUS = (CONFIGMAPS, CONTROLLER_REVISIONS, SERVICES)
_WRITERS_SHOWN = (HTTPROUTES, SERVICES)


@dataclass(frozen=True)
class Change:
    """One write that went through. `before` is None for a create, `after` None for an object that is gone."""

    actor: str
    verb: str
    resource: Resource
    before: Object | None
    after: Object | None

    @property
    def name(self) -> str:
        obj = self.after or self.before
        assert obj is not None
        return str(obj["metadata"]["name"])


def merged(obj: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(obj) if isinstance(obj, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def labels_match(labels: dict[str, str], selector: str) -> bool:
    """`a=b`, `a` and `a in (b,c)`, joined by commas: the forms that the operator uses."""
    if " in (" in selector:
        name, _, values = selector.partition(" in (")
        return labels.get(name) in values.rstrip(")").split(",")
    for term in filter(None, selector.split(",")):
        name, equals, value = term.partition("=")
        if name not in labels or (equals and labels[name] != value):
            return False
    return True


def _omit_empty(obj: Object) -> None:
    """As Go's `omitempty` does when an object is written."""
    for key in ("labels", "annotations", "finalizers", "ownerReferences"):
        if not obj["metadata"].get(key, True):
            del obj["metadata"][key]
    spec = obj.get("spec")
    if isinstance(spec, dict):
        for key in ("paused", "selector"):
            if key in spec and not spec[key]:
                del spec[key]


@dataclass
class SimApi:
    """The server. `admit` sees every update of a Deployment before it is stored and may change or refuse it."""

    now: Callable[[], datetime]
    admit: Callable[[str, Object, Object], Object] = lambda actor, old, new: new
    may: Callable[[str, str], bool] = lambda user, verb: True
    """Whether a user holds a virtual verb."""
    watchers: list[Callable[[Change], None]] = field(default_factory=list)
    """Told of every change, at once."""
    objects: dict[Ref, Object] = field(default_factory=dict)
    history: list[tuple[Resource, Object | None, Object | None]] = field(default_factory=list)
    """(kind, before, after) of each change, for watches."""
    version: int = 100
    made: int = 0

    def fork(self, now: Callable[[], datetime]) -> "SimApi":
        """The same server at this moment, with a life of its own and nobody watching."""
        return replace(self, now=now, watchers=[], objects=dict(self.objects), history=[])

    # Reads

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return self.objects.get((resource, namespace, name))

    def all(self, resource: Resource, namespace: str | None = None, labels: str = "") -> list[Object]:
        return [
            obj
            for (kind, at, _), obj in self.objects.items()
            if kind == resource
            and namespace in (None, at)
            and labels_match(obj["metadata"].get("labels") or {}, labels)
        ]

    # Writes

    def create(
        self, actor: str, resource: Resource, namespace: str, body: Object, dry_run: bool = False
    ) -> Object:
        if resource == SUBJECT_ACCESS_REVIEWS:
            spec = body["spec"]
            return body | {"status": {"allowed": self.may(spec["user"], spec["resourceAttributes"]["verb"])}}
        if resource == SELF_SUBJECT_REVIEWS:
            return body | {"status": {"userInfo": {"username": actor}}}
        obj = copy.deepcopy(body)
        metadata = obj["metadata"]
        name = metadata["name"]
        if (resource, namespace, name) in self.objects:
            raise AlreadyExists(f"{resource} {name} already exists", status=409)
        if resource != NAMESPACES:
            metadata["namespace"] = namespace
        self.made += 1
        metadata |= {
            "uid": f"00000000-0000-0000-0000-{self.made:012d}",
            "creationTimestamp": format_time(self.now().replace(microsecond=0)),
            "generation": 1,
        }
        obj |= {"apiVersion": resource.api_version, "kind": resource.kind}
        if resource not in _NO_STATUS:
            obj.pop("status", None)
        return self._store(actor, "create", resource, None, obj, dry_run)

    def replace(
        self,
        actor: str,
        resource: Resource,
        namespace: str,
        name: str,
        body: Object,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        return self._update(
            actor, "update", resource, self._live(resource, namespace, name), body, subresource, dry_run
        )

    def patch(
        self,
        actor: str,
        resource: Resource,
        namespace: str,
        name: str,
        body: Object,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        live = self._live(resource, namespace, name)
        return self._update(
            actor, "patch", resource, live, merged(live, body), subresource, dry_run, wanted=body
        )

    def delete(
        self,
        actor: str,
        resource: Resource,
        namespace: str,
        name: str,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        live = self._live(resource, namespace, name)
        metadata = live["metadata"]
        if uid not in (None, metadata["uid"]) or resource_version not in (None, metadata["resourceVersion"]):
            raise Conflict(f"{resource} {name}: the precondition does not hold", status=409)
        if not metadata.get("finalizers"):
            self._remove(actor, resource, live)
        elif "deletionTimestamp" not in metadata:
            self._store(
                actor, "delete", resource, live,
                live | {"metadata": metadata | {"deletionTimestamp": format_time(self.now())}},
            )  # fmt: skip

    def _live(self, resource: Resource, namespace: str, name: str) -> Object:
        live = self.get(resource, namespace, name)
        if live is None:
            raise NotFound(f"{resource} {name} is not there", status=404)
        return live

    def _update(
        self,
        actor: str,
        verb: str,
        resource: Resource,
        live: Object,
        body: Object,
        subresource: str,
        dry_run: bool,
        wanted: Object | None = None,
    ) -> Object:
        sent = (body if wanted is None else wanted)["metadata"] if "metadata" in (wanted or body) else {}
        version = sent.get("resourceVersion")
        if version is not None and version != live["metadata"]["resourceVersion"]:
            raise Conflict(f"{resource} {live['metadata']['name']} has changed", status=409)
        if subresource == "status":
            obj = live | {"status": copy.deepcopy(body.get("status") or {})}
        else:
            obj = copy.deepcopy(body)
            if live.get("immutable") and obj.get("data") != live.get("data"):
                raise Refused("data: field is immutable", status=422)
            keep = ("uid", "creationTimestamp", "generation", "namespace", "name", "deletionTimestamp")
            obj["metadata"] |= {k: live["metadata"][k] for k in keep if k in live["metadata"]}
            obj["metadata"].pop("managedFields", None)
            obj |= {"apiVersion": resource.api_version, "kind": resource.kind}
            if resource not in _NO_STATUS:
                obj.pop("status", None)
                obj |= {"status": live["status"]} if "status" in live else {}
            _omit_empty(obj)
            if resource == DEPLOYMENTS:
                obj = self.admit(actor, live, obj)
                _omit_empty(obj)
        return self._store(actor, verb, resource, live, obj, dry_run, subresource)

    def _store(
        self,
        actor: str,
        verb: str,
        resource: Resource,
        before: Object | None,
        obj: Object,
        dry_run: bool = False,
        subresource: str = "",
    ) -> Object:
        _omit_empty(obj)
        metadata = dict(obj["metadata"])
        managed = (before or {}).get("metadata", {}).get("managedFields", [])
        if before is not None:
            metadata["resourceVersion"] = before["metadata"]["resourceVersion"]
            if managed:
                metadata["managedFields"] = managed
            if obj | {"metadata": metadata} == before:
                return before
            if obj.get("spec") != before.get("spec"):
                metadata["generation"] = before["metadata"]["generation"] + 1
        if dry_run:
            return obj | {"metadata": metadata}
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        if resource in _WRITERS_SHOWN:
            manager = FIELD_MANAGER if actor == OPERATOR else actor
            mine = {
                "manager": manager,
                "operation": "Update",
                "time": format_time(self.now().replace(microsecond=0)),
            } | ({"subresource": subresource} if subresource else {})
            others = [
                m for m in managed if (m["manager"], m.get("subresource")) != (manager, subresource or None)
            ]
            metadata["managedFields"] = [*others, mine]
        stored = obj | {"metadata": metadata}
        if "deletionTimestamp" in metadata and not metadata.get("finalizers") and before is not None:
            self._remove(actor, resource, stored)
            return stored
        self.objects[(resource, metadata.get("namespace", ""), metadata["name"])] = stored
        self._tell(Change(actor, verb, resource, before, stored))
        return stored

    def _remove(self, actor: str, resource: Resource, live: Object) -> None:
        metadata = live["metadata"]
        del self.objects[(resource, metadata.get("namespace", ""), metadata["name"])]
        self.version += 1
        gone = live | {"metadata": metadata | {"resourceVersion": str(self.version)}}
        self._tell(Change(actor, "delete", resource, gone, None))

    def _tell(self, change: Change) -> None:
        self.history.append((change.resource, change.before, change.after))
        for watcher in self.watchers:
            watcher(change)


@dataclass(frozen=True)
class Call:
    """A write that a client is about to send, or has sent: its number, from 0, and what it is."""

    number: int
    verb: str
    resource: Resource
    namespace: str
    name: str


class Client:
    """What one operator process sees of the server: the interface of `gatewright_operator.api.Api`.

    `before` is awaited ahead of each write, `after` behind each that changed something; either may raise what the network
    or a crash would.
    """

    def __init__(
        self,
        server: SimApi,
        *,
        before: Callable[[Call], Awaitable[None]] | None = None,
        after: Callable[[Call], Awaitable[None]] | None = None,
    ) -> None:
        self._server = server
        self.before = before
        self.after = after
        self.writes: list[Call] = []

    async def get(self, resource: Resource, namespace: str, name: str, **_: Any) -> Object | None:
        return self._server.get(resource, namespace, name)

    async def list(
        self, resource: Resource, namespace: str | None, *, labels: str = "", **_: Any
    ) -> list[Object]:
        return self._server.all(resource, namespace, labels)

    async def listing(
        self, resource: Resource, namespace: str | None, *, labels: str = "", **_: Any
    ) -> Listing:
        return Listing(self._server.all(resource, namespace, labels), str(self._server.version))

    async def create(
        self, resource: Resource, namespace: str, body: Object, *, dry_run: bool = False, **_: Any
    ) -> Object:
        def send() -> Object:
            return self._server.create(OPERATOR, resource, namespace, body, dry_run)

        name = (body.get("metadata") or {}).get("name", "")
        return await self._write("create", resource, namespace, name, send, quiet=dry_run or not name)

    async def replace(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Object,
        *,
        subresource: str = "",
        dry_run: bool = False,
        **_: Any,
    ) -> Object:
        def send() -> Object:
            return self._server.replace(OPERATOR, resource, namespace, name, body, subresource, dry_run)

        return await self._write("update", resource, namespace, name, send, quiet=dry_run)

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
        **_: Any,
    ) -> Object:
        if resource_version is not None:
            body = {**body, "metadata": {**body.get("metadata", {}), "resourceVersion": resource_version}}

        def send() -> Object:
            return self._server.patch(OPERATOR, resource, namespace, name, body, subresource, dry_run)

        return await self._write("patch", resource, namespace, name, send, quiet=dry_run)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        **_: Any,
    ) -> None:
        def send() -> None:
            try:
                self._server.delete(OPERATOR, resource, namespace, name, uid, resource_version)
            except NotFound:
                return

        await self._write("delete", resource, namespace, name, send)

    async def _write(
        self,
        verb: str,
        resource: Resource,
        namespace: str,
        name: str,
        send: Callable[[], Any],
        *,
        quiet: bool = False,
    ) -> Any:
        if quiet:
            return send()
        call = Call(len(self.writes), verb, resource, namespace, name)
        self.writes.append(call)
        if self.before is not None:
            await self.before(call)
        version = self._server.version
        answer = send()
        if self.after is not None and self._server.version != version:
            await self.after(call)
        return answer
