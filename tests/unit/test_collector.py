"""What a collector asks, and which windows and ticks come of it."""

from typing import Any

import pytest

from gatewright_analysis.evidence.collector import MAX_CHUNKS, Collector
from gatewright_analysis.evidence.model import Counts, Fault, Window
from gatewright_analysis.kinds.contract import Evidence
from gatewright_analysis.kinds.run import ArmRef
from gatewright_analysis.kinds.source import ArmsBy
from gatewright_analysis.providers.fake import FakeReader
from gatewright_analysis.reasons import Reason
from tests.unit.evidence_world import (
    CANARY,
    COUNTS,
    LATENCY,
    SAMPLES,
    T0,
    Pod,
    canary_pod,
    collector,
    look,
    run_seconds,
    source,
    stable_pod,
    ticks_by_end,
)

OUTAGE = Fault(Reason.UNREACHABLE, "the source can't be reached")


def steady(seconds: int, canary: tuple[int, int] = (2, 1), stable: tuple[int, int] = (8, 0)) -> FakeReader:
    """From 20 s before t0 to `seconds` after it, both arms serve so many (ok, failed) requests a second."""
    reader = FakeReader()
    run_seconds(reader, [(canary_pod(), *canary), (stable_pod(offset=0.2), *stable)], -20, seconds)
    return reader


def usable(windows: tuple[Window, ...]) -> dict[int, tuple[Counts, Counts | None]]:
    return {window.index: (window.canary, window.stable) for window in windows if window.fault is None}


def reasons(windows: tuple[Window, ...]) -> dict[int, Reason | None]:
    return {window.index: None if window.fault is None else window.fault.reason for window in windows}


def fault_of(own: Collector) -> Fault | None:
    return own.fault


# Windows


def test_windows_hold_what_was_counted_in_them() -> None:
    windows = look(collector(), steady(31), 31.0)
    assert usable(windows) == {index: (Counts(20, 10), Counts(80, 0)) for index in range(3)}


def test_a_window_is_given_once_and_one_scrape_after_its_end() -> None:
    own, reader = collector(), steady(40)
    assert look(own, reader, 10.9) == ()
    assert [window.index for window in look(own, reader, 11.0)] == [0]
    assert look(own, reader, 12.0) == ()
    assert [window.index for window in look(own, reader, 32.0)] == [1, 2]


def test_the_time_of_looks_and_a_restart_change_no_window() -> None:
    reader = steady(95)
    patient = look(collector(), reader, 93.0)
    own = collector()
    seen: list[Window] = []
    for tenths in range(0, 930, 13):
        seen += look(own, reader, tenths / 10)
    seen += look(own, reader, 93.0)
    assert tuple(seen) == patient
    assert len(patient) == 9


def test_a_later_look_asks_only_for_what_is_new() -> None:
    own, reader = collector(), steady(60)
    look(own, reader, 40.0)
    spans = [question.time - question.start for question in own.questions(T0 + 42.0)]
    assert max(spans) <= 4.0
    assert len(spans) == 4


def test_questions_have_an_explicit_time_and_the_matchers_of_each_arm() -> None:
    questions = collector().questions(T0 + 5.25)
    assert {question.time for question in questions} == {T0 + 5.25}
    assert {question.query.split("[18250ms]")[0] for question in questions} == {
        f'http_requests_total{{{bad}namespace="shop",pod=~"{prefix}[a-z0-9]{{5}}"}}'
        for bad in ("", 'code=~"5..",')
        for prefix in ("checkout-canary-5d9c7-", "checkout-6b8f4-")
    }


def test_before_the_first_sample_could_count_nothing_is_asked() -> None:
    assert collector().questions(T0 - 13.0) == ()


@pytest.mark.parametrize("fraction", [0.000001, 0.0004999, 0.0005, 0.123456, 0.9999999])
def test_a_t0_between_two_milliseconds_is_read_like_any_other(fraction: float) -> None:
    reader = steady(40)
    own = collector(t0=T0 + fraction)
    seen: list[Window] = []
    for tenths in range(0, 350, 7):
        seen += look(own, reader, tenths / 10 + fraction / 3)
    assert usable(tuple(seen)) == {index: (Counts(20, 10), Counts(80, 0)) for index in range(3)}


