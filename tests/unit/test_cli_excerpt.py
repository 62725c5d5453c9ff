"""One line of evidence for each kind of check, and its sparkline. Pure."""

from typing import Any

import pytest

from gatewright_analysis.evidence.model import (
    Cluster,
    Counts,
    Fault,
    JobFacts,
    JobPhase,
    JudgeIdentity,
    PodFacts,
    Window,
)
from gatewright_analysis.evidence.record import CheckRecord
from gatewright_analysis.reasons import Reason
from gatewright_cli.excerpt import bad_ratios, excerpt, sparkline

DOWN = Fault(Reason.TIMEOUT, "prometheus did not answer within 5 s")


def declared(**kind: Any) -> dict[str, Any]:
    return {
        "id": "c",
        "evidence": [
            {"stages": ["Bake"], "pods": {}},
            {"stages": ["Canary"], **kind},
        ],
    }


COUNTS = declared(counts={"source": "prometheus", "bad": ['http{code=~"5.."}'], "total": ["http"]})
WINDOWS = tuple(
    Window(index, Counts(40 - bad, bad), Counts(400, index)) for index, bad in enumerate((0, 0, 3, 1))
)


@pytest.mark.parametrize(
    ("record", "contract", "line"),
    [
        (None, COUNTS, ""),
        (CheckRecord(), None, ""),
        (
            CheckRecord(windows=WINDOWS),
            COUNTS,
            "bad/all, newest last: 0/40 3/40 1/40 (4 windows), stable 0.37 % bad of 1606; "
            'counts http{code=~"5.."} of http',
        ),
        (
            CheckRecord(windows=(Window(0, Counts(40, 0)), Window(1, Counts(0, 0), fault=DOWN)), fault=DOWN),
            None,
            "no answer: SourceTimeout, prometheus did not answer within 5 s; "
            "bad/all, newest last: 0/40 SourceTimeout (2 windows)",
        ),
        (
            CheckRecord(windows=tuple(Window(n, Counts(0, 0), value=float(n)) for n in range(5))),
            declared(value={"source": "prometheus", "query": "queue_depth"}),
            "values, newest last: 2 3 4 (5 windows); asks queue_depth",
        ),
        (
            CheckRecord(pods=PodFacts(2, 1, 7, ("checkout-canary-x/app",), Fault(Reason.IMAGE_TROUBLE, "no such tag"))),
            None,
            "1 of 2 pods ready, 7 restarts, failing: checkout-canary-x/app, ImageTrouble: no such tag",
        ),
        (
            CheckRecord(job=JobFacts("smoke-1", JobPhase.FAILED, exit_code=3, good=17, bad=2)),
            None,
            "Job smoke-1 failed with exit code 3, reported 2 bad of 19",
        ),
        (
            CheckRecord(
                windows=(
                    Window(
                        0,
                        Counts(3, 6),
                        clusters=(*(Cluster(f"q{n}", 0, 1) for n in range(6)), Cluster("fine", 3, 0)),
                    ),
                ),
                judge=JudgeIdentity("judge-x", "3"),
            ),
            declared(samples={"source": "files", "suite": "faithfulness"}),
            "6 of 9 bad; bad samples q0, q1, q2, q3 and 2 more; judged by judge-x 3; suite faithfulness",
        ),
        (
            CheckRecord(windows=(Window(0, Counts(0, 0), scores=(0.5, 1.0)),)),
            None,
            "mean score 0.750 of 2",
        ),
        (CheckRecord(cached_from="checkout-1"), None, "the answer of run checkout-1, judged before"),
    ],
)  # fmt: skip
def test_each_kind_of_evidence_has_its_line(record: CheckRecord | None, contract: Any, line: str) -> None:
    assert excerpt(record, contract) == line


def test_latency_names_its_histogram_and_its_bound() -> None:
    latency = declared(latency={"source": "prometheus", "histogram": "request_seconds", "le": 0.5})
    assert excerpt(CheckRecord(), latency) == "counts request_seconds above 0.5 s"


def test_what_the_evidence_says_is_cleaned() -> None:
    nasty = Fault(Reason.IMAGE_TROUBLE, "a\x1b[2Jb\r\nc")
    line = excerpt(CheckRecord(pods=PodFacts(1, 0, 0, ("p\x07/app",), nasty)))
    assert line == "0 of 1 pods ready, 0 restarts, failing: p /app, ImageTrouble: a [2Jb  c"


def test_bad_ratios_have_a_gap_where_a_window_says_nothing() -> None:
    windows = (*WINDOWS[1:3], Window(4, Counts(0, 0)), Window(5, Counts(1, 1), fault=DOWN))
    assert bad_ratios(CheckRecord(windows=windows)) == [0.0, 0.075, None, None]
    assert bad_ratios(None) == []


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ([], ""),
        ([None, None], ""),
        ([0.0, 0.0], "▁▁"),
        ([0.0, None, 1.0, 0.5], "▁·█▅"),
        ([0.0001, 1.0], "▂█"),
        ([-2.0, 0.0, 2.0], "▁▅█"),
    ],
)
def test_a_sparkline_shows_the_least_that_is_not_nothing(values: list[float | None], bars: str) -> None:
    assert sparkline(values) == bars


def test_half_the_height_of_a_sparkline_is_the_limit() -> None:
    assert sparkline([0.0, 0.025, 0.05, 0.1], 0.05) == "▁▃▅█"
    assert sparkline([0.05, 0.4], 0.05) == "▂█"


def test_a_long_sparkline_has_one_bar_for_a_few_windows() -> None:
    line = sparkline([0.0] * 300 + [0.2] * 30)
    assert len(line) == 20
    assert (line[0], line[-1]) == ("▁", "█")
