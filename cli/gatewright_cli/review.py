"""`kubectl gate review`: all that a person needs to decide on a HOLD, on a screen of 100 × 40."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gatewright_analysis.names import REVISION_LABEL, ROLLOUT_LABEL
from gatewright_cli.advice import advise, after_approval
from gatewright_cli.checks import check_table
from gatewright_cli.errors import Exit, GateError, NotAllowed
from gatewright_cli.formats import Output, show
from gatewright_cli.kube import Kube, Object, path
from gatewright_cli.output import (
    PLAIN,
    WIDTH,
    Style,
    ago,
    clean,
    fold,
    print_lines,
    shorten,
    table,
    until,
)
from gatewright_cli.view import UNPROVEN, View, checks_of, proven, step_word

HEIGHT = 40
"""Lines of a screen that a review fits on."""
CHECKS_SHOWN = 5
RUNS_READ = 50


@dataclass(frozen=True)
class Case:
    """A HOLD with what explains it: the run it rests on, the contract, the other runs of the Rollout."""

    view: View
    contract: Object | None
    runs: tuple[Object, ...]

    @property
    def hold(self) -> Object:
        return self.view.hold or {}

    @property
    def blocking(self) -> list[Object]:
        """Results of the checks that stop it: those that the hold names, else all that did not pass."""
        named = self.hold.get("blocking") or []
        checks = self.view.checks
        found = [check for check in checks if check.get("id") in named]
        return found or [
            check for check in checks if check.get("status") not in ("pass", "waived", "not_proven")
        ]


def run(kube: Kube, name: str, *, output: Output) -> Exit:
    case = read(kube, name)
    if output.for_programs:
        show(as_json(case), output)
    else:
        print_lines(render(case, datetime.now(UTC), Style.of(sys.stdout), kube.flags.repeated))
    return Exit.OK


def read(kube: Kube, name: str) -> Case:
    """Raises NotAllowed when nothing is held: there is nothing to decide."""
    rollout = kube.rollout(name)
    view = View(rollout)
    if view.hold is None:
        raise not_held(view, kube.flags.repeated)
    contract, runs = kube.get_all(
        [
            path("gatecontracts", view.namespace, rollout["spec"]["contractRef"]["name"]),
            path(
                "gateruns", view.namespace, query=f"labelSelector={ROLLOUT_LABEL}%3D{name}&limit={RUNS_READ}"
            ),
        ]
    )
    listed: list[Object] = [] if isinstance(runs, GateError) else runs.get("items", [])
    held_run = next((each for each in listed if each["metadata"]["name"] == view.hold["run"]), None)
    if held_run is None:
        [answer] = kube.get_all([path("gateruns", view.namespace, view.hold["run"])])
        held_run = None if isinstance(answer, GateError) else answer
    return Case(
        View(rollout, run=held_run),
        None if isinstance(contract, GateError) else contract,
        tuple(listed),
    )


def _runs_of(view: View) -> str:
    revision = (view.status.get("canary") or {}).get("revision", "")
    selector = f"{ROLLOUT_LABEL}%3D{view.name}" + (f",{REVISION_LABEL}%3D{revision}" if revision else "")
    return f"labelSelector={selector}&limit={RUNS_READ}"


def not_held(view: View, repeated: str) -> NotAllowed:
    """The same sentence as the API server's policy has for a review of something that is not held."""
    return NotAllowed(
        f"Rollout {view.name} is not held now; it is {view.phase or 'new'}.",
        then=f"kubectl gate status {view.name} -n {view.namespace}{repeated}",
    )


