"""A HOLD with all that explains it, from raw objects; what `review` and the review page show. Pure: no terminal, no cluster."""

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gatewright_analysis.evidence.packed import unpack
from gatewright_analysis.evidence.record import CheckRecord, UnreadableRecord, read
from gatewright_cli.advice import advise, after_approval
from gatewright_cli.excerpt import bad_ratios, excerpt, sparkline
from gatewright_cli.kube import Object
from gatewright_cli.output import clean
from gatewright_cli.view import UNPROVEN, View, checks_of, proven, step_word

_GOOD = ("pass", "waived", "not_proven")


@dataclass(frozen=True)
class Case:
    """The Rollout that is held, the run it rests on (in `view`), the contract, the other runs, the stored evidence.

    `contract` is None where it can't be read; `unread` says so of the evidence.
    """

    view: View
    contract: Object | None
    runs: tuple[Object, ...] = ()
    records: Mapping[str, CheckRecord] = field(default_factory=dict)
    """By check: what was collected for it."""
    unread: str = ""

    @classmethod
    def of(
        cls,
        rollout: Object,
        runs: Sequence[Object] = (),
        contract: Object | None = None,
        evidence: Object | None = None,
        unread: str = "",
    ) -> "Case":
        """From objects as the API server gives them; `evidence` is the ConfigMap `evidence_name`, `unread` why there is none."""
        hold = (rollout.get("status") or {}).get("hold") or {}
        run = next((each for each in runs if each["metadata"]["name"] == hold.get("run")), None)
        records, wrong = _records(evidence, hold.get("evidenceDigest"))
        return cls(View(rollout, run=run), contract, tuple(runs), records, wrong or unread)

    @property
    def hold(self) -> Object:
        return self.view.hold or {}

    @property
    def blocking(self) -> list[Object]:
        """Results of the checks that stop it: those that the hold names, else all that did not pass."""
        named = self.hold.get("blocking") or []
        checks = self.view.checks
        found = [check for check in checks if check.get("id") in named]
        return found or [check for check in checks if check.get("status") not in _GOOD]

    @property
    def hold_policy(self) -> Object:
        """`hold` of the contract; empty where it can't be read."""
        policy: Object = ((self.contract or {}).get("spec") or {}).get("hold") or {}
        return policy

    @property
    def waivable(self) -> bool:
        """Has a gate judged? Else there is nothing that an approval could name."""
        return bool(self.hold.get("blocking") and self.hold.get("worldSnapshot"))

    @property
    def same_hand(self) -> bool:
        """The one who started the change wrote the contract last, both proven."""
        who = proven(self.hold.get("initiator"))
        return who != UNPROVEN and who == proven(self.hold.get("contractWrittenBy"))

    @property
    def approvals(self) -> list[Object]:
        return list(self.hold.get("approvals") or ())

    @property
    def approvals_needed(self) -> int:
        return max(int(self.hold.get("approvalsNeeded") or 1), 1)

    @property
    def samples_may_come(self) -> bool:
        """The operator's verdict offers it: it knows how many attempts this artifact has had."""
        verdict = ((self.view.run or {}).get("status") or {}).get("verdict") or {}
        return any(" more-samples " in str(said) for said in verdict.get("nextActions") or ())

    def excerpt(self, check: Object) -> str:
        """One line of what was seen for a check; empty where nothing of it is stored."""
        declared = next(
            (each for each in self._declared if each.get("id") == check.get("id")),
            None,
        )
        stage = ((self.view.run or {}).get("spec") or {}).get("stage") or "Canary"
        return excerpt(self.records.get(str(check.get("id"))), declared, str(stage))

    def bad_ratios(self, check: Object) -> list[float | None]:
        return bad_ratios(self.records.get(str(check.get("id"))))

    def sparkline(self, check: Object) -> str:
        """The bad share of each window as a bar; half the height is the limit, where the check has one."""
        threshold = check.get("threshold")
        limit = 1 - threshold if isinstance(threshold, int | float) and 0 < threshold < 1 else None
        return sparkline(self.bad_ratios(check), limit)

    @property
    def contract_changed(self) -> bool:
        """The contract is another by now than the one that judged."""
        judged = ((self.view.run or {}).get("spec") or {}).get("contractGeneration")
        present = ((self.contract or {}).get("metadata") or {}).get("generation")
        return None not in (judged, present) and judged != present

    @property
    def _declared(self) -> list[Object]:
        if self.contract_changed:
            return []
        checks: list[Object] = ((self.contract or {}).get("spec") or {}).get("checks") or []
        return checks


def evidence_name(hold: Object) -> str:
    """The ConfigMap with the evidence that a HOLD rests on: the operator names it by run and digest."""
    return f"{hold.get('run', '')}-{str(hold.get('evidenceDigest', ''))[7:17]}"


