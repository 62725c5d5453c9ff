"""The metrics page, the probes, the log lines and the rate limit."""

import asyncio
import io
import json
import logging
import math
import time

import pytest

from gatewright_operator.logs import JsonFormatter, Sparse, TextFormatter
from gatewright_operator.metrics import Counter, Gauge, Histogram, Metrics
from gatewright_operator.probes import Limits, Vitals, problems, watch_loop_lag
from gatewright_operator.throttle import TokenBucket
from tests.unit.fake_time import now, run


def test_a_page_reads_as_prometheus_reads_it() -> None:
    metrics = Metrics()
    metrics.verdicts.inc(decision="HOLD", reason='Low"Traffic"\n\\')
    metrics.held_since.set(1.5, namespace="shop", rollout="checkout")
    page = metrics.render()
    assert "# TYPE gatewright_verdicts_total counter" in page
    assert 'gatewright_verdicts_total{decision="HOLD",reason="Low\\"Traffic\\"\\n\\\\"} 1\n' in page
    assert 'gatewright_held_since_timestamp_seconds{namespace="shop",rollout="checkout"} 1.5\n' in page
    assert "gatewright_loop_stalls_total 0\n" in page, "a counter without labels starts at 0"
    names = [line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))


def test_buckets_are_cumulative_and_end_with_all() -> None:
    histogram = Histogram("t_seconds", "Test.", buckets=(1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 99.0):
        histogram.observe(value)
    assert list(histogram.samples()) == [
        't_seconds_bucket{le="1"} 2',
        't_seconds_bucket{le="2"} 3',
        't_seconds_bucket{le="+Inf"} 4',
        "t_seconds_sum 102",
        "t_seconds_count 4",
    ]


def test_labels_other_than_declared_are_refused() -> None:
    counter = Counter("t_total", "Test.", ("kind",))
    with pytest.raises(ValueError, match="has the labels"):
        counter.inc()
    with pytest.raises(ValueError, match="only goes up"):
        counter.inc(-1, kind="x")


def test_a_gauge_can_be_read_when_asked_and_its_series_removed() -> None:
    assert list(Gauge("t", "Test.", read=lambda: 7.0).samples()) == ["t 7"]
    gauge = Gauge("t", "Test.", ("rollout",))
    gauge.set(math.nan, rollout="checkout")
    assert list(gauge.samples()) == ['t{rollout="checkout"} NaN']
    gauge.remove(rollout="checkout")
    assert list(gauge.samples()) == []


HEALTHY = Vitals(
    filled=True, watching=True, watch_age_seconds=10, oldest_due_seconds=0, oldest_processing_seconds=1
)
LIMITS = Limits(watch_age_seconds=660)


@pytest.mark.parametrize(
    ("change", "said", "fatal"),
    [
        ({"filled": False}, "first listing", False),
        ({"watching": False}, "started anew", False),
        ({"watch_age_seconds": 700.0}, "nothing seen for 700 s", False),
        ({"oldest_due_seconds": 61.0}, "waited 61 s", True),
        ({"oldest_processing_seconds": 200.0}, "takes 200 s", True),
    ],
)
def test_each_trouble_has_its_sentence_and_only_what_a_restart_cures_is_fatal(
    change: dict[str, float | bool], said: str, fatal: bool
) -> None:
    assert problems(HEALTHY, LIMITS) == []
    (found,) = problems(Vitals(**{**vars(HEALTHY), **change}), LIMITS)
    assert said in found.message
    assert found.fatal is fatal


def test_a_stall_of_the_event_loop_is_measured_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()

    async def main() -> None:
        task = asyncio.create_task(watch_loop_lag(metrics))
        await asyncio.sleep(0.1)
        time.sleep(0.6)  # noqa: ASYNC251 - the stall that is to be found
        await asyncio.sleep(0.1)
        task.cancel()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert metrics.stalls.value() >= 1
    assert metrics.loop_lag.value() > 0.3
    assert "the event loop stood still" in caplog.messages


def test_a_burst_goes_at_once_and_then_the_rate_rules() -> None:
    async def main() -> list[float]:
        bucket = TokenBucket(rate=10, burst=5)
        at = []
        for _ in range(8):
            await bucket.take()
            at.append(now())
        return at

    assert run(main()) == pytest.approx([0, 0, 0, 0, 0, 0.1, 0.2, 0.3])


def test_callers_at_the_same_time_are_served_one_after_another_in_order() -> None:
    async def main() -> list[tuple[int, float]]:
        bucket = TokenBucket(rate=10, burst=1)
        served: list[tuple[int, float]] = []

        async def call(number: int) -> None:
            await bucket.take()
            served.append((number, round(now(), 6)))

        await asyncio.gather(*(call(number) for number in range(4)))
        return served

    assert run(main()) == [(0, 0.0), (1, 0.1), (2, 0.2), (3, 0.3)]


def test_a_rest_fills_the_bucket_up_to_its_burst_only() -> None:
    async def main() -> float:
        bucket = TokenBucket(rate=10, burst=2)
        await asyncio.sleep(1000)
        await asyncio.gather(*(bucket.take() for _ in range(4)))
        return now() - 1000

    assert run(main()) == pytest.approx(0.2)


def logged(formatter: logging.Formatter) -> list[str]:
    """The lines of one record, with and without trouble."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger = logging.Logger("test")
    logger.addHandler(handler)
    logger.info("weight set", extra={"rollout": "shop/checkout", "percent": 5, "why": 'a "reason"'})
    try:
        raise RuntimeError("a defect")
    except RuntimeError as error:
        logger.warning("reconcile failed", exc_info=error)
    return stream.getvalue().splitlines()


def test_a_log_line_is_a_constant_message_with_keys() -> None:
    lines = logged(TextFormatter())
    assert lines[0].endswith(' INFO test weight set rollout=shop/checkout percent=5 why="a \\"reason\\""')
    assert lines[-1] == "RuntimeError: a defect"


def test_a_log_line_in_json_is_one_object() -> None:
    first, second = (json.loads(line) for line in logged(JsonFormatter()))
    assert (first["message"], first["rollout"], first["percent"]) == ("weight set", "shop/checkout", 5)
    assert second["trace"].endswith("RuntimeError: a defect")


def test_a_library_that_repeats_itself_is_heard_once_in_a_while() -> None:
    sparse = Sparse(seconds=30)
    record = logging.makeLogRecord({"name": "library"})
    heard = []
    for second in range(100):
        record.created = float(second)
        if sparse.filter(record):
            heard.append(second)
    assert heard == [0, 30, 60, 90]
