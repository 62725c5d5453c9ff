"""Fixtures for the tests of the node, the gateway and the sample service, on a real API server.

`machine`    a cluster with node and gateway, shared by the tests of one xdist worker.
`cluster`    a `Cluster`: that machine, a client with all rights, and a namespace of the test's own.
"""

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from devcluster import ALL_PARTS, Instance
from devcluster.kubeapi import KubeApi
from devcluster.resources import NAMESPACES
from tests.devcluster.support import Cluster


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """Everything but Prometheus."""
    with Instance(tmp_path_factory.mktemp("devcluster"), parts=ALL_PARTS - {"prometheus"}) as instance:
        yield instance


@pytest.fixture
async def cluster(machine: Instance) -> AsyncIterator[Cluster]:
    """A namespace of its own in the shared cluster; it is deleted afterwards, which nobody waits for."""
    async with KubeApi.from_kubeconfig(machine.kubeconfig, user_agent="test") as api:
        namespace = f"t-{uuid.uuid4().hex[:8]}"
        await api.create(NAMESPACES, {"metadata": {"name": namespace}})
        yield Cluster(machine, api, namespace)
        await api.delete(NAMESPACES, namespace)
