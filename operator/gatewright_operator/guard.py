"""Whether the admission policies stand as the chart ships them. Pure, on raw objects."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gatewright_operator.shipped import Shipped

Json = dict[str, Any]

_DEFAULTS = {"matchPolicy": "Equivalent", "scope": "*", "failurePolicy": "Fail"}
"""What the API server writes where a policy leaves it out. Its other defaults are empty selectors."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """What differs, in a sentence without a full stop; empty when nothing does."""

    guard: str = ""
    """In P1 to P8: a new template might reach the pods."""
    decisions: str = ""
    """In P9 to P11: what is written in a review or an override may not be true."""


@dataclass(frozen=True, slots=True)
class Installed:
    """The policies and bindings that the cluster has, as last seen."""

    mutating: Sequence[Json]
    mutating_bindings: Sequence[Json]
    validating: Sequence[Json]
    validating_bindings: Sequence[Json]

    @property
    def versions(self) -> tuple[tuple[str, str, str], ...]:
        """Changes whenever one of them does."""
        kinds = (self.mutating, self.mutating_bindings, self.validating, self.validating_bindings)
        return tuple(_version(o) for objs in kinds for o in objs)


class Guard:
    """Compares with what the chart ships; the answer is kept until an object changes."""

    def __init__(self, wanted: Iterable[Shipped]) -> None:
        self._wanted = tuple(wanted)
        self._seen: tuple[tuple[str, str, str], ...] | None = None
        self._gaps = Gaps()

    def gaps(self, installed: Installed) -> Gaps:
        """The first gap of either kind."""
        versions = installed.versions
        if versions != self._seen:
            self._seen, self._gaps = versions, compared(self._wanted, installed)
        return self._gaps


def compared(wanted: Iterable[Shipped], installed: Installed) -> Gaps:
    """The first policy or binding of either kind that is missing, altered or not yet in force.

    Labels and annotations may differ, and further policies and bindings may exist: they can only refuse more.
    """
    guard = decisions = ""
    for one in wanted:
        if one.decides:
            decisions = decisions or _gap(one, installed)
        else:
            guard = guard or _gap(one, installed)
    return Gaps(guard, decisions)


def _gap(one: Shipped, installed: Installed) -> str:
    policies = installed.mutating if one.mutating else installed.validating
    bindings = installed.mutating_bindings if one.mutating else installed.validating_bindings
    policy, binding = _named(policies, one.name), _named(bindings, one.name)
    if policy is None:
        return f"policy {one.name} is missing"
    if (place := difference(one.policy, policy["spec"])) is not None:
        if place == "spec.failurePolicy":
            return f"policy {one.name} does not fail closed"
        return f"policy {one.name} is altered at {place}"
    if binding is None:
        return f"policy {one.name} has no binding"
    if not one.mutating and "Deny" not in binding["spec"].get("validationActions", ()):
        return f"the binding of policy {one.name} does not deny"
    if (place := difference(one.binding, binding["spec"])) is not None:
        return f"the binding of policy {one.name} is altered at {place}"
    if one.decides and not _observed(policy):
        return f"policy {one.name} is not in force yet"
    return ""


def _observed(policy: Json) -> bool:
    """Kubernetes reports this for validating policies alone; where it reports nothing, nothing is known against it."""
    observed = (policy.get("status") or {}).get("observedGeneration")
    return observed is None or observed >= policy["metadata"].get("generation", 0)


def difference(wanted: object, found: object, place: str = "spec") -> str | None:
    """Where `found` says something else than `wanted`, beside what the API server fills in; None when nowhere."""
    return _difference(_plain(wanted), _plain(found), place)


def _difference(wanted: object, found: object, place: str) -> str | None:
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in sorted(wanted.keys() | found.keys()):
            if key not in wanted or key not in found:
                return f"{place}.{key}"
            if (inner := _difference(wanted[key], found[key], f"{place}.{key}")) is not None:
                return inner
        return None
    if isinstance(wanted, list) and isinstance(found, list):
        for number, (left, right) in enumerate(zip(wanted, found, strict=False)):
            if (inner := _difference(left, right, f"{place}[{number}]")) is not None:
                return inner
        return None if len(wanted) == len(found) else place
    return None if wanted == found else place


def _plain(value: object) -> object:
    """Without what means the same as nothing: empty selectors and lists, and the API server's defaults."""
    if isinstance(value, dict):
        plain = {key: _plain(inner) for key, inner in value.items() if _DEFAULTS.get(key) != inner}
        return {key: inner for key, inner in plain.items() if inner not in ({}, [], None)}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value


def _named(objs: Iterable[Json], name: str) -> Json | None:
    return next((o for o in objs if o["metadata"]["name"] == name), None)


def _version(obj: Json) -> tuple[str, str, str]:
    metadata = obj["metadata"]
    return metadata["name"], metadata.get("uid", ""), metadata.get("resourceVersion", "")
