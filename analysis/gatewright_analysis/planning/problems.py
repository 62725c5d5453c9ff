"""What stands against a plan: sentences that say what to do (statistics.md R2, section 5)."""

import math
from collections.abc import Iterator
from typing import Final

from gatewright_analysis.explain import percent
from gatewright_analysis.kinds.contract import (
    Check,
    GateContractSpec,
    OnBreach,
    Pool,
    Require,
    Stage,
)
from gatewright_analysis.planning.model import CheckPlan, GatePlan, Problem
from gatewright_analysis.statistics.evalue import log_e_fail
from gatewright_analysis.statistics.plan import power_per_check
from gatewright_analysis.task import SAMPLES_FLOOR, Terms

LOW_JOINT_POWER: Final = 0.6
"""Below it somebody is told: five checks of 90 % each."""
_GOOD_JOINT_POWER: Final = 0.9
_TENFOLD: Final = 10
_LONGEST_SEARCH: Final = 20_000
"""Windows after which a breach counts as not found at all."""
_NOT_FOUND = ((100.0, "from 0.1 % to 1 %"), (10.0, "from 1 % to 10 %"))
"""R2: rises against stable that nothing finds within a gate at or below so many requests per minute."""


def pass_problems(check: Check, own: CheckPlan, terms: Terms, gate: GatePlan) -> Iterator[Problem]:
    if own.require is Require.ADVISORY:
        return
    if check.require is Require.PASS and terms.planned < terms.n_min:
        yield Problem(
            f"The check {check.id} can never pass: it plans {terms.planned:,} samples, and even if all of them were good "
            f"they could not prove {terms.threshold:.6g}; plan at least {terms.n_min:,}, or loosen the limit.",
            check.id,
            never=True,
        )
        return
    if own.expected is None or own.minutes is None or gate.max_minutes is None:
        return
    needed = SAMPLES_FLOOR if own.require is Require.NO_BREACH else terms.planned
    if own.expected >= needed:
        return
    least = SAMPLES_FLOOR if own.require is Require.NO_BREACH else terms.min_samples
    missing = needed - own.expected
    per_minute = own.per_minute or 0.0
    wait = gate.max_minutes + missing / per_minute if per_minute else math.inf
    ends = f"{gate.name} ends after {length(gate.max_minutes)}"
    if own.expected < least:
        after = f"{ends} with {own.expected:,} of the {least:,} samples that it takes at least"
    else:
        after = f"{ends}, where a candidate half-way to perfect passes with a probability of {percent(own.power_in_gate or 0)}"
    yield Problem(
        f"The check {check.id} needs {length(wait)} at this rate ({rate_text(per_minute)} events a minute at the canary), and "
        f"{after}: {_ways(check, own, gate)}.",
        check.id,
        gate.name,
        never=own.expected < least and not gate.lenient,
        slow=True,
    )


def _ways(check: Check, own: CheckPlan, gate: GatePlan) -> str:
    if gate.lenient:
        return "it completes without proof; lengthen the bake, or loosen the limit"
    if own.require is Require.NO_BREACH:
        return "lengthen the gate"
    can_pool = check.pool is Pool.STEP and gate.stage is Stage.CANARY
    pool = "pool over the rollout, " if can_pool else ""
    return f"{pool}lengthen the gate, loosen the limit or ask for NoBreach"


def breach_problems(
    contract: GateContractSpec, check: Check, own: CheckPlan, terms: Terms, gate: GatePlan, rate: float
) -> Iterator[Problem]:
    """What the canary could do wrong without being sent back within the gate."""
    if own.require is Require.ADVISORY or contract.on_breach(check) is not OnBreach.ROLLBACK:
        return
    assert own.per_minute is not None and gate.max_minutes is not None
    bad = min(_TENFOLD * terms.limit, terms.limit + (1 - terms.limit) / 2)
    minutes = minutes_to_breach(own.per_minute, bad, terms, gate.window_seconds)
    if minutes > gate.max_minutes:
        takes = "more than a week" if math.isinf(minutes) else f"about {length(minutes)}"
        yield Problem(
            f"A canary with {percent(bad)} bad events, where {check.id} allows {percent(terms.limit)}, is not found within "
            f"{gate.name} at this rate (it takes {takes}): only total failure and the checks on pods are quicker.",
            check.id,
            gate.name,
        )
    for most, rise in _NOT_FOUND:
        if check.versus_stable is not None and gate.stage is Stage.CANARY and rate <= most:
            yield Problem(
                f"At {most:g} requests a minute and fewer, nothing that keeps the guarantees finds within a gate that errors "
                f"rose {rise} (check {check.id}).",
                check.id,
            )


def minutes_to_breach(per_minute: float, bad_ratio: float, terms: Terms, window_seconds: float) -> float:
    """Until E⁻ convicts a canary that steadily fails with `bad_ratio`, on expected counts with the φ of steady errors;
    infinite after `_LONGEST_SEARCH` windows."""
    if per_minute <= 0:
        return math.inf
    minutes = window_seconds / 60
    for windows in range(2, _LONGEST_SEARCH):
        # Dispersion starts at 3 with the weight of two windows, and steady errors add 1 a window.
        phi = max(1.0, (windows + 6) / (windows + 1))
        n = per_minute * minutes * windows / phi
        if log_e_fail(n * (1 - bad_ratio), n * bad_ratio, terms.threshold) >= terms.log_e_breach:
            return minutes * windows
    return math.inf


def gauge_problems(check: Check, gate: GatePlan, wanted: Require) -> Iterator[Problem]:
    entry = check.evidence_at(gate.stage)
    if entry is None or entry.value is None or gate.max_minutes is None or wanted is not Require.PASS:
        return
    spec, window = entry.value, gate.window_seconds
    every = math.ceil(spec.spacing.total_seconds() / window - 1e-9) * window
    readings = int(gate.max_minutes * 60 / every + 1e-9)
    if readings < spec.min_windows:
        yield Problem(
            f"The check {check.id} can never pass at {gate.name}: it asks for {spec.min_windows} readings, and there are "
            f"{readings} in {length(gate.max_minutes)}; lengthen the gate to {length(spec.min_windows * every / 60)}.",
            check.id,
            gate.name,
            never=True,
        )


def joint_problems(gates: list[GatePlan], joint: float | None) -> Iterator[Problem]:
    count = len(
        {c.check for g in gates for c in g.checks if c.require is Require.PASS and c.power is not None}
    )
    if joint is None or count < 2 or joint >= LOW_JOINT_POWER:
        return
    each = power_per_check(_GOOD_JOINT_POWER, count)
    yield Problem(
        f"The {count} checks that must pass do so together with a joint power of {round(joint * 100)} %, for a candidate "
        f"half-way between its limits and perfect: plan each for {percent(each)} (plannedSamples), or ask fewer of them to Pass."
    )


def rate_text(per_minute: float) -> str:
    """2.5, 83.3, 4,170; never an exponent."""
    return f"{per_minute:,.0f}" if per_minute >= 100 else f"{per_minute:.3g}"


def length(minutes: float) -> str:
    """3.2 hours, 45 minutes, 20 seconds; for sentences."""
    if math.isinf(minutes):
        return "forever"
    if minutes >= 60 * 48:
        return f"{minutes / 1440:.1f} days"
    if minutes >= 90:
        return f"{minutes / 60:.1f} hours"
    return f"{minutes:.3g} minutes" if minutes >= 1 else f"{minutes * 60:.3g} seconds"
