"""`gatewright evidence push` against a real API server, by somebody with the rights it asks for and by others."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devcluster import Instance
from gatewright_analysis.results import RecordKind, unpack
from tests.cluster.support import kubectl, kubectl_program

pytestmark = pytest.mark.cluster

GATEWRIGHT = [
    sys.executable,
    "-c",
    "import sys; from gatewright_cli.main import gatewright; sys.exit(gatewright())",
]
FILES = Path(__file__).resolve().parents[1] / "fixtures" / "results"
IMAGE = f"sha256:{'a' * 64}"
PUSHER = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get"]}]
SIMPLE = ("promptfoo/simple.json", "--suite", "refunds")
LOG = ("inspect/refunds.eval", "--suite", "rubric", "--scorer", "rubric", "--kind", "scores")


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


def push(who: Path, namespace: str, file: str, *more: str) -> Said:
    run = subprocess.run(
        [
            *GATEWRIGHT,
            "evidence",
            "push",
            str(FILES / file),
            *more,
            "--image",
            f"shop/checkout@{IMAGE}",
            "-n",
            namespace,
        ],
        env=os.environ | {"KUBECONFIG": str(who), "KUBECTL": str(kubectl_program())},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Said(run.returncode, run.stdout, run.stderr)


def pushed(cluster: Instance, namespace: str, suite: str) -> list[Any]:
    selector = f"gatewright.dev/evidence-suite={suite}"
    items: list[Any] = kubectl(
        ["get", "configmaps", "-n", namespace, "-l", selector, "-o", "json"], cluster.kubeconfig
    ).json["items"]
    return items


@pytest.mark.parametrize(
    ("line", "suite", "kind", "scored"),
    [(SIMPLE, "refunds", RecordKind.SAMPLES, 9), (LOG, "rubric", RecordKind.SCORES, 8)],
    ids=["promptfoo", "inspect"],
)
def test_a_result_file_is_pushed_once_however_often(
    cluster: Instance,
    namespace: str,
    as_user: Callable[..., Path],
    line: tuple[str, ...],
    suite: str,
    kind: RecordKind,
    scored: int,
) -> None:
    pipeline = as_user("pipeline", rules=PUSHER)
    first, second = push(pipeline, namespace, *line), push(pipeline, namespace, *line)
    assert first.code == 0, first.err
    assert second.code == 0, second.err
    (found,) = pushed(cluster, namespace, suite)
    name = found["metadata"]["name"]
    assert f"pushed as ConfigMap {name} in {namespace}" in first.out
    assert f"already there: ConfigMap {name} in {namespace}" in second.out
    digest = found["metadata"]["annotations"]["gatewright.dev/evidence-digest"]
    assert name == f"evidence-{suite}-{digest[7:19]}"
    assert found["immutable"] is True
    record = unpack(found["binaryData"]["record.json.gz"], digest)
    assert (record.kind, record.scored, record.subject.images) == (kind, scored, (IMAGE,))


def test_what_was_pushed_can_not_be_changed_even_by_an_administrator(
    cluster: Instance, namespace: str, as_user: Callable[..., Path]
) -> None:
    assert push(as_user("pipeline", rules=PUSHER), namespace, *SIMPLE).code == 0
    (found,) = pushed(cluster, namespace, "refunds")
    found["binaryData"] = {"record.json.gz": "aGVsbG8="}
    answer = kubectl(["replace", "-f", "-"], cluster.kubeconfig, manifest=found)
    assert not answer.ok and "immutable" in answer.err


def test_without_the_right_to_create_nothing_is_pushed(
    cluster: Instance, namespace: str, as_user: Callable[..., Path]
) -> None:
    reader = as_user("reader", rules=[PUSHER[0] | {"verbs": ["get"]}])
    said = push(reader, namespace, *SIMPLE)
    assert said.code == 4
    assert 'User "reader" cannot create resource "configmaps"' in said.err
    assert pushed(cluster, namespace, "refunds") == []


def test_the_right_is_that_of_one_namespace(
    cluster: Instance, namespace: str, another_namespace: str, as_user: Callable[..., Path]
) -> None:
    said = push(as_user("pipeline", rules=PUSHER), another_namespace, *SIMPLE)
    assert said.code == 4
    assert f'in the namespace "{another_namespace}"' in said.err
    assert pushed(cluster, another_namespace, "refunds") == []


def test_a_name_that_somebody_took_before_is_no_success(
    cluster: Instance, namespace: str, as_user: Callable[..., Path]
) -> None:
    pipeline = as_user("pipeline", rules=PUSHER)
    assert push(pipeline, namespace, *SIMPLE).code == 0
    (found,) = pushed(cluster, namespace, "refunds")
    name = found["metadata"]["name"]
    kubectl(["delete", "configmap", name, "-n", namespace], cluster.kubeconfig, check=True)
    kubectl(["create", "configmap", name, "-n", namespace], cluster.kubeconfig, check=True)
    said = push(pipeline, namespace, *SIMPLE)
    assert said.code == 1
    assert f"ConfigMap {name} is there already and does not hold this record" in said.err
