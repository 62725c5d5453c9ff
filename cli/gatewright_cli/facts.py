"""What is known about a HOLD besides its checks: change, starter, contract, attempts, clocks, approvals. Pure."""

from datetime import datetime

from gatewright_cli.case import Case, earlier, told
from gatewright_cli.countdown import countdown
from gatewright_cli.output import ago, clean, parse_time, shorten, until
from gatewright_cli.view import UNPROVEN, proven


def facts(case: Case, now: datetime) -> list[tuple[str, str]]:
    """Title and text of what is known about the HOLD besides its checks. Cleaned of control characters."""
    shown = f"{case.hold.get('run', '')}  {str(case.hold.get('evidenceDigest', ''))[:19]}"
    found = [
        ("change", _change(case)),
        ("started by", starter(case)),
        ("contract", _contract(case)),
        ("attempt", _attempts(case, now)),
        ("held", held(case, now)),
        ("approved by", _approvals(case, now)),
        ("evidence", f"{shown}; {case.unread}" if case.unread else shown),
    ]
    return [(title, clean(text)) for title, text in found if text]


def starter(case: Case) -> str:
    """Who started the change, whether that is proven, and whether the contract is by the same hand."""
    who = proven(case.hold.get("initiator"))
    if who == UNPROVEN:
        named = shorten(str(case.hold.get("initiator") or ""), 40)
        seen = f" ({named} wrote it, for somebody)" if named else ""
        return f"{who}: no person was seen to write this template, so it could be anybody's{seen}"
    if case.same_hand:
        return f"{shorten(who, 34)}, proven; the same person wrote the contract last"
    return f"{shorten(who, 40)}, proven by the API server"


def _change(case: Case) -> str:
    canary = case.view.status.get("canary") or {}
    images = shorten(", ".join(map(str, canary.get("images") or [])), 60)
    return f"revision {canary.get('revision', '?')}  {images}"


def _contract(case: Case) -> str:
    spec = (case.view.run or {}).get("spec") or {}
    name = spec.get("contract", (case.view.spec.get("contractRef") or {}).get("name", "?"))
    writer = case.hold.get("contractWrittenBy")
    by = f", last written by {shorten(proven(writer), 30)}" if writer else ""
    changed = ", changed since" if case.contract_changed else ""
    digest = str(spec.get("contractDigest") or "")[:19]
    return f"{name}@{spec.get('contractGeneration', '?')}  {digest}{by}{changed}"


def _attempts(case: Case, now: datetime) -> str:
    text = f"{case.view.status.get('attempt', 0)}"
    runs = [told(each) for each in earlier(case)]
    if not runs:
        return f"{text}, the first run of this gate"
    last = runs[-1]
    said = f"{last['decision'] or 'undecided'} {last['reason'] or ''}".strip()
    return f"{text}; {len(runs)} earlier at this gate, the last: {said}, {ago(last['finishedAt'], now)}"


def held(case: Case, now: datetime) -> str:
    """Since when, when it was or will be escalated, when the wait ends and in what; or that the clock stands."""
    hold = case.hold
    return f"{ago(hold.get('since'), now)}; {countdown(hold, now)}{_end(case, now)}"


def _end(case: Case, now: datetime) -> str:
    ends = parse_time(case.hold.get("deadline"))
    if case.hold.get("clockStoppedSince") or ends is None or ends <= now:
        return ""
    match str(case.hold_policy.get("onTimeout")):
        case "Rollback" if case.hold.get("breach"):
            return ", then it rolls back"
        case "Rollback" | "Hold":
            return ", then it stays held"
        case _:
            return ""


def _approvals(case: Case, now: datetime) -> str:
    """Nothing where one person suffices and none has spoken."""
    if case.approvals_needed == 1 and not case.approvals:
        return ""
    names = ", ".join(
        f"{shorten(str(each.get('reviewer', '?')), 24)} (ends {until(each.get('expiresAt'), now)})"
        for each in case.approvals
    )
    count = f"{len(case.approvals)} of {case.approvals_needed}"
    return f"{count}: {names}" if names else f"{count}: nobody yet"
