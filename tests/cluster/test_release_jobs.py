"""Releases whose check is a Job: it is started once for each gate, and its word is taken only where it is its own."""

from pathlib import Path
from typing import Any

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.operators import OperatorKeeper
from tests.cluster.releases import Release, contract
from tests.cluster.support import Manifest, eventually

pytestmark = pytest.mark.timeout(300)

GATE: Manifest = {"warmup": "1s", "duration": "2s", "maxDuration": "30s", "window": "1s", "interval": "1s"}
SHORT: Manifest = {**GATE, "maxDuration": "6s"}
"""For what never comes."""
TOLD = " && ".join(
    f'test "$GATEWRIGHT_{name}" = {value}'
    for name, value in {
        "ROLLOUT": "checkout",
        "STEP": "1",
        "WEIGHT": "50",
        "CANARY_SERVICE": "checkout-canary",
        "STABLE_SERVICE": "checkout",
    }.items()
)


def reports(good: int, bad: int) -> str:
    """A script that writes its counts, here and in a real cluster."""
    counts = f'{{"good": {good}, "bad": {bad}}}'
    return f"echo '{counts}' > \"${{DEVCLUSTER_TERMINATION_LOG:-/dev/termination-log}}\""


def cron_job(name: str, script: str, **pod: Any) -> Manifest:
    """Suspended, as one that only serves as a template; its schedule is a day that never comes."""
    container = {"name": "test", "image": "tools/shell:1", "command": ["sh", "-c", script]}
    spec = {"restartPolicy": "Never", "containers": [container], **pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {
            "schedule": "0 0 31 2 *",
            "suspend": True,
            "jobTemplate": {"spec": {"backoffLimit": 0, "template": {"spec": spec}}},
        },
    }


def job_check(name: str, report: str = "ExitCode") -> Manifest:
    """A check on the CronJob of the same name."""
    limit = {"limit": {"maxBadRatio": 0.05}} if report == "Counts" else {}
    evidence = [{"stages": ["Canary"], "job": {"cronJob": name, "report": report}}]
    return {"id": name, "oracleKind": "Deterministic", "evidence": evidence, **limit}


def release(
    cluster: Instance, namespace: str, *checks: Manifest, jobs: list[Manifest], gate: Manifest = GATE
) -> Release:
    """A Rollout whose checks are Jobs; no request is needed."""
    steps: list[Manifest] = [{"setWeight": 50}, {"gate": gate}]
    shop = Release.create(
        cluster, namespace, steps=steps, replicas=1, contract_spec=contract(list(checks)), gated=False
    )
    shop.apply(*jobs)
    shop.phase("Idle")
    return shop


def results(shop: Release) -> dict[str, Any]:
    """The checks of the one verdict, by id."""
    [entry] = shop.entries("Verdict")
    return {c["id"]: c for c in entry["body"]["verdict"]["checks"]}


def test_a_job_that_exits_otherwise_or_reports_bad_counts_rolls_back(
    cluster: Instance, operator: Operator, namespace: str, another_namespace: str
) -> None:
    exits = release(cluster, namespace, job_check("smoke"), jobs=[cron_job("smoke", "exit 1")])
    bad = release(
        cluster, another_namespace, job_check("load", "Counts"), jobs=[cron_job("load", reports(900, 100))]
    )
    exits.release(VERSION="v2")
    bad.release(VERSION="v2")
    assert exits.phase("RolledBack")["rejected"]["reason"] == "JobFailed"
    assert bad.phase("RolledBack")["rejected"]["reason"] == "BreachAbsolute"
    assert results(exits)["smoke"]["statistics"]["exitCode"] == 1
    assert results(bad)["load"]["message"] == (
        f"The limit is broken, as shown by the Job {bad.all('jobs')[0]['metadata']['name']}: "
        "10 % of 1,000 were bad (5 % allowed)."
    )
    exits.clean_at_rest()


def test_a_missing_cron_job_no_room_for_the_pod_and_an_unreadable_report_hold(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    nowhere = {"nodeSelector": {"disk": "of-another-kind"}}
    mute = 'echo all good > "$DEVCLUSTER_TERMINATION_LOG"'
    shop = release(
        cluster, namespace, job_check("absent"), job_check("stuck"), job_check("mute", "Counts"),
        jobs=[cron_job("stuck", "exit 1", **nowhere), cron_job("mute", mute)], gate=SHORT,
    )  # fmt: skip
    shop.release(VERSION="v2")
    status = shop.phase("Held")
    assert shop.weights() == (50, 50)
    found = results(shop)
    assert {id_: (c["status"], c["reason"]) for id_, c in found.items()} == {
        "absent": ("inconclusive", "JobTrouble"),
        "stuck": ("inconclusive", "PodsUnschedulable"),
        "mute": ("inconclusive", "NoData"),
    }
    assert f"CronJob absent does not exist in {namespace}: create it" in found["absent"]["message"]
    assert status["phase"] == "Held"


def test_jobs_that_pass_promote_and_an_operator_that_is_killed_while_one_runs_starts_no_second_one(
    cluster: Instance, operators: OperatorKeeper, namespace: str, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    smoke = cron_job("smoke", f"{TOLD} && until [ -e {go} ]; do sleep 0.1; done")
    load = cron_job("load", reports(980, 20))
    checks = [job_check("smoke"), job_check("load", "Counts")]
    shop = release(cluster, namespace, *checks, jobs=[smoke, load], gate={**GATE, "maxDuration": "2m"})
    shop.release(VERSION="v2")

    def running() -> bool:
        pods = {
            p["metadata"]["labels"]["job-name"]: p["status"].get("phase")
            for p in shop.all("pods", "job-name")
        }
        return sorted(pods.values()) == ["Running", "Succeeded"]

    eventually(running, 60, "one Job's pod runs, and the other's has ended")
    before = {j["metadata"]["name"]: j["metadata"]["uid"] for j in shop.all("jobs")}
    operators.kill()
    operators.ensure()
    go.touch()
    shop.promoted("v2")
    assert {j["metadata"]["name"]: j["metadata"]["uid"] for j in shop.all("jobs")} == before
    [run] = shop.all("gateruns")
    assert before.keys() == {f"{run['metadata']['name']}-{name}" for name in ("smoke", "load")}
    for job in shop.all("jobs"):
        assert [owner["uid"] for owner in job["metadata"]["ownerReferences"]] == [run["metadata"]["uid"]]
        assert job["metadata"]["labels"]["gatewright.dev/rollout"] == "checkout"
    found = results(shop)
    assert {id_: c["status"] for id_, c in found.items()} == {"smoke": "pass", "load": "pass"}
    assert (found["load"]["samples"], found["load"]["score"]) == (1000, 0.98)
    shop.verify_ledger()
    deleted = shop.kubectl("delete", "gaterun", run["metadata"]["name"])
    assert deleted.ok, deleted.err
    eventually(lambda: not shop.all("jobs"), 30, "the Jobs go with their GateRun")
