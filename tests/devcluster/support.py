"""What the tests of node and gateway share: make objects, wait for a state, look at what really runs."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from devcluster import Instance
from devcluster.kubeapi import Json, KubeApi, NotFound
from devcluster.node import log_path
from devcluster.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    HTTP_ROUTES,
    PODS,
    SECRETS,
    SERVICES,
)

T = TypeVar("T")

WAIT_SECONDS = 20.0


async def eventually(
    what: str, look: Callable[[], Awaitable[T | None]], *, seconds: float = WAIT_SECONDS
) -> T:
    """Look again and again until what is seen is true; fail with ``what`` when time is up."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        seen = await look()
        if seen:
            return seen
        assert loop.time() < deadline, f"after {seconds:g} s still not so: {what}; last seen: {seen!r}"
        await asyncio.sleep(0.02)


def sample_container(**settings: str) -> Json:
    """The sample service with fast probes; keywords become its environment."""
    return {
        "name": "app",
        "image": "shop/checkout:1",
        "command": ["python", "-m", "devcluster.sample"],
        "env": [{"name": name, "value": value} for name, value in settings.items()],
        "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "http"},
            "periodSeconds": 1,
            "failureThreshold": 1,
        },
    }


def shell(script: str, **fields: Any) -> Json:
    """A container that runs a shell script."""
    return {"name": "app", "image": "tools/shell:1", "command": ["sh", "-c", script], **fields}


@dataclass(frozen=True)
class Cluster:
    """The cluster as one test sees it."""

    machine: Instance
    api: KubeApi
    namespace: str

    async def pod(self, name: str, container: Json | list[Json], **spec: Any) -> None:
        """Create a pod; ``labels`` and ``annotations`` go to its metadata, all else to its spec."""
        metadata = {
            "name": name,
            "labels": spec.pop("labels", {}),
            "annotations": spec.pop("annotations", {}),
        }
        containers = container if isinstance(container, list) else [container]
        body = {"metadata": metadata, "spec": {"containers": containers, **spec}}
        await self.api.create(PODS, body, self.namespace)

    async def see(self, name: str) -> Json:
        """A pod as the API server has it."""
        return await self.api.get(PODS, name, self.namespace)

    async def wait_pod(
        self, name: str, what: str, condition: Callable[[Json], Any], *, seconds: float = WAIT_SECONDS
    ) -> Json:
        """Wait until the pod's status meets the condition; the pod then."""

        async def look() -> Json | None:
            pod = await self.see(name)
            return pod if condition(pod.get("status") or {}) else None

        try:
            return await eventually(f"pod {name}: {what}", look, seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\nstatus: {(await self.see(name)).get('status')}") from None

    async def wait_gone(self, name: str, *, seconds: float = WAIT_SECONDS) -> None:
        """Wait until there is no pod of this name."""

        async def look() -> bool:
            try:
                await self.see(name)
            except NotFound:
                return True
            return False

        await eventually(f"pod {name} is gone", look, seconds=seconds)

    def log(self, pod: str, container: str = "app") -> str:
        """What a container has written."""
        return log_path(self.machine.node_dir, self.namespace, pod, container).read_text()

    async def deployment(self, name: str, replicas: int, **settings: str) -> None:
        """Create a Deployment of the sample service that never goes below its replicas, and its Service."""
        await self.api.create(
            DEPLOYMENTS,
            {
                "metadata": {"name": name},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": name}},
                    "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
                    "template": {
                        "metadata": {"labels": {"app": name}},
                        "spec": {"containers": [sample_container(**settings)]},
                    },
                },
            },
            self.namespace,
        )
        await self.service(name)

    async def service(self, name: str, *, app: str | None = None) -> None:
        """Create a Service in front of the pods with label ``app`` (its own name when not given)."""
        spec = {
            "selector": {"app": app or name},
            "ports": [{"name": "web", "port": 80, "targetPort": "http"}],
        }
        await self.api.create(SERVICES, {"metadata": {"name": name}, "spec": spec}, self.namespace)

    async def route(self, name: str, **weights: int) -> None:
        """Create an HTTPRoute for host ``NAME.NAMESPACE``; keywords: Services (``_`` for ``-``), weights."""
        spec = {
            "parentRefs": [{"name": "gateway", "namespace": "devcluster-gateway"}],
            "hostnames": [self.host(name)],
            "rules": [{"backendRefs": backends(**weights)}],
        }
        await self.route_of(name, spec)

    async def route_of(self, name: str, spec: Json) -> None:
        """Create an HTTPRoute with any spec."""
        kind = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute"}
        body = {**kind, "metadata": {"name": name}, "spec": spec}
        await self.api.create(HTTP_ROUTES, body, self.namespace)

    def host(self, name: str) -> str:
        """The host name of a route made by ``route``."""
        return f"{name}.{self.namespace}"

    async def set_weights(self, route: str, **weights: int) -> None:
        """Change a route's weights."""
        patch = {"spec": {"rules": [{"backendRefs": backends(**weights)}]}}
        await self.api.patch(HTTP_ROUTES, route, patch, self.namespace)

    async def ready_endpoints(self, service: str) -> list[str]:
        """The addresses of a Service's ready endpoints."""
        listing = await self.api.list(
            ENDPOINT_SLICES, self.namespace, label_selector=f"kubernetes.io/service-name={service}"
        )
        return sorted(
            address
            for item in listing["items"]
            for endpoint in item.get("endpoints") or []
            if endpoint["conditions"]["ready"]
            for address in endpoint["addresses"]
        )

    async def wait_endpoints(self, service: str, count: int, *, seconds: float = WAIT_SECONDS) -> list[str]:
        """Wait until a Service has this many ready endpoints."""

        async def look() -> list[str] | None:
            found = await self.ready_endpoints(service)
            return found or [""] if len(found) == count else None

        return await eventually(f"{count} ready endpoints of {service}", look, seconds=seconds)

    async def config_map(self, name: str, **data: str) -> None:
        """Create a ConfigMap."""
        await self.api.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": data}, self.namespace)

    async def secret(self, name: str, **data: str) -> None:
        """Create a Secret."""
        await self.api.create(SECRETS, {"metadata": {"name": name}, "stringData": data}, self.namespace)


def backends(**weights: int) -> list[Json]:
    """backendRefs for Services (``_`` for ``-``) with these weights."""
    return [
        {"name": name.replace("_", "-"), "port": 80, "weight": weight} for name, weight in weights.items()
    ]


def condition(status: Json, kind: str) -> str | None:
    """The status of a condition, None where there is no such condition."""
    return next((entry["status"] for entry in status.get("conditions") or [] if entry["type"] == kind), None)


def container(status: Json, name: str = "app") -> Json:
    """A container's entry in a pod's status; empty while there is none."""
    entries = (status.get("containerStatuses") or []) + (status.get("initContainerStatuses") or [])
    return next((entry for entry in entries if entry["name"] == name), {})


def waiting(status: Json, name: str = "app") -> str | None:
    """Why a container waits, None when it does not."""
    reason = ((container(status, name).get("state") or {}).get("waiting") or {}).get("reason")
    return None if reason is None else str(reason)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def alive(marker: str) -> list[int]:
    """The ids of running processes whose command line has this marker in it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "cmdline").read_bytes().decode(errors="replace")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if marker in text and state != "Z":
                found.append(int(entry.name))
    return found
