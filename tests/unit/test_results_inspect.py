"""Logs of Inspect become records: which value counts as what, and which logs are no evidence."""

import json
import math
import zipfile
from typing import Any

import pytest

from gatewright_analysis.results import ImportProblem, Judge, RecordKind, Revision, Tool
from tests.unit.result_files import by_value, changed, content, record_of, record_of_bytes, repacked

LOG, LIMITED, GRADED = "inspect/refunds.eval", "inspect/refunds-limited.json", "inspect/graded.json"
IDS = tuple(f"refund-{number}" for number in range(1, 6))


def test_letters_count_as_scores_and_an_error_is_missing() -> None:
    record = record_of(LOG, scorer="letters", kind=RecordKind.SCORES)
    assert by_value(record, *IDS) == {
        "refund-1": (2, 2.0, 0),  # C C
        "refund-2": (2, 1.0, 0),  # C I
        "refund-3": (2, 0.5, 0),  # P N
        "refund-4": (2, 0.0, 0),  # I I
        "refund-5": (1, 1.0, 1),  # C, and an error
    }
    assert (record.expected, record.missing, record.clusters) == (10, 1, 5)


def test_half_a_letter_is_no_sample_and_the_way_out_is_named() -> None:
    with pytest.raises(
        ImportProblem, match=r"score 0.5 is neither 0 nor 1: import the file with --kind scores"
    ) as problem:
        record_of(LOG, scorer="letters")
    assert problem.value.where == "samples/refund-3_epoch_1.json"


def test_true_and_false_count_and_a_sample_without_the_score_is_missing() -> None:
    record = record_of(LOG, scorer="passed")
    assert record.kind is RecordKind.SAMPLES
    assert by_value(record, *IDS) == {
        "refund-1": (2, 0, 0),
        "refund-2": (1, 1, 0),
        "refund-3": (0, 1, 1),
        "refund-4": (0, 2, 0),
        "refund-5": (1, 0, 1),
    }


def test_numbers_stay_as_they_are_and_nan_is_missing() -> None:
    record = record_of(LOG, scorer="rubric", kind=RecordKind.SCORES)
    items = by_value(record, *IDS)
    assert items["refund-4"] == (1, 0.1, 1)
    assert items["refund-1"] == (2, 1.8, 0)
    assert (record.expected, record.missing) == (10, 2)
    assert math.isclose(record.total_of_scores, 4.4)


def test_one_value_of_a_scorer_that_gives_several() -> None:
    record = record_of(LOG, scorer="both.correct")
    assert by_value(record, *IDS)["refund-2"] == (1, 1, 0)
    assert record_of(LOG, scorer="both.polite").bad == 0


def test_several_scores_must_be_chosen_and_the_choices_are_named() -> None:
    with pytest.raises(
        ImportProblem,
        match=r"choose one with --scorer: 'both.correct', 'both.polite', 'letters', 'passed', 'rubric'",
    ):
        record_of(LOG)
    with pytest.raises(ImportProblem, match=r"No sample has a score 'tone'. There are: 'both.correct'"):
        record_of(LOG, scorer="tone")


def test_a_grade_that_was_not_found_is_missing_and_the_judge_is_named() -> None:
    record = record_of(GRADED)
    assert by_value(record, *IDS) == {"refund-1": (1, 0, 0), "refund-2": (0, 1, 0), "refund-3": (0, 0, 1)}
    assert record.judge == Judge(id="mockllm/grader")


def test_samples_cluster_by_their_metadata() -> None:
    record = record_of(LOG, scorer="passed", cluster_by="conversation")
    assert by_value(record, "a", "b", "c") == {"a": (3, 1, 0), "b": (0, 3, 1), "c": (1, 0, 1)}
    with pytest.raises(ImportProblem, match=r"has no 'customer' in its metadata"):
        record_of(LOG, scorer="passed", cluster_by="customer")


def test_the_record_says_tool_time_and_commit() -> None:
    record = record_of(LOG, scorer="passed")
    assert record.tool == Tool(name="inspect", version="0.3.285")
    assert record.created_at is not None
    assert record.revision is not None and record.revision.dirty is False
    assert len(record.revision.commit) == 7


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_without_zstandard_says_the_same(compression: int) -> None:
    data = repacked(LOG, compression=compression)
    assert record_of_bytes(data, scorer="passed").items == record_of(LOG, scorer="passed").items


