"""`approve`, `request-changes`, `reject`: a person's word on exactly the HOLD that was shown to them, as a GateReview."""

import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from gatewright_analysis.names import GROUP, VERB_APPROVE
from gatewright_cli.case import Case
from gatewright_cli.decide import (
    Word,
    await_answer,
    await_effect,
    check_reason,
    expiry,
    object_of,
    report,
)
from gatewright_cli.errors import Exit, NotAllowed, Superseded, UsageError
from gatewright_cli.flags import KubeFlags
from gatewright_cli.kube import Kube, Object, User, path
from gatewright_cli.output import PLAIN, Style, clean, shorten
from gatewright_cli.review import not_held, of_rollout, short
from gatewright_cli.view import View, step_word

DECISIONS = {"approve": "Approve", "reject": "Reject", "request-changes": "RequestChanges"}
KIND = "gatereviews"
REMAINING = "remaining"
_BOUND = ("run", "evidenceDigest", "step", "worldSnapshot", "blocking")
"""What of a HOLD a review names: when one of these is another, it is another HOLD."""


def run(kube: Kube, word: Word) -> Exit:
    """Show, ask, write, wait for the operator's answer and say what followed.

    Raises UsageError before anything is sent, Superseded when the HOLD changed while it was looked at, NotAllowed with
    the refuser's sentence.
    """
    check_reason(word)
    asking = may_go_on(word, sys.stdin.isatty() and sys.stderr.isatty(), kube.flags)
    expires_at = None if word.expires is None else expiry(word.expires, datetime.now(UTC))
    me, rollout = kube.whoami_and_rollout(word.rollout)
    view = View(rollout)
    manifest = review_of(view, me, word, expires_at, kube.flags.repeated)
    if asking:
        if not confirmed(of_rollout(kube, rollout), manifest["spec"], Style.of(sys.stderr)):
            print("Nothing was done.", file=sys.stderr)
            return Exit.ERROR
        still_held(view, View(kube.get(path("rollouts", view.namespace, view.name))), kube.flags.repeated)
    created = _create(kube, view, manifest, word.verb)
    where = path(KIND, view.namespace, created["metadata"]["name"])
    answered = await_answer(kube, where, created, word.timeout, time.monotonic, time.sleep)
    after = None
    if (answered.get("status") or {}).get("outcome") == "Accepted":
        after = await_effect(kube, view, time.monotonic, time.sleep)
    return report(view, KIND, answered, word, kube.flags.repeated, followed(view, after))


def may_go_on(word: Word, terminal: bool, flags: KubeFlags) -> bool:
    """Is there something to ask? Raises UsageError where nobody can be asked and nobody said `--yes`."""
    if not word.yes and not terminal:
        namespace = f" -n {flags.namespace}" if flags.namespace else ""
        raise UsageError(
            f"This would {word.verb.replace('-', ' ')} what is held, and there is no terminal to ask at: add --yes "
            "where that is meant.",
            then=f"kubectl gate review {word.rollout}{namespace}{flags.repeated}",
        )
    return not word.yes


def review_of(view: View, me: User, word: Word, expires_at: datetime | None, repeated: str) -> Object:
    """The GateReview, bound to exactly what is held in `view`. Raises NotAllowed when nothing is, or no gate has judged."""
    hold = view.hold
    if hold is None:
        raise not_held(view, repeated)
    spec = {
        "rollout": view.name,
        "rolloutUID": view.rollout["metadata"]["uid"],
        "run": hold["run"],
        "revision": (view.status.get("canary") or {}).get("revision")
        or view.status.get("observedRevision", ""),
        "step": hold["step"],
        "evidenceDigest": hold["evidenceDigest"],
        "decision": DECISIONS[word.verb],
        "reviewer": me.name,
        "groups": list(me.groups),
        "reason": word.reason.strip(),
    }
    if expires_at is not None:
        if not Case(view, None).waivable:
            raise NotAllowed(
                f"There is nothing to waive: no gate has judged what is held ({clean(hold.get('reason', ''))}). It ends "
                "by a retry, a rejection or a new revision.",
                then=f"kubectl gate review {view.name} -n {view.namespace}{repeated}",
            )
        spec["worldSnapshot"] = hold["worldSnapshot"]
        spec["checks"] = list(hold["blocking"])
        if word.through is not None:
            spec["through"] = through(view, word.through)
        spec["expiresAt"] = expires_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return object_of("GateReview", view, spec)


