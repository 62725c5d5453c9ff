"""The page: tables, and words whose figures come from them."""

import math
from collections.abc import Iterable

from tests.bench.figures import markdown_table
from tests.bench.verdicts.claims import NOT_RECOMPUTED, Claim
from tests.bench.verdicts.comparison import (
    NAMES,
    OURS,
    PEERS,
    Found,
    having,
    median_rollback,
    percent,
    rate,
)
from tests.bench.verdicts.rules import Call
from tests.bench.verdicts.traffic import EVERYDAY, KINDS, LATE, Candidate, Kind, Truth

HEALTHY = having(Truth.HEALTHY)
BAD = having(Truth.BREACH)
(AT_LIMIT,) = having(Truth.AT_LIMIT)
KIND = {kind.name: kind for kind in KINDS}

HOW = """\
## How it was found

One gate: windows of 30 s, `duration` 10 min, `maxDuration` 20 min, one counted check with `maxBadRatio: 0.05` and `versusStable: {{}}`, everything else the
default, m = 10, scrapes of 5 s. Ours is judged by the code that the operator runs (`CheckTask`, `CheckMonitor`, `decide`), look by look; a gate that holds goes on watching, as the
operator does. All rules see the same windows, after the same warm-up, and all queries are the well-written kind. Each cell has {judged:,} gates for healthy versions and those at the
limit, {found:,} for bad ones; brackets are Wilson's 95 % interval. Traffic and rules: `tests/bench/verdicts/`; the seed is fixed, so with the locked packages the page is the same on each machine.

The peers as their documentation and source have them:

* **Argo Rollouts**: an analysis of 20 measurements, each the bad ratio of the last window (or of 5 min, as in its examples); more than `failureLimit` bad ones abort. 0/0 is inconclusive and pauses; no answer is an
  error, and more than `consecutiveErrorLimit` (4) in a row abort.
* **Flagger**: `request-success-rate` each minute, ten good checks promote, `threshold: 5` failed ones roll back at the next tick. No values found is a failed check.
* **Kayenta**: Mann-Whitney on the windows' ratios of both arms at 5 and 10 min, tolerance .25, confidence .98; one metric, so High is a score of 0. It has no absolute limit: a canary as bad as
  stable passes by design.
* **Wilson at every window**: no tool; the interval of all requests so far, z = 1.96, acted on at the first window where either limit crosses. It has neither a duration nor a comparison.

| traffic | what it is |
| --- | --- |
{kinds}"""


def page(found: Found, claims: list[Claim], *, quick: bool, plot: str) -> str:
    head = "<!-- Written by `make bench-verdicts`. Run it again instead of changing this file. -->"
    if quick:
        head += "\n\nA smoke test with a handful of gates: none of these figures means anything."
    parts = [
        head,
        "# How good the verdicts are",
        "Our verdict and the peers' rules, on the same simulated traffic, and every figure that [the statistics](statistics.md) quote for a default, found again.",
        _summary(found),
        f"![Left: healthy versions rolled back, by traffic and rule. Right: at the same rate of false ROLLBACK, how fast a version at twice the limit is rolled back.]({plot})",
        HOW.format(
            judged=found.runs.judged,
            found=found.runs.found,
            kinds="\n".join(f"| {kind.name} | {kind.says} |" for kind in KINDS),
        ),
        "## Healthy versions rolled back\n\nFalse ROLLBACK, in percent, with the usual settings: a version as good as stable, at 1 % errors, and at 3.5 % where the limit is 5 %.",
        _by_kind(found, Call.ROLLBACK, HEALTHY[:1], "1 %"),
        _by_kind(found, Call.ROLLBACK, HEALTHY[1:], "3.5 %"),
        _why_ours(found),
        "## Healthy versions held\n\nHOLD, in percent, both healthy versions together: what caution costs a person. Most of ours is the version near its limit, which this traffic can't prove in time.",
        _by_kind(found, Call.HOLD, HEALTHY, "both", interval=False),
        "## Versions at the limit promoted\n\nFalse PROMOTE, in percent: both arms at 5 % (with *drift*: the canary rises to 9 %).",
        _by_kind(found, Call.PROMOTE, [AT_LIMIT], "at the limit"),
        _bursts_and_passes(found),
        "## Bad versions\n\nRolled back / promoted, in percent, and the median seconds from the end of the warm-up to ROLLBACK; all traffic but outages and lost scrapes, together. What is neither is held.",
        _bad(found.answers, NAMES),
        "By traffic, for a version at twice the limit: promoted, in percent.",
        _by_kind(found, Call.PROMOTE, [BAD[1]], "twice the limit"),
        "## At the same rate of false ROLLBACK\n\n" + _tuned_words(found),
        _tuned(found),
        _bad(found.tuned_answers, [OURS, *found.tuned]),
        f"## A version that breaks in the middle of its gate\n\nMedian seconds from the failure, {LATE} s after the warm-up, to ROLLBACK.",
        _late(found),
        _honest(found),
        "## The figures of the statistics page, found again\n\n*Claimed* is what stood there before; where *found* is worse beyond what chance explains, the page was corrected. Settings of some earlier figures were not kept, so the two are not always of the same thing.",
        _claims(claims),
        "Not found again: " + "; ".join(NOT_RECOMPUTED) + ".",
    ]
    return "\n\n".join(parts) + "\n"


