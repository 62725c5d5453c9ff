"""A fingerprint from an info metric: what to ask its source, and what the answer says. Strict: what is not one
model with one identity is a fault.

Raw samples are asked for, because an instant vector does not tell how old they are. All series of one scrape carry
the same time, so of each target only its newest scrape counts: a series that was replaced by another is over.
"""

import math
from collections.abc import Iterator

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.promql import parse_selector
from gatewright_analysis.evidence.question import Answer, Question, Series
from gatewright_analysis.kinds.policy import Fingerprint
from gatewright_analysis.reasons import Reason
from gatewright_analysis.world import MAX_VALUE_CHARS, fingerprint_value

FRESH_SCRAPES = 2
"""The newest sample is at most so many scrapes old."""
_ASKED_SCRAPES = 10
"""Asked for, so that a metric that is not scraped any more can be told from one that never was."""


def fingerprint_question(fingerprint: Fingerprint, scrape_seconds: float, now: float) -> Question:
    """What to ask at `now` (Unix seconds): the selector as it stands, for no arm and no namespace.

    Raises ValueError when the selector can't be read.
    """
    span = _ASKED_SCRAPES * scrape_seconds
    selector = parse_selector(fingerprint.series)
    return Question(fingerprint.source, selector.range(span), round(now, 3), round(now - span, 3))


def read_fingerprint(
    fingerprint: Fingerprint, scrape_seconds: float, now: float, answer: Answer
) -> str | Fault:
    """The value that the answer gives, or why it gives none. The fault's sentence names the fingerprint."""
    if isinstance(answer, Fault):
        return _fault(fingerprint, answer.reason, answer.detail)
    if not answer.series:
        return _fault(fingerprint, Reason.NO_DATA, f"{fingerprint.series} has no series")
    fresh = tuple(_newest(answer.series, now - FRESH_SCRAPES * scrape_seconds))
    if not fresh:
        return _fault(
            fingerprint,
            Reason.STALE,
            f"the newest sample of {fingerprint.series} is older than two scrapes ({FRESH_SCRAPES * scrape_seconds:g} s)",
        )
    found: set[str] = set()
    for series in fresh:
        value = _value(fingerprint, series)
        if isinstance(value, Fault):
            return value
        found.add(value)
    if len(found) > 1:
        return _fault(
            fingerprint,
            Reason.UNEXPECTED_SERIES,
            f"{fingerprint.series} gives {len(found)} values at once, where one is meant: narrow the selector, or "
            "wait until all of it is one version",
        )
    return found.pop()


def _newest(series: tuple[Series, ...], since: float) -> Iterator[Series]:
    """Of each target the series of its newest scrape, if that is not older than `since`."""
    newest: dict[tuple[str, str, str], float] = {}
    for one in series:
        if one.samples:
            target = _target(one)
            newest[target] = max(newest.get(target, -math.inf), one.samples[-1].at)
    for one in series:
        if one.samples and one.samples[-1].at == newest[_target(one)] >= since:
            yield one


def _target(series: Series) -> tuple[str, str, str]:
    labels = dict(series.labels)
    return labels.get("job", ""), labels.get("instance", ""), labels.get("pod", "")


def _value(fingerprint: Fingerprint, series: Series) -> str | Fault:
    number = series.samples[-1].value
    if math.isnan(number):
        return _fault(fingerprint, Reason.NOT_A_NUMBER, f"{fingerprint.series} is NaN")
    if number != 1:
        return _fault(
            fingerprint,
            Reason.WRONG_RESULT_TYPE,
            f"{fingerprint.series} has the value {number:g}, and an info metric always has 1",
        )
    labels = dict(series.labels)
    absent = [name for name in fingerprint.labels if not labels.get(name)]
    if absent:
        return _fault(
            fingerprint, Reason.UNEXPECTED_SERIES, f"{fingerprint.series} has no label {', '.join(absent)}"
        )
    value = fingerprint_value({name: labels[name] for name in fingerprint.labels})
    if len(value) > MAX_VALUE_CHARS:
        return _fault(
            fingerprint,
            Reason.TOO_LARGE,
            f"its labels have {len(value)} characters, and {MAX_VALUE_CHARS} can be kept: name fewer labels",
        )
    return value


def _fault(fingerprint: Fingerprint, reason: Reason, why: str) -> Fault:
    return Fault(reason, f"{fingerprint.name} can't be read: {why}")
