"""Follows the cluster's objects, keeps Envoy to them, and tells in their status what became of them."""

import asyncio
import logging
from collections.abc import Mapping

from devcluster.gateway.backends import Backend, Key, World, endpoints
from devcluster.gateway.envoy import Envoy
from devcluster.gateway.route_status import gateway_status, route_parents
from devcluster.gateway.routes import (
    CLASS_NAME,
    CONTROLLER_NAME,
    GATEWAY_KEY,
    Routing,
    our_parents,
    translate,
)
from devcluster.kubeapi import ApiError, Conflict, Json, KubeApi, NotFound
from devcluster.node.status import timestamp
from devcluster.resources import (
    ENDPOINT_SLICES,
    GATEWAY_CLASSES,
    GATEWAYS,
    HTTP_ROUTES,
    NAMESPACES,
    PODS,
    SERVICES,
    Resource,
)

log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.01
"""Changes that come together are brought into force together."""

CREATE_RETRY_SECONDS = 1.0
ENDED_POD_SECONDS = 600.0
"""How long a deleted pod is remembered: far longer than EndpointSlices may still name it."""

SERVICE_NAME_LABEL = "kubernetes.io/service-name"


class GatewayController:
    """Runs the gateway on one Envoy that has started."""

    def __init__(self, api: KubeApi, envoy: Envoy, port: int) -> None:
        self._api, self._envoy, self._port = api, envoy, port
        self._services: dict[Key, Json] = {}
        self._slices: dict[Key, dict[str, Json]] = {}
        self._routes: dict[Key, Json] = {}
        self._gateways: dict[Key, Json] = {}
        self._ending: dict[str, float] = {}
        self._clusters: dict[Backend, str] = {}
        self._routing = Routing()
        self._changed = asyncio.Event()
        self._applied = asyncio.Event()
        self._unsynced = {SERVICES, ENDPOINT_SLICES, HTTP_ROUTES, GATEWAYS}
        self.in_force = asyncio.Event()
        """Set once everything that was there at the start is in force."""

    async def run(self) -> None:
        """Follow for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(SERVICES, self._services))
            group.create_task(self._follow_slices())
            group.create_task(self._follow_pods())
            group.create_task(self._follow(HTTP_ROUTES, self._routes, missing_ok=True))
            group.create_task(self._follow(GATEWAYS, self._gateways, missing_ok=True))
            group.create_task(self._apply_changes())
            group.create_task(self._report())
            group.create_task(self._create_own_objects())
            group.create_task(self._envoy.wait())

    async def _follow(self, resource: Resource, store: dict[Key, Json], *, missing_ok: bool = False) -> None:
        async for event in self._api.watch(resource, missing_ok=missing_ok):
            if event.kind == "SYNCED":
                self._unsynced.discard(resource)
            elif event.kind == "DELETED":
                store.pop(_key(event.object), None)
            else:
                store[_key(event.object)] = event.object
            self._changed.set()

    async def _follow_slices(self) -> None:
        async for event in self._api.watch(ENDPOINT_SLICES):
            if event.kind == "SYNCED":
                self._unsynced.discard(ENDPOINT_SLICES)
            else:
                metadata = event.object["metadata"]
                service = metadata["namespace"], (metadata.get("labels") or {}).get(SERVICE_NAME_LABEL, "")
                slices = self._slices.setdefault(service, {})
                slices.pop(metadata["name"], None)
                if event.kind != "DELETED":
                    slices[metadata["name"]] = event.object
                elif not slices:
                    del self._slices[service]
            self._changed.set()

    async def _follow_pods(self) -> None:
        """Know of a deletion at once.

        The EndpointSlice controller waits a second and more before it tries again when its cache lags behind
        its own last write; requests would go on to a pod that has ended by then.
        """
        async for event in self._api.watch(PODS, metadata_only=True):
            metadata = event.object.get("metadata", {})
            if event.kind == "DELETED" or metadata.get("deletionTimestamp"):
                if metadata["uid"] not in self._ending:
                    self._changed.set()
                self._ending[metadata["uid"]] = asyncio.get_running_loop().time()

    def _forget_ended_pods(self) -> None:
        horizon = asyncio.get_running_loop().time() - ENDED_POD_SECONDS
        for uid in [uid for uid, seen in self._ending.items() if seen < horizon]:
            del self._ending[uid]

    async def _apply_changes(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(SETTLE_SECONDS)
            self._changed.clear()
            if self._unsynced:
                continue
            self._forget_ended_pods()
            world = World(self._services, self._slices, self._routes, self._gateways, self._ending)
            routing = translate(world)
            clusters = {**self._unused_clusters(routing), **routing.clusters}
            addresses = {name: endpoints(backend, world) for backend, name in clusters.items()}
            await self._envoy.apply(routing.virtual_hosts, clusters, addresses)
            self._routing, self._clusters = routing, clusters
            self._applied.set()
            self.in_force.set()

    def _unused_clusters(self, routing: Routing) -> dict[Backend, str]:
        """Clusters without a route stay while their Service is there, and their counters with them."""
        return {
            backend: name
            for backend, name in self._clusters.items()
            if name not in routing.clusters.values()
            and (backend.namespace, backend.service) in self._services
        }

    async def _report(self) -> None:
        while True:
            await self._applied.wait()
            self._applied.clear()
            for key, resolution in list(self._routing.resolutions.items()):
                route = self._routes.get(key)
                if route is None:
                    continue
                parents = route_parents(route, resolution, self._gateways, timestamp())
                if parents is not None:
                    await self._write_status(HTTP_ROUTES, route, {"parents": parents})
            for gateway in list(self._gateways.values()):
                if gateway["spec"]["gatewayClassName"] == CLASS_NAME:
                    status = gateway_status(gateway, self._attached_routes(gateway), timestamp())
                    if status is not None:
                        await self._write_status(GATEWAYS, gateway, status)

    def _attached_routes(self, gateway: Json) -> int:
        only: Mapping[Key, Json] = {_key(gateway): gateway}
        return sum(bool(our_parents(route, only)) for route in self._routes.values())

    async def _write_status(self, resource: Resource, item: Json, status: Json) -> None:
        metadata = item["metadata"]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
        try:
            await self._api.patch(
                resource, metadata["name"], patch, metadata["namespace"], subresource="status"
            )
        except (NotFound, Conflict):
            pass  # it has changed meanwhile: the watch brings it again
        except ApiError as error:
            log.warning("status not written", extra={"name": metadata["name"], "error": str(error)})
            self._applied.set()
            await asyncio.sleep(CREATE_RETRY_SECONDS)

    async def _create_own_objects(self) -> None:
        """The GatewayClass and the Gateway that routes name, as soon as the API server knows such kinds."""
        namespace, name = GATEWAY_KEY
        api_version = "gateway.networking.k8s.io/v1"
        listener = {
            "name": "http",
            "protocol": "HTTP",
            "port": self._port,
            "allowedRoutes": {"namespaces": {"from": "All"}},
        }
        wanted: list[tuple[Resource, str | None, Json]] = [
            (NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            (
                GATEWAY_CLASSES,
                None,
                {
                    "apiVersion": api_version,
                    "kind": "GatewayClass",
                    "metadata": {"name": CLASS_NAME},
                    "spec": {"controllerName": CONTROLLER_NAME},
                },
            ),
            (
                GATEWAYS,
                namespace,
                {
                    "apiVersion": api_version,
                    "kind": "Gateway",
                    "metadata": {"name": name, "namespace": namespace},
                    "spec": {"gatewayClassName": CLASS_NAME, "listeners": [listener]},
                },
            ),
        ]
        while wanted:
            resource, within, body = wanted[0]
            try:
                await self._api.create(resource, body, within)
            except Conflict:
                pass  # it is there already
            except ApiError as error:
                log.debug("not created yet", extra={"kind": body["kind"], "error": str(error)})
                await asyncio.sleep(CREATE_RETRY_SECONDS)
                continue
            wanted.pop(0)
        await self._accept_class()

    async def _accept_class(self) -> None:
        accepted = {
            "type": "Accepted",
            "status": "True",
            "reason": "Accepted",
            "message": "the development cluster's gateway",
            "observedGeneration": 1,
            "lastTransitionTime": timestamp(),
        }
        await self._api.patch(
            GATEWAY_CLASSES, CLASS_NAME, {"status": {"conditions": [accepted]}}, subresource="status"
        )


def _key(item: Json) -> Key:
    return item["metadata"]["namespace"], item["metadata"]["name"]
