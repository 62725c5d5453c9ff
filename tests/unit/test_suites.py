"""Pushed result files become windows; what is not counted is said, and never an exception."""

import base64
import gzip
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewright_analysis.evidence.model import Cluster, Counts, Fault, JudgeIdentity, Window
from gatewright_analysis.evidence.pushed import Found, found
from gatewright_analysis.evidence.record import CheckRecord
from gatewright_analysis.evidence.suites import Suite, drift, wanted
from gatewright_analysis.judge import CheckEvidence, judge
from gatewright_analysis.kinds.run import ArmRef, GateRunSpec, ImageRef, RunClock
from gatewright_analysis.reasons import Reason
from gatewright_analysis.results import EvidenceRecord, pack
from gatewright_analysis.task import CheckTask, Prior
from gatewright_analysis.verdict import CheckResult, CheckStatus
from tests import judging

T0 = 1_000.0
MINE, PROXY, OTHER = (f"sha256:{letter * 64}" for letter in "abc")
DIGESTS = iter(range(10**9))


def spec(world: dict[str, str] | None = None, images: tuple[ImageRef, ...] | None = None) -> GateRunSpec:
    two = (
        ImageRef(container="app", image="shop/checkout:v2", digest=f"docker-pullable://shop/checkout@{MINE}"),
        ImageRef(container="proxy", image=f"mesh/proxy@{PROXY}"),
    )
    return GateRunSpec.model_validate(
        {
            "rollout": "checkout",
            "rollout_uid": "u",
            "revision": "0123456789",
            "step": "1",
            "weight": 50,
            "attempt": 1,
            "stage": "Canary",
            "contract": "checkout",
            "contract_generation": 1,
            "contract_digest": MINE,
            "world_snapshot": MINE,
            "images": two if images is None else images,
            "world": world or {},
            "checks": ["faithfulness"],
            "clock": RunClock.model_validate(
                {
                    "starts_at": "2026-01-01T00:00:00Z",
                    "weight_at": "2026-01-01T00:00:00Z",
                    "duration": "10m",
                    "max_duration": "20m",
                    "window": "30s",
                    "interval": "10s",
                }
            ),
            "canary": ArmRef(pod_prefix="checkout-canary-"),
            "e_processes": 1,
        }
    )


def task(kind: str = "samples", **fields: Any) -> CheckTask:
    given_ = {
        "id": "faithfulness",
        "oracleKind": "Sampled",
        "limit": None if kind == "paired" else {"minGoodRatio": 0.9},
        "evidence": [{"stages": ["Canary"], kind: {"source": "results", "suite": "s"}}],
    } | fields
    prior = given_.pop("prior", ())
    return judging.task({k: v for k, v in given_.items() if v is not None}, prior=prior)


def record(items: list[list[Any]], kind: str = "samples", **fields: Any) -> EvidenceRecord:
    """A record of items `[cluster number, …]`, about the image that is judged and nothing else."""
    spelled = sorted([f"{item[0]:016x}", *item[1:]] for item in items)
    scored = {
        "samples": lambda i: i[1] + i[2],
        "scores": lambda i: i[1],
        "pairs": lambda i: i[1] + i[2] + i[3],
    }
    missing = fields.pop("missing", sum(item[-1] for item in items))
    given_ = {
        "suite": "s",
        "kind": kind,
        "tool": {"name": "jsonl"},
        "source": {"name": "f", "digest": f"sha256:{next(DIGESTS):064x}", "bytes": 1},
        "subject": {"images": [MINE]},
        "judge": {"id": "judge-x", "version": "3"},
        "expected": sum(scored[kind](item) for item in items) + missing,
        "missing": missing,
        "items": spelled,
    }
    return EvidenceRecord.model_validate(given_ | fields)


def good(count: int = 60, first: int = 0, **fields: Any) -> EvidenceRecord:
    return record([[first + n, 1, 0, 0] for n in range(count)], **fields)


def pushed(own: EvidenceRecord, at: float = -5.0, name: str = "") -> Found:
    """As it comes out of its ConfigMap, created `at` seconds after t0."""
    packed = pack(own)
    return found(name or f"evidence-s-{packed.digest[7:19]}", T0 + at, "s", packed.digest, packed.data)


def suite(asked: CheckTask | None = None, run: GateRunSpec | None = None, room: int = 40_000) -> Suite:
    return Suite(
        wanted(asked or task(), run or spec(), "shop"), t0=T0, window=judging.WINDOW, most_clusters=room
    )


def seen(*files: Found, **options: Any) -> Suite:
    made = suite(**options)
    for file in files:
        made.see(file)
    return made


