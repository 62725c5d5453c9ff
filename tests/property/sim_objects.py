"""What stands in the simulated namespace before anything happens: one service, its route, its contract, its Rollout."""

from collections.abc import Iterable
from typing import Any

from gatewright_operator.shipped import AS_THE_CHART, shipped
from tests.property.sim_api import OPERATOR

Manifest = dict[str, Any]

NAMESPACE = "shop"
NAME = "checkout"
CANARY = "checkout-canary"
REPLICAS = 4

GATE: Manifest = {"warmup": "1s", "duration": "60s", "window": "20s", "interval": "10s"}
TWO_STEPS: list[Manifest] = [{"setWeight": 25}, {"gate": GATE}, {"setWeight": 50}, {"gate": GATE}]
WITH_PAUSE: list[Manifest] = [
    {"setWeight": 25},
    {"gate": GATE},
    {"pause": {"duration": "30s"}},
    {"gate": GATE},
]
BAKE: Manifest = {"warmup": "1s", "duration": "60s", "window": "20s", "interval": "10s"}
GATEWAY: Manifest = {"gatewayAPI": {"httpRoute": NAME, "stableService": NAME, "canaryService": CANARY}}
BY_REPLICAS: Manifest = {"replicas": {}}


def template(version: str) -> Manifest:
    return {
        "metadata": {"labels": {"app": NAME}, "annotations": {"prometheus.io/scrape": "true"}},
        "spec": {"containers": [{"name": "app", "image": f"shop/checkout:{version}"}]},
    }


def deployment() -> Manifest:
    return {
        "metadata": {
            "name": NAME,
            "labels": {"app": NAME, "team": "payments"},
            "annotations": {"example.org/owner": "payments"},
        },
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": NAME}},
            "strategy": {"type": "RollingUpdate"},
            "revisionHistoryLimit": 10,
            "template": template("v1"),
        },
    }


def service(name: str) -> Manifest:
    return {
        "metadata": {"name": name, "annotations": {"example.org/owner": "platform"}},
        "spec": {"selector": {"app": NAME}, "ports": [{"port": 80, "targetPort": 8080}]},
    }


def route() -> Manifest:
    """Weights in whole percent, a third backend beside the two, and a rule that is none of ours."""
    return {
        "metadata": {"name": NAME, "labels": {"app": NAME}},
        "spec": {
            "hostnames": ["checkout.example.org"],
            "rules": [
                {
                    "backendRefs": [
                        {"name": NAME, "port": 80, "weight": 100},
                        {"name": CANARY, "port": 80, "weight": 0},
                        {"name": "legacy", "port": 80, "weight": 20},
                    ]
                },
                {"backendRefs": [{"name": "assets", "port": 80, "weight": 1}]},
            ],
        },
    }


def contract(watched: Iterable[str] = ()) -> Manifest:
    """`watched`: names of models whose fingerprints the contract binds to."""
    models = [
        {"name": name, "source": "prometheus", "series": "model_info", "labels": ["version"]}
        for name in watched
    ]
    return {
        "metadata": {"name": NAME},
        "spec": {
            **({"world": {"fingerprints": models}} if models else {}),
            "checks": [
                {
                    "id": "http-success",
                    "oracleKind": "Deterministic",
                    "limit": {"maxBadRatio": 0.05},
                    "evidence": [
                        {
                            "stages": ["Canary", "Bake"],
                            "counts": {
                                "source": "prometheus",
                                "bad": ['http_requests_total{code=~"5.."}'],
                                "total": ["http_requests_total"],
                            },
                        }
                    ],
                }
            ],
        },
    }


def source() -> Manifest:
    return {
        "metadata": {"name": "prometheus"},
        "spec": {
            "address": "http://prometheus.example.org:9090",
            "scrapeInterval": "5s",
            "arms": {"by": "PodName", "label": "pod"},
            "producer": "Workload",
        },
    }


def rollout(
    steps: list[Manifest] | None = None, *, traffic: Manifest | None = None, bake: Manifest | None = BAKE
) -> Manifest:
    spec: Manifest = {
        "workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
        "contractRef": {"name": NAME},
        "traffic": GATEWAY if traffic is None else traffic,
        "steps": TWO_STEPS if steps is None else steps,
    }
    if bake is not None:
        spec["bake"] = bake
    return {"metadata": {"name": NAME}, "spec": spec}


def policies() -> list[tuple[str, Manifest]]:
    """(plural's first word, object) of each admission policy and binding of the chart."""
    labels = {"app.kubernetes.io/name": "gatewright"}
    found: list[tuple[str, Manifest]] = []
    for one in shipped(OPERATOR, AS_THE_CHART):
        kind = "mutating" if one.mutating else "validating"
        metadata = {"name": one.name, "labels": labels}
        found.append((kind, {"metadata": dict(metadata), "spec": one.policy}))
        found.append((f"{kind}-binding", {"metadata": dict(metadata), "spec": one.binding}))
    return found
