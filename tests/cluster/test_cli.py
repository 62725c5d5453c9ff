"""`kubectl gate` against a real API server with the chart's policies: what it writes, what it refuses, what it answers.

No operator runs: the tests report as the operator does, under its user name, and answer reviews in its place.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gatewright_analysis.ledger import Actor, EntryKey, Ledger, NewEntry, segment_name
from gatewright_analysis.names import LEDGER_LABEL
from tests.cluster.shop import Shop, allowed, deployment, rollout
from tests.cluster.support import OPERATOR, eventually, kubectl, kubectl_program

pytestmark = pytest.mark.cluster

PLUGIN = Path(sys.executable).with_name("kubectl-gate")
DIGEST = f"sha256:{hashlib.sha256(b'evidence').hexdigest()}"
WORLD = f"sha256:{hashlib.sha256(b'world').hexdigest()}"
CANARY, STABLE, NEWER = "0a1b2c3d4e", "1111111111", "2222222222"


@dataclass(frozen=True)
class Said:
    """What the plugin printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run_plugin(who: Path, *args: str, **env: str) -> Said:
    with plugin(who, *args, **env) as process:
        out, err = process.communicate(timeout=60)
        return Said(process.returncode, out, err)


@contextmanager
def plugin(who: Path, *args: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [PLUGIN, *args],
        env={**os.environ, "KUBECONFIG": str(who), "KUBECTL": str(kubectl_program()), **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


@dataclass(frozen=True)
class Release:
    """A Rollout `checkout` whose operator is the test."""

    shop: Shop

    def gate(self, who: Path, *args: str, **env: str) -> Said:
        return run_plugin(who, *args, "-n", self.shop.namespace, **env)

    def get(self, kind: str, name: str = "checkout") -> Any:
        return self.shop.run(self.shop.admin, "get", kind, name, "-o", "json").json

    def list(self, kind: str) -> list[Any]:
        items: list[Any] = self.shop.run(self.shop.admin, "get", kind, "-o", "json").json["items"]
        return items

    def write_status(self, kind: str, name: str, status: dict[str, Any]) -> None:
        patch = json.dumps({"status": status})
        self.shop.operator("patch", kind, name, "--subresource=status", "--type=merge", "-p", patch)

    def report(self, **status: Any) -> None:
        """The Rollout's status, by the operator, up to date with both objects."""
        seen = {
            "observedGeneration": self.get("rollouts.gatewright.dev")["metadata"]["generation"],
            "observedWorkloadGeneration": self.get("deployments")["metadata"]["generation"],
        }
        self.write_status("rollouts.gatewright.dev", "checkout", {**seen, **status})

    def hold(self, **changes: Any) -> None:
        """Held at the first gate, and the policies have seen it."""
        now = datetime.now(UTC)
        self.report(
            phase="Held",
            message="Held at step 2: too few requests.",
            currentStep=1,
            attempt=1,
            observedRevision=CANARY,
            stable={
                "revision": STABLE,
                "podTemplateHash": "5d8f",
                "replicas": 3,
                "images": ["shop/checkout:v1"],
            },
            canary={"revision": CANARY, "images": ["shop/checkout:v2"]},
            weight={"desired": 50, "actual": 50},
            decisions={"contract": "checkout@1", "maxWaiver": "72h", "serviceAccounts": []},
            hold={
                "run": "run-1",
                "evidenceDigest": DIGEST,
                "worldSnapshot": WORLD,
                "step": "1",
                "initiator": "developer",
                "since": stamp(now),
                "reason": "LowTraffic",
                "message": "12 of 1038 planned requests.",
                "blocking": ["http-success"],
                "deadline": stamp(now + timedelta(hours=24)),
            }
            | changes,
        )
        uid = self.get("rollouts.gatewright.dev")["metadata"]["uid"]
        trial = {
            "apiVersion": "gatewright.dev/v1alpha1",
            "kind": "GateReview",
            "metadata": {"generateName": "trial-"},
            "spec": {
                "rollout": "checkout",
                "rolloutUID": uid,
                "run": "run-1",
                "revision": CANARY,
                "step": "1",
                "evidenceDigest": DIGEST,
                "decision": "RequestChanges",
                "reviewer": "reviewer-z",
                "groups": ["payments", "system:authenticated"],
                "reason": "only a trial",
            },
        }

        who = self.reviewer("reviewer-z")

        def known() -> bool:
            trying = self.shop.run(who, "create", "--dry-run=server", "-f", "-", manifest=trial)
            assert trying.ok, trying.err
            return True

        eventually(known, 15, "the policies know that the Rollout is held")

    def reviewer(self, name: str = "reviewer-a") -> Path:
        return self.shop.person(name, roles=("gatewright-reviewer",), groups=("payments",))


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def release(shop: Shop) -> Release:
    """The Deployment and a Rollout for it that no operator has seen yet."""
    allowed(shop.run(shop.admin, "create", "-f", "-", manifest=deployment("shop/checkout:v2")))
    allowed(shop.run(shop.admin, "create", "-f", "-", manifest=rollout()))
    return Release(shop)


def answer(release: Release, kind: str, outcome: str, message: str) -> dict[str, Any]:
    """As the operator: answer the first object of `kind`, and return it as its author wrote it."""
    [written] = eventually(lambda: release.list(kind), 20, f"one of {kind} is written")
    status = {
        "outcome": outcome,
        "reason": "Approved",
        "message": message,
        "observedAt": stamp(datetime.now(UTC)),
    }
    release.write_status(kind, written["metadata"]["name"], status)
    return dict(written["spec"])


class TestDecisions:
    """approve, reject, request-changes, abort, retry."""

    def test_an_approval_is_an_object_with_the_reviewers_name_for_exactly_what_is_held(
        self, release: Release
    ) -> None:
        release.hold()
        who = release.reviewer()
        words = (
            *("approve", "checkout", "--reason", "logs are clean", "--expires", "2h"),
            *("--through", "remaining", "--timeout", "40s", "--yes"),
        )
        with plugin(who, *words, "-n", release.shop.namespace) as process:
            spec = answer(release, "gatereviews.gatewright.dev", "Accepted", "reviewer-a approved step 1.")
            out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        assert out.splitlines()[0] == "Accepted: reviewer-a approved step 1."
        left = datetime.fromisoformat(spec.pop("expiresAt")) - datetime.now(UTC)
        assert timedelta(hours=1, minutes=55) < left < timedelta(hours=2, minutes=1)
        assert sorted(spec.pop("groups")) == ["payments", "system:authenticated"]
        assert spec == {
            "rollout": "checkout",
            "rolloutUID": release.get("rollouts.gatewright.dev")["metadata"]["uid"],
            "run": "run-1",
            "revision": CANARY,
            "step": "1",
            "evidenceDigest": DIGEST,
            "worldSnapshot": WORLD,
            "checks": ["http-success"],
            "through": "Remaining",
            "decision": "Approve",
            "reviewer": "reviewer-a",
            "reason": "logs are clean",
        }

    def test_what_the_operator_refuses_is_said_in_its_words_and_exit_code_4(self, release: Release) -> None:
        release.hold()
        who = release.reviewer()
        with plugin(
            who, "reject", "checkout", "--reason", "not like this", "--yes", "-n", release.shop.namespace
        ) as process:
            answer(release, "gatereviews.gatewright.dev", "Refused", "What is held now is run run-2.")
            _, err = process.communicate(timeout=60)
        assert process.returncode == 4
        assert "error: What is held now is run run-2." in err

    def test_without_an_operator_the_object_stands_and_the_plugin_says_so(self, release: Release) -> None:
        release.hold()
        who = release.reviewer()
        said = release.gate(
            who,
            "request-changes",
            "checkout",
            "--reason",
            "why are they 12?",
            "--yes",
            "--timeout",
            "1s",
            "-o",
            "json",
        )
        assert said.code == 1
        assert "the operator has not answered within 1s" in said.err
        [review] = release.list("gatereviews.gatewright.dev")
        assert said.json["metadata"]["uid"] == review["metadata"]["uid"]
        assert review["spec"]["decision"] == "RequestChanges"

    def test_what_is_not_held_is_not_approved(self, release: Release) -> None:
        release.report(phase="Progressing", message="Step 1.", canary={"revision": CANARY})
        said = release.gate(
            release.reviewer(),
            "approve",
            "checkout",
            "--reason",
            "seen it before",
            "--expires",
            "1h",
            "--yes",
        )
        assert (said.code, said.out) == (4, "")
        assert "error: Rollout checkout is not held now; it is Progressing." in said.err
        assert "try:   kubectl gate status checkout -n" in said.err
        assert release.list("gatereviews.gatewright.dev") == []

    def test_a_forged_name_is_refused_in_the_words_of_the_policy(
        self, release: Release, tmp_path: Path
    ) -> None:
        release.hold()
        who = release.reviewer()
        liar = tmp_path / "kubectl"
        forged = {
            "status": {"userInfo": {"username": "reviewer-b", "groups": ["payments", "system:authenticated"]}}
        }
        liar.write_text(
            f"#!/bin/sh\ncase \"$*\" in *whoami*) echo '{json.dumps(forged)}';;\n"
            f'*) exec {kubectl_program()} "$@";; esac\n'
        )
        liar.chmod(0o755)
        said = release.gate(
            who,
            "approve",
            "checkout",
            "--reason",
            "seen it before",
            "--expires",
            "1h",
            "--yes",
            KUBECTL=str(liar),
        )
        assert said.code == 4
        assert (
            "error: spec.reviewer is reviewer-b, but you are reviewer-a. Nobody signs for somebody else."
            in said.err
        )
        assert "ValidatingAdmissionPolicy" not in said.err

    def test_who_started_the_change_may_not_approve_it(self, release: Release) -> None:
        release.hold(initiator="reviewer-a")
        said = release.gate(
            release.reviewer(),
            "approve",
            "checkout",
            "--reason",
            "seen it before",
            "--expires",
            "1h",
            "--yes",
        )
        assert said.code == 4
        assert "reviewer-a started this change; somebody else has to approve it." in said.err

    def test_without_the_right_it_is_exit_code_4(self, release: Release) -> None:
        release.hold()
        viewer = release.shop.person("developer", roles=("view",))
        said = release.gate(viewer, "reject", "checkout", "--reason", "seen it before", "--yes", "-o", "json")
        assert said.code == 4
        assert said.json["error"]["name"] == "not_allowed"
        assert 'cannot create resource "gatereviews"' in said.err

    @pytest.mark.parametrize(
        ("verb", "status", "revision"),
        [
            ("abort", {"phase": "Progressing", "canary": {"revision": CANARY}}, CANARY),
            (
                "retry",
                {"phase": "RolledBack", "rejected": {"revision": NEWER, "reason": "BreachAbsolute"}},
                NEWER,
            ),
        ],
    )
    def test_an_order_is_an_object_for_one_revision(
        self, release: Release, verb: str, status: dict[str, Any], revision: str
    ) -> None:
        release.report(**status)
        words = (
            verb,
            "checkout",
            "--reason",
            "because it fails",
            "-n",
            release.shop.namespace,
            "-o",
            "json",
            "--timeout",
            "40s",
        )
        who = release.reviewer()
        with plugin(who, *words) as process:
            spec = answer(release, "gateorders.gatewright.dev", "Accepted", "Done.")
            out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        assert json.loads(out)["status"]["outcome"] == "Accepted"
        assert (spec["order"], spec["revision"], spec["orderedBy"], spec["reason"]) == (
            verb.capitalize(),
            revision,
            "reviewer-a",
            "because it fails",
        )


class TestStatus:
    """status, holds, review; and --wait."""

    def test_a_hold_is_shown_with_its_next_command_and_listed_and_reviewed(self, release: Release) -> None:
        release.hold()
        who = release.reviewer()
        shown = release.gate(who, "status", "checkout")
        assert shown.code == 0
        assert shown.out.startswith("checkout in ")
        assert f"kubectl gate review checkout -n {release.shop.namespace}" in shown.out
        listed = release.gate(who, "holds", "-o", "json").json
        assert [(each["name"], each["mayApprove"]) for each in listed] == [("checkout", True)]
        reviewed = release.gate(who, "review", "checkout")
        assert reviewed.code == 0
        assert "started by  developer" in reviewed.out
        assert f"kubectl gate approve checkout -n {release.shop.namespace} " in reviewed.out

    def test_holds_says_who_may_not(self, release: Release) -> None:
        release.hold()
        listed = release.gate(release.shop.person("developer", roles=("view",)), "holds", "-o", "json").json
        assert [each["mayApprove"] for each in listed] == [False]

    def test_holds_in_all_namespaces_contain_this_one(self, release: Release) -> None:
        release.hold()
        listed = run_plugin(release.shop.admin, "holds", "-A", "-o", "json").json
        assert release.shop.namespace in [each["namespace"] for each in listed]

    def test_json_of_a_status_carries_phase_and_age(self, release: Release) -> None:
        release.hold()
        first = release.gate(release.shop.admin, "status", "checkout", "-o", "json").json
        assert (first["phase"], first["workload"]["upToDate"], first["canary"]["revision"]) == (
            "Held",
            True,
            CANARY,
        )
        release.shop.set_image(release.shop.admin, "v3")
        second = release.gate(release.shop.admin, "status", "checkout", "-o", "json").json
        assert second["workload"]["upToDate"] is False

    def test_wait_does_not_answer_about_the_release_before(self, release: Release) -> None:
        done = {
            "phase": "Idle",
            "stable": {"revision": CANARY, "podTemplateHash": "5d8f", "replicas": 3},
            "observedRevision": CANARY,
        }
        release.report(**done)
        at_rest = release.gate(release.shop.admin, "status", "checkout", "--wait", "-o", "json")
        assert (at_rest.code, at_rest.json["outcome"]["name"]) == (0, "ok")
        release.shop.set_image(release.shop.admin, "v3")
        stale = release.gate(release.shop.admin, "status", "checkout", "--wait", "--timeout", "2s")
        assert stale.code == 124
        assert "No verdict within 2s." in stale.out

    @pytest.mark.parametrize(
        ("end", "code"),
        [
            ({"phase": "Idle", "stable": {"revision": NEWER, "podTemplateHash": "6e9a", "replicas": 3}}, 0),
            ({"phase": "RolledBack", "rejected": {"revision": NEWER, "reason": "BreachAbsolute"}}, 3),
            ({"phase": "Progressing", "canary": {"revision": CANARY}, "observedRevision": CANARY}, 5),
        ],
    )
    def test_wait_ends_with_the_verdict_on_what_the_workload_carries(
        self, release: Release, end: dict[str, Any], code: int
    ) -> None:
        under_way = {
            "phase": "Progressing",
            "message": "Step 1.",
            "stable": {"revision": STABLE, "podTemplateHash": "5d8f", "replicas": 3},
            "canary": {"revision": NEWER},
            "observedRevision": NEWER,
        }
        release.report(**under_way)
        with plugin(
            release.shop.admin, "status", "checkout", "--wait", "--watch", "-n", release.shop.namespace
        ) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert "Progressing" in first
            release.report(**end)
            out, err = process.communicate(timeout=60)
        assert process.returncode == code, (out, err)

    def test_wait_says_held_at_once(self, release: Release) -> None:
        release.hold()
        said = release.gate(release.shop.admin, "status", "checkout", "--wait")
        assert said.code == 8
        assert said.out.rstrip().endswith(f"Revision {CANARY} is held: 12 of 1038 planned requests.")

    def test_wait_for_an_image_that_is_not_there_times_out_and_says_so(self, release: Release) -> None:
        release.hold()
        said = release.gate(
            release.shop.admin,
            "status",
            "checkout",
            "--wait",
            "--image",
            "shop/checkout:v9",
            "--timeout",
            "1s",
        )
        assert said.code == 124
        assert "Waiting for the workload to carry shop/checkout:v9." in said.out

    def test_a_rollout_that_is_not_there_is_said(self, release: Release) -> None:
        said = release.gate(release.shop.admin, "status", "cart")
        assert said.code == 1
        assert said.err.startswith('error: rollouts.gatewright.dev "cart" not found.')


class TestAsAPlugin:
    """kubectl's side: discovery, flags, contexts, identities."""

    def test_kubectl_finds_it_and_hands_on_exit_codes(self, release: Release) -> None:
        release.hold()
        searched = f"{PLUGIN.parent}{os.pathsep}{kubectl_program().parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            [kubectl_program(), "gate", "status", "checkout", "--wait", "-n", release.shop.namespace],
            env={**os.environ, "PATH": searched, "KUBECONFIG": str(release.shop.admin)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 8, done.stderr
        assert done.stdout.startswith("checkout in ")

    def test_flags_of_kubectl_work_where_they_stand(self, release: Release) -> None:
        release.hold()
        namespace, admin = release.shop.namespace, str(release.shop.admin)
        nowhere = "/nowhere/kubeconfig"
        for words in (
            ["--kubeconfig", admin, "-n", namespace, "status", "checkout"],
            ["status", f"--kubeconfig={admin}", f"-n={namespace}", "checkout"],
            ["status", "checkout", f"-n{namespace}", "--kubeconfig", admin, "--request-timeout", "5s"],
        ):
            said = run_plugin(Path(nowhere), *words, "-o", "json")
            assert said.code == 0, said.err
            assert said.json["namespace"] == namespace

    def test_the_namespace_of_the_context_is_the_default(self, release: Release, tmp_path: Path) -> None:
        release.hold()
        own = tmp_path / "kubeconfig"
        own.write_bytes(release.shop.admin.read_bytes())
        allowed(kubectl(["config", "set-context", "--current", "--namespace", release.shop.namespace], own))
        assert run_plugin(own, "status", "checkout", "-o", "json").json["namespace"] == release.shop.namespace
        assert [each["name"] for each in run_plugin(own, "holds", "-o", "json").json] == ["checkout"]

    def test_as_makes_the_reviewer_the_one_who_is_impersonated(self, release: Release) -> None:
        release.hold()
        release.reviewer("reviewer-b")
        said = release.gate(
            release.shop.admin, "reject", "checkout", "--reason", "seen it before", "--yes", "--as=reviewer-b", "--as-group", "payments",
            "--timeout", "1s",
        )  # fmt: skip
        assert said.code == 1, said.err
        [review] = release.list("gatereviews.gatewright.dev")
        assert (review["spec"]["reviewer"], review["spec"]["groups"]) == (
            "reviewer-b",
            ["payments", "system:authenticated"],
        )

    def test_an_api_server_that_is_away_is_said(self, release: Release) -> None:
        said = release.gate(release.shop.admin, "status", "checkout", "--server", "https://127.0.0.1:1")
        assert said.code == 1
        assert "refused" in said.err


class TestLedger:
    """show and verify, on ConfigMaps that only the operator may write."""

    def write(self, release: Release, count: int = 3) -> dict[str, Any]:
        """A ledger of `count` entries, its head in the Rollout's status."""
        uid = release.get("rollouts.gatewright.dev")["metadata"]["uid"]
        new = [
            NewEntry(
                EntryKey(uid, CANARY, str(step), 1, "WeightSet"),
                datetime(2030, 1, 1, step, tzinfo=UTC),
                {"weight": 10 * step},
                Actor(),
            )
            for step in range(count)
        ]
        appended = Ledger().append(new)
        [write] = appended.writes
        config_map = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": segment_name("checkout", 0), "labels": {LEDGER_LABEL: "checkout"}},
            "data": write.segment.data,
        }
        release.shop.operator("create", "-f", "-", manifest=config_map)
        head = appended.ledger.head
        assert head is not None
        place = {"segment": head.segment, "sequence": head.sequence, "head": head.digest}
        release.report(phase="Idle", ledger=place)
        return place

    def test_it_is_shown_and_verified_against_the_head_in_the_status(self, release: Release) -> None:
        head = self.write(release)
        viewer = release.shop.person("developer", roles=("view",))
        shown = release.gate(viewer, "ledger", "show", "checkout", "-o", "json").json
        assert [entry["body"] for entry in shown] == [{"weight": 0}, {"weight": 10}, {"weight": 20}]
        said = release.gate(viewer, "ledger", "verify", "checkout")
        assert said.code == 0, said.err
        assert head["head"] in said.out
        assert "The head in the Rollout's status, entry 2, is in it." in said.out

    def test_a_cut_end_is_found_by_the_head_in_the_status(self, release: Release) -> None:
        self.write(release)
        cut = json.dumps([{"op": "remove", "path": "/data/00000002"}])
        release.shop.operator("patch", "configmap", "checkout-ledger-0000", "--type=json", "-p", cut)
        said = release.gate(release.shop.admin, "ledger", "verify", "checkout", "-o", "json")
        assert said.code == 1
        assert said.json["ok"] is False
        assert "entry 2 was seen before and is gone: the end was cut off" in said.err

    def test_it_outlives_its_rollout(self, release: Release) -> None:
        self.write(release)
        allowed(release.shop.run(release.shop.admin, "delete", "rollouts.gatewright.dev", "checkout"))
        said = release.gate(release.shop.admin, "ledger", "verify", "checkout", "-o", "json")
        assert (said.code, said.json["ok"], said.json["statusHead"]) == (0, True, None)

    def test_an_export_is_verified_without_a_cluster(self, release: Release, tmp_path: Path) -> None:
        self.write(release)
        for form in ("json", "yaml"):
            listed = release.shop.run(release.shop.admin, "get", "configmaps", "-l", LEDGER_LABEL, "-o", form)
            file = tmp_path / f"ledger.{form}"
            file.write_text(listed.out)
            done = subprocess.run(
                [PLUGIN.with_name("gatewright"), "ledger", "verify", "--file", file],
                env={"PATH": ""},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, "")

    def test_a_name_without_rollout_and_ledger_is_not_found(self, release: Release) -> None:
        said = release.gate(release.shop.admin, "ledger", "verify", "cart")
        assert said.code == 1
        assert 'rollouts.gatewright.dev "cart" not found.' in said.err


def test_the_tests_report_under_the_operators_name(release: Release) -> None:
    """Otherwise the policies would have refused the reports, and none of the above would mean anything."""
    refusal = release.shop.run(
        release.shop.admin, "patch", "rollouts.gatewright.dev", "checkout", "--subresource=status", "--type=merge",
        "-p", '{"status": {"phase": "Idle"}}',
    )  # fmt: skip
    assert not refusal.ok
    assert "only the operator writes it" in refusal.err
    assert OPERATOR.endswith(":gatewright")
