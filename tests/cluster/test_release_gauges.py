"""Gauges decide releases: outside three times rolls back, one that both arms share only holds, inside passes."""

from typing import Any

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.releases import Release, contract
from tests.cluster.support import Manifest, eventually

pytestmark = pytest.mark.timeout(300)

GATE: Manifest = {"warmup": "3s", "duration": "6s", "maxDuration": "10s", "window": "2s", "interval": "1s"}
STEPS: list[Manifest] = [{"setWeight": 50}, {"gate": GATE}]


def _gauge(query: str = "max(queue_depth{$arm})", **value: Any) -> Manifest:
    body = {"source": "prometheus", "query": query, "max": 100, "spacing": "1s", "minWindows": 3, **value}
    return {
        "id": "queue-depth",
        "oracleKind": "Deterministic",
        "evidence": [{"stages": ["Canary"], "value": body}],
    }


def test_a_gauge_inside_its_limits_passes_and_one_outside_rolls_back(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    """Stable's own value is far outside all the while: only the canary's counts. No request is needed."""
    shop = Release.create(
        cluster, namespace, steps=STEPS, contract_spec=contract([_gauge()]), replicas=1, env={"GAUGE": "5000"}
    )
    shop.release(VERSION="v2", GAUGE="7")
    shop.promoted("v2")
    shop.release(VERSION="v3", GAUGE="250")
    status = shop.phase("RolledBack")
    assert status["rejected"]["reason"] == "ValueOutside", status["rejected"]
    passed, breached = (e["body"]["verdict"] for e in shop.entries("Verdict"))
    assert (passed["decision"], breached["decision"]) == ("PROMOTE", "ROLLBACK")
    assert passed["checks"][0]["statistics"]["value"] == 7
    assert breached["checks"][0]["breach"] is True
    assert "newest value 250 (at most 100), 3 readings" in breached["checks"][0]["message"]
    shop.clean_at_rest()
    shop.verify_ledger()


def test_a_gauge_that_both_arms_share_holds_and_never_rolls_back(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    shared = _gauge("queue_depth{$arm}", scope="Workload", aggregate="Sum")
    shop = Release.create(
        cluster, namespace, steps=STEPS, contract_spec=contract([shared]), replicas=1, env={"GAUGE": "60"}
    )
    shop.release(VERSION="v2", GAUGE="60")
    status = shop.phase("Held", "RolledBack")
    assert (status["phase"], status["hold"]["reason"]) == ("Held", "ValueOutside"), status
    assert "newest value 120" in status["hold"]["message"]


def test_a_query_that_would_read_other_namespaces_stops_the_start(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    loose = _gauge("max(queue_depth) - min(queue_depth{$arm})")
    shop = Release.create(
        cluster, namespace, steps=STEPS, contract_spec=contract([loose]), replicas=1, gated=False
    )

    def refused() -> bool:
        found = {c["type"]: c for c in shop.status.get("conditions", ())}.get("Feasible", {})
        assert found.get("reason") == "InvalidSpec", found
        return "queue_depth has no $arm" in found["message"]

    eventually(refused, 30, "the condition says that a selector lacks $arm")


def test_a_version_that_burns_the_error_budget_too_fast_rolls_back_and_one_that_does_not_passes(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    budget = {
        "source": "prometheus",
        "bad": ['http_requests_total{code=~"5.."}'],
        "total": ["http_requests_total"],
        "objective": 0.99,
        "maxBurn": 5,
    }
    burn = {
        "id": "error-budget",
        "oracleKind": "Deterministic",
        "evidence": [{"stages": ["Canary"], "burnRate": budget}],
    }
    shop = Release.create(cluster, namespace, steps=STEPS, contract_spec=contract([burn]))
    with shop.traffic():
        shop.release(VERSION="v2", ERROR_RATE="0.005")
        shop.promoted("v2")
        shop.release(VERSION="v3", ERROR_RATE="0.3")
        status = shop.phase("RolledBack", timeout=150)
    assert status["rejected"]["reason"] == "BreachAbsolute", status["rejected"]
    passed, breached = (e["body"]["verdict"] for e in shop.entries("Verdict"))
    assert (passed["decision"], breached["decision"]) == ("PROMOTE", "ROLLBACK")
    assert passed["checks"][0]["threshold"] == 0.95, "five times what an objective of 99 % allows"
    assert "burns the error budget" in breached["checks"][0]["message"]
