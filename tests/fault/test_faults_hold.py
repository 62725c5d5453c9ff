"""A source that fails, in whatever way and for however long, can only keep a check from passing: never a breach."""

import pytest

from gatewright_analysis.evidence.model import Clock, Fault, Tick, Window
from gatewright_analysis.judge import CheckEvidence, judge
from gatewright_analysis.kinds.contract import Check, GateContractSpec, Stage
from gatewright_analysis.providers.fake import FakeReader
from gatewright_analysis.reasons import Reason
from gatewright_analysis.task import CheckTask
from gatewright_analysis.verdict import CheckResult, CheckStatus
from tests.unit.evidence_world import COUNTS, T0, canary_pod, collector, look, run_seconds, stable_pod

DURATION = 60.0
CHECK = Check.model_validate(
    {
        "id": "http-success",
        "oracleKind": "Deterministic",
        "limit": {"maxBadRatio": 0.05},
        "versusStable": {},
        "evidence": [COUNTS.model_dump(by_alias=True, exclude_none=True)],
    }
)
TASK = CheckTask(
    check=CHECK,
    contract=GateContractSpec(checks=(CHECK,)),
    stage=Stage.CANARY,
    e_processes=1,
    has_stable=True,
)
SOURCE_REASONS = [
    Reason.QUERY_ERROR, Reason.CLIENT_ERROR, Reason.UNAUTHORIZED, Reason.SERVER_ERROR, Reason.TIMEOUT,
    Reason.NOT_JSON, Reason.TOO_LARGE, Reason.REDIRECTED, Reason.UNREACHABLE, Reason.TLS_ERROR,
    Reason.PARTIAL_RESULT, Reason.WRONG_RESULT_TYPE, Reason.UNEXPECTED_SERIES,
]  # fmt: skip


def judged(reader: FakeReader, *, broken_from: float, fault: Fault | None, until: float) -> CheckResult:
    """Looks every 2 s; from `broken_from` seconds after t0 on the source answers with `fault`."""
    own = collector(for_seconds=5.0)
    windows: list[Window] = []
    ticks: list[Tick] = []
    for second in range(0, int(until) + 1, 2):
        reader.fault = fault if second >= broken_from else None
        windows += look(own, reader, float(second))
        ticks += own.ticks(T0 + second)
    if until > DURATION:
        windows += own.finish(T0 + DURATION)
    return judge(
        TASK,
        CheckEvidence(
            tuple(windows), tuple(ticks), fault=own.fault, window_pending=own.window_pending(T0 + until)
        ),
        Clock(now=until, duration=DURATION, max_duration=DURATION, window=10.0),
    )


def world(canary: tuple[int, int]) -> FakeReader:
    reader = FakeReader()
    run_seconds(reader, [(canary_pod(), *canary), (stable_pod(), 20, 0)], -20, 90)
    return reader


@pytest.mark.parametrize("reason", SOURCE_REASONS)
def test_a_source_that_never_answers_is_inconclusive_at_the_deadline_with_its_own_reason(
    reason: Reason,
) -> None:
    fault = Fault(reason, "the source fails")
    result = judged(world((20, 0)), broken_from=-1.0, fault=fault, until=DURATION + 30.0)
    assert result.status is CheckStatus.INCONCLUSIVE
    assert result.reason == reason
    assert not result.breach


@pytest.mark.parametrize("reason", SOURCE_REASONS)
def test_a_source_that_fails_before_the_end_keeps_a_good_canary_from_passing(reason: Reason) -> None:
    result = judged(
        world((20, 0)), broken_from=35.0, fault=Fault(reason, "the source fails"), until=DURATION + 30.0
    )
    assert result.status is CheckStatus.INCONCLUSIVE
    assert not result.breach


def test_a_good_canary_passes_and_a_bad_one_is_a_breach_when_the_source_works() -> None:
    assert (
        judged(world((20, 0)), broken_from=999.0, fault=None, until=DURATION + 2.0).status is CheckStatus.PASS
    )
    bad = judged(world((2, 18)), broken_from=999.0, fault=None, until=20.0)
    assert bad.breach
    assert bad.reason == Reason.TOTAL_FAILURE


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0.5])
def test_values_that_are_no_counts_never_pass_and_never_convict(value: float) -> None:
    reader = world((20, 0))
    pod = canary_pod()
    labels = {
        "namespace": "shop",
        "job": "pods",
        "instance": f"{pod.name}:8080",
        "pod": pod.name,
        "code": "500",
    }
    for second in range(-20, 90):
        reader.put("http_requests_total", labels, T0 + second + pod.offset, value)
    result = judged(reader, broken_from=999.0, fault=None, until=DURATION + 30.0)
    assert result.status is CheckStatus.INCONCLUSIVE
    assert not result.breach


def test_an_empty_source_never_passes_and_never_convicts() -> None:
    result = judged(FakeReader(), broken_from=999.0, fault=None, until=DURATION + 30.0)
    assert result.status is CheckStatus.INCONCLUSIVE
    assert result.reason == Reason.NO_DATA
