"""Releases whose checks read result files, pushed by `gatewright evidence push` as a pipeline pushes them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.metric_sources import result_files
from tests.cluster.releases import GOOD, Release, contract
from tests.cluster.support import Manifest, eventually, kubectl, kubectl_program, rest

pytestmark = pytest.mark.timeout(300)

FILES = Path(__file__).resolve().parents[1] / "fixtures" / "results"
PUSHER = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get"]}]
SOURCE = "results"
GATE = {"warmup": "0s", "duration": "3s", "maxDuration": "4s", "window": "2s", "interval": "1s"}
"""As short as a gate of files can be: nothing is scraped."""
PATIENT = {**GATE, "maxDuration": "90s"}
MODEL = "answers-2026-03"


def check(suite: str, kind: str = "samples", **fields: Any) -> Manifest:
    """A check that 60 flawless items prove."""
    given = {
        "id": suite,
        "oracleKind": "Sampled",
        "limit": {"minGoodRatio": 0.9},
        "minSamples": 40,
        "plannedSamples": 60,
        "evidence": [{"stages": ["Canary"], kind: {"source": SOURCE, "suite": suite}}],
    }
    return {key: value for key, value in (given | fields).items() if value is not None}


def judged_file(folder: Path, name: str, items: Iterable[dict[str, Any]], judge: str = "judge-x 3") -> Path:
    """JSON lines of our own form, all by one judge."""
    id_, version = judge.split()
    lines = [{"item_id": n, "judge": {"id": id_, "version": version}, **item} for n, item in enumerate(items)]
    path = folder / name
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def passing(good: int = 60, bad: int = 0) -> list[dict[str, Any]]:
    return [{"pass": True}] * good + [{"pass": False}] * bad


def promptfoo_file(folder: Path, count: int = 60) -> Path:
    """A committed file of promptfoo, with its first item as often as a proof needs, each time with other variables."""
    document = json.loads((FILES / "promptfoo" / "simple.json").read_text())
    body = document["results"]
    first = body["results"][0]
    body["results"] = [
        {**first, "id": f"{n}", "testIdx": n, "vars": {"question": f"refund {n}"}} for n in range(count)
    ]
    body["stats"] |= {"successes": count, "failures": 0, "errors": 0}
    body["prompts"][0]["metrics"] |= {"testPassCount": count, "testFailCount": 0, "testErrorCount": 0}
    path = folder / "promptfoo.json"
    path.write_text(json.dumps(document))
    return path


def inspect_file(folder: Path, count: int = 60) -> Path:
    """A committed log of Inspect with its first sample as often, each time as another item."""
    log = json.loads((FILES / "inspect" / "graded.json").read_text())
    first, ids = log["samples"][0], [f"refund-{n}" for n in range(count)]
    log["samples"] = [{**first, "id": id_} for id_ in ids]
    log["reductions"] = None
    log["eval"]["dataset"] |= {"samples": count, "sample_ids": ids}
    log["results"] |= {"total_samples": count, "completed_samples": count}
    [score] = log["results"]["scores"]
    score |= {"scored_samples": count, "unscored_samples": 0}
    score["metrics"]["accuracy"]["value"] = 1.0
    path = folder / "inspect.json"
    path.write_text(json.dumps(log))
    return path


def image_of(shop: Release) -> str:
    """What the node says that runs there, as somebody who evaluates it would name it."""
    (status,) = shop.pods()[0]["status"]["containerStatuses"]
    return str(status["imageID"]).removeprefix("docker-pullable://")


def push(who: Path, shop: Release, file: Path, suite: str, *more: str, image: str | None = None) -> str:
    """What the command said; a refusal fails the test."""
    command = "import sys; from gatewright_cli.main import gatewright; sys.exit(gatewright())"
    words = ["evidence", "push", str(file), "--suite", suite, "-n", shop.namespace]
    run = subprocess.run(
        [sys.executable, "-c", command, *words, "--image", image or image_of(shop), *more],
        env=os.environ | {"KUBECONFIG": str(who), "KUBECTL": str(kubectl_program())},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def create(cluster: Instance, namespace: str, checks: list[Manifest], gate: Manifest) -> Release:
    return Release.create(
        cluster,
        namespace,
        steps=[{"setWeight": 50}, {"gate": gate}],
        contract_spec=contract(checks),
        replicas=1,
        traffic={"replicas": {}},
    )


def results(shop: Release) -> dict[str, Any]:
    """By id: what the checks of the last verdict came to."""
    return {one["id"]: one for one in shop.entries("Verdict")[-1]["body"]["verdict"]["checks"]}


def declare_model(shop: Release) -> None:
    """A new template that says which model it asks."""
    template = {
        "metadata": {"annotations": {"world.gatewright.dev/model": MODEL}},
        "spec": {"containers": [{"name": "app", "env": [{"name": "VERSION", "value": "v2"}]}]},
    }
    patch = json.dumps({"spec": {"template": template}})
    answer = shop.kubectl("patch", "deployment", "checkout", "-p", patch, who=shop.developer)
    assert answer.ok, answer.err


def test_files_pushed_before_and_during_a_gate_decide_it(
    cluster: Instance,
    operator: Operator,
    namespace: str,
    another_namespace: str,
    as_user: Callable[..., Path],
    tmp_path: Path,
) -> None:
    pipeline = as_user("pipeline", rules=PUSHER)
    checks = [
        check("faithfulness"),
        check("grades", "scores", limit={"minGoodRatio": 0.8}),
        check("better", "paired", limit=None),
        check("by-promptfoo"),
        check("by-inspect"),
        check("repeats", require="Advisory"),
    ]
    with result_files(cluster, SOURCE):
        early = create(cluster, namespace, checks, GATE)
        late = create(cluster, another_namespace, [check("faithfulness")], PATIENT)
        late.release(**GOOD)
        answers = judged_file(tmp_path, "answers.jsonl", passing())
        scores = judged_file(tmp_path, "scores.jsonl", [{"score": 0.95}] * 60)
        new = judged_file(tmp_path, "new.jsonl", passing(55, 5))
        old = judged_file(tmp_path, "old.jsonl", [{"pass": n >= 50} for n in range(60)])
        world = ("--world", f"model={MODEL}")
        push(pipeline, early, answers, "faithfulness", *world)
        push(pipeline, early, scores, "grades", *world)
        push(pipeline, early, new, "better", "--paired-with", str(old), *world)
        push(pipeline, early, promptfoo_file(tmp_path), "by-promptfoo", *world)
        push(pipeline, early, inspect_file(tmp_path), "by-inspect", *world)
        push(pipeline, early, FILES / "promptfoo" / "simple.json", "repeats", *world)
        declare_model(early)
        late.phase("Progressing", step=1)
        eventually(lambda: late.all("gateruns"), 60, "the gate is judged")
        push(cluster.kubeconfig, late, answers, "faithfulness")
        early.promoted("v2")
        late.promoted("v2")
        shown = kubectl(["get", "metricsources", SOURCE], cluster.kubeconfig).out
        source = rest(cluster.kubeconfig, "GET", f"/apis/gatewright.dev/v1alpha1/metricsources/{SOURCE}")
    found = results(early)
    assert {id_: (one["status"], one["samples"]) for id_, one in found.items()} == {
        "faithfulness": ("pass", 60),
        "grades": ("pass", 60),
        # Only what differs is a sample of this one.
        "better": ("pass", 55),
        "by-promptfoo": ("pass", 60),
        "by-inspect": ("pass", 60),
        # Nine verdicts on three items.
        "repeats": ("inconclusive", 9),
    }
    assert found["repeats"]["reason"] == "TooFewClusters"
    assert found["faithfulness"]["message"].endswith("; judged by judge-x 3, an uncalibrated judge.")
    assert found["faithfulness"]["producer"] == "Judge"
    [run] = early.all("gateruns")
    assert run["spec"]["world"] == {"model": MODEL}
    assert results(late)["faithfulness"]["samples"] == 60
    early.verify_ledger()
    [ready] = source["status"]["conditions"]
    assert (ready["status"], ready["reason"]) == ("True", "SourceAnswers")
    assert "the namespace of each Rollout" in ready["message"]
    assert "Judge" in shown and "True" in shown


def test_files_that_speak_of_something_else_or_are_of_two_judges_hold(
    cluster: Instance,
    operator: Operator,
    namespace: str,
    another_namespace: str,
    as_user: Callable[..., Path],
    tmp_path: Path,
) -> None:
    pipeline = as_user("pipeline", rules=PUSHER)
    other = f"shop/checkout@sha256:{'e' * 64}"
    with result_files(cluster, SOURCE):
        blind = create(cluster, namespace, [check("absent"), check("elsewhere")], GATE)
        drifted = create(cluster, another_namespace, [check("faithfulness")], PATIENT)
        answers = judged_file(tmp_path, "answers.jsonl", passing())
        push(pipeline, blind, answers, "elsewhere", image=other)
        push(pipeline, blind, answers, "elsewhere", "--world", "model=another")
        label = {"gatewright.dev/evidence-suite": "elsewhere"}
        blind.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "foreign", "labels": label}}
        )
        again = judged_file(tmp_path, "again.jsonl", passing(61), judge="judge-x 4")
        push(cluster.kubeconfig, drifted, answers, "faithfulness")
        push(cluster.kubeconfig, drifted, again, "faithfulness")
        blind.release(**GOOD)
        drifted.release(**GOOD)
        held = blind.phase("Held")["hold"]
        moved = drifted.phase("Held")["hold"]
        image = image_of(blind)
    assert held["reason"] == "NoResultFile", held
    found = results(blind)
    absent, elsewhere = found["absent"]["message"], found["elsewhere"]["message"]
    assert "no result file of the suite absent was pushed for this version" in absent
    digest = image.partition("@")[2]
    command = f"gatewright evidence push FILE --suite absent --image shop/checkout:v1@{digest} -n {namespace}"
    assert f"`{command}`" in absent
    assert f"1 file of the suite elsewhere speaks of another image: sha256:{'e' * 12}…" in elsewhere
    assert "1 file of the suite elsewhere speaks of another world: model=another" in elsewhere
    assert "ConfigMap foreign can't be used" in elsewhere
    assert found["elsewhere"]["samples"] == 0
    assert moved["reason"] == "WorldDrifted", moved
    message = results(drifted)["faithfulness"]["message"]
    assert "judge-x 3" in message and "judge-x 4" in message
