"""`kubectl gate explain`, `history`, `can-i`, `ledger export` and completion, by people with rights of their own, on a real
API server; logins by exec plugin and other contexts.

No operator runs: the tests report as the operator does, under its user name.
"""

import base64
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from gatewright_analysis.ledger import Actor, EntryKey, Ledger, NewEntry, segment_name
from gatewright_analysis.names import LEDGER_LABEL
from tests.cluster.shop import Shop, allowed, deployment, rollout
from tests.cluster.support import eventually, kubectl_program
from tests.cluster.test_cli import CANARY, DIGEST, Release, run_plugin

pytestmark = pytest.mark.cluster

IMAGE = f"registry.example/shop/checkout@sha256:{'ab' * 32}"
CONTRACT: dict[str, Any] = {
    "apiVersion": "gatewright.dev/v1alpha1",
    "kind": "GateContract",
    "metadata": {"name": "checkout"},
    "spec": {
        "checks": [
            {
                "id": "http-success",
                "title": "Checkout answers without 5xx",
                "oracleKind": "Deterministic",
                "limit": {"maxBadRatio": 0.01},
                "evidence": [
                    {
                        "stages": ["Canary"],
                        "counts": {
                            "source": "prometheus",
                            "bad": ['http_requests_total{code=~"5.."}'],
                            "total": ["http_requests_total"],
                        },
                    }
                ],
            }
        ]
    },
}


@pytest.fixture
def release(shop: Shop) -> Release:
    """The Deployment, a Rollout for it that no operator has seen yet, and its contract."""
    for body in (deployment("shop/checkout:v2"), rollout(), CONTRACT):
        allowed(shop.run(shop.admin, "create", "-f", "-", manifest=body))
    return Release(shop)


