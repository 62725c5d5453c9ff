"""The comparison of the cluster's policies with those that the chart ships: nothing that weakens one passes."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from gatewright_operator.guard import Gaps, Guard, Installed, compared
from gatewright_operator.shipped import AS_THE_CHART, DECISION_POLICIES, Controllers, shipped
from tests.unit.test_repository import ROOT
from tools import policies
from tools.generate import CHART_POLICIES

USER = "system:serviceaccount:gatewright-system:gatewright"
SHIPPED = shipped(USER, AS_THE_CHART)
SCOPE, HOLDS, STAMPS = "gatewright-review-scope", "gatewright-guard", "gatewright-p11-stamp-writer"

Json = dict[str, Any]
Change = Callable[[Json], object]


class Cluster:
    """What the API server would give: with its defaults filled in, versions and labels."""

    def __init__(self) -> None:
        self.policies = {one.name: _as_served(one.name, one.policy) for one in SHIPPED}
        self.bindings = {one.name: _as_served(one.name, one.binding) for one in SHIPPED}
        for policy in self.policies.values():
            spec = policy["spec"]
            spec["matchConstraints"] |= {"matchPolicy": "Equivalent", "namespaceSelector": {}}
            spec["matchConstraints"].setdefault("objectSelector", {})
            for rule in spec["matchConstraints"]["resourceRules"]:
                rule["scope"] = "*"

    def installed(self) -> Installed:
        mutating = {one.name for one in SHIPPED if one.mutating}

        def some(objs: dict[str, Json], *, mutates: bool) -> list[Json]:
            return [obj for name, obj in objs.items() if (name in mutating) is mutates]

        return Installed(
            some(self.policies, mutates=True),
            some(self.bindings, mutates=True),
            some(self.policies, mutates=False),
            some(self.bindings, mutates=False),
        )

    def gaps(self) -> Gaps:
        return compared(SHIPPED, self.installed())


def _as_served(name: str, spec: Json) -> Json:
    metadata = {"name": name, "labels": {"team": "platform"}, "resourceVersion": "7", "generation": 3}
    return {"metadata": metadata, "spec": copy.deepcopy(spec), "status": {"observedGeneration": 3}}


def test_what_the_chart_installs_has_no_gap() -> None:
    assert Cluster().gaps() == Gaps()


def test_both_kinds_are_there() -> None:
    names = {one.name for one in SHIPPED}
    assert names > DECISION_POLICIES
    assert {HOLDS, "gatewright-ledger", "gatewright-p1-hold-new-template"} <= names - DECISION_POLICIES


@pytest.mark.parametrize("one", SHIPPED, ids=lambda one: one.name)
def test_a_policy_or_a_binding_that_is_missing_is_named(one: Any) -> None:
    for objs, sentence in (
        ("policies", f"policy {one.name} is missing"),
        ("bindings", f"policy {one.name} has no binding"),
    ):
        cluster = Cluster()
        del getattr(cluster, objs)[one.name]
        gaps = cluster.gaps()
        assert (gaps.decisions if one.decides else gaps.guard) == sentence
        assert not (gaps.guard if one.decides else gaps.decisions), "the other kind stands"


POLICY_CHANGES: dict[str, tuple[Change, str]] = {
    "fails open": (lambda s: s.update(failurePolicy="Ignore"), "does not fail closed"),
    "an expression": (
        lambda s: s["validations"][1].update(expression="true"),
        "is altered at spec.validations[1].expression",
    ),
    "a rule less": (lambda s: s["validations"].pop(), "is altered at spec.validations"),
    "a condition more": (
        lambda s: s.setdefault("matchConditions", []).append({"name": "never", "expression": "false"}),
        "is altered at spec.matchConditions",
    ),
    "a condition altered": (
        lambda s: s["matchConditions"][0].update(expression="false"),
        "is altered at spec.matchConditions[0].expression",
    ),
    "a variable": (
        lambda s: s["variables"][0].update(expression="true"),
        "is altered at spec.variables[0].expression",
    ),
    "fewer operations": (
        lambda s: s["matchConstraints"]["resourceRules"][0].update(operations=["DELETE"]),
        "is altered at spec.matchConstraints.resourceRules[0].operations[0]",
    ),
    "narrowed to some namespaces": (
        lambda s: s["matchConstraints"].update(namespaceSelector={"matchLabels": {"a": "b"}}),
        "is altered at spec.matchConstraints.namespaceSelector",
    ),
    "narrowed to some objects": (
        lambda s: s["matchConstraints"].update(
            objectSelector={"matchExpressions": [{"key": "a", "operator": "Exists"}]}
        ),
        "is altered at spec.matchConstraints.objectSelector",
    ),
    "excluded resources": (
        lambda s: s["matchConstraints"].update(excludeResourceRules=[{"resources": ["*"]}]),
        "is altered at spec.matchConstraints.excludeResourceRules",
    ),
    "an exact match": (
        lambda s: s["matchConstraints"].update(matchPolicy="Exact"),
        "is altered at spec.matchConstraints.matchPolicy",
    ),
}
BINDING_CHANGES: dict[str, tuple[Change, str]] = {
    "only warns": (lambda s: s.update(validationActions=["Warn"]), "does not deny"),
    "only audits": (lambda s: s.update(validationActions=["Audit"]), "does not deny"),
    "for another policy": (lambda s: s.update(policyName="another"), "is altered at spec.policyName"),
    "narrowed": (
        lambda s: s.update(matchResources={"namespaceSelector": {"matchLabels": {"a": "b"}}}),
        "is altered at spec.matchResources",
    ),
}


@pytest.mark.parametrize("change", POLICY_CHANGES)
@pytest.mark.parametrize("name", [SCOPE, HOLDS])
def test_an_altered_policy_is_named_with_the_place(name: str, change: str) -> None:
    cluster = Cluster()
    alter, sentence = POLICY_CHANGES[change]
    alter(cluster.policies[name]["spec"])
    gaps = cluster.gaps()
    assert (gaps.guard + gaps.decisions).startswith(f"policy {name} {sentence}")


@pytest.mark.parametrize("change", BINDING_CHANGES)
@pytest.mark.parametrize("name", [SCOPE, HOLDS])
def test_an_altered_binding_is_named_with_the_place(name: str, change: str) -> None:
    cluster = Cluster()
    alter, sentence = BINDING_CHANGES[change]
    alter(cluster.bindings[name]["spec"])
    gaps = cluster.gaps()
    assert gaps.guard + gaps.decisions == f"the binding of policy {name} {sentence}"


@pytest.mark.parametrize(
    ("param", "place"),
    [
        ({"selector": {"matchLabels": {"a": "b"}}, "parameterNotFoundAction": "Deny"}, "selector"),
        ({"selector": {}, "parameterNotFoundAction": "Allow"}, "parameterNotFoundAction"),
        ({"name": "harmless", "parameterNotFoundAction": "Deny"}, "name"),
    ],
)
def test_a_binding_with_other_parameters_is_named(param: Json, place: str) -> None:
    cluster = Cluster()
    cluster.bindings[SCOPE]["spec"]["paramRef"] = param
    assert cluster.gaps().decisions == f"the binding of policy {SCOPE} is altered at spec.paramRef.{place}"


def test_an_altered_mutation_is_named() -> None:
    cluster = Cluster()
    cluster.policies[STAMPS]["spec"]["mutations"][0]["jsonPatch"]["expression"] = "[]"
    assert cluster.gaps().decisions == f"policy {STAMPS} is altered at spec.mutations[0].jsonPatch.expression"


def test_a_policy_that_the_api_server_has_not_observed_proves_nothing_yet() -> None:
    cluster = Cluster()
    cluster.policies[SCOPE]["status"] = {"observedGeneration": 2}
    assert cluster.gaps() == Gaps(decisions=f"policy {SCOPE} is not in force yet")


def test_further_bindings_and_policies_can_only_refuse_more() -> None:
    cluster = Cluster()
    more = {
        "metadata": {"name": "a-second-binding"},
        "spec": {"policyName": SCOPE, "validationActions": ["Warn"]},
    }
    cluster.bindings["a-second-binding"] = more
    assert cluster.gaps() == Gaps()


def test_policies_that_let_another_user_through_are_altered() -> None:
    cluster = Cluster()
    wanted = shipped("system:serviceaccount:another:gatewright", AS_THE_CHART)
    gaps = compared(wanted, cluster.installed())
    assert gaps.guard == f"policy {HOLDS} is altered at spec.matchConditions[0].expression"
    assert (
        gaps.decisions == "policy gatewright-operator-only is altered at spec.matchConditions[0].expression"
    )


def test_the_answer_follows_a_change_of_one_object() -> None:
    guard, cluster = Guard(SHIPPED), Cluster()
    assert guard.gaps(cluster.installed()) == Gaps()
    cluster.policies[SCOPE]["spec"]["validations"] = []
    cluster.policies[SCOPE]["metadata"]["resourceVersion"] = "8"
    assert guard.gaps(cluster.installed()).decisions == f"policy {SCOPE} is altered at spec.validations"


def test_the_operators_defaults_are_the_charts_values() -> None:
    values = yaml.safe_load((ROOT / "charts/gatewright/values.yaml").read_text())["policies"]
    assert (
        Controllers(tuple(values["deploymentControllers"]), tuple(values["cleanupControllers"]))
        == AS_THE_CHART
    )


def test_the_chart_has_every_policy_with_its_values_in_the_place_of_names() -> None:
    files = policies.files()
    assert len(files) == len(SHIPPED)
    for name, text in files.items():
        assert "@" not in text, f"{name}: a name is not filled in"
        assert (ROOT / CHART_POLICIES / name).read_text() == text


def test_a_source_without_its_binding_is_no_policy() -> None:
    with pytest.raises(ValueError, match="a policy and its binding"):
        policies.chart_template("metadata: {name: alone}\n")
