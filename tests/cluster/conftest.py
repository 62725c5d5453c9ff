"""Fixtures of the cluster tests: one real control plane per xdist worker, one fresh namespace per test.

    def test_something(cluster, namespace):
        kubectl(["get", "pods", "-n", namespace], cluster.kubeconfig, check=True)

`cluster`      all parts: API server, controllers, node, Prometheus, gateway; in it the chart and the
               MetricSources `prometheus` and `gateway`. The operator runs only while tests ask for it:
`operator`     the cluster's real operator, leading; started on first use, replaced when a test has ended it.
`operators`    what starts and ends that operator, for tests in which it dies.
`api_only`     API server and CRDs, nothing else: for schema tests, ready in a few seconds.
`namespace`    a namespace of its own in `cluster`, deleted afterwards; `another_namespace`: one more.
`as_user`      `as_user("reviewer-a", roles=("gatewright-reviewer",))` → kubeconfig of that person, with those
               ClusterRoles (and `rules`) bound in `namespace`; nothing else but what everybody may.
`shop`         that namespace and those people as one object; `gated`: with a gated Deployment in it.
Helpers are in `support.py` and `shop.py`.
"""

import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from devcluster import ApiRefused, Client, Instance
from devcluster.install import Operator, install
from tests.cluster.operators import OperatorKeeper
from tests.cluster.shop import Shop, deployment
from tests.cluster.support import kubectl, rest, wait_for_policies

CRDS = Path(__file__).resolve().parents[2] / "crds"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """The whole control plane with the chart in it, shared by the tests of one xdist worker."""
    with Instance(tmp_path_factory.mktemp("cluster")) as instance:
        install(instance, operator=False, report=lambda _: None)
        wait_for_policies(instance.kubeconfig)
        yield instance


@pytest.fixture(scope="session")
def operator_keeper(cluster: Instance) -> OperatorKeeper:
    """The one that both fixtures below share; tests do not ask for it."""
    return OperatorKeeper(cluster)


@pytest.fixture
def operators(operator_keeper: OperatorKeeper) -> OperatorKeeper:
    """Starts and ends the cluster's operator; a test that asks for this begins with one that leads."""
    operator_keeper.ensure()
    return operator_keeper


@pytest.fixture
def operator(operators: OperatorKeeper) -> Operator:
    """The cluster's real operator, leading."""
    return operators.ensure()


@pytest.fixture(autouse=True)
def no_operator_unless_asked_for(request: pytest.FixtureRequest) -> None:
    """Tests that play the operator themselves would meet the real one, which an earlier test left running."""
    asked = set(request.fixturenames)
    if "cluster" in asked and "operators" not in asked:
        keeper: OperatorKeeper = request.getfixturevalue("operator_keeper")
        keeper.stop()


@pytest.fixture(scope="session")
def api_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """API server and etcd with the CRDs: enough for everything that only asks whether an object is valid."""
    with Instance(tmp_path_factory.mktemp("api"), parts=("etcd", "apiserver")) as instance:
        kubectl(["apply", "--server-side", "-f", str(CRDS)], instance.kubeconfig, check=True)
        kubectl(["wait", "--for=condition=Established", "crd", "--all"], instance.kubeconfig, check=True)
        yield instance


@contextmanager
def _fresh_namespace(cluster: Instance, request: pytest.FixtureRequest, ending: str = "") -> Iterator[str]:
    # The checksum tells parameters and classes apart whose readable part is cut or the same.
    readable = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())[:40].strip("-")
    name = f"t-{readable}-{zlib.crc32(request.node.nodeid.encode()):08x}{ending}"
    rest(cluster.kubeconfig, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    # A test may have deleted it itself.
    with suppress(ApiRefused):
        rest(cluster.kubeconfig, "DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def namespace(cluster: Instance, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace named after the test; its removal is asked for, not waited for."""
    with _fresh_namespace(cluster, request) as name:
        yield name


@pytest.fixture
def another_namespace(cluster: Instance, request: pytest.FixtureRequest) -> Iterator[str]:
    """One more."""
    with _fresh_namespace(cluster, request, "-too") as name:
        yield name


@pytest.fixture
def as_user(cluster: Instance, namespace: str) -> Callable[..., Path]:
    """A person: `as_user(name, roles=(…), rules=[…], groups=(…))` → kubeconfig.

    `roles` are names of ClusterRoles, `rules` are RBAC rules; both are bound to the person in `namespace`.
    """

    def person(
        name: str,
        *,
        roles: tuple[str, ...] = (),
        rules: list[dict[str, Any]] | None = None,
        groups: tuple[str, ...] = (),
    ) -> Path:
        kubeconfig = cluster.user(name, groups=groups)
        bound = [{"kind": "ClusterRole", "name": role} for role in roles]
        group = "rbac.authorization.k8s.io"
        path = f"/apis/{group}/v1/namespaces/{namespace}"
        with Client(cluster.kubeconfig) as admin:
            if rules:
                own = {"metadata": {"name": f"{name}-own"}, "rules": rules}
                admin.create(f"{path}/roles", own, exists_ok=True)
                bound.append({"kind": "Role", "name": f"{name}-own"})
            for role in bound:
                binding = {
                    "metadata": {"name": f"{name}-{role['name']}"},
                    "roleRef": {"apiGroup": group, **role},
                    "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
                }
                admin.create(f"{path}/rolebindings", binding, exists_ok=True)
        return kubeconfig

    return person


@pytest.fixture
def shop(cluster: Instance, namespace: str, as_user: Callable[..., Path]) -> Shop:
    return Shop(namespace, cluster.kubeconfig, as_user)


@pytest.fixture
def gated(shop: Shop) -> Shop:
    """The Deployment as the operator leaves it after adoption: labelled, not paused."""
    body = deployment()
    body["metadata"]["labels"]["gatewright.dev/gated"] = "true"
    rest(shop.admin, "POST", f"/apis/apps/v1/namespaces/{shop.namespace}/deployments", body)
    return shop
