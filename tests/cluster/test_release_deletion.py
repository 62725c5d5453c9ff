"""The Rollout goes, or what it stands on goes: traffic is home, and the user's objects are as they were."""

from collections.abc import Callable
from typing import Any

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.operators import OperatorKeeper
from tests.cluster.releases import (
    DOUBTFUL,
    GOOD,
    LONG,
    Release,
    check,
    contract,
    deployment,
    lost,
)
from tests.cluster.support import eventually, rest

pytestmark = pytest.mark.timeout(300)

BAKE = {"warmup": "1s", "duration": "5m", "window": "2s", "interval": "1s"}
BYSTANDERS = [("service", "checkout"), ("service", "checkout-canary"), ("httproute", "checkout")]
NONE = {"VERSION": "v1"}
NEVER_READY = {"VERSION": "v2", "READY": "false"}
SLOW_TO_START = {"VERSION": "v2", "START_DELAY_SECONDS": "4"}


def _users_part(shop: Release) -> list[Any]:
    """All that users own of the Services and the route."""
    found = []
    for kind, name in BYSTANDERS:
        obj = shop.get(kind, name)
        metadata = {
            k: obj["metadata"].get(k) for k in ("labels", "annotations", "finalizers", "ownerReferences")
        }
        found.append((kind, name, metadata, obj["spec"]))
    return found


def _gone(shop: Release) -> None:
    eventually(lambda: not shop.rollout, 90, "the Rollout is gone")


def _delete(shop: Release) -> None:
    answer = shop.kubectl("delete", "rollouts.gatewright.dev", "checkout", "--wait=false")
    assert answer.ok, answer.err


def _unmarked(shop: Release) -> bool:
    metadata = shop.deployment["metadata"]
    left = [
        key
        for key in [*metadata.get("labels", {}), *metadata.get("annotations", {})]
        if key.startswith("gatewright.dev/")
    ]
    assert not left, f"the Deployment still carries {left}"
    return True


def _until(phase: str, env: dict[str, str], step: int | None = None) -> Callable[[Release], None]:
    def reach(shop: Release) -> None:
        if env != NONE:
            shop.release(**env)
        shop.phase(phase, step=step)

    return reach


@pytest.mark.parametrize(
    ("reach", "steps", "serves", "paused"),
    [
        pytest.param(_until("Idle", NONE), None, "v1", False, id="Idle"),
        pytest.param(_until("Progressing", NEVER_READY, 0), LONG, "v1", True, id="Progressing-setWeight"),
        pytest.param(_until("Progressing", GOOD, 1), LONG, "v1", True, id="Progressing-gate"),
        pytest.param(_until("Held", DOUBTFUL), None, "v1", True, id="Held"),
        pytest.param(_until("Promoting", SLOW_TO_START), None, "v2", False, id="Promoting"),
        pytest.param(_until("Baking", GOOD), None, "v2", False, id="Baking"),
        pytest.param(
            _until("RolledBack", {"VERSION": "v2", "ERROR_RATE": "0.9"}), None, "v1", True, id="RolledBack"
        ),
    ],
)
def test_a_rollout_deleted_in_any_phase_leaves_everything_as_its_users_had_it(
    cluster: Instance,
    operator: Operator,
    namespace: str,
    reach: Callable[[Release], None],
    steps: list[Any] | None,
    serves: str,
    paused: bool,
) -> None:
    spec = contract([check(stages=("Canary", "Bake"))])
    shop = Release.create(cluster, namespace, steps=steps, contract_spec=spec, bake=BAKE)
    before, pods = _users_part(shop), shop.stable_pods()
    with shop.traffic() as traffic:
        reach(shop)
        _delete(shop)
        _gone(shop)
        eventually(lambda: _unmarked(shop), 30, "the marks are off")
        shop.clean_at_rest()
        eventually(
            lambda: {shop.version_of(p) for p in shop.pods()} == {serves}, 60, f"{serves} serves alone"
        )
        report = traffic.report()
    assert lost(report, report.versions.get("v2", {}).get("500", 0)) == 0, report
    assert _users_part(shop) == before, "a Service or the route is not as its users had it"
    assert bool(shop.deployment["spec"].get("paused", False)) is paused, (
        "the Deployment stays paused exactly when its template is not the one that serves"
    )
    if serves == "v1":
        assert shop.stable_pods() == pods, "pods of stable were touched"
    assert shop.kinds()[0] == "Adopted", "the ledger outlives its Rollout"
    if paused:
        # It is the user's again: whoever resumes it rolls the template out, and nobody stands in the way.
        answer = shop.kubectl("rollout", "resume", "deployment/checkout", who=shop.developer)
        assert answer.ok, answer.err


