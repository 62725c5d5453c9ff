"""What every cluster gets once its API server answers: rights for its own parts, and the Gateway API."""

import json
import time
from pathlib import Path
from typing import Any

from devcluster.client import ApiRefused, Client
from devcluster.errors import DevclusterError
from devcluster.parts import GATEWAY, NODE, PROMETHEUS

Rule = dict[str, list[str]]
Definition = dict[str, Any]

READ = ["get", "list", "watch"]
GATEWAY_API = "gateway.networking.k8s.io"


def _rule(group: str, resources: str, verbs: list[str]) -> Rule:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs}


# Each part has a name of its own, so that the audit log tells who did what, and no more rights than its work
# needs.
RULES: dict[str, list[Rule]] = {
    PROMETHEUS: [_rule("", "pods nodes namespaces", READ)],
    NODE: [
        _rule("", "nodes pods events", ["*"]),
        _rule("", "nodes/status pods/status", ["get", "update", "patch"]),
        _rule("", "pods/binding bindings serviceaccounts/token", ["create"]),
        _rule("", "namespaces configmaps secrets services serviceaccounts endpoints", READ),
        _rule("coordination.k8s.io", "leases", ["*"]),
        _rule("events.k8s.io", "events", ["*"]),
        _rule("discovery.k8s.io", "endpointslices", READ),
    ],
    GATEWAY: [
        _rule("", "namespaces services endpoints pods", READ),
        _rule("", "namespaces", ["create"]),
        _rule("", "events", ["create", "patch", "update"]),
        _rule("discovery.k8s.io", "endpointslices", READ),
        _rule(GATEWAY_API, "*", ["*"]),
    ],
}


def user_of(part: str) -> str:
    """The name under which a part of the cluster speaks to the API server."""
    return f"devcluster:{part}"


def grant_rights(client: Client) -> None:
    """Gives the cluster's own parts their rights."""
    base = "/apis/rbac.authorization.k8s.io/v1"
    for part, rules in RULES.items():
        name = user_of(part)
        metadata = {"name": name}
        client.create(f"{base}/clusterroles", {"metadata": metadata, "rules": rules}, exists_ok=True)
        binding = {
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
        }
        client.create(f"{base}/clusterrolebindings", binding, exists_ok=True)


def read_definitions(crds: Path) -> list[Definition]:
    """The Gateway API's CRDs, from the file that :func:`devcluster.gomodules.gateway_api_crds` made."""
    definitions: list[Definition] = json.loads(crds.read_text())
    return definitions


def install_definitions(client: Client, definitions: list[Definition]) -> None:
    """Creates CRDs."""
    for definition in definitions:
        client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition, exists_ok=True)


def gateway_api_is_served(client: Client, definitions: list[Definition]) -> bool:
    """Whether every kind of the Gateway API is served by now, in some version."""
    plurals = {definition["spec"]["names"]["plural"] for definition in definitions}
    try:
        group = client.request("GET", f"/apis/{GATEWAY_API}")
        served = {
            resource["name"]
            for version in group["versions"]
            for resource in client.request("GET", f"/apis/{version['groupVersion']}")["resources"]
        }
    except ApiRefused as error:
        if error.status == 404:
            return False
        raise
    return served >= plurals


def default_service_account_exists(client: Client) -> bool:
    """Whether the controllers are at work: their first visible deed is the account that pods need."""
    try:
        client.request("GET", "/api/v1/namespaces/default/serviceaccounts/default")
    except ApiRefused as error:
        if error.status == 404:
            return False
        raise
    return True


def request_token(client: Client, namespace: str, name: str, seconds: int) -> str:
    """A token of a service account, valid for ``seconds``.

    Raises:
        DevclusterError: there is no such service account.
    """
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    deadline = time.monotonic() + 5.0
    while True:
        try:
            answer = client.request("POST", path, {"spec": {"expirationSeconds": seconds}})
        except ApiRefused as error:
            if error.status != 404:
                raise
            # The account of a namespace that was created just now appears a moment later.
            if time.monotonic() > deadline:
                raise DevclusterError(
                    f"There is no service account {name} in namespace {namespace}: create it first."
                ) from error
            time.sleep(0.05)
        else:
            return str(answer["status"]["token"])
