"""promptfoo's files become records: which row counts as what, and which files are no evidence."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gatewright_analysis.results import Format, ImportProblem, Judge, RecordKind, Tool
from tests.unit.result_files import by_value, changed, record_of, record_of_bytes

SIMPLE, CROSSED, GRADED = (f"promptfoo/{name}.json" for name in ("simple", "crossed", "graded"))
WITHIN = {"question": "refund within 30 days", "conversation": "a"}
RUDE = {"question": "rude refund", "conversation": "a"}
WEATHER = {"question": "weather", "conversation": "b"}
FRIENDLY, HALFWAY, NOT_FRIENDLY, UNGRADABLE = (
    {"answer": text}
    for text in (
        "Of course, within 30 days.",
        "a halfway friendly answer",
        "a rude answer",
        "an ungradable answer",
    )
)


def rows_of(document: Any) -> list[Any]:
    rows: list[Any] = document["results"]["results"]
    return rows


def test_rows_count_by_success_and_repeats_of_a_test_are_one_cluster() -> None:
    record = record_of(SIMPLE)
    items = by_value(
        record,
        {"question": "refund within 30 days"},
        {"question": "refund after 30 days"},
        {"question": "weather"},
    )
    assert items == {
        "{'question': 'refund within 30 days'}": (3, 0, 0),
        "{'question': 'refund after 30 days'}": (3, 0, 0),
        "{'question': 'weather'}": (0, 3, 0),
    }
    assert (record.kind, record.expected, record.missing) == (RecordKind.SAMPLES, 9, 0)
    assert (record.good, record.bad, record.scored, record.clusters) == (6, 3, 9, 3)


def test_the_record_says_which_tool_made_the_file_and_when() -> None:
    record = record_of(SIMPLE)
    assert record.tool == Tool(name="promptfoo", version="0.123.1")
    assert record.created_at is not None and record.created_at > datetime(2026, 1, 1, tzinfo=UTC)
    assert record.source.name == "simple.json" and record.source.bytes > 30_000
    assert record.judge is None and record.revision is None


def test_a_row_that_is_an_error_is_missing_and_no_failure() -> None:
    record = record_of(CROSSED, provider="flaky", prompt="polite")
    assert by_value(record, WITHIN, RUDE, WEATHER) == {
        str(WITHIN): (2, 0, 0),
        str(RUDE): (0, 0, 2),
        str(WEATHER): (0, 2, 0),
    }
    assert (record.expected, record.missing) == (6, 2)


def test_an_error_without_a_grading_is_missing_whatever_the_reason_says() -> None:
    def nameless(document: Any) -> None:
        row = rows_of(document)[0]
        row |= {"success": False, "error": "timeout", "gradingResult": None, "failureReason": 1}
        metrics = document["results"]["prompts"][0]["metrics"]
        metrics |= {
            "testPassCount": metrics["testPassCount"] - 1,
            "testFailCount": metrics["testFailCount"] + 1,
        }

    record = record_of_bytes(changed(SIMPLE, nameless))
    assert (record.good, record.bad, record.missing) == (5, 3, 1)


def test_a_row_that_its_grader_could_not_grade_is_missing() -> None:
    record = record_of(GRADED)
    assert by_value(record, FRIENDLY, HALFWAY, NOT_FRIENDLY, UNGRADABLE) == {
        str(FRIENDLY): (1, 0, 0),
        str(HALFWAY): (1, 0, 0),
        str(NOT_FRIENDLY): (0, 1, 0),
        str(UNGRADABLE): (0, 0, 1),
    }
    assert record.judge == Judge(id="file://grader.cjs")


def test_a_grader_error_counts_on_the_grading_itself_too() -> None:
    def ungraded(document: Any) -> None:
        rows_of(document)[0]["gradingResult"]["metadata"] = {"graderError": True}

    record = record_of_bytes(changed(GRADED, ungraded))
    assert (record.good, record.bad, record.missing) == (1, 1, 2)


def test_crossed_providers_and_prompts_must_be_chosen_and_the_choices_are_named() -> None:
    with pytest.raises(ImportProblem) as problem:
        record_of(CROSSED)
    assert "crosses 4 providers and prompts" in problem.value.sentence
    for choice in ("echo", "flaky"):
        assert f"--provider '{choice}' --prompt 'polite'" in problem.value.sentence


def test_one_of_both_is_enough_only_where_it_leaves_one() -> None:
    with pytest.raises(ImportProblem, match=r"crosses 2 providers and prompts"):
        record_of(CROSSED, provider="echo")
    with pytest.raises(ImportProblem, match=r"There are no such rows. There are: .*'flaky'"):
        record_of(CROSSED, provider="nobody", prompt="polite")


@pytest.mark.parametrize("prompt", ["polite", "Dear customer, {{question}}"])
def test_a_prompt_is_chosen_by_label_or_by_text(prompt: str) -> None:
    assert record_of(CROSSED, provider="echo", prompt=prompt).good == 2


def test_a_provider_is_chosen_by_the_id_of_its_rows_too() -> None:
    def labelled(document: Any) -> None:
        for prompt in document["results"]["prompts"]:
            prompt["provider"] = prompt["provider"].replace("echo", "the echo")

    data = changed(CROSSED, labelled)
    assert record_of_bytes(data, provider="echo", prompt="plain").expected == 6
    assert record_of_bytes(data, provider="the echo", prompt="plain").expected == 6


def test_a_metric_gives_scores_and_errors_stay_missing() -> None:
    record = record_of(CROSSED, provider="flaky", prompt="plain", metric="tone")
    assert record.kind is RecordKind.SCORES
    assert by_value(record, WITHIN, RUDE, WEATHER) == {
        str(WITHIN): (2, 1.0, 0),
        str(RUDE): (0, 0.0, 2),
        str(WEATHER): (2, 1.0, 0),
    }
    assert record.total_of_scores == 2.0


def test_a_metric_read_as_samples_passes_where_all_its_assertions_do() -> None:
    record = record_of(CROSSED, provider="echo", prompt="polite", metric="tone", kind=RecordKind.SAMPLES)
    assert by_value(record, WITHIN, RUDE, WEATHER) == {
        str(WITHIN): (2, 0, 0),
        str(RUDE): (0, 2, 0),
        str(WEATHER): (2, 0, 0),
    }


def test_a_metric_that_nobody_has_is_refused_with_those_there_are() -> None:
    with pytest.raises(ImportProblem, match=r"under the metric 'speed'. There are: 'on-topic', 'tone'"):
        record_of(CROSSED, provider="echo", prompt="polite", metric="speed")


def test_a_test_without_the_metric_is_no_item_of_it() -> None:
    def without(document: Any) -> None:
        for row in rows_of(document):
            if row["vars"] == WEATHER:
                row["namedScores"].pop("tone")
                row["testCase"]["assert"] = [
                    each for each in row["testCase"]["assert"] if each["metric"] != "tone"
                ]

    record = record_of_bytes(changed(CROSSED, without), provider="echo", prompt="polite", metric="tone")
    assert (record.clusters, record.expected, record.missing) == (2, 4, 0)


def test_a_test_whose_metric_has_no_score_is_missing() -> None:
    def lost(document: Any) -> None:
        for row in rows_of(document):
            row["namedScores"].pop("tone", None) if row["vars"] == WEATHER else None

    record = record_of_bytes(changed(CROSSED, lost), provider="echo", prompt="polite", metric="tone")
    assert (record.clusters, record.expected, record.missing) == (3, 6, 2)


def test_a_score_beyond_1_is_refused() -> None:
    def summed(document: Any) -> None:
        rows_of(document)[0]["namedScores"]["friendly"] = 2

    with pytest.raises(ImportProblem, match=r"a score from 0 to 1: scale it") as problem:
        record_of_bytes(changed(GRADED, summed), metric="friendly")
    assert problem.value.where == "the file.results.results[0].namedScores.friendly"


def test_a_version_that_adds_the_scores_of_a_metric_up_is_averaged() -> None:
    """As 0.118 writes them: no weights, and 1.0 for one assertion of two that passed."""

    def summed(document: Any) -> None:
        for row in rows_of(document):
            if row["gradingResult"]:
                row["gradingResult"].pop("namedScoreWeights")
                row["namedScores"]["tone"] *= 2

    newer = record_of(CROSSED, provider="echo", prompt="plain", metric="tone")
    older = record_of_bytes(changed(CROSSED, summed), provider="echo", prompt="plain", metric="tone")
    assert older.items == newer.items
    assert older.total_of_scores == 2.0


def test_rows_cluster_by_a_variable() -> None:
    record = record_of(CROSSED, provider="echo", prompt="polite", cluster_by="conversation")
    assert by_value(record, "a", "b") == {"a": (2, 2, 0), "b": (0, 2, 0)}


def test_rows_cluster_by_the_metadata_of_their_tests() -> None:
    def described(document: Any) -> None:
        for row in rows_of(document):
            row["testCase"]["metadata"] = {"topic": "refunds"}

    record = record_of_bytes(changed(SIMPLE, described), cluster_by="topic")
    assert by_value(record, "refunds") == {"refunds": (6, 3, 0)}


def test_a_row_without_the_key_to_cluster_by_is_named() -> None:
    with pytest.raises(ImportProblem, match=r"results\.results\[0\]: It has no 'topic'"):
        record_of(SIMPLE, cluster_by="topic")


@pytest.mark.parametrize(
    "document", [b'{"version": 2, "table": {}}', b'{"results": {"version": 2, "results": [], "table": {}}}']
)
def test_a_file_of_version_2_is_refused_with_what_to_do(document: bytes) -> None:
    with pytest.raises(ImportProblem, match=r"version 2.*evaluate again with promptfoo 0.118 or newer"):
        record_of_bytes(document, Format.PROMPTFOO)


def test_a_file_of_a_later_version_is_not_guessed_at() -> None:
    with pytest.raises(ImportProblem, match=r"It has version 4, and 3 is understood"):
        record_of_bytes(changed(SIMPLE, lambda document: document["results"].update(version=4)))


def test_rows_that_are_not_in_the_file_are_missing() -> None:
    record = record_of_bytes(changed(SIMPLE, lambda document: rows_of(document).pop()))
    assert (record.expected, record.missing, record.scored) == (9, 1, 8)


def test_a_verdict_that_was_changed_no_longer_adds_up() -> None:
    def flipped(document: Any) -> None:
        row = next(row for row in rows_of(document) if not row["success"])
        row |= {"success": True, "failureReason": 0}

    with pytest.raises(
        ImportProblem, match=r"7 rows pass, 2 fail and 0 are errors, where promptfoo counted 6, 3 and 0"
    ):
        record_of_bytes(changed(SIMPLE, flipped))


def test_more_rows_than_the_statistics_say_are_refused() -> None:
    with pytest.raises(
        ImportProblem, match=r"The statistics speak of 9 rows, the prompts of 9, and there are 10"
    ):
        record_of_bytes(changed(SIMPLE, lambda document: rows_of(document).append(rows_of(document)[0])))


def test_a_test_that_stands_twice_is_refused() -> None:
    def doubled(document: Any) -> None:
        rows = rows_of(document)
        same = [index for index, row in enumerate(rows) if row["success"]]
        rows[same[1]] = rows[same[0]]

    with pytest.raises(ImportProblem, match=r"Test 0 stands here again"):
        record_of_bytes(changed(SIMPLE, doubled))


def test_a_rating_by_hand_is_no_evidence() -> None:
    def rated(document: Any) -> None:
        grading = rows_of(document)[0]["gradingResult"]
        grading["componentResults"].append(
            {"pass": True, "score": 1, "reason": "fine", "assertion": {"type": "human"}}
        )

    with pytest.raises(ImportProblem, match=r"It was rated by hand after the evaluation"):
        record_of_bytes(changed(SIMPLE, rated))


def test_a_row_that_names_no_prompt_of_the_file_is_refused() -> None:
    with pytest.raises(ImportProblem, match=r"There is no prompt 7"):
        record_of_bytes(changed(SIMPLE, lambda document: rows_of(document)[0].update(promptIdx=7)))


def test_a_commit_that_the_file_does_not_name_is_not_taken_on_trust() -> None:
    with pytest.raises(ImportProblem, match=r"does not say which commit it ran at"):
        record_of(SIMPLE, revision="0123456789ab")


def test_an_option_of_another_format_is_refused() -> None:
    with pytest.raises(ImportProblem, match=r"A file of promptfoo knows no --scorer"):
        record_of(SIMPLE, scorer="letters")
