"""`ledger export`: entries byte for byte, and verdicts as in-toto statements of the right shape."""

import hashlib
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gatewright_analysis.kinds.contract import OracleKind, Require, Stage
from gatewright_analysis.kinds.run import ImageRef
from gatewright_analysis.ledger import Entry, EntryKey, Ledger, NewEntry, segment_name
from gatewright_analysis.ledger.statements import Predicate, statements, subjects
from gatewright_analysis.names import LEDGER_LABEL
from gatewright_analysis.verdict import Change, CheckResult, CheckStatus, Decision, Verdict
from gatewright_cli.errors import Exit
from gatewright_cli.main import gatewright
from gatewright_operator.verdicts import _pinned
from tests.unit.cli_objects import CANARY, DIGEST, WORLD

AT = datetime(2030, 5, 1, 12, 0, tzinfo=UTC)
APP, SIDECAR = "ab" * 32, "cd" * 32
PINNED = (
    f"app=registry.example/shop/checkout@sha256:{APP}",
    f"proxy=registry.example/proxy:1@sha256:{SIDECAR}",
)


def result(name: str, status: CheckStatus, require: Require = Require.PASS) -> CheckResult:
    return CheckResult(
        id=name, oracle_kind=OracleKind.DETERMINISTIC, require=require, status=status, reason="Because"
    )


def verdict(
    decision: Decision, *checks: CheckResult, images: tuple[str, ...] = PINNED, **more: Any
) -> Verdict:
    change = Change(
        revision=CANARY,
        images=images,
        contract_version="checkout@3",
        contract_digest=DIGEST,
        world_snapshot=WORLD,
    )
    values: dict[str, Any] = {
        "decision": decision, "run_id": "run-1", "stage": Stage.CANARY, "step": "1", "started_at": AT,
        "finished_at": AT + timedelta(minutes=10), "target": "shop/checkout", "change": change, "checks": checks,
        "evidence_digest": DIGEST, "reason": "Because", **more,
    }  # fmt: skip
    return Verdict(**values)


def ledger(*verdicts: Verdict) -> tuple[Entry, ...]:
    new = [
        NewEntry(
            EntryKey("uid-1", CANARY, one.step, 1, "Verdict", f"run-{n}"),
            AT + timedelta(hours=n),
            {"verdict": one.wire()},
        )
        for n, one in enumerate(verdicts)
    ]
    return Ledger().append(new).ledger.entries


PASSED = verdict(
    Decision.PROMOTE,
    result("http", CheckStatus.PASS),
    result("slow", CheckStatus.NOT_PROVEN, Require.ADVISORY),
)
CLEAN = verdict(Decision.PROMOTE, result("http", CheckStatus.PASS))
WAIVED = verdict(Decision.PROMOTE, result("http", CheckStatus.PASS), result("faithful", CheckStatus.WAIVED))
HELD = verdict(Decision.HOLD, result("http", CheckStatus.PASS), result("faithful", CheckStatus.INCONCLUSIVE))
BACK = verdict(Decision.ROLLBACK, result("http", CheckStatus.FAIL))
NO_BREACH = verdict(
    Decision.PROMOTE,
    result("http", CheckStatus.PASS),
    result("busy", CheckStatus.NOT_PROVEN, Require.NO_BREACH),
)


def test_a_statement_is_about_the_digests_of_the_images() -> None:
    [one] = statements(ledger(CLEAN), [Predicate.TEST_RESULT])
    assert one["_type"] == "https://in-toto.io/Statement/v1"
    assert one["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert one["subject"] == [
        {"name": "registry.example/shop/checkout", "digest": {"sha256": APP}},
        {"name": "registry.example/proxy:1", "digest": {"sha256": SIDECAR}},
    ]
    assert one["predicate"]["configuration"] == [
        {"name": "checkout@3", "digest": {"sha256": DIGEST.removeprefix("sha256:")}}
    ]


@pytest.mark.parametrize(
    ("judged", "said", "passed", "warned", "failed"),
    [
        (CLEAN, "PASSED", ["http"], [], []),
        (PASSED, "WARNED", ["http"], ["slow"], []),
        (NO_BREACH, "WARNED", ["http"], ["busy"], []),
        (WAIVED, "WARNED", ["http"], ["faithful"], []),
        (HELD, "FAILED", ["http"], [], ["faithful"]),
        (BACK, "FAILED", [], [], ["http"]),
        (verdict(Decision.HOLD), "FAILED", [], [], []),
    ],
    ids=["clean", "advisory", "no breach", "waived", "held", "rolled back", "held without checks"],
)
def test_only_a_promotion_passes(
    judged: Verdict, said: str, passed: list[str], warned: list[str], failed: list[str]
) -> None:
    [one] = statements(ledger(judged), [Predicate.TEST_RESULT])
    predicate = one["predicate"]
    assert predicate["result"] == said
    assert (predicate["passedTests"], predicate["warnedTests"], predicate["failedTests"]) == (
        passed,
        warned,
        failed,
    )


