"""`gatewright plan`: files and rates in, tables, warnings and exit code out."""

import json
from pathlib import Path

import pytest

from gatewright_cli.errors import Exit
from gatewright_cli.main import gatewright
from tests.judging import check, sampled


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Contract and Rollout."""
    steps = [{"setWeight": 5}, {"gate": {"duration": "10m", "maxDuration": "20m"}}]
    spec = {
        "GateContract": {"checks": [check(limit={"maxBadRatio": 0.01}), sampled()]},
        "Rollout": {
            "workloadRef": {"name": "checkout"},
            "contractRef": {"name": "checkout"},
            "traffic": {"replicas": {}},
            "steps": steps,
        },
    }
    found = []
    for kind, body in spec.items():
        file = tmp_path / f"{kind}.json"
        manifest = {"apiVersion": "gatewright.dev/v1alpha1", "kind": kind, "metadata": {"name": "checkout"}}
        file.write_text(json.dumps(manifest | {"spec": body}))
        found.append(str(file))
    return found[0], found[1]


def test_a_contract_alone_is_planned_in_samples(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert gatewright(["plan", files[0]]) == Exit.OK
    out = capsys.readouterr().out
    assert "The stage Canary" in out and "3,445" in out
    assert "Joint power of the checks that must pass: 8" in out


def test_a_rate_gives_minutes_and_what_can_never_pass_is_an_error(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert gatewright(["plan", files[0], "--rollout", files[1], "--rate", "20000"]) == Exit.OK
    out = capsys.readouterr().out
    assert "The gate at step 1: 5 % of the traffic, 10 minutes to 20 minutes" in out
    assert "3.44 minutes" in out
    assert gatewright(["plan", files[0], "--rollout", files[1], "--rate", "100"]) == Exit.ERROR
    said = " ".join(capsys.readouterr().out.split())
    assert "never: The check http-success needs 11.5 hours at this rate" in said
    one = ("--rate", "20000", "--rate", "faithfulness=40")
    assert gatewright(["plan", files[0], "--rollout", files[1], *one, "-o", "json"]) == Exit.OK
    found = json.loads(capsys.readouterr().out)
    by_check = {c["check"]: c for c in found["gates"][0]["checks"]}
    assert (by_check["http-success"]["perMinute"], by_check["faithfulness"]["perMinute"]) == (1000, 2)
    assert [w["check"] for w in found["warnings"]] == ["faithfulness"] and not found["neverPasses"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rate", "fast"), "--rate 'fast' is no number of events a minute"),
        (("--rate", "-1"), "is no number of events a minute"),
        (("--rate", "nan"), "is no number of events a minute"),
        (("--rate", "htp=3"), "The contract has no check htp"),
    ],
)
def test_a_rate_is_a_number(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert gatewright(["plan", files[0], "--rollout", files[1], *words]) == Exit.USAGE
    assert said in capsys.readouterr().err
    assert gatewright(["plan", files[0], *words]) == Exit.USAGE
    assert "give --rollout FILE, too" in capsys.readouterr().err
    assert gatewright(["plan", files[0], "--rollout", files[0]]) == Exit.ERROR
    assert "holds no Rollout" in capsys.readouterr().err