def through(view: View, said: str) -> str:
    """The last step of a span as a GateReview names it, from its number on the screens (from 1) or `remaining`.

    Raises UsageError where no such step follows what is held.
    """
    if said.lower() == REMAINING:
        return "Remaining"
    steps = view.spec.get("steps") or []
    step = str((view.hold or {}).get("step", ""))
    number = int(said) if said.isascii() and said.isdecimal() and len(said) <= 3 else 0
    first = int(step) + 2 if step.isdecimal() else len(steps) + 1
    if not first <= number <= len(steps):
        span = f"a step from {first} to {len(steps)}, or " if first <= len(steps) else ""
        raise UsageError(
            f"--through {said!r} is no step after what is held ({step_word(steps, step)}): name {span}remaining.",
            then=f"kubectl gate review {view.name} -n {view.namespace}",
        )
    return str(number - 1)


def confirmed(case: Case, spec: Object, style: Style = PLAIN) -> bool:
    """Show the evidence in short and what would be written, and ask. On standard error: the answer alone is output."""
    lines = [*short(case, datetime.now(UTC), style), "", *written(case.view, spec)]
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.write(f"{spec['decision']}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def written(view: View, spec: Object) -> list[str]:
    """What the GateReview will say."""
    lines = [f"{spec['decision']}, as {clean(spec['reviewer'])}: {clean(spec['reason'])[:70]}"]
    if "expiresAt" in spec:
        reach = str(spec.get("through", spec["step"]))
        far = (
            "all steps that follow"
            if reach == "Remaining"
            else step_word(view.spec.get("steps") or [], reach)
        )
        span = f", through {far}" if "through" in spec else f", for {far} alone"
        lines.append(f"  waives {shorten(', '.join(spec['checks']), 44)} until {spec['expiresAt']}{span}")
    return lines


def still_held(shown: View, now: View, repeated: str) -> None:
    """Raises Superseded unless what is held now is what was shown."""
    look = f"kubectl gate review {shown.name} -n {shown.namespace}{repeated}"
    if now.hold is None:
        raise Superseded(
            f"While you looked, it ended: Rollout {shown.name} is {now.phase or 'new'} now. Nothing was written.",
            then=f"kubectl gate status {shown.name} -n {shown.namespace}{repeated}",
        )
    if _identity(shown) != _identity(now):
        raise Superseded(
            "While you looked, the evidence changed: look again. Nothing was written.", then=look
        )


def _identity(view: View) -> list[object]:
    hold = view.hold or {}
    revision = (view.status.get("canary") or {}).get("revision")
    return [view.rollout["metadata"].get("uid"), revision, *(hold.get(key) for key in _BOUND)]


def _create(kube: Kube, view: View, manifest: Object, verb: str) -> Object:
    try:
        return kube.create(path(KIND, view.namespace), manifest)
    except NotAllowed as error:
        tail = f"-n {view.namespace}{kube.flags.repeated}"
        right = f"kubectl auth can-i {VERB_APPROVE} rollouts.{GROUP}/{view.name} {tail}"
        then = (
            right if f"verb {VERB_APPROVE}" in error.sentence else f"kubectl gate review {view.name} {tail}"
        )
        raise NotAllowed(error.sentence, then=error.then or then) from error


def followed(before: View, after: Object | None) -> Sequence[str]:
    """What the decision brought about, as far as the Rollout shows it by now."""
    if after is None:
        return ()
    view = View(after)
    hold = view.hold
    if hold is not None and _identity(before) == _identity(view):
        given, needed = len(hold.get("approvals") or ()), int(hold.get("approvalsNeeded") or 1)
        if 0 < given < needed:
            missing = "one more person has" if needed - given == 1 else f"{needed - given} more people have"
            return (f"{given} of {needed} approvals: {missing} to approve before it goes on.",)
        return (f"It stays held{': ' + clean(hold['note'])[:80] if hold.get('note') else ''}.",)
    index = str(view.status.get("currentStep", 0))
    at = (
        f" at {step_word(view.spec.get('steps') or [], index)}"
        if view.phase in ("Progressing", "Held", "Paused")
        else ""
    )
    return (f"Now {view.phase}{at}: {clean(view.status.get('message', ''))}",)
