"""The operator's shell on a real API server: watches, cache and keys, the Lease, and outages."""

import secrets
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster import Instance
from tests.cluster.operator_process import OperatorProcess
from tests.cluster.support import apply, eventually, kubectl

CRDS = Path(__file__).resolve().parents[2] / "crds"
Manifest = dict[str, Any]
Start = Callable[..., OperatorProcess]


def rollout(namespace: str, name: str = "checkout", **labels: str) -> Manifest:
    """A valid Rollout."""
    return {
        "apiVersion": "gatewright.dev/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"{name}-web"},
            "contractRef": {"name": "default"},
            "traffic": {"replicas": {}},
            "steps": [{"setWeight": 5}, {"gate": {"duration": "1m"}}],
        },
    }


def deployment(namespace: str, name: str, **labels: str) -> Manifest:
    """A Deployment without pods."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "app", "image": "app:1"}]},
            },
        },
    }


def make_namespace(instance: Instance, prefix: str) -> str:
    """A namespace of a name never used before."""
    name = f"{prefix}-{secrets.token_hex(4)}"
    kubectl(["create", "namespace", name], instance.kubeconfig, check=True)
    return name


def create(instance: Instance, *manifests: Manifest) -> None:
    """Apply objects as the admin."""
    answer = apply(list(manifests), instance.kubeconfig)
    assert answer.ok, answer.err


def holder(instance: Instance, namespace: str) -> str:
    """Who holds the Lease, without the random suffix; empty when nobody does."""
    lease = kubectl(["get", "lease", "gatewright", "-n", namespace, "-o", "json"], instance.kubeconfig)
    return str(lease.json["spec"].get("holderIdentity") or "").partition("_")[0]


@pytest.fixture
def shop(api_only: Instance) -> str:
    return make_namespace(api_only, "shop")


@pytest.fixture
def start(api_only: Instance, tmp_path: Path) -> Iterator[Start]:
    """Starts operators that share a Lease of this test alone."""
    lease_namespace = make_namespace(api_only, "lease")
    running: list[OperatorProcess] = []

    def begin(name: str, *options: str) -> OperatorProcess:
        process = OperatorProcess(api_only.kubeconfig, lease_namespace, tmp_path / f"{name}.log", *options)
        running.append(process)
        return process

    yield begin
    for process in running:
        process.__exit__()


def test_a_change_is_seen_cached_and_reconciled(api_only: Instance, shop: str, start: Start) -> None:
    create(api_only, rollout(shop))
    operator = start("a")
    first = operator.wait_until_woken(f"rollout/{shop}/checkout")
    assert first["known"]["rollouts"] >= 1, "the cache was filled before the first reconcile"

    seen = len(operator.lines)
    create(api_only, rollout(shop, team="payments"))
    changed = operator.wait_until_woken(f"rollout/{shop}/checkout", after=seen)
    assert int(changed["version"]) > int(first["version"])

    seen = len(operator.lines)
    kubectl(["delete", "gwr", "checkout", "-n", shop], api_only.kubeconfig, check=True)
    eventually(
        lambda: [
            line for line in operator.woken_for(f"rollout/{shop}/checkout", seen) if line["version"] is None
        ],
        message="the deleted Rollout is reconciled as one that is gone",
    )


def test_only_gated_deployments_are_watched_and_they_wake_the_rollout_that_names_them(
    api_only: Instance, shop: str, start: Start
) -> None:
    create(api_only, rollout(shop))
    operator = start("a", "--namespace", shop)
    operator.wait_until_woken(f"rollout/{shop}/checkout")
    seen = len(operator.lines)
    create(
        api_only,
        deployment(shop, "unrelated"),
        deployment(shop, "checkout-web", **{"gatewright.dev/gated": "true"}),
    )
    line = operator.wait_until_woken(f"rollout/{shop}/checkout", after=seen)
    assert line["known"]["deployments"] == 1, "a Deployment that nobody gates is none of our business"

    seen = len(operator.lines)
    create(
        api_only,
        deployment(shop, "other", **{"gatewright.dev/gated": "canary", "gatewright.dev/rollout": "checkout"}),
    )
    operator.wait_until_woken(f"rollout/{shop}/checkout", after=seen)


def test_a_contract_wakes_every_rollout_that_it_judges(api_only: Instance, shop: str, start: Start) -> None:
    create(api_only, rollout(shop, "checkout"), rollout(shop, "basket"))
    operator = start("a", "--namespace", shop)
    for name in ("checkout", "basket"):
        operator.wait_until_woken(f"rollout/{shop}/{name}")
    seen = len(operator.lines)
    contract: Manifest = {
        "apiVersion": "gatewright.dev/v1alpha1",
        "kind": "GateContract",
        "metadata": {"name": "default", "namespace": shop},
        "spec": {
            "checks": [
                {
                    "id": "http-success",
                    "oracleKind": "Deterministic",
                    "limit": {"maxBadRatio": 0.01},
                    "evidence": [
                        {
                            "stages": ["Canary"],
                            "counts": {
                                "source": "prometheus",
                                "bad": ["errors_total"],
                                "total": ["requests_total"],
                            },
                        }
                    ],
                }
            ]
        },
    }
    create(api_only, contract)
    for name in ("checkout", "basket"):
        operator.wait_until_woken(f"rollout/{shop}/{name}", after=seen)


def test_a_kubernetes_event_about_a_rollout_can_be_read_by_people(
    api_only: Instance, shop: str, start: Start
) -> None:
    create(api_only, rollout(shop))
    start("a", "--namespace", shop)

    def events() -> Any:
        return kubectl(["get", "events", "-n", shop, "-o", "json"], api_only.kubeconfig).json["items"]

    event = eventually(events, message="the Event is there")[0]
    assert (event["reason"], event["message"]) == ("Adopted", "checkout was seen.")
    assert event["involvedObject"]["kind"] == "Rollout"
    assert event["reportingComponent"] == "gatewright.dev/operator"


def test_other_namespaces_are_none_of_its_business(api_only: Instance, shop: str, start: Start) -> None:
    elsewhere = make_namespace(api_only, "elsewhere")
    create(api_only, rollout(elsewhere, "early"), rollout(shop, "early"))
    operator = start("a", "--namespace", shop)
    operator.wait_until_woken(f"rollout/{shop}/early")
    create(api_only, rollout(elsewhere, "late"))
    create(api_only, rollout(shop, "late"))
    operator.wait_until_woken(f"rollout/{shop}/late")
    assert not [line for line in operator.lines if elsewhere in line["key"]]


def test_a_failing_reconcile_ends_neither_the_process_nor_the_others(
    api_only: Instance, shop: str, start: Start
) -> None:
    create(api_only, rollout(shop, "broken"), rollout(shop, "checkout"))
    operator = start("a", "--namespace", shop)
    operator.wait_until_woken(f"rollout/{shop}/checkout")
    eventually(lambda: len(operator.woken_for(f"rollout/{shop}/broken")) >= 3, message="it is tried again")
    assert operator.log.count("Traceback") == 1, "the trace of one and the same failure is logged once"
    assert operator.page("/healthz") == (200, "ok\n")


def test_after_sigterm_running_work_ends_and_the_next_leads_within_two_seconds(
    api_only: Instance, shop: str, start: Start
) -> None:
    create(api_only, rollout(shop, "slow"))
    first = start("first", "--namespace", shop, "--lease-seconds", "7.5")
    first.wait_until_woken(f"rollout/{shop}/slow")
    second = start("second", "--namespace", shop, "--lease-seconds", "7.5")
    eventually(lambda: "waiting for the lease" in second.log, message="the second stands by")
    assert second.page("/readyz")[0] == 200, "a standby is ready, or an update of the Deployment would hang"
    assert not second.lines, "a standby reconciles nothing"

    first.send(signal.SIGTERM)
    assert first.process.wait(20) == 0
    ended = time.monotonic()
    assert [line for line in first.lines if line.get("finished")], "the reconcile in work came to its end"
    assert "lease released" in first.log
    eventually(lambda: " leading " in second.log, 5, "the second leads", interval=0.02)
    assert time.monotonic() - ended < 2.0
    second.wait_until_woken(f"rollout/{shop}/slow")


def test_after_sigkill_the_next_leads_when_the_lease_has_ended_and_not_before(
    api_only: Instance, shop: str, start: Start
) -> None:
    create(api_only, rollout(shop))
    lease_seconds = 6.0
    first = start("first", "--lease-seconds", f"{lease_seconds}")
    first.wait_until_leading()
    second = start("second", "--lease-seconds", f"{lease_seconds}")
    eventually(lambda: "waiting for the lease" in second.log, message="the second stands by")
    first.send(signal.SIGKILL)
    killed = time.monotonic()
    second.wait_until_leading(lease_seconds * 2 + 10)
    took = time.monotonic() - killed
    assert took > lease_seconds / 2, "a Lease that may still be in force was taken"
    assert took < lease_seconds + 6.0
    assert second.metric("gatewright_lease_transitions") == 1


def test_a_leader_that_was_frozen_finds_its_lease_taken_and_stands_by(
    api_only: Instance, shop: str, start: Start
) -> None:
    create(api_only, rollout(shop))
    frozen = start("frozen", "--namespace", shop, "--lease-seconds", "3")
    frozen.wait_until_leading()
    other = start("other", "--namespace", shop, "--lease-seconds", "3")
    eventually(lambda: "waiting for the lease" in other.log, message="the other stands by")
    frozen.send(signal.SIGSTOP)
    other.wait_until_leading()
    told = len(frozen.lines)
    create(api_only, rollout(shop, team="changed-while-frozen"))
    other.wait_until_woken(f"rollout/{shop}/checkout", after=1)
    frozen.send(signal.SIGCONT)
    eventually(
        lambda: "leadership lost" in frozen.log or frozen.process.poll() is not None,
        message="the frozen one notices",
    )
    assert holder(api_only, frozen.lease_namespace) == "other"
    if frozen.process.poll() is None:
        assert frozen.metric("gatewright_leading") == 0
    assert len(frozen.lines) - told <= 1, "it went on as if nothing had happened"


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Instance]:
    """An API server that may be stopped without disturbing another test."""
    with Instance(tmp_path / "server", parts=("etcd", "apiserver"), report=lambda _: None) as instance:
        kubectl(["apply", "--server-side", "-f", str(CRDS)], instance.kubeconfig, check=True)
        kubectl(["wait", "--for=condition=Established", "crd", "--all"], instance.kubeconfig, check=True)
        yield instance


def test_the_operator_lives_through_a_restart_of_the_api_server(own_server: Instance, tmp_path: Path) -> None:
    lease, shop = make_namespace(own_server, "lease"), make_namespace(own_server, "shop")
    create(own_server, rollout(shop))
    with OperatorProcess(
        own_server.kubeconfig, lease, tmp_path / "a.log", "--lease-seconds", "6"
    ) as operator:
        operator.wait_until_leading()
        pid = own_server.status()["apiserver"].pid
        argv = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
        own_server.kill_part("apiserver")
        own_server.start_part("apiserver", argv)
        eventually(
            lambda: kubectl(["get", "--raw", "/readyz"], own_server.kubeconfig).ok, 60, "it is up again"
        )
        seen = len(operator.lines)
        eventually(
            lambda: apply(rollout(shop, team="after-the-restart"), own_server.kubeconfig).ok,
            message="it takes writes again",
        )
        operator.wait_until_woken(f"rollout/{shop}/checkout", after=seen, seconds=40)
        assert operator.process.poll() is None, f"the process ended: {operator.log}"
        operator.wait_until_leading()


def test_while_the_api_server_hangs_nobody_leads_and_afterwards_the_same_process_does(
    own_server: Instance, tmp_path: Path
) -> None:
    lease, shop = make_namespace(own_server, "lease"), make_namespace(own_server, "shop")
    create(own_server, rollout(shop))
    with OperatorProcess(
        own_server.kubeconfig, lease, tmp_path / "a.log", "--lease-seconds", "3"
    ) as operator:
        operator.wait_until_leading()
        own_server.kill_part("apiserver", signal.SIGSTOP)
        try:
            eventually(lambda: "leadership lost" in operator.log, 10, "it gives up within its renew deadline")
            assert operator.metric("gatewright_leading") == 0
            assert operator.page("/healthz")[0] == 200, "a restart would not bring the API server back"
        finally:
            own_server.kill_part("apiserver", signal.SIGCONT)
        operator.wait_until_leading(60)
        seen = len(operator.lines)
        create(own_server, rollout(shop, team="after-the-hang"))
        operator.wait_until_woken(f"rollout/{shop}/checkout", after=seen, seconds=40)


def test_a_token_that_is_replaced_interrupts_the_watches_only_until_it_is_read_again(
    own_server: Instance, tmp_path: Path
) -> None:
    lease, shop = make_namespace(own_server, "lease"), make_namespace(own_server, "shop")
    create(own_server, rollout(shop))

    def make_account() -> Path:
        kubectl(["create", "serviceaccount", "gatewright", "-n", lease], own_server.kubeconfig, check=True)
        return own_server.service_account_kubeconfig(lease, "gatewright")

    binding = f"--serviceaccount={lease}:gatewright"
    kubectl(
        ["create", "clusterrolebinding", lease, "--clusterrole=cluster-admin", binding],
        own_server.kubeconfig,
        check=True,
    )
    kubeconfig = make_account()
    with OperatorProcess(kubeconfig, lease, tmp_path / "a.log", "--lease-seconds", "3") as operator:
        operator.wait_until_leading()
        kubectl(["delete", "serviceaccount", "gatewright", "-n", lease], own_server.kubeconfig, check=True)
        eventually(lambda: "leadership lost" in operator.log, 60, "its token is worth nothing any more")
        assert make_account() == kubeconfig, "the new token is in the same file"
        eventually(lambda: operator.log.count("cache filled") == 2, 60, "it has logged in anew")
        seen = len(operator.lines)
        create(own_server, rollout(shop, team="after-the-change-of-token"))
        operator.wait_until_woken(f"rollout/{shop}/checkout", after=seen, seconds=30)
        assert operator.process.poll() is None