def as_json(case: Case) -> dict[str, Any]:
    """All of it for programs, and for the review page."""
    view, hold = case.view, case.hold
    return {
        "namespace": view.namespace,
        "name": view.name,
        "uid": view.rollout["metadata"].get("uid"),
        "revision": (view.status.get("canary") or {}).get("revision"),
        "hold": hold,
        "initiator": proven(hold.get("initiator")),
        "contractWrittenBy": proven(hold.get("contractWrittenBy")),
        "sameHand": case.same_hand,
        "attempt": view.status.get("attempt", 0),
        "attempts": view.status.get("attempts") or {},
        "approvals": {"given": case.approvals, "needed": case.approvals_needed},
        "earlierRuns": [told(each) for each in earlier(case)],
        "blocking": [
            {
                **check,
                "wouldChange": advise(check),
                "excerpt": case.excerpt(check),
                "sparkline": case.sparkline(check),
                "badRatios": case.bad_ratios(check),
            }
            for check in case.blocking
        ],
        "checks": view.checks,
        "waivable": case.waivable,
        "onApproval": on_approval(case),
        "contract": {"name": (view.spec.get("contractRef") or {}).get("name"), **case.hold_policy},
        "nextActions": [" ".join(words) for words in commands(case, "")],
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


def told(run: Object) -> dict[str, Any]:
    """An earlier run in short."""
    verdict = (run.get("status") or {}).get("verdict") or {}
    return {
        "run": run["metadata"]["name"],
        "attempt": run["spec"].get("attempt"),
        "decision": verdict.get("decision"),
        "reason": verdict.get("reason"),
        "finishedAt": verdict.get("finishedAt"),
        "failing": [check["id"] for check in checks_of(run) if check.get("status") not in ("pass", "waived")],
    }


def on_approval(case: Case) -> str:
    """Where the change goes, without a capital or a full stop."""
    spec = case.view.spec
    return after_approval(spec.get("steps") or [], case.hold.get("step"), bool(spec.get("bake")))


def approving(case: Case) -> str:
    """What an approval means, in a few sentences."""
    if not case.waivable:
        return "There is nothing to waive: no gate has judged this. It ends by a retry, a rejection or a new revision."
    breach = "You would let a proven breach pass. " if case.hold.get("breach") else ""
    missing = case.approvals_needed - len(case.approvals)
    # Of the last approval that is missing, what it does is said; of one before it, that it does not suffice.
    start = (
        f"{missing} more people have to approve; on the last one's word" if missing > 1 else "On your word"
    )
    # By status, as the policies go by it: the contract may be another by now than the one that judged.
    decisions = case.view.status.get("decisions") or {}
    longest = decisions.get("maxWaiver") or case.hold_policy.get("maxWaiver")
    bound = f", {clean(longest)} at most" if longest else ""
    return (
        f"{breach}{start} {on_approval(case)}. The waiver is for these checks, this evidence, revision and world, at "
        f"{where(case)} alone, until it expires{bound}; a new breach of a check that rolls back still rolls back."
        f"{_through(case)}"
    )


def _through(case: Case) -> str:
    """How to waive a span of steps; nothing where no gate follows."""
    steps = case.view.spec.get("steps") or []
    step = str(case.hold.get("step", ""))
    following = [
        index + 1
        for index, each in enumerate(steps)
        if step.isdecimal() and index > int(step) and "gate" in each
    ]
    if not step.isdecimal() or not (following or case.view.spec.get("bake")):
        return ""
    one = f"--through {following[0]} to waive them at step {following[0]} too, " if following else ""
    return f" Add {one}--through remaining for all that follow."


def where(case: Case) -> str:
    """`step 2 of 4`."""
    return step_word(case.view.spec.get("steps") or [], case.hold.get("step", ""))


def commands(case: Case, repeated: str) -> list[list[str]]:
    """The decisions, ready to paste but for the reason; each as [start, options], to be folded."""
    name = shlex.quote(case.view.name)
    tail = f"-n {shlex.quote(case.view.namespace)}{repeated}"
    verbs = ["request-changes", "reject", *(["more-samples"] if case.samples_may_come else [])]
    if not case.waivable:
        return [[f"kubectl gate {verb} {name} {tail}", "--reason '…'"] for verb in ("retry", *verbs)]
    return [
        [f"kubectl gate approve {name} {tail}", "--expires 24h --reason '…'"],
        *([f"kubectl gate {verb} {name} {tail}", "--reason '…'"] for verb in verbs),
    ]


def _records(evidence: Object | None, digest: object) -> tuple[Mapping[str, CheckRecord], str]:
    """The stored evidence, if it is what was judged: the digest in the status, which only the operator writes, says so."""
    if evidence is None:
        return {}, ""
    try:
        raw = unpack(evidence)
        if f"sha256:{hashlib.sha256(raw).hexdigest()}" != digest:
            return {}, "the evidence that is stored is not what was judged"
        return read(raw).checks, ""
    except UnreadableRecord as error:
        return {}, clean(error)
