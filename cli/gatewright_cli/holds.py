"""`kubectl gate holds`: what waits for a person, since when, until when, and whether that may be you."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from gatewright_analysis.names import VERB_APPROVE
from gatewright_cli.countdown import countdown
from gatewright_cli.errors import Exit
from gatewright_cli.formats import Output, show, show_names
from gatewright_cli.kube import Kube, Object, path
from gatewright_cli.output import (
    PLAIN,
    Style,
    ago,
    clean,
    parse_time,
    print_lines,
    shorten,
    span,
    table,
    until,
)
from gatewright_cli.view import proven, step_word

HEADER = ("NAMESPACE", "ROLLOUT", "HELD", "STEP", "STARTED BY", "WAIT ENDS", "APPROVED", "MAY I", "WHY")
WIDE = ("REVISION", "RUN", "CLOCK")
WHY_COLUMNS = 60


def run(kube: Kube, *, everywhere: bool, output: Output) -> Exit:
    """Nothing held is no error: exit code 0, and a sentence on standard error where output is for programs."""
    rollouts = kube.list_all(path("rollouts", None)) if everywhere else kube.rollouts_here()
    held = held_of(rollouts)
    where = kube.flags.namespace
    scope = "anywhere" if everywhere else f"in {where}" if where else "in this namespace"
    if output is Output.NAME:
        show_names("rollout", [each["metadata"]["name"] for each in held])
        return _said(held, scope)
    me, allowed = "", list[bool | None]()
    if held:
        me, allowed = kube.me_and_may(
            VERB_APPROVE, [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in held]
        )
    may = [may_i(rollout, allows, me) for rollout, allows in zip(held, allowed, strict=True)]
    if output.for_programs:
        show([entry(rollout, word) for rollout, word in zip(held, may, strict=True)], output)
        return _said(held, scope)
    now, style = datetime.now(UTC), Style.of(sys.stdout)
    print_lines(render(held, may, now, style, scope, kube.flags.repeated, wide=output is Output.WIDE))
    return Exit.OK


def _said(held: Sequence[Object], scope: str) -> Exit:
    if not held:
        print(f"Nothing is held {scope}.", file=sys.stderr)
    return Exit.OK


def held_of(rollouts: Sequence[Object]) -> list[Object]:
    """Those that are held now, the longest first."""
    held = [
        each
        for each in rollouts
        if (each.get("status") or {}).get("phase") == "Held" and each["status"].get("hold")
    ]
    return sorted(held, key=lambda each: str(each["status"]["hold"].get("since", "")))


def may_i(rollout: Object, allowed: bool | None, me: str) -> str:
    """`yes`, `no` with the reason where it is known here, or `?` where the API server did not say.

    The API server has the last word: this only spares a vain attempt.
    """
    hold = rollout["status"]["hold"]
    if allowed is None:
        return "?"
    if not allowed:
        return "no"
    if me and hold.get("initiator") == me:
        return "no: you started it"
    if me and any(each.get("reviewer") == me for each in hold.get("approvals") or ()):
        return "no: you have approved"
    if not hold.get("blocking"):
        return "no: nothing to waive"
    return "yes"


def entry(rollout: Object, may: str) -> dict[str, Any]:
    """One hold as JSON: where, and the hold as it stands in the Rollout's status."""
    meta, status = rollout["metadata"], rollout["status"]
    return {
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta.get("uid"),
        "revision": (status.get("canary") or {}).get("revision"),
        "hold": status["hold"],
        "mayApprove": {"?": None, "yes": True}.get(may, False),
        "why": may.partition(": ")[2],
    }


def render(
    held: Sequence[Object],
    may: Sequence[str],
    now: datetime,
    style: Style = PLAIN,
    scope: str = "in this namespace",
    repeated: str = "",
    *,
    wide: bool = False,
) -> list[str]:
    """A line for each, and the next command."""
    if not held:
        return [f"Nothing is held {scope}."]
    titles = (*HEADER[:-1], *WIDE, HEADER[-1]) if wide else HEADER
    rows = [[style.paint(title, "dim") for title in titles]]
    for rollout, word in zip(held, may, strict=True):
        meta, hold = rollout["metadata"], rollout["status"]["hold"]
        since = parse_time(hold.get("since"))
        why = f"{hold.get('reason', '')}: {hold.get('message', '')}"
        more = [
            str((rollout["status"].get("canary") or {}).get("revision", "")),
            str(hold.get("run", "")),
            countdown(hold, now),
        ]
        cells = [
            "?" if since is None else span(now - since),
            step_word(rollout["spec"].get("steps") or [], hold.get("step", "")).removeprefix("step "),
            shorten(proven(hold.get("initiator")), 24),
            wait(hold, now),
            f"{len(hold.get('approvals') or ())}/{hold.get('approvalsNeeded') or 1}",
        ]
        rows.append(
            [
                clean(meta["namespace"]),
                style.paint(clean(meta["name"]), "bold"),
                *(clean(cell) for cell in cells),
                style.paint(word, "green" if word == "yes" else ""),
                *(clean(cell) for cell in (more if wide else ())),
                clean(why) if wide else shorten(why, WHY_COLUMNS),
            ]
        )
    first = held[0]["metadata"]
    return [
        *table(rows),
        "",
        f"Look at one: kubectl gate review {first['name']} -n {first['namespace']}{repeated}",
    ]


def wait(hold: Object, now: datetime) -> str:
    """`in 20h`, with how loud it is: `in 20h, escalated 3m ago`; or that the clock stands."""
    if hold.get("clockStoppedSince"):
        return "clock stopped"
    end = until(hold.get("deadline"), now)
    if hold.get("escalatedAt"):
        return f"{end}, escalated {ago(hold['escalatedAt'], now)}"
    return end
