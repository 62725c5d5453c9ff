"""Envoy's own configuration: the bootstrap, and the resources in the files that it follows.

Listener and clusters stay as they are while weights and endpoints change: weights are in the route file and
endpoints in one file for each cluster. So counters and connections live on through every such change.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from devcluster.gateway.backends import Backend
from devcluster.kubeapi import Json

TYPES = "type.googleapis.com/envoy.config"
FILTERS = "type.googleapis.com/envoy.extensions.filters"
ROUTE_CONFIGURATION = "gateway"
LARGE = 100_000
OWN_ERROR_LINE = (
    "%START_TIME% %REQ(:AUTHORITY)%%REQ(:PATH)% %RESPONSE_CODE% %RESPONSE_FLAGS% %UPSTREAM_CLUSTER% "
    "%UPSTREAM_HOST% %UPSTREAM_TRANSPORT_FAILURE_REASON%\n"
)
KEPT_STATS: list[Json] = [
    {"safe_regex": {"regex": r"cluster\.[^.]+\.(upstream|membership)_.*"}},
    {"prefix": "http.gateway."},
    {"prefix": "cluster_manager."},
]
"""A hundred series for each cluster are there otherwise, and are scraped each second."""


def bootstrap(directory: Path, port: int, admin_port: int) -> Json:
    """What Envoy starts with: the admin interface, the one listener, and where its files are."""
    manager = {
        "@type": f"{FILTERS}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "gateway",
        "rds": {"route_config_name": ROUTE_CONFIGURATION, "config_source": _file(directory / "routes.json")},
        "generate_request_id": False,
        "strip_any_host_port": True,
        "access_log": [_own_errors(directory / "errors.log")],
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {
                    "@type": f"{FILTERS}.http.router.v3.Router",
                    "suppress_envoy_headers": True,
                },
            }
        ],
    }
    listener = {
        "name": "gateway",
        "address": _address("127.0.0.1", port),
        "filter_chains": [
            {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
        ],
    }
    return {
        "node": {"id": "devcluster-gateway", "cluster": "devcluster"},
        "admin": {"address": _address("127.0.0.1", admin_port)},
        # Histograms show what was merged at the last flush: often enough for scrapes each second.
        "stats_flush_interval": "0.25s",
        "stats_config": {"stats_matcher": {"inclusion_list": {"patterns": KEPT_STATS}}},
        "static_resources": {"listeners": [listener]},
        "dynamic_resources": {"cds_config": _file(directory / "clusters.json")},
    }


def clusters(names: Mapping[Backend, str], endpoint_files: Mapping[str, Path]) -> Json:
    """The file of clusters; the endpoints of each come from a file of its own."""
    return _resources(
        {
            "@type": f"{TYPES}.cluster.v3.Cluster",
            "name": name,
            "type": "EDS",
            "eds_cluster_config": {"eds_config": _file(endpoint_files[name])},
            "connect_timeout": "1s",
            "lb_policy": "ROUND_ROBIN",
            "circuit_breakers": {
                "thresholds": [
                    {
                        "max_connections": LARGE,
                        "max_pending_requests": LARGE,
                        "max_requests": LARGE,
                    }
                ]
            },
        }
        for name in sorted(names.values())
    )


def endpoints(name: str, addresses: Iterable[tuple[str, int]]) -> Json:
    """The file with one cluster's endpoints."""
    entries = [{"endpoint": {"address": _address(address, port)}} for address, port in addresses]
    return _resources(
        [
            {
                "@type": f"{TYPES}.endpoint.v3.ClusterLoadAssignment",
                "cluster_name": name,
                "endpoints": [{"lb_endpoints": entries}] if entries else [],
            }
        ]
    )


def routes(virtual_hosts: list[Json]) -> Json:
    """The file of routes."""
    return _resources(
        [
            {
                "@type": f"{TYPES}.route.v3.RouteConfiguration",
                "name": ROUTE_CONFIGURATION,
                "virtual_hosts": virtual_hosts,
                "validate_clusters": False,
            }
        ]
    )


def _own_errors(path: Path) -> Json:
    """A log of the answers that Envoy made up itself (no healthy pod, no connection, time-out), and why."""
    return {
        "name": "envoy.access_loggers.file",
        "filter": {"response_flag_filter": {}},
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
            "path": str(path),
            "log_format": {"text_format_source": {"inline_string": OWN_ERROR_LINE}},
        },
    }


def _resources(resources: Iterable[Json]) -> Json:
    return {"resources": list(resources)}


def _file(path: Path) -> Json:
    return {"path_config_source": {"path": str(path)}, "resource_api_version": "V3"}


def _address(address: str, port: int) -> Json:
    return {"socket_address": {"address": address, "port_value": port}}
