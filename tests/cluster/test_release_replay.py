"""What an operator decided on a real release follows from what it stored, wherever the files are taken to."""

import base64
import gzip
import json
from pathlib import Path

import pytest

from devcluster import Instance
from devcluster.install import Operator
from gatewright_cli.errors import Exit
from gatewright_cli.main import gatewright
from tests.cluster.releases import GOOD, Release

pytestmark = pytest.mark.timeout(300)


def test_verdicts_of_a_promotion_and_of_a_rollback_are_replayed_offline(
    cluster: Instance, operator: Operator, namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Release.create(cluster, namespace)
    with shop.traffic():
        shop.release(**GOOD)
        shop.promoted("v2")
        shop.release(VERSION="v3", ERROR_RATE="0.5")
        shop.phase("RolledBack")
    decisions = [entry["body"]["verdict"]["decision"] for entry in shop.entries("Verdict")]
    assert "PROMOTE" in decisions and decisions[-1] == "ROLLBACK", decisions

    files = {}
    for name, label in (("ledger", "gatewright.dev/ledger"), ("evidence", "gatewright.dev/evidence")):
        files[name] = tmp_path / f"{name}.json"
        answer = shop.kubectl("get", "configmaps", "-l", label, "-o", "json")
        assert answer.ok, answer.err
        files[name].write_text(answer.out)
    words = ["ledger", "replay", "-f", str(files["ledger"]), "--evidence", str(files["evidence"])]
    code = gatewright(words)
    said = capsys.readouterr().out
    assert code == Exit.OK, said
    assert said.count(": equal\n") == len(decisions), said

    answer = shop.gate("ledger", "replay", "checkout")
    assert answer.ok, f"{answer.out}{answer.err}"
    assert "follow from their evidence." in answer.out

    body = json.loads(files["evidence"].read_text())
    one = body["items"][0]
    record = json.loads(gzip.decompress(base64.b64decode(one["binaryData"]["evidence.json.gz"])))
    next(iter(record["checks"].values()))["windows"][0]["canary"][0] += 1
    changed = gzip.compress(json.dumps(record, separators=(",", ":")).encode())
    one["binaryData"]["evidence.json.gz"] = base64.b64encode(changed).decode()
    files["evidence"].write_text(json.dumps(body))
    assert gatewright(words) == Exit.ERROR
    said = " ".join(capsys.readouterr().out.split())
    assert f"Digest mismatch: ConfigMap {one['metadata']['name']} says" in said, said
