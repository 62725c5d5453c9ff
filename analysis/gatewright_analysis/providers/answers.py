"""From the bytes of a Prometheus answer to typed samples. Strict: what is not of the documented form is a
fault.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.question import (
    Answer,
    Answered,
    Bucket,
    Expect,
    Histogram,
    Question,
    Sample,
    Series,
    labels_of,
)
from gatewright_analysis.reasons import Reason

ERROR_TYPES: Final = frozenset(
    {"timeout", "canceled", "execution", "bad_data", "internal", "unavailable", "not_found", "not_acceptable"}
)
"""Prometheus' own words for what went wrong; nothing else of an error's body is shown."""


_CLOSED_ENDS: Final = {0: (False, True), 1: (True, False), 2: (False, False), 3: (True, True)}
"""What the HTTP API writes before a bucket: which of its ends are in it, (low, high)."""


def decode(body: bytes) -> Mapping[str, Any] | Fault:
    """The JSON object in `body`. No part of the body gets into the fault's sentence."""
    try:
        decoded = json.loads(body)
    except (ValueError, RecursionError):  # ValueError covers malformed JSON and bytes that are not UTF-8
        return Fault(
            Reason.NOT_JSON, "the source answered with something that is not JSON: is its address right?"
        )
    if not isinstance(decoded, dict):
        return Fault(
            Reason.NOT_JSON, "the source's answer is JSON, but not the object that Prometheus answers with"
        )
    return decoded


def envelope_fault(decoded: Mapping[str, Any]) -> Fault | None:
    """A failure that came with status 200: an error, or warnings, which mean that the result is not complete."""
    if decoded.get("status") == "error":
        return Fault(Reason.QUERY_ERROR, f"the source refused the query{error_type(decoded)}")
    if decoded.get("status") != "success" or not isinstance(decoded.get("data"), dict):
        return Fault(Reason.NOT_JSON, "the source's answer has not the form of a Prometheus answer")
    if decoded.get("warnings"):
        return Fault(
            Reason.PARTIAL_RESULT,
            "the source warns that its answer is not complete: partial numbers are not used",
        )
    return None


def error_type(decoded: Mapping[str, Any]) -> str:
    """` (errorType)` when the source gave one of Prometheus' own, else nothing."""
    given = decoded.get("errorType")
    return f" ({given})" if isinstance(given, str) and given in ERROR_TYPES else ""


def read_answer(question: Question, decoded: Mapping[str, Any]) -> Answer:
    """The typed answer to `question` from a decoded answer in which `envelope_fault` found nothing."""
    data = decoded["data"]
    kind, result = data.get("resultType"), data.get("result")
    try:
        match question.expect:
            case Expect.SAMPLES:
                return _samples(question, kind, result)
            case Expect.HISTOGRAMS:
                return _histograms(question, kind, result)
            case Expect.VALUE | Expect.VALUES:
                return _values(question, kind, result)
    except _Malformed:
        return Fault(Reason.WRONG_RESULT_TYPE, "the result has not the form that its type promises")


class _Malformed(Exception):
    """A part of the result is not what the HTTP API documents."""


def _samples(question: Question, kind: object, result: object) -> Answer:
    if kind != "matrix":
        return _wrong_type(kind, "raw samples (a matrix)")
    found: list[Series] = []
    for item in _items(result):
        labels = labels_of(_metric(item))
        if "histograms" in item:
            return Fault(
                Reason.WRONG_RESULT_TYPE,
                "the series is a native histogram: counts are read from classic counters and buckets",
            )
        values = item.get("values")
        if not isinstance(values, list):
            raise _Malformed
        samples = sorted(_sample(pair) for pair in values)
        wanted = tuple(sample for sample in samples if question.start < sample.at <= question.time)
        found.append(Series(labels, wanted))
    return _twice(found) or Answered(tuple(series for series in found if series.samples))