def test_an_older_log_says_nan_where_a_score_is_missing() -> None:
    """Also the only file that Inspect itself compressed with Deflate."""
    ids = ("refund-1", "refund-2", "refund-3")
    assert by_value(record_of("inspect/older.eval", scorer="letters"), *ids) == {
        "refund-1": (2, 0, 0),
        "refund-2": (1, 1, 0),
        "refund-3": (0, 2, 0),
    }
    rubric = record_of("inspect/older.eval", scorer="rubric", kind=RecordKind.SCORES)
    assert by_value(rubric, *ids)["refund-3"] == (1, 0.5, 1)
    assert rubric.tool.version == "0.3.100"


def test_a_mean_that_is_nan_without_a_missing_score_is_refused() -> None:
    def put(log: Any) -> None:
        log["results"]["scores"][2]["metrics"]["accuracy"]["value"] = math.nan

    with pytest.raises(ImportProblem, match=r"The log says nan, and its samples have 0\.75"):
        record_of_bytes(changed(LIMITED, put), scorer="passed")


def test_the_commit_must_be_the_one_asked_for() -> None:
    revision = record_of(LOG, scorer="passed").revision
    assert revision is not None
    whole = revision.commit + "0" * (40 - len(revision.commit))
    for same in (revision.commit, whole, whole.upper()):
        assert record_of(LOG, scorer="passed", revision=same).revision == revision
    for other in ("0123456", "f" * 40, revision.commit[:6], "main"):
        with pytest.raises(ImportProblem, match=f"The log is of commit '{revision.commit}', not of {other}"):
            record_of(LOG, scorer="passed", revision=other)


@pytest.mark.parametrize("dirty", [True, None])
def test_a_tree_with_changes_is_not_the_commit(dirty: bool | None) -> None:
    def soiled(log: Any) -> None:
        log["eval"]["revision"] |= {"dirty": dirty, "commit": "0123456"}

    data = changed(LIMITED, soiled)
    assert record_of_bytes(data, scorer="passed").revision == Revision(commit="0123456", dirty=dirty)
    with pytest.raises(ImportProblem, match=r"changes that are not in 0123456789: evaluate a clean checkout"):
        record_of_bytes(data, scorer="passed", revision="0123456789")


def test_a_log_without_a_commit_is_none_of_a_commit() -> None:
    data = changed(LIMITED, lambda log: log["eval"].pop("revision"))
    with pytest.raises(ImportProblem, match=r"The log names no commit"):
        record_of_bytes(data, scorer="passed", revision="0123456789")
    assert record_of_bytes(data, scorer="passed").revision is None


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("inspect/refunds-failed.json", "The run ended as 'error', and only a successful one is evidence"),
        ("inspect/refunds-invalidated.json", "Samples of the log were invalidated"),
        ("inspect/refunds-invalidated.eval", "Samples of the log were invalidated"),
        ("inspect/refunds-edited.eval", "The score was edited after the run"),
        ("inspect/refunds-edited-only.json", "The score was edited after the run"),
        ("inspect/refunds-tagged.json", "The log was edited after the run"),
    ],
)
def test_a_log_that_is_not_as_a_good_run_left_it_is_refused(name: str, sentence: str) -> None:
    with pytest.raises(ImportProblem, match=sentence):
        record_of(name, scorer="letters", kind=RecordKind.SCORES)


def test_a_sample_stays_invalid_when_the_log_forgets_to_say_so() -> None:
    data = changed("inspect/refunds-invalidated.json", lambda log: log.update(invalidated=False))
    with pytest.raises(ImportProblem, match=r"The sample was invalidated"):
        record_of_bytes(data, scorer="passed")


def test_an_edit_shows_in_the_events_without_its_history() -> None:
    def forgetful(log: Any) -> None:
        for sample in log["samples"]:
            for score in sample["scores"].values():
                score["history"] = []

    with pytest.raises(ImportProblem, match=r"A score was edited after the run"):
        record_of_bytes(changed("inspect/refunds-edited-only.json", forgetful), scorer="passed")