def test_several_label_sets_and_pods_are_summed() -> None:
    reader = FakeReader()
    first, second = canary_pod("aaaaa"), canary_pod("bbbbb", offset=0.9)
    first.count("http_requests_total", 100, code="404")
    run_seconds(reader, [(first, 1, 1), (second, 2, 0), (stable_pod(), 5, 0)], -20, 12)
    assert usable(look(collector(), reader, 12.0))[0][0] == Counts(30, 10)


def test_requests_of_a_pod_that_went_away_still_count() -> None:
    reader = FakeReader()
    dead, living, stable = canary_pod("aaaaa"), canary_pod("bbbbb"), stable_pod()
    run_seconds(reader, [(dead, 1, 1), (living, 1, 0), (stable, 5, 0)], -20, 4)
    run_seconds(reader, [(living, 1, 0), (stable, 5, 0)], 4, 12)
    window = look(collector(), reader, 11.0)[0]
    assert window.fault is None
    assert window.canary == Counts(14, 4)


def test_a_restart_of_a_process_loses_nothing_and_is_counted_as_a_reset() -> None:
    reader = FakeReader()
    pod, stable = canary_pod(), stable_pod()
    run_seconds(reader, [(pod, 2, 1), (stable, 5, 0)], -20, 5)
    pod.restart()
    run_seconds(reader, [(pod, 2, 1), (stable, 5, 0)], 5, 12)
    window = look(collector(), reader, 11.0)[0]
    assert (window.canary, window.resets) == (Counts(20, 10), 3)  # both codes of `total`, one of `bad`


def test_the_first_errors_of_a_healthy_pod_count_from_zero() -> None:
    reader = FakeReader()
    pod, stable = canary_pod(), stable_pod()
    run_seconds(reader, [(pod, 3, 0), (stable, 5, 0)], -20, 5)
    run_seconds(reader, [(pod, 0, 3), (stable, 5, 0)], 5, 12)
    assert look(collector(), reader, 11.0)[0].canary == Counts(15, 15)


def test_a_pod_born_in_the_window_counts_from_zero_when_its_birth_is_known() -> None:
    def world() -> FakeReader:
        reader = FakeReader()
        old, stable, new = canary_pod("aaaaa"), stable_pod(), canary_pod("bbbbb")
        run_seconds(reader, [(old, 1, 0), (stable, 5, 0)], -20, 5)
        new.requests(ok=4)
        run_seconds(reader, [(old, 1, 0), (stable, 5, 0), (new, 1, 0)], 5, 12)
        return reader

    births = {canary_pod("bbbbb").name: T0 + 4.0}
    assert look(collector(), world(), 11.0)[0].canary == Counts(14, 0)
    assert look(collector(), world(), 11.0, births=births)[0].canary == Counts(19, 0)


def test_the_first_requests_at_a_gateway_that_serves_stable_already_count_from_zero() -> None:
    def at_gateway(service: str) -> Pod:
        return Pod("gateway", labels={"service": service})

    reader, stable, canary = FakeReader(), at_gateway("checkout"), at_gateway("checkout-canary")
    run_seconds(reader, [(stable, 8, 0)], -20, 3)
    run_seconds(reader, [(stable, 8, 0), (canary, 1, 3)], 3, 12)
    own = collector(source=source(ArmsBy.SERVICE, "service"))
    assert look(own, reader, 11.0)[0].canary == Counts(7, 21)


def test_in_bake_there_is_no_stable_arm() -> None:
    windows = look(collector(stable=None, weight=100), steady(12), 11.0)
    assert usable(windows) == {0: (Counts(20, 10), None)}


def test_at_weight_100_stable_may_be_without_series() -> None:
    reader = FakeReader()
    run_seconds(reader, [(canary_pod(), 2, 1)], -20, 12)
    assert usable(look(collector(weight=100), reader, 11.0)) == {0: (Counts(20, 10), Counts(0, 0))}


# Holes


def test_a_hole_in_the_source_faults_the_windows_that_it_touches_and_no_others() -> None:
    reader = FakeReader()
    pods = [(canary_pod(), 2, 1), (stable_pod(), 8, 0)]
    run_seconds(reader, pods, -20, 16)
    for pod, ok, failed in pods:  # served, but nobody scraped
        pod.requests(ok * 20, failed * 20)
    run_seconds(reader, pods, 36, 52)
    windows = look(collector(), reader, 51.0)
    assert reasons(windows) == {
        0: None, 1: Reason.SCRAPE_GAP, 2: Reason.SCRAPE_GAP, 3: Reason.SCRAPE_GAP, 4: None,
    }  # fmt: skip
    assert usable(windows)[4] == (Counts(20, 10), Counts(80, 0))


