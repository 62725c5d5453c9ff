"""The control plane of a development cluster: real rights, controllers, audit log and scrapes."""

import http.server
import json
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from devcluster import ApiRefused, Client, DevclusterError, Instance
from devcluster.addresses import listen_address
from devcluster.node.address_pool import AddressPool

pytestmark = pytest.mark.cluster

T = TypeVar("T")


def eventually(look: Callable[[], T], what: str, seconds: float = 30.0) -> T:
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.05)
    return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with Instance(
        tmp_path_factory.mktemp("controlplane"),
        parts={"controller-manager", "prometheus"},
        gateway_api=True,
        scrape_interval_seconds=0.5,
    ) as instance:
        for part, seconds in instance.ready_after_seconds.items():
            print(f"{part} ready after {seconds:.2f} s")
        yield instance


@pytest.fixture(scope="module")
def admin(cluster: Instance) -> Iterator[Client]:
    with Client(cluster.kubeconfig) as client:
        yield client


def bind_reader(admin: Client, namespace: str, subject: dict[str, str]) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    admin.create(
        f"{rbac}/namespaces/{namespace}/rolebindings",
        {
            "metadata": {"name": f"reads-{subject['name']}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "pod-reader"},
            "subjects": [subject],
        },
    )


@pytest.fixture(scope="module")
def shop(admin: Client) -> str:
    """A namespace, and a ClusterRole ``pod-reader`` to bind in it."""
    admin.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    admin.create(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        {
            "metadata": {"name": "pod-reader"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}],
        },
    )
    return "shop"


def test_a_user_without_rights_is_refused_and_told_so_by_name(cluster: Instance, shop: str) -> None:
    with (
        Client(cluster.user("reviewer-a")) as reviewer,
        pytest.raises(ApiRefused, match='User "reviewer-a" cannot list resource "pods"') as refused,
    ):
        reviewer.request("GET", f"/api/v1/namespaces/{shop}/pods")
    assert refused.value.status == 403


def test_a_right_given_to_a_group_is_held_by_its_members_alone(
    cluster: Instance, admin: Client, shop: str
) -> None:
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "shop-sre"}
    bind_reader(admin, shop, group)
    with Client(cluster.user("sre-1", ["shop-sre"])) as member:
        eventually(lambda: _may_list_pods(member, shop), "the member of the group may list pods")
    with Client(cluster.user("sre-1")) as same_name_without_group:
        assert not _may_list_pods(same_name_without_group, shop), "the name alone must not carry the right"


def _may_list_pods(client: Client, namespace: str) -> bool:
    try:
        client.request("GET", f"/api/v1/namespaces/{namespace}/pods")
    except ApiRefused as error:
        if error.status != 403:
            raise
        return False
    return True


def test_the_api_server_names_a_user_and_groups_as_they_were_asked_for(cluster: Instance) -> None:
    path = cluster.user("team/reviewer-b", ["a", "b"])
    with Client(path) as client:
        review = client.request(
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
        )
    who = review["status"]["userInfo"]
    assert who["username"] == "team/reviewer-b"
    assert set(who["groups"]) == {"a", "b", "system:authenticated"}
    assert path.parent == cluster.dir / "users", "a name with a slash must not leave the folder"


def test_a_service_account_speaks_under_its_own_name(cluster: Instance, shop: str) -> None:
    with (
        Client(cluster.service_account_kubeconfig(shop, "default")) as account,
        pytest.raises(ApiRefused, match=r"system:serviceaccount:shop:default"),
    ):
        account.request("GET", f"/api/v1/namespaces/{shop}/pods")


def test_a_service_account_that_is_not_there_is_told_in_a_sentence(cluster: Instance, shop: str) -> None:
    with pytest.raises(DevclusterError, match="There is no service account nobody in namespace shop"):
        cluster.service_account_kubeconfig(shop, "nobody")


def test_without_credentials_nothing_is_served(cluster: Instance, tmp_path: Path) -> None:
    config = json.loads(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "guessed"}
    (tmp_path / "anonymous").write_text(json.dumps(config))
    with (
        Client(tmp_path / "anonymous") as stranger,
        pytest.raises(ApiRefused, match="Unauthorized"),
    ):
        stranger.request("GET", "/version")


def audit_entries(cluster: Instance) -> list[dict[str, Any]]:
    return [json.loads(line) for line in cluster.audit_log.read_text().splitlines()]


def test_the_audit_log_says_who_asked_for_what_and_what_came_of_it(cluster: Instance, shop: str) -> None:
    with Client(cluster.user("auditor")) as client, pytest.raises(ApiRefused):
        client.request("GET", f"/api/v1/namespaces/{shop}/configmaps/no-such")

    def mine() -> list[dict[str, Any]]:
        # A request without valid credentials is logged too, and has no name.
        return [entry for entry in audit_entries(cluster) if entry["user"].get("username") == "auditor"]

    found = eventually(mine, "the request is in the audit log", 5)
    assert [(entry["verb"], entry["responseStatus"]["code"], entry["stage"]) for entry in found] == [
        ("get", 403, "ResponseComplete")
    ]