def closed(made: Suite, count: int = 3) -> list[Window]:
    return [made.close(index) for index in range(count)]


def judged(made: Suite, asked: CheckTask | None = None) -> CheckResult:
    windows = closed(made, 40)
    evidence = CheckEvidence(tuple(windows), fault=made.fault(), judge=made.judge, seed=made.seed)
    return judge(asked or task(), evidence, judging.at(judging.MAX_DURATION))


def fault(made: Suite) -> Fault:
    closed(made)
    said = made.fault()
    assert said is not None
    return said


class TestWindows:
    def test_a_file_is_in_the_window_of_its_creation_and_older_ones_in_the_first(self) -> None:
        files = [pushed(good(10, first=100 * n), at) for n, at in enumerate((-9000, 30, 31, 89))]
        windows = closed(seen(*files))
        assert [window.canary for window in windows] == [Counts(20, 0), Counts(10, 0), Counts(10, 0)]
        assert all(window.fault is None for window in windows)

    @given(st.permutations(range(5)), st.integers(0, 4))
    def test_the_same_files_give_the_same_windows_in_any_order_and_after_a_restart(
        self, order: list[int], late: int
    ) -> None:
        again, windows, waiting = plain(), [], list(order)
        for index in range(3):
            # Each is seen at the latest when its window is closed; some are seen before that.
            for n in list(waiting):
                if PUSHED[n].created - T0 <= (index + 1) * judging.WINDOW or order.index(n) < late:
                    again.see(PUSHED[n])
                    waiting.remove(n)
            windows.append(again.close(index))
        assert windows == WHOLE

    def test_samples_keep_their_items_and_what_is_missing(self) -> None:
        made = seen(pushed(record([[1, 2, 1, 0], [2, 0, 1, 1]], missing=4)))
        [window, *_] = closed(made)
        assert (window.canary, window.missing) == (Counts(2, 2), 4)
        assert window.clusters == (Cluster(f"{1:016x}", 2, 1, 0), Cluster(f"{2:016x}", 0, 1, 1))

    def test_pairs_of_equals_are_no_items(self) -> None:
        made = seen(
            pushed(record([[1, 2, 1, 0, 0], [2, 0, 0, 5, 0], [3, 0, 0, 1, 1]], "pairs")), asked=task("paired")
        )
        [window, *_] = closed(made)
        assert (window.canary, window.missing) == (Counts(2, 1), 1)
        assert [own.key[-1] for own in window.clusters] == ["1", "3"]

    def test_the_mean_of_an_item_is_one_score_and_what_it_lacks_counts_as_zero(self) -> None:
        items = [[1, 2, 1.5, 0], [2, 2, 1.8, 1], [3, 0, 0, 2]]
        made = seen(pushed(record(items, "scores", missing=4)), asked=task("scores"))
        [window, *_] = closed(made)
        assert window.scores == (0.75, 0.6)
        # A third of an item, a whole one, and one that nobody knows.
        assert window.missing == 3

    def test_a_second_score_of_an_item_is_no_second_item(self) -> None:
        scores = [[n, 1, 0.9, 0] for n in range(10)]
        made = seen(
            pushed(record(scores, "scores"), -5), pushed(record([*scores[5:], [50, 1, 0.5, 0]], "scores"), 10),
            asked=task("scores"),
        )  # fmt: skip
        assert [len(window.scores) for window in closed(made)] == [11, 0, 0]


FIXED = [good(10, first=100 * n) for n in range(5)]
PUSHED = [pushed(FIXED[n], at) for n, at in enumerate((-10, -10, 10, 40, 80))]
WANTED = wanted(task(), spec(), "shop")


def plain(*files: Found) -> Suite:
    made = Suite(WANTED, t0=T0, window=judging.WINDOW, most_clusters=40_000)
    for file in files:
        made.see(file)
    return made


WHOLE = closed(plain(*PUSHED))


