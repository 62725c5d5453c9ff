"""How long a HOLD still waits: when it is escalated, when the wait ends, or since when neither clock runs. Pure."""

from datetime import datetime

from gatewright_cli.kube import Object
from gatewright_cli.output import ago, clean, parse_time, span, until


def countdown(hold: Object, now: datetime) -> str:
    """`escalates in 12m, the wait ends in 23h`; or `clock stopped since 09:41Z (5m) because …`, with what is left then."""
    escalates, ends = parse_time(hold.get("escalateAt")), parse_time(hold.get("deadline"))
    stopped = parse_time(hold.get("clockStoppedSince"))
    louder = f"escalated {ago(hold['escalatedAt'], now)}" if hold.get("escalatedAt") else ""
    if stopped is not None:
        by = clean(hold.get("clockStoppedBy") or "a source")
        left = [] if louder or escalates is None else [f"escalates after {span(escalates - stopped)} more"]
        left += [] if ends is None else [f"the wait ends after {span(ends - stopped)} more"]
        why = f"clock stopped since {stopped:%H:%M}Z ({span(now - stopped)}) because a source is down: {by}"
        return "; ".join(part for part in (louder, why, ", ".join(left)) if part)
    if not louder and escalates is not None:
        louder = f"escalates {until(hold['escalateAt'], now)}" if escalates > now else "escalates now"
    if ends is not None and ends <= now:
        end = f"the wait ended {ago(hold['deadline'], now)}, and somebody has to decide"
    else:
        end = f"the wait ends {until(hold.get('deadline'), now)}"
    return f"{louder}, {end}" if louder else end
