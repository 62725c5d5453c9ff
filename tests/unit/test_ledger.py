"""The ledger's bytes: what is recorded can be found again, replayed, and not changed unseen."""

import hashlib
import itertools
import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gatewright_analysis.kinds.contract import GateContractSpec
from gatewright_analysis.kinds.rollout import AfterBack
from gatewright_analysis.ledger import (
    GENESIS,
    Actor,
    ContractTooLarge,
    Entry,
    EntryKey,
    EntryKind,
    EntryTooLarge,
    Head,
    Ledger,
    LedgerBroken,
    LedgerContentError,
    NewEntry,
    Segment,
    UnboundVerdict,
    canonical,
    canonical_contract,
    digest_of_json,
    fold,
    segment_index,
    segment_name,
    verify,
    world_snapshot,
)
from gatewright_analysis.verdict import Statistics

T0 = datetime(2030, 1, 1, tzinfo=UTC)
DIGEST = "sha256:" + "a" * 64
OLD, NEW = "1111111111", "2222222222"
STABLE = {"revision": OLD, "podTemplateHash": "5f7d8c9b6", "replicas": 3, "images": ["shop:1"]}
CANARY = {"revision": NEW, "initiator": "sre-1", "contractDigest": DIGEST, "images": ["shop:2"]}


def key(kind: str, **fields: Any) -> EntryKey:
    values: dict[str, Any] = {
        "rollout_uid": "u1",
        "revision": NEW,
        "step": "",
        "attempt": 1,
        "kind": kind,
        "cause": "",
    }
    return EntryKey(**(values | fields))


def new(kind: str, body: dict[str, Any] | None = None, *, minute: int = 0, **fields: Any) -> NewEntry:
    return NewEntry(key(kind, **fields), T0 + timedelta(minutes=minute), body or {})


def verdict(decision: str = "PROMOTE", **fields: Any) -> dict[str, Any]:
    change = {"revision": NEW, "contractDigest": DIGEST, "worldSnapshot": DIGEST}
    statistics = {"s": 999, "f": 1, "n": 1000, "ticketUsed": True}
    check = {
        "id": "success",
        "oracleKind": "Deterministic",
        "require": "Pass",
        "status": "pass",
        "reason": "Passed",
        "statistics": statistics,
    }
    body = {
        "decision": decision,
        "runId": "shop-2222222222-1-1",
        "stage": "Canary",
        "step": "1",
        "attempt": 1,
        "startedAt": "2030-01-01T00:00:00Z",
        "finishedAt": "2030-01-01T00:10:00Z",
        "change": change,
        "checks": [check],
        "evidenceDigest": DIGEST,
        "reason": "AllChecksPassed",
    }
    return {"verdict": body | fields}


def started(**fields: Any) -> NewEntry:
    originals = {"stableSelector": {"app": "shop"}, "canarySelector": {"app": "x"}, "stableWeight": 1}
    return new("Started", {"stable": STABLE, "canary": CANARY, "originals": originals}, **fields)


def ledger(*entries: NewEntry) -> Ledger:
    return Ledger().append(entries).ledger


def many(count: int, size: int = 0) -> list[NewEntry]:
    return [new("WeightSet", {"weight": n, "pad": "x" * size}, step=str(n)) for n in range(count)]


# --- canonical form ---------------------------------------------------------------------------------------


def test_the_same_value_has_the_same_bytes_whatever_the_order_of_its_keys() -> None:
    assert canonical({"b": 1, "a": [True, None, "ü"]}) == '{"a":[true,null,"ü"],"b":1}'.encode()
    assert digest_of_json({"a": 1, "b": 2}) == digest_of_json({"b": 2, "a": 1})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, '"NaN"'),
        (math.inf, '"Infinity"'),
        (-math.inf, '"-Infinity"'),
        (2**53, '"9007199254740992"'),
        (-(2**60), f'"{-(2**60)}"'),
        (2**53 - 1, "9007199254740991"),
        (1e20, '"1e+20"'),
        (1e300, '"1e+300"'),
        (5e-324, "5e-324"),
        (-0.0, "0"),
        (1.0, "1"),
        (0.1 + 0.2, "0.30000000000000004"),
        ("\ud800", '"\ufffd"'),
        ("\x00\n", '"\\u0000\\n"'),
        ("\u2028🙂", '"\u2028🙂"'),
    ],
)
def test_hostile_values_are_recorded_and_stay_canonical(value: Any, text: str) -> None:
    assert canonical(value).decode() == text
    assert canonical(json.loads(text)).decode() == text, "read and written again, it is the same"


