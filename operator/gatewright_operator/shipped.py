"""The admission policies as the chart installs them: the one source of both the chart and the operator's comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

Json = dict[str, Any]

OPERATOR_USER = "@operatorUser@"
DEPLOYMENT_CONTROLLERS = "@deploymentControllers@"
CLEANUP_CONTROLLERS = "@cleanupControllers@"
"""Stand in the sources for the names that differ from one cluster to the next."""

DECISION_POLICIES = frozenset(
    {
        "gatewright-review-identity",
        "gatewright-review-scope",
        "gatewright-order-identity",
        "gatewright-order-scope",
        "gatewright-operator-only",
        "gatewright-p11-stamp-writer",
        "gatewright-written-by",
        "gatewright-p1-stamp-resume",
        "gatewright-resumed-by",
    }
)
"""P9 to P11, and the stamp of who un-pauses: they prove who decides, and what about. The others, P1 to P8, keep new templates from the pods."""


@dataclass(frozen=True, slots=True)
class Controllers:
    """Users that Kubernetes' own controllers act as; the chart's `policies` values.

    The last of each list is what clusters use whose kube-controller-manager runs without
    --use-service-account-credentials.
    """

    deployment: tuple[str, ...] = (
        "system:serviceaccount:kube-system:deployment-controller",
        "system:kube-controller-manager",
    )
    cleanup: tuple[str, ...] = (
        "system:serviceaccount:kube-system:namespace-controller",
        "system:serviceaccount:kube-system:generic-garbage-collector",
        "system:kube-controller-manager",
    )


AS_THE_CHART = Controllers()


@dataclass(frozen=True, slots=True)
class Shipped:
    """A policy and its binding, of the same name: their specs."""

    name: str
    mutating: bool
    policy: Json
    binding: Json

    @property
    def decides(self) -> bool:
        """It proves who decides; the others hold new templates."""
        return self.name in DECISION_POLICIES


def sources() -> Mapping[str, str]:
    """File name → YAML with placeholders, in the order of the names."""
    folder = files("gatewright_operator") / "policies"
    found = {item.name: item.read_text(encoding="utf-8") for item in folder.iterdir()}
    return {name: found[name] for name in sorted(found) if name.endswith(".yaml")}


@cache
def shipped(operator_user: str, controllers: Controllers) -> tuple[Shipped, ...]:
    """What the chart installs where the operator and the controllers have these names. Read once: nobody changes it."""
    found = []
    for text in sources().values():
        text = text.replace(OPERATOR_USER, operator_user)
        text = text.replace(DEPLOYMENT_CONTROLLERS, _cel_list(controllers.deployment))
        text = text.replace(CLEANUP_CONTROLLERS, _cel_list(controllers.cleanup))
        policy, binding = yaml.safe_load_all(text)
        mutating = policy["kind"] == "MutatingAdmissionPolicy"
        found.append(Shipped(policy["metadata"]["name"], mutating, policy["spec"], binding["spec"]))
    return tuple(found)


def _cel_list(names: Sequence[str]) -> str:
    """As the chart's template `gatewright.celList` writes it."""
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"