def as_json(case: Case) -> dict[str, Any]:
    view, hold = case.view, case.hold
    contract_hold = ((case.contract or {}).get("spec") or {}).get("hold") or {}
    return {
        "namespace": view.namespace,
        "name": view.name,
        "uid": view.rollout["metadata"].get("uid"),
        "revision": (view.status.get("canary") or {}).get("revision"),
        "hold": hold,
        "initiator": proven(hold.get("initiator")),
        "attempt": view.status.get("attempt", 0),
        "attempts": view.status.get("attempts") or {},
        "earlierRuns": [_earlier(each) for each in earlier(case)],
        "blocking": [{**check, "wouldChange": advise(check)} for check in case.blocking],
        "checks": view.checks,
        "onApproval": _on_approval(case),
        "contract": {"name": (view.spec.get("contractRef") or {}).get("name"), **contract_hold},
        "nextActions": [" ".join(words) for words in commands(view, "")],
    }


def earlier(case: Case) -> list[Object]:
    """Runs of the held revision and step before the held one, oldest first: how often was it tried?"""
    spec = (case.view.run or {}).get("spec") or {}
    same = [
        each
        for each in case.runs
        if each["metadata"]["name"] != case.hold.get("run")
        and each["spec"].get("revision") == spec.get("revision")
        and each["spec"].get("step") == spec.get("step")
    ]
    return sorted(same, key=lambda each: int(each["spec"].get("attempt", 0)))


def _earlier(run: Object) -> dict[str, Any]:
    verdict = (run.get("status") or {}).get("verdict") or {}
    return {
        "run": run["metadata"]["name"],
        "attempt": run["spec"].get("attempt"),
        "decision": verdict.get("decision"),
        "reason": verdict.get("reason"),
        "finishedAt": verdict.get("finishedAt"),
        "failing": [check["id"] for check in checks_of(run) if check.get("status") not in ("pass", "waived")],
    }


def _on_approval(case: Case) -> str:
    spec = case.view.spec
    return after_approval(spec.get("steps") or [], case.hold.get("step"), bool(spec.get("bake")))


def commands(view: View, repeated: str) -> list[list[str]]:
    """The decisions, ready to paste but for the reason; each as [start, options], to be folded."""
    tail = f"-n {shlex.quote(view.namespace)}{repeated}"
    verbs = ["request-changes", "reject", *(["more-samples"] if _samples_may_come(view) else [])]
    return [
        [f"kubectl gate approve {view.name} {tail}", "--expires 24h --reason '…'"],
        *([f"kubectl gate {verb} {view.name} {tail}", "--reason '…'"] for verb in verbs),
    ]


def _samples_may_come(view: View) -> bool:
    """The operator's verdict offers it: it knows how many attempts this artifact has had."""
    verdict = ((view.run or {}).get("status") or {}).get("verdict") or {}
    return any(" more-samples " in str(said) for said in verdict.get("nextActions") or ())


def render(case: Case, now: datetime, style: Style = PLAIN, repeated: str = "") -> list[str]:
    """At most 40 lines of 100 columns. `repeated` are the flags that proposed commands must carry."""
    lines: list[str] = []
    for room in (2, 1, 0):  # lines for what is said about each check: all of it where it fits on a screen
        lines = _render(case, now, style, repeated, room)
        if len(lines) <= HEIGHT:
            break
    return lines


def _render(case: Case, now: datetime, style: Style, repeated: str, room: int) -> list[str]:
    view, hold = case.view, case.hold
    where = step_word(view.spec.get("steps") or [], hold.get("step", ""))
    weight = (view.status.get("weight") or {}).get("actual", 0)
    held = style.paint("held", "bold", "yellow")
    name = style.paint(view.name, "bold")
    lines = [f"{name} in {view.namespace}: {held} at {where}, with {weight} % of the traffic"]
    lines += fold(hold.get("message") or hold.get("reason", ""), lines=3 if room else 2)
    if hold.get("note"):
        lines += fold(f"Changes requested: {hold['note']}", lines=2 if room else 1)
    lines += [
        "",
        *table([[style.paint(title, "dim"), text] for title, text in _facts(case, now)], "  ", columns=WIDTH),
    ]
    lines += ["", style.paint("What blocks", "bold"), *_blocking(case, style, room)]
    if room and not hold.get("breach") and not _samples_may_come(view):
        again = f"kubectl gate retry {view.name} -n {view.namespace}{repeated} --reason '…'"
        lines += [line for line in (f"  Or judge it again at this gate: {again}",) if len(line) <= WIDTH]
    lines += ["", style.paint("What approving means", "bold"), *_approving(case, room)]
    lines += ["", style.paint("Decide", "bold")]
    for start, options in commands(view, repeated):
        whole = f"  {start} {options}"
        lines += [whole] if len(whole) <= WIDTH else [f"  {start} \\", f"    {options}"]
    return lines