def test_a_number_that_became_a_string_is_read_back_as_the_number() -> None:
    there = json.loads(canonical(Statistics(log_e_pass=-math.inf, n=2**60).model_dump(mode="python")))
    again = Statistics.model_validate(there)
    assert (again.log_e_pass, again.n) == (-math.inf, 2**60)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [{"b": T0}]}, r"\$\.a\[0\]\.b: datetime"),
        ({1: 2}, "key 1"),
        ({"a": b""}, "bytes"),
        ({"a": {1}}, "set"),
    ],
)
def test_what_is_no_json_is_refused_with_its_path(value: Any, path: str) -> None:
    with pytest.raises(TypeError, match=path):
        canonical(value)


def test_a_value_without_end_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(TypeError, match="levels deep"):
        canonical(endless)


# --- what verdicts are bound to -----------------------------------------------------------------------------


def contract(**check: Any) -> GateContractSpec:
    evidence = [{"stages": ["Canary"], "counts": {"source": "prometheus", "bad": ["bad"], "total": ["all"]}}]
    base = {
        "id": "success",
        "oracleKind": "Deterministic",
        "limit": {"maxBadRatio": 0.01},
        "evidence": evidence,
    }
    return GateContractSpec.model_validate({"checks": [base | check]})


def test_a_contract_has_one_digest_whether_its_defaults_are_written_or_not() -> None:
    written = GateContractSpec.model_validate(contract().wire())
    assert canonical_contract(written) == canonical_contract(contract())
    assert canonical_contract(contract(require="Pass")).digest == canonical_contract(contract()).digest


def test_words_for_people_are_no_new_version_of_a_contract() -> None:
    told = contract(title="Answers without 5xx", fixHint="Look at the log.")
    assert canonical_contract(told).digest == canonical_contract(contract()).digest


@pytest.mark.parametrize(
    "change",
    [{"limit": {"maxBadRatio": 0.02}}, {"onBreach": "Hold"}, {"id": "other"}, {"plannedSamples": 500}],
)
def test_whatever_judges_is_a_new_version_of_a_contract(change: dict[str, Any]) -> None:
    assert canonical_contract(contract(**change)).digest != canonical_contract(contract()).digest


def test_a_contract_too_large_to_be_recorded_says_so() -> None:
    evidence = [
        {"stages": ["Canary"], "counts": {"source": "p", "bad": ["b" * 512] * 8, "total": ["a" * 512] * 8}},
    ]
    big = {"checks": [contract(id=f"c{n}", evidence=evidence).wire()["checks"][0] for n in range(64)]}
    with pytest.raises(ContractTooLarge, match="split it into several contracts"):
        canonical_contract(GateContractSpec.model_validate(big))


def test_the_world_is_the_images_that_run_wherever_they_were_pulled_from() -> None:
    here = world_snapshot([("app", f"docker-pullable://mirror.example/shop@{DIGEST}"), ("proxy", "b")])
    there = world_snapshot([("proxy", "b"), ("app", DIGEST)])
    assert here == there
    assert world_snapshot([("app", "sha256:" + "b" * 64), ("proxy", "b")]) != here
    assert world_snapshot([("app", "b"), ("proxy", DIGEST)]) != here, "which container runs it matters"


# --- appending and finding ----------------------------------------------------------------------------------


def test_each_entry_holds_the_digest_of_the_one_before() -> None:
    found = ledger(new("Adopted", {"stable": STABLE}), started(), *many(3)).entries
    assert found[0].previous == GENESIS
    for before, entry in itertools.pairwise(found):
        assert entry.previous == "sha256:" + hashlib.sha256(before.text.encode()).hexdigest()
    assert [entry.sequence for entry in found] == [0, 1, 2, 3, 4]


