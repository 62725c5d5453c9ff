"""Verdicts of a ledger as in-toto Statements v1, for policies that know nothing of Gatewright. Pure.

* test-result v0.1, one for each verdict: the checks are the tests. PASSED is a PROMOTE without reservation, WARNED one
  that a person waived or that carries a warning; every other verdict is FAILED: nothing unknown passes.
* svr v0.1 (Simple Verification Result), one for each PROMOTE: what was proven, and nothing that was waived.

The subjects are the image digests. What ran under a tag alone, with no digest known, can be no subject.
https://github.com/in-toto/attestation: spec/v1/statement.md, spec/predicates/test-result.md and svr.md.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from gatewright_analysis.kinds.base import format_time
from gatewright_analysis.kinds.contract import Require
from gatewright_analysis.ledger.entry import Entry, EntryKind
from gatewright_analysis.names import GROUP, VERSION
from gatewright_analysis.verdict import CheckResult, CheckStatus, Decision, Verdict

STATEMENT: Final = "https://in-toto.io/Statement/v1"
VERIFIER: Final = f"https://{GROUP}/{VERSION}"
_IMAGE = re.compile(r"(?:(?P<container>[a-z0-9-]+)=)?(?P<name>[^@]+)@sha256:(?P<hex>[0-9a-f]{64})")


class Predicate(StrEnum):
    """Predicate types, by the word of the command line; `uri` is the type itself."""

    TEST_RESULT = "test-result"
    SVR = "svr"

    @property
    def uri(self) -> str:
        return f"https://in-toto.io/attestation/{self.value}/v0.1"


def statements(entries: Iterable[Entry], kinds: Iterable[Predicate]) -> Iterator[dict[str, Any]]:
    """The statements of these kinds, in the ledger's order. Verdicts whose images have no digest give none."""
    wanted = tuple(kinds)
    for entry, verdict in verdicts(entries):
        subject = subjects(verdict)
        if not subject:
            continue
        if Predicate.TEST_RESULT in wanted:
            yield _statement(subject, Predicate.TEST_RESULT, _test_result(entry, verdict))
        if Predicate.SVR in wanted and verdict.decision is Decision.PROMOTE and (proven := _proven(verdict)):
            yield _statement(subject, Predicate.SVR, _svr(entry, verdict, proven))


def verdicts(entries: Iterable[Entry]) -> Iterator[tuple[Entry, Verdict]]:
    """What a gate decided; what was found while it was held, and breaches that were proven after it."""
    for entry in entries:
        if entry.key.kind in (EntryKind.VERDICT, EntryKind.BLOCKED, EntryKind.BREACH):
            yield entry, Verdict.model_validate(entry.body["verdict"])


def subjects(verdict: Verdict) -> list[dict[str, Any]]:
    """The images that were judged, each once, by name and digest; empty when any of them has no digest."""
    found: dict[str, dict[str, Any]] = {}
    for image in verdict.change.images:
        match = _IMAGE.fullmatch(image)
        if match is None:
            # A statement about some of the containers would speak for all of them.
            return []
        found[match["hex"]] = {"name": match["name"], "digest": {"sha256": match["hex"]}}
    return list(found.values())


def _statement(subject: list[dict[str, Any]], kind: Predicate, predicate: dict[str, Any]) -> dict[str, Any]:
    return {"_type": STATEMENT, "subject": subject, "predicateType": kind.uri, "predicate": predicate}


def _test_result(entry: Entry, verdict: Verdict) -> dict[str, Any]:
    passed = [check.id for check in verdict.checks if check.status is CheckStatus.PASS]
    failed = [check.id for check in verdict.checks if _failed(check)]
    warned = [check.id for check in verdict.checks if check.id not in (*passed, *failed)]
    if verdict.decision is not Decision.PROMOTE:
        result = "FAILED"
    else:
        result = "WARNED" if warned or failed else "PASSED"
    return {
        "result": result,
        "configuration": [_contract(verdict)],
        "passedTests": passed,
        "warnedTests": warned,
        "failedTests": failed,
        **_extension(entry, verdict),
    }


def _failed(check: CheckResult) -> bool:
    """What stands in the way of a promotion. What was waived, or need not be proven, is a warning."""
    if check.status in (CheckStatus.PASS, CheckStatus.WAIVED):
        return False
    if check.require is Require.PASS:
        return True
    return check.require is Require.NO_BREACH and check.status is not CheckStatus.NOT_PROVEN


def _proven(verdict: Verdict) -> list[str]:
    """The gate, unless a person had to waive something, and each check that passed."""
    passed = [f"GATEWRIGHT_CHECK_{check.id}" for check in verdict.checks if check.status is CheckStatus.PASS]
    waived = any(check.status is CheckStatus.WAIVED for check in verdict.checks)
    return [*([] if waived else [f"GATEWRIGHT_GATE_{verdict.stage.value.upper()}"]), *passed]


def _svr(entry: Entry, verdict: Verdict, proven: list[str]) -> dict[str, Any]:
    return {
        "verifier": {"id": VERIFIER, "policy": _contract(verdict)},
        "timeCreated": format_time(verdict.finished_at),
        "properties": proven,
        **_extension(entry, verdict),
    }


def _contract(verdict: Verdict) -> dict[str, Any]:
    """The contract as a ResourceDescriptor."""
    digest = verdict.change.contract_digest.removeprefix("sha256:")
    return {"name": verdict.change.contract_version, "digest": {"sha256": digest}}


def _extension(entry: Entry, verdict: Verdict) -> Mapping[str, Any]:
    """Where this comes from, for whoever wants to look it up: the entry's own digest proves the rest."""
    return {
        "gatewright": {
            "rollout": verdict.target,
            "revision": verdict.change.revision,
            "step": verdict.step,
            "attempt": verdict.attempt,
            "run": verdict.run_id,
            "decision": verdict.decision.value,
            "reason": verdict.reason,
            "evidenceDigest": verdict.evidence_digest,
            "worldSnapshot": verdict.change.world_snapshot,
            "ledgerEntry": {"sequence": entry.sequence, "digest": entry.digest},
        }
    }
