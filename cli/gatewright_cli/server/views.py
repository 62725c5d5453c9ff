"""What the pages say, as plain values for the templates. Pure: from objects and `now` to text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from gatewright_analysis.verdict import CheckStatus
from gatewright_cli.kube import Object
from gatewright_cli.output import ago, clean, parse_time, share, shorten, span, until
from gatewright_cli.server.chart import Chart
from gatewright_cli.server.evidence import Plots
from gatewright_cli.server.explained import (
    approving,
    as_json,
    bounds,
    facts,
    good,
    may_words,
    proven,
    samples,
    step_word,
)
from gatewright_cli.server.reading import Held, Over

_MARKS: Mapping[str, str] = {
    CheckStatus.PASS: "✓",
    CheckStatus.WAIVED: "✓",
    CheckStatus.FAIL: "✗",
    CheckStatus.BELOW_THRESHOLD: "!",
    CheckStatus.INCONCLUSIVE: "?",
    CheckStatus.ERROR: "?",
    CheckStatus.PENDING: "…",
    CheckStatus.NOT_PROVEN: "–",
}
_DECISIONS_SHOWN = 5
_WHY_SHOWN = 180
"""Characters in the queue; the page of the HOLD says it all."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One line: what it is, and what it says; `at` is the moment that it speaks of, in RFC 3339, or empty."""

    title: str
    text: str
    at: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One HOLD in the queue."""

    namespace: str
    name: str
    href: str
    why: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class CheckView:
    """One check, with its chart or why there is none."""

    id: str
    status: str
    mark: str
    cells: tuple[str, ...]
    message: str
    advice: str
    seen: str
    """One line of the evidence; empty where nothing is stored."""
    hint: str
    chart: Chart | None
    no_chart: str


def href(namespace: str, name: str) -> str:
    """Where the page of a Rollout is; what notifications link to, after the page's address."""
    return f"/holds/{quote(namespace, safe='')}/{quote(name, safe='')}"


def row(rollout: Object, may_approve: bool, viewer: str, now: datetime) -> Row:
    meta, hold = rollout["metadata"], rollout["status"]["hold"]
    told = [
        Fact("Held", ago(hold.get("since"), now), str(hold.get("since") or "")),
        *_clock(hold, now),
        *_approvals(hold),
        Fact("Step", step_word((rollout.get("spec") or {}).get("steps") or [], hold.get("step", ""))),
        Fact("Started by", started_by(hold)),
        Fact("May you approve", may_words(rollout, may_approve, viewer)),
    ]
    return Row(
        str(meta["namespace"]),
        str(meta["name"]),
        href(meta["namespace"], meta["name"]),
        shorten(why(hold), _WHY_SHOWN),
        tuple(told),
    )


def why(hold: Object) -> str:
    message, reason = clean(hold.get("message") or ""), clean(hold.get("reason") or "")
    return f"{reason}: {message}" if message and reason else message or reason


def started_by(hold: Object) -> str:
    return clean(proven(hold.get("initiator")))


def _clock(hold: Object, now: datetime) -> list[Fact]:
    """Escalation and the end of the wait; a stopped clock is said first, because both stand still with it."""
    stopped, escalated = hold.get("clockStoppedSince"), hold.get("escalatedAt")
    found = []
    if stopped:
        source = clean(hold.get("clockStoppedBy") or "a source that is down")
        found.append(Fact("Clock stopped", f"{ago(stopped, now)}, by {source}", str(stopped)))
    if escalated:
        found.append(Fact("Escalated", ago(escalated, now), str(escalated)))
    elif hold.get("escalateAt"):
        found.append(Fact("Escalation", until(hold["escalateAt"], now), str(hold["escalateAt"])))
    found.append(Fact("Wait ends", until(hold.get("deadline"), now), str(hold.get("deadline") or "")))
    return found


def _approvals(hold: Object) -> list[Fact]:
    given, needed = hold.get("approvals") or [], int(hold.get("approvalsNeeded") or 1)
    if needed < 2 and not given:
        return []
    by = ", ".join(clean(each.get("reviewer", "")) for each in given)
    return [Fact("Approvals", f"{len(given)} of {needed}" + (f": {by}" if by else ""))]