def test_an_entry_is_read_as_it_was_written() -> None:
    made = NewEntry(
        key("Review", cause="uid"), T0, {"spec": {"reason": "naïve 🙂"}}, Actor("user", "sre-1"), late=True
    )
    entry = ledger(made).entries[0]
    assert Entry.parse(entry.text) == entry
    assert (entry.key, entry.at, entry.actor, entry.late, entry.body) == (
        made.key,
        made.at,
        made.actor,
        True,
        made.body,
    )


def test_the_same_event_is_found_and_not_written_again() -> None:
    before = ledger(started(minute=1))
    again = before.append([started(minute=7), new("WeightSet", {"weight": 5}, step="0")])
    assert [entry.sequence for entry in again.entries] == [0, 1]
    assert again.entries[0].at == T0 + timedelta(minutes=1), "the first entry of an event counts"
    assert len(again.fresh) == 1
    nothing = again.ledger.append([started(minute=9)])
    assert nothing.writes == (), "an event that stands there asks for no write"
    assert again.ledger.find(key("Started")) == again.entries[0]
    assert again.ledger.find(key("Started", attempt=2)) is None


def test_one_event_asked_for_twice_at_once_is_one_entry() -> None:
    assert len(ledger(started(), started()).entries) == 1


def test_entries_that_belong_together_are_one_write() -> None:
    first = Ledger().append([new("Contract"), started()])
    assert [(w.create, len(w.segment.items)) for w in first.writes] == [(True, 2)]
    second = first.ledger.append(many(2))
    assert [(w.create, len(w.segment.items)) for w in second.writes] == [(False, 4)]


def test_a_full_segment_is_left_in_three_writes() -> None:
    full = ledger(*many(128))
    assert len(full.segments) == 1
    written = full.append([started()])
    steps = [(w.segment.index, w.create, w.segment.sealed, len(w.segment.items)) for w in written.writes]
    assert steps == [(1, True, False, 0), (0, False, True, 128), (1, False, False, 1)]
    assert written.writes[2].segment.items[0][0] == "00000128"
    assert verify(written.ledger.segments).ok


def test_a_segment_is_full_at_256_kib() -> None:
    written = ledger(*many(40, size=10_000))
    assert [s.index for s in written.segments] == [0, 1]
    assert all(s.size <= 256 * 1024 for s in written.segments)
    assert verify(written.segments).ok


def test_an_entry_larger_than_a_segment_has_one_of_its_own() -> None:
    written = ledger(started(), *many(1, size=400_000), new("Completed"))
    assert [len(s.items) for s in written.segments] == [1, 1, 1]
    assert verify(written.segments).ok
    with pytest.raises(EntryTooLarge, match="768 KiB fit"):
        ledger(*many(1, size=800_000))


def test_a_crash_at_any_write_leaves_a_ledger_that_the_next_append_mends() -> None:
    full = ledger(*many(128))
    rotation = full.append([started()]).writes
    for done in range(len(rotation) + 1):
        stored = {s.index: s for s in full.segments} | {w.segment.index: w.segment for w in rotation[:done]}
        found = Ledger.read(stored.values())
        assert found.broken is None, f"after {done} writes: {found.broken}"
        mended = found.append([started(), new("Completed")]).ledger
        assert verify(mended.segments) == verify(full.append([started(), new("Completed")]).ledger.segments)
        assert [s.sealed for s in mended.segments] == [True, False], f"after {done} writes"


def test_a_segment_is_what_its_config_map_holds() -> None:
    segment = ledger(started(), *many(11)).segments[0]
    shuffled = dict(reversed(list(segment.data.items())))
    assert Segment.of(0, shuffled) == segment
    assert Segment.of(3, None, sealed=True) == Segment(3, (), True)


