"""The kinds of objects that the parts of the development cluster read and write."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Resource:
    """One kind of object as the API serves it, for example ``Resource("apps", "v1", "deployments")``."""

    group: str
    version: str
    plural: str
    namespaced: bool = True

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The URL path of the collection, of one object, or of its subresource."""
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if namespace is not None:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part is not None]
        return "/".join(parts)


PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)
SERVICES = Resource("", "v1", "services")
CONFIG_MAPS = Resource("", "v1", "configmaps")
SECRETS = Resource("", "v1", "secrets")
EVENTS = Resource("", "v1", "events")
LEASES = Resource("coordination.k8s.io", "v1", "leases")
DEPLOYMENTS = Resource("apps", "v1", "deployments")
REPLICA_SETS = Resource("apps", "v1", "replicasets")
JOBS = Resource("batch", "v1", "jobs")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices")
GATEWAY_CLASSES = Resource("gateway.networking.k8s.io", "v1", "gatewayclasses", namespaced=False)
GATEWAYS = Resource("gateway.networking.k8s.io", "v1", "gateways")
HTTP_ROUTES = Resource("gateway.networking.k8s.io", "v1", "httproutes")