def hold_page(found: Held, viewer: str, now: datetime) -> dict[str, Any]:
    """All that the template of a HOLD needs."""
    rollout, hold, review = found.rollout, found.rollout["status"]["hold"], as_json(found.case)
    meta, spec = rollout["metadata"], rollout.get("spec") or {}
    blocking = review["blocking"]
    named = {check["id"] for check in blocking}
    return {
        "title": f"{meta['name']} in {meta['namespace']} is held",
        "name": meta["name"],
        "namespace": meta["namespace"],
        "where": f"at {step_word(spec.get('steps') or [], hold.get('step', ''))}, with "
        f"{((rollout['status'].get('weight') or {}).get('actual', 0))} % of the traffic",
        "why": why(hold),
        "breach": bool(hold.get("breach")),
        "note": clean(hold.get("note") or ""),
        "facts_list": [Fact(title[:1].upper() + title[1:], text) for title, text in facts(found.case, now)],
        "blocking": [_check(check, found.plots) for check in blocking],
        "others": [_check(check, found.plots) for check in review["checks"] if check["id"] not in named],
        "no_check": "" if blocking else _no_check(found),
        "plot_problem": clean(found.plots.problem),
        "approving": approving(found.case),
        "may": may_words(rollout, found.may_approve, viewer, found.case.contract),
        "commands": [(_purpose(each), each) for each in review["nextActions"]],
        "earlier": [_earlier(each, now) for each in review.get("earlierRuns") or ()],
    }


def _check(check: Object, plots: Plots) -> CheckView:
    status, name = str(check.get("status") or ""), str(check.get("id") or "")
    cells = (
        good(check),
        bounds(check),
        share(check.get("threshold")),
        samples(check),
        clean(check.get("reason", "")),
    )
    return CheckView(
        id=name,
        status=clean(status).replace("_", " "),
        mark=_MARKS.get(status, "?"),
        cells=cells,
        message=clean(check.get("message") or ""),
        advice=clean(check.get("wouldChange") or ""),
        seen=clean(check.get("excerpt") or ""),
        hint=clean(check.get("fixHint") or ""),
        chart=plots.charts.get(name),
        no_chart=clean(plots.missing.get(name, "")),
    )


def _no_check(found: Held) -> str:
    if found.case.view.run is None:
        return "No single check: there is no gate run to read."
    return f"No single check: {clean(found.rollout['status']['hold'].get('reason', ''))}."


_PURPOSES = {
    "approve": "Let it go on",
    "request-changes": "Keep it held, and say what is missing",
    "reject": "Send all traffic back",
    "more-samples": "Judge it again with more samples",
    "retry": "Judge it again",
}


def _purpose(command: str) -> str:
    verb = command.removeprefix("kubectl gate ").partition(" ")[0]
    return _PURPOSES.get(verb, verb)


def _earlier(run: Object, now: datetime) -> str:
    said = clean(f"{run.get('decision') or 'undecided'} {run.get('reason') or ''}")
    return f"attempt {run.get('attempt')}: {said}, {ago(run.get('finishedAt'), now)}"


def over_page(found: Over, now: datetime) -> dict[str, Any]:
    """What a Rollout is now whose HOLD is over."""
    meta, status = found.rollout["metadata"], found.rollout.get("status") or {}
    phase = clean(status.get("phase") or "new")
    decisions = found.decisions
    return {
        "title": f"{meta['name']} in {meta['namespace']} is not held now",
        "name": meta["name"],
        "namespace": meta["namespace"],
        "phase": phase,
        "message": clean(status.get("message") or ""),
        "verdict": _verdict(status.get("verdict") or {}, now),
        "decisions": [decision(each, now) for each in _newest(decisions or ())],
        "unread": decisions is None,
        "command": f"kubectl gate status {meta['name']} -n {meta['namespace']}",
    }


def _newest(decisions: Sequence[Object]) -> Iterable[Object]:
    return decisions[:_DECISIONS_SHOWN]


def _verdict(verdict: Object, now: datetime) -> str:
    if not verdict:
        return ""
    return clean(f"{verdict.get('decision')} ({verdict.get('reason')}), {ago(verdict.get('at'), now)}")


def decision(made: Object, now: datetime) -> tuple[str, str, str, str, str]:
    """(what, who, when, what became of it, why) of a GateReview or a GateOrder."""
    spec, status = made["spec"], made.get("status") or {}
    became = clean(status.get("outcome") or "not yet observed")
    message = clean(status.get("message") or "")
    return (
        clean(spec.get("decision") or spec.get("order") or ""),
        clean(spec.get("reviewer") or spec.get("orderedBy") or ""),
        ago(made["metadata"].get("creationTimestamp"), now),
        f"{became}: {message}" if message else became,
        clean(spec.get("reason") or ""),
    )


def oldest(rows: Sequence[tuple[Object, bool]], now: datetime) -> str:
    """`1 hold` or `3 holds, the oldest for 2h5m`."""
    if not rows:
        return "Nothing is held where you may read."
    since = parse_time(rows[0][0]["status"]["hold"].get("since"))
    count = "1 hold" if len(rows) == 1 else f"{len(rows)} holds"
    return count if since is None else f"{count}, the oldest for {span(now - since)}"
