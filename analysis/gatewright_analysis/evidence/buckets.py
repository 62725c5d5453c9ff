"""Latency as a share at a bucket boundary (statistics.md 7.4): the boundary is compared as a number, never as
text.
"""

import math
from collections.abc import Iterable
from decimal import Decimal

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.promql import Matcher, Selector, parse_selector
from gatewright_analysis.evidence.question import Labels
from gatewright_analysis.reasons import Reason


def histogram_selectors(text: str, le: float) -> tuple[Selector, Selector]:
    """The counters of a classic histogram: those at or below `le`, and all. Raises ValueError with a
    sentence.
    """
    histogram = parse_selector(text)
    if histogram.metric.endswith("_bucket"):
        raise ValueError(
            f"name the histogram {histogram.metric.removesuffix('_bucket')} without _bucket: Gatewright adds it"
        )
    if any(matcher.label == "le" for matcher in histogram.matchers):
        raise ValueError("leave out the label le: the check's own le says which bucket counts")
    good = Selector(f"{histogram.metric}_bucket", histogram.matchers)
    return (
        good.with_matchers(Matcher("le", "=~", le_pattern(le))),
        Selector(f"{histogram.metric}_count", histogram.matchers),
    )


def le_pattern(le: float) -> str:
    """An RE2 expression for the spellings of a boundary: 1, 1.0, 1e+00; 0.5, .5, 0.50, 5e-1 (Prometheus 3
    stores 1 as 1.0).
    """
    number = Decimal(repr(float(le)))
    if not number.is_finite() or number <= 0:
        raise ValueError(f"a bucket boundary must be a finite number above 0, not {le}")
    plain = format(number, "f")
    whole, _, fraction = plain.partition(".")
    fraction = fraction.rstrip("0")
    decimal = f"{whole}\\.{fraction}0*" if fraction else f"{whole}(\\.0*)?"
    digits = "".join(map(str, number.normalize().as_tuple().digits))
    exponent = number.adjusted()
    mantissa = f"{digits[0]}\\.{digits[1:]}0*" if len(digits) > 1 else f"{digits[0]}(\\.0*)?"
    sign = "-" if exponent < 0 else "[+]?"
    if whole == "0":
        decimal = f"0?{decimal[1:]}"
    return f"{decimal}|{mantissa}[eE]{sign}0*{abs(exponent)}"


def is_boundary(text: str | None, le: float) -> bool:
    """Whether a label `le` means the boundary."""
    return text is not None and _number(text) == le


def without_bucket(labels: Labels) -> Labels:
    """What a bucket's counter and its histogram's count have in common."""
    return frozenset((name, value) for name, value in labels if name not in ("le", "__name__"))


def resolution_fault(le: float, boundaries: Iterable[str]) -> Fault:
    """No bucket ends at `le`: names the nearest boundaries there are."""
    numbers = sorted({number for text in boundaries if math.isfinite(number := _number(text))})
    below = [number for number in numbers if number < le]
    above = [number for number in numbers if number > le]
    near = " and ".join(f"{number:g}" for number in (below[-1:] + above[:1]))
    if any(number == le for number in numbers):
        detail = f"some pods have no bucket that ends at {le:g} s, others have: all must use the same buckets"
    elif near:
        detail = f"no bucket ends at {le:g} s: the nearest boundaries are {near}; use one of them as le"
    else:
        detail = f"no bucket ends at {le:g} s, and the histogram has no classic buckets"
    return Fault(Reason.BUCKET_RESOLUTION, detail)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