def _summary(found: Found) -> str:
    def pooled(name: str, call: Call, kinds: Iterable[Kind], candidates: Iterable[Candidate]) -> str:
        return percent(found.rate(name, call, kinds, candidates).share)

    argo, flagger, wilson = PEERS[1].name, PEERS[3].name, PEERS[5].name
    outage, lost = [KIND["shared outage"]], [KIND["lost scrapes"]]
    steady = [KIND["steady"], KIND["low traffic"], KIND["drift"], KIND["restart"], KIND["cold start"]]
    lines = [
        f"* A healthy version is rolled back in {pooled(OURS, Call.ROLLBACK, EVERYDAY, HEALTHY)} of everyday gates; with {argo} in {pooled(argo, Call.ROLLBACK, EVERYDAY, HEALTHY)}, with {flagger} in {pooled(flagger, Call.ROLLBACK, EVERYDAY, HEALTHY)}.",
        f"* When a dependency of both arms fails it is {pooled(OURS, Call.ROLLBACK, outage, HEALTHY)} ({argo}: {pooled(argo, Call.ROLLBACK, outage, HEALTHY)}, {flagger}: {pooled(flagger, Call.ROLLBACK, outage, HEALTHY)}), and when the metrics source is blind {pooled(OURS, Call.ROLLBACK, lost, HEALTHY)} ({pooled(argo, Call.ROLLBACK, lost, HEALTHY)}, {pooled(flagger, Call.ROLLBACK, lost, HEALTHY)}).",
        f"* A version at the limit is promoted in {pooled(OURS, Call.PROMOTE, steady, [AT_LIMIT])} of gates without bursts ({flagger}: {pooled(flagger, Call.PROMOTE, steady, [AT_LIMIT])}, {wilson}: {pooled(wilson, Call.PROMOTE, steady, [AT_LIMIT])}). **With bursts it is {pooled(OURS, Call.PROMOTE, [KIND['bursts of 10 s, ICC .05']], [AT_LIMIT])} to {pooled(OURS, Call.PROMOTE, [KIND['bursts of 10 s, ICC .2']], [AT_LIMIT])}**: a pass takes requests for independent, see below.",
        f"* Below the limit and ten times as bad as stable: without bursts rolled back in {pooled(OURS, Call.ROLLBACK, steady, BAD[:1])}. A limit alone can't tell it from a healthy one: rules that catch it catch those too (see *At the same rate*).",
        f"* A version at twice the limit is promoted in {pooled(OURS, Call.PROMOTE, EVERYDAY, BAD[1:2])} of everyday gates ({argo}: {pooled(argo, Call.PROMOTE, EVERYDAY, BAD[1:2])}, {wilson}: {pooled(wilson, Call.PROMOTE, EVERYDAY, BAD[1:2])}), one that half or wholly fails in {pooled(OURS, Call.PROMOTE, KINDS, BAD[2:])}.",
    ]
    return "\n".join(lines)


def _by_kind(
    found: Found, call: Call, candidates: Iterable[Candidate], title: str, *, interval: bool = True
) -> str:
    chosen = list(candidates)
    rows = [
        (
            kind.name,
            *(
                found.rate(name, call, [kind], chosen).text(interval=interval).replace(" %", "")
                for name in NAMES
            ),
        )
        for kind in KINDS
    ]
    return markdown_table((title, *NAMES), rows)


def _why_ours(found: Found) -> str:
    reasons = found.reasons(KINDS, HEALTHY)
    told = ", ".join(
        f"{count} {reason.value}" for reason, count in sorted(reasons.items(), key=lambda item: -item[1])
    )
    outage = found.reasons([KIND["shared outage"]], HEALTHY)
    late = ", ".join(f"{count} {reason.value}" for reason, count in outage.items()) or "none"
    return f"""\
Our false ROLLBACKs by reason, over all of this traffic: {told or "none"}. Nearly all are the total-failure rule's, which is no statistic: with an ICC of .2 some windows of a healthy version fail
almost wholly, and most requests failing for `totalFailure.for` while stable's don't is what the rule is told to act on. A longer `for` tolerates longer bursts.

In a shared outage: {late}. The rule asks for stable at most a quarter as bad over the same time, and over it with one window before. Asked with the window before alone it was false in 0.85 % of
them: in the first seconds of an outage that time dilutes stable's failures to a third, and a canary with few requests may look four times as bad by chance."""


def _bursts_and_passes(found: Found) -> str:
    return """\
Under bursts a pass means less than it says: E⁺ and Wilson's limit take requests for independent, the breach side alone is deflated by φ. Rules that count bad windows promote fewer of these versions; they also roll back
most healthy ones. Until the pass side knows of clusters (M4 with windows as clusters would), leave room between a limit and what bursty traffic shows."""


def _seconds(value: float) -> str:
    return "–" if math.isinf(value) else f"{value:.0f} s"


