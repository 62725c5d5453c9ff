"""Numbers as sentences: what a check found, what is missing, and how long that takes at today's rate.

Knows no statistics of its own and imports no scipy: everything is handed in.
"""

import math
from dataclasses import dataclass

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.reasons import Reason
from gatewright_analysis.verdict import CheckStatus, Statistics

_LONGEST = 1024


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a sentence about a counted check may need. Seconds are seconds, evidence natural logarithms."""

    kind: str
    states_bad_ratio: bool
    """The contract speaks of the largest bad ratio; else of the smallest good one, and so does the
    sentence."""
    limit: float
    statistics: Statistics
    log_e_pass_needed: float
    by_wilson: bool
    max_ratio: float | None
    still_needed: float
    """Samples that are still missing for a pass at this ratio; infinite when this ratio can't pass."""
    per_second: float
    seconds_left: float
    seconds_to_duration: float
    least: int
    """Below so many samples nothing can pass."""
    smallest_provable: float | None


def check_sentence(numbers: Numbers, status: CheckStatus, reason: Reason, fault: Fault | None) -> str:
    """One sentence for a person: estimate, bound, threshold, n, and what would change the result."""
    match status:
        case CheckStatus.PASS:
            text = _passed(numbers)
        case CheckStatus.FAIL:
            text = _failed(numbers, reason)
        case CheckStatus.NOT_PROVEN:
            text = _not_proven(numbers)
        case CheckStatus.INCONCLUSIVE | CheckStatus.ERROR:
            why = "no usable evidence" if fault is None else fault.detail.rstrip(".")
            text = f"the evidence can't be used: {why}; {_estimate(numbers)}"
        case CheckStatus.BELOW_THRESHOLD:
            text = _below(numbers, reason)
        case _:
            text = f"{_estimate(numbers)}; {_missing(numbers)}"
            if fault is not None:
                text += f"; the newest evidence can't be used: {fault.detail.rstrip('.')}"
    return clip(text[0].upper() + text[1:] + ".")


def clip(text: str) -> str:
    """`text`, cut to what a field of a kind may hold."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def percent(ratio: float) -> str:
    """Three significant digits: 0.0123 → `1.23 %`, 0.9987 → `99.87 %` (near 1, two digits of what is
    missing)."""
    value = ratio * 100
    small = min(value, 100 - value)
    if small <= 1e-9:
        return f"{round(value)} %"
    digits = (
        min(6, max(0, 1 - math.floor(math.log10(small))))
        if value > 50
        else min(6, max(0, 2 - math.floor(math.log10(small))))
    )
    text = f"{value:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"


def seconds(value: float) -> str:
    """A length of time as people say it: `40 s`, `7 min`, `3 h`, `2 days`."""
    if value < 90:
        return f"{math.ceil(value)} s"
    if value < 5400:
        return f"{math.ceil(value / 60)} min"
    if value < 172_800:
        return f"{math.ceil(value / 3600)} h"
    return f"{math.ceil(value / 86_400)} days"


def odds(log_e: float | None) -> str:
    """An e-value as odds: `34 : 1`; beyond a billion nobody counts."""
    if log_e is None or log_e < 0:
        return "less than 1 : 1"
    if log_e > math.log(1e9):
        return "more than 1e9 : 1"
    return f"{math.exp(log_e):,.0f} : 1"


def _noun(numbers: Numbers) -> str:
    return {"samples": "samples", "scores": "samples", "paired": "pairs that differ"}.get(
        numbers.kind, "requests"
    )


def _word(numbers: Numbers) -> str:
    """What the counted share did, in the contract's direction."""
    bad, good = {
        "latency": ("were too slow", "were fast enough"),
        "samples": ("failed", "passed"),
        "paired": ("lost", "won"),
    }.get(numbers.kind, ("were bad", "were good"))
    return bad if numbers.states_bad_ratio else good


def _share(numbers: Numbers, bad: float) -> str:
    """A share of bad events, said the way the contract says its limit."""
    return percent(bad if numbers.states_bad_ratio else 1 - bad)


def _limit(numbers: Numbers) -> str:
    return f"{'limit' if numbers.states_bad_ratio else 'threshold'} {_share(numbers, numbers.limit)}"


def _of(numbers: Numbers, good: int, bad: int) -> str:
    return f"{_share(numbers, bad / (good + bad))} of {good + bad:,} {_noun(numbers)} {_word(numbers)}"


