"""Numbers of a running demo, each from whoever knows it: the operator, the gateway, Prometheus, the audit log."""

import json
import re
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from devcluster.demo.people import NAMESPACE
from devcluster.install import NAMESPACE as OPERATOR_NAMESPACE
from devcluster.install import SERVICE_ACCOUNT

_OPERATOR = f"system:serviceaccount:{OPERATOR_NAMESPACE}:{SERVICE_ACCOUNT}"
_SAMPLE = re.compile(r"^(\w+)\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
# Everything is on this machine; a proxy of the user's knows nothing of it.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class CheckLook:
    """A check of the running gate as of its last look; ratios are of good events, 0 … 1."""

    check: str
    good_ratio: float
    lower_bound: float
    upper_bound: float
    threshold: float
    samples: int


@dataclass(frozen=True)
class ArmCounts:
    """What the gateway has counted for one Service since it runs."""

    requests: int = 0
    bad: int = 0

    def __sub__(self, other: "ArmCounts") -> "ArmCounts":
        return ArmCounts(self.requests - other.requests, self.bad - other.bad)


def check_looks(operator_url: str) -> tuple[CheckLook, ...]:
    """The checks of the gate that runs now, in the operator's order; empty between gates."""
    found: dict[str, dict[str, float]] = {}
    for name, labels, value in _samples(f"{operator_url}/metrics"):
        field = name.removeprefix("gatewright_check_")
        if field != name and labels.get("namespace") == NAMESPACE:
            found.setdefault(labels["check"], {})[field] = value
    wanted = {"good_ratio", "lower_bound", "upper_bound", "threshold", "samples"}
    return tuple(
        CheckLook(
            check,
            fields["good_ratio"],
            fields["lower_bound"],
            fields["upper_bound"],
            fields["threshold"],
            int(fields["samples"]),
        )
        for check, fields in found.items()
        if wanted <= fields.keys()
    )


def gateway_counts(gateway_admin_url: str) -> dict[str, ArmCounts]:
    """Envoy's own counters by Service."""
    counts: dict[str, ArmCounts] = {}
    url = f"{gateway_admin_url}/stats/prometheus?filter=upstream_rq_[0-9]xx"
    for name, labels, value in _samples(url):
        namespace, _, service = labels.get("envoy_cluster_name", "").partition("/")
        if name == "envoy_cluster_upstream_rq_xx" and namespace == NAMESPACE:
            so_far = counts.get(service, ArmCounts())
            bad = int(value) if labels["envoy_response_code_class"] == "5" else 0
            counts[service] = ArmCounts(so_far.requests + int(value), so_far.bad + bad)
    return counts


def first_failing_scrape(prometheus_url: str, since: float) -> float | None:
    """The time of the first sample after `since` in which the canary has failed more often than at its first one.

    Asked are its pods' own counters and the gateway's; the earlier of the two counts. None: no such sample.
    """
    selectors = (
        f'http_requests_total{{namespace="{NAMESPACE}",pod=~"checkout-canary-.*",code=~"5.."}}',
        f'envoy_cluster_upstream_rq_xx{{namespace="{NAMESPACE}",service="checkout-canary",envoy_response_code_class="5"}}',
    )
    times = []
    for selector in selectors:
        query = urllib.parse.urlencode({"query": f"{selector}[{int(time.time() - since)}s]"})
        for series in json.loads(_get(f"{prometheus_url}/api/v1/query?{query}"))["data"]["result"]:
            first = float(series["values"][0][1])
            times += [float(at) for at, value in series["values"] if float(value) > first]
    return min(times, default=None)


class AuditLog:
    """The operator's writes since this object was made, as the API server recorded them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = path.stat().st_size

    def first_write(self, resource: str, *, after: float = 0.0) -> float | None:
        """When the first write of `resource` that succeeded after this time arrived, in seconds since 1970."""
        with self._path.open("rb") as log:
            log.seek(self._start)
            # The last line may still be on its way into the file.
            lines = log.read().split(b"\n")[:-1]
        events = (
            json.loads(line) for line in lines if _OPERATOR.encode() in line and resource.encode() in line
        )
        times = (_arrival(event) for event in events if _is_write(event, resource))
        return min((at for at in times if at > after), default=None)


def seconds_of(timestamp: str) -> float:
    """Seconds since 1970 of a time as the API writes it."""
    return datetime.fromisoformat(timestamp).timestamp()


def _is_write(event: dict[str, Any], resource: str) -> bool:
    return (
        event["stage"] == "ResponseComplete"
        and event["user"]["username"] == _OPERATOR
        and event["verb"] in ("update", "patch")
        and (event.get("objectRef") or {}).get("resource") == resource
        and event["responseStatus"]["code"] == 200
    )


def _arrival(event: dict[str, Any]) -> float:
    return seconds_of(event["requestReceivedTimestamp"])


def _samples(url: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for name, labels, value in _SAMPLE.findall(_get(url)):
        yield name, dict(_LABEL.findall(labels)), float(value)


def _get(url: str) -> str:
    with _DIRECT.open(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text
