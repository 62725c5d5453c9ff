"""Pause, Resume and Override on a real control plane, by people with and without the right."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.checkout import in_hours
from tests.cluster.operators import OperatorKeeper
from tests.cluster.releases import DOUBTFUL, GATE, GOOD, LONG_GATE, Person, Release
from tests.cluster.support import eventually

pytestmark = pytest.mark.timeout(400)

BAD = {"VERSION": "v2", "ERROR_RATE": "0.5"}
WAITS = [{"setWeight": 25}, {"gate": LONG_GATE}, {"setWeight": 50}, {"gate": GATE}]


SLOW = [{"setWeight": 50}, {"gate": GATE | {"duration": "20s", "maxDuration": "25s"}}]
"""Long enough to be paused in, on a busy machine."""


def soon(minutes: float = 20) -> str:
    return in_hours(minutes / 60)


def override(shop: Release, who: Path, to: str, *, ignore: bool = False, **over: Any) -> Any:
    target = {"to": to, "ignoreBreach": ignore}
    written = shop.order("Override", who=who, **({"override": target, "expiresAt": soon()} | over))
    assert written.ok, written.err
    return shop.answer("gateorders.gatewright.dev", written)


@pytest.fixture
def sre(as_user: Person) -> Path:
    return as_user("sre-a", roles=("gatewright-reviewer",))


@pytest.fixture
def on_call(as_user: Person) -> Path:
    return as_user("sre-on-call", roles=("gatewright-override",))


def test_paused_at_a_gate_it_waits_for_the_resume(
    cluster: Instance, operator: Operator, namespace: str, sre: Path
) -> None:
    shop = Release.create(cluster, namespace, steps=SLOW)
    with shop.traffic():
        shop.release(**GOOD)
        shop.phase("Progressing", step=1)
        paused = shop.order("Pause", who=sre, reason="looking at the queue first")
        assert paused.ok, paused.err
        status = shop.phase("Paused")
        assert (status["paused"]["by"], status["paused"]["reason"]) == ("sre-a", "looking at the queue first")
        run = status["paused"]["run"]
        assert "kubectl gate resume checkout" in status["message"]
        second = shop.answer("gateorders.gatewright.dev", shop.order("Pause", who=sre))
        assert second["outcome"] == "Refused"
        assert "sre-a has paused it since" in second["message"]

        def due() -> bool:
            checks = shop.get("gateruns.gatewright.dev", run)
            assert "verdict" not in checks.get("status", {}), "its verdict waits for the Resume"
            return shop.weights() == (50, 50) and shop.status["phase"] == "Paused"

        # Longer than the gate would have taken.
        eventually(lambda: due() and _age(shop, run) > 30, 90, "the gate's time is over")
        resumed = shop.answer("gateorders.gatewright.dev", shop.order("Resume", who=sre))
        assert resumed["outcome"] == "Accepted"
        shop.promoted("v2")
    orders = [e["body"]["spec"]["order"] for e in shop.entries("Order")]
    assert orders == ["Pause", "Resume"]
    assert shop.kinds().index("Order") < shop.kinds().index("Promoted")
    assert "paused" not in shop.status
    shop.verify_ledger()


def _age(shop: Release, run: str) -> float:
    """Seconds since a gate's t0."""
    starts = shop.get("gateruns.gatewright.dev", run)["spec"]["clock"]["startsAt"]
    return (datetime.now(UTC) - datetime.fromisoformat(starts)).total_seconds()


def test_a_breach_in_a_pause_rolls_back_at_once(
    cluster: Instance, operator: Operator, namespace: str, sre: Path
) -> None:
    shop = Release.create(cluster, namespace, steps=WAITS)
    shop.release(**BAD)
    shop.phase("Progressing", step=1)
    assert shop.order("Pause", who=sre).ok
    shop.phase("Paused")
    with shop.traffic():
        status = shop.phase("RolledBack")
    assert status["rejected"]["reason"] in ("BreachAbsolute", "BreachTwoArm", "TotalFailure")
    shop.clean_at_rest()
    shop.verify_ledger()


def test_who_lacks_the_verb_pauses_and_overrides_nothing(
    cluster: Instance, operator: Operator, namespace: str, sre: Path, as_user: Person
) -> None:
    shop = Release.create(cluster, namespace, steps=WAITS)
    shop.release(**GOOD)
    shop.phase("Progressing", step=1)
    rules = [{"apiGroups": ["gatewright.dev"], "resources": ["*"], "verbs": ["get", "list", "create"]}]
    paused = shop.order("Pause", who=as_user("stranger-a", rules=rules))
    assert not paused.ok
    assert "the verb operate on rollouts.gatewright.dev is missing" in paused.err
    target = {"to": "Promote"}
    written = shop.order("Override", who=sre, override=target, expiresAt=soon())
    assert not written.ok
    assert "the verb override on rollouts.gatewright.dev is missing" in written.err
    assert shop.entries("Order") == []