@pytest.fixture
def hold(release: Release) -> Release:
    """Held, as far as the plugin reads it; the policies need not have seen it."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    release.report(
        phase="Held",
        message="Held at step 2: too few requests.",
        currentStep=1,
        attempt=1,
        observedRevision=CANARY,
        canary={"revision": CANARY, "images": ["shop/checkout:v2"]},
        hold={
            "run": "run-1",
            "evidenceDigest": DIGEST,
            "worldSnapshot": DIGEST,
            "step": "1",
            "initiator": "reviewer-b",
            "since": now,
            "reason": "LowTraffic",
            "message": "12 of 1038 planned requests.",
            "blocking": ["http-success"],
            "deadline": "2099-01-01T00:00:00Z",
        },
    )
    return release


def write_ledger(release: Release) -> None:
    """One attempt that a person let go on, as the operator writes it."""
    uid = release.get("rollouts.gatewright.dev")["metadata"]["uid"]
    verdict = {
        "decision": "PROMOTE",
        "runId": "run-1",
        "stage": "Canary",
        "step": "1",
        "attempt": 1,
        "startedAt": "2030-01-01T00:00:00Z",
        "finishedAt": "2030-01-01T00:10:00Z",
        "target": f"{release.shop.namespace}/checkout",
        "change": {
            "revision": CANARY,
            "images": [f"app={IMAGE}"],
            "contractVersion": "checkout@1",
            "contractDigest": DIGEST,
            "worldSnapshot": DIGEST,
        },
        "checks": [
            {
                "id": "http-success",
                "oracleKind": "Deterministic",
                "require": "Pass",
                "status": "pass",
                "reason": "Passed",
            }
        ],
        "evidenceDigest": DIGEST,
        "reason": "AllPassed",
        "message": "All checks passed.",
    }
    person = Actor("user", "reviewer-a")
    bodies: list[tuple[str, str, dict[str, Any], Actor]] = [
        ("Started", "", {"canary": {"images": [IMAGE], "initiator": "developer"}}, Actor()),
        ("Review", "1", {"spec": {"decision": "RequestChanges", "reason": "why are they 12?"}}, person),
        ("Verdict", "1", {"verdict": verdict}, Actor()),
        ("Completed", "bake", {"message": "It is stable."}, Actor()),
    ]
    new = [
        NewEntry(EntryKey(uid, CANARY, step, 1, kind), datetime(2030, 1, 1, n, tzinfo=UTC), body, actor)
        for n, (kind, step, body, actor) in enumerate(bodies)
    ]
    [write] = Ledger().append(new).writes
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": segment_name("checkout", 0), "labels": {LEDGER_LABEL: "checkout"}},
        "data": write.segment.data,
    }
    release.shop.operator("create", "-f", "-", manifest=config_map)


class TestWhatIsRead:
    """explain, history, export: whoever may look sees it."""

    def test_a_viewer_is_told_what_a_check_means(self, hold: Release) -> None:
        viewer = hold.shop.person("viewer", roles=("view",))
        said = hold.gate(viewer, "explain", "checkout/http-success")
        assert (said.code, said.err) == (0, "")
        assert "asks for     at most 1 % bad, so at least 99 % good" in said.out
        assert "on a breach  Rollback: all traffic goes back to stable" in said.out
        assert "It has not judged anything yet." in said.out
        missing = hold.gate(viewer, "explain", "checkout/cart", "-o", "yaml")
        assert missing.code == 1
        assert yaml.safe_load(missing.out)["error"]["sentence"].endswith(
            "has no check cart; it has http-success."
        )

    def test_the_history_names_who_decided_and_outlives_the_rollout(self, release: Release) -> None:
        write_ledger(release)
        viewer = release.shop.person("viewer", roles=("view",))
        told = release.gate(viewer, "history", "checkout").out
        assert f"{CANARY}  attempt 1  {IMAGE[:49]}…, started by developer 2030-01-01 00:00:00Z" in told
        assert "RequestChanges  by reviewer-a: why are they 12?" in told
        assert "completed after 3h" in told
        allowed(release.shop.run(release.shop.admin, "delete", "rollouts.gatewright.dev", "checkout"))
        [attempt] = release.gate(viewer, "history", "checkout", "-o", "json").json
        assert (attempt["revision"], attempt["end"]["kind"]) == (CANARY, "Completed")

    def test_an_export_is_about_the_image_s_digest(self, release: Release) -> None:
        write_ledger(release)
        viewer = release.shop.person("viewer", roles=("view",))
        said = release.gate(viewer, "ledger", "export", "checkout", "-o", "in-toto")
        assert said.code == 0, said.err
        statements = [json.loads(line) for line in said.out.splitlines()]
        assert [one["predicateType"].split("/")[-2] for one in statements] == ["test-result", "svr"]
        assert all(one["subject"][0]["digest"] == {"sha256": "ab" * 32} for one in statements)
        assert statements[0]["predicate"]["result"] == "PASSED"


class TestRights:
    """can-i: what RBAC gives, and what it is good for now."""

    def test_each_person_is_told_their_own(self, hold: Release) -> None:
        shop = hold.shop
        people = {
            "reviewer-a": (shop.person("reviewer-a", roles=("gatewright-reviewer",)), [True, True, False]),
            "reviewer-b": (shop.person("reviewer-b", roles=("gatewright-reviewer",)), [False, True, False]),
            "viewer": (shop.person("viewer", roles=("view",)), [False, False, False]),
        }
        for name, (who, now) in people.items():
            told = hold.gate(who, "can-i", "checkout", "-o", "json").json
            assert told["user"] == name
            assert [right["now"] for right in told["rights"]] == now, told

    def test_one_s_own_change_is_a_no_with_exit_code_4(self, hold: Release) -> None:
        said = hold.gate(hold.reviewer("reviewer-b"), "can-i", "approve", "checkout")
        assert said.code == 4
        assert "You started this change; somebody else has to approve it." in said.err

    def test_a_right_on_one_rollout_is_none_on_another(self, hold: Release) -> None:
        narrow = [
            {"apiGroups": ["gatewright.dev"], "resources": ["rollouts"], "verbs": ["get", "list"]},
            {
                "apiGroups": ["gatewright.dev"],
                "resources": ["rollouts"],
                "resourceNames": ["cart"],
                "verbs": ["approve"],
            },
        ]
        who = hold.shop.person("reviewer-c", rules=narrow)
        said = hold.gate(who, "can-i", "approve", "checkout")
        assert said.code == 4
        assert "You lack the verb approve on rollouts.gatewright.dev/checkout" in said.err

    def test_what_is_not_held_can_t_be_approved(self, release: Release) -> None:
        release.report(phase="Progressing", canary={"revision": CANARY})
        said = release.gate(release.reviewer(), "can-i", "approve", "checkout")
        assert said.code == 4
        assert "Nothing is held now; checkout is Progressing." in said.err


def exec_kubeconfig(person: Path, namespace: str, folder: Path) -> Path:
    """The kubeconfig of a person who logs in by an exec plugin, beside a context that leads nowhere."""
    config = yaml.safe_load(person.read_text())
    user, cluster = config["users"][0]["user"], config["clusters"][0]["cluster"]

    def pem(key: str) -> str:
        data = user.get(f"{key}-data")
        return base64.b64decode(data).decode() if data else Path(user[key]).read_text()

    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"clientCertificateData": pem("client-certificate"), "clientKeyData": pem("client-key")},
    }
    (folder / "credential.json").write_text(json.dumps(credential))
    login = folder / "login"
    login.write_text(f"#!/bin/sh\necho called >> {folder}/calls\ncat {folder}/credential.json\n")
    login.chmod(0o755)
    by_exec = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(login),
        "interactiveMode": "Never",
    }
    file = folder / "kubeconfig"
    file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "nowhere",
                "clusters": [
                    {"name": "real", "cluster": cluster},
                    {"name": "nowhere", "cluster": {"server": "https://127.0.0.1:1"}},
                ],
                "users": [{"name": "by-exec", "user": {"exec": by_exec}}, {"name": "nobody", "user": {}}],
                "contexts": [
                    {
                        "name": "real",
                        "context": {"cluster": "real", "user": "by-exec", "namespace": namespace},
                    },
                    {"name": "nowhere", "context": {"cluster": "nowhere", "user": "nobody"}},
                ],
            }
        )
    )
    return file


class TestLogins:
    """kubectl speaks for us: whatever logs it in logs us in."""

    def test_an_exec_plugin_logs_in_and_a_second_context_is_chosen_by_its_flag(
        self, hold: Release, tmp_path: Path
    ) -> None:
        own = exec_kubeconfig(hold.reviewer(), hold.shop.namespace, tmp_path)
        assert run_plugin(own, "status", "checkout").code == 1, "the current context leads nowhere"
        said = run_plugin(own, "can-i", "checkout", "--context", "real", "-o", "json")
        assert said.code == 0, said.err
        assert (said.json["user"], said.json["namespace"]) == ("reviewer-a", hold.shop.namespace)
        assert (tmp_path / "calls").read_text().splitlines() != []

    def test_commands_that_are_proposed_carry_the_context(self, hold: Release, tmp_path: Path) -> None:
        own = exec_kubeconfig(hold.reviewer(), hold.shop.namespace, tmp_path)
        shown = run_plugin(own, "status", "checkout", "--context=real")
        assert f"kubectl gate review checkout -n {hold.shop.namespace} --context=real" in shown.out

    def test_colours_are_for_terminals(self, hold: Release) -> None:
        assert "\x1b" not in hold.gate(hold.shop.admin, "status", "checkout").out


UNDO_PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "undo-a-release.md"


def test_the_error_of_a_refused_undo_is_in_the_pages_and_in_the_help_of_abort(gated: Shop) -> None:
    def replica_sets(count: int) -> bool:
        return len(gated.run(gated.admin, "get", "replicasets", "-o", "json").json["items"]) == count

    eventually(lambda: replica_sets(1), 60, "the first ReplicaSet is there")
    gated.operator("set", "image", "deployment/checkout", "app=shop/checkout:v2")
    eventually(lambda: replica_sets(2), 60, "the second ReplicaSet is there")
    gated.hold()
    undone = gated.run(gated.developer(), "rollout", "undo", "deployment/checkout")
    assert not undone.ok
    assert undone.err.strip().splitlines()[-1] in UNDO_PAGE.read_text(), undone.err
    told = run_plugin(gated.admin, "abort", "--help").out
    assert "kubectl rollout undo" in told


class TestCompletion:
    """What kubectl's own completion answers with both programs on the PATH."""

    def complete(self, release: Release, folder: Path, *words: str) -> list[str]:
        for name, module in (
            ("kubectl-gate", "gatewright_cli"),
            ("kubectl_complete-gate", "gatewright_cli.complete"),
        ):
            program = folder / name
            program.write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
            program.chmod(0o755)
        done = subprocess.run(
            [kubectl_program(), "__complete", "gate", *words],
            env={
                **os.environ,
                "PATH": f"{folder}{os.pathsep}{kubectl_program().parent}{os.pathsep}{os.environ['PATH']}",
                "KUBECONFIG": str(release.shop.admin),
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout.splitlines()

    def test_kubectl_completes_verbs_rollouts_and_checks(self, hold: Release, tmp_path: Path) -> None:
        other = rollout("basket")
        other["spec"]["workloadRef"]["name"] = "basket"
        allowed(hold.shop.run(hold.shop.admin, "create", "-f", "-", manifest=other))
        namespace = hold.shop.namespace
        verbs = self.complete(hold, tmp_path, "re")
        assert [line.split("\t")[0] for line in verbs[:-1]][:2] == ["review", "reject"]
        names = self.complete(hold, tmp_path, "approve", "-n", namespace, "")
        assert [line.split("\t")[0] for line in names] == ["checkout", "basket", ":36"]
        assert "LowTraffic" in names[0]
        checks = self.complete(hold, tmp_path, "explain", "-n", namespace, "checkout/")
        assert checks[0] == "checkout/http-success\tCheckout answers without 5xx"
