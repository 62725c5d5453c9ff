"""The node's rules as tables: what a pod's status says, when a container waits, where a pod may stand."""

import hashlib
import json
from pathlib import Path

import pytest

from devcluster.addresses import listen_address
from devcluster.kubeapi import Json
from devcluster.node.address_pool import AddressPool
from devcluster.node.container import Backoff
from devcluster.node.environment import command_line, expand
from devcluster.node.images import ImageError, pull
from devcluster.node.logs import log_path
from devcluster.node.probes import ProbeTimes, Streak, port_number
from devcluster.node.scheduling import selector_matches, unschedulable
from devcluster.node.status import ContainerView, PodFacts, phase, pod_status

RUNNING: Json = {"running": {"startedAt": "2030-01-01T00:00:00Z"}}
CREATING: Json = {"waiting": {"reason": "ContainerCreating"}}
BACKING_OFF: Json = {"waiting": {"reason": "CrashLoopBackOff"}}


def ended(code: int) -> Json:
    """A terminated state."""
    return {"terminated": {"exitCode": code}}


def view(state: Json, last: Json | None = None, *, name: str = "app", ready: bool = False) -> ContainerView:
    """A container in this state."""
    return ContainerView(name, "image", "id", "cid", state, last or {}, ready, False, 0)


def facts(*views: ContainerView, inits: tuple[ContainerView, ...] = (), **fields: bool) -> PodFacts:
    """A pod with these containers, initialized and not finished unless said otherwise."""
    return PodFacts(
        pod_ip="10.244.1.2",
        start_time="2030-01-01T00:00:00Z",
        initialized=fields.get("initialized", True),
        finished=fields.get("finished", False),
        init_views=inits,
        views=views,
    )


@pytest.mark.parametrize(
    ("what", "pod", "policy", "expected"),
    [
        ("starting", facts(view(CREATING)), "Always", "Pending"),
        ("running", facts(view(RUNNING)), "Always", "Running"),
        ("one of two not started yet", facts(view(RUNNING), view(CREATING)), "Always", "Pending"),
        ("backing off after a crash", facts(view(BACKING_OFF, ended(1))), "Always", "Running"),
        ("one ended, one runs", facts(view(ended(0)), view(RUNNING)), "Never", "Running"),
        ("all ended well", facts(view(ended(0)), finished=True), "Never", "Succeeded"),
        ("one ended badly", facts(view(ended(0)), view(ended(2)), finished=True), "Never", "Failed"),
        ("deleted before its start", facts(view(CREATING), finished=True), "Always", "Failed"),
        ("init runs", facts(view(CREATING), inits=(view(RUNNING),), initialized=False), "Always", "Pending"),
        (
            "init failed for good",
            facts(view(CREATING), inits=(view(ended(1)),), initialized=False, finished=True),
            "Never",
            "Failed",
        ),
    ],
)
def test_the_phase_follows_the_kubelets_rule(what: str, pod: PodFacts, policy: str, expected: str) -> None:
    assert phase(pod, policy) == expected, what


def test_a_condition_keeps_its_transition_time_until_its_status_changes() -> None:
    pod: Json = {"metadata": {}, "spec": {}}
    first = pod_status(pod, facts(view(RUNNING, ready=True)), [], "10:00")
    same = pod_status(pod, facts(view(RUNNING, ready=True)), first["conditions"], "11:00")
    other = pod_status(pod, facts(view(RUNNING)), same["conditions"], "12:00")

    def moments(status: Json) -> dict[str, str]:
        return {entry["type"]: entry["lastTransitionTime"] for entry in status["conditions"]}

    assert set(moments(same).values()) == {"10:00"}
    assert moments(other)["Ready"] == moments(other)["ContainersReady"] == "12:00"
    assert moments(other)["Initialized"] == "10:00"


def test_the_first_restart_comes_at_once_then_waits_double_up_to_the_most() -> None:
    backoff = Backoff(1.0, 30.0)
    assert [backoff.after(0.1) for _ in range(8)] == [0, 1, 2, 4, 8, 16, 30, 30]
    assert backoff.after(61.0) == 0, "a run of twice the longest wait is forgiven"
    assert backoff.after(0.1) == 1


def test_a_probe_needs_its_thresholds_in_a_row() -> None:
    times = ProbeTimes(0, 1, 1, success_threshold=2, failure_threshold=3)
    streak = Streak(times)
    attempts = [True, True, False, False, True, False, False, False, False, True, True]
    states = [None, True, None, None, None, None, None, False, False, None, True]
    assert [streak.feed(ok) for ok in attempts] == states


