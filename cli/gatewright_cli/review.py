"""`kubectl gate review`: all that a person needs to decide on a HOLD, on a screen of 100 × 40."""

import sys
from dataclasses import dataclass
from datetime import UTC, datetime

from gatewright_analysis.names import ROLLOUT_LABEL
from gatewright_cli.advice import advise
from gatewright_cli.case import Case, approving, as_json, commands, evidence_name, where
from gatewright_cli.checks import check_table
from gatewright_cli.errors import Exit, GateError, NotAllowed, NotFound
from gatewright_cli.facts import facts
from gatewright_cli.formats import Output, show, show_names
from gatewright_cli.kube import Kube, Object, path
from gatewright_cli.output import PLAIN, WIDTH, Style, clean, fold, print_lines, shorten, table, width
from gatewright_cli.view import View

__all__ = ["Case", "as_json", "commands", "not_held", "read", "render", "run", "short"]

HEIGHT = 40
"""Lines of a screen that a review fits on."""
ASKING = 5
"""Of them, those that a question before a decision takes."""
CHECKS_SHOWN = 5
RUNS_READ = 50
_INDENT = "    "


@dataclass(frozen=True)
class Room:
    """Lines there are for each thing; the first of `ROOMS` that fits the screen is taken."""

    why: int = 4
    note: int = 2
    seen: int = 2
    said: int = 2
    """What each check says of itself, and its hint."""
    hint: int = 1
    needs: int = 2
    approving: int = 4
    again: int = 1
    checks: int = CHECKS_SHOWN


ROOMS = (
    Room(),
    Room(why=3, said=1),
    Room(why=3, said=1, hint=0, needs=1),
    Room(why=3, said=0, hint=0, needs=1),
    Room(why=3, said=0, hint=0, needs=1, seen=1),
    Room(why=2, note=1, said=0, hint=0, needs=1, seen=1, approving=3),
    Room(why=2, note=1, said=0, hint=0, needs=1, seen=1, approving=3, again=0),
    Room(why=1, note=1, said=0, hint=0, needs=0, seen=1, approving=3, again=0),
    Room(why=1, note=1, said=0, hint=0, needs=0, seen=1, approving=3, again=0, checks=3),
)
SHORT = (
    Room(why=2, note=1, said=0, hint=0, needs=1, again=0),
    Room(why=2, note=1, said=0, hint=0, needs=0, seen=1, again=0),
)


def run(kube: Kube, name: str, *, output: Output) -> Exit:
    case = read(kube, name)
    if output.for_programs:
        show(as_json(case), output)
    elif output is Output.NAME:
        show_names("rollout", [case.view.name])
    else:
        print_lines(render(case, datetime.now(UTC), Style.of(sys.stdout), kube.flags.repeated))
    return Exit.OK


def read(kube: Kube, name: str) -> Case:
    """Raises NotAllowed when nothing is held: there is nothing to decide."""
    return of_rollout(kube, kube.rollout(name))


def of_rollout(kube: Kube, rollout: Object) -> Case:
    """The rest, for a Rollout that was read. Raises NotAllowed when it is not held."""
    view = View(rollout)
    hold = view.hold
    if hold is None:
        raise not_held(view, kube.flags.repeated)
    label = f"labelSelector={ROLLOUT_LABEL}%3D{view.name}&limit={RUNS_READ}"
    contract, runs, own, evidence = kube.get_all(
        [
            path("gatecontracts", view.namespace, rollout["spec"]["contractRef"]["name"]),
            path("gateruns", view.namespace, query=label),
            path("gateruns", view.namespace, hold["run"]),
            path("configmaps", view.namespace, evidence_name(hold)),
        ]
    )
    listed: list[Object] = [] if isinstance(runs, GateError) else runs.get("items", [])
    if not isinstance(own, GateError):
        # The list is cut after RUNS_READ, so it may be without the one that matters.
        listed = [each for each in listed if each["metadata"]["name"] != hold["run"]] + [own]
    unread = (
        evidence.sentence if isinstance(evidence, GateError) and not isinstance(evidence, NotFound) else ""
    )
    return Case.of(rollout, listed, _or_none(contract), _or_none(evidence), unread)


def _or_none(answer: Object | GateError) -> Object | None:
    return None if isinstance(answer, GateError) else answer


def not_held(view: View, repeated: str) -> NotAllowed:
    """The same sentence as the API server's policy has for a review of something that is not held."""
    return NotAllowed(
        f"Rollout {view.name} is not held now; it is {view.phase or 'new'}.",
        then=f"kubectl gate status {view.name} -n {view.namespace}{repeated}",
    )


def render(case: Case, now: datetime, style: Style = PLAIN, repeated: str = "") -> list[str]:
    """At most 40 lines of 100 columns. `repeated` are the flags that proposed commands must carry."""
    lines: list[str] = []
    for room in ROOMS:
        lines = [
            *_top(case, style, room),
            "",
            *_facts(case, now, style),
            "",
            *_blocking(case, style, room),
            *_again(case, room, repeated),
            "",
            *_approving(case, style, room),
            "",
            *_decide(case, style, repeated),
        ]
        if len(lines) <= HEIGHT:
            break
    return lines


