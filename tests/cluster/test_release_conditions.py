"""What only the operator can see stands in the Rollout's conditions, in a sentence that says what to do.

No pods are needed: the Deployments have no replicas.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.checkout import check, contract, deployment, http_route, rollout, service
from tests.cluster.objects import Objects
from tests.cluster.support import Manifest, eventually

pytestmark = pytest.mark.timeout(120)

Changed = Callable[[dict[str, Manifest]], None]
"""Changes what is applied: manifests by what they are, `deployment`, `route`, `contract`, `rollout`, …"""


def _manifests() -> dict[str, Manifest]:
    return {
        "deployment": deployment(0),
        "stable": service("checkout"),
        "canary": service("checkout-canary"),
        "route": http_route("checkout.shop"),
        "contract": contract(),
        "rollout": rollout(),
    }


def _evidence(m: dict[str, Manifest]) -> dict[str, Any]:
    found: dict[str, Any] = m["contract"]["spec"]["checks"][0]["evidence"][0]
    return found


def _argo(m: dict[str, Manifest]) -> None:
    m["rollout"]["spec"]["workloadRef"] = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Rollout",
        "name": "checkout",
    }


def _plans_too_few(m: dict[str, Manifest]) -> None:
    m["contract"]["spec"]["checks"][0] |= {"limit": {"maxBadRatio": 0.01}, "plannedSamples": 50}


def _no_evidence(m: dict[str, Manifest]) -> None:
    _evidence(m)["stages"] = ["Bake"]


def _names_no_check(m: dict[str, Manifest]) -> None:
    m["rollout"]["spec"]["steps"][1]["gate"] = {
        **m["rollout"]["spec"]["steps"][1]["gate"],
        "checks": ["http-sucess"],
    }


def _too_large(m: dict[str, Manifest]) -> None:
    selectors = [f'http_requests_total{{code="{n:03d}", path="{"x" * 440}"}}' for n in range(8)]
    m["contract"]["spec"]["checks"] = [
        {
            **check(f"check-{n}"),
            "evidence": [
                {
                    "stages": ["Canary"],
                    "counts": {"source": "prometheus", "bad": selectors, "total": selectors},
                }
            ],
        }
        for n in range(30)
    ]


def _no_such_source(m: dict[str, Manifest]) -> None:
    _evidence(m)["counts"]["source"] = "promtheus"


def _window_too_short(m: dict[str, Manifest]) -> None:
    gate = m["rollout"]["spec"]["steps"][1]["gate"]
    m["rollout"]["spec"]["steps"][1]["gate"] = {**gate, "window": "1s", "interval": "1s"}


def _recreate(m: dict[str, Manifest]) -> None:
    m["deployment"]["spec"]["strategy"] = {"type": "Recreate"}


def _no_history(m: dict[str, Manifest]) -> None:
    m["deployment"]["spec"]["revisionHistoryLimit"] = 0


def _paused(m: dict[str, Manifest]) -> None:
    m["deployment"]["spec"]["paused"] = True


def _foreign_canary(m: dict[str, Manifest]) -> None:
    foreign = deployment(0)
    foreign["metadata"]["name"] = "checkout-canary"
    foreign["spec"]["selector"]["matchLabels"] = {"app": "another"}
    foreign["spec"]["template"]["metadata"]["labels"] = {"app": "another"}
    m["foreign"] = foreign


def _backends(m: dict[str, Manifest]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = m["route"]["spec"]["rules"][0]["backendRefs"]
    return found


def _canary_weight_absent(m: dict[str, Manifest]) -> None:
    del _backends(m)[1]["weight"]


def _canary_weight_above_0(m: dict[str, Manifest]) -> None:
    _backends(m)[1]["weight"] = 5


def _no_canary_backend(m: dict[str, Manifest]) -> None:
    del _backends(m)[1]


def _another_service(m: dict[str, Manifest]) -> None:
    m["metrics"] = service("checkout-metrics")


def _another_service_of_nothing(m: dict[str, Manifest]) -> None:
    m["metrics"] = service("reports", {"app": "reports"})


def _without(what: str) -> Changed:
    def change(m: dict[str, Manifest]) -> None:
        del m[what]

    return change


@dataclass(frozen=True)
class Case:
    """What is wrong, and how the Rollout says so."""

    change: Changed
    reason: str
    sentence: str
    condition: str = "Stalled"
    status: str = "True"


CASES = {
    "no contract": Case(
        _without("contract"),
        "ContractNotFound",
        "GateContract checkout does not exist in {namespace}; create it",
    ),
    "no contract, by its own condition": Case(
        _without("contract"),
        "ContractNotFound",
        "create it or correct contractRef",
        "ContractResolved",
        "False",
    ),
    "no Deployment": Case(
        _without("deployment"),
        "WorkloadNotFound",
        "Deployment checkout does not exist in {namespace}; create it",
    ),
    "no route": Case(_without("route"), "RouteNotFound", "HTTPRoute checkout does not exist in {namespace}"),
    "no canary Service": Case(
        _without("canary"), "ServiceNotFound", "Service checkout-canary does not exist"
    ),
    "planned samples that can never pass": Case(
        _plans_too_few,
        "PlannedSamplesCanNeverPass",
        "plan at least 381, or lower the limit",
        "Feasible",
        "False",
    ),
    "no evidence for a gated stage": Case(
        _no_evidence,
        "NoEvidenceForStage",
        "No check of the contract has evidence for the stage Canary",
        "Feasible",
        "False",
    ),
    "a gate that names a check that is not there": Case(
        _names_no_check, "InvalidSpec", "names the check http-sucess, which the contract does not have"
    ),
    "a contract too large to be recorded": Case(
        _too_large, "ContractTooLarge", "split it into several contracts", "ContractResolved", "False"
    ),
    "a source that is not there": Case(
        _no_such_source,
        "SourceNotFound",
        "the MetricSource promtheus, which does not exist",
        "Feasible",
        "False",
    ),
    "windows shorter than two scrapes": Case(_window_too_short, "InvalidSpec", "set window to at least 2s"),
    "an Argo Rollout": Case(
        _argo, "WorkloadUnsupported", "An Argo Rollout is not gated yet: name an apps/v1 Deployment"
    ),
    "strategy Recreate": Case(_recreate, "RecreateStrategy", "Use RollingUpdate"),
    "no revision history": Case(_no_history, "NoRevisionHistory", "Set it to 1 or more"),
    "a Deployment paused by its user": Case(_paused, "WorkloadPaused", "resume it (kubectl rollout resume)"),
    "a foreign Deployment of the canary's name": Case(
        _foreign_canary, "ForeignCanary", "Deployment checkout-canary exists and is not this Rollout's"
    ),
    "a canary backend without a weight": Case(
        _canary_weight_absent, "CanaryWeightAtRest", "must rest at an explicit weight: 0"
    ),
    "a canary backend with a weight": Case(
        _canary_weight_above_0, "CanaryWeightAtRest", "must rest at an explicit weight: 0"
    ),
    "a route without the canary": Case(
        _no_canary_backend, "RouteUnsuitable", "add the canary backend with weight 0"
    ),
    "another Service that selects the pods": Case(
        _another_service, "SharedService", "Service checkout-metrics selects the pods of checkout too"
    ),
}


def _applied(cluster: Instance, namespace: str, change: Changed) -> Objects:
    objects, manifests = Objects(cluster, namespace), _manifests()
    change(manifests)
    # The Rollout last: it says what stands in its way when it comes, and again when something wakes it.
    manifests |= {kind: manifests.pop(kind) for kind in ("rollout",) if kind in manifests}
    objects.apply(*manifests.values())
    return objects


def _conditions(objects: Objects) -> dict[str, Any]:
    status = objects.get("rollouts", "checkout").get("status", {})
    return {c["type"]: c for c in status.get("conditions", ())}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_stands_in_the_way_is_said(
    cluster: Instance, operator: Operator, namespace: str, case: Case
) -> None:
    objects = _applied(cluster, namespace, case.change)

    def said() -> bool:
        found: Any = _conditions(objects).get(case.condition, {})
        seen = (found.get("status"), found.get("reason"), found.get("message"))
        assert seen[:2] == (case.status, case.reason), f"{case.condition}: {seen}"
        assert case.sentence.format(namespace=namespace) in found["message"], found["message"]
        return True

    eventually(said, 30, f"{case.condition} says {case.reason}")
    conditions = _conditions(objects)
    assert conditions["Ready"]["status"] == "False", "a Rollout that cannot start is not ready"
    assert conditions["Reconciling"]["status"] == "False", "nothing is on its way"
    labels = objects.get("deployment", "checkout").get("metadata", {}).get("labels", {})
    assert "gatewright.dev/gated" not in labels, "what cannot be gated is left as it is"


@pytest.mark.parametrize(
    ("change", "mend"),
    [
        pytest.param(_without("contract"), lambda m: m["contract"], id="a contract that comes later"),
        pytest.param(_without("deployment"), lambda m: m["deployment"], id="a Deployment that comes later"),
        pytest.param(_canary_weight_absent, lambda m: m["route"], id="a route that is mended"),
        pytest.param(_recreate, lambda m: m["deployment"], id="a strategy that is mended"),
    ],
)
def test_what_is_mended_is_adopted_without_another_word(
    cluster: Instance,
    operator: Operator,
    namespace: str,
    change: Changed,
    mend: Callable[[dict[str, Manifest]], Manifest],
) -> None:
    objects = _applied(cluster, namespace, change)
    eventually(
        lambda: _conditions(objects).get("Stalled", {}).get("status") == "True", 30, "the Rollout is stalled"
    )
    mended = mend(_manifests())
    if mended["kind"] == "Deployment":
        mended["spec"]["strategy"] = {"type": "RollingUpdate"}
    objects.apply(mended)
    eventually(lambda: _conditions(objects)["Ready"]["status"] == "True", 30, "the Deployment is adopted")
    assert objects.get("deployment", "checkout")["metadata"]["labels"]["gatewright.dev/gated"] == "true"


def test_a_gated_deployment_whose_contract_went_and_came_back_says_both(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    objects = _applied(cluster, namespace, lambda m: None)

    def ready() -> Any:
        return _conditions(objects).get("Ready", {})

    eventually(lambda: ready().get("status") == "True", 30, "the Deployment is adopted")
    assert objects.kubectl("delete", "gatecontract", "checkout").ok
    eventually(
        lambda: ready()["reason"] == "ContractNotFound", 30, "the Rollout says that its contract is gone"
    )
    assert ready()["status"] == "False"
    objects.apply(contract())
    eventually(lambda: ready()["status"] == "True", 30, "the Rollout is ready again")
    assert "is stable; waiting for a new template" in ready()["message"], ready()


def test_a_service_that_selects_other_pods_stands_in_nobodys_way(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    objects = _applied(cluster, namespace, _another_service_of_nothing)
    eventually(lambda: _conditions(objects).get("Ready", {}).get("status") == "True", 30, "it is adopted")
