"""What a gate's results become under the waivers that its run was begun with. Pure; operator and replay share it."""

from collections.abc import Iterable
from datetime import datetime

from gatewright_analysis.decide import apply_waivers
from gatewright_analysis.kinds.contract import GateContractSpec
from gatewright_analysis.kinds.run import RunWaiver
from gatewright_analysis.verdict import CheckResult, CheckStatus, EvidenceUri
from gatewright_analysis.waiver import waiver_in_force

MOST_EVIDENCE = 4
"""As many references as a result can hold."""


def in_force(waivers: Iterable[RunWaiver], at: datetime) -> tuple[RunWaiver, ...]:
    """Those that count at this time."""
    return tuple(w for w in waivers if waiver_in_force(w.granted_at, w.expires_at, at))


def uri_of(review: str) -> str:
    """How a waiver stands among the evidence of a check."""
    return f"gatereviews.gatewright.dev/{review}"


def under_waivers(
    results: Iterable[CheckResult], waivers: Iterable[RunWaiver], contract: GateContractSpec, at: datetime
) -> tuple[CheckResult, ...]:
    """The results of a look at `at`. A check that is waived names the GateReview as its evidence.

    What `apply_waivers` leaves as it is stays so: a proven breach of a check that may roll back is never waived.
    """
    counting = in_force(waivers, at)
    if not counting:
        return tuple(results)
    named = {check for waiver in counting for check in waiver.checks}
    return tuple(_signed(result, counting) for result in apply_waivers(results, named, contract))


def _signed(result: CheckResult, waivers: tuple[RunWaiver, ...]) -> CheckResult:
    if result.status is not CheckStatus.WAIVED:
        return result
    mine = (waiver for waiver in waivers if result.id in waiver.checks)
    references = tuple(EvidenceUri(uri=uri_of(w.review), digest=w.evidence_digest) for w in mine)
    return result.model_copy(update={"evidence": references[:MOST_EVIDENCE]})