def test_names_of_segments_are_told_from_other_names() -> None:
    assert segment_name("shop", 0) == "shop-ledger-0000"
    assert segment_index("shop", "shop-ledger-0012") == 12
    assert segment_index("shop", segment_name("shop", 12345)) == 12345
    for other in (
        "shop-ledger-12",
        "shop-ledger-00012",
        "shop-ledger-",
        "shop-ledger-²",
        "shop-a-ledger-0000",
        "shop",
    ):
        assert segment_index("shop", other) is None, f"{other} is no segment of shop"


# --- verdicts are bound --------------------------------------------------------------------------------------


def test_a_promote_that_is_bound_is_recorded() -> None:
    assert ledger(new("Verdict", verdict(), step="1")).entries[0].body == verdict()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (verdict(step="2"), "about"),
        (verdict(attempt=2), "about"),
        (verdict(change={"revision": OLD, "contractDigest": DIGEST, "worldSnapshot": DIGEST}), "about"),
        (verdict(change={"revision": NEW, "worldSnapshot": DIGEST}), "without contractDigest"),
        (verdict(change={"revision": NEW, "contractDigest": DIGEST}), "without worldSnapshot"),
        (verdict(evidenceDigest=None), "without evidenceDigest"),
        ({"message": "fine"}, "holds the verdict"),
    ],
)
def test_a_promote_that_is_bound_to_something_else_is_refused(body: dict[str, Any], why: str) -> None:
    with pytest.raises(UnboundVerdict, match=why):
        ledger(new("Verdict", body, step="1"))


def test_a_rollback_is_recorded_whatever_it_lacks() -> None:
    assert ledger(new("Verdict", verdict("ROLLBACK", evidenceDigest=None, step="9"), step="1")).entries


# --- verifying ------------------------------------------------------------------------------------------------


def tampered(entries: Ledger, change: dict[str, str | None], index: int = 0) -> list[Segment]:
    segments = list(entries.segments)
    data = {k: v for k, v in (segments[index].data | change).items() if v is not None}
    segments[index] = Segment.of(index, data, sealed=segments[index].sealed)
    return segments


def resealed(entry: Entry, **change: Any) -> str:
    return canonical(json.loads(entry.text) | change).decode()


def test_an_empty_ledger_verifies() -> None:
    assert verify([]).ok
    assert verify([Segment(0)]).head is None


def test_the_first_break_is_named() -> None:
    good = ledger(*many(5))
    entry = good.entries[2]
    cases: dict[str, tuple[dict[str, str | None], str, str]] = {
        "changed": ({"00000002": resealed(entry, late=True)}, "00000003", "the entry before it was changed"),
        "spaced": ({"00000002": entry.text + " "}, "00000002", "not in canonical form"),
        "no JSON": ({"00000002": "…"}, "00000002", "it is no ledger entry"),
        "removed": ({"00000002": None}, "00000003", "entry 00000002 is missing"),
        "copied": ({"00000002": good.entries[1].text}, "00000002", "it says that it is entry 1"),
        "foreign key": ({"note": "hello"}, "note", "entry 00000005 is missing; note stands in its place"),
        "renumbered": (
            {"00000000": resealed(good.entries[0], previous=DIGEST)},
            "00000000",
            "must follow nothing",
        ),
        "no actor": ({"00000002": resealed(entry, actor={})}, "00000002", "actor.kind"),
        "sequence as text": ({"00000002": resealed(entry, sequence="2")}, "00000002", "sequence"),
    }
    for name, (change, where, why) in cases.items():
        broken = verify(tampered(good, change)).broken
        assert broken is not None, f"{name}: not found"
        assert (broken.key, why in broken.why) == (where, True), f"{name}: {broken}"


def test_entries_before_a_break_are_still_there() -> None:
    good = ledger(*many(5))
    result = verify(tampered(good, {"00000003": None}))
    assert result.entries == good.entries[:3]
    assert result.head == Head(0, 2, good.entries[2].digest)


def test_a_missing_segment_is_a_break() -> None:
    good = ledger(*many(300))
    assert [len(s.items) for s in good.segments] == [128, 128, 44]
    for gone in (0, 1):
        broken = verify(s for s in good.segments if s.index != gone).broken
        assert broken is not None, f"segment {gone} is gone and nobody sees it"
        assert f"segment {gone:04d} is missing" in broken.why
    hollow = [s if s.index != 1 else Segment(1, (), True) for s in good.segments]
    assert "is empty, and others follow it" in str(verify(hollow).broken)


