"""A View as one screen for people and as JSON for programs. Pure."""

from datetime import datetime
from typing import Any

from gatewright_cli.checks import check_table
from gatewright_cli.countdown import countdown
from gatewright_cli.durations import length_of
from gatewright_cli.kube import Object
from gatewright_cli.output import PLAIN, Style, ago, clean, fold, parse_time, shorten, span, table, until
from gatewright_cli.view import View, proven, step_word
from gatewright_cli.wait import generation_of

PHASE_LOOKS = {
    "Idle": "green",
    "Held": "yellow",
    "Paused": "yellow",
    "RolledBack": "red",
    "RollingBack": "red",
    "Restoring": "red",
}
_VERDICT_LOOKS = {"PROMOTE": "green", "HOLD": "yellow", "ROLLBACK": "red"}
STEPS_SHOWN = 7


def line_of(view: View) -> str:
    """The state in one line."""
    weight = view.status.get("weight") or {}
    return f"{view.phase or 'New'}  {weight.get('actual', 0)} %  {clean(view.status.get('message', ''))}"


def summary(view: View) -> dict[str, Any]:
    """What `-o json` prints: the report in camelCase, and the checks of the run that matters now."""
    status, spec = view.status, view.spec
    workload = spec.get("workloadRef") or {}
    steps = spec.get("steps") or []
    index = int(status.get("currentStep", 0))
    generation = None if view.deployment is None else generation_of(view.deployment)
    run_meta = None if view.run is None else {
        "name": view.run["metadata"]["name"],
        "phase": (view.run.get("status") or {}).get("phase"),
        "message": (view.run.get("status") or {}).get("message", ""),
    }  # fmt: skip
    return {
        "namespace": view.namespace,
        "name": view.name,
        "uid": view.rollout["metadata"].get("uid"),
        "phase": view.phase or None,
        "message": status.get("message", ""),
        "workload": {
            "kind": workload.get("kind", "Deployment"),
            "name": workload.get("name"),
            "generation": generation,
            "observedGeneration": status.get("observedWorkloadGeneration", 0),
            "observedRevision": status.get("observedRevision", ""),
            "upToDate": view.up_to_date,
        },
        "step": {"index": index, "count": len(steps), "attempt": status.get("attempt", 0)},
        "weight": status.get("weight") or {"desired": 0, "actual": 0},
        "stable": status.get("stable"),
        "canary": status.get("canary"),
        "rejected": status.get("rejected"),
        "attempts": status.get("attempts"),
        "escalation": status.get("escalation"),
        "verdict": status.get("verdict"),
        "run": run_meta,
        "checks": view.checks,
        "hold": view.hold,
        "ledger": status.get("ledger"),
        "conditions": status.get("conditions") or [],
    }


def render(
    view: View, now: datetime, style: Style = PLAIN, repeated: str = "", *, wide: bool = False
) -> list[str]:
    """One screen; `wide` with nothing cut, and what each check says. `repeated` are the flags that proposed commands
    must carry."""
    status, phase = view.status, view.phase or "New"
    shown_phase = style.paint(phase, "bold", PHASE_LOOKS.get(phase, ""))
    lines = [f"{style.paint(view.name, 'bold')} in {view.namespace}: {shown_phase}"]
    lines += fold(status.get("message") or "The operator has not looked at this Rollout yet.")
    if view.up_to_date is False:
        lines.append(
            style.paint(
                "  This is older than the workload: the operator has not seen its last change.", "yellow"
            )
        )
    lines.append("")
    facts = [
        *_revisions(status, wide),
        ["weight", _weight(status)],
        ["steps", _steps(view, style)],
        ["verdict", _verdict(view, now, style)],
        ["attempts", _attempts(status)],
    ]
    lines += table([[style.paint(title, "dim"), text] for title, text in facts if text], "  ")
    lines += _run(view, now, style)
    if wide:
        lines += _said(view.checks)
    if view.hold is not None:
        lines += ["", *_hold(view, now, style, repeated)]
    elif phase == "RolledBack":
        lines += [
            "",
            *_next("To try the same revision again:", f"retry {view.name}", view, repeated, " --reason '…'"),
        ]
    lines += [
        "",
        *table(
            [[style.paint(title, "dim"), text] for title, text in _foot(status, style, wide) if text], "  "
        ),
    ]
    lines += [line for sentence in view.unread for line in fold(f"Not shown: {sentence}", lines=2)]
    return lines


def _revisions(status: Object, wide: bool) -> list[list[str]]:
    def named(arm: Object) -> str:
        images = ", ".join(str(image) for image in arm.get("images") or [])
        return f"{arm.get('revision', '')}  {images if wide else shorten(images, 50)}".strip()

    stable, canary = status.get("stable"), status.get("canary")
    rows = [["stable", named(stable)]] if stable else []
    if canary:
        rows.append(["canary", f"{named(canary)}, started by {clean(proven(canary.get('initiator')))}"])
    return rows


def _attempts(status: Object) -> str:
    """Nothing while the last release stayed."""
    used, budget = ((status.get("attempts") or {}).get(key, 0) for key in ("used", "budget"))
    return f"{used} of {budget} revisions in a row were tried and did not stay" if used else ""


def _weight(status: Object) -> str:
    weight = status.get("weight") or {}
    desired, actual = weight.get("desired", 0), weight.get("actual", 0)
    return (
        f"{actual} % on the canary" if desired == actual else f"{actual} % on the canary, {desired} % wanted"
    )


