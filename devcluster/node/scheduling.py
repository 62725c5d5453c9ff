"""Whether a pod may be placed on the one node there is: node selector and required pod anti-affinity."""

from collections.abc import Iterable, Mapping

from devcluster.kubeapi import Json


def unschedulable(pod: Json, node_labels: Mapping[str, str], placed: Iterable[Json]) -> str | None:
    """The scheduler's sentence when the pod has no place, else None.

    ``placed``: the pods on the node that are not finished. With one node every topology key means that node.
    """
    spec = pod["spec"]
    selector = spec.get("nodeSelector") or {}
    if any(node_labels.get(key) != value for key, value in selector.items()):
        return _sentence("node(s) didn't match Pod's node affinity/selector")
    for other in placed:
        if other["metadata"]["uid"] == pod["metadata"]["uid"]:
            continue
        if _repels(pod, other):
            return _sentence("node(s) didn't match pod anti-affinity rules")
        if _repels(other, pod):
            return _sentence("node(s) didn't satisfy existing pods anti-affinity rules")
    return None


def _sentence(reason: str) -> str:
    return f"0/1 nodes are available: 1 {reason}."


def _repels(owner: Json, other: Json) -> bool:
    """Whether ``owner`` requires not to stand beside ``other``."""
    rules = (owner["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    for term in rules.get("requiredDuringSchedulingIgnoredDuringExecution") or []:
        namespaces = term.get("namespaces") or [owner["metadata"]["namespace"]]
        if other["metadata"]["namespace"] in namespaces and selector_matches(
            term.get("labelSelector"), other["metadata"].get("labels") or {}
        ):
            return True
    return False


def selector_matches(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector matches; none at all matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression_matches(rule, labels) for rule in selector.get("matchExpressions") or [])


def _expression_matches(rule: Json, labels: Mapping[str, str]) -> bool:
    value = labels.get(rule["key"])
    match rule["operator"]:
        case "In":
            return value in rule["values"]
        case "NotIn":
            return value not in rule["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case unknown:
            raise ValueError(f"unknown operator {unknown!r} in a label selector")