class TestWhatCounts:
    def test_it_passes_with_who_judged_it(self) -> None:
        result = judged(seen(pushed(good(60, seed=7))))
        assert result.status is CheckStatus.PASS
        assert result.message.endswith("; judged by judge-x 3, an uncalibrated judge.")
        assert result.statistics is not None
        assert result.statistics.seed == 7

    def test_a_calibrated_judge_is_named_and_no_more(self) -> None:
        asked = task(calibration={"passedGood": 900, "failedGood": 10, "passedBad": 2, "failedBad": 800})
        assert judged(seen(pushed(good(400)), asked=asked), asked).message.endswith("; judged by judge-x 3.")

    @pytest.mark.parametrize(
        ("images", "counts"),
        [
            ([MINE], True),
            ([PROXY], True),
            ([MINE, PROXY], True),
            ([MINE, OTHER], False),
            ([OTHER], False),
            ([], False),
        ],
    )
    def test_every_image_that_it_names_is_one_of_those_that_run(
        self, images: list[str], counts: bool
    ) -> None:
        made = seen(pushed(good(subject={"images": sorted(images)})))
        closed(made)
        assert bool(made.files) is counts

    @pytest.mark.parametrize(
        ("declared", "runs", "counts"),
        [
            ({}, {}, True),
            ({"model": "m1"}, {"model": "m1"}, True),
            ({"model": "m1"}, {"model": "m2"}, False),
            ({"model": "m1"}, {}, False),
            ({}, {"model": "m1"}, False),
            ({"model": "m1"}, {"model": "m1", "prompt": "p"}, False),
        ],
    )
    def test_its_world_is_exactly_the_declared_one(
        self, declared: dict[str, str], runs: dict[str, str], counts: bool
    ) -> None:
        own = good(subject={"images": [MINE], "world": declared})
        made = seen(pushed(own), run=spec(runs))
        closed(made)
        assert bool(made.files) is counts

    def test_the_same_record_and_the_same_file_count_once(self) -> None:
        own = good(60)
        other_way = good(60, first=500, source=own.source.wire(), subject={"images": [MINE, PROXY]})
        made = seen(pushed(own, -5), pushed(own, -4, "copy"), pushed(other_way, 10))
        assert [window.canary.n for window in closed(made)] == [60, 0, 0]
        assert made.files == (own.digest, own.source.digest)

    def test_what_earlier_attempts_counted_is_left_out_and_said(self) -> None:
        own = good(60)
        stored = CheckRecord(
            windows=(Window(0, Counts(60, 0)),), files=(own.digest, own.source.digest),
            judge=JudgeIdentity("judge-x", "3"),
        )  # fmt: skip
        asked = task(prior=(Prior.of(stored, ticket_used=True, run="run-1"),))
        made = seen(pushed(own), asked=asked)
        result = judged(made, asked)
        assert (result.status, result.reason) == (CheckStatus.INCONCLUSIVE, Reason.NO_RESULT_FILE)
        assert "1 file of the suite s was counted before" in result.message
        more = seen(pushed(own), pushed(good(10, first=900)), asked=asked)
        assert closed(more)[0].canary == Counts(10, 0)

    def test_only_as_many_items_count_as_the_stored_evidence_has_room_for(self) -> None:
        made = seen(pushed(good(60), -9), pushed(good(60, first=100), -5), room=100)
        assert closed(made)[0].canary.n == 60
        said = made.fault()
        assert said is not None
        assert "its 60 items are more than there is room for" in said.detail


class TestNothing:
    def test_the_sentence_is_the_command(self) -> None:
        result = judged(suite(run=spec({"model": "m1"})))
        assert (result.status, result.reason) == (CheckStatus.INCONCLUSIVE, Reason.NO_RESULT_FILE)
        command = f"gatewright evidence push FILE --suite s --image shop/checkout:v2@{MINE} --world model=m1 -n shop"
        assert f"`{command}`" in result.message

    def test_before_the_deadline_it_is_pending_with_the_same_sentence(self) -> None:
        evidence = CheckEvidence(tuple(closed(suite())), fault=fault(suite()))
        result = judge(task(), evidence, judging.at(100))
        assert result.status is CheckStatus.PENDING
        assert "gatewright evidence push FILE --suite s" in result.message

    def test_what_was_found_instead_is_said(self) -> None:
        files = [
            pushed(good(subject={"images": [OTHER]})), pushed(good(61, subject={"images": [OTHER]})),
            pushed(good(subject={"images": [MINE], "world": {"model": "m2"}})),
            pushed(record([[1, 1, 0.5, 0]], "scores")),
        ]  # fmt: skip
        said = fault(seen(*files)).detail
        assert f"2 files of the suite s speak of another image: {OTHER[:19]}…" in said
        assert (
            "1 file of the suite s speaks of another world: model=m2 (the pod template declares nothing)"
            in said
        )
        assert "1 file of the suite s holds another kind than samples: scores" in said

    def test_without_any_digest_of_an_image_nothing_can_count(self) -> None:
        tag = (ImageRef(container="app", image="shop/checkout:v2"),)
        said = fault(seen(pushed(good()), run=spec(images=tag)))
        assert "pin the images by digest" in said.detail

    def test_files_that_were_not_looked_at_are_said(self) -> None:
        made = suite()
        closed(made)
        said = made.fault(unread=3)
        assert said is not None
        assert "3 files older than the newest were not read" in said.detail


