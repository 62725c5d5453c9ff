"""What the operator last saw of the objects that it watches. It never goes back in time and never holds a
Secret.

Objects in the cache are shared: read them, never change them (copy first). `metadata.managedFields` is taken
off, because it is a third of an object's size; a replace without it keeps the server's. Who wrote is kept
apart (`writers`).
"""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gatewright_operator.resources import (
    HTTPROUTES,
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    SECRETS,
    SERVICES,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
    Resource,
)

Object = dict[str, Any]

WRITERS_KEPT = frozenset(
    (
        HTTPROUTES,
        SERVICES,
        MUTATING_POLICIES,
        MUTATING_BINDINGS,
        VALIDATING_POLICIES,
        VALIDATING_BINDINGS,
    )
)
"""Kinds of which it counts who wrote them last, and when."""
TOMBSTONES = 2048
"""How many deletions per kind are remembered, so that a late answer about a deleted object does not bring it
back."""


@dataclass(frozen=True, slots=True)
class Writer:
    """One field manager of an object: its name, `Update` or `Apply`, the subresource (or `""`) and when it
    last wrote."""

    manager: str
    operation: str
    subresource: str
    at: str


@dataclass(frozen=True, slots=True)
class Relist:
    """How a full listing differed from the cache: objects that are new or newer, and objects that are
    gone."""

    changed: tuple[Object, ...]
    gone: tuple[Object, ...]


@dataclass(slots=True)
class _Entry:
    version: int
    obj: Object
    writers: tuple[Writer, ...]


class _Kind:
    """All objects of one kind, by namespace and name."""

    def __init__(self) -> None:
        self.namespaces: dict[str, dict[str, _Entry]] = {}
        self.deleted: OrderedDict[tuple[str, str], int] = OrderedDict()
        self.listed_at: dict[str | None, int] = {}

    def entry(self, namespace: str, name: str) -> _Entry | None:
        return self.namespaces.get(namespace, {}).get(name)

    def put(self, resource: Resource, obj: Object, namespace: str, name: str, version: int) -> bool:
        known = self.entry(namespace, name)
        if version <= (known.version if known else self.deleted.get((namespace, name), 0)):
            return False
        self.deleted.pop((namespace, name), None)
        self.namespaces.setdefault(namespace, {})[name] = _entry(resource, obj, version)
        return True

    def remove(self, namespace: str, name: str, version: int) -> None:
        names = self.namespaces.get(namespace, {})
        names.pop(name, None)
        if not names:
            self.namespaces.pop(namespace, None)
        self.deleted[(namespace, name)] = max(version, self.deleted.pop((namespace, name), 0))
        while len(self.deleted) > TOMBSTONES:
            self.deleted.popitem(last=False)


