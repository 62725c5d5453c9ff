"""The stage of the policy tests: a namespace with the Deployment `checkout`, and who may write there."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.support import OPERATOR, Answer, Manifest, kubectl, rest


def refused(answer: Answer, sentence: str) -> None:
    """The write failed, and the writer was told why in these words."""
    assert not answer.ok, (
        f"this write should have been refused with {sentence!r}, but it went through: {answer.out}"
    )
    assert sentence in answer.err, f"refused, but with another sentence than {sentence!r}: {answer.err}"


def allowed(answer: Answer) -> None:
    assert answer.ok, f"this write should have been allowed: {answer.err}"


def deployment(image: str = "shop/checkout:v1", **spec: Any) -> Manifest:
    """A Deployment of no pods: its controller makes ReplicaSets all the same."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "checkout", "labels": {"app": "checkout"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "checkout"}},
            "template": {
                "metadata": {"labels": {"app": "checkout"}},
                "spec": {"containers": [{"name": "app", "image": image}]},
            },
            **spec,
        },
    }


def rollout(name: str = "checkout") -> Manifest:
    return {
        "apiVersion": "gatewright.dev/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": name},
        "spec": {
            "workloadRef": {"name": name},
            "contractRef": {"name": name},
            "traffic": {"replicas": {}},
            "steps": [{"setWeight": 50}, {"gate": {"duration": "5m"}}],
        },
    }


@dataclass(frozen=True)
class Shop:
    """A namespace with the Deployment `checkout` in it, and who may write there."""

    namespace: str
    admin: Path
    person: Callable[..., Path]

    def run(self, who: Path, *args: str, manifest: Manifest | None = None) -> Answer:
        return kubectl(["-n", self.namespace, *args], who, manifest=manifest)

    def set_image(self, who: Path, tag: str) -> Answer:
        return self.run(who, "set", "image", "deployment/checkout", f"app=shop/checkout:{tag}")

    def annotate(self, who: Path, pair: str) -> Answer:
        return self.run(who, "annotate", "deployment", "checkout", pair)

    def replace(self, who: Path, body: Manifest) -> Answer:
        return self.run(who, "replace", "-f", "-", manifest=body)

    def operator(self, *args: str, manifest: Manifest | None = None) -> Answer:
        """As the operator; a refusal fails the test."""
        answer = self.run(self.admin, "--as", OPERATOR, *args, manifest=manifest)
        allowed(answer)
        return answer

    def developer(self, name: str = "developer") -> Path:
        return self.person(name, roles=("edit",))

    def deployment(self) -> Any:
        return rest(self.admin, "GET", f"/apis/apps/v1/namespaces/{self.namespace}/deployments/checkout")

    def mark(self, **annotations: str) -> None:
        """Write marks of the operator: mark(pinned="checkout")."""
        pairs = [f"gatewright.dev/{key.replace('_', '-')}={value}" for key, value in annotations.items()]
        self.operator("annotate", "deployment", "checkout", *pairs)

    def hold(self) -> None:
        self.operator("patch", "deployment", "checkout", "-p", '{"spec": {"paused": true}}')

    def paused(self) -> bool:
        return bool(self.deployment()["spec"].get("paused", False))

    def annotation(self, key: str) -> str | None:
        found = self.deployment()["metadata"].get("annotations", {}).get(f"gatewright.dev/{key}")
        return None if found is None else str(found)

    def label(self) -> str | None:
        found = self.deployment()["metadata"].get("labels", {}).get("gatewright.dev/gated")
        return None if found is None else str(found)

    def image(self) -> str:
        return str(self.deployment()["spec"]["template"]["spec"]["containers"][0]["image"])
