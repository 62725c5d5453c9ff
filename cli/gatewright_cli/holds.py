"""`kubectl gate holds`: what waits for a person, since when, until when, and whether that may be you."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from gatewright_analysis.names import VERB_APPROVE
from gatewright_cli.errors import Exit
from gatewright_cli.formats import Output, show, show_names
from gatewright_cli.kube import Kube, Object, path
from gatewright_cli.output import (
    PLAIN,
    Style,
    parse_time,
    print_lines,
    shorten,
    span,
    table,
    until,
)
from gatewright_cli.view import proven, step_word

_MAY = {True: "yes", False: "no", None: "?"}


def run(kube: Kube, *, everywhere: bool, output: Output) -> Exit:
    rollouts = kube.list_all(path("rollouts", None)) if everywhere else kube.rollouts_here()
    held = held_of(rollouts)
    if output is Output.NAME:
        show_names("rollout", [each["metadata"]["name"] for each in held])
        return Exit.OK
    may = kube.may(VERB_APPROVE, [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in held])
    if output.for_programs:
        show([entry(rollout, allowed) for rollout, allowed in zip(held, may, strict=True)], output)
        return Exit.OK
    where = kube.flags.namespace
    scope = "anywhere" if everywhere else f"in {where}" if where else "in this namespace"
    now = datetime.now(UTC)
    print_lines(render(held, may, now, Style.of(sys.stdout), scope, kube.flags.repeated))
    return Exit.OK


def held_of(rollouts: Sequence[Object]) -> list[Object]:
    """Those that are held now, the longest first."""
    held = [
        each
        for each in rollouts
        if (each.get("status") or {}).get("phase") == "Held" and each["status"].get("hold")
    ]
    return sorted(held, key=lambda each: str(each["status"]["hold"].get("since", "")))


def entry(rollout: Object, may_approve: bool | None) -> dict[str, Any]:
    """One hold as JSON: where, and the hold as it stands in the Rollout's status."""
    meta, status = rollout["metadata"], rollout["status"]
    return {
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta.get("uid"),
        "revision": (status.get("canary") or {}).get("revision"),
        "hold": status["hold"],
        "mayApprove": may_approve,
    }


def render(
    held: Sequence[Object],
    may: Sequence[bool | None],
    now: datetime,
    style: Style = PLAIN,
    scope: str = "in this namespace",
    repeated: str = "",
) -> list[str]:
    if not held:
        return [f"Nothing is held {scope}."]
    titles = ("NAMESPACE", "ROLLOUT", "HELD", "STEP", "STARTED BY", "WAIT ENDS", "MAY I", "WHY")
    rows = [[style.paint(title, "dim") for title in titles]]
    for rollout, allowed in zip(held, may, strict=True):
        meta, hold = rollout["metadata"], rollout["status"]["hold"]
        since = parse_time(hold.get("since"))
        rows.append(
            [
                meta["namespace"],
                style.paint(meta["name"], "bold"),
                "?" if since is None else span(now - since),
                step_word(rollout["spec"].get("steps") or [], hold.get("step", "")).removeprefix("step "),
                shorten(proven(hold.get("initiator")), 24),
                until(hold.get("deadline"), now),
                style.paint(_MAY[allowed], "green" if allowed else ""),
                f"{hold.get('reason', '')}: {shorten(hold.get('message', ''), 60)}",
            ]
        )
    first = held[0]["metadata"]
    return [
        *table(rows),
        "",
        f"Look at one: kubectl gate review {first['name']} -n {first['namespace']}{repeated}",
    ]