def test_an_end_that_was_cut_off_or_rewritten_is_found_by_a_head_seen_before() -> None:
    good = ledger(*many(5))
    seen = good.head
    assert seen == Head(0, 4, good.entries[4].digest)
    cut = tampered(good, {"00000004": None})
    assert verify(cut).ok, "the chain alone can't show it"
    assert "the end was cut off" in str(verify(cut, heads=[seen]).broken)
    rewritten = tampered(good, {"00000004": resealed(good.entries[4], late=True)})
    assert verify(rewritten).ok
    assert "it was changed" in str(verify(rewritten, heads=[seen]).broken)
    assert verify(good.append([started()]).ledger.segments, heads=[seen]).ok, "a ledger that grew is fine"


def test_a_broken_ledger_takes_no_entry_and_says_where() -> None:
    broken = Ledger.read(tampered(ledger(*many(5)), {"00000002": None}))
    with pytest.raises(LedgerBroken, match="segment 0000, entry 00000003: entry 00000002 is missing"):
        broken.append([started()])


def test_an_entry_of_a_later_version_is_kept_and_walked_over() -> None:
    good = ledger(started())
    value = json.loads(good.entries[0].text) | {"witness": "someone"}
    value["key"]["kind"] = "Frozen"
    later = Segment.of(0, {"00000000": canonical(value).decode()})
    result = verify([later])
    assert result.ok
    grown = Ledger.read([later]).append([new("Completed")]).ledger
    assert verify(grown.segments).ok, "the chain goes over the bytes, not over what this version reads"
    assert fold(grown.entries, rollout_uid="u1").keys == {key("Frozen"), key("Completed")}


# --- remembering ------------------------------------------------------------------------------------------------


def back(then: AfterBack) -> NewEntry:
    return new("Back", {"reason": "BreachAbsolute", "message": "too many errors", "then": then}, step="1")


def remembered(*entries: NewEntry, uid: str = "u1") -> Any:
    return fold(ledger(*entries).entries, rollout_uid=uid)


def test_a_wiped_status_loses_nothing_that_a_rollout_goes_on_with() -> None:
    memory = remembered(
        new("Adopted", {"stable": STABLE}, revision=OLD, attempt=0),
        new("Contract", {"name": "shop", "generation": 2, "spec": contract().wire()}, cause=DIGEST),
        started(),
        new("WeightSet", {"weight": 5}, step="0"),
        new("Verdict", verdict("HOLD"), step="1"),
    )
    assert memory.contracts == {DIGEST: contract()}
    assert memory.attempts == {OLD: 0, NEW: 1}
    assert memory.stable.revision == OLD
    assert (memory.open.revision, memory.open.attempt, memory.open.step, memory.open.promoted) == (
        NEW,
        1,
        1,
        False,
    )
    assert memory.open.originals.stable_selector == {"app": "shop"}
    assert memory.open.canary.initiator == "sre-1"
    assert memory.tickets == {(NEW, "1"): frozenset({"success"})}
    assert memory.verdict.reason == "AllChecksPassed"


def test_a_promotion_that_was_recorded_stays_open_until_it_is_complete_or_restored() -> None:
    promoted = [started(), new("Promoted", step="1")]
    assert remembered(*promoted).open.promoted
    assert not remembered(*promoted).open.restoring
    done = remembered(*promoted, new("Completed"))
    assert done.open is None
    assert done.stable.revision == NEW
    restoring = new("Restoring", {"to": STABLE, "message": "5xx"}, cause="BreachAbsolute")
    going = remembered(*promoted, restoring)
    assert going.open.restoring, "a promotion that is taken back must not be finished"
    restored = remembered(*promoted, restoring, new("Restored", {"to": STABLE, "message": "5xx"}))
    assert restored.open is None
    assert restored.stable.revision == OLD
    assert restored.rejected[NEW].message == "5xx"


