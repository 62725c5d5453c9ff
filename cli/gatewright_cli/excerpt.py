"""One line of evidence for each check: which counters, the newest windows, failing pods, a Job's exit, sample ids. Pure."""

import math
from collections.abc import Sequence

from gatewright_analysis.evidence.model import Counts, Fault, JobFacts, PodFacts, Window
from gatewright_analysis.evidence.record import CheckRecord
from gatewright_cli.kube import Object
from gatewright_cli.output import clean, share

BARS = "▁▂▃▄▅▆▇█"
GAP = "·"
"""A window without a usable number."""
BARS_SHOWN = 20
NEWEST = 3
IDS_SHOWN = 4


def excerpt(record: CheckRecord | None, declared: Object | None = None, stage: str = "Canary") -> str:
    """What was seen, the newest last; empty where nothing was stored. `declared` is the check in its contract."""
    if record is None:
        return ""
    parts = [
        f"no answer: {clean(record.fault.reason.value)}, {clean(record.fault.detail)}"
        if record.fault
        else "",
        _pods(record.pods) if record.pods else "",
        _job(record.job) if record.job else "",
        _windows(record.windows),
        f"the answer of run {clean(record.cached_from)}, judged before" if record.cached_from else "",
        f"judged by {clean(record.judge)}" if record.judge else "",
        asked(declared, stage),
    ]
    return "; ".join(part for part in parts if part)


def bad_ratios(record: CheckRecord | None) -> list[float | None]:
    """Of each window, the oldest first, the share of bad events (a gauge: its value); None where there is none."""
    if record is None:
        return []
    return [_ratio(window) for window in record.windows]


def sparkline(values: Sequence[float | None], limit: float | None = None, columns: int = BARS_SHOWN) -> str:
    """One character a value, or one for a few neighbours. With a `limit`, bars of half the height are at it; the highest
    is twice that, or the greatest value where that is more."""
    if not any(value is not None for value in values):
        return ""
    size = math.ceil(len(values) / columns)
    groups = [values[start : start + size] for start in range(0, len(values), size)]
    means = [_mean([value for value in group if value is not None]) for group in groups]
    known = [mean for mean in means if mean is not None]
    low, high = min(0.0, *known), max(2 * (limit or 0.0), *known)
    return "".join(GAP if mean is None else _bar(mean, low, high) for mean in means)


def asked(declared: Object | None, stage: str) -> str:
    """The counters, query, suite, pods or Job that the contract names for this stage."""
    entries = (declared or {}).get("evidence") or []
    own = next((entry for entry in entries if stage in (entry.get("stages") or ())), None)
    for kind, body in (own or {}).items():
        if not isinstance(body, dict):
            continue
        if body.get("bad"):
            return f"counts {_listed(body['bad'])} of {_listed(body.get('total') or ())}"
        if kind == "latency":
            return f"counts {clean(body.get('histogram', ''))} above {body.get('le')} s"
        if body.get("suite"):
            return f"suite {clean(body['suite'])}"
        if body.get("query"):
            return f"asks {clean(body['query'])}"
    return ""


def _ratio(window: Window) -> float | None:
    if window.fault is not None:
        return None
    if window.value is not None:
        return window.value if math.isfinite(window.value) else None
    if window.scores:
        return 1 - sum(window.scores) / len(window.scores)
    return window.canary.bad / window.canary.n if window.canary.n > 0 else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _bar(value: float, low: float, high: float) -> str:
    place = (value - low) / (high - low) if high > low else 0.0
    # Only nothing at all is the lowest bar: one bad request in thousands must be seen.
    return BARS[0] if place <= 0 else BARS[max(1, min(len(BARS) - 1, round(place * (len(BARS) - 1))))]


def _windows(windows: Sequence[Window]) -> str:
    if not windows:
        return ""
    newest = windows[-NEWEST:]
    if any(window.value is not None for window in windows):
        shown = " ".join(
            f"{window.value:g}" if window.value is not None else _lost(window) for window in newest
        )
        return f"values, newest last: {shown} ({len(windows)} windows)"
    if any(window.scores for window in windows):
        scores = [score for window in windows for score in window.scores]
        return f"mean score {sum(scores) / len(scores):.3f} of {len(scores)}{_ids(windows)}"
    if len(windows) == 1 and windows[0].clusters:
        only = windows[0].canary
        return f"{only.bad} of {only.n} bad{_ids(windows)}"
    shown = " ".join(_lost(window) if window.fault else _of(window.canary) for window in newest)
    stable = [window.stable for window in windows if window.stable is not None and window.fault is None]
    beside = sum(stable, Counts(0, 0))
    compared = f", stable {share(beside.bad / beside.n)} bad of {beside.n}" if beside.n > 0 else ""
    return f"bad/all, newest last: {shown} ({len(windows)} windows){compared}{_ids(windows)}"


def _of(counts: Counts) -> str:
    return f"{counts.bad}/{counts.n}"


def _lost(window: Window) -> str:
    return clean(window.fault.reason.value) if window.fault else "–"


def _ids(windows: Sequence[Window]) -> str:
    """Samples that were judged bad, by the ids that their result file gives them."""
    bad = list(dict.fromkeys(own.key for window in windows for own in window.clusters if own.bad > 0))
    if not bad:
        return ""
    more = f" and {len(bad) - IDS_SHOWN} more" if len(bad) > IDS_SHOWN else ""
    return f"; bad samples {', '.join(clean(key)[:24] for key in bad[:IDS_SHOWN])}{more}"


def _pods(pods: PodFacts) -> str:
    failing = f", failing: {_listed(pods.failing)}" if pods.failing else ""
    return (
        f"{pods.ready} of {pods.expected} pods ready, {pods.restarts} restarts{failing}"
        f"{_trouble(pods.infrastructure)}"
    )


def _job(job: JobFacts) -> str:
    code = "" if job.exit_code is None else f" with exit code {job.exit_code}"
    report = (
        "" if job.good is None or job.bad is None else f", reported {job.bad} bad of {job.good + job.bad}"
    )
    return f"Job {clean(job.name)} {job.phase.name.lower()}{code}{report}{_trouble(job.trouble)}"


def _trouble(fault: Fault | None) -> str:
    return "" if fault is None else f", {clean(fault.reason.value)}: {clean(fault.detail)}"


def _listed(words: Sequence[object]) -> str:
    shown = ", ".join(clean(word) for word in words[:2])
    return f"{shown} and {len(words) - 2} more" if len(words) > 2 else shown
