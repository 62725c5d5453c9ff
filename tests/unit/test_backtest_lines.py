"""A line of recorded evidence is exactly what the format says, or an error that names it."""

import json
from typing import Any

import pytest

from gatewright_analysis.backtest.lines import UnreadableEvidence, read_lines
from gatewright_analysis.evidence.model import Cluster, Counts
from gatewright_analysis.kinds.contract import Stage
from tests.judging import check, contract, pods, sampled

GAUGE = {
    "id": "open-files",
    "oracleKind": "Deterministic",
    "evidence": [{"stages": ["Canary"], "value": {"source": "p", "query": "max(fds{$arm})", "max": 9}}],
}
SCORES = {
    **sampled("rubric"),
    "evidence": [{"stages": ["Canary"], "scores": {"source": "ci", "suite": "rubric"}}],
}
ALL = contract(check(), sampled(), pods(), GAUGE, SCORES)
LINE = {"check": "http-success", "t": 30, "good": 9, "bad": 1}


def read(*lines: Any, stage: Stage = Stage.CANARY) -> Any:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return read_lines(texts, ALL, stage)


def test_each_distinct_t_of_a_check_is_the_end_of_a_window() -> None:
    found = read(
        LINE | {"stable": {"good": 50, "bad": 2}},
        {"check": "rubric", "t": 40.5, "scores": [0.5, 1], "missing": 1},
        {"check": "open-files", "t": 41, "value": 3},
        "",
        LINE | {"t": 47, "good": 4, "bad": 0, "stable": {"good": 5, "bad": 0}},
    )
    http = found["http-success"]
    assert http.ends == [30, 47] and http.has_stable
    assert [w.canary for w in http.windows] == [Counts(9, 1), Counts(4, 0)]
    assert [w.stable for w in http.windows] == [Counts(50, 2), Counts(5, 0)]
    assert [w.index for w in http.windows] == [0, 1]
    assert found["rubric"].windows[0].scores == (0.5, 1.0) and found["rubric"].windows[0].missing == 1
    assert found["open-files"].windows[0].value == 3.0
    assert "faithfulness" not in found


def test_lines_of_one_t_with_different_clusters_are_one_look() -> None:
    one = {"check": "faithfulness", "t": 10, "good": 2, "bad": 1}
    found = read(
        one | {"cluster": "a"}, one | {"cluster": "b", "missing": 1}, one | {"t": 20, "cluster": "a"}
    )
    recording = found["faithfulness"]
    assert recording.ends == [10, 20]
    assert recording.windows[0].clusters == (Cluster("a", 2, 1), Cluster("b", 2, 1, 1))
    assert recording.windows[0].canary == Counts(4, 2) and recording.windows[0].missing == 1


def test_the_warmup_takes_off_what_began_in_it() -> None:
    recording = read(*(LINE | {"t": t} for t in (20, 40, 60, 80)))["http-success"].after(30)
    assert recording.ends == [30, 50], "the window from 20 to 40 began in the warm-up"
    assert [w.index for w in recording.windows] == [0, 1]


