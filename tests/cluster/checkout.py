"""The service `checkout` as its owners write it: Deployment, Services, route, contract and Rollout.

Gates are as short as one-second scrapes allow: windows of 2 s, and a warm-up in which Prometheus finds the new pods
(on a busy cluster it looks for them every few seconds only, and one window without them spoils the evidence).
"""

from collections.abc import Iterable
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.cluster.support import Manifest

GATE: Manifest = {"warmup": "3s", "duration": "4s", "maxDuration": "8s", "window": "2s", "interval": "1s"}
STEPS: list[Manifest] = [{"setWeight": 50}, {"gate": GATE}]
TWO_STEPS: list[Manifest] = [{"setWeight": 25}, {"gate": GATE}, {"setWeight": 50}, {"gate": GATE}]
LONG_GATE: Manifest = {"warmup": "1s", "duration": "5m", "window": "2s", "interval": "1s"}
LONG: list[Manifest] = [{"setWeight": 50}, {"gate": LONG_GATE}]
"""A gate that lasts until something else happens."""
RATE = 150.0
"""Requests per second: at weight 50 and a 5 % limit a clean gate proves itself in about three seconds."""


def in_hours(hours: float) -> str:
    """A time from now, as the API writes it."""
    return (datetime.now(UTC) + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


def check(id_: str = "http-success", *, stages: Iterable[str] = ("Canary",), **fields: Any) -> Manifest:
    """A check on the service's own counters; `fields` override or add."""
    return {
        "id": id_,
        "oracleKind": "Deterministic",
        "limit": {"maxBadRatio": 0.05},
        "evidence": [
            {
                "stages": list(stages),
                "counts": {
                    "source": "prometheus",
                    "bad": ['http_requests_total{code=~"5.."}'],
                    "total": ["http_requests_total"],
                },
            }
        ],
        **fields,
    }


def contract(checks: list[Manifest] | None = None, **spec: Any) -> Manifest:
    return {
        "apiVersion": "gatewright.dev/v1alpha1",
        "kind": "GateContract",
        "metadata": {"name": "checkout"},
        "spec": {
            "totalFailure": {"badRatio": 0.5, "for": "3s"},
            "checks": [check()] if checks is None else checks,
            **spec,
        },
    }


def service(name: str, selector: dict[str, str] | None = None) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": selector or {"app": "checkout"}, "ports": [{"port": 80, "targetPort": "http"}]},
    }


def http_route(host: str) -> Manifest:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "checkout"},
        "spec": {
            "parentRefs": [{"name": "gateway", "namespace": "devcluster-gateway"}],
            "hostnames": [host],
            "rules": [
                {
                    "backendRefs": [
                        {"name": "checkout", "port": 80, "weight": 100},
                        {"name": "checkout-canary", "port": 80, "weight": 0},
                    ]
                }
            ],
        },
    }


def deployment(replicas: int = 2, **env: str) -> Manifest:
    """The sample service, version v1, without errors."""
    variables = {"PORT": "8080", "VERSION": "v1", "ERROR_RATE": "0", "ERROR_PATTERN": "even", **env}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "checkout", "labels": {"app": "checkout", "team": "payments"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "checkout"}},
            "template": {
                "metadata": {
                    "labels": {"app": "checkout"},
                    "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
                },
                "spec": {
                    "terminationGracePeriodSeconds": 10,
                    "containers": [
                        {
                            "name": "app",
                            "image": "shop/checkout:v1",
                            "command": ["python", "-m", "devcluster.sample"],
                            "ports": [{"name": "http", "containerPort": 8080}],
                            "env": [{"name": k, "value": v} for k, v in variables.items()],
                            "readinessProbe": {
                                "httpGet": {"path": "/readyz", "port": "http"},
                                "periodSeconds": 1,
                            },
                        }
                    ],
                },
            },
        },
    }


def rollout(steps: list[Manifest] | None = None, **spec: Any) -> Manifest:
    gateway = {"httpRoute": "checkout", "stableService": "checkout", "canaryService": "checkout-canary"}
    return {
        "apiVersion": "gatewright.dev/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": "checkout"},
        "spec": {
            "workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "checkout"},
            "contractRef": {"name": "checkout"},
            "traffic": {"gatewayAPI": gateway},
            "steps": deepcopy(STEPS if steps is None else steps),
            **spec,
        },
    }