def test_a_deployment_deleted_in_the_middle_of_a_gate_leaves_nothing_of_the_release_behind(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(cluster, namespace, steps=LONG)
    before = _users_part(shop)
    with shop.traffic():
        shop.release(**GOOD)
        shop.phase("Progressing", step=1)
        answer = shop.kubectl("delete", "deployment", "checkout", "--wait=false")
        assert answer.ok, answer.err
        eventually(lambda: not shop.get("deployment", "checkout-canary"), 60, "the canary is gone")
        eventually(lambda: _users_part(shop) == before, 30, "the Services and the route are as they were")

    def says_so() -> bool:
        stalled = next(c for c in shop.status["conditions"] if c["type"] == "Stalled")
        assert (stalled["status"], stalled["reason"]) == ("True", "WorkloadNotFound"), stalled
        return True

    eventually(says_so, 30, "the Rollout says that its Deployment is gone")
    shop.apply(deployment(VERSION="v3"))
    status = shop.phase("Idle")
    assert status["stable"]["revision"] == status["observedRevision"], (
        "the new first version is adopted as it is"
    )
    shop.verify_ledger()


def test_a_namespace_deleted_in_the_middle_of_a_gate_does_not_hang(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shop = Release.create(cluster, namespace, steps=LONG)
    with shop.traffic():
        shop.release(**GOOD)
        shop.phase("Progressing", step=1)
        rest(cluster.kubeconfig, "DELETE", f"/api/v1/namespaces/{namespace}")

        def left() -> bool:
            listed = rest(cluster.kubeconfig, "GET", "/api/v1/namespaces")["items"]
            status = next((n["status"] for n in listed if n["metadata"]["name"] == namespace), None)
            if status is None:
                return True
            raise AssertionError(f"it is {status['phase']}: {status.get('conditions')}")

        eventually(left, 120, "the namespace is gone", interval=0.5)


def test_a_rollout_deleted_in_a_gate_while_the_operator_is_down_is_cleared_up_when_it_is_back(
    cluster: Instance, operators: OperatorKeeper, namespace: str
) -> None:
    shop = Release.create(cluster, namespace, steps=LONG)
    before = _users_part(shop)
    with shop.traffic() as traffic:
        shop.release(**GOOD)
        shop.phase("Progressing", step=1)
        operators.kill()
        _delete(shop)
        assert "deletionTimestamp" in shop.rollout["metadata"], (
            "while traffic is changed a finalizer holds it"
        )
        assert shop.weights() == (50, 50)
        operators.ensure()
        _gone(shop)
        eventually(lambda: _unmarked(shop), 30, "the marks are off")
        report = traffic.report()
    assert lost(report) == 0, report
    assert _users_part(shop) == before
    assert shop.deployment["spec"]["paused"] is True, "a template without a verdict stays held"


def test_a_rollout_deleted_at_rest_while_the_operator_is_down_leaves_no_gate_without_a_keeper(
    cluster: Instance, operators: OperatorKeeper, namespace: str
) -> None:
    shop = Release.create(cluster, namespace, replicas=1)
    operators.stop()
    _delete(shop)
    _gone(shop)
    assert shop.deployment["metadata"]["labels"]["gatewright.dev/gated"] == "true"
    operators.start()
    eventually(lambda: _unmarked(shop), 60, "the operator that comes back takes the guard off")
    shop.release(**GOOD)
    eventually(
        lambda: {shop.version_of(p) for p in shop.pods()} == {"v2"},
        60,
        "a new template rolls out as in any Deployment",
    )
