"""The Node object and its Lease: what keeps the cluster believing that the node is there."""

import asyncio
import contextlib
import logging
import os
import platform
from datetime import UTC, datetime
from typing import Any

from devcluster.kubeapi import ApiError, Conflict, Json, KubeApi, NotFound
from devcluster.node.environment import HOST_IP
from devcluster.node.status import timestamp
from devcluster.resources import LEASES, NODES

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
RENEW_SECONDS = 10.0
MAX_PODS = 1500


def node_labels(name: str) -> dict[str, str]:
    """The labels that a kubelet gives its node."""
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture,
    }


class NodeRegistration:
    """Creates the Node, and keeps its Lease and its Ready condition fresh."""

    def __init__(self, api: KubeApi, name: str) -> None:
        self._api, self._name = api, name
        self._since = timestamp()

    async def register(self) -> None:
        """Make the Node exist and be Ready; tries until the API server answers."""
        while True:
            try:
                await self._ensure_node()
                await self._api.patch(NODES, self._name, {"status": self._status()}, subresource="status")
                await self._renew_lease()
                return
            except ApiError as error:
                if error.status in (401, 403):
                    raise
                log.info("node not registered yet", extra={"error": str(error)})
                await asyncio.sleep(0.2)

    async def keep_alive(self) -> None:
        """Renew for ever; a failure is tried again soon."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self._ensure_node()
                await self._renew_lease()
                await self._api.patch(NODES, self._name, {"status": self._status()}, subresource="status")
            except ApiError as error:
                log.warning("node not renewed", extra={"error": str(error)})

    async def _ensure_node(self) -> None:
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self._name, "labels": node_labels(self._name)},
            "spec": {"podCIDR": "10.244.0.0/16", "podCIDRs": ["10.244.0.0/16"]},
        }
        try:
            await self._api.get(NODES, self._name)
        except NotFound:
            with contextlib.suppress(Conflict):  # made by somebody else meanwhile: it exists, that is enough
                await self._api.create(NODES, node)
                # Admission marks a new node as not ready, for the scheduler; here this agent places the pods.
                await self._api.patch(NODES, self._name, {"spec": {"taints": None}})

    def _status(self) -> Json:
        now = timestamp()
        resources = {
            "cpu": str(os.cpu_count() or 1),
            "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') // 1024}Ki",
            "pods": str(MAX_PODS),
        }
        conditions = [("Ready", "True", "KubeletReady", "the node agent runs pods as processes")]
        for pressure in ("MemoryPressure", "DiskPressure", "PIDPressure"):
            conditions.append(
                (pressure, "False", "NotMeasured", "the development cluster does not measure it")
            )
        return {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [
                {"type": "InternalIP", "address": HOST_IP},
                {"type": "Hostname", "address": self._name},
            ],
            "nodeInfo": {
                "architecture": node_labels(self._name)["kubernetes.io/arch"],
                "bootID": "",
                "containerRuntimeVersion": "devcluster://1",
                "kernelVersion": platform.release(),
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.36.3",
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "processes of the development cluster",
                "systemUUID": "",
            },
            "conditions": [
                {
                    "type": kind,
                    "status": status,
                    "reason": reason,
                    "message": message,
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": self._since,
                }
                for kind, status, reason, message in conditions
            ],
        }

    async def _renew_lease(self) -> None:
        spec: dict[str, Any] = {
            "holderIdentity": self._name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        try:
            await self._api.patch(LEASES, self._name, {"spec": spec}, LEASE_NAMESPACE)
        except NotFound:
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._name, "namespace": LEASE_NAMESPACE},
                "spec": spec,
            }
            await self._api.create(LEASES, lease, LEASE_NAMESPACE)