SAMPLE = {"check": "faithfulness", "t": 30, "good": 1, "bad": 0}
WRONG: dict[str, tuple[tuple[Any, ...], str]] = {
    "no JSON": (("{",), "line 1: this is no JSON object"),
    "a list": (([1],), "line 1: a line is one JSON object."),
    "unknown check": ((LINE | {"check": "htp"},), "not 'htp'"),
    "no check": (({"t": 1},), "not nothing"),
    "a check that is a list": ((LINE | {"check": []},), "is the id of a check"),
    "pods": (({"check": "pods", "t": 1},), "rests on pods, of which no lines are recorded"),
    "time runs backwards": ((LINE, LINE | {"t": 29}), "line 2: time runs backwards: t = 29 after t = 30"),
    "time zero": ((LINE | {"t": 0},), "above 0 and at most a year, not 0"),
    "Unix time": ((LINE | {"t": 1_700_000_000},), "at most a year"),
    "t a bool": ((LINE | {"t": True},), "`t` is a finite number, not True"),
    "t missing": (({"check": "http-success", "good": 1, "bad": 0},), "`t` is missing: a line of http-success (counts) has check, t, good, bad and perhaps missing, stable."),
    "t twice": ((LINE, LINE), "has a line at t = 30 already"),
    "fraction": ((LINE | {"good": 1.5},), "`good` counts events: a whole number from 0 to 1,000,000,000, not 1.5"),
    "whole float": ((LINE | {"good": 1.0},), "not 1.0"),
    "negative": ((LINE | {"bad": -1},), "not -1"),
    "bool": ((LINE | {"bad": False},), "not False"),
    "text": ((LINE | {"bad": "1"},), "not '1'"),
    "null": ((LINE | {"bad": None},), "not nothing"),
    "huge": ((LINE | {"bad": 10**10},), "not 10000000000"),
    "endless": (('{"check": "http-success", "t": 1, "good": ' + "9" * 5000 + "}",), "no JSON object"),
    "negative missing": ((LINE | {"missing": -1},), "`missing` counts events"),
    "unknown field": ((LINE | {"godo": 1},), "`godo` has no place here"),
    "value for counts": ((LINE | {"value": 1},), "`value` has no place here"),
    "scores for counts": (({"check": "http-success", "t": 1, "scores": [1]},), "`good` is missing"),
    "cluster for counts": ((LINE | {"cluster": "a"},), "`cluster` has no place here"),
    "counts for value": (({"check": "open-files", "t": 1, "good": 1, "bad": 1},), "`value` is missing"),
    "stable for samples": ((SAMPLE | {"stable": {"good": 1, "bad": 0}},), "`stable` has no place here"),
    "stable a number": ((LINE | {"stable": 3},), "`stable` is an object"),
    "stable with more": ((LINE | {"stable": {"good": 1, "bad": 0, "n": 1}},), "`stable` is an object"),
    "stable negative": ((LINE | {"stable": {"good": -1, "bad": 0}},), "`stable.good` counts events"),
    "stable on one line": ((LINE, LINE | {"t": 31, "stable": {"good": 1, "bad": 0}}), "the line before has none, this has one"),
    "cluster on one line": ((SAMPLE | {"cluster": "a"}, SAMPLE | {"t": 31}), "the line before has one, this has none"),
    "cluster twice": ((SAMPLE | {"cluster": "a"}, SAMPLE | {"cluster": "a"}), "the cluster a stands twice at t = 30"),
    "cluster a number": ((SAMPLE | {"cluster": 3},), "`cluster` is a text"),
    "score above 1": (({"check": "rubric", "t": 1, "scores": [1.1]},), "a score is a number from 0 to 1, not 1.1"),
    "score a bool": (({"check": "rubric", "t": 1, "scores": [True]},), "`scores` is a finite number, not True"),
    "scores no list": (({"check": "rubric", "t": 1, "scores": 1},), "`scores` is a list"),
    "NaN": (('{"check": "open-files", "t": 1, "value": NaN}',), "NaN is no number that can be judged"),
    "infinite": (('{"check": "open-files", "t": 1, "value": -Infinity}',), "-Infinity is no number"),
    "overflows": (('{"check": "open-files", "t": 1, "value": 1e999}',), "`value` is a finite number, not inf"),
    "a field twice": (('{"check": "http-success", "t": 1, "good": 1, "bad": 1, "bad": 0}',), "a field stands twice"),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "said"), WRONG.values(), ids=WRONG)
def test_what_is_not_the_format_is_an_error_with_its_line(lines: tuple[Any, ...], said: str) -> None:
    with pytest.raises(UnreadableEvidence) as error:
        read(*lines)
    assert said in str(error.value)
    assert str(error.value).startswith(f"line {len(lines)}: ")


def test_a_check_without_evidence_at_the_stage_takes_no_line() -> None:
    with pytest.raises(UnreadableEvidence, match="faithfulness has no evidence for the stage Bake"):
        read(SAMPLE, stage=Stage.BAKE)
    with pytest.raises(UnreadableEvidence, match="at the stage Bake no stable version serves"):
        read(LINE | {"stable": {"good": 1, "bad": 0}}, stage=Stage.BAKE)