def test_a_probes_port_is_found_by_number_or_name() -> None:
    container = {"name": "app", "ports": [{"name": "http", "containerPort": 8080}]}
    assert port_number(container, 9090) == 9090
    assert port_number(container, "http") == 8080
    with pytest.raises(ValueError, match="couldn't find port 'grpc'"):
        port_number(container, "grpc")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("$(A)$(A)", "11"),
        ("$(B)", "$(B)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("cost: $5 $(", "cost: $5 $("),
    ],
)
def test_variables_are_expanded_as_kubernetes_does(text: str, expected: str) -> None:
    assert expand(text, {"A": "1"}) == expected


def test_the_command_line_is_command_and_args_expanded() -> None:
    container = {"command": ["serve", "--port=$(PORT)"], "args": ["$(NAME)"]}
    assert command_line(container, {"PORT": "80"}) == ["serve", "--port=80", "$(NAME)"]


def test_an_image_has_the_digest_of_its_reference_or_its_name_or_its_place_in_the_registry(
    tmp_path: Path,
) -> None:
    registry = tmp_path / "images.json"
    made_up = hashlib.sha256(b"registry.example:5000/shop/checkout:1").hexdigest()
    prefix = "docker-pullable://registry.example:5000/shop/checkout@sha256:"
    assert pull("registry.example:5000/shop/checkout:1", True, registry) == prefix + made_up
    pinned = f"shop/checkout@sha256:{'a' * 64}"
    assert pull(pinned, True, registry) == f"docker-pullable://{pinned}"
    registry.write_text(json.dumps({"shop/checkout:1": f"sha256:{'b' * 64}"}))
    assert pull("shop/checkout:1", True, registry) == f"docker-pullable://shop/checkout@sha256:{'b' * 64}"


@pytest.mark.parametrize(
    ("image", "has_command", "reason"),
    [
        ("Bad Image", True, "InvalidImageName"),
        ("", True, "InvalidImageName"),
        ("shop/missing:2", True, "ErrImagePull"),
        ("shop/checkout:2", False, "ErrImagePull"),
    ],
)
def test_an_image_that_cannot_be_had_says_why(
    tmp_path: Path, image: str, has_command: bool, reason: str
) -> None:
    with pytest.raises(ImageError) as caught:
        pull(image, has_command, tmp_path / "none.json")
    assert caught.value.reason == reason


def pod(name: str, *, labels: dict[str, str] | None = None, **spec: object) -> Json:
    """A pod of namespace ``shop``."""
    metadata = {"name": name, "namespace": "shop", "uid": name, "labels": labels or {}}
    return {"metadata": metadata, "spec": spec}


def test_a_node_selector_must_match_the_nodes_labels() -> None:
    assert unschedulable(pod("a", nodeSelector={"os": "linux"}), {"os": "linux"}, []) is None
    refusal = unschedulable(pod("a", nodeSelector={"os": "other"}), {"os": "linux"}, [])
    assert refusal == "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."


def test_anti_affinity_counts_in_both_directions_and_not_towards_oneself() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    lonely = pod("lonely", affinity=rules, labels={"app": "web"})
    plain = pod("plain", labels={"app": "web"})
    other = pod("other", labels={"app": "db"})
    assert unschedulable(lonely, {}, [other, lonely]) is None
    assert "didn't match pod anti-affinity" in (unschedulable(lonely, {}, [plain]) or "")
    assert "existing pods anti-affinity" in (unschedulable(plain, {}, [lonely]) or "")


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "web", "tier": "x"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, True),
    ],
)
def test_label_selectors_match_as_in_kubernetes(selector: Json | None, matches: bool) -> None:
    assert selector_matches(selector, {"app": "web"}) is matches


def test_two_agents_on_one_machine_never_give_out_the_same_address() -> None:
    one, two = AddressPool(), AddressPool()
    try:
        mine = {one.take() for _ in range(600)}
        theirs = {two.take() for _ in range(600)}
        assert len(mine) == len(theirs) == 600
        assert not mine & theirs
        address = min(mine)
        assert not two.reserve(address), "another agent's block"
        assert not one.reserve(address), "given out already"
        one.release(address)
        assert one.reserve(address)
    finally:
        one.close()
        two.close()


def test_a_freed_block_can_be_claimed_by_the_next_agent() -> None:
    one = AddressPool()
    address = one.take()
    one.close()
    two = AddressPool()
    try:
        assert two.reserve(address)
        assert two.take() != address
    finally:
        two.close()


def test_only_pod_addresses_have_a_loopback_address() -> None:
    assert listen_address("10.244.3.4") == "127.244.3.4"
    for foreign in ("10.245.0.1", "192.0.2.1", "127.0.0.1"):
        with pytest.raises(ValueError, match="is not a pod address"):
            listen_address(foreign)


def test_the_log_file_has_all_parts_of_the_name() -> None:
    assert log_path(Path("/d"), "shop", "checkout-1", "app") == Path("/d/logs/shop_checkout-1_app.log")