def test_a_revision_that_was_sent_back_is_rejected_until_a_retry() -> None:
    gone = [started(), back(AfterBack.ROLLED_BACK), new("RolledBack", {"reason": "BreachAbsolute"}, step="1")]
    assert remembered(*gone[:2]).open.back is AfterBack.ROLLED_BACK
    assert remembered(*gone).open is None
    assert remembered(*gone).rejected[NEW].reason == "BreachAbsolute"
    retry = new("Order", {"spec": {"order": "Retry"}}, cause="uid-7")
    assert remembered(*gone, retry).rejected == {}
    abort = new("Order", {"spec": {"order": "Abort"}}, cause="uid-8")
    assert NEW in remembered(*gone, abort).rejected
    assert remembered(*gone, started(attempt=2)).attempts[NEW] == 2


@pytest.mark.parametrize("then", [AfterBack.START, AfterBack.IDLE])
def test_a_superseded_or_reverted_revision_is_not_rejected(then: AfterBack) -> None:
    memory = remembered(started(), back(then), new("RolledBack", {"reason": "Superseded"}, step="1"))
    assert memory.open is None
    assert memory.rejected == {}


def test_an_approval_is_remembered_with_what_it_is_for() -> None:
    spec = {
        "rollout": "shop",
        "rolloutUID": "u1",
        "run": "shop-run",
        "revision": NEW,
        "step": "1",
        "evidenceDigest": DIGEST,
        "decision": "Approve",
        "reviewer": "reviewer-a",
        "reason": "known",
        "expiresAt": "2030-01-02T00:00:00Z",
    }
    review = new("Review", {"name": "r", "spec": spec}, step="1", cause="uid-1")
    (waiver,) = remembered(started(), review).waivers
    assert (waiver.evidence_digest, waiver.reviewer, waiver.expires_at) == (
        DIGEST,
        "reviewer-a",
        T0 + timedelta(days=1),
    )
    rejected = new("Review", {"name": "r", "spec": spec | {"decision": "Reject"}}, step="1", cause="uid-2")
    assert remembered(started(), rejected).waivers == ()


def test_a_rollout_made_anew_under_the_same_name_goes_on_counting_and_forgets_the_rest() -> None:
    entries = [started(), new("Promoted"), new("Completed"), started(attempt=2, revision="3333333333")]
    memory = remembered(*entries, uid="another")
    assert memory.attempts == {NEW: 1, "3333333333": 2}
    assert (memory.open, memory.keys, memory.stable) == (None, frozenset(), None)


def test_an_entry_about_another_attempt_does_not_change_the_open_one() -> None:
    memory = remembered(started(attempt=2), new("Promoted", attempt=1), back(AfterBack.ROLLED_BACK))
    assert not memory.open.promoted
    assert memory.open.back is None


def test_an_entry_that_lacks_what_it_is_for_is_named() -> None:
    with pytest.raises(LedgerContentError, match=r"entry 0 \(Started\) can't be read: its stable is missing"):
        remembered(new("Started", {}))
    with pytest.raises(LedgerContentError, match=r"stable\.replicas"):
        remembered(new("Adopted", {"stable": {"revision": OLD, "podTemplateHash": "x"}}))


def test_every_kind_of_entry_can_be_recorded_and_walked_over() -> None:
    bodies: dict[str, dict[str, Any]] = {
        "Adopted": {"stable": STABLE},
        "Contract": {"spec": contract().wire()},
        "Started": started().body,  # type: ignore[dict-item]
        "Verdict": verdict(),
        "Breach": verdict("ROLLBACK"),
        "Blocked": verdict("HOLD"),
        "Order": {"spec": {"order": "Abort"}},
        "Escalated": {"at": "2030-01-01T00:15:00Z"},
        "Restored": {"to": STABLE},
    }
    del bodies["Verdict"]["verdict"]["checks"]
    entries = [new(kind, bodies.get(kind), step="1") for kind in EntryKind if kind != "Review"]
    written = ledger(*entries)
    assert verify(written.segments).ok
    assert len(fold(written.entries, rollout_uid="u1").keys) == len(entries)
