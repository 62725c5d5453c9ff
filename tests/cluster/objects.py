"""The objects of one namespace, as tests read and write them: by the API itself where they wait, by kubectl as a person."""

import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster import ApiRefused, Instance
from tests.cluster.support import Answer, Manifest, kubectl, rest

_PATHS = {
    "configmaps": "/api/v1",
    "events": "/api/v1",
    "pods": "/api/v1",
    "services": "/api/v1",
    "deployments": "/apis/apps/v1",
    "jobs": "/apis/batch/v1",
    "cronjobs": "/apis/batch/v1",
    "replicasets": "/apis/apps/v1",
    "httproutes": "/apis/gateway.networking.k8s.io/v1",
    **dict.fromkeys(
        ("rollouts", "gatecontracts", "gateruns", "gatereviews", "gateorders"),
        "/apis/gatewright.dev/v1alpha1",
    ),
}


@dataclass
class Objects:
    """One namespace of a cluster."""

    cluster: Instance
    namespace: str

    def kubectl(
        self, *args: str, who: Path | None = None, manifest: Manifest | list[Manifest] | None = None
    ) -> Answer:
        return kubectl(["-n", self.namespace, *args], who or self.cluster.kubeconfig, manifest=manifest)

    def apply(self, *manifests: Manifest) -> None:
        answer = self.kubectl(
            "apply", "--server-side", "--force-conflicts", "-f", "-", manifest=list(manifests)
        )
        assert answer.ok, answer.err

    def path(self, kind: str, name: str = "") -> str:
        """Where objects of a kind (its plural, or kubectl's name for it) are, in this namespace."""
        plural = kind.partition(".")[0]
        plural = plural if plural in _PATHS else f"{plural}s"
        return f"{_PATHS[plural]}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def get(self, kind: str, name: str) -> Any:
        """An object as it stands; empty when there is none."""
        try:
            # Not by kubectl: a test that waits asks many times, and each start of kubectl costs a busy machine much.
            return rest(self.cluster.kubeconfig, "GET", self.path(kind, name))
        except ApiRefused as error:
            if error.status != 404:
                raise
            return {}

    def all(self, kind: str, labels: str = "") -> list[Any]:
        """All objects of a kind, or those that a label selector names."""
        query = f"?labelSelector={urllib.parse.quote(labels)}" if labels else ""
        return list(rest(self.cluster.kubeconfig, "GET", self.path(kind) + query)["items"])