class TestDamage:
    @pytest.mark.parametrize(
        ("digest", "data", "part"),
        [
            (None, "aGVsbG8=", "no digest"),
            (MINE, None, "no record"),
            (MINE, 5, "no record"),
            (MINE, "not base64!", "no gzip"),
            (MINE, "aGVsbG8=", "no gzip"),
            (MINE, pack(FIXED[0]).data, "another digest"),
            (MINE, "A" * 900_001, "900,001 bytes"),
            (MINE, "ä", "no gzip"),
        ],
    )
    def test_a_file_that_can_not_be_read_is_named_and_others_count(
        self, digest: object, data: object, part: str
    ) -> None:
        made = seen(found("foreign", T0, "s", digest, data), pushed(good(60)))
        assert closed(made)[0].canary == Counts(60, 0)
        said = made.fault()
        assert said is not None
        assert said.reason is Reason.RESULT_FILE_DAMAGED
        assert said.detail.startswith("ConfigMap foreign can't be used: ")
        assert part in said.detail
        assert (
            judged(seen(found("foreign", T0, "s", digest, data), pushed(good(60)))).status is CheckStatus.PASS
        )

    def test_a_record_spelled_otherwise_is_not_another_record(self) -> None:
        plain = json.dumps(good(60).wire(), indent=1).encode()

        digest = f"sha256:{hashlib.sha256(plain).hexdigest()}"
        one = found("x", T0, "s", digest, base64.b64encode(gzip.compress(plain)).decode())
        assert "not in the one form" in one.damage

    def test_the_label_of_another_suite_is_no_way_in(self) -> None:
        packed = pack(good(suite="another"))
        assert (
            "its label says suite s, and its record another"
            in found("x", T0, "s", packed.digest, packed.data).damage
        )

    def test_more_verdicts_than_anybody_can_vouch_for(self) -> None:
        packed = pack(record([[1, 10**12, 0, 0]]))
        assert "up to 10,000,000 are read" in found("x", T0, "s", packed.digest, packed.data).damage


class TestJudges:
    def test_two_judges_hold_whatever_they_found(self) -> None:
        first, second = good(60), good(60, first=100, judge={"id": "judge-x", "version": "4"})
        result = judged(seen(pushed(first, -9, "one"), pushed(second, -5, "two")))
        assert (result.status, result.reason) == (CheckStatus.INCONCLUSIVE, Reason.WORLD_DRIFTED)
        assert "ConfigMap one is judged by judge-x 3, and ConfigMap two by judge-x 4" in result.message

    def test_a_judge_that_drifts_after_the_pass_holds_too(self) -> None:
        second = good(60, first=100, judge={"id": "judge-x", "version": "3", "fingerprint": "fp"})
        result = judged(seen(pushed(good(60)), pushed(second, 1100)))
        assert result.reason == Reason.WORLD_DRIFTED

    def test_a_file_without_a_judge_is_of_no_judge_that_others_name(self) -> None:
        made = seen(pushed(good(60, judge=None), -9), pushed(good(60, first=100), -5))
        assert fault(made).reason is Reason.WORLD_DRIFTED

    def test_the_judge_of_earlier_attempts_is_the_one(self) -> None:
        stored = CheckRecord(
            windows=(Window(0, Counts(60, 0)),), files=(MINE,), judge=JudgeIdentity("judge-x", "2")
        )
        made = seen(pushed(good(60)), asked=task(prior=(Prior.of(stored, ticket_used=False, run="run-1"),)))
        assert "an earlier attempt is judged by judge-x 2" in fault(made).detail

    def test_what_an_attempt_saw_while_its_judge_drifted_is_void(self) -> None:
        drifted = Fault(Reason.WORLD_DRIFTED, "two judges")
        stored = CheckRecord(windows=(Window(0, Counts(60, 0)),), files=(MINE,), fault=drifted)
        assert Prior.of(stored, ticket_used=True, run="run-1") == Prior((), ticket_used=True, run="run-1")

    def test_no_drift_no_sentence(self) -> None:
        assert drift(JudgeIdentity("j"), "x", JudgeIdentity("j"), "y") == ""


def test_unknown_missing_verdicts_lower_the_bound_of_repeated_items() -> None:
    """60 items of five samples; 14 verdicts more should be there, and nobody knows of which item."""
    items = [[n, 5, 0, 0] for n in range(60)]
    whole, short = (judged(seen(pushed(record(items, missing=missing)))) for missing in (0, 14))
    assert whole.ci_lower is not None
    assert short.ci_lower is not None
    assert short.ci_lower < whole.ci_lower - 0.02
    assert whole.status is CheckStatus.PASS
