"""What a look during a HOLD may add to it: more checks that block, never fewer. Pure; operator and replay share it."""

from collections.abc import Iterable

from gatewright_analysis.decide import Outcome
from gatewright_analysis.explain import clip
from gatewright_analysis.kinds.contract import Check, GateContractSpec, OracleKind, Require, Stage
from gatewright_analysis.reasons import Reason
from gatewright_analysis.task import required
from gatewright_analysis.verdict import CheckResult, CheckStatus, Decision, Verdict

_FINAL = (CheckStatus.FAIL, CheckStatus.BELOW_THRESHOLD)
_SATISFIED = (CheckStatus.PASS, CheckStatus.WAIVED)


def blocks_more(
    results: Iterable[CheckResult],
    contract: GateContractSpec,
    held: Verdict,
    *,
    stage: Stage = Stage.CANARY,
    last_gate: bool = True,
) -> Outcome | None:
    """The HOLD that takes the place of `held` at this look; None where the look only confirms what blocks already.

    New is a deterministic check that ended badly since (a breach that rolls back is decided before this is asked),
    and one whose waiver counted when the HOLD was given, counts no longer, and hid what is not proven.
    """
    checks = {check.id: check for check in contract.checks}
    waived = {result.id for result in held.checks if result.status is CheckStatus.WAIVED}
    new = [
        result
        for result in sorted(results, key=lambda one: one.id)
        if result.id in checks
        and result.id not in held.blocking
        and _blocks(result, checks[result.id], stage, last_gate=last_gate, was_waived=result.id in waived)
    ]
    if not new:
        return None
    said = "; ".join(f"{result.id}: {result.message.rstrip('.')}" for result in new[:3])
    more = f"; and {len(new) - 3} more" if len(new) > 3 else ""
    return Outcome(
        Decision.HOLD,
        Reason(new[0].reason),
        tuple(sorted({*held.blocking, *(result.id for result in new)})),
        clip(
            f"Since it was held: {said}{more}. Approvals of what was seen before are void. Held for: {held.message}"
        ),
    )


def _blocks(result: CheckResult, check: Check, stage: Stage, *, last_gate: bool, was_waived: bool) -> bool:
    if check.require is Require.ADVISORY or result.status in _SATISFIED:
        return False
    if was_waived:
        asked = required(check, stage, last_gate=last_gate)
        return not (asked is Require.NO_BREACH and result.status is CheckStatus.NOT_PROVEN)
    return check.oracle_kind is OracleKind.DETERMINISTIC and result.status in _FINAL