def _histograms(question: Question, kind: object, result: object) -> Answer:
    if kind != "matrix":
        return _wrong_type(kind, "raw samples (a matrix)")
    found: list[Series] = []
    for item in _items(result):
        labels = labels_of(_metric(item))
        if "histograms" not in item:
            continue  # a summary's quantiles, say: numbers under the same name, and none that could be counted
        if item.get("values"):
            return Fault(
                Reason.WRONG_RESULT_TYPE,
                "a series is a native histogram at some times and a plain number at others: "
                "use a name that is one of both",
            )
        pairs = item["histograms"]
        if not isinstance(pairs, list):
            raise _Malformed
        states = sorted((_histogram(pair) for pair in pairs), key=lambda state: state.at)
        wanted = tuple(state for state in states if question.start < state.at <= question.time)
        found.append(Series(labels, histograms=wanted))
    return _twice(found) or Answered(tuple(series for series in found if series.histograms))


def _twice(found: list[Series]) -> Fault | None:
    if len({series.labels for series in found}) == len(found):
        return None
    return Fault(Reason.UNEXPECTED_SERIES, "the source answered with the same series twice")


def _values(question: Question, kind: object, result: object) -> Answer:
    if kind == "scalar":
        found = [Series(frozenset(), (_sample(result),))]
    elif kind == "vector":
        items = _items(result)
        if not items:
            return Fault(Reason.NO_DATA, "the query has no result")
        if len(items) > 1 and question.expect is Expect.VALUE:
            return Fault(
                Reason.UNEXPECTED_SERIES,
                f"the query must give one value, it gives {len(items)}: aggregate it",
            )
        found = [Series(labels_of(_metric(item)), (_sample(item.get("value")),)) for item in items]
    else:
        return _wrong_type(kind, "one value (an instant vector or a scalar)")
    values = [series.samples[0].value for series in found]
    if any(math.isnan(value) for value in values):
        return Fault(Reason.NOT_A_NUMBER, "the query's value is NaN: often a division by zero requests")
    if any(math.isinf(value) for value in values):
        return Fault(Reason.INFINITE, "the query's value is infinite: often a division by zero")
    return _twice(found) or Answered(tuple(found))


def _wrong_type(kind: object, wanted: str) -> Fault:
    known = kind if kind in ("matrix", "vector", "scalar", "string") else "something unknown"
    return Fault(Reason.WRONG_RESULT_TYPE, f"the answer is a {known}, not {wanted}")


def _items(result: object) -> list[dict[str, Any]]:
    if not isinstance(result, list) or not all(isinstance(item, dict) for item in result):
        raise _Malformed
    return result


def _metric(item: Mapping[str, Any]) -> Mapping[str, str]:
    metric = item.get("metric")
    if not isinstance(metric, dict) or not all(isinstance(value, str) for value in metric.values()):
        raise _Malformed
    return metric


def _sample(pair: object) -> Sample:
    if not (isinstance(pair, list) and len(pair) == 2):
        raise _Malformed
    at, value = pair
    if isinstance(at, bool) or not isinstance(at, int | float):
        raise _Malformed
    try:
        sample = Sample(float(at), _number(value))
    except OverflowError:
        raise _Malformed from None
    if not math.isfinite(sample.at):
        raise _Malformed
    return sample


def _number(text: object) -> float:
    if not isinstance(text, str):
        raise _Malformed
    try:
        return float(text)
    except ValueError:
        raise _Malformed from None


def _histogram(pair: object) -> Histogram:
    """`[time, {"count": "5", "sum": "1.2", "buckets": [[0, "0.25", "0.5", "5"], …]}]`; empty buckets are left out."""
    if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], dict)):
        raise _Malformed
    at, state = pair
    buckets = state.get("buckets", [])
    if not isinstance(buckets, list):
        raise _Malformed
    # The sum is left alone: negative or NaN observations may make anything of it.
    count = _sample([at, state.get("count")])
    read = tuple(_bucket(bucket) for bucket in buckets)
    if len({bucket[:4] for bucket in read}) < len(read):
        raise _Malformed
    return Histogram(count.at, count.value, read)


def _bucket(given: object) -> Bucket:
    if not (isinstance(given, list) and len(given) == 4):
        raise _Malformed
    ends, *texts = given
    if isinstance(ends, bool) or not isinstance(ends, int) or ends not in _CLOSED_ENDS:
        raise _Malformed
    low, high, count = (_number(text) for text in texts)
    if not low <= high or (math.isinf(low) and low == high):
        raise _Malformed
    return Bucket(low, high, *_CLOSED_ENDS[ends], count)
