"""From routes to Envoy's configuration: which rule is asked first, what a cluster is called, who gets requests."""

import pytest

from devcluster.gateway.backends import Backend, BackendError, World, cluster_names, endpoints, resolve
from devcluster.gateway.route_status import route_parents
from devcluster.gateway.routes import CONTROLLER_NAME, Resolution, our_parents, translate
from devcluster.kubeapi import Json

PARENT = {"name": "gateway", "namespace": "devcluster-gateway"}


def service(name: str, *ports: int) -> Json:
    """A Service in ``shop`` with these ports (80 when none is given), named ``p80`` and so on."""
    entries = [{"name": f"p{port}", "port": port} for port in ports or (80,)]
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": {"ports": entries}}


def route(*rules: Json, name: str = "web", hostnames: list[str] | None = None, created: str = "2030") -> Json:
    """A route in ``shop``."""
    metadata = {"name": name, "namespace": "shop", "creationTimestamp": created, "generation": 3}
    return {
        "metadata": metadata,
        "spec": {"parentRefs": [PARENT], "hostnames": hostnames or ["shop.example"], "rules": list(rules)},
    }


def to(name: str, weight: int | None = None, port: int = 80) -> Json:
    """A backendRef."""
    return {"name": name, "port": port} | ({} if weight is None else {"weight": weight})


def world(*routes: Json, services: tuple[Json, ...] = (service("a"), service("b"))) -> World:
    """A world with these routes and Services."""
    by_name = {("shop", item["metadata"]["name"]): item for item in services}
    return World(by_name, {}, {("shop", item["metadata"]["name"]): item for item in routes}, {})


def slice_of(*entries: Json, port: int = 8080, name: str = "p80") -> Json:
    """An EndpointSlice."""
    return {"metadata": {}, "ports": [{"name": name, "port": port}], "endpoints": list(entries)}


def endpoint(address: str, uid: str = "u", **conditions: bool) -> Json:
    """One endpoint."""
    return {"addresses": [address], "conditions": conditions, "targetRef": {"kind": "Pod", "uid": uid}}


def test_weights_go_to_the_clusters_of_the_services() -> None:
    routing = translate(world(route({"backendRefs": [to("a", 95), to("b", 5)]})))
    (host,) = routing.virtual_hosts
    assert host["domains"] == ["shop.example"]
    weighted = host["routes"][0]["route"]["weighted_clusters"]["clusters"]
    assert weighted == [{"name": "shop/a", "weight": 95}, {"name": "shop/b", "weight": 5}]


def test_a_weight_that_is_not_given_is_one() -> None:
    routing = translate(world(route({"backendRefs": [to("a"), to("b", 3)]})))
    weighted = routing.virtual_hosts[0]["routes"][0]["route"]["weighted_clusters"]["clusters"]
    assert [entry["weight"] for entry in weighted] == [1, 3]


@pytest.mark.parametrize("backends", [[], [to("a", 0), to("b", 0)]])
def test_a_rule_without_weight_answers_500(backends: list[Json]) -> None:
    routing = translate(world(route({"backendRefs": backends})))
    assert routing.virtual_hosts[0]["routes"][0]["direct_response"]["status"] == 500


def test_a_service_of_weight_zero_has_a_cluster_too() -> None:
    routing = translate(world(route({"backendRefs": [to("a", 1), to("b", 0)]})))
    assert sorted(routing.clusters.values()) == ["shop/a", "shop/b"]


def test_a_missing_service_keeps_its_share_and_is_told() -> None:
    routing = translate(world(route({"backendRefs": [to("a", 9), to("gone", 1)]})))
    weighted = routing.virtual_hosts[0]["routes"][0]["route"]["weighted_clusters"]["clusters"]
    assert [entry["weight"] for entry in weighted] == [9, 1]
    assert weighted[1]["name"] not in routing.clusters.values()
    unresolved = routing.resolutions["shop", "web"].unresolved
    assert unresolved is not None
    assert unresolved[0] == "BackendNotFound"


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        (to("gone"), "BackendNotFound"),
        (to("a", port=81), "BackendNotFound"),
        ({**to("a"), "kind": "Bucket"}, "InvalidKind"),
        ({**to("a"), "namespace": "other"}, "RefNotPermitted"),
    ],
)
def test_a_backend_that_cannot_be_used_has_the_gateway_apis_reason(reference: Json, reason: str) -> None:
    with pytest.raises(BackendError) as caught:
        resolve(reference, "shop", world().services)
    assert caught.value.reason == reason


