"""A Rollout as a tree: its steps, and the checks of each gate. Pure functions from objects to data and lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gatewright_cli.checks import LOOKS, bounds, samples
from gatewright_cli.countdown import countdown
from gatewright_cli.kube import Object
from gatewright_cli.output import PLAIN, WIDTH, Style, ago, clean, share, shorten, table
from gatewright_cli.report import PHASE_LOOKS, word_of_step
from gatewright_cli.view import View, checks_of, good_ratio

ON_THE_WAY = ("Progressing", "Held", "Paused")
_STEP_MARKS = {"done": ("✓", "green"), "now": ("▸", "bold"), "ahead": ("·", "dim")}
_BY_NUMBERS = ("pass", "below_threshold")
HEADER = ("NAME", "STATUS", "WEIGHT", "ATTEMPT", "SAYS")
WIDE = ("REVISION", "RUN")


@dataclass(frozen=True)
class Node:
    """A line of the tree. `key` tells it from others, whatever it says; `path` is the branches before its name."""

    key: str
    path: str
    mark: str
    look: str
    name: str
    status: str = ""
    weight: str = ""
    attempt: str = ""
    says: str = ""
    when: str = ""
    """Ages and countdowns, which change by themselves."""
    revision: str = ""
    run: str = ""

    @property
    def line(self) -> str:
        """In one line, without what only the clock changes: what `--watch` prints when it differs."""
        words = (self.key, self.status, self.weight, self.says)
        return "  ".join(clean(word) for word in words if word)


def data(view: View, runs: Sequence[Object]) -> dict[str, Any]:
    """The tree as JSON."""
    status = view.status
    return {
        "namespace": view.namespace,
        "name": view.name,
        "uid": view.rollout["metadata"].get("uid"),
        "phase": view.phase or None,
        "message": status.get("message", ""),
        "revision": revision_of(view),
        "weight": status.get("weight") or {"desired": 0, "actual": 0},
        "attempt": status.get("attempt", 0),
        "attempts": status.get("attempts") or {},
        "verdict": status.get("verdict"),
        "hold": view.hold,
        "steps": [_step_data(view, runs, key, step) for key, step in _steps(view)],
    }


def revision_of(view: View) -> str:
    """The revision that the tree speaks of: the one on its way, else the one that the workload carries."""
    status = view.status
    return str((status.get("canary") or {}).get("revision") or status.get("observedRevision") or "")


def nodes(view: View, runs: Sequence[Object], now: datetime, *, whole: bool = True) -> list[Node]:
    """The Rollout, its steps and their checks, in order; without `whole` a Rollout at rest is one line."""
    found = [_root(view, now)]
    if not whole and view.phase not in (*ON_THE_WAY, "Promoting", "Baking"):
        return found
    steps = _steps(view)
    for place, (key, step) in enumerate(steps):
        last = place == len(steps) - 1
        own = runs_at(runs, revision_of(view), key)
        found.append(_step(view, key, step, own, "└─ " if last else "├─ ", now))
        checks = checks_of(own[-1]) if own else []
        for index, check in enumerate(checks):
            branch = ("   " if last else "│  ") + ("└─ " if index == len(checks) - 1 else "├─ ")
            found.append(_check(view, key, check, branch))
    return found


def render(
    found: Sequence[Node], style: Style = PLAIN, *, wide: bool = False, namespaced: bool = False
) -> list[str]:
    """Lines of a table; 100 columns at most unless `wide`. With `namespaced`, each Rollout with its namespace."""
    titles = (*HEADER[:-1], *WIDE, HEADER[-1]) if wide else HEADER
    rows = [[style.paint(title, "dim") for title in titles]]
    for node in found:
        own = node.key.split("/")[0] + "/" if namespaced and not node.path else ""
        name = f"{node.path}{style.paint(shorten(f'{node.mark} {own}{node.name}'.strip(), 60), node.look)}"
        middle = [node.revision, node.run] if wide else []
        cells = (
            node.status,
            node.weight,
            node.attempt,
            *middle,
            ", ".join(filter(None, (node.says, node.when))),
        )
        rows.append([name, *(clean(cell) for cell in cells)])
    return [line.rstrip() for line in table(rows, columns=None if wide else WIDTH)]


def runs_at(runs: Sequence[Object], revision: str, step: str) -> list[Object]:
    """Runs of one revision at one step, by attempt."""
    own = [
        run
        for run in runs
        if run["spec"].get("revision") == revision and str(run["spec"].get("step")) == step
    ]
    return sorted(own, key=lambda run: int(run["spec"].get("attempt", 0)))


def _steps(view: View) -> list[tuple[str, Object]]:
    steps = [(str(index), step) for index, step in enumerate(view.spec.get("steps") or [])]
    bake = view.spec.get("bake")
    return [*steps, ("bake", {"bake": bake})] if bake else steps


def place_of(view: View, key: str) -> str:
    """`done`, `now` or `ahead`: where the release stands to a step."""
    phase, current = view.phase, int(view.status.get("currentStep", 0))
    at_rest = phase == "Idle" and bool(view.status.get("stable"))
    if key == "bake":
        held = phase in ON_THE_WAY and str((view.hold or {}).get("step")) == "bake"
        return "now" if phase == "Baking" or held else "done" if at_rest else "ahead"
    if phase in ("Promoting", "Baking") or at_rest or str((view.hold or {}).get("step")) == "bake":
        return "done"
    if phase not in ON_THE_WAY or int(key) > current:
        return "ahead"
    return "now" if int(key) == current else "done"


def _step_data(view: View, runs: Sequence[Object], key: str, step: Object) -> dict[str, Any]:
    own = runs_at(runs, revision_of(view), key)
    verdict = ((own[-1].get("status") or {}).get("verdict") or {}) if own else {}
    return {
        "step": key,
        **step,
        "state": place_of(view, key),
        "run": own[-1]["metadata"]["name"] if own else None,
        "attempts": len(own),
        "decision": verdict.get("decision"),
        "reason": verdict.get("reason"),
        "checks": checks_of(own[-1]) if own else [],
    }


def _root(view: View, now: datetime) -> Node:
    status, hold = view.status, view.hold
    attempts = status.get("attempts") or {}
    says = str(status.get("message") or "The operator has not looked at this Rollout yet.")
    when = ""
    if hold is not None:
        says, when = str(hold.get("reason", "")), countdown(hold, now)
    phase = view.phase or "New"
    return Node(
        key=_key(view),
        path="",
        mark="",
        look=PHASE_LOOKS.get(phase, "bold"),
        name=view.name,
        status=phase,
        weight=_weight(status),
        attempt=f"{attempts.get('used', 0)} of {attempts['budget']} used" if attempts.get("used") else "",
        says=says,
        when=when,
        revision=revision_of(view),
    )


def _weight(status: Object) -> str:
    weight = status.get("weight") or {}
    desired, actual = weight.get("desired", 0), weight.get("actual", 0)
    return f"{actual} %" if actual == desired else f"{actual} → {desired} %"


def _step(view: View, key: str, step: Object, runs: Sequence[Object], branch: str, now: datetime) -> Node:
    place = place_of(view, key)
    mark, look = _STEP_MARKS[place]
    verdict = ((runs[-1].get("status") or {}).get("verdict") or {}) if runs else {}
    decision = str(verdict.get("decision") or ("judging" if runs else ""))
    reason, when = clean(verdict.get("reason", "")), verdict.get("finishedAt")
    named = (
        f"bake {(step['bake'] or {}).get('duration', '')}".strip() if key == "bake" else word_of_step(step)
    )
    return Node(
        key=_key(view, key),
        path=branch,
        mark=mark,
        look=look,
        name=named if key == "bake" else f"{int(key) + 1}  {named}",
        status=decision or ("done" if place == "done" else ""),
        attempt=str(len(runs)) if runs else "",
        says=reason,
        when=ago(when, now) if when else "",
        revision=str(runs[-1]["spec"].get("revision", "")) if runs else "",
        run=str(runs[-1]["metadata"]["name"]) if runs else "",
    )


def _check(view: View, step: str, check: Object, branch: str) -> Node:
    status = str(check.get("status", ""))
    mark, look = LOOKS.get(status, (" ", ""))
    return Node(
        key=_key(view, step, str(check.get("id"))),
        path=branch,
        mark=mark,
        look=look,
        name=str(check.get("id", "")),
        status=status,
        says=_numbers(check),
    )


def _numbers(check: Object) -> str:
    """The good share with its bounds, what it must reach, samples: `99.48 % (98.71–99.80 %) ≥ 99 % n 812/1038`."""
    threshold, ratio = check.get("threshold"), good_ratio(check)
    proven = bounds(check)
    parts = [
        "" if ratio is None else share(ratio, threshold),
        "" if proven == "–" else f"({proven})",
        "" if threshold is None else f"≥ {share(threshold)}",
        f"n {samples(check)}" if check.get("samples") else "",
        # What passed or fell short by its numbers says no more by its reason.
        "" if ratio is not None and check.get("status") in _BY_NUMBERS else clean(check.get("reason", "")),
    ]
    return " ".join(part for part in parts if part)


def _key(view: View, *more: str) -> str:
    return "/".join((view.namespace, view.name, *more))
