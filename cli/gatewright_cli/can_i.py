"""`kubectl gate can-i`: may I approve, operate, override, and would it count now?

Two questions, because a right is not all: nobody approves a change that they started, and what is not held can't be
approved. The API server answers the first, by SelfSubjectAccessReview; the second is told from the Rollout.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gatewright_analysis.names import GROUP, VERB_APPROVE, VERB_OPERATE, VERB_OVERRIDE
from gatewright_cli.errors import Exit, GateError, NotAllowed
from gatewright_cli.formats import Output, show
from gatewright_cli.kube import Kube, Object, User, path
from gatewright_cli.output import PLAIN, Style, clean, fold, print_lines
from gatewright_cli.view import UNPROVEN, View, proven

VERBS = (VERB_APPROVE, VERB_OPERATE, VERB_OVERRIDE)
MEANS = {
    VERB_APPROVE: "approve, reject and request-changes on a HOLD",
    VERB_OPERATE: "abort, retry, more-samples, pause, resume, escalate; and reject",
    VERB_OVERRIDE: "override past the gates, and un-pause the Deployment by kubectl",
}
_WRITES = {VERB_APPROVE: "gatereviews", VERB_OPERATE: "gateorders", VERB_OVERRIDE: "gateorders"}


@dataclass(frozen=True)
class Right:
    """One verb: does RBAC give it, and does it count at this moment? None: the API server did not say."""

    verb: str
    granted: bool | None
    now: bool | None
    why: str

    def wire(self) -> dict[str, Any]:
        return {"verb": self.verb, "granted": self.granted, "now": self.now, "why": self.why}


def run(kube: Kube, name: str, verb: str | None, *, output: Output) -> Exit:
    """With a verb, exit code 4 when it would be refused now. Raises NotAllowed only after it has been shown."""
    me, rollout = kube.whoami_and_rollout(name)
    view = View(rollout)
    asked = VERBS if verb is None else (verb,)
    meta = rollout["metadata"]
    verbs = [_on_rollout(each, meta) for each in asked]
    writes = [_create(_WRITES[each], meta["namespace"]) for each in asked]
    answers = kube.allowed([*verbs, *writes])
    contract = kube.get_all(
        [path("gatecontracts", meta["namespace"], rollout["spec"]["contractRef"]["name"])]
    )[0]
    accounts = [] if isinstance(contract, GateError) else _service_accounts(contract)
    rights = [
        right(each, view, me, has, may_write, accounts)
        for each, has, may_write in zip(asked, answers[: len(asked)], answers[len(asked) :], strict=True)
    ]
    if output.for_programs:
        show(as_json(view, me, rights), output)
    else:
        print_lines(render(view, me, rights, Style.of(sys.stdout)))
    if verb is not None and not rights[0].now:
        status = f"kubectl gate status {view.name} -n {view.namespace}{kube.flags.repeated}"
        raise NotAllowed(rights[0].why, then=status, reported=True)
    return Exit.OK


def right(
    verb: str,
    view: View,
    me: User,
    granted: bool | None,
    may_write: bool | None,
    accounts: Sequence[str] = (),
) -> Right:
    """The rules of the admission policies that can be told beforehand, in the order in which they refuse."""
    if granted is None or may_write is None:
        return Right(verb, None, None, "The API server did not say.")
    if not granted:
        return Right(
            verb,
            False,
            False,
            f"You lack the verb {verb} on rollouts.{GROUP}/{view.name}; ask whoever owns its roles.",
        )
    if not may_write:
        return Right(
            verb, False, False, f"You have the verb {verb}, but may not create {_WRITES[verb]}.{GROUP} here."
        )
    if me.name.startswith("system:serviceaccount:") and me.name not in accounts:
        return Right(
            verb,
            True,
            False,
            f"{me.name} is a service account that the contract does not list in hold.serviceAccounts.",
        )
    if verb == VERB_APPROVE:
        return _approve(view, me)
    if verb == VERB_OPERATE:
        return Right(verb, True, True, f"You may order: {MEANS[verb]}.")
    return Right(
        verb, True, True, "You may pass the gates. It is recorded loudly, and it ends within an hour."
    )


def _approve(view: View, me: User) -> Right:
    hold = view.hold
    if hold is None:
        return Right(VERB_APPROVE, True, False, f"Nothing is held now; {view.name} is {view.phase or 'new'}.")
    initiator = str(hold.get("initiator") or "")
    if initiator == me.name:
        return Right(
            VERB_APPROVE,
            True,
            False,
            f"You started this change; somebody else has to approve it. {_but_reject()}",
        )
    if not hold.get("blocking"):
        return Right(
            VERB_APPROVE, True, False, f"No check blocks it, so there is nothing to waive. {_but_reject()}"
        )
    needed = int(hold.get("approvalsNeeded") or 1)
    given = hold.get("approvals") or []
    if me.name in [str(each.get("reviewer") if isinstance(each, dict) else each) for each in given]:
        return Right(
            VERB_APPROVE, True, False, f"You have approved it already: {len(given)} of {needed} people have."
        )
    unproven = (
        " Who started the change is not proven: make sure that it was not you."
        if proven(initiator) == UNPROVEN
        else ""
    )
    people = f" It takes {needed} people; {len(given)} have approved." if needed > 1 else ""
    return Right(VERB_APPROVE, True, True, f"You may approve what is held.{people}{unproven}")


def _but_reject() -> str:
    return "You may reject it, or request changes."


def as_json(view: View, me: User, rights: Sequence[Right]) -> dict[str, Any]:
    return {
        "rollout": view.name,
        "namespace": view.namespace,
        "user": me.name,
        "groups": list(me.groups),
        "rights": [each.wire() for each in rights],
    }


def render(view: View, me: User, rights: Sequence[Right], style: Style = PLAIN) -> list[str]:
    lines = [f"{clean(me.name)} on {view.name} in {view.namespace}:"]
    for each in rights:
        word = {True: "yes", False: "no", None: "?"}[each.now]
        look = {True: "green", False: "red", None: "yellow"}[each.now]
        first, *rest = fold(each.why, " " * 18)
        lines += [f"  {each.verb.ljust(8)}  {style.paint(word.ljust(4), look)}  {first.strip()}", *rest]
        lines += fold(f"It is for: {MEANS[each.verb]}.", " " * 18) if not each.granted else []
    return lines


def _on_rollout(verb: str, meta: Object) -> Object:
    return {
        "verb": verb,
        "group": GROUP,
        "resource": "rollouts",
        "namespace": meta["namespace"],
        "name": meta["name"],
    }


def _create(resource: str, namespace: str) -> Object:
    return {"verb": "create", "group": GROUP, "resource": resource, "namespace": namespace}


def _service_accounts(contract: Object) -> list[str]:
    return list(((contract.get("spec") or {}).get("hold") or {}).get("serviceAccounts") or [])
