"""A contract that the present traffic can't prove is told while nothing happens yet, and stops nobody."""

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.releases import GOOD, LONG_GATE, Release, check, contract
from tests.cluster.support import Manifest, eventually

pytestmark = pytest.mark.timeout(300)


def test_what_needs_hours_at_the_present_rate_is_said_while_the_rollout_stays_usable(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    strict = contract([check(limit={"maxBadRatio": 0.0001})])
    steps: list[Manifest] = [
        {"setWeight": 20},
        {"gate": {**LONG_GATE, "duration": "4s", "maxDuration": "60s"}},
    ]
    shop = Release.create(cluster, namespace, steps=steps, contract_spec=strict)
    with shop.traffic():

        def told() -> Manifest:
            found = {c["type"]: c for c in shop.status["conditions"]}
            assert found["Feasible"]["reason"] == "TrafficTooLow", found["Feasible"]
            condition: Manifest = found["Feasible"]
            assert found["Ready"]["status"] == "True", found["Ready"]
            return condition

        condition = eventually(told, 90, "the condition says that the traffic is too low")
        assert condition["status"] == "False"
        assert " needs " in condition["message"] and (
            " hours at this rate" in condition["message"] or " days at this rate" in condition["message"]
        )
        assert (
            "pool over the rollout, lengthen the gate, loosen the limit or ask for NoBreach"
            in condition["message"]
        )
        before = shop.get("rollouts.gatewright.dev", "checkout")["metadata"]["resourceVersion"]
        assert shop.phase("Idle")
        after = shop.get("rollouts.gatewright.dev", "checkout")["metadata"]["resourceVersion"]
        assert before == after, "what is known is not written again"
        shop.release(**GOOD)
        shop.phase("Progressing", step=1)
