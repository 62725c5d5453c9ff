"""Whether the admission policies that hold a new template stand as they must. Pure, on raw objects."""

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

MUTATING = ("gatewright-p1-hold-new-template", "gatewright-p1-keep-held", "gatewright-p1-keep-label")
VALIDATING = (
    "gatewright-guard",
    "gatewright-replicasets",
    "gatewright-ledger",
    "gatewright-operator-only",
    "gatewright-review-identity",
    "gatewright-review-scope",
    "gatewright-order-identity",
    "gatewright-order-scope",
)


def guard_gap(
    mutating: Iterable[Json],
    mutating_bindings: Iterable[Json],
    validating: Iterable[Json],
    validating_bindings: Iterable[Json],
) -> str:
    """The first policy or binding that is missing or does not deny, in a sentence; empty when all stand."""
    for names, policies, bindings in (
        (MUTATING, mutating, mutating_bindings),
        (VALIDATING, validating, validating_bindings),
    ):
        by_name = {p["metadata"]["name"]: p for p in policies}
        bound: dict[str, list[Json]] = {}
        for binding in bindings:
            bound.setdefault(binding["spec"].get("policyName", ""), []).append(binding)
        for name in names:
            policy = by_name.get(name)
            if policy is None:
                return f"policy {name} is missing"
            if policy["spec"].get("failurePolicy", "Fail") != "Fail":
                return f"policy {name} does not fail closed"
            if not bound.get(name):
                return f"policy {name} has no binding"
            if names is VALIDATING and not any(
                "Deny" in b["spec"].get("validationActions", ()) for b in bound[name]
            ):
                return f"the binding of policy {name} does not deny"
    return ""