def _steps(view: View, style: Style) -> str:
    steps = view.spec.get("steps") or []
    phase, current = view.phase, int(view.status.get("currentStep", 0))
    on_the_way = phase in ("Progressing", "Held", "Paused")
    done = len(steps) if phase in ("Promoting", "Baking") else current if on_the_way else 0
    words = []
    for index, step in enumerate(steps):
        word = word_of_step(step)
        if index < done:
            words.append(style.paint(f"✓ {word}", "green"))
        elif on_the_way and index == current:
            words.append(style.paint(f"▸ {word}", "bold"))
        else:
            words.append(style.paint(f"· {word}", "dim"))
    if view.spec.get("bake"):
        words.append(
            style.paint(f"{'▸' if phase == 'Baking' else '·'} bake", "bold" if phase == "Baking" else "dim")
        )
    where = f"{current + 1} of {len(steps)}   " if on_the_way else ""
    if len(words) > STEPS_SHOWN + 1:  # a long list would wrap: what is just behind and what is next is enough
        start = max(min(current - STEPS_SHOWN // 2, len(words) - STEPS_SHOWN), 0)
        end = start + STEPS_SHOWN
        words = [*(["…"] if start else []), *words[start:end], *(["…"] if end < len(words) else [])]
    return where + "  ".join(words)


def word_of_step(step: Object) -> str:
    """`5 %`, `gate 10m`, `pause`."""
    if "setWeight" in step:
        return f"{step['setWeight']} %"
    if "pause" in step:
        return f"pause {(step['pause'] or {}).get('duration', '')}".strip()
    return f"gate {(step.get('gate') or {}).get('duration', '')}".strip()


def _verdict(view: View, now: datetime, style: Style) -> str:
    verdict = view.status.get("verdict")
    if not verdict:
        return ""
    decision = str(verdict.get("decision", ""))
    where = step_word(view.spec.get("steps") or [], verdict.get("step", ""))
    painted = style.paint(decision, "bold", _VERDICT_LOOKS.get(decision, ""))
    return f"{painted} {verdict.get('reason', '')} ({where}, {ago(verdict.get('at'), now)})"


def _run(view: View, now: datetime, style: Style) -> list[str]:
    if view.run is None:
        return []
    run_status = view.run.get("status") or {}
    lines = [
        "",
        f"  {style.paint('gate', 'dim')} {view.run['metadata']['name']}: {_run_state(view.run, now)}",
    ]
    if run_status.get("message") and not view.checks:
        lines += fold(run_status["message"], "    ", lines=2)
    return [*lines, *check_table(view.checks, style, "    ")] if view.checks else lines


def _said(checks: list[Object]) -> list[str]:
    return [
        line
        for check in checks
        if check.get("message")
        for line in fold(f"{check.get('id', '')}: {check['message']}", "    ")
    ]


def _run_state(run: Object, now: datetime) -> str:
    phase = (run.get("status") or {}).get("phase")
    clock = (run.get("spec") or {}).get("clock") or {}
    starts = parse_time(clock.get("startsAt"))
    duration, longest = length_of(clock.get("duration")), length_of(clock.get("maxDuration"))
    if phase == "Decided" or starts is None or duration is None:
        return str(phase or "new")
    # Looks are not written down one by one: between the start and the verdict, the clock is all there is to say.
    if now < starts:
        return f"warming up, counts {until(clock.get('startsAt'), now)}"
    passed = starts + duration
    if now < passed:
        return f"running, no pass before {span(passed - now)} from now"
    last = starts + (longest or duration)
    return f"running, last look {until(last.isoformat(), now)}"


def _hold(view: View, now: datetime, style: Style, repeated: str) -> list[str]:
    hold = view.hold or {}
    where = step_word(view.spec.get("steps") or [], hold.get("step", ""))
    first, *more = fold(f"{where}, {ago(hold.get('since'), now)}; {countdown(hold, now)}.", "       ")
    lines = [f"  {style.paint('Held', 'bold', 'yellow')} {first.strip()}", *more]
    if hold.get("note"):
        lines += fold(f"Changes requested: {hold['note']}", "  ", lines=3)
    return [*lines, *_next("Why, and what to do:", f"review {view.name}", view, repeated)]


def _next(intro: str, words: str, view: View, repeated: str, tail: str = "") -> list[str]:
    return [f"  {intro} kubectl gate {words} -n {view.namespace}{repeated}{tail}"]


def _foot(status: Object, style: Style, wide: bool) -> list[tuple[str, str]]:
    ledger = status.get("ledger") or {}
    head = str(ledger.get("head") or "")
    ledger_text = (
        f"entry {ledger.get('sequence', 0)}, {head if wide else head[:19] + '…'}" if head else "empty"
    )
    conditions = []
    for condition in status.get("conditions") or []:
        kind, value = str(condition.get("type")), str(condition.get("status"))
        quiet = "False" if kind in ("Stalled", "Reconciling", "Held") else "True"
        if value == quiet:
            if quiet == "True":
                conditions.append(kind)
            continue
        text = f"{kind}={value} ({condition.get('reason', '')})"
        conditions.append(style.paint(text, "red" if kind == "Stalled" else "yellow"))
    return [("ledger", ledger_text), ("conditions", ", ".join(conditions))]