def _bad(answers: dict, names: Iterable[str]) -> str:  # type: ignore[type-arg]
    rows = []
    for name in names:
        cells = []
        for one in BAD:
            back, on = (
                rate(answers, name, call, EVERYDAY, [one]).share for call in (Call.ROLLBACK, Call.PROMOTE)
            )
            seconds = _seconds(median_rollback(answers, name, EVERYDAY, [one]))
            cells.append(f"{percent(back)} / {percent(on)}, {seconds}".replace(" %", ""))
        rows.append((name, *cells))
    return markdown_table(("rolled back / promoted, median", *(one.name for one in BAD)), rows)


def _tuned_words(found: Found) -> str:
    ours = found.rate(OURS, Call.ROLLBACK, EVERYDAY, HEALTHY)
    left_out = [peer.name for peer in PEERS if peer.name not in found.tuned]
    words = f"""\
The fair comparison. Each peer gets the mildest setting at which it rolls back healthy everyday traffic (no outages, no lost scrapes) no more often than we do, {ours.text()}, found on traffic of its own; the last
column is how often it then does on the traffic above."""
    if left_out:
        words += f" No setting does it for: {', '.join(left_out)}."
    return words


def _tuned(found: Found) -> str:
    shown = {peer.name: peer for peer in PEERS}
    rows = []
    for name, (value, back) in found.tuned.items():
        at_limit = rate(found.tuned_answers, name, Call.PROMOTE, EVERYDAY, [AT_LIMIT])
        rows.append((name, shown[name].shown(value), back.text(), at_limit.text()))
    mine = found.rate(OURS, Call.PROMOTE, EVERYDAY, [AT_LIMIT])
    rows.append((OURS, "as above", found.rate(OURS, Call.ROLLBACK, EVERYDAY, HEALTHY).text(), mine.text()))
    return markdown_table(("rule", "setting", "healthy rolled back", "at the limit promoted"), rows)


def _late(found: Found) -> str:
    names = list(dict.fromkeys(name for name, _ in found.late))
    candidates = [one.name for one in BAD[-2:]]
    rows = [(name, *(_seconds(found.late[name, one]) for one in candidates)) for name in names]
    return markdown_table(("rule", *candidates), rows)


def _honest(found: Found) -> str:
    def coarse(one: Candidate) -> str:
        return _seconds(found.late[f"{OURS}, scrapes of 15 s", one.name])

    def tuned(name: str, call: Call, one: Candidate) -> str:
        return percent(rate(found.tuned_answers, name, call, EVERYDAY, [one]).share)

    one_bad, flagger, judge = PEERS[0].name, PEERS[3].name, PEERS[4].name
    low = [KIND["low traffic"]]
    lowest, other = (
        percent(found.rate(name, Call.ROLLBACK, low, BAD[1:2]).share) for name in (OURS, one_bad)
    )
    held = percent(found.rate(OURS, Call.HOLD, [KIND["shared outage"]], HEALTHY).share)
    relative = (
        f"rolls back {tuned(judge, Call.ROLLBACK, BAD[0])} (ours {tuned(OURS, Call.ROLLBACK, BAD[0])})"
        if judge in found.tuned
        else "has no such setting here"
    )
    patient = (
        f"* *Patience.* At our rate of false ROLLBACK, {flagger} rolls back {tuned(flagger, Call.ROLLBACK, BAD[1])} of the versions at twice the limit (ours {tuned(OURS, Call.ROLLBACK, BAD[1])}, the others held), later: it counts over up to 14 minutes and knows no HOLD. It then promotes {tuned(flagger, Call.PROMOTE, AT_LIMIT)} of those at the limit (ours {tuned(OURS, Call.PROMOTE, AT_LIMIT)}).\n"
        if flagger in found.tuned
        else ""
    )
    return f"""\
## Where the peers do better

* *Worse than stable, below the limit.* {judge}, tuned to our rate of false ROLLBACK, {relative}: it knows no ratio that is still tolerated and compares twenty windows at once. It knows no limit either, and promotes what is above it as soon as stable is.
{patient}* *A failure that is plain at once, with coarse scrapes.* A single bad window is enough for {one_bad}: {_seconds(found.late[one_bad, BAD[-1].name])} after a late failure. Ours asks for three scrapes: at scrapes of 15 s {coarse(BAD[-1])} where all fails, and {coarse(BAD[-2])} where half does, which is `totalFailure.badRatio` itself.
* *Low traffic.* At 10 to 100 requests a minute we find {lowest} of the versions at twice the limit and hold the others; {one_bad} rolls back {other}, and most healthy versions with them.
* *Bursty versions at the limit.* Rules that count bad windows promote fewer of them (above).
* *Nobody is asked.* The peers hardly ever hold. We hold {held} of the healthy versions that meet a shared outage, and most that this traffic can't prove: a person, or a Retry, has to come.
* *A first minute.* Wilson at every window promotes a good version within a minute or two, and thereby most that break later. Ours takes `duration` at least."""


def _claims(claims: list[Claim]) -> str:
    return markdown_table(
        ("figure", "claimed", "found", "how"), [(one.what, one.claimed, one.found, one.how) for one in claims]
    )
