"""M4: the Wilson interval of repeated or conversational samples, on their effective size (statistics.md, section 6).

Samples of one cluster (the same item repeated, the turns of one conversation) resemble each other, so n of them tell
less than n independent ones. False passes at p = t stay ≤ 4.3 % from 30 clusters on (simulation); with fewer the
caller must not conclude anything.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scipy.special import stdtrit

from gatewright_analysis.statistics.errors import NoConclusion, open_share, whole
from gatewright_analysis.statistics.wilson import wilson_limits

LEAST_CLUSTERS: Final = 30
"""`minClusters` of R2: below it the evidence is inconclusive, whatever the interval says."""


@dataclass(frozen=True, slots=True)
class Clustered:
    """A proportion from clusters, with what its interval rests on."""

    share: float
    """Good samples of all samples."""
    clusters: int
    """Clusters with at least one sample."""
    n: int
    deff: float
    """How many samples tell as much as one independent sample, ≥ 1."""
    n_eff: float
    """n / deff."""
    low: float
    high: float


def clustered_interval(clusters: Sequence[tuple[int, int]], confidence: float = 0.95) -> Clustered:
    """Interval of the good ratio from each cluster's (good, n), with the t quantile of clusters − 1 in place of z.

    `confidence` is two-sided. Clusters with n = 0 don't count. Raises NoConclusion with fewer than two clusters, or
    counts that don't fit.
    """
    open_share(confidence, "The confidence")
    sums = [(whole(good, "The good samples"), whole(n, "The samples")) for good, n in clusters]
    if any(good > n for good, n in sums):
        raise NoConclusion("A cluster has more good samples than samples.")
    sums = [(good, n) for good, n in sums if n]
    count = len(sums)
    if count < 2:
        raise NoConclusion(
            f"{count} cluster{'' if count == 1 else 's'} with samples can't show how much clusters differ: "
            "at least 2 are needed for an interval."
        )
    n = sum(size for _, size in sums)
    share = sum(good for good, _ in sums) / n
    deff = _design_effect(sums, share, n)
    t = float(stdtrit(count - 1, (1.0 + confidence) / 2.0))
    low, high = wilson_limits(share, n / deff, t)
    return Clustered(share, count, n, deff, n / deff, low, high)


def _design_effect(sums: Sequence[tuple[int, int]], share: float, n: int) -> float:
    """max(1, V_cluster / (p̂(1 − p̂)/n)), V_cluster = C/(C − 1) · Σ(s_c − p̂·n_c)² / n²."""
    count = len(sums)
    if share in (0.0, 1.0):
        # Nothing varied, so nothing can be estimated: each cluster counts as one sample.
        return n / count
    squares = math.fsum((good - share * size) ** 2 for good, size in sums)
    between = count / (count - 1) * squares / (n * n)
    return max(1.0, between / (share * (1.0 - share) / n))
