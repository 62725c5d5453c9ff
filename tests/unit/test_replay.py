"""A ledger's verdicts are given again from their evidence; what differs, was changed or is gone is named."""

import base64
import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gatewright_analysis.decide import decide
from gatewright_analysis.evidence.model import Clock, Window
from gatewright_analysis.evidence.packed import DATA_KEY, DIGEST_ANNOTATION, encode, pack
from gatewright_analysis.evidence.record import CheckRecord, RunRecord
from gatewright_analysis.judge import CheckEvidence, judge
from gatewright_analysis.kinds.contract import Stage
from gatewright_analysis.ledger import Entry, EntryKey, Ledger, NewEntry, canonical_contract, segment_name
from gatewright_analysis.names import EVIDENCE_LABEL, LEDGER_LABEL, ROLLOUT_LABEL
from gatewright_analysis.replay import replay
from gatewright_analysis.task import CheckTask
from gatewright_analysis.verdict import Change, Verdict
from gatewright_cli.errors import Exit
from gatewright_cli.main import gatewright
from tests.judging import check, contract, windows

SPEC = contract(check())
DIGEST = canonical_contract(SPEC).digest
AT = datetime(2030, 1, 1, tzinfo=UTC)
CLOCK = Clock(600.0, 600.0, 1200.0, 30.0)


def record(seen: list[Window], run: str = "run-1", **fields: Any) -> RunRecord:
    own = CheckRecord(windows=tuple(seen))
    base = {"run": run, "stage": "Canary", "clock": CLOCK, "e_processes": 10, "has_stable": True, "last_gate": True,
            "on_inconclusive": "Hold", "expected": ("http-success",), "checks": {"http-success": own}}  # fmt: skip
    return RunRecord(**(base | fields))


def verdict(seen: RunRecord) -> Verdict:
    """As the operator writes it."""
    task = CheckTask(SPEC.checks[0], SPEC, Stage.CANARY, 10, True)
    result = judge(task, CheckEvidence(seen.checks["http-success"].windows), seen.clock)
    outcome = decide([result], SPEC, seen.clock, expected=["http-success"])
    assert outcome.decision is not None
    return Verdict(
        decision=outcome.decision,
        run_id=seen.run,
        stage=Stage.CANARY,
        step="1",
        started_at=AT,
        finished_at=AT,
        change=Change(
            revision="0123456789",
            contract_version="checkout@1",
            contract_digest=DIGEST,
            world_snapshot=DIGEST,
        ),
        blocking=outcome.blocking,
        checks=(result.model_copy(update={"producer": "Workload", "fix_hint": "Look at the log."}),),
        evidence_digest=encode(seen)[1],
        reason=outcome.reason,
        message=outcome.message,
    )


def ledger(*verdicts: dict[str, Any]) -> tuple[Entry, ...]:
    new = [NewEntry(EntryKey("u", "0123456789", "", 1, "Contract", DIGEST), AT, {"spec": SPEC.wire()})]
    new += [
        NewEntry(
            EntryKey("u", "0123456789", body["step"], body["attempt"], "Verdict", body["runId"]),
            AT,
            {"verdict": body},
        )
        for body in verdicts
    ]
    return Ledger().append(new).ledger.entries


def stored(seen: RunRecord) -> dict[str, Any]:
    raw, digest = encode(seen)
    labels = {EVIDENCE_LABEL: "true", ROLLOUT_LABEL: "checkout"}
    metadata = {"name": f"{seen.run}-evidence", "labels": labels, "annotations": {DIGEST_ANNOTATION: digest}}
    return {"metadata": metadata, "binaryData": pack(raw, seen.run)}


GOOD = record(windows(20, (1, 200), (10, 2000)))
BAD = record(windows(3, (60, 200), (10, 2000)), run="run-2", clock=Clock(90.0, 600.0, 1200.0, 30.0))
VERDICTS = (verdict(GOOD).wire(), verdict(BAD).wire())
STORED = [stored(GOOD), stored(BAD)]


def test_verdicts_that_follow_from_their_evidence_are_equal() -> None:
    found = replay(ledger(*VERDICTS), STORED)
    assert [(one.decision, one.equal, one.problem, one.differences) for one in found] == [
        ("PROMOTE", True, "", ()),
        ("ROLLBACK", True, "", ()),
    ]


def test_each_number_that_differs_is_named() -> None:
    changed = json.loads(json.dumps(VERDICTS[0]))
    changed["checks"][0]["statistics"]["f"] = 3
    changed["checks"][0]["status"] = "waived"
    changed["message"] = "It was fine."
    changed["checks"][0]["fixHint"] = "another hint is no other verdict"
    [found] = replay(ledger(changed), STORED)
    assert found.differences == (
        "message: the verdict says 'It was fine.', the evidence gives 'All checks passed.'",
        "http-success.statistics.f: the verdict says 3, the evidence gives 20",
        "http-success.status: the verdict says 'waived', the evidence gives 'pass'",
    )