def short(case: Case, now: datetime, style: Style = PLAIN) -> list[str]:
    """What is shown before a decision is asked for: the same without the commands, in about half the lines."""
    lines: list[str] = []
    for room in SHORT:
        lines = [
            *_top(case, style, room),
            "",
            *_facts(case, now, style),
            "",
            *_blocking(case, style, room),
            "",
            *_approving(case, style, room),
        ]
        if len(lines) <= HEIGHT - ASKING:
            break
    return lines


def _top(case: Case, style: Style, room: Room) -> list[str]:
    view, hold = case.view, case.hold
    weight = (view.status.get("weight") or {}).get("actual", 0)
    name, namespace = style.paint(shorten(view.name, 63), "bold"), shorten(view.namespace, 63)
    held = style.paint("held", "bold", "yellow")
    said = f"{held} at {shorten(where(case), 24)}, {weight} % of the traffic"
    whole = f"{name} in {namespace}: {said}"
    lines = [whole] if width(whole) <= WIDTH else [f"{name} in", f"{namespace}: {said}"]
    lines += fold(hold.get("message") or hold.get("reason", ""), lines=room.why)
    if hold.get("note"):
        lines += fold(f"Changes requested: {hold['note']}", lines=room.note)
    return lines


def _facts(case: Case, now: datetime, style: Style) -> list[str]:
    rows = [[style.paint(title, "dim"), text] for title, text in facts(case, now)]
    return table(rows, "  ", columns=WIDTH)


def _blocking(case: Case, style: Style, room: Room) -> list[str]:
    """Each check with what was seen for it, and what it needs."""
    title = style.paint("What blocks", "bold")
    blocking = case.blocking
    if not blocking:
        why = "its gate run can't be read" if case.view.run is None else clean(case.hold.get("reason", ""))
        return [title, f"  No single check: {shorten(why, 70)}."]
    shown = blocking[: room.checks]
    header, *rows = check_table(shown, style, columns=WIDTH)
    lines = [title, header]
    for row, check in zip(rows, shown, strict=True):
        lines += [row, *_of_check(case, check, room)]
    if len(blocking) > len(shown):
        lines.append(f"  and {len(blocking) - len(shown)} more: add -o json")
    return lines


def _of_check(case: Case, check: Object, room: Room) -> list[str]:
    bars = case.sparkline(check)
    seen = " ".join(part for part in (bars, case.excerpt(check)) if part)
    message = clean(check.get("message", ""))
    lines = _under("seen", seen or message or "nothing is stored", room.seen)
    if room.said and seen and message and message not in clean(case.hold.get("message", "")):
        lines += fold(message, f"{_INDENT}       ", lines=room.said)
    if room.needs:
        lines += _under("needs", f"{advise(check)}.", room.needs)
    if check.get("fixHint") and room.hint:
        lines += _under("hint", str(check["fixHint"]), room.hint)
    return lines


def _under(title: str, text: str, lines: int) -> list[str]:
    first, *rest = fold(text, f"{_INDENT}       ", lines=lines) or [""]
    return [f"{_INDENT}{title:<7}{first.lstrip()}", *rest]


def _again(case: Case, room: Room, repeated: str) -> list[str]:
    if not room.again or not case.waivable or case.hold.get("breach") or case.samples_may_come:
        return []
    line = f"  Or judge it again: kubectl gate retry {case.view.name} -n {case.view.namespace}{repeated} --reason '…'"
    return [line] if width(line) <= WIDTH else []


def _approving(case: Case, style: Style, room: Room) -> list[str]:
    return [style.paint("What approving means", "bold"), *fold(approving(case), lines=room.approving)]


def _decide(case: Case, style: Style, repeated: str) -> list[str]:
    title = style.paint("Decide", "bold")
    lines = _pasteable(case, repeated)
    if lines is None:  # a path of a kubeconfig may be longer than a line
        return [f"{title}, each with{shorten(repeated, 60)} as here:", *(_pasteable(case, "") or [])]
    return [title, *lines]


def _pasteable(case: Case, repeated: str) -> list[str] | None:
    """Each command on a line, or on two where it is long; None where two do not suffice."""
    lines: list[str] = []
    for start, options in commands(case, repeated):
        whole = f"  {start} {options}"
        if width(whole) <= WIDTH:
            lines.append(whole)
            continue
        if width(start) + len("   \\") > WIDTH:  # before the namespace, then
            start, dash, rest = start.partition(" -n ")
            options = f"{dash.lstrip()}{rest} {options}"
        lines += [f"  {start} \\", f"    {options}"]
    return lines if max(map(width, lines)) <= WIDTH else None