def test_a_hole_gives_the_same_windows_whenever_it_is_looked_at() -> None:
    reader = FakeReader()
    pods = [(canary_pod(), 2, 1), (stable_pod(), 8, 0)]
    own = collector()
    seen: list[Window] = []
    for second in range(-20, 60):
        if not 16 <= second < 36:
            run_seconds(reader, pods, second, second + 1)
        seen += look(own, reader, second + 1.0)
    assert tuple(seen) == look(collector(), reader, 60.0)


def test_a_hole_of_one_pod_faults_the_window_in_which_it_comes_back() -> None:
    reader = FakeReader()
    flaky, steady_pod, stable = canary_pod("aaaaa"), canary_pod("bbbbb"), stable_pod()
    run_seconds(reader, [(flaky, 1, 0), (steady_pod, 1, 0), (stable, 5, 0)], -20, 2)
    run_seconds(reader, [(steady_pod, 1, 0), (stable, 5, 0)], 2, 13)
    run_seconds(reader, [(flaky, 9, 0), (steady_pod, 1, 0), (stable, 5, 0)], 13, 32)
    assert reasons(look(collector(), reader, 31.0)) == {0: None, 1: Reason.SCRAPE_GAP, 2: None}


def test_one_missed_scrape_is_no_hole() -> None:
    reader = FakeReader()
    pods = [(canary_pod(), 2, 1), (stable_pod(), 8, 0)]
    run_seconds(reader, pods, -20, 5)
    for pod, ok, failed in pods:
        pod.requests(ok, failed)
    run_seconds(reader, pods, 6, 12)
    assert usable(look(collector(), reader, 11.0)) == {0: (Counts(20, 10), Counts(80, 0))}


def test_an_outage_of_the_source_keeps_windows_open_and_they_close_when_it_is_over() -> None:
    own, reader = collector(), steady(60)
    assert len(look(own, reader, 15.0)) == 1
    reader.fault = OUTAGE
    assert look(own, reader, 45.0) == ()
    assert fault_of(own) is OUTAGE
    assert own.window_pending(T0 + 45.0)
    reader.fault = None
    assert sorted(usable(look(own, reader, 50.0))) == [1, 2, 3]
    assert own.fault is None
    assert not own.window_pending(T0 + 50.0)


def test_one_question_that_fails_keeps_windows_open() -> None:
    own, reader = collector(), steady(60)
    look(own, reader, 15.0)
    questions = own.questions(T0 + 31.0)
    answers: dict[Any, Any] = {question: reader.read(question) for question in questions}
    own.absorb(answers | {questions[0]: Fault(Reason.TIMEOUT, "slow")})
    assert own.windows() == ()
    assert own.fault == Fault(Reason.TIMEOUT, "slow")
    assert sorted(usable(look(own, reader, 32.0))) == [1, 2]


def test_only_at_the_end_become_windows_that_never_could_be_read_faults() -> None:
    own, reader = collector(), steady(60)
    look(own, reader, 15.0)
    reader.fault = OUTAGE
    look(own, reader, 41.0)
    lost = own.finish(T0 + 40.0)
    assert [(window.index, window.fault) for window in lost] == [(1, OUTAGE), (2, OUTAGE), (3, OUTAGE)]
    assert own.finish(T0 + 40.0) == ()


def test_a_source_without_new_samples_is_stale_and_closes_no_window() -> None:
    own, reader = collector(), steady(15)
    assert len(look(own, reader, 15.0)) == 1
    assert fault_of(own) is None
    assert look(own, reader, 30.0) == ()
    assert own.fault is not None
    assert own.fault.reason is Reason.STALE
    assert "the newest sample of canary is 16 s old" in own.fault.detail
    assert [window.fault for window in own.finish(T0 + 20.0)] == [own.fault]