class Cache:
    """Watched objects by kind, namespace and name."""

    def __init__(self) -> None:
        self._kinds: defaultdict[Resource, _Kind] = defaultdict(_Kind)

    def put(self, resource: Resource, obj: Object) -> bool:
        """Take in an object as the server gave it: from a watch, a listing, or as the answer to our own
        write.

        Returns False, and changes nothing, when the cache knows this version or a newer one, or that it was
        deleted since. Raises ValueError for a Secret, and for an object without resourceVersion.
        """
        _refuse_secrets(resource)
        return self._kinds[resource].put(resource, obj, *_identity(obj))

    def drop(self, resource: Resource, obj: Object) -> bool:
        """Forget an object that the server says is gone (deleted, or no longer selected by the watch).

        Returns False when it was not known, or when a newer version is: it was made anew, or selected again.
        """
        kind = self._kinds[resource]
        namespace, name, version = _identity(obj)
        known = kind.entry(namespace, name)
        if known is not None and known.version > version:
            return False
        kind.remove(namespace, name, version)
        return known is not None

    def replace_all(
        self,
        resource: Resource,
        objs: Sequence[Object],
        *,
        namespace: str | None = None,
        resource_version: str = "",
    ) -> Relist:
        """Make the cache equal to a complete listing (of one namespace, or of all), and say what that
        changed.

        `resource_version` is the listing's own: an object that is newer than the listing (our own create,
        say) stays. A listing older than the one before it means that the server's history went back (a
        restored backup): then the listing is the truth whatever the versions say.
        """
        _refuse_secrets(resource)
        kind = self._kinds[resource]
        listed_at = int(resource_version or 0)
        if listed_at and listed_at < kind.listed_at.get(namespace, 0):
            self._clear(kind, namespace)
        kind.listed_at[namespace] = listed_at
        present, changed = set(), []
        for obj in objs:
            at, name, version = _identity(obj)
            present.add((at, name))
            if kind.put(resource, obj, at, name, version):
                changed.append(obj)
        gone = tuple(
            entry.obj
            for at, name, entry in self._entries(kind, namespace)
            if (at, name) not in present and not (listed_at and entry.version > listed_at)
        )
        for obj in gone:
            at, name, version = _identity(obj)
            kind.remove(at, name, listed_at or version)
        return Relist(changed=tuple(changed), gone=gone)

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """The object as last seen, or None. Cluster-scoped objects have the namespace `""`."""
        kind = self._kinds.get(resource)
        entry = kind.entry(namespace, name) if kind else None
        return entry.obj if entry else None

    def all(self, resource: Resource, namespace: str | None = None) -> list[Object]:
        """All known objects of a kind, of one namespace or of all."""
        kind = self._kinds.get(resource)
        return [entry.obj for _, _, entry in self._entries(kind, namespace)] if kind else []

    def writers(self, resource: Resource, namespace: str, name: str) -> tuple[Writer, ...]:
        """Who wrote an object of `WRITERS_KEPT`, latest first; empty for other kinds and unknown objects."""
        kind = self._kinds.get(resource)
        entry = kind.entry(namespace, name) if kind else None
        return entry.writers if entry else ()

    def count(self, resource: Resource) -> int:
        """How many objects of a kind are known."""
        kind = self._kinds.get(resource)
        return sum(map(len, kind.namespaces.values())) if kind else 0

    @staticmethod
    def _entries(kind: _Kind, namespace: str | None) -> Iterable[tuple[str, str, _Entry]]:
        names = kind.namespaces if namespace is None else {namespace: kind.namespaces.get(namespace, {})}
        return [(at, name, entry) for at, entries in names.items() for name, entry in entries.items()]

    @staticmethod
    def _clear(kind: _Kind, namespace: str | None) -> None:
        # Entries stay, so that what is gone is reported; their versions no longer count.
        for at, name, entry in Cache._entries(kind, namespace):
            entry.version = 0
            kind.deleted.pop((at, name), None)
        for at, name in [key for key in kind.deleted if namespace in (None, key[0])]:
            del kind.deleted[(at, name)]


def _refuse_secrets(resource: Resource) -> None:
    if resource == SECRETS:
        raise ValueError("Secrets are read when they are needed and never cached")


def _identity(obj: Object) -> tuple[str, str, int]:
    metadata = obj["metadata"]
    try:
        version = int(metadata["resourceVersion"])
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"{metadata.get('name')}: an object from the server has a resourceVersion"
        ) from error
    return metadata.get("namespace", ""), metadata["name"], version


def _entry(resource: Resource, obj: Object, version: int) -> _Entry:
    metadata = obj["metadata"]
    managed = metadata.get("managedFields")
    if managed is None:
        return _Entry(version, obj, ())
    # A copy without the field: the caller's object (perhaps a body that it is about to send) stays as it is.
    compact = obj | {"metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}
    writers: tuple[Writer, ...] = ()
    if resource in WRITERS_KEPT:
        writers = tuple(
            sorted(
                (
                    Writer(
                        str(field.get("manager", "")),
                        str(field.get("operation", "")),
                        str(field.get("subresource", "")),
                        str(field.get("time", "")),
                    )
                    for field in managed
                ),
                key=lambda writer: writer.at,
                reverse=True,
            )
        )
    return _Entry(version, compact, writers)
