"""What `pause`, `resume` and `override` say beyond the words that all orders have in common."""

from datetime import datetime, timedelta

from gatewright_cli.errors import NotAllowed, UsageError
from gatewright_cli.kube import Object
from gatewright_cli.view import View, step_word

STANDING = {"pause": "Pause", "resume": "Resume", "override": "Override"}
LONGEST_OVERRIDE = timedelta(hours=1)
_SLACK = timedelta(minutes=1)
"""The API server counts from when it has the order, and its clock is its own."""


def override_of(
    view: View, to: str | None, ignore_breach: bool, expires_at: datetime | None, now: datetime
) -> Object:
    """`override` and `expiresAt` of an order Override. Raises UsageError where either is missing or makes no sense."""
    if to is None or expires_at is None:
        raise UsageError("override needs --to and --expires: where to go, and until when it counts.")
    if expires_at - now > LONGEST_OVERRIDE + _SLACK:
        raise UsageError("--expires: an Override counts for an hour at most.")
    target = {"to": _target(view, to), "ignoreBreach": ignore_breach}
    return {"override": target, "expiresAt": expires_at.strftime("%Y-%m-%dT%H:%M:%SZ")}


def _target(view: View, to: str) -> str:
    """Steps are counted from 1 on every screen; the order has the step's index."""
    if to.casefold() == "promote":
        return "Promote"
    steps = len(view.spec.get("steps") or [])
    if not (to.isascii() and to.isdecimal()) or not 1 <= int(to) <= steps:
        raise UsageError(f"--to {to!r} is neither promote nor a step from 1 to {steps}.")
    return str(int(to) - 1)


def revision_of(view: View, verb: str, repeated: str) -> str:
    """The version on its way. Raises NotAllowed when there is none."""
    revision = str((view.status.get("canary") or {}).get("revision") or "")
    if revision and view.phase not in ("Idle", "RolledBack"):
        return revision
    rejected = (view.status.get("rejected") or {}).get("revision")
    if verb == "override" and view.phase == "RolledBack" and rejected:
        raise NotAllowed(
            f"Revision {rejected} of {view.name} was refused and is not on its way: retry it first, then override.",
            then=f"kubectl gate retry {view.name} -n {view.namespace}{repeated} --reason '…'",
        )
    raise NotAllowed(
        f"Rollout {view.name} has no release on its way, so there is nothing to {verb}; it is {view.phase or 'new'}.",
        then=f"kubectl gate status {view.name} -n {view.namespace}{repeated}",
    )


def consequence(view: View, spec: Object) -> str:
    """What an Override will do, in a sentence for the one who is asked."""
    to, ends = spec["override"]["to"], spec["expiresAt"]
    goes = (
        "It is promoted now"
        if to == "Promote"
        else f"It goes on at {step_word(view.spec.get('steps') or [], to)}"
    )
    breaches = (
        f"breaches do not roll back before {ends}"
        if spec["override"]["ignoreBreach"]
        else "breaches still roll back"
    )
    return f"{goes}, past the gates between; {breaches}. It stands in the ledger under your name."
