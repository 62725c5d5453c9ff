"""The figures that statistics.md R2 quotes, each found again: one line "claimed, found, how"."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.bench.verdicts import exact, shipped, simulated
from tests.bench.verdicts.comparison import OURS, Found, Rate, having, percent
from tests.bench.verdicts.rules import Call
from tests.bench.verdicts.traffic import KINDS, Truth

LEVELS = (0.9, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Claim:
    """`claimed` is what the statistics page said before it was found again here."""

    what: str
    claimed: str
    found: str
    how: str


@dataclass(frozen=True, slots=True)
class Counts:
    """How many gates each simulated figure takes."""

    gates: int
    outages: int
    clusters: int
    times: int
    schedules: int


def recompute(counts: Counts, found: Found, say: Callable[[str], None]) -> list[Claim]:
    out = []
    for part in (_exact, _breach, _outages, _pass, _others, _times):
        say(f"figures: {part.__name__.strip('_')}")
        out += part(counts, found)
    return out


NOT_RECOMPUTED = (
    "φ from the split between the arms (up to 21 %, rejected)",
    "3.5 % as the worst formal error over three pooled attempts of *sampled* checks with interim failures (the exact walk above has no fail side, which only lowers it)",
    "the figures of sections 2 to 9 that tests already assert as reference values (R4)",
)


def _percents(shares: list[float]) -> str:
    return " / ".join(f"{100 * share:.2f}" for share in shares) + " %"


def _exact(counts: Counts, found: Found) -> list[Claim]:
    def worst(first: int, last: int, **how: float | bool) -> str:
        return _percents(
            [
                exact.worst_false_promote(level, first, last, steps=counts.schedules, **how)  # type: ignore[arg-type]
                for level in LEVELS
            ]
        )

    pairs, broken = exact.evidence_above_wilson()
    three = [
        1 - (1 - exact.worst_false_promote(level, 1, 40, z=2.394, odds=120.0, steps=counts.schedules)) ** 3
        for level in LEVELS
    ]
    single = exact.worst_false_promote(0.95, 20, 40, steps=counts.schedules)
    walk = "exact walk; t = .9 / .95 / .99; worst of traffic between a tenth and three times of what the plan needs"
    return [
        Claim("Wilson's real one-sided error, n ≥ 40, t ≥ .8", "2.98 %", f"{100 * exact.wilson_error(0.8, 40):.2f} %", "exact, at every jump of the critical count, n to 1,500"),
        Claim("the same, t ≥ .5", "3.49 %", f"{100 * exact.wilson_error(0.5, 40):.2f} %", "the same"),
        Claim("false PROMOTE of a gate of 10 to 20 min", "2.98 / 2.91 / 3.18 %", worst(20, 40), walk),
        Claim("… if every window may pass", "–", worst(1, 40), walk + "; `duration` is one window"),
        Claim("… over three attempts", "3.07 / 3.00 / 3.27 %", worst(1, 40, attempts=3), "the same, pooled, one Wilson look"),
        Claim("… with a new Wilson look for each attempt", "5.6 %", worst(1, 40, attempts=3, look_each_attempt=True), "the same"),
        Claim("… by E⁺ alone, over three attempts", "≤ .42 %", f"{worst(20, 40, attempts=3, wilson=False)}; every window may pass: {worst(1, 40, attempts=3, wilson=False)}", "the same; the bound that is proven is 2 %"),
        Claim("three artifacts at z = 2.394 and E ≥ 120", "≤ 3.3 %", _percents(three), "1 − (1 − worst of one)³"),
        Claim("three gates, at the threshold in all", "< 4e-5", f"{single**3:.1e}", "third power of a gate's 2.6 to 3 %"),
        Claim("E⁺ ≥ 50 never passes where Wilson would not", "0 of 3,636", f"{broken} of {pairs:,}", "each t and n of a grid, exact"),
        Claim("what 40 samples exclude under a 1 % limit, m = 10", "about 20 ×", f"{100 * exact.least_breach(40, 0.01, 10):.0f} ×", "exact, φ = 1; more with φ"),
    ]  # fmt: skip


def _breach(counts: Counts, found: Found) -> list[Claim]:
    runs = counts.gates
    near = [simulated.burst_rate(runs, mean, icc) for mean in (0.02, 0.03, 0.04) for icc in (0.05, 0.2)]
    alone = [
        simulated.convicted(simulated.canary_bursts(runs, mean, 0.2)) for mean in (0.02, 0.03, 0.04, 0.05)
    ]
    wild = [kind for kind in KINDS if "30 s" in kind.name]
    whole = [found.rate(OURS, Call.ROLLBACK, wild, [one]).text() for one in having(Truth.HEALTHY)]
    arms = simulated.canary_bursts(runs, 0.04, 0.2)
    by = np.maximum(simulated.phi(*arms[:2]), simulated.phi(*arms[2:]))
    first, kept_two = (
        simulated.ever_set(simulated.two_arm(*arms, drop_largest=False, max_ratio=1.0)),
        simulated.ever_set(simulated.two_arm(*arms, by)),
    )
    right, wrong = simulated.empty_windows(runs)
    trivial, kept = simulated.trivia(runs // 4)
    setting = "100 requests a window beside 300, limit 5 %, 20 windows, m = 10"
    return [
        Claim("false ROLLBACK, steady at the limit", "< .1 %", simulated.steady_at_limit(runs).text(), setting),
        Claim("… bursts inside one window, ICC ≤ .2", "≤ .4 %", f"≤ {max(near, key=lambda rate: rate.share).text()}; at the limit {simulated.burst_rate(runs, 0.05, 0.2).text()}", setting + "; means 2, 3, 4 %, ICC .05 and .2; total failure aside"),
        Claim("… bursts of the canary alone", "≤ 2.7 %", f"≤ {max(alone, key=lambda rate: rate.share).text()}; with total failure {whole[0]} at 1 %, {whole[1]} at 3.5 %", setting + "; means 2 to 5 %, ICC .2; the latter from the comparison above"),
        Claim("two arms as first written, bursts of the canary", "49 %", first.text(), setting + "; mean 4 %, ICC .2, r0 = 1"),
        Claim("two arms as shipped, the same", "≤ .47 %", kept_two.text(), setting),
        Claim("empty looks of 2 s counted as windows", "1.5 → 6.5 %", f"{right.text()} → {wrong.text()}", setting + "; mean 4 %, ICC .2, absolute route alone"),
        Claim("r0 = 1.0 convicts trivia", "it does", f"{trivial.text()}, r0 = 1.25: {kept.text()}", "1.1 % beside 1 % at 50,000 requests a window"),
        Claim("windows that E⁻ with φ needs for a late total failure", "9", f"{simulated.late_failure(runs // 4):.0f}", "after 20 good windows, 100 requests each"),
        Claim("“one window with E ≥ 10⁴ m” under bursts", "60 %", simulated.one_window_rule(runs).text(), setting + "; mean 4 %, ICC .2"),
    ]  # fmt: skip


def _outages(counts: Counts, found: Found) -> list[Claim]:
    ranges = simulated.outages(counts.outages)

    def between(name: str) -> str:
        low, high = ranges[name]
        return f"{percent(low)} in all" if low == high else f"{percent(low)} to {percent(high)}"

    how = f"54 cases of {counts.outages:,} gates: 120 / 210 / 300 s, 10 to 100 % deep, stable at .5 / 1 / 2 %, arms read up to 15 s apart"
    total = found.rate(
        OURS, Call.ROLLBACK, [kind for kind in KINDS if kind.name == "shared outage"], having(Truth.HEALTHY)
    )
    return [
        Claim("shared outages, absolute limit alone", "2–46 %", between("absolute alone"), how),
        Claim("… only while stable keeps the limit over the step", "0.0 %", between("whole step"), how),
        Claim("… stable judged by its last 3 windows", "79–100 %", f"{between('last 3 windows')} of those convicted above", how),
        Claim("… two arms as first written", "24 %", between("two arms as first written"), how + "; without φ, r0 = 1.25"),
        Claim("… two arms as shipped", "0.0 %", between("two arms"), how),
        Claim("… the whole judge, total failure too", "0.0 %", total.text(), "comparison above: 600 requests a minute, 37 of the canary in `for`"),
    ]  # fmt: skip


def _pass(counts: Counts, found: Found) -> list[Claim]:
    runs = counts.gates
    tails = [
        simulated.drifted_tail(runs, early, late)
        for early, late in ((0.005, 0.06), (0.005, 0.07), (0.005, 0.08))
    ]
    costs = [simulated.tail_costs(2 * runs, ratio) for ratio in (0.02, 0.025, 0.03, 0.035)]
    pools = [simulated.pooled_last_step(runs, ratio) for ratio in (0.02, 0.03)]

    def both(pairs: list[tuple[Rate, Rate]]) -> str:
        return "; ".join(f"{without.text(interval=False)} → {kept.text()}" for without, kept in pairs)

    return [
        Claim("a drifted tail passes", "98–99 % → .4–7 %", both(tails), ".5 % for two thirds of 20 windows, then 6 / 7 / 8 %; limit 5 %"),
        Claim("… and what the tail rule costs", "1–1.6 % more HOLDs", f"{percent(min(costs))} to {percent(max(costs))}", "steady versions at 2 to 3.5 %, limit 5 %, planned n at the end"),
        Claim("`pool: Rollout`: good early steps hide a bad last one", "95 % → 1 %", both(pools), "limit 1 %; three steps of 800 at .1 %, the last of 400 at 2 / 3 %"),
    ]  # fmt: skip


def _others(counts: Counts, found: Found) -> list[Claim]:
    calm = [
        simulated.gauge(counts.gates, sigmas=3, seconds=30, constant=constant)
        for constant in (30, 60, 120, 240)
    ]
    hasty = [
        simulated.gauge(counts.gates, sigmas=2.5, seconds=2, constant=constant)
        for constant in (15, 30, 60, 120)
    ]
    clustered = [simulated.clusters(counts.clusters, 30, 10, 0.9, icc) for icc in (0.3, 0.5)]
    return [
        Claim("value gauges, limits at 3 σ, windows of 30 s", "≤ .33 %", ", ".join(rate.text(interval=False) for rate in calm), "AR(1), time constants of 30, 60, 120, 240 s, 20 windows"),
        Claim("… limits at 2.5 σ, windows of 2 s", "31.7 %", ", ".join(rate.text(interval=False) for rate in hasty), "time constants of 15, 30, 60, 120 s"),
        Claim("30 clusters of 10, false PASS at t = .9", "≤ 4.3 %", " / ".join(rate.text() for rate in clustered), f"ICC .3 / .5, {counts.clusters:,} runs"),
    ]  # fmt: skip


TIMES = (
    (0.001, 0.01, 1000, 0.25, "510 (94 % within 900 s)"),
    (0.01, 0.1, 1000, 0.05, "240"),
    (0.01, 0.1, 1000, 0.25, "120"),
    (0.01, 0.1, 100, 0.25, "510"),
    (0.01, 1.0, 1000, 0.25, "60 by windows, about 20"),
    (0.01, 1.0, 100, 0.25, "60 by windows, about 20"),
    (0.01, 1.0, 10, 0.05, "420"),
    (0.01, 1.0, 10, 0.25, "120"),
    (0.01, 1.0, 10, 0.5, "90"),
    (0.001, 0.01, 100, 0.25, "not found"),
    (0.01, 0.1, 10, 0.25, "not found"),
)


def _times(counts: Counts, found: Found) -> list[Claim]:
    out = []
    for stable, canary, per_minute, share, claimed in TIMES:
        times = shipped.seconds_to_rollback(counts.times, stable, canary, per_minute, share)
        seconds = "not found" if np.isinf(times.by_windows) else f"{times.by_windows:.0f}"
        whole = "" if np.isinf(times.judged) else f"median {times.judged:.0f}, "
        out.append(
            Claim(
                f"median s to ROLLBACK, {100 * stable:g} → {100 * canary:g} % at {per_minute}/min, {share:.0%} share",
                claimed,
                f"{seconds} ({times.within_900.text(interval=False)} within 900 s); whole judge, gate of 10 min: {whole}{times.in_gate.text(interval=False)} found",
                f"{counts.times} steps, shipped code, limit 5 %",
            )
        )
    return out