def _facts(case: Case, now: datetime) -> list[tuple[str, str]]:
    view, hold = case.view, case.hold
    canary = view.status.get("canary") or {}
    spec = (view.run or {}).get("spec") or {}
    who = clean(proven(hold.get("initiator")))
    if who == UNPROVEN:
        who += ": no person was seen to write this template, so its author could be anybody"
    images = shorten(", ".join(map(str, canary.get("images") or [])), 60)
    contract = (
        f"{spec.get('contract', view.spec['contractRef']['name'])}@{spec.get('contractGeneration', '?')}"
    )
    on_timeout = (((case.contract or {}).get("spec") or {}).get("hold") or {}).get("onTimeout")
    end = {
        "Rollback": ", then it rolls back" if hold.get("breach") else ", then it stays held",
        "Hold": ", then it stays held",
    }.get(str(on_timeout), "")
    return [
        ("change", f"revision {canary.get('revision', '?')}  {images}"),
        ("started by", who),
        ("contract", f"{contract}  {str(spec.get('contractDigest', ''))[:19]}"),
        ("attempt", _attempts(case, now)),
        ("held", f"{ago(hold.get('since'), now)}; the wait ends {until(hold.get('deadline'), now)}{end}"),
        ("evidence", f"{hold.get('run', '')}  {str(hold.get('evidenceDigest', ''))[:19]}"),
    ]


def _attempts(case: Case, now: datetime) -> str:
    text = f"{case.view.status.get('attempt', 0)}"
    runs = [_earlier(each) for each in earlier(case)]
    if not runs:
        return f"{text}, the first run of this gate"
    last = runs[-1]
    said = f"{last['decision'] or 'undecided'} {last['reason'] or ''}".strip()
    return f"{text}; {len(runs)} earlier at this gate, the last: {said}, {ago(last['finishedAt'], now)}"


def _blocking(case: Case, style: Style, room: int) -> list[str]:
    blocking = case.blocking
    if not blocking:
        why = "its gate run can't be read" if case.view.run is None else clean(case.hold.get("reason", ""))
        return [f"  No single check: {why}."]
    shown = blocking[:CHECKS_SHOWN]
    lines = check_table(shown, style, columns=WIDTH)
    if len(blocking) > len(shown):
        lines.append(f"  and {len(blocking) - len(shown)} more: add -o json")
    for check in shown:
        message = clean(check.get("message", ""))
        if message and message not in clean(case.hold.get("message", "")) and room:
            lines += fold(f"{clean(check.get('id', ''))}: {message}", lines=room)
    lines += ["", style.paint("What would change it", "bold")]
    for check in shown:
        lines += fold(f"{clean(check.get('id', ''))}: {advise(check)}.", lines=max(room, 1))
        if check.get("fixHint") and room:
            lines += fold(f"Hint: {check['fixHint']}", "    ", lines=1)
    return lines


def _approving(case: Case, room: int) -> Sequence[str]:
    longest = (((case.contract or {}).get("spec") or {}).get("hold") or {}).get("maxWaiver")
    bound = f" It may last at most {longest}." if longest else ""
    breach = "You would let a proven breach pass. " if case.hold.get("breach") else ""
    return fold(
        f"{breach}On your word {_on_approval(case)}. The waiver holds for this evidence, revision and "
        f"contract alone, until it expires.{bound} A new breach of a check that rolls back still rolls back.",
        lines=4 if room else 3,
    )
