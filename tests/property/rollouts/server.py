"""An API server in memory: as much of Kubernetes as the operator's correctness leans on, and nothing that could be forgiving.

Compare-and-swap by resourceVersion, AlreadyExists, merge patches, the status subresource, finalizers, generations, immutable
ConfigMaps, defaults and dry runs. A write that changes nothing keeps the resourceVersion, as the real one does.
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from gatewright_analysis.names import GROUP
from gatewright_operator.api import Listing
from gatewright_operator.cache import Cache
from gatewright_operator.errors import AlreadyExists, ApiError, Conflict, NotFound, Refused
from gatewright_operator.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    EVENTS,
    HTTPROUTES,
    PODS,
    REPLICASETS,
    SUBJECT_ACCESS_REVIEWS,
    Resource,
)
from gatewright_operator.watched import WATCHED

Object = dict[str, Any]
Ref = tuple[Resource, str, str]

T0 = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
OPERATOR = "system:serviceaccount:gatewright-system:gatewright"

_CONTROLLED = (DEPLOYMENTS, REPLICASETS, PODS, HTTPROUTES)
_FIXED = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "namespace",
    "resourceVersion",
)


def _has_status(resource: Resource) -> bool:
    return resource.group == GROUP or resource in _CONTROLLED


def _counts_generations(resource: Resource) -> bool:
    return resource.group == GROUP or resource in (DEPLOYMENTS, REPLICASETS, HTTPROUTES)


def clone(value: Any) -> Any:
    """A copy of a JSON value; what is stored is shared between forks and never changed in place."""
    if isinstance(value, dict):
        return {key: clone(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clone(item) for item in value]
    return value


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return clone(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def selected(labels: dict[str, str], selector: str) -> bool:
    """The label selectors that the operator uses: `k`, `k=v`, `k in (a,b)`, joined by commas."""
    for part in re.findall(r"[^,(]+(?:\([^)]*\))?", selector):
        if " in (" in part:
            name, _, values = part.partition(" in ")
            if labels.get(name.strip()) not in values.strip(" ()").split(","):
                return False
        elif "=" in part:
            name, _, value = part.partition("=")
            if labels.get(name) != value:
                return False
        elif part not in labels:
            return False
    return True


@dataclass
class Write:
    """One write, as those who watch see it. `before` is None for a create, `after` for a removal."""

    user: str
    resource: Resource
    before: Object | None
    after: Object | None


@dataclass
class Watch:
    """Fills a Cache with what the operator watches; while `frozen`, it hears nothing."""

    cache: Cache
    frozen: bool = False

    def tell(self, write: Write) -> None:
        if self.frozen:
            return
        for watched in WATCHED:
            if watched.resource != write.resource:
                continue
            if write.after is None:
                assert write.before is not None
                self.cache.drop(write.resource, write.before)
            elif selected(write.after["metadata"].get("labels") or {}, watched.labels):
                self.cache.put(write.resource, clone(write.after))
            else:
                self.cache.drop(write.resource, write.after)


class SimServer:
    """All objects, and the only clock."""

    def __init__(self) -> None:
        self.now = T0
        self._objects: dict[Resource, dict[tuple[str, str], Object]] = {}
        self.version = 0
        self.serial = 0
        self.watches: list[Watch] = []
        self.observers: list[Callable[[Write], None]] = []
        self.admission: Callable[[str, Resource, Object | None, Object], None] = lambda *_: None
        """(user, kind, old object, new object, which it may change); raises Refused."""
        self.denied: set[tuple[str, str]] = set()
        """(user, verb) that the SubjectAccessReview refuses."""

    def fork(self) -> "SimServer":
        """The same objects at the same moment, and nobody who watches."""
        twin = SimServer()
        twin.now, twin.version, twin.serial = self.now, self.version, self.serial
        twin._objects = {resource: dict(objs) for resource, objs in self._objects.items()}
        twin.denied = set(self.denied)
        return twin

    def clock(self) -> datetime:
        return self.now

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def watch(self) -> Watch:
        """A Cache as it is after the first listing, kept up to date from now on."""
        watch = Watch(Cache())
        self._list_to(watch)
        self.watches.append(watch)
        return watch

    def catch_up(self, watch: Watch) -> None:
        """What a re-list does for a watch that heard nothing for a while."""
        watch.frozen = False
        for resource in {watched.resource for watched in WATCHED}:
            for known in watch.cache.all(resource):
                metadata = known["metadata"]
                if self.get(resource, metadata.get("namespace", ""), metadata["name"]) is None:
                    watch.cache.drop(resource, known)
        self._list_to(watch)

    def _list_to(self, watch: Watch) -> None:
        for watched in WATCHED:
            for obj in self.list(watched.resource):
                watch.tell(Write("", watched.resource, None, obj))

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """The object as it is stored: to read, never to change."""
        return self._objects.get(resource, {}).get((namespace, name))

    def all(self) -> list[tuple[Resource, Object]]:
        return [(resource, obj) for resource, objs in self._objects.items() for obj in objs.values()]

    def list(self, resource: Resource, namespace: str | None = None, labels: str = "") -> list[Object]:
        """Objects as they are stored, in the order of their creation: to read, never to change."""
        return [
            obj
            for (at, _), obj in self._objects.get(resource, {}).items()
            if namespace in (None, at)
            and (not labels or selected(obj["metadata"].get("labels") or {}, labels))
        ]

    def create(
        self, user: str, resource: Resource, namespace: str, body: Object, *, dry_run: bool = False
    ) -> Object:
        if resource == SUBJECT_ACCESS_REVIEWS:
            spec = body["spec"]
            verb = spec["resourceAttributes"]["verb"]
            return {**body, "status": {"allowed": (spec["user"], verb) not in self.denied}}
        if resource == EVENTS:
            return body
        obj = clone(body)
        metadata = obj["metadata"]
        ref = (resource, namespace if resource.namespaced else "", metadata["name"])
        if self.get(*ref) is not None:
            raise AlreadyExists(f"{resource} {metadata['name']} already exists", status=409)
        self.serial += 1
        if resource.namespaced:
            metadata["namespace"] = namespace
        metadata["uid"] = f"uid-{self.serial}"
        metadata["creationTimestamp"] = self.now.isoformat().replace("+00:00", "Z")
        if _counts_generations(resource):
            metadata["generation"] = 1
        if resource.group == GROUP:
            obj.pop("status", None)
        self._default(resource, obj)
        self.admission(user, resource, None, obj)
        return self._store(user, ref, None, obj, dry_run)

    def replace(
        self,
        user: str,
        resource: Resource,
        namespace: str,
        name: str,
        body: Object,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        ref = (resource, namespace if resource.namespaced else "", name)
        old = self.get(*ref)
        if old is None:
            raise NotFound(f"{resource} {name} not found", status=404)
        version = body["metadata"].get("resourceVersion")
        if version is not None and version != old["metadata"]["resourceVersion"]:
            raise Conflict(f"{resource} {name}: the object has been modified", status=409)
        new = self._combined(resource, old, clone(body), subresource)
        self._default(resource, new)
        sealed = resource == CONFIGMAPS and old.get("immutable")
        if sealed and (new.get("data") != old.get("data") or not new.get("immutable")):
            raise Refused(f"ConfigMap {name} is immutable", status=422)
        if subresource == "":
            self.admission(user, resource, old, new)
        return self._store(user, ref, old, new, dry_run)

    def patch(
        self,
        user: str,
        resource: Resource,
        namespace: str,
        name: str,
        body: Object,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        old = self.get(resource, namespace if resource.namespaced else "", name)
        if old is None:
            raise NotFound(f"{resource} {name} not found", status=404)
        version = body.get("metadata", {}).get("resourceVersion", old["metadata"]["resourceVersion"])
        new = merged(old, body)
        new["metadata"] = {**new["metadata"], "resourceVersion": version}
        return self.replace(user, resource, namespace, name, new, subresource=subresource, dry_run=dry_run)

    def delete(
        self,
        user: str,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        ref = (resource, namespace if resource.namespaced else "", name)
        old = self.get(*ref)
        if old is None:
            raise NotFound(f"{resource} {name} not found", status=404)
        metadata = old["metadata"]
        if (uid or metadata["uid"]) != metadata["uid"]:
            raise Conflict(f"{resource} {name}: the UID is another", status=409)
        if (resource_version or metadata["resourceVersion"]) != metadata["resourceVersion"]:
            raise Conflict(f"{resource} {name}: the object has been modified", status=409)
        if metadata.get("finalizers"):
            if "deletionTimestamp" not in metadata:
                new = clone(old)
                new["metadata"]["deletionTimestamp"] = self.now.isoformat().replace("+00:00", "Z")
                self._store(user, ref, old, new, dry_run=False)
            return
        self._remove(user, ref)

    def _combined(self, resource: Resource, old: Object, new: Object, subresource: str) -> Object:
        """What of `new` counts: the status alone, or everything but the status; and what nobody can change."""
        if subresource == "status":
            result: Object = clone({k: v for k, v in old.items() if k != "status"})
            return result | ({"status": new["status"]} if "status" in new else {})
        if _has_status(resource):
            new.pop("status", None)
            if "status" in old:
                new["status"] = clone(old["status"])
        for name in _FIXED:
            if name in old["metadata"]:
                new["metadata"][name] = old["metadata"][name]
            else:
                new["metadata"].pop(name, None)
        if "deletionTimestamp" in old["metadata"]:
            had = set(old["metadata"].get("finalizers") or ())
            if set(new["metadata"].get("finalizers") or ()) - had:
                raise Refused("no finalizer can be added to what is being deleted", status=422)
        return new

    def _default(self, resource: Resource, obj: Object) -> None:
        metadata = obj["metadata"]
        for name in ("labels", "annotations", "finalizers"):
            if not metadata.get(name, True):
                del metadata[name]
        if resource == HTTPROUTES:
            for rule in obj["spec"].get("rules", ()):
                for backend in rule.get("backendRefs", ()):
                    backend.setdefault("weight", 1)
        if resource == DEPLOYMENTS and not obj["spec"].get("paused", True):
            del obj["spec"]["paused"]

    def _store(self, user: str, ref: Ref, old: Object | None, new: Object, dry_run: bool) -> Object:
        if old is not None and _counts_generations(ref[0]) and new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        if dry_run or new == old:
            return clone(new)  # type: ignore[no-any-return]
        self.version += 1
        new["metadata"]["resourceVersion"] = str(self.version)
        self._objects.setdefault(ref[0], {})[ref[1:]] = new
        self._tell(Write(user, ref[0], old, new))
        if "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers"):
            self._remove(user, ref)
        return clone(new)  # type: ignore[no-any-return]

    def _remove(self, user: str, ref: Ref) -> None:
        gone = self._objects[ref[0]].pop(ref[1:])
        self.version += 1
        last = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}}
        self._tell(Write(user, ref[0], last, None))

    def _tell(self, write: Write) -> None:
        for watch in list(self.watches):
            watch.tell(write)
        for observer in self.observers:
            observer(write)


class Crash(BaseException):
    """The process dies here: nobody catches it."""


Trouble = ApiError | Crash | None


def _no_trouble(number: int, what: str) -> Trouble:
    return None


@dataclass
class SimApi:
    """One client's connection. `before` and `after` are asked, for each write, what is to go wrong with it."""

    server: SimServer
    user: str = OPERATOR
    writes: int = 0
    log: list[str] = field(default_factory=list)
    before: Callable[[int, str], Trouble] = _no_trouble
    """What is raised instead of the write."""
    after: Callable[[int, str], Trouble] = _no_trouble
    """What is raised although the write was done."""
    stop_at: int | None = None
    """Before the write of this number the client stands still until `go_on` is set."""
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def get(self, resource: Resource, namespace: str, name: str, **_: Any) -> Object | None:
        return clone(self.server.get(resource, namespace if resource.namespaced else "", name))  # type: ignore[no-any-return]

    async def list(
        self, resource: Resource, namespace: str | None, *, labels: str = "", fields: str = ""
    ) -> list[Object]:
        assert not fields, "no field selectors here"
        return clone(self.server.list(resource, namespace, labels))  # type: ignore[no-any-return]

    async def listing(self, resource: Resource, namespace: str | None, *, labels: str = "") -> Listing:
        return Listing(await self.list(resource, namespace, labels=labels), str(self.server.version))

    async def create(
        self, resource: Resource, namespace: str, body: Object, *, dry_run: bool = False, **_: Any
    ) -> Object:
        def send() -> Object:
            return self.server.create(self.user, resource, namespace, body, dry_run=dry_run)

        if dry_run or resource in (SUBJECT_ACCESS_REVIEWS, EVENTS):
            return send()
        return await self._write(f"create {resource.plural} {body['metadata']['name']}", send)

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
            return self.server.replace(
                self.user, resource, namespace, name, body, subresource=subresource, dry_run=dry_run
            )

        if dry_run:
            return send()
        return await self._write(f"replace {resource.plural} {name} {subresource}", send)

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
        if resource_version is not None:
            body = {**body, "metadata": {**body.get("metadata", {}), "resourceVersion": resource_version}}

        def send() -> Object:
            return self.server.patch(
                self.user, resource, namespace, name, body, subresource=subresource, dry_run=dry_run
            )

        if dry_run:
            return send()
        return await self._write(f"patch {resource.plural} {name} {subresource}", send)

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
        def send() -> Object:
            if self.server.get(resource, namespace, name) is not None:
                self.server.delete(
                    self.user, resource, namespace, name, uid=uid, resource_version=resource_version
                )
            return {}

        await self._write(f"delete {resource.plural} {name}", send)

    async def _write(self, what: str, send: Callable[[], Object]) -> Object:
        number = self.writes
        self.writes += 1
        self.log.append(what)
        if self.stop_at == number:
            self.stopped.set()
            await self.go_on.wait()
        trouble = self.before(number, what)
        if trouble is not None:
            raise trouble
        answer = send()
        trouble = self.after(number, what)
        if trouble is not None:
            raise trouble
        return answer