def test_a_verification_says_what_was_proven_and_by_which_contract() -> None:
    [one] = statements(ledger(CLEAN), [Predicate.SVR])
    assert one["predicateType"] == "https://in-toto.io/attestation/svr/v0.1"
    predicate = one["predicate"]
    assert predicate["properties"] == ["GATEWRIGHT_GATE_CANARY", "GATEWRIGHT_CHECK_http"]
    assert predicate["timeCreated"] == "2030-05-01T12:10:00Z"
    assert re.fullmatch(r"https://\S+", predicate["verifier"]["id"])
    assert predicate["verifier"]["policy"]["name"] == "checkout@3"


def test_what_a_person_waived_is_not_verified() -> None:
    [one] = statements(ledger(WAIVED), [Predicate.SVR])
    assert one["predicate"]["properties"] == ["GATEWRIGHT_CHECK_http"]
    only_waived = verdict(Decision.PROMOTE, result("faithful", CheckStatus.WAIVED))
    assert list(statements(ledger(only_waived), [Predicate.SVR])) == []


@pytest.mark.parametrize("judged", [HELD, BACK])
def test_what_was_not_promoted_is_not_verified(judged: Verdict) -> None:
    assert list(statements(ledger(judged), [Predicate.SVR])) == []


def test_a_tag_is_no_subject_and_neither_is_half_of_a_pod() -> None:
    half = verdict(
        Decision.PROMOTE,
        result("http", CheckStatus.PASS),
        images=(PINNED[0], "proxy=registry.example/proxy:1"),
    )
    assert subjects(half) == []
    assert list(statements(ledger(half), Predicate)) == []


def test_the_same_image_in_two_containers_is_one_subject() -> None:
    twice = verdict(Decision.PROMOTE, images=(PINNED[0], PINNED[0].replace("app=", "worker=")))
    assert len(subjects(twice)) == 1


@pytest.mark.parametrize(
    ("image", "digest", "pinned"),
    [
        ("shop/checkout:1", f"docker-pullable://shop/checkout@sha256:{APP}", f"shop/checkout:1@sha256:{APP}"),
        ("shop/checkout:1", f"registry.example/shop/checkout@sha256:{APP}", f"shop/checkout:1@sha256:{APP}"),
        ("shop/checkout:1", f"sha256:{APP}", "shop/checkout:1"),
        ("shop/checkout:1", "", "shop/checkout:1"),
        (f"shop/checkout@sha256:{APP}", f"shop/checkout@sha256:{SIDECAR}", f"shop/checkout@sha256:{APP}"),
    ],
)
def test_a_verdict_names_images_by_the_digest_that_the_node_pulled(
    image: str, digest: str, pinned: str
) -> None:
    assert _pinned(ImageRef(container="app", image=image, digest=digest)) == pinned


@pytest.fixture
def exported(tmp_path: Path) -> Any:
    def write(*verdicts: Verdict) -> str:
        new = [
            NewEntry(EntryKey("uid-1", CANARY, "1", 1, "Verdict", f"run-{n}"), AT, {"verdict": one.wire()})
            for n, one in enumerate(verdicts)
        ]
        [segment] = Ledger().append(new).writes
        config_map = {
            "metadata": {
                "name": segment_name("checkout", 0),
                "namespace": "shop",
                "labels": {LEDGER_LABEL: "checkout"},
            },
            "data": segment.segment.data,
        }
        file = tmp_path / "ledger.json"
        file.write_text(json.dumps({"kind": "List", "items": [config_map]}))
        return str(file)

    return write


def test_exported_entries_are_the_stored_bytes_so_that_anybody_can_walk_the_chain(
    exported: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gatewright(["ledger", "export", "-f", exported(CLEAN, HELD, BACK)]) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    digests = [f"sha256:{hashlib.sha256(line.encode()).hexdigest()}" for line in lines]
    assert [json.loads(line)["previous"] for line in lines[1:]] == digests[:-1]
    assert len(lines) == 3


def test_statements_of_both_kinds_come_in_the_ledger_s_order(
    exported: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gatewright(["ledger", "export", "-f", exported(HELD, CLEAN), "-o", "in-toto"]) == Exit.OK
    kinds = [
        json.loads(line)["predicateType"].split("/")[-2] for line in capsys.readouterr().out.splitlines()
    ]
    assert kinds == ["test-result", "test-result", "svr"]


def test_verdicts_that_can_t_be_exported_are_counted_and_said(
    exported: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    tagged = verdict(Decision.PROMOTE, result("http", CheckStatus.PASS), images=("app=shop/checkout:1",))
    assert gatewright(["ledger", "export", "-f", exported(tagged, CLEAN), "-o", "svr"]) == Exit.OK
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert "1 of 2 verdicts are left out" in err
    assert gatewright(["ledger", "export", "-f", exported(tagged), "-o", "svr"]) == Exit.ERROR
    assert "Name images by digest." in capsys.readouterr().err


def test_a_broken_ledger_attests_nothing(exported: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(exported(CLEAN, HELD))
    file.write_text(file.read_text().replace("PROMOTE", "ROLLBACK", 1))
    assert gatewright(["ledger", "export", "-f", str(file), "-o", "in-toto"]) == Exit.ERROR
    out, err = capsys.readouterr()
    assert out == ""
    assert "A broken ledger attests nothing." in err
    assert "try:   kubectl gate ledger show checkout -o jsonl" in err
