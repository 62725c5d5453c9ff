"""Which reconciles an object concerns: a pure map from what changed to keys, with an index over the known
Rollouts."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from gatewright_analysis.names import ROLLOUT_LABEL
from gatewright_operator.resources import (
    DEPLOYMENTS,
    GATE_CONTRACTS,
    GATE_ORDERS,
    GATE_REVIEWS,
    GATE_RUNS,
    HTTPROUTES,
    METRIC_SOURCES,
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    NOTIFICATION_SINKS,
    PODS,
    ROLLOUTS,
    SERVICES,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
    Resource,
)

Object = dict[str, Any]

Kind = Literal["rollout", "run", "source", "workload", "forecast"]

GUARD_POLICIES = (MUTATING_POLICIES, MUTATING_BINDINGS, VALIDATING_POLICIES, VALIDATING_BINDINGS)
"""The kinds that the guard is made of: a change to one of them concerns every Rollout."""


@dataclass(frozen=True, slots=True)
class Key:
    """One thing to reconcile. `source` keys are cluster-scoped and have the namespace `""`.

    `forecast` keys are Rollouts at rest whose traffic is asked for. `workload` keys are gated Deployments that no Rollout names: whoever deleted theirs did it while nobody watched.
    """

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}" if self.namespace else f"{self.kind}/{self.name}"


_Ref = tuple[Resource, str, str]


def key_of(kind: Kind, obj: Object) -> Key:
    """The key of an object of one of the three kinds that are reconciled."""
    metadata = obj["metadata"]
    return Key(kind, metadata.get("namespace", ""), metadata["name"])


def references(rollout: Object) -> frozenset[_Ref]:
    """What a Rollout's spec names: its workload, contract, route and Services. Parts of the wrong shape are
    left out."""
    namespace = rollout["metadata"].get("namespace", "")
    spec = _mapping(rollout.get("spec"))
    gateway = _mapping(_mapping(spec.get("traffic")).get("gatewayAPI"))
    named = (
        (DEPLOYMENTS, _mapping(spec.get("workloadRef")).get("name")),
        (GATE_CONTRACTS, _mapping(spec.get("contractRef")).get("name")),
        (HTTPROUTES, gateway.get("httpRoute")),
        (SERVICES, gateway.get("stableService")),
        (SERVICES, gateway.get("canaryService")),
    )
    return frozenset((resource, namespace, name) for resource, name in named if isinstance(name, str))


class RolloutIndex:
    """Finds the Rollouts that name an object, without looking at all of them."""

    def __init__(self) -> None:
        self._refs: dict[Key, frozenset[_Ref]] = {}
        self._rollouts: defaultdict[_Ref, set[Key]] = defaultdict(set)

    def put(self, rollout: Object) -> None:
        """Take in a new or changed Rollout."""
        key, refs = key_of("rollout", rollout), references(rollout)
        before = self._refs.get(key, frozenset())
        for ref in before - refs:
            self._forget(ref, key)
        for ref in refs - before:
            self._rollouts[ref].add(key)
        self._refs[key] = refs

    def drop(self, rollout: Object) -> None:
        """Forget a Rollout that is gone."""
        key = key_of("rollout", rollout)
        for ref in self._refs.pop(key, frozenset()):
            self._forget(ref, key)

    def _forget(self, ref: _Ref, key: Key) -> None:
        self._rollouts[ref].discard(key)
        if not self._rollouts[ref]:
            del self._rollouts[ref]

    def all(self) -> frozenset[Key]:
        """Keys of all known Rollouts."""
        return frozenset(self._refs)

    def naming(self, resource: Resource, namespace: str, name: str) -> frozenset[Key]:
        """Keys of the Rollouts whose spec names this object."""
        return frozenset(self._rollouts.get((resource, namespace, name), ()))

    def concerned(self, resource: Resource, obj: Object, *, runs: Iterable[Object]) -> frozenset[Key]:
        """Keys to reconcile because `obj` is new, changed or gone.

        `runs` are the GateRuns known now; a MetricSource concerns all of them that are not decided, and the Rollouts of
        those that hold: their clocks stand still while it is down.
        Raises KeyError for a kind that nothing here reacts to.
        """
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        if resource == ROLLOUTS:
            return frozenset({Key("rollout", namespace, name)})
        if resource == GATE_RUNS:
            return frozenset({Key("run", namespace, name)}) | _by_spec(obj, namespace)
        if resource in (GATE_REVIEWS, GATE_ORDERS):
            return _by_spec(obj, namespace)
        if resource == METRIC_SOURCES:
            return frozenset({Key("source", "", name)}) | {key for run in runs for key in _of_source(run)}
        if resource == PODS:
            return _by_label(metadata, namespace)
        if resource in (DEPLOYMENTS, SERVICES, HTTPROUTES):
            return self.naming(resource, namespace, name) | _by_label(metadata, namespace)
        if resource == GATE_CONTRACTS:
            return self.naming(resource, namespace, name)
        if resource in GUARD_POLICIES:
            return self.all()
        if resource == NOTIFICATION_SINKS:
            # Whoever is told, no verdict depends on it.
            return frozenset()
        raise KeyError(f"no reconcile depends on {resource}")


def _by_label(metadata: Object, namespace: str) -> frozenset[Key]:
    name = _mapping(metadata.get("labels")).get(ROLLOUT_LABEL)
    return frozenset({Key("rollout", namespace, name)}) if isinstance(name, str) and name else frozenset()


def _by_spec(obj: Object, namespace: str) -> frozenset[Key]:
    name = _mapping(obj.get("spec")).get("rollout")
    return frozenset({Key("rollout", namespace, name)}) if isinstance(name, str) and name else frozenset()


def _of_source(run: Object) -> frozenset[Key]:
    """What a source's coming and going may concern of this run: its looks, or the HOLD that came of it."""
    status = _mapping(run.get("status"))
    if status.get("phase") != "Decided":
        # A HOLD outside any verdict may name it as well.
        return frozenset({key_of("run", run)}) | _by_spec(run, run["metadata"].get("namespace", ""))
    if _mapping(status.get("verdict")).get("decision") != "HOLD":
        return frozenset()
    return _by_spec(run, run["metadata"].get("namespace", ""))


def _mapping(value: object) -> Object:
    return value if isinstance(value, dict) else {}
