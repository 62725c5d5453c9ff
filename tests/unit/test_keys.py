"""Which reconciles a change concerns."""

from typing import Any

import pytest

from gatewright_operator.keys import Key, RolloutIndex
from gatewright_operator.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    GATE_CONTRACTS,
    GATE_ORDERS,
    GATE_REVIEWS,
    GATE_RUNS,
    HTTPROUTES,
    METRIC_SOURCES,
    PODS,
    ROLLOUTS,
    SERVICES,
    VALIDATING_POLICIES,
    Resource,
)
from gatewright_operator.watched import WATCHED

Object = dict[str, Any]
CHECKOUT = Key("rollout", "shop", "checkout")
BASKET = Key("rollout", "shop", "basket")


def obj(name: str, namespace: str = "shop", labels: dict[str, str] | None = None, **parts: Any) -> Object:
    """An object with these parts."""
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels or {}}, **parts}


def rollout(name: str, *, workload: str, contract: str = "default", service: str = "front") -> Object:
    """A Rollout that names these."""
    gateway = {
        "httpRoute": f"{service}-route",
        "stableService": service,
        "canaryService": f"{service}-canary",
    }
    spec = {
        "workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": workload},
        "contractRef": {"name": contract},
        "traffic": {"gatewayAPI": gateway},
    }
    return obj(name, spec=spec)


@pytest.fixture
def index() -> RolloutIndex:
    result = RolloutIndex()
    result.put(rollout("checkout", workload="checkout-web"))
    result.put(rollout("basket", workload="basket-web", service="basket"))
    return result


def concerned(index: RolloutIndex, resource: Resource, changed: Object, *runs: Object) -> set[Key]:
    """The keys that a change concerns."""
    return set(index.concerned(resource, changed, runs=runs))


def test_a_rollout_concerns_itself(index: RolloutIndex) -> None:
    assert concerned(index, ROLLOUTS, obj("checkout")) == {CHECKOUT}


def test_a_deployment_concerns_the_rollout_that_names_it(index: RolloutIndex) -> None:
    assert concerned(index, DEPLOYMENTS, obj("checkout-web")) == {CHECKOUT}
    assert concerned(index, DEPLOYMENTS, obj("checkout-web", "billing")) == set(), "another namespace"


def test_a_canary_deployment_and_its_pods_concern_the_rollout_of_their_label(index: RolloutIndex) -> None:
    labels = {"gatewright.dev/rollout": "checkout"}
    assert concerned(index, DEPLOYMENTS, obj("checkout-web-canary", labels=labels)) == {CHECKOUT}
    assert concerned(index, PODS, obj("checkout-web-canary-abc-xyz", labels=labels)) == {CHECKOUT}
    assert concerned(index, PODS, obj("a-pod-without-label")) == set()


def test_services_and_routes_concern_the_rollouts_that_use_them(index: RolloutIndex) -> None:
    for name in ("front", "front-canary"):
        assert concerned(index, SERVICES, obj(name)) == {CHECKOUT}
    assert concerned(index, HTTPROUTES, obj("basket-route")) == {BASKET}
    assert concerned(index, SERVICES, obj("somebody-elses")) == set()


def test_a_contract_concerns_every_rollout_that_it_judges(index: RolloutIndex) -> None:
    assert concerned(index, GATE_CONTRACTS, obj("default")) == {CHECKOUT, BASKET}


def test_a_run_concerns_itself_and_its_rollout(index: RolloutIndex) -> None:
    run = obj("checkout-a1", spec={"rollout": "checkout"})
    assert concerned(index, GATE_RUNS, run) == {Key("run", "shop", "checkout-a1"), CHECKOUT}


def test_decisions_of_people_concern_the_rollout_that_they_name(index: RolloutIndex) -> None:
    for resource in (GATE_REVIEWS, GATE_ORDERS):
        assert concerned(index, resource, obj("r-1", spec={"rollout": "basket"})) == {BASKET}


def test_a_source_concerns_itself_and_every_undecided_run(index: RolloutIndex) -> None:
    runs = (
        obj("running", status={"phase": "Running"}),
        obj("fresh"),
        obj("decided", status={"phase": "Decided"}),
    )
    source = {"metadata": {"name": "prometheus"}}
    assert concerned(index, METRIC_SOURCES, source, *runs) == {
        Key("source", "", "prometheus"),
        Key("run", "shop", "running"),
        Key("run", "shop", "fresh"),
    }


def test_a_policy_of_the_guard_concerns_every_rollout(index: RolloutIndex) -> None:
    policy = {"metadata": {"name": "gatewright-guard"}}
    assert concerned(index, VALIDATING_POLICIES, policy) == {CHECKOUT, BASKET}


def test_a_rollout_that_names_something_else_now_is_found_by_that_alone(index: RolloutIndex) -> None:
    index.put(rollout("checkout", workload="checkout-v2"))
    assert concerned(index, DEPLOYMENTS, obj("checkout-v2")) == {CHECKOUT}
    assert concerned(index, DEPLOYMENTS, obj("checkout-web")) == set()


def test_a_deleted_rollout_is_found_by_nothing(index: RolloutIndex) -> None:
    index.drop(rollout("checkout", workload="checkout-web"))
    assert concerned(index, DEPLOYMENTS, obj("checkout-web")) == set()
    assert concerned(index, GATE_CONTRACTS, obj("default")) == {BASKET}
    assert index.all() == {BASKET}


@pytest.mark.parametrize(
    "spec",
    [
        None,
        [],
        {"workloadRef": None, "traffic": None},
        {"workloadRef": {"name": 7}, "traffic": {"gatewayAPI": []}},
    ],
)
def test_a_rollout_of_the_wrong_shape_is_indexed_by_what_it_does_name(
    index: RolloutIndex, spec: object
) -> None:
    index.put(obj("odd", spec=spec))
    assert Key("rollout", "shop", "odd") in index.all()


def test_a_kind_that_nothing_depends_on_is_an_error(index: RolloutIndex) -> None:
    with pytest.raises(KeyError, match="configmaps"):
        index.concerned(CONFIGMAPS, obj("x"), runs=())


def test_every_watched_kind_has_a_rule(index: RolloutIndex) -> None:
    for watched in WATCHED:
        index.concerned(watched.resource, obj("x"), runs=())


def test_keys_read_well_in_a_log() -> None:
    assert str(CHECKOUT) == "rollout/shop/checkout"
    assert str(Key("source", "", "prometheus")) == "source/prometheus"
