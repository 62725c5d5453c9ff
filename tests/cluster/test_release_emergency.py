"""With the operator down: two documented steps by kubectl, and the operator enters them when it is back."""

import json
from pathlib import Path

import pytest

from devcluster import Instance
from tests.cluster.operators import OperatorKeeper
from tests.cluster.releases import GOOD, LONG_GATE, Person, Release
from tests.cluster.support import eventually

pytestmark = pytest.mark.timeout(400)

WAITS = [{"setWeight": 25}, {"gate": LONG_GATE}]
STABLE_ALONE = json.dumps([{"op": "remove", "path": "/spec/selector/pod-template-hash"}])


@pytest.fixture
def on_call(as_user: Person) -> Path:
    return as_user("sre-on-call", roles=("gatewright-override", "edit"))


def take_off_the_pin(shop: Release, who: Path) -> None:
    patched = shop.kubectl("patch", "service", "checkout", "--type=json", "-p", STABLE_ALONE, who=who)
    assert patched.ok, patched.err
    unmarked = shop.kubectl("annotate", "deployment", "checkout", "gatewright.dev/pinned-", who=who)
    assert unmarked.ok, unmarked.err


def all_pods_are(shop: Release, version: str) -> None:
    eventually(
        lambda: {shop.version_of(pod) for pod in shop.pods()} == {version}, 90, f"all pods are {version}"
    )


def test_in_the_middle_of_a_rollout_two_steps_send_it_out(
    cluster: Instance, operators: OperatorKeeper, namespace: str, on_call: Path, as_user: Person
) -> None:
    shop = Release.create(cluster, namespace, steps=WAITS)
    shop.release(**GOOD)
    shop.phase("Progressing", step=1)
    operators.stop()
    resume = ("rollout", "resume", "deployment/checkout")
    pinned = shop.kubectl(*resume, who=on_call)
    assert not pinned.ok
    assert "The stable Service is pinned" in pinned.err
    take_off_the_pin(shop, on_call)
    stranger = shop.kubectl(*resume, who=as_user("developer-b", roles=("edit",)))
    assert not stranger.ok
    assert "held by Gatewright" in stranger.err
    resumed = shop.kubectl(*resume, who=on_call)
    assert resumed.ok, resumed.err
    assert shop.deployment["metadata"]["annotations"]["gatewright.dev/resumed-by"] == "sre-on-call"
    all_pods_are(shop, "v2")
    assert "Overridden" not in shop.kinds()
    operators.ensure()
    shop.promoted("v2")
    (entry,) = shop.entries("Overridden")
    assert entry["actor"] == {"kind": "user", "name": "sre-on-call"}
    kinds = shop.kinds()
    assert kinds.index("Overridden") < kinds.index("Promoted") < kinds.index("Completed")
    assert "gatewright.dev/resumed-by" not in shop.deployment["metadata"]["annotations"]
    shop.clean_at_rest()
    shop.verify_ledger()


def test_a_version_that_came_while_the_operator_was_down_is_sent_out_and_baked(
    cluster: Instance, operators: OperatorKeeper, namespace: str, on_call: Path
) -> None:
    shop = Release.create(cluster, namespace, steps=WAITS)
    operators.stop()
    shop.release(**GOOD)
    assert shop.deployment["spec"]["paused"], "the API server holds it by itself"
    resumed = shop.kubectl("rollout", "resume", "deployment/checkout", who=on_call)
    assert resumed.ok, resumed.err
    all_pods_are(shop, "v2")
    operators.ensure()
    with shop.traffic():
        shop.promoted("v2")
    assert [e["body"]["by"] for e in shop.entries("Overridden")] == ["sre-on-call"]
    assert "Completed" in shop.kinds()
    shop.verify_ledger()


def test_the_stamp_is_nobodys_to_write(
    cluster: Instance, operators: OperatorKeeper, namespace: str, on_call: Path
) -> None:
    shop = Release.create(cluster, namespace, steps=WAITS)
    forged = shop.kubectl(
        "annotate", "deployment", "checkout", "gatewright.dev/resumed-by=reviewer-a", who=on_call
    )
    assert not forged.ok
    assert "gatewright.dev/resumed-by is written by the API server" in forged.err