def test_samples_that_a_source_stores_late_are_still_read() -> None:
    own, late = collector(), FakeReader()
    pods = [(canary_pod(), 2, 1), (stable_pod(), 8, 0)]
    run_seconds(late, pods, -20, 15)
    assert len(look(own, late, 22.0)) == 1  # seven seconds behind
    run_seconds(late, pods, 15, 35)
    assert usable(look(own, late, 34.0)) == {index: (Counts(20, 10), Counts(80, 0)) for index in (1, 2)}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), Reason.NOT_A_NUMBER),
        (float("inf"), Reason.INFINITE),
        (-4.0, Reason.NEGATIVE_COUNT),
        (4.5, Reason.NOT_A_COUNTER),
    ],
)
def test_a_sample_that_is_no_count_faults_its_window_only(value: float, reason: Reason) -> None:
    reader = steady(32)
    labels = {
        "namespace": "shop", "job": "pods", "instance": f"{canary_pod().name}:8080", "pod": canary_pod().name,
    }  # fmt: skip
    reader.put("http_requests_total", {**labels, "code": "200"}, T0 + 14.5, value)
    assert reasons(look(collector(), reader, 31.0)) == {0: None, 1: reason, 2: None}


# Arms


def test_without_any_series_there_is_no_data() -> None:
    own = collector()
    assert look(own, FakeReader(), 31.0) == ()
    assert own.fault is not None
    assert own.fault.reason is Reason.NO_DATA
    assert reasons(own.finish(T0 + 30.0)) == dict.fromkeys(range(3), Reason.NO_DATA)


@pytest.mark.parametrize("missing", ["canary", "stable"])
def test_an_arm_that_should_have_traffic_and_has_no_series_is_not_separable(missing: str) -> None:
    reader = FakeReader()
    run_seconds(reader, [(stable_pod() if missing == "canary" else canary_pod(), 5, 1)], -20, 32)
    own = collector()
    assert reasons(look(own, reader, 31.0)) == dict.fromkeys(range(3), Reason.ARMS_NOT_SEPARABLE)
    assert own.fault is not None
    assert f"{missing} should have traffic" in own.fault.detail
    assert own.ticks(T0 + 31.0) == ()


def test_a_series_in_both_arms_is_not_separable() -> None:
    reader = FakeReader()
    pod = Pod("gateway", labels={"service": "checkout-canary"})
    run_seconds(reader, [(pod, 5, 1)], -20, 32)
    shared = ArmRef(pod_prefix="a-", service="checkout-canary")
    own = collector(
        source=source(ArmsBy.SERVICE, "service"),
        canary=CANARY,
        stable=shared.model_copy(update={"pod_prefix": "b-"}),
    )
    assert set(reasons(look(own, reader, 31.0)).values()) == {Reason.ARMS_NOT_SEPARABLE}


def test_arms_that_overlap_only_in_the_answers_are_not_separable() -> None:
    class Merging(FakeReader):
        """A source that ignores the arm's matcher, as one does that drops the label."""

        def read(self, question: Any) -> Any:
            query = question.query.replace(",pod=~", ',pod=~".*",other!~')
            return super().read(type(question)(question.source, query, question.time, question.start))

    reader = Merging()
    run_seconds(reader, [(canary_pod(), 5, 1), (stable_pod(), 5, 1)], -20, 12)
    own = collector()
    assert set(reasons(look(own, reader, 11.0)).values()) == {Reason.ARMS_NOT_SEPARABLE}
    assert own.ticks(T0 + 11.0) == ()


def test_two_selectors_that_match_the_same_series_are_refused() -> None:
    evidence = COUNTS.model_dump(by_alias=True)
    evidence["counts"]["total"] = ["http_requests_total", 'http_requests_total{code="200"}']
    windows = look(collector(Evidence.model_validate(evidence)), steady(12), 11.0)
    assert reasons(windows) == {0: Reason.UNEXPECTED_SERIES}


# Empty bad


def test_no_bad_series_means_zero_when_its_label_occurs_on_the_total() -> None:
    windows = look(collector(), steady(12, canary=(3, 0)), 11.0)
    assert usable(windows) == {0: (Counts(30, 0), Counts(80, 0))}


def test_no_bad_series_means_nothing_when_its_label_does_not_occur() -> None:
    evidence = COUNTS.model_dump(by_alias=True)
    evidence["counts"]["bad"] = ['http_requests_total{status=~"5.."}']
    own = collector(Evidence.model_validate(evidence))
    assert reasons(look(own, steady(12, canary=(3, 0)), 11.0)) == {0: Reason.TOTAL_WITHOUT_BAD_LABEL}
    assert own.fault is not None
    assert "carries status" in own.fault.detail


