"""Fixtures of the cluster tests: one real control plane per xdist worker, one fresh namespace per test.

    def test_something(cluster, namespace):
        kubectl(["get", "pods", "-n", namespace], cluster.kubeconfig, check=True)

`cluster`      all parts: API server, controllers, node, Prometheus, gateway; in it the chart and the
               MetricSources `prometheus` and `gateway`. No operator: a test that wants one starts its own,
               so that it can also stop it.
`api_only`     API server and CRDs, nothing else: for schema tests, ready in a few seconds.
`namespace`    a namespace of its own in `cluster`, deleted afterwards.
`as_user`      `as_user("reviewer-a", roles=("gatewright-reviewer",))` → kubeconfig of that person, with those
               ClusterRoles (and `rules`) bound in `namespace`; nothing else but what everybody may.
`shop`         that namespace and those people as one object; `gated`: with a gated Deployment in it.
Helpers are in `support.py` and `shop.py`.
"""

import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster import Instance
from devcluster.install import install
from tests.cluster.shop import Shop, allowed, deployment
from tests.cluster.support import Manifest, apply, kubectl, wait_for_policies

CRDS = Path(__file__).resolve().parents[2] / "crds"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """The whole control plane with the chart in it, shared by the tests of one xdist worker."""
    with Instance(tmp_path_factory.mktemp("cluster")) as instance:
        install(instance, operator=False, report=lambda _: None)
        wait_for_policies(instance.kubeconfig)
        yield instance


@pytest.fixture(scope="session")
def api_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """API server and etcd with the CRDs: enough for everything that only asks whether an object is valid."""
    with Instance(tmp_path_factory.mktemp("api"), parts=("etcd", "apiserver")) as instance:
        kubectl(["apply", "--server-side", "-f", str(CRDS)], instance.kubeconfig, check=True)
        kubectl(["wait", "--for=condition=Established", "crd", "--all"], instance.kubeconfig, check=True)
        yield instance


@pytest.fixture
def namespace(cluster: Instance, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace named after the test; its removal is asked for, not waited for."""
    # The checksum tells parameters and classes apart whose readable part is cut or the same.
    readable = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())[:40].strip("-")
    name = f"t-{readable}-{zlib.crc32(request.node.nodeid.encode()):08x}"
    kubectl(["create", "namespace", name], cluster.kubeconfig, check=True)
    yield name
    kubectl(["delete", "namespace", name, "--wait=false"], cluster.kubeconfig)


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
        bound: list[Manifest] = [{"kind": "ClusterRole", "name": role} for role in roles]
        manifests: list[Manifest] = []
        rbac = "rbac.authorization.k8s.io"
        if rules:
            own = {"name": f"{name}-own", "namespace": namespace}
            manifests.append({"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": own, "rules": rules})
            bound.append({"kind": "Role", "name": f"{name}-own"})
        for role in bound:
            manifests.append(
                {
                    "apiVersion": f"{rbac}/v1",
                    "kind": "RoleBinding",
                    "metadata": {"name": f"{name}-{role['name']}", "namespace": namespace},
                    "roleRef": {"apiGroup": rbac, **role},
                    "subjects": [{"apiGroup": rbac, "kind": "User", "name": name}],
                }
            )
        if manifests:
            answer = apply(manifests, cluster.kubeconfig)
            assert answer.ok, f"the rights of {name} could not be written: {answer.err}"
        return kubeconfig

    return person


@pytest.fixture
def shop(cluster: Instance, namespace: str, as_user: Callable[..., Path]) -> Shop:
    return Shop(namespace, cluster.kubeconfig, as_user)


@pytest.fixture
def gated(shop: Shop) -> Shop:
    """The Deployment as the operator leaves it after adoption: labelled, not paused."""
    allowed(shop.run(shop.admin, "apply", "--server-side", "-f", "-", manifest=deployment()))
    shop.operator("label", "deployment", "checkout", "gatewright.dev/gated=true")
    return shop
