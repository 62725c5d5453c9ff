"""The scalar types that all kinds share: what people write, what is refused, what is written back."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from gatewright_analysis.evidence.promql import parse_selector
from gatewright_analysis.kinds.base import Duration, PositiveDuration, Selector, Timestamp

DURATION: TypeAdapter[Any] = TypeAdapter(Duration)
POSITIVE: TypeAdapter[Any] = TypeAdapter(PositiveDuration)
SELECTOR: TypeAdapter[Any] = TypeAdapter(Selector)
TIMESTAMP: TypeAdapter[Any] = TypeAdapter(Timestamp)


@pytest.mark.parametrize(
    ("text", "seconds", "written"),
    [
        ("30s", 30, "30s"),
        ("90m", 5400, "1h30m"),
        ("1h30m", 5400, "1h30m"),
        ("1500ms", 1.5, "1s500ms"),
        ("0s", 0, "0s"),
    ],
)
def test_a_duration_is_read_and_written_as_people_write_it(text: str, seconds: float, written: str) -> None:
    value = DURATION.validate_python(text)
    assert value == timedelta(seconds=seconds)
    assert DURATION.dump_python(value) == written


@pytest.mark.parametrize("text", ["", "5", "1 day", "1d", "-5s", "5s ", "1.5h", "1000000s", "PT30S"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="duration"):
        DURATION.validate_python(text)


def test_a_positive_duration_is_longer_than_nothing() -> None:
    assert POSITIVE.validate_python("1ms") == timedelta(milliseconds=1)
    with pytest.raises(ValidationError, match="longer than 0s"):
        POSITIVE.validate_python("0h")


def test_a_time_is_kept_in_utc_to_the_microsecond() -> None:
    value = TIMESTAMP.validate_python("2030-01-01T02:00:00.000001+02:00")
    assert value == datetime(2030, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
    assert TIMESTAMP.dump_python(value) == "2030-01-01T00:00:00.000001Z"


SELECTORS = [
    "http_requests_total",
    "job:errors:total{}",
    'a{b="c"}',
    ' a { b =~ "5.." , c != "\\"x\\"" , } ',
    "a{b='c\"',d=`e\\f`}",
    'a{b="rate(x[5m])"}',
]
NOT_SELECTORS = [
    "rate(a[5m])", "sum(a)", "a[5m]", "a offset 5m", "a @ 0", "a + b", "a > 1", "a{b}", 'a{b="c}', 'a{b="c"', "1", "",
    '{__name__="a"}', 'a{b="c"} or d', 'a{b="c\nd"}', "a by (b)", "a{b=c}", "{}",
]  # fmt: skip


@pytest.mark.parametrize("text", SELECTORS)
def test_a_raw_selector_is_taken_by_the_kind_and_by_the_collector(text: str) -> None:
    assert SELECTOR.validate_python(text) == text
    assert parse_selector(text).metric


@pytest.mark.parametrize("text", NOT_SELECTORS)
def test_what_computes_or_is_malformed_is_refused_by_both(text: str) -> None:
    with pytest.raises(ValidationError):
        SELECTOR.validate_python(text)
    with pytest.raises(ValueError, match="raw selector"):
        parse_selector(text)


def test_a_hostile_selector_is_refused_without_backtracking() -> None:
    for piece in ('b="c"  ', 'b="c",  ', "b='c'`", 'b=~"\\\\"'):
        hostile = "a{" + piece * (505 // len(piece))
        with pytest.raises(
            ValidationError
        ):  # an exponential pattern would not come back before the test's time-out
            SELECTOR.validate_python(hostile)