def test_a_bad_metric_that_nobody_ever_saw_means_nothing() -> None:
    evidence = COUNTS.model_dump(by_alias=True)
    evidence["counts"]["bad"] = ["http_erors_total"]
    windows = look(collector(Evidence.model_validate(evidence)), steady(12), 11.0)
    assert reasons(windows) == {0: Reason.TOTAL_WITHOUT_BAD_LABEL}


def test_a_bad_metric_that_the_other_arm_has_means_zero() -> None:
    evidence = COUNTS.model_dump(by_alias=True)
    evidence["counts"]["bad"] = ["http_errors_total"]
    reader = FakeReader()
    stable = stable_pod()
    stable.count("http_errors_total", 3)
    run_seconds(reader, [(canary_pod(), 3, 0), (stable, 8, 0)], -20, 12)
    windows = look(collector(Evidence.model_validate(evidence)), reader, 11.0)
    assert usable(windows) == {0: (Counts(30, 0), Counts(80, 0))}


def test_more_bad_events_than_events_is_a_fault_with_a_sentence() -> None:
    evidence = COUNTS.model_dump(by_alias=True)
    evidence["counts"] |= {"bad": ["http_requests_total"], "total": ['http_requests_total{code="200"}']}
    windows = look(collector(Evidence.model_validate(evidence)), steady(12), 11.0)
    assert windows[0].fault is not None
    assert "more bad events than events in all" in windows[0].fault.detail


# Latency and samples


def observe(pod: Pod, fast: int, slow: int, boundaries: dict[str, float]) -> None:
    pod.count("http_request_duration_seconds_count", fast + slow)
    for text, boundary in boundaries.items():
        pod.count("http_request_duration_seconds_bucket", fast if boundary < 1 else fast + slow, le=text)


def latency_world(canary: dict[str, float], stable: dict[str, float]) -> FakeReader:
    reader, pods = FakeReader(), (canary_pod(), stable_pod())
    for second in range(-20, 32):
        for pod, boundaries in zip(pods, (canary, stable), strict=True):
            observe(pod, 3, 1, boundaries)
            pod.scrape_into(reader, T0 + second + 0.5)
    return reader


@pytest.mark.parametrize("spelling", ["0.5", "0.50", ".5", "5e-1", "5.0E-01"])
def test_slow_requests_are_those_beyond_the_bucket_however_its_boundary_is_spelled(spelling: str) -> None:
    boundaries = {"0.05": 0.05, spelling: 0.5, "+Inf": 2}
    windows = look(collector(LATENCY), latency_world(boundaries, boundaries), 31.0)
    assert usable(windows) == {index: (Counts(30, 10), Counts(30, 10)) for index in range(3)}


def test_a_boundary_that_does_not_exist_is_a_fault_that_names_the_nearest() -> None:
    own = collector(LATENCY)
    boundaries = {"0.1": 0.1, "0.25": 0.25, "1.0": 2, "2.5": 2, "+Inf": 2}
    reader = latency_world(boundaries, boundaries)
    assert look(own, reader, 31.0) == ()  # first the boundaries are asked for
    windows = look(own, reader, 31.2)
    assert reasons(windows) == dict.fromkeys(range(3), Reason.BUCKET_RESOLUTION)
    assert windows[0].fault is not None
    assert "no bucket ends at 0.5 s: the nearest boundaries are 0.25 and 1" in windows[0].fault.detail
    assert own.ticks(T0 + 31.2) == ()


def test_a_canary_with_other_buckets_than_stable_is_never_all_slow() -> None:
    own = collector(LATENCY)
    reader = latency_world({"0.25": 0.25, "1": 2}, {"0.5": 0.5, "1": 2})
    look(own, reader, 31.0)
    assert set(reasons(look(own, reader, 31.2)).values()) == {Reason.BUCKET_RESOLUTION}


def test_judged_samples_are_passed_and_all() -> None:
    reader, pods = FakeReader(), (canary_pod(), stable_pod())
    for second in range(-20, 12):
        for pod in pods:
            pod.count("judge_verdicts_total", 4, verdict="faithful")
            pod.count("judge_verdicts_total", 1, verdict="unfaithful")
            pod.scrape_into(reader, T0 + second + 0.5)
    assert usable(look(collector(SAMPLES), reader, 11.0)) == {0: (Counts(40, 10), Counts(40, 10))}


# Ticks