def test_the_more_specific_match_is_asked_first_whatever_the_order_of_the_rules() -> None:
    def path(kind: str, value: str) -> Json:
        return {"path": {"type": kind, "value": value}}

    matches = [
        {},
        {"headers": [{"name": "x", "value": "1"}]},
        {"method": "POST"},
        path("PathPrefix", "/api"),
        path("PathPrefix", "/api/v2"),
        path("Exact", "/api"),
    ]
    rules = [{"matches": [match], "backendRefs": [to("a")]} for match in matches]
    routing = translate(world(route(*rules)))
    asked = [entry["match"] for entry in routing.virtual_hosts[0]["routes"]]
    assert asked[0] == {"path": "/api"}
    assert asked[1] == {"path_separated_prefix": "/api/v2"}
    assert asked[2] == {"path_separated_prefix": "/api"}
    assert asked[3]["headers"][0]["name"] == ":method"
    assert asked[4]["headers"][0]["name"] == "x"
    assert asked[5] == {"prefix": "/"}


def test_of_two_equal_routes_the_older_one_is_asked_first() -> None:
    young = route({"backendRefs": [to("a")]}, name="a-young", created="2031")
    old = route({"backendRefs": [to("b")]}, name="b-old", created="2030")
    routing = translate(world(young, old))
    (host,) = routing.virtual_hosts
    first = host["routes"][0]["route"]["weighted_clusters"]["clusters"][0]["name"]
    assert first == "shop/b"


def test_a_second_port_of_a_service_has_a_cluster_of_its_own() -> None:
    names = cluster_names([Backend("shop", "a", 9090), Backend("shop", "a", 80), Backend("shop", "a", 80)])
    assert names == {Backend("shop", "a", 80): "shop/a", Backend("shop", "a", 9090): "shop/a/9090"}


def test_only_ready_pods_that_are_not_ending_get_requests_at_their_loopback_addresses() -> None:
    slices = {
        "one": slice_of(
            endpoint("10.244.0.5"),
            endpoint("10.244.0.1", ready=True),
            endpoint("10.244.0.2", ready=False),
            endpoint("10.244.0.3", ready=True, terminating=True),
            endpoint("10.244.0.4", uid="deleted", ready=True),
        ),
        "two": slice_of(endpoint("10.244.9.9", ready=True), port=9999, name="other"),
        "three": slice_of(endpoint("192.0.2.7", ready=True)),
    }
    here = World({("shop", "a"): service("a")}, {("shop", "a"): slices}, ending={"deleted"})
    assert endpoints(Backend("shop", "a", 80), here) == [("127.244.0.1", 8080), ("127.244.0.5", 8080)]


@pytest.mark.parametrize(
    ("parent", "gateways", "ours"),
    [
        (PARENT, {}, True),
        ({"name": "devcluster"}, {}, True),
        ({"name": "elsewhere"}, {}, False),
        ({"name": "own"}, {("shop", "own"): {"spec": {"gatewayClassName": "devcluster"}}}, True),
        ({"name": "own"}, {("shop", "own"): {"spec": {"gatewayClassName": "other"}}}, False),
        ({"name": "svc", "kind": "Service"}, {}, False),
    ],
)
def test_a_route_counts_when_it_names_a_gateway_of_our_class(
    parent: Json, gateways: dict[tuple[str, str], Json], ours: bool
) -> None:
    item = route()
    item["spec"]["parentRefs"] = [parent]
    assert bool(our_parents(item, gateways)) is ours


def test_a_routes_status_keeps_other_controllers_entries_and_is_not_written_twice() -> None:
    item = route({"backendRefs": [to("a")]})
    foreign = {"parentRef": {"name": "x"}, "controllerName": "example.org/other", "conditions": []}
    item["status"] = {"parents": [foreign]}
    parents = route_parents(item, Resolution(), {}, "now")
    assert parents is not None
    assert parents[0] == foreign
    assert parents[1]["controllerName"] == CONTROLLER_NAME
    assert {entry["observedGeneration"] for entry in parents[1]["conditions"]} == {3}
    item["status"] = {"parents": parents}
    assert route_parents(item, Resolution(), {}, "later") is None
    item["metadata"]["generation"] = 4
    again = route_parents(item, Resolution(), {}, "later")
    assert again is not None
    assert {entry["lastTransitionTime"] for entry in again[1]["conditions"]} == {"now"}