def test_an_override_promotes_at_once_and_is_loud(
    cluster: Instance, operator: Operator, namespace: str, on_call: Path
) -> None:
    shop = Release.create(cluster, namespace, steps=WAITS)
    with shop.traffic():
        shop.release(**GOOD)
        shop.phase("Progressing", step=1)
        answer = override(shop, on_call, "Promote", reason="the old version loses orders")
        assert answer["outcome"] == "Accepted", answer
        shop.promoted("v2")
    entry = shop.entries("Order")[0]
    assert entry["actor"] == {"kind": "user", "name": "sre-on-call"}
    assert entry["body"]["spec"]["reason"] == "the old version loses orders"
    kinds = shop.kinds()
    assert kinds.index("Order") < kinds.index("Promoted")
    events = [e for e in shop.all("events") if e["reason"] == "Overridden"]
    assert [e["type"] for e in events] == ["Warning"]
    assert "sre-on-call overrides the gates" in events[0]["message"]
    shop.clean_at_rest()
    shop.verify_ledger()


def test_an_override_to_a_step_that_lets_breaches_be(
    cluster: Instance, operator: Operator, namespace: str, on_call: Path, sre: Path
) -> None:
    shop = Release.create(cluster, namespace, steps=WAITS)
    with shop.traffic():
        shop.release(**BAD)
        shop.phase("Progressing", "Held", step=1)
        answer = override(shop, on_call, "3", ignore=True)
        assert answer["outcome"] == "Accepted", answer
        shop.phase("Progressing", step=3)
        assert shop.weights() == (50, 50)
        eventually(lambda: shop.entries("BreachIgnored"), 60, "the breach stands in the ledger")
        condition = next(c for c in shop.status["conditions"] if c["type"] == "Overridden")
        assert "Breaches do not roll back before" in condition["message"]
        assert shop.status["phase"] == "Progressing"
        assert shop.order("Abort", who=sre).ok
        status = shop.phase("RolledBack")
    assert status["rejected"]["reason"] == "Aborted"
    shop.clean_at_rest()
    shop.verify_ledger()


def test_what_waits_between_two_gates_is_still_watched(
    cluster: Instance, operator: Operator, namespace: str, sre: Path
) -> None:
    steps = [{"setWeight": 50}, {"gate": GATE}, {"pause": {}}, {"gate": GATE}]
    shop = Release.create(cluster, namespace, steps=steps)
    shop.set_setting("ERROR_RATE", "0")
    with shop.traffic():
        shop.release_with_setting("ERROR_RATE", "0")
        status = shop.phase("Paused", step=2)
        assert status["paused"]["run"].endswith("-1-1"), status["paused"]
        assert status["paused"]["by"] == ""
        # Its processes start anew, and the version is not what it was when it passed.
        shop.set_setting("ERROR_RATE", "0.9")
        gone = shop.kubectl("delete", "pods", "-l", "gatewright.dev/rollout=checkout", "--wait=false")
        assert gone.ok, gone.err
        status = shop.phase("RolledBack")
    assert status["rejected"]["reason"] in ("BreachAbsolute", "BreachTwoArm", "TotalFailure")
    assert [e["key"]["step"] for e in shop.entries("Breach")] == ["1"]
    shop.clean_at_rest()
    shop.verify_ledger()


def test_an_approval_in_a_pause_waits_for_the_resume(
    cluster: Instance, operators: OperatorKeeper, namespace: str, sre: Path
) -> None:
    shop = Release.create(cluster, namespace)
    with shop.traffic():
        shop.release(**DOUBTFUL)
        shop.phase("Held")
        assert shop.gate("pause", "checkout", "--reason", "wait for the cache", who=sre).ok
        assert shop.status["paused"]["by"] == "sre-a"
        assert shop.review("Approve", who=sre).ok
        shop.phase("Paused")
        operators.kill()
        operators.ensure()
        assert shop.status["phase"] == "Paused"
        assert "Promoted" not in shop.kinds()
        resumed = shop.gate("resume", "checkout", "--reason", "the cache is warm", who=sre)
        assert resumed.ok, resumed.err
        assert "sre-a sends" in resumed.out
        shop.promoted("v2")
    shop.verify_ledger()


def test_the_plugin_overrides_and_says_what_follows(
    cluster: Instance, operator: Operator, namespace: str, on_call: Path
) -> None:
    shop = Release.create(cluster, namespace, steps=WAITS)
    shop.release(**GOOD)
    shop.phase("Progressing", step=1)
    words = ("override", "checkout", "--reason", "the old version loses orders", "--expires", "30m")
    answer = shop.gate(*words, "--to", "promote", who=on_call)
    assert answer.ok, answer.err
    assert "sre-on-call overrides the gates" in answer.out
    shop.promoted("v2")
    too_long = shop.gate(*words[:-1], "3h", "--to", "promote", who=on_call)
    assert not too_long.ok
    assert "nothing to override" in too_long.err