def test_ticks_are_there_three_tenths_of_a_second_after_their_end() -> None:
    own, reader = collector(), steady(40)
    look(own, reader, 20.2)
    assert max(tick.end for tick in own.ticks(T0 + 20.2)) == 19.0
    look(own, reader, 20.3)
    ticks = ticks_by_end(own.ticks(T0 + 20.3))
    assert ticks[20.0].canary == Counts(2, 1)
    assert ticks[20.0].stable == Counts(8, 0)


def test_ticks_reach_back_over_the_rule_and_one_window_and_before_t0() -> None:
    own, reader = collector(), steady(40)
    look(own, reader, 6.5)
    ticks = ticks_by_end(own.ticks(T0 + 6.5))
    ends = sorted(ticks)
    assert ends == [float(end) for end in range(int(ends[0]), 7)]
    assert ends[0] <= 6 - 5 - 10 + 1
    assert {tick.canary.n for tick in ticks.values()} == {3}


def test_ticks_between_two_distant_looks_are_all_given() -> None:
    own, reader = collector(), steady(90)
    look(own, reader, 20.5)
    own.ticks(T0 + 20.5)
    look(own, reader, 80.5)
    ends = [tick.end for tick in own.ticks(T0 + 80.5)]
    assert min(ends) <= 6.0
    assert max(ends) == 80.0
    assert len(ends) == len(set(ends)) == max(ends) - min(ends) + 1


def test_ticks_agree_with_the_windows() -> None:
    own, reader = collector(), steady(40)
    windows = usable(look(own, reader, 31.5))
    ticks = ticks_by_end(own.ticks(T0 + 31.5))
    for index, (canary, _) in windows.items():
        inside = [ticks[float(end)].canary for end in range(index * 10 + 1, index * 10 + 11)]
        assert sum(inside, Counts(0, 0)) == canary


def test_no_tick_is_given_for_a_time_that_was_not_read() -> None:
    own, reader = collector(), steady(40)
    look(own, reader, 20.5)
    reader.fault = OUTAGE
    look(own, reader, 30.5)
    assert max(tick.end for tick in own.ticks(T0 + 30.5)) == 20.0


# Size


def test_a_long_backlog_comes_in_pieces_over_several_looks() -> None:
    reader = steady(4000, canary=(1, 0), stable=(1, 0))
    own, rounds = collector(), 0
    seen: list[Window] = []
    while not seen or seen[-1].index < 398:
        questions = own.questions(T0 + 3995.0)
        assert len(questions) <= 4 * MAX_CHUNKS
        own.absorb({question: reader.read(question) for question in questions})
        seen += own.windows()
        rounds += 1
        assert rounds < 10
    assert [window.index for window in seen] == list(range(399))
    assert all(window.fault is None and window.canary == Counts(10, 0) for window in seen)


def test_an_answer_that_is_too_large_is_asked_for_in_smaller_pieces() -> None:
    reader = steady(600)
    limit = 300.0

    def read(own: Collector) -> tuple[Window, ...]:
        answers = {}
        for question in own.questions(T0 + 590.0):
            large = question.time - question.start > limit / 5
            answers[question] = Fault(Reason.TOO_LARGE, "too large") if large else reader.read(question)
        own.absorb(answers)
        return own.windows()

    own = collector()
    seen: list[Window] = []
    for _ in range(8):
        seen += read(own)
    assert [window.index for window in seen] == list(range(58))
    assert all(window.fault is None for window in seen)


# What can't be built


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"window_seconds": 1.5}, "at least two scrape intervals"),
        ({"source": source(ArmsBy.WORKLOAD, "workload")}, "tells arms apart by Workload"),
        ({"source": source(label="code")}, "sets the label 'code'"),
    ],
)
def test_a_collector_that_could_not_tell_anything_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        collector(**changes)


@pytest.mark.parametrize(
    ("histogram", "sentence"),
    [("latency_bucket", "without _bucket"), ('latency{le="0.5"}', "leave out the label le")],
)
def test_a_histogram_is_named_by_its_base_and_without_le(histogram: str, sentence: str) -> None:
    evidence = LATENCY.model_dump(by_alias=True)
    evidence["latency"]["histogram"] = histogram
    with pytest.raises(ValueError, match=sentence):
        collector(Evidence.model_validate(evidence))


def test_the_digest_names_what_was_asked_and_not_when() -> None:
    own = collector()
    before = own.rendered_digest
    own.questions(T0 + 40.0)
    assert own.rendered_digest == before == collector(t0=T0 + 500.0).rendered_digest
    assert before.startswith("sha256:")
    assert before != collector(namespace="other").rendered_digest
