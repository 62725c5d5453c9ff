"""Models and judges by their fingerprints: what an answer says, and whether two worlds are the same."""

import math
from typing import Any

import pytest

from gatewright_analysis.evidence.fingerprints import fingerprint_question, read_fingerprint
from gatewright_analysis.evidence.model import Clock, Fault
from gatewright_analysis.evidence.question import Answer, Answered, Sample, Series, labels_of
from gatewright_analysis.evidence.record import RunRecord, read, write
from gatewright_analysis.kinds.policy import Fingerprint
from gatewright_analysis.ledger import canonical, world_snapshot
from gatewright_analysis.providers.fake import FakeReader
from gatewright_analysis.reasons import Reason
from gatewright_analysis.world import MAX_VALUE_CHARS, drift, fingerprint_value, judge_fingerprint

NOW = 1_700_000_000.0
SCRAPE = 5.0
JUDGE = Fingerprint(
    name="judge-model", source="prometheus", series='judge_info{team="q"}', labels=("version", "model")
)


def series(*, at: float = NOW - 1, value: float = 1.0, **labels: str) -> Series:
    metric = {"__name__": "judge_info", "model": "j-1", "version": "3", "instance": "a:1"} | labels
    return Series(labels_of(metric), (Sample(at - SCRAPE, 1.0), Sample(at, value)))


def found(*answer: Series) -> str | Fault:
    return read_fingerprint(JUDGE, SCRAPE, NOW, Answered(answer))


def reason(*answer: Series) -> Reason:
    fault = found(*answer)
    assert isinstance(fault, Fault), f"this is no fingerprint, but it was read as {fault}"
    assert fault.detail.startswith("judge-model can't be read: "), fault.detail
    return fault.reason


def test_the_selector_is_asked_as_it_stands() -> None:
    question = fingerprint_question(JUDGE, SCRAPE, NOW)
    assert (question.source, question.query) == ("prometheus", 'judge_info{team="q"}[50000ms]')
    assert (question.start, question.time) == (NOW - 50, NOW)


def test_the_value_is_the_labels_that_were_named_sorted() -> None:
    assert found(series(other="x")) == "model=j-1,version=3"


def test_several_series_with_the_same_values_are_one() -> None:
    assert found(series(instance="a:1"), series(instance="b:1"), series(pod="j-2")) == "model=j-1,version=3"


def test_series_with_different_values_at_once_are_none() -> None:
    assert reason(series(), series(version="4", instance="b:1")) is Reason.UNEXPECTED_SERIES
    assert reason(series(), series(version="4")) is Reason.UNEXPECTED_SERIES, "one scrape told two versions"


def test_a_series_that_its_target_replaced_by_another_is_over() -> None:
    assert found(series(at=NOW - SCRAPE), series(version="4")) == "model=j-1,version=4"


def test_a_target_that_is_gone_counts_until_two_scrapes_have_passed() -> None:
    gone = series(at=NOW - 2 * SCRAPE, instance="a:1")
    assert reason(gone, series(version="4", instance="b:1")) is Reason.UNEXPECTED_SERIES
    gone = series(at=NOW - 2 * SCRAPE - 0.1, instance="a:1")
    assert found(gone, series(version="4", instance="b:1")) == "model=j-1,version=4"


def test_a_newest_sample_older_than_two_scrapes_is_stale() -> None:
    assert found(series(at=NOW - 2 * SCRAPE)) == "model=j-1,version=3"
    assert reason(series(at=NOW - 2 * SCRAPE - 0.1)) is Reason.STALE


def test_no_series_is_no_value() -> None:
    assert reason() is Reason.NO_DATA
    assert reason(Series(labels_of({"model": "j-1", "version": "3"}), ())) is Reason.STALE


def test_a_label_that_is_absent_or_empty_is_a_fault_that_names_it() -> None:
    bare = Series(labels_of({"__name__": "judge_info", "model": "j-1"}), (Sample(NOW, 1.0),))
    for answer in (bare, series(version="")):
        fault = found(answer)
        assert isinstance(fault, Fault)
        assert "has no label version" in fault.detail
        assert fault.reason is Reason.UNEXPECTED_SERIES


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (math.nan, Reason.NOT_A_NUMBER),
        (math.inf, Reason.WRONG_RESULT_TYPE),
        (0.0, Reason.WRONG_RESULT_TYPE),
        (3.0, Reason.WRONG_RESULT_TYPE),
    ],
)
def test_what_is_not_1_is_no_info_metric(value: float, wanted: Reason) -> None:
    assert reason(series(value=value)) is wanted


