"""`abort`, `retry`, `more-samples`, `escalate`: a person's word, as an object of its own; and what reviews share with them."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gatewright_analysis.names import API_VERSION
from gatewright_analysis.waiver import waiver_in_force
from gatewright_cli import durations, orders
from gatewright_cli.errors import Exit, GateError, NotAllowed, NotFound, Unreachable, UsageError
from gatewright_cli.formats import Output, show, show_names
from gatewright_cli.kube import Kube, Object, User, path
from gatewright_cli.output import clean, fold, parse_time, print_lines, span
from gatewright_cli.view import View, proven, step_word

REASON_SHORTEST, REASON_LONGEST = 10, 1024
ANSWER_POLL_SECONDS = 0.3
EFFECT_SECONDS = 3.0
ORDERS = {
    "abort": "Abort",
    "retry": "Retry",
    "more-samples": "MoreSamples",
    "escalate": "Escalate",
    **orders.STANDING,
}
_FOLLOWS = ("phase", "hold", "attempt", "paused", "currentStep")
"""Parts of a Rollout's status, one of which changes when a decision is obeyed."""
_ABORTABLE = frozenset(("Progressing", "Paused", "Held", "Promoting", "Baking"))


@dataclass(frozen=True)
class Word:
    """What the person said: `verb` as on the command line; `expires` and `through` as typed, for approve only."""

    verb: str
    rollout: str
    reason: str
    expires: str | None = None
    through: str | None = None
    to: str | None = None
    """Override: `promote`, or a step as people count."""
    ignore_breach: bool = False
    yes: bool = False
    timeout: timedelta = timedelta(seconds=30)
    output: Output = Output.TEXT


def run(kube: Kube, word: Word) -> Exit:
    """Create the object and wait for the operator's answer. Raises NotAllowed with the refuser's sentence."""
    check_reason(word)
    me, rollout = kube.whoami_and_rollout(word.rollout)
    view = View(rollout)
    kind, manifest = "gateorders", order_of(view, me, word, kube.flags.repeated)
    if not word.yes and sys.stdin.isatty() and sys.stdout.isatty() and not _confirmed(view, me, manifest):
        print("Nothing was done.")
        return Exit.ERROR
    created = kube.create(path(kind, view.namespace), manifest)
    where = path(kind, view.namespace, created["metadata"]["name"])
    answered = await_answer(kube, where, created, word.timeout, time.monotonic, time.sleep)
    if (answered.get("status") or {}).get("outcome") == "Accepted":
        await_effect(kube, view, time.monotonic, time.sleep)
    return report(view, kind, answered, word, kube.flags.repeated)


def check_reason(word: Word) -> None:
    """Raises UsageError for one that the API server would refuse: before anything is sent."""
    if not REASON_SHORTEST <= len(word.reason.strip()) <= REASON_LONGEST:
        raise UsageError(
            f"--reason needs {REASON_SHORTEST} to {REASON_LONGEST} characters: say why, it is what the ledger keeps of "
            "your decision.",
            then=f"kubectl gate {word.verb} --help",
        )


def expiry(text: str, now: datetime) -> datetime:
    """`24h` from now, or a point in time in RFC 3339 that must lie ahead. Raises UsageError."""
    moment = (
        parse_time(text) if "T" in text.upper() and "-" in text else now + durations.parse(text, "--expires")
    )
    if moment is None:
        raise UsageError(
            f"--expires {text!r} is neither a length such as 24h nor a time such as 2030-01-31T18:00:00Z.",
            then="kubectl gate approve --help",
        )
    if not waiver_in_force(now, moment, now):
        raise UsageError(f"--expires {text} has passed.", then="kubectl gate approve --help")
    return moment


def order_of(view: View, me: User, word: Word, repeated: str) -> Object:
    """The GateOrder for the revision that it is about. Raises NotAllowed when there is none."""
    spec = {
        "rollout": view.name,
        "rolloutUID": view.rollout["metadata"]["uid"],
        "revision": order_revision(view, word.verb, repeated),
        "order": ORDERS[word.verb],
        "orderedBy": me.name,
        "groups": list(me.groups),
        "reason": word.reason.strip(),
    }
    if word.verb == "override":
        now = datetime.now(UTC)
        ends = None if word.expires is None else expiry(word.expires, now)
        spec |= orders.override_of(view, word.to, word.ignore_breach, ends, now)
    return object_of("GateOrder", view, spec)