def test_a_score_that_was_overwritten_no_longer_agrees_with_the_metrics() -> None:
    def overwritten(log: Any) -> None:
        log["samples"][3]["scores"]["letters"]["value"] = "C"

    with pytest.raises(
        ImportProblem, match=r"The log says 0\.75, and its samples have 1: a score was changed"
    ):
        record_of_bytes(changed(LIMITED, overwritten), scorer="letters")


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("results", "total_samples"), 6, "The log speaks of 6 samples, and its data set makes 4"),
        (
            ("results", "completed_samples"),
            3,
            "4 samples of the log are without an error, where it counted 3",
        ),
        (
            ("eval", "dataset", "sample_ids"),
            ["refund-1"],
            "The log speaks of 4 samples, and its data set makes 2",
        ),
        (("results", "scores", 2, "scored_samples"), 1, "The log counts 1 scored samples, and 2 are"),
        (
            ("results", "scores", 2, "metrics", "accuracy", "value"),
            0.9,
            "The log says 0.9, and its samples have 0.75",
        ),
        (("version",), 1, "Logs of version 2 are understood"),
        (("status",), "cancelled", "The run ended as 'cancelled'"),
        (("samples",), None, "The log has no samples"),
    ],
)
def test_numbers_that_do_not_follow_from_the_samples_are_refused(
    path: tuple[str | int, ...], value: Any, sentence: str
) -> None:
    def put(log: Any) -> None:
        for key in path[:-1]:
            log = log[key]
        log[path[-1]] = value

    with pytest.raises(ImportProblem, match=sentence):
        record_of_bytes(changed(LIMITED, put), scorer="passed")


def test_samples_that_are_not_in_the_log_are_missing() -> None:
    data = repacked(LOG, lambda members: members.pop("samples/refund-5_epoch_2.json"))
    record = record_of_bytes(data, scorer="passed")
    assert (record.expected, record.missing) == (10, 2)


def test_a_custom_metric_of_the_same_name_is_not_worked_out_again() -> None:
    def custom(log: Any) -> None:
        log["results"]["scores"][2]["metrics"]["accuracy"]["value"] = 17
        for scorer in log["eval"]["scorers"]:
            scorer["metrics"] = [{"name": "refunds/accuracy"}]

    assert record_of_bytes(changed(LIMITED, custom), scorer="passed").good == 3


def test_an_errored_sample_that_was_scored_all_the_same_is_missing() -> None:
    def scored_on_error(log: Any) -> None:
        log["samples"][3]["error"] = {"message": "late", "traceback": "", "traceback_ansi": ""}
        log["results"]["completed_samples"] = 3

    record = record_of_bytes(changed(LIMITED, scored_on_error), scorer="passed")
    assert (record.good, record.bad, record.missing) == (3, 0, 1)


def test_a_sample_that_stands_twice_is_refused() -> None:
    def doubled(log: Any) -> None:
        log["samples"][1] = json.loads(json.dumps(log["samples"][0]))

    with pytest.raises(ImportProblem, match=r"samples\[1\]: It is the same item as the log.samples\[0\]"):
        record_of_bytes(changed(LIMITED, doubled), scorer="both.polite")


@pytest.mark.parametrize("value", ["yes", "c", None, [1], "1"])
def test_a_value_that_has_no_meaning_here_is_refused(value: Any) -> None:
    def strange(log: Any) -> None:
        log["samples"][0]["scores"]["letters"]["value"] = value

    with pytest.raises(ImportProblem, match=r"C, I, P, N, a number, true or false is wanted"):
        record_of_bytes(changed(LIMITED, strange), scorer="letters")


def test_a_number_and_a_string_are_two_ids() -> None:
    def renamed(log: Any) -> None:
        for sample in log["samples"]:
            sample["id"] = 1 if sample["id"] == "refund-1" else "1"
        log["eval"]["dataset"]["sample_ids"] = [1, "1"]

    assert record_of_bytes(changed(LIMITED, renamed), scorer="passed").clusters == 2


def test_a_run_that_did_not_end_has_no_header() -> None:
    with pytest.raises(ImportProblem, match=r"has no header.json: the run did not come to its end"):
        record_of_bytes(repacked(LOG, lambda members: members.pop("header.json")), scorer="passed")


def test_both_spellings_of_a_log_are_told_by_their_content() -> None:
    assert content(LOG).startswith(b"PK")
    assert record_of(LIMITED, scorer="passed").tool.name == "inspect"