def test_a_deployment_becomes_pods_by_kubernetes_own_controllers_under_their_own_names(
    cluster: Instance, admin: Client, shop: str
) -> None:
    labels = {"app": "checkout"}
    admin.create(
        f"/apis/apps/v1/namespaces/{shop}/deployments",
        {
            "metadata": {"name": "checkout"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "app", "image": "checkout:v1"}]},
                },
            },
        },
    )
    selector = urllib.parse.quote("app=checkout")
    pods = f"/api/v1/namespaces/{shop}/pods?labelSelector={selector}"
    eventually(lambda: len(admin.request("GET", pods)["items"]) == 2, "two pods of the Deployment exist")
    writers = {
        entry["objectRef"]["resource"]: entry["user"]["username"]
        for entry in audit_entries(cluster)
        if entry["verb"] == "create" and entry["objectRef"].get("namespace") == shop
    }
    assert writers["replicasets"] == "system:serviceaccount:kube-system:deployment-controller"
    assert writers["pods"] == "system:serviceaccount:kube-system:replicaset-controller"


def test_aggregated_roles_are_filled(admin: Client) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/edit"
    eventually(lambda: admin.request("GET", path)["rules"], "the role `edit` has rules")


def test_the_server_says_its_true_version_and_serves_mutating_admission_policies(admin: Client) -> None:
    version = admin.request("GET", "/version")
    assert (version["major"], version["minor"]) == ("1", "36"), version
    served = admin.request("GET", "/apis/admissionregistration.k8s.io/v1")["resources"]
    assert "mutatingadmissionpolicies" in {resource["name"] for resource in served}


def test_the_gateway_api_takes_an_http_route_and_refuses_a_wrong_one(admin: Client, shop: str) -> None:
    routes = f"/apis/gateway.networking.k8s.io/v1/namespaces/{shop}/httproutes"
    rule = {"backendRefs": [{"name": "checkout", "port": 80, "weight": 95}]}
    admin.create(routes, {"metadata": {"name": "checkout"}, "spec": {"rules": [rule]}} | _http_route())
    wrong = {"backendRefs": [{"name": "checkout", "port": 80, "weight": -1}]}
    with pytest.raises(ApiRefused, match="weight"):
        admin.create(routes, {"metadata": {"name": "wrong"}, "spec": {"rules": [wrong]}} | _http_route())


def _http_route() -> dict[str, str]:
    return {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute"}


class _Metrics(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/numbers" else 404)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(b"checkout_orders_total 41\n")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def pod_address() -> Iterator[str]:
    """An address that no other cluster on this machine gives to a pod."""
    pool = AddressPool()
    yield pool.take()
    pool.close()


def test_prometheus_finds_a_pod_that_asks_for_it_and_labels_its_numbers(
    cluster: Instance, admin: Client, shop: str, pod_address: str
) -> None:
    server = http.server.ThreadingHTTPServer((listen_address(pod_address), 0), _Metrics)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    annotations = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(server.server_port),
        "prometheus.io/path": "/numbers",
    }
    container = {"name": "app", "image": "x"}
    # Two ports must not make two targets: every request would count twice.
    ports = [{"containerPort": 8080}, {"containerPort": 8081}]
    admin.create(
        f"/api/v1/namespaces/{shop}/pods",
        {
            "metadata": {"name": "scraped", "labels": {"app": "checkout"}, "annotations": annotations},
            "spec": {"containers": [container | {"ports": ports}]},
        },
    )
    admin.request(
        "PATCH",
        f"/api/v1/namespaces/{shop}/pods/scraped/status",
        {"status": {"phase": "Running", "podIP": pod_address, "podIPs": [{"ip": pod_address}]}},
        content_type="application/merge-patch+json",
    )
    try:
        began = time.monotonic()
        series = eventually(lambda: _query(cluster, "checkout_orders_total"), "the pod's counter is there")
        print(f"found and scraped after {time.monotonic() - began:.1f} s")
    finally:
        server.shutdown()
        server.server_close()
    assert len(series) == 1, series
    labels = series[0]["metric"]
    assert {name: labels.get(name) for name in ("namespace", "pod", "app", "job")} == {
        "namespace": "shop",
        "pod": "scraped",
        "app": "checkout",
        "job": "pods",
    }
    assert series[0]["value"][1] == "41"


def _query(cluster: Instance, promql: str) -> list[dict[str, Any]]:
    url = f"{cluster.prometheus_url}/api/v1/query?query={urllib.parse.quote(promql)}"
    with urllib.request.urlopen(url, timeout=5) as response:
        result: list[dict[str, Any]] = json.load(response)["data"]["result"]
    return result


def test_prometheus_may_read_pods_and_nothing_that_is_secret(cluster: Instance, shop: str) -> None:
    with Client(cluster.dir / "parts" / "prometheus.kubeconfig") as prometheus:
        assert prometheus.request("GET", "/api/v1/pods")["items"] is not None
        with pytest.raises(ApiRefused, match="cannot list resource"):
            prometheus.request("GET", f"/api/v1/namespaces/{shop}/secrets")


def test_the_url_of_a_part_that_does_not_run_is_an_error_that_says_what_to_do(cluster: Instance) -> None:
    with pytest.raises(DevclusterError, match="runs without gateway: name it in `parts`"):
        _ = cluster.gateway_url


def test_a_cluster_is_found_again_by_its_folder(cluster: Instance) -> None:
    found = Instance.attach(cluster.dir)
    assert found.kubeconfig == cluster.kubeconfig
    assert found.prometheus_url == cluster.prometheus_url
    assert found.scrape_interval_seconds == 0.5
    assert found.user("sre-2") == cluster.user("sre-2")