def order_revision(view: View, verb: str, repeated: str) -> str:
    """Abort is about the revision on its way; Retry about the one that is held, else the one that was refused; more
    samples about the one that is held."""
    if verb in orders.STANDING:
        return orders.revision_of(view, verb, repeated)
    status = view.status
    canary = str((status.get("canary") or {}).get("revision") or "")
    if verb == "abort":
        revision = canary or (status.get("observedRevision") if view.phase in _ABORTABLE else "")
        missing = "has no release on its way, so there is nothing to abort"
    elif verb == "escalate":
        revision = canary if view.phase == "Held" else ""
        missing = "is not held, so there is nothing to escalate"
    elif verb == "more-samples":
        revision = canary if view.phase == "Held" else ""
        missing = "is not held, so there is no gate to which samples could be added"
    else:
        rejected = (status.get("rejected") or {}).get("revision")
        revision = canary if view.phase == "Held" else rejected
        missing = "has no revision that is held or was refused, so there is nothing to retry"
    if not revision:
        raise NotAllowed(
            f"Rollout {view.name} {missing}; it is {view.phase or 'new'}.",
            then=f"kubectl gate status {view.name} -n {view.namespace}{repeated}",
        )
    return str(revision)


def object_of(kind: str, view: View, spec: Object) -> Object:
    """A manifest of a review or an order; the API server gives it its name."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"generateName": f"{view.name}-", "namespace": view.namespace},
        "spec": spec,
    }


def _confirmed(view: View, me: User, manifest: Object) -> bool:
    spec = manifest["spec"]
    what = spec["order"]
    hold = view.hold
    lines = [f"{what}: revision {spec['revision']} of {view.name} in {view.namespace}, as {me.name}"]
    if hold is not None:
        where = step_word(view.spec.get("steps") or [], hold["step"])
        lines += fold(f"Held at {where}: {hold.get('message') or hold.get('reason')}", lines=3)
        lines.append(f"  Started by {clean(proven(hold.get('initiator')))}")
    if "override" in spec:
        lines.append(f"  {orders.consequence(view, spec)}")
    print_lines(lines)
    try:
        return input(f"{what}? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def await_answer(
    kube: Kube,
    where: str,
    created: Object,
    timeout: timedelta,
    clock: Callable[[], float],
    sleep: Callable[[float], object],
) -> Object:
    """The object once the operator has written its outcome; as it was last seen when the time is up."""
    deadline = clock() + timeout.total_seconds()
    latest = created
    while not (latest.get("status") or {}).get("outcome") and clock() < deadline:
        sleep(ANSWER_POLL_SECONDS)
        try:
            latest = kube.get(where)
        except Unreachable:
            continue  # the object stands; only its answer is late
        except NotFound:
            raise GateError(f"{where.rsplit('/', 1)[-1]} was deleted before the operator answered.") from None
    return latest


def await_effect(
    kube: Kube, before: View, clock: Callable[[], float], sleep: Callable[[float], object]
) -> Object | None:
    """Until the Rollout's status shows that something followed, for a few seconds at most. The Rollout then, if it did.

    The operator answers first and reports last: without this, `status --wait` right after an approval could still
    read the hold that the approval ended.
    """
    deadline = clock() + EFFECT_SECONDS
    where = path("rollouts", before.namespace, before.name)
    while clock() < deadline:
        try:
            rollout = kube.get(where)
        except GateError:
            return None  # the decision stands and was answered; that is what this command is about
        status = rollout.get("status") or {}
        if any(status.get(key) != before.status.get(key) for key in _FOLLOWS):
            return rollout
        sleep(ANSWER_POLL_SECONDS)
    return None


def report(
    view: View, kind: str, answered: Object, word: Word, repeated: str, followed: Sequence[str] = ()
) -> Exit:
    """Print the operator's answer and what `followed`. Raises NotAllowed with its sentence when it refused."""
    status = answered.get("status") or {}
    name = answered["metadata"]["name"]
    look = f"kubectl gate status {view.name} -n {view.namespace}{repeated}"
    message = clean(status.get("message", ""))
    if word.output.for_programs:
        answered.get("metadata", {}).pop("managedFields", None)
        show(answered, word.output)
    elif word.output is Output.NAME:
        show_names(kind.removesuffix("s"), [name])
    elif status.get("outcome") == "Accepted":
        accepted = fold(f"Accepted: {message or 'the operator acts on it.'}", "")
        print_lines([*accepted, *(line for said in followed for line in fold(said, "")), f"See: {look}"])
    match status.get("outcome"):
        case "Accepted":
            return Exit.OK
        case "Refused":
            reason = status.get("reason") or "without a reason"
            raise NotAllowed(
                message or f"The operator refused it ({reason}).",
                then=look,
                reported=word.output.for_programs,
            )
        case _:
            raise GateError(
                f"{kind}/{name} is recorded, but the operator has not answered within {span(word.timeout)}. "
                "It acts on it when it runs again; is it running?",
                then=f"kubectl get {kind}.gatewright.dev {name} -n {view.namespace}{repeated} -o yaml",
                reported=word.output.for_programs,
            )
