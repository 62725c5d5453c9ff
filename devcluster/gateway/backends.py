"""What a backendRef means: a Service's port, the name of its Envoy cluster, and the addresses behind it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from devcluster.addresses import listen_address
from devcluster.kubeapi import Json

Key = tuple[str, str]
"""Namespace and name."""


class BackendError(Exception):
    """A backendRef that cannot be used; ``reason`` is the Gateway API's word for it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True, order=True)
class Backend:
    """One port of one Service."""

    namespace: str
    service: str
    port: int


@dataclass(frozen=True)
class World:
    """The objects of the cluster that the configuration is made from."""

    services: Mapping[Key, Json] = field(default_factory=dict)
    slices: Mapping[Key, Mapping[str, Json]] = field(default_factory=dict)
    """EndpointSlices by name, under the Service that they belong to."""
    routes: Mapping[Key, Json] = field(default_factory=dict)
    gateways: Mapping[Key, Json] = field(default_factory=dict)
    ending: Collection[str] = ()
    """Uids of pods that are being deleted."""


def resolve(reference: Json, route_namespace: str, services: Mapping[Key, Json]) -> Backend:
    """The backend that a backendRef names. Raises BackendError."""
    if reference.get("group", "") != "" or reference.get("kind", "Service") != "Service":
        raise BackendError("InvalidKind", f"backend {reference['name']}: only Services can be backends")
    namespace = reference.get("namespace") or route_namespace
    if namespace != route_namespace:
        message = f"backend {namespace}/{reference['name']}: the Service must be in the route's own namespace"
        raise BackendError("RefNotPermitted", message)
    service = services.get((namespace, reference["name"]))
    if service is None:
        raise BackendError("BackendNotFound", f"Service {namespace}/{reference['name']} does not exist")
    port = int(reference.get("port") or 0)
    if port not in [entry["port"] for entry in service["spec"].get("ports") or []]:
        raise BackendError("BackendNotFound", f"Service {namespace}/{reference['name']} has no port {port}")
    return Backend(namespace, reference["name"], port)


def cluster_names(backends: Iterable[Backend]) -> dict[Backend, str]:
    """The name of each backend's Envoy cluster: ``NAMESPACE/SERVICE``.

    Only where several ports of one Service are in use, all but the lowest have theirs in the name too.
    """
    names: dict[Backend, str] = {}
    for backend in sorted(set(backends)):
        name = f"{backend.namespace}/{backend.service}"
        names[backend] = f"{name}/{backend.port}" if name in names.values() else name
    return names


def endpoints(backend: Backend, world: World) -> list[tuple[str, int]]:
    """The loopback addresses and ports of the ready pods behind a backend, sorted."""
    service = world.services.get((backend.namespace, backend.service))
    if service is None:
        return []
    port_name = next(
        (port.get("name") or "" for port in service["spec"]["ports"] if port["port"] == backend.port), None
    )
    found: set[tuple[str, int]] = set()
    for slice_ in world.slices.get((backend.namespace, backend.service), {}).values():
        for port in slice_.get("ports") or []:
            if (port.get("name") or "") == port_name and port.get("port"):
                found.update(
                    (address, int(port["port"])) for address in _ready_addresses(slice_, world.ending)
                )
    return sorted(found)


def _ready_addresses(slice_: Json, ending: Collection[str]) -> Iterable[str]:
    for endpoint in slice_.get("endpoints") or []:
        conditions = endpoint.get("conditions") or {}
        # "ready" unset means ready; a terminating endpoint leaves at once, whatever else it says.
        if conditions.get("ready") is False or conditions.get("terminating"):
            continue
        if (endpoint.get("targetRef") or {}).get("uid") in ending:
            continue
        for address in endpoint["addresses"]:
            try:
                yield listen_address(address)
            except ValueError:
                continue  # not a pod of this cluster: no byte is sent there
