"""The development cluster: a real control plane on one machine, for tests, the demo and the benchmarks.

``python -m devcluster up`` starts one; from Python::

    from devcluster import Instance

    with Instance() as cluster:
        print(cluster.kubeconfig, cluster.prometheus_url, cluster.gateway_url)

Names are looked up when they are first used: every pod of a cluster is a Python process that imports this
package, and must not pay for what only the cluster's owner needs.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devcluster.client import ApiRefused, Client
    from devcluster.errors import DevclusterError
    from devcluster.instance import Instance
    from devcluster.parts import ALL_PARTS
    from devcluster.supervision import NotRunning, PartStatus

__all__ = ["ALL_PARTS", "ApiRefused", "Client", "DevclusterError", "Instance", "NotRunning", "PartStatus"]

_HOMES = {
    "ALL_PARTS": "devcluster.parts",
    "ApiRefused": "devcluster.client",
    "Client": "devcluster.client",
    "DevclusterError": "devcluster.errors",
    "Instance": "devcluster.instance",
    "NotRunning": "devcluster.supervision",
    "PartStatus": "devcluster.supervision",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