def _estimate(numbers: Numbers) -> str:
    statistics = numbers.statistics
    if statistics.n == 0 or statistics.lb is None:
        return f"no {_noun(numbers)} counted, {_limit(numbers)}"
    if statistics.total is not None:
        text = (
            f"a mean score of {statistics.total / statistics.n:.3g} over {statistics.n:,} {_noun(numbers)} "
        )
        text += f"(at least {statistics.lb:.3g} by the bound, threshold {1 - numbers.limit:.6g})"
        return f"{text}, {statistics.missing:,} without a score" if statistics.missing else text
    edge = "at most" if numbers.states_bad_ratio else "at least"
    bound = f"{edge} {_share(numbers, 1 - statistics.lb)} by the bound"
    text = f"{_of(numbers, statistics.s, statistics.f)} ({bound}, {_limit(numbers)})"
    if statistics.clusters is not None and statistics.n_eff is not None:
        text += (
            f", repeats of {statistics.clusters:,} items that tell as much as {statistics.n_eff:,.0f} samples"
        )
    return f"{text}, {statistics.missing:,} without a verdict" if statistics.missing else text


def _passed(numbers: Numbers) -> str:
    if numbers.by_wilson:
        return f"{_estimate(numbers)}: proven at the planned look"
    return f"{_estimate(numbers)}: proven, with evidence of at least {_needed_odds(numbers)}"


def _needed_odds(numbers: Numbers) -> str:
    return f"{math.exp(numbers.log_e_pass_needed):.0f} : 1"


def _failed(numbers: Numbers, reason: Reason) -> str:
    statistics = numbers.statistics
    needed = odds(statistics.breach_threshold)
    beside = ""
    if statistics.stable_s is not None and statistics.stable_f is not None:
        beside = "; stable over the same time: no requests"
        if statistics.stable_s + statistics.stable_f:
            beside = f"; stable over the same time: {_of(numbers, statistics.stable_s, statistics.stable_f)}"
    match reason:
        case Reason.TOTAL_FAILURE:
            text = f"the canary failed most {_noun(numbers)} for as long as totalFailure says"
            return f"{text}: {_estimate(numbers)}{beside}"
        case Reason.BREACH_TWO_ARM:
            text = f"fails more than {numbers.max_ratio:g} times as often as stable"
            shown = odds(statistics.log_e_two_arm)
            return f"{text}, evidence {shown} (needs {needed}): {_estimate(numbers)}{beside}"
        case Reason.SHARED_OUTAGE:
            text = (
                "the limit is broken, but stable was not seen to keep it, so the version may not be the cause"
            )
            return f"{text}: {_estimate(numbers)}{beside}"
        case Reason.BREACH_ABSOLUTE:
            shown = odds(statistics.log_e_fail)
            return f"the limit is broken, evidence {shown} (needs {needed}): {_estimate(numbers)}{beside}"
        case _:
            return f"proven to miss its threshold: {_estimate(numbers)}"


def _not_proven(numbers: Numbers) -> str:
    text = f"no breach, and not proven either: {_estimate(numbers)}"
    if numbers.smallest_provable is not None:
        times = numbers.smallest_provable / numbers.limit
        seen = f"{numbers.statistics.n:,} {_noun(numbers)}"
        text += (
            f"; {seen} exclude only about {percent(numbers.smallest_provable)} bad, {times:.0f} × the limit"
        )
    return text


def _below(numbers: Numbers, reason: Reason) -> str:
    text = _estimate(numbers)
    if reason is Reason.LOW_TRAFFIC:
        text += f": too little traffic, fewer than {numbers.least:,} {_noun(numbers)} prove nothing"
        return f"{text}; {_missing(numbers)}"
    if reason is Reason.DRIFTED_TAIL:
        tail = _share(numbers, numbers.statistics.tail_bad_ratio or 0.0)
        return f"{text}: good enough on the whole, but not in the last third ({tail})"
    return f"{text}: neither proven nor disproven; {_missing(numbers)}"


def _missing(numbers: Numbers) -> str:
    """What a pass still needs, and whether the gate's time is enough for it at today's rate."""
    noun = _noun(numbers)
    if math.isinf(numbers.still_needed):
        return "at this ratio no number of them can pass"
    spent = "the planned look is spent, so " if numbers.statistics.ticket_used else ""
    needed = math.ceil(numbers.still_needed)
    if needed == 0:
        if numbers.seconds_to_duration > 0:
            return f"enough {noun}, the gate's duration ends in {seconds(numbers.seconds_to_duration)}"
        return f"enough {noun}, the evidence is not yet {_needed_odds(numbers)}"
    text = f"{spent}a pass needs about {needed:,} more {noun} at this ratio"
    if numbers.per_second <= 0:
        return f"{text}, and none arrive"
    duration = needed / numbers.per_second
    text += f", {seconds(duration)} at today's rate"
    if 0 < numbers.seconds_left < duration:
        text += f", but the gate ends in {seconds(numbers.seconds_left)}"
    return text
