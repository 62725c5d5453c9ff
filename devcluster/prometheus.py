"""What Prometheus scrapes in a development cluster: the pods that ask for it, and the gateway's own counters.

Pods ask by annotations: ``prometheus.io/scrape: "true"``, ``prometheus.io/port``, and ``prometheus.io/path``
(default ``/metrics``). Their series carry the labels ``namespace``, ``pod`` and, if the pod has it, ``app``;
pods that are not ready or are being terminated are scraped as long as they exist. The gateway's series carry
``namespace`` and ``service``: the gateway names each of its clusters ``NAMESPACE/SERVICE``.
"""

import json
from pathlib import Path
from typing import Any


def scrape_interval(seconds: float) -> str:
    """``seconds`` as Prometheus writes a duration."""
    return f"{round(seconds * 1000)}ms"


def prometheus_config(
    *, interval_seconds: float, kubeconfig: Path | None, gateway_admin_port: int | None
) -> str:
    """The configuration file; None leaves out the pods or the gateway."""
    jobs: list[dict[str, Any]] = []
    if kubeconfig is not None:
        jobs.append(_pods_job(kubeconfig))
    if gateway_admin_port is not None:
        jobs.append(_gateway_job(gateway_admin_port))
    interval = scrape_interval(interval_seconds)
    config = {
        "global": {
            "scrape_interval": interval,
            "scrape_timeout": interval,  # it may not be longer, and a slow machine needs all of it
            "evaluation_interval": interval,
        },
        "scrape_configs": jobs,
    }
    return json.dumps(config, indent=1) + "\n"


def _pods_job(kubeconfig: Path) -> dict[str, Any]:
    pod = "__meta_kubernetes_pod"
    return {
        "job_name": "pods",
        "kubernetes_sd_configs": [{"role": "pod", "kubeconfig_file": str(kubeconfig)}],
        "relabel_configs": [
            {"source_labels": [f"{pod}_annotation_prometheus_io_scrape"], "regex": "true", "action": "keep"},
            {"source_labels": [f"{pod}_phase"], "regex": "Succeeded|Failed", "action": "drop"},
            # One target per pod, whatever containers and ports it has: equal targets are scraped once.
            {
                "source_labels": [f"{pod}_ip", f"{pod}_annotation_prometheus_io_port"],
                "separator": ":",
                "regex": r"(.+:\d+)",
                "target_label": "__address__",
            },
            # A pod reports 10.244.a.b and its process listens on 127.244.a.b.
            {"source_labels": ["__address__"], "regex": r"10\.244\.(.*)", "replacement": "127.244.$1"}
            | {"target_label": "__address__"},
            {"source_labels": [f"{pod}_annotation_prometheus_io_path"], "regex": "(.+)"}
            | {"target_label": "__metrics_path__"},
            {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
            {"source_labels": [f"{pod}_name"], "target_label": "pod"},
            {"source_labels": [f"{pod}_label_app"], "target_label": "app"},
        ],
    }


def _gateway_job(admin_port: int) -> dict[str, Any]:
    split = {"source_labels": ["envoy_cluster_name"], "regex": "([^/]+)/(.+)"}
    return {
        "job_name": "gateway",
        "metrics_path": "/stats/prometheus",
        "static_configs": [{"targets": [f"127.0.0.1:{admin_port}"]}],
        "metric_relabel_configs": [
            split | {"replacement": "$1", "target_label": "namespace"},
            split | {"replacement": "$2", "target_label": "service"},
        ],
    }
