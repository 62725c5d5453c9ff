"""`ledger verify` and `ledger show` without a cluster."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gatewright_analysis.ledger import EntryKey, Ledger, NewEntry, segment_name
from gatewright_analysis.names import LEDGER_LABEL
from gatewright_cli.errors import Exit
from gatewright_cli.main import gatewright, kubectl_gate
from tests.unit.cli_objects import CANARY


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """A ledger of three entries as `kubectl get configmaps -o json` prints it."""
    new = [
        NewEntry(
            EntryKey("uid-1", CANARY, "0", 1, "WeightSet", str(n)),
            datetime(2030, 1, 1, n, tzinfo=UTC),
            {"weight": n},
        )
        for n in range(3)
    ]
    [write] = Ledger().append(new).writes
    config_map = {
        "metadata": {
            "name": segment_name("checkout", 0),
            "namespace": "shop",
            "labels": {LEDGER_LABEL: "checkout"},
        },
        "data": write.segment.data,
    }
    file = tmp_path / "ledger.json"
    file.write_text(json.dumps({"kind": "List", "items": [config_map]}))
    return file


def test_a_ledger_is_verified_offline(export: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gatewright(["ledger", "verify", "--file", str(export)]) == Exit.OK
    out = capsys.readouterr().out
    assert "holds: 3 entries in 1 segments" in out
    assert "a cut end would not show: give --head" in out


def test_a_changed_entry_is_found_and_its_place_said(
    export: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export.write_text(export.read_text().replace('\\"weight\\":1', '\\"weight\\":9'))
    assert kubectl_gate(["ledger", "verify", "-f", str(export)]) == Exit.ERROR
    err = capsys.readouterr().err
    assert "broken at segment 0000, entry 00000002" in err
    assert "the entry before it was changed" in err


def test_a_cut_end_is_found_by_a_head_that_was_seen_before(
    export: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl_gate(["ledger", "verify", "-f", str(export), "-o", "json"])
    digest = json.loads(capsys.readouterr().out)["head"]["digest"]
    assert kubectl_gate(["ledger", "verify", "-f", str(export), "--head", digest]) == Exit.OK
    listed = json.loads(export.read_text())
    del listed["items"][0]["data"]["00000002"]
    export.write_text(json.dumps(listed))
    capsys.readouterr()
    assert kubectl_gate(["ledger", "verify", "-f", str(export), "--head", digest, "-o", "json"]) == Exit.ERROR
    assert json.loads(capsys.readouterr().out)["broken"]["why"].startswith(
        f"no entry has the digest {digest}"
    )


def test_a_ledger_is_read_from_yaml_and_from_standard_input(
    export: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import yaml

    text = yaml.safe_dump_all(json.loads(export.read_text())["items"])
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert kubectl_gate(["ledger", "show", "-f", "-", "-o", "jsonl"]) == Exit.OK
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["sequence"], line["body"]["weight"]) for line in lines] == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{]", "neither JSON nor YAML"),
        ('{"items": []}', "holds no ConfigMap with the label gatewright.dev/ledger"),
        ('{"items": ["x", {"metadata": {"name": "y"}}]}', "holds no ConfigMap"),
    ],
)
def test_a_file_that_is_no_ledger_is_said(
    text: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x"
    file.write_text(text)
    assert gatewright(["ledger", "verify", "-f", str(file)]) == Exit.ERROR
    assert sentence in capsys.readouterr().err


def test_of_several_ledgers_in_a_file_one_must_be_named(
    export: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = json.loads(export.read_text())
    other = json.loads(json.dumps(listed["items"][0]).replace("checkout", "cart"))
    export.write_text(json.dumps({"items": [*listed["items"], other]}))
    assert gatewright(["ledger", "verify", "-f", str(export)]) == Exit.USAGE
    assert "several ledgers: cart, checkout" in capsys.readouterr().err
    assert gatewright(["ledger", "verify", "cart", "-f", str(export)]) == Exit.OK
