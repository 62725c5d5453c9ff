"""`kubectl gate history`: which revisions were tried, what the gates said, who decided, and how it ended.

From the ledger as it stands; that nobody changed it is for `ledger verify` to say.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gatewright_cli.errors import Exit
from gatewright_cli.formats import Output, show
from gatewright_cli.kube import Kube, Object
from gatewright_cli.ledger import entries_of, from_cluster, told
from gatewright_cli.output import PLAIN, Style, clean, parse_time, print_lines, shorten, span
from gatewright_cli.view import proven

SHOWN = 10
"""Attempts, the newest; `-o json` has all."""
_ENDS = {
    "Completed": ("completed", "green"),
    "RolledBack": ("rolled back", "red"),
    "Restored": ("the version before is back", "red"),
    "Deleted": ("the Rollout was deleted", "dim"),
}
_LOOKS = {"PROMOTE": "green", "HOLD": "yellow", "ROLLBACK": "red"}
_NO_EVENT = frozenset(("Adopted", "Contract", "WeightSet", ""))
"""What is left to `ledger show`; kinds of entries of later versions are events."""


@dataclass
class Attempt:
    """One pass of one revision through the steps, as the ledger tells it."""

    revision: str
    number: int
    images: list[str] = field(default_factory=list)
    initiator: str = ""
    started_at: str = ""
    events: list[Object] = field(default_factory=list)
    end: Object | None = None

    def wire(self) -> dict[str, Any]:
        return {
            "revision": self.revision,
            "attempt": self.number,
            "images": self.images,
            "initiator": self.initiator or None,
            "startedAt": self.started_at or None,
            "events": self.events,
            "end": self.end,
        }


def run(kube: Kube, name: str, *, output: Output) -> Exit:
    source = from_cluster(kube, name)
    found = attempts(entries_of(source.config_maps))
    if output.for_programs:
        show([each.wire() for each in found], output)
    else:
        wide = output is Output.WIDE
        print_lines(render(found, source.where, Style.of(sys.stdout), wide=wide))
    return Exit.OK


def attempts(entries: Iterable[Object]) -> list[Attempt]:
    """All attempts, the newest first. What belongs to none (adoption, contracts) is left to `ledger show`."""
    found: dict[tuple[str, int], Attempt] = {}
    for entry in entries:
        key = entry.get("key") or {}
        kind, number = str(key.get("kind", "")), key.get("attempt")
        if not isinstance(number, int) or number < 1 or kind in _NO_EVENT:
            continue
        revision = str(key.get("revision", ""))
        attempt = found.setdefault((revision, number), Attempt(revision, number))
        if kind == "Started":
            _start(attempt, entry)
        elif kind in _ENDS:
            attempt.end = {"kind": kind, "at": entry.get("at"), "message": told(entry)}
        else:
            attempt.events.append(_event(kind, key, entry))
    # The ledger's order is the order of attempts; a later one of an earlier revision has a higher number.
    return sorted(found.values(), key=lambda each: each.number, reverse=True)


def _start(attempt: Attempt, entry: Object) -> None:
    canary = (entry.get("body") or {}).get("canary") or {}
    attempt.images = [str(image) for image in canary.get("images") or []]
    attempt.initiator = str(canary.get("initiator") or "")
    attempt.started_at = str(entry.get("at") or "")


def _event(kind: str, key: Object, entry: Object) -> Object:
    body, actor = entry.get("body") or {}, entry.get("actor") or {}
    verdict, spec = body.get("verdict") or {}, body.get("spec") or {}
    event: Object = {
        "kind": kind,
        "at": entry.get("at"),
        "step": key.get("step", ""),
        "by": actor.get("name") if actor.get("kind") == "user" else None,
        "said": verdict.get("decision") or spec.get("decision") or spec.get("order") or None,
        "reason": verdict.get("reason") or body.get("reason") or None,
        "message": verdict.get("message") or spec.get("reason") or body.get("message") or "",
    }
    if verdict:
        event["run"] = verdict.get("runId")
        event["blocking"] = verdict.get("blocking") or []
        event["waived"] = [c["id"] for c in verdict.get("checks") or [] if c.get("status") == "waived"]
    if spec.get("expiresAt"):
        event["expiresAt"] = spec["expiresAt"]
    return event


def render(found: Sequence[Attempt], where: str, style: Style = PLAIN, *, wide: bool = False) -> list[str]:
    """A heading for each attempt, below it one line for each verdict and each word of a person."""
    if not found:
        return [f"{where} has no releases in its ledger yet."]
    lines: list[str] = []
    for attempt in found[:SHOWN]:
        lines += [*_attempt(attempt, style, wide), ""]
    if len(found) > SHOWN:
        lines.append(f"{len(found) - SHOWN} older attempts: add -o json.")
    return lines if lines[-1] else lines[:-1]


def _attempt(attempt: Attempt, style: Style, wide: bool) -> list[str]:
    images = clean(", ".join(attempt.images))
    who = f", started by {clean(proven(attempt.initiator))}" if attempt.started_at else ""
    since = f" {_time(attempt.started_at)}" if attempt.started_at else ""
    lines = [
        f"{style.paint(attempt.revision, 'bold')}  attempt {attempt.number}  "
        f"{images if wide else shorten(images, 50)}{who}{since}".rstrip()
    ]
    lines += [_line(event, style, wide) for event in attempt.events]
    if attempt.end is None:
        return [*lines, f"  {style.paint('not over yet', 'yellow')}"]
    word, look = _ENDS[str(attempt.end["kind"])]
    return [*lines, f"  {_time(attempt.end.get('at'))}  {style.paint(word, look)}{_lasted(attempt)}"]


def _line(event: Object, style: Style, wide: bool) -> str:
    said = clean(event["said"] or event["kind"])
    where = clean(event["step"])
    place = f"step {int(where) + 1}" if where.isdecimal() else where
    by = f" by {clean(event['by'])}" if event["by"] else ""
    until = f" until {clean(event['expiresAt'])}" if event.get("expiresAt") else ""
    why = clean(event["reason"] or "")
    told = clean(event["message"])
    text = ": ".join(
        part for part in (f"{why}{by}{until}".strip(), told if wide else shorten(told, 80)) if part
    )
    return f"  {_time(event['at'])}  {place.ljust(7)}  {style.paint(said.ljust(14), _LOOKS.get(said, ''))}  {text}".rstrip()


def _lasted(attempt: Attempt) -> str:
    start, end = parse_time(attempt.started_at), parse_time((attempt.end or {}).get("at"))
    return f" after {span(end - start)}" if start is not None and end is not None else ""


def _time(text: object) -> str:
    moment: datetime | None = parse_time(text)
    return "–" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}Z"
