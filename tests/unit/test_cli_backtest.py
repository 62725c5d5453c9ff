"""`gatewright backtest`: files in, verdict and exit code out."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from gatewright_cli.errors import Exit
from gatewright_cli.main import gatewright
from tests.judging import check, pods

GOOD = {"check": "http-success", "good": 100, "bad": 0, "stable": {"good": 400, "bad": 1}}
BAD = GOOD | {"good": 60, "bad": 40}


class Folder:
    """A contract and evidence in files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.contract(check())

    def contract(self, *checks: dict[str, Any], **meta: Any) -> None:
        body = {
            "apiVersion": "gatewright.dev/v1alpha1",
            "kind": "GateContract",
            "metadata": {"name": "checkout"},
            "spec": {"checks": list(checks)},
        } | meta
        (self.path / "contract.yaml").write_text(json.dumps(body))

    def run(self, *words: str, line: dict[str, Any] | None = GOOD, looks: int = 20) -> int:
        rows = [json.dumps({**line, "t": 30 * (k + 1)}) for k in range(looks)] if line else []
        (self.path / "seen.jsonl").write_text("\n".join(rows))
        files = ("--evidence", str(self.path / "seen.jsonl"))
        return gatewright(["backtest", str(self.path / "contract.yaml"), *files, *words])


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_the_exit_code_tells_the_verdict(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert folder.run() == Exit.OK
    out = capsys.readouterr().out
    assert out.startswith("PROMOTE  AllChecksPassed, after 600 s\n")
    assert "http-success  pass    100 %" in out
    assert folder.run(line=BAD) == Exit.ROLLED_BACK
    assert capsys.readouterr().out.startswith("ROLLBACK  ")
    assert folder.run(line=None) == Exit.HELD
    assert "The evidence holds nothing of this check" in capsys.readouterr().out
    assert folder.run("--duration", "1h") == Exit.HELD


def test_json_has_the_verdict_and_every_look(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert folder.run("-o", "json", looks=3, line=BAD) == Exit.ROLLED_BACK
    found = json.loads(capsys.readouterr().out)
    assert (found["decision"], found["decidedAtSeconds"], len(found["looks"])) == ("ROLLBACK", 60, 3)
    assert found["checks"][0]["statistics"]["stableS"] == 800
    assert folder.run("-o", "json", line=None) == Exit.HELD
    assert json.loads(capsys.readouterr().out)["looks"] == []


def test_the_looks_are_drawn(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder.path / "looks.svg"
    assert folder.run("--plot", str(file)) == Exit.OK
    root = ET.parse(file).getroot()
    space = "{http://www.w3.org/2000/svg}"
    said = {text.text for text in root.iter(f"{space}text")}
    assert {"PROMOTE after 600 s (AllChecksPassed)", "threshold", "ln E, pass", "convicts"} <= said
    curves = [line.get("points", "").split() for line in root.iter(f"{space}polyline")]
    assert [len(points) for points in curves] == [20, 20, 20, 20, 20]
    first = file.read_bytes()
    assert folder.run("--plot", str(file)) == Exit.OK
    assert file.read_bytes() == first, "the same evidence gives the same picture"
    assert folder.run("--plot", str(file), line=None) == Exit.HELD
    assert "no evidence" in file.read_text()
    picture = folder.path / "looks.png"
    assert folder.run("--plot", str(picture)) == Exit.OK
    assert picture.read_bytes().startswith(b"\x89PNG\r\n")
    assert folder.run("--plot", "looks.pdf") == Exit.USAGE
    assert "--plot writes .svg or .png" in capsys.readouterr().err


def test_what_can_not_be_read_is_said_with_its_place(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert folder.run(line=GOOD | {"bad": -1}) == Exit.ERROR
    assert "seen.jsonl, line 1: `bad` counts events" in capsys.readouterr().err
    two = check() | {"limit": {"maxBadRatio": 0.1, "minGoodRatio": 0.9}}
    for wrong, said in (
        ([two], "Check http-success: a limit is exactly one of maxBadRatio and minGoodRatio."),
        ([check(), check()], "Two checks have the id http-success"),
        ([check(require="Advisory")], "At least one check needs require: Pass"),
        ([check(evidence=[{"stages": ["Canary"]}])], "has none of counts, latency"),
        ([check(limit=None)], "Check http-success: it needs a limit"),
        ([check(oracleKind="Sometimes")], "spec.checks.0.oracleKind"),
        ([], "spec.checks"),
    ):
        folder.contract(*wrong)
        assert folder.run() == Exit.ERROR, wrong
        assert said in capsys.readouterr().err
    folder.contract(check(), kind="ConfigMap")
    assert folder.run() == Exit.ERROR
    assert "holds no GateContract or ClusterGateContract" in capsys.readouterr().err
    assert gatewright(["backtest", str(folder.path / "gone.yaml"), "--evidence", "-"]) == Exit.ERROR
    assert "gone.yaml can't be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--checks", "htp"), "The contract has no check htp; it has http-success."),
        (("--duration", "10m", "--max-duration", "5m"), "--max-duration is the deadline"),
        (("--duration", "10"), "--duration '10' is not a length of time"),
        (("--prometheus", "http://127.0.0.1:1"), "Give the evidence as --evidence FILE, or --prometheus URL"),
        (("--from", "1"), "--from, --to, --step, --namespace and the arms belong to --prometheus."),
        (("--stage", "Merge"), "invalid choice: 'Merge'"),
        (("--tier", "Full"), "No check is left to judge at the stage Canary"),
    ],
)
def test_words_that_make_no_sense_are_usage_errors(
    folder: Folder, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert folder.run(*words) == Exit.USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"--step": None}, "--step is needed to read from a Prometheus."),
        ({"--from": "yesterday"}, "--from 'yesterday' is no time"),
        ({"--to": "900"}, "--from must lie before --to."),
        ({"--stable": "checkout-canary-"}, "--canary and --stable are the same"),
        ({"--prometheus": "ftp://x"}, "address"),
    ],
)
def test_a_span_of_a_prometheus_is_checked_before_it_is_asked(
    folder: Folder, capsys: pytest.CaptureFixture[str], change: dict[str, str | None], said: str
) -> None:
    given: dict[str, str | None] = {
        "--prometheus": "http://127.0.0.1:1", "--from": "1000", "--to": "2000", "--step": "30s", "--namespace": "shop",
        "--canary": "checkout-canary-", "--stable": "checkout-",
    } | change  # fmt: skip
    words = [word for key, value in given.items() if value is not None for word in (key, value)]
    assert gatewright(["backtest", str(folder.path / "contract.yaml"), *words]) == Exit.USAGE
    assert said in capsys.readouterr().err


def test_a_prometheus_that_does_not_answer_is_no_verdict(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--prometheus",
        "http://127.0.0.1:1",
        "--from",
        "1000",
        "--to",
        "2000",
        "--step",
        "30s",
        "--namespace",
        "shop",
        "--canary",
        "c-",
    ]
    assert gatewright(["backtest", str(folder.path / "contract.yaml"), *words]) == Exit.ERROR
    assert "http://127.0.0.1:1 gave no evidence of http-success: " in capsys.readouterr().err


def test_pods_are_left_out_by_name(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    folder.contract(check(), pods())
    assert folder.run() == Exit.HELD
    assert (
        "rests on pods, of which nothing is recorded: leave it out with --checks"
        in capsys.readouterr().out.replace("\n  ", " ")
    )
    assert folder.run("--checks", "http-success") == Exit.OK
    assert "Not judged, as asked: pods." in capsys.readouterr().out
