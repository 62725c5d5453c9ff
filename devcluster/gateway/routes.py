"""From HTTPRoutes to Envoy's virtual hosts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from devcluster.gateway.backends import Backend, BackendError, Key, World, cluster_names, resolve
from devcluster.kubeapi import Json

DEFAULT_TIMEOUT = "15s"
UNKNOWN_CLUSTER = "unresolved"
"""No cluster has this name: Envoy answers 500 for an unusable backend's share, as the Gateway API asks."""

CONTROLLER_NAME = "gatewright.dev/devcluster-gateway"
CLASS_NAME = "devcluster"
GATEWAY_KEY: Key = ("devcluster-gateway", "gateway")


@dataclass(frozen=True)
class Resolution:
    """What became of one route: the first trouble of each kind, as (reason, message)."""

    refused: tuple[str, str] | None = None
    unresolved: tuple[str, str] | None = None


@dataclass(frozen=True)
class Routing:
    """All routes translated."""

    virtual_hosts: list[Json] = field(default_factory=list)
    clusters: dict[Backend, str] = field(default_factory=dict)
    resolutions: dict[Key, Resolution] = field(default_factory=dict)


@dataclass(frozen=True)
class _Entry:
    """One Envoy route with its rank among those of the same host name; the lowest is asked first."""

    rank: tuple[object, ...]
    route: Json


class UnsupportedValue(Exception):
    """A field that this gateway does not implement; the route is refused with the message."""


def our_parents(route: Json, gateways: Mapping[Key, Json]) -> list[Json]:
    """Those of a route's parentRefs that name a Gateway of this cluster's class."""
    found = []
    for parent in route["spec"].get("parentRefs") or []:
        if parent.get("kind", "Gateway") != "Gateway":
            continue
        key = parent.get("namespace") or route["metadata"]["namespace"], parent["name"]
        gateway = gateways.get(key)
        ours = key == GATEWAY_KEY if gateway is None else gateway["spec"]["gatewayClassName"] == CLASS_NAME
        if ours or parent["name"] == CLASS_NAME:
            found.append(parent)
    return found


def translate(world: World) -> Routing:
    """Virtual hosts for Envoy, the clusters that they use, and what to tell about each route."""
    routes = {key: route for key, route in world.routes.items() if our_parents(route, world.gateways)}
    names = cluster_names(_backends(routes, world))
    resolutions: dict[Key, Resolution] = {}
    hosts: dict[str, list[_Entry]] = {}
    for key, route in sorted(routes.items()):
        try:
            rules = route["spec"].get("rules") or [{}]
            entries = [entry for rule in rules for entry in _rule(rule, route, world, names)]
        except UnsupportedValue as error:
            resolutions[key] = Resolution(refused=("UnsupportedValue", str(error)))
            continue
        resolutions[key] = Resolution(unresolved=_first_trouble(route, world))
        for host in route["spec"].get("hostnames") or ["*"]:
            hosts.setdefault(host, []).extend(entries)
    virtual_hosts = [
        {
            "name": host,
            "domains": [host],
            "routes": [entry.route for entry in sorted(entries, key=lambda entry: entry.rank)],
        }
        for host, entries in sorted(hosts.items())
    ]
    return Routing(virtual_hosts, names, resolutions)


def _references(route: Json) -> list[Json]:
    return [
        reference for rule in route["spec"].get("rules") or [] for reference in rule.get("backendRefs") or []
    ]


def _backends(routes: Mapping[Key, Json], world: World) -> list[Backend]:
    found = []
    for (namespace, _), route in routes.items():
        for reference in _references(route):
            try:
                found.append(resolve(reference, namespace, world.services))
            except BackendError:
                continue  # told in the route's status by _first_trouble
    return found


def _first_trouble(route: Json, world: World) -> tuple[str, str] | None:
    for reference in _references(route):
        try:
            resolve(reference, route["metadata"]["namespace"], world.services)
        except BackendError as error:
            return error.reason, error.message
    return None


def _rule(rule: Json, route: Json, world: World, names: Mapping[Backend, str]) -> list[_Entry]:
    if rule.get("filters") or any(reference.get("filters") for reference in rule.get("backendRefs") or []):
        raise UnsupportedValue("the development cluster's gateway has no filters")
    metadata = route["metadata"]
    action = _action(rule, metadata["namespace"], world, names)
    age = metadata.get("creationTimestamp", ""), metadata["namespace"], metadata["name"]
    return [
        _Entry((*_specificity(match), *age), {"match": _match(match), **action})
        for match in rule.get("matches") or [{}]
    ]


def _action(rule: Json, namespace: str, world: World, names: Mapping[Backend, str]) -> Json:
    weights: list[int] = []
    weighted: list[Json] = []
    for reference in rule.get("backendRefs") or []:
        try:
            name = names[resolve(reference, namespace, world.services)]
        except BackendError:
            name = UNKNOWN_CLUSTER
        weights.append(int(reference.get("weight", 1)))
        weighted.append({"name": name, "weight": weights[-1]})
    if not sum(weights):
        return {"direct_response": {"status": 500, "body": {"inline_string": "no backend has any weight\n"}}}
    return {
        "route": {
            "weighted_clusters": {"clusters": weighted},
            "cluster_not_found_response_code": "INTERNAL_SERVER_ERROR",
            "timeout": _timeout(rule),
        }
    }


def _timeout(rule: Json) -> str:
    text = (rule.get("timeouts") or {}).get("request")
    if text is None:
        return DEFAULT_TIMEOUT
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
    seconds = sum(float(amount) * units[unit] for amount, unit in re.findall(r"([0-9.]+)(ms|h|m|s)", text))
    return f"{seconds:g}s"


def _specificity(match: Json) -> tuple[int, int, int, int, int]:
    """Smaller for what the Gateway API prefers: exact, long paths; a method; many headers and parameters."""
    path = match.get("path") or {}
    order = {"Exact": 0, "RegularExpression": 1, "PathPrefix": 2}[path.get("type", "PathPrefix")]
    return (
        order,
        -len(path.get("value", "/")),
        0 if "method" in match else 1,
        -len(match.get("headers") or []),
        -len(match.get("queryParams") or []),
    )


def _match(match: Json) -> Json:
    path = match.get("path") or {}
    value = path.get("value", "/")
    envoy: Json = {}
    match path.get("type", "PathPrefix"):
        case "Exact":
            envoy["path"] = value
        case "RegularExpression":
            envoy["safe_regex"] = {"regex": _checked_regex(value)}
        case _ if value == "/":
            envoy["prefix"] = "/"
        case _:
            envoy["path_separated_prefix"] = value.rstrip("/")
    headers = [
        {"name": header["name"], "string_match": _string_match(header)}
        for header in match.get("headers") or []
    ]
    if "method" in match:
        headers.append({"name": ":method", "string_match": {"exact": match["method"]}})
    if headers:
        envoy["headers"] = headers
    if match.get("queryParams"):
        envoy["query_parameters"] = [
            {"name": parameter["name"], "string_match": _string_match(parameter)}
            for parameter in match["queryParams"]
        ]
    return envoy


def _string_match(condition: Json) -> Json:
    if condition.get("type", "Exact") == "RegularExpression":
        return {"safe_regex": {"regex": _checked_regex(condition["value"])}}
    return {"exact": condition["value"]}


def _checked_regex(regex: str) -> str:
    """Envoy refuses its whole configuration for one broken expression, so it must not get one."""
    try:
        re.compile(regex)
    except re.error as error:
        raise UnsupportedValue(f"the regular expression {regex!r} is broken: {error}") from error
    return regex
