"""Native histograms as counts: observations at or below `le`, and all of them (statistics.md 7.4).

Exponential buckets and custom ones (NHCB) are read alike, each by the ends that the source gives it. Only whole
buckets are counted: one that has `le` inside it and is not empty says that `le` is no boundary in use.
"""

from dataclasses import dataclass

from gatewright_analysis.evidence.counters import read_count
from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.question import Bucket, Histogram
from gatewright_analysis.reasons import Reason


@dataclass(frozen=True, slots=True)
class NativeCount:
    """One state of a native histogram, split at `le`."""

    total: int
    good: int
    """Observations at or below `le`. NaN was observed where the buckets hold less than `total`: never good."""
    buckets: tuple[Bucket, ...]


def split(histogram: Histogram, le: float) -> NativeCount | Fault:
    """Observations at or below `le` seconds and all of them, or why they can't be told."""
    total = read_count(histogram.total)
    if isinstance(total, Fault):
        return total
    good = held = 0
    for bucket in histogram.buckets:
        count = read_count(bucket.held)
        if isinstance(count, Fault):
            return count
        held += count
        if bucket.high <= le:
            good += count
        elif count and _reaches_down_to(bucket, le):
            return _straddled(bucket, le)
    if held > total:
        return Fault(
            Reason.NOT_A_COUNTER, "a native histogram has more observations in its buckets than in all"
        )
    return NativeCount(total, good, histogram.buckets)


def began_anew(before: NativeCount, now: NativeCount) -> bool:
    """Whether observations are gone: the count or some bucket fell, so the process began anew.

    A histogram may widen its buckets to save memory, and then a bucket's observations stand in the wider one that
    took it in. Finer buckets never come of coarser ones, but by a new start.
    """
    if now.total < before.total:
        return True
    homes = {bucket[:4]: index for index, bucket in enumerate(now.buckets)}
    kept = [0.0] * len(now.buckets)
    for bucket in before.buckets:
        if not bucket.held:
            continue
        home = homes.get(bucket[:4])
        if home is None:
            home = next((i for i, wider in enumerate(now.buckets) if _inside(bucket, wider)), None)
        if home is None:
            return True
        kept[home] += bucket.held
    return any(bucket.held < least for bucket, least in zip(now.buckets, kept, strict=True))


def _reaches_down_to(bucket: Bucket, le: float) -> bool:
    """Of a bucket that ends above `le`: whether `le` itself or something below may lie in it."""
    return bucket.low < le or (bucket.low == le and bucket.low_closed)


def _inside(bucket: Bucket, wider: Bucket) -> bool:
    below = wider.low < bucket.low or (
        wider.low == bucket.low and (wider.low_closed or not bucket.low_closed)
    )
    above = wider.high > bucket.high or (
        wider.high == bucket.high and (wider.high_closed or not bucket.high_closed)
    )
    return below and above


def _straddled(bucket: Bucket, le: float) -> Fault:
    ends = [end for end in (bucket.low, bucket.high) if 0 < end < float("inf")]
    near = " and ".join(f"{end:g}" for end in ends)
    choice = f"the nearest boundaries are {near}; use one of them as le" if ends else "it has one bucket only"
    return Fault(Reason.BUCKET_RESOLUTION, f"{le:g} s lies inside a bucket of the native histogram: {choice}")