def test_a_count_that_was_changed_is_a_digest_mismatch() -> None:
    body = json.loads(gzip.decompress(base64.b64decode(STORED[0]["binaryData"][DATA_KEY])))
    body["checks"]["http-success"]["windows"][3]["canary"] = [200, 0]
    packed = base64.b64encode(gzip.compress(json.dumps(body).encode())).decode()
    forged = STORED[0] | {"binaryData": {DATA_KEY: packed}}
    first, second = replay(ledger(*VERDICTS), [forged, STORED[1]])
    said = STORED[0]["metadata"]["annotations"][DIGEST_ANNOTATION]
    assert first.problem.startswith(
        f"digest mismatch: ConfigMap run-1-evidence says {said} and holds sha256:"
    )
    assert second.equal
    other = record(windows(20, (0, 200), (10, 2000)))
    [found] = replay(ledger(VERDICTS[0]), [stored(other)])
    assert found.problem == f"the evidence of run run-1 ({said}) is gone", (
        "who changes the annotation, too, has other evidence"
    )


def test_evidence_that_is_gone_or_unreadable_says_so() -> None:
    first, _ = replay(ledger(*VERDICTS), STORED[1:])
    assert first.problem.endswith("is gone") and not first.equal
    broken = STORED[0] | {"binaryData": {DATA_KEY: "!"}}
    first, _ = replay(ledger(*VERDICTS), [broken, STORED[1]])
    assert "the evidence in ConfigMap run-1-evidence can't be read" in first.problem
    cut = base64.b64encode(base64.b64decode(STORED[0]["binaryData"][DATA_KEY])[:-20]).decode()
    first, _ = replay(ledger(*VERDICTS), [STORED[0] | {"binaryData": {DATA_KEY: cut}}, STORED[1]])
    assert "is cut off" in first.problem


def test_a_world_that_drifted_is_the_hold_that_was_given() -> None:
    seen = record(windows(20, (1, 200), (10, 2000)), drifted="The model faithfulness says v3, it was v2.")
    body = verdict(seen).wire() | {
        "decision": "HOLD", "reason": "WorldDrifted", "message": "The model faithfulness says v3, it was v2.",
        "blocking": [],
    }  # fmt: skip
    [found] = replay(ledger(body), [stored(seen)])
    assert found.equal, found


def test_a_result_that_was_taken_over_is_compared_with_the_run_it_is_from() -> None:
    taken = (
        verdict(GOOD).checks[0].model_copy(update={"cached_from": "run-1", "producer": "", "fix_hint": ""})
    )
    own = CheckRecord(cached_from="run-1", cached=taken.wire())
    seen = record([], run="run-3", checks={"http-success": own})
    body = VERDICTS[0] | {
        "runId": "run-3",
        "evidenceDigest": encode(seen)[1],
        "checks": [taken.wire()],
        "step": "3",
    }
    _, found = replay(ledger(VERDICTS[0], body), [STORED[0], stored(seen)])
    assert found.equal, found
    first = json.loads(json.dumps(VERDICTS[0]))
    first["checks"][0]["statistics"]["n"] = 1
    _, found = replay(ledger(first, body), [STORED[0], stored(seen)])
    assert found.differences == (
        "http-success (as run-1 found).statistics.n: the verdict says 1, the evidence gives 4000",
    )


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Ledger and evidence as kubectl prints them."""
    [write] = Ledger().append([NewEntry(e.key, e.at, e.body) for e in ledger(*VERDICTS)]).writes
    segment = {"metadata": {"name": segment_name("checkout", 0), "namespace": "shop", "labels": {LEDGER_LABEL: "checkout"}},
               "data": write.segment.data}  # fmt: skip
    kept, seen = tmp_path / "ledger.json", tmp_path / "evidence.json"
    kept.write_text(json.dumps({"kind": "List", "items": [segment]}))
    seen.write_text(json.dumps({"kind": "List", "items": STORED}))
    return kept, seen


def test_the_command_says_equal_or_what_differs(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["ledger", "replay", "-f", str(files[0]), "--evidence", str(files[1])]
    assert gatewright(words) == Exit.OK
    out = capsys.readouterr().out
    assert "#1 run-1: PROMOTE AllChecksPassed: equal\n" in out
    assert f"All 2 verdicts of checkout in {files[0]} follow from their evidence." in out
    files[1].write_text(json.dumps({"items": STORED[:1]}))
    assert gatewright([*words, "-o", "json"]) == Exit.ERROR
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], [one["equal"] for one in found["verdicts"]]) == (False, [True, False])
    assert gatewright(words) == Exit.ERROR
    assert "#2 run-2: ROLLBACK" in (out := capsys.readouterr().out) and "can't be replayed" in out
    files[1].write_text(json.dumps({"items": []}))
    assert gatewright(words) == Exit.ERROR
    assert "holds no ConfigMap with the label gatewright.dev/evidence" in capsys.readouterr().err
    assert gatewright(words[:4]) == Exit.USAGE
    files[1].write_text(json.dumps({"items": STORED}))
    files[0].write_text(files[0].read_text().replace("All checks passed", "All checks failed"))
    assert gatewright(words) == Exit.ERROR
    assert "The ledger is broken at segment 0000" in capsys.readouterr().err
