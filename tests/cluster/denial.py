"""Writes that a test has the API server refuse, the operator's too: how to stand still between two of its writes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.objects import Objects
from tests.cluster.support import OPERATOR, Manifest, eventually, kubectl, rest

_GROUP = "/apis/admissionregistration.k8s.io/v1"
SENTENCE = "The test denies this write."


def _policy(
    name: str, namespace: str, resource: str, labels: Manifest, allowed: str
) -> tuple[Manifest, Manifest]:
    group = "apps" if resource == "deployments" else ""
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "objectSelector": labels,
                "resourceRules": [
                    {
                        "apiGroups": [group],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": [resource],
                    }
                ],
            },
            "matchConditions": [
                {"name": "operator", "expression": f"request.userInfo.username == '{OPERATOR}'"}
            ],
            "validations": [{"expression": allowed, "message": SENTENCE}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return policy, binding


@contextmanager
def denied(
    shop: Objects, resource: str, labels: Manifest, *, probe: list[str], allowed: str = "false"
) -> Iterator[None]:
    """Inside the block the operator may write `resource` with these labels only where the CEL expression says so.

    `probe` are kubectl's arguments for a write that is denied; the policy is in force when it is.
    """
    policy_name = f"{shop.namespace}-{resource}"
    policy, binding = _policy(policy_name, shop.namespace, resource, labels, allowed)
    admin = shop.cluster.kubeconfig
    attempt = ["-n", shop.namespace, "--as", OPERATOR, "--dry-run=server", *probe]
    paths = [
        (f"{_GROUP}/validatingadmissionpolicies", policy),
        (f"{_GROUP}/validatingadmissionpolicybindings", binding),
    ]
    for path, body in paths:
        rest(admin, "POST", path, body)
    try:
        # A policy is in force about a second after it was written.
        eventually(lambda: SENTENCE in kubectl(attempt, admin).err, 60, f"writes to {resource} are denied")
        yield
    finally:
        for path, _ in reversed(paths):
            rest(admin, "DELETE", f"{path}/{policy_name}")
        eventually(lambda: kubectl(attempt, admin).ok, 60, f"writes to {resource} are allowed again")


@contextmanager
def ledger_denied(shop: Objects, *, of: str = "") -> Iterator[None]:
    """The ledger cannot be written, as with a full quota or a broken webhook; or only entries of the kind `of` cannot."""
    labels: Manifest = {"matchExpressions": [{"key": "gatewright.dev/ledger", "operator": "Exists"}]}
    text = f'"kind":"{of}"' if of else ""
    patch = json.dumps({"data": {"probe": text}})
    probe = ["patch", "configmap", "checkout-ledger-0000", "--type=merge", "-p", patch]
    allowed = f"!object.data.exists(k, object.data[k].contains({json.dumps(text)}))" if of else "false"
    with denied(shop, "configmaps", labels, probe=probe, allowed=allowed):
        yield


@contextmanager
def deployment_denied(shop: Objects) -> Iterator[None]:
    """The user's Deployment cannot be written; the canary can."""
    labels: Manifest = {"matchLabels": {"gatewright.dev/gated": "true"}}
    probe = ["annotate", "--overwrite", "deployment", "checkout", "example.com/probe=yes"]
    with denied(shop, "deployments", labels, probe=probe):
        yield