def test_a_value_that_cannot_be_kept_is_a_fault() -> None:
    assert reason(series(version="x" * MAX_VALUE_CHARS)) is Reason.TOO_LARGE


def test_a_fault_of_the_source_is_handed_on_with_the_name() -> None:
    answer: Answer = Fault(Reason.TIMEOUT, "the source gave no answer within 5 s")
    fault = read_fingerprint(JUDGE, SCRAPE, NOW, answer)
    assert fault == Fault(Reason.TIMEOUT, "judge-model can't be read: the source gave no answer within 5 s")


def test_a_source_answers_the_question() -> None:
    source = FakeReader()
    for ago, version in ((SCRAPE, "3"), (1.0, "4")):
        labels = {"team": "q", "model": "j-1", "version": version, "instance": "a:1"}
        source.put("judge_info", labels, NOW - ago, 1.0)
    source.put("judge_info", {"team": "other", "model": "k", "version": "9"}, NOW - 1, 1.0)
    answer = source.read(fingerprint_question(JUDGE, SCRAPE, NOW))
    assert read_fingerprint(JUDGE, SCRAPE, NOW, answer) == "model=j-1,version=4"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": "x,b=1", "b": "2"}, {"a": "x", "b": "1,b=2"}),
        ({"a": "x\\", "b": "1"}, {"a": "x", "b": "\\1"}),
        ({"a": "x\\,b=1"}, {"a": "x,b=1"}),
        ({"a": "x\n"}, {"a": "x\\u{a}"}),
        ({"a": "\ud800"}, {"a": "\\u{d800}"}),
        ({"a": ""}, {"b": ""}),
    ],
)
def test_different_labels_never_look_the_same(one: dict[str, str], other: dict[str, str]) -> None:
    assert fingerprint_value(one) != fingerprint_value(other)
    fingerprint_value(one).encode()


def test_nothing_has_drifted_where_the_values_are_the_same() -> None:
    assert drift({"judge": "v=3", "llm": "v=1"}, {"llm": "v=1", "judge": "v=3"}) == ""


def test_what_is_not_known_at_present_has_not_drifted() -> None:
    assert drift({"judge": "v=3"}, {}) == ""
    assert drift({}, {"judge": "v=4"}) == "", "what was never pinned binds nothing"


def test_what_drifted_is_said_with_both_values_and_what_to_do() -> None:
    assert drift({"judge-model": "model=j-1,version=3"}, {"judge-model": "model=j-1,version=4"}) == (
        "judge-model was model=j-1,version=3 when the attempt began and is model=j-1,version=4 now, although nothing "
        "was deployed: what was judged before speaks of another world; a Retry judges anew."
    )


def test_a_sentence_about_many_long_values_fits_and_still_says_what_to_do() -> None:
    names = [f"model-{n:057}" for n in range(16)]
    told = drift(dict.fromkeys(names, "a" * 512), dict.fromkeys(names, "b" * 512))
    assert len(told) <= 1024
    assert "; and 13 more, although nothing was deployed" in told
    assert told.endswith("a Retry judges anew.")


def test_the_judges_of_a_result_file_are_one_value_whatever_their_order() -> None:
    assert judge_fingerprint([("j", "4")]) == "id=j,version=4"
    assert judge_fingerprint([("k", "1"), ("j", "4"), ("j", "4")]) == "id=j,version=4;id=k,version=1"
    assert judge_fingerprint([]) == judge_fingerprint([("", "")]) == ""
    assert judge_fingerprint([("j", "4;id=k,version=1")]) != judge_fingerprint([("j", "4"), ("k", "1")])
    assert judge_fingerprint([("j", "4")]) != judge_fingerprint([("j", "5")])


def test_another_fingerprint_is_another_world_snapshot() -> None:
    images = [("app", "sha256:" + "a" * 64)]
    snapshots = [
        world_snapshot(images, fingerprints)
        for fingerprints in ([], [("judge", "v=3")], [("judge", "v=4")], [("other", "v=3")])
    ]
    assert len(set(snapshots)) == 4


def test_a_record_keeps_what_was_known_of_the_world() -> None:
    known: dict[str, Any] = {
        "drifted": "judge was 3 and is 4",
        "world_unknown": Fault(Reason.STALE, "too old"),
    }
    record = RunRecord(
        run="checkout-1", stage="Canary", clock=Clock(1.0, 2.0, 3.0, 1.0), e_processes=1, has_stable=True,
        last_gate=True, on_inconclusive="Hold", **known,
    )  # fmt: skip
    assert read(canonical(write(record))) == record
