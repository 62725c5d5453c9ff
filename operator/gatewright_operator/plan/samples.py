"""More samples: whether a person may order them for what is held, and which runs' evidence they are added to."""

from gatewright_analysis.kinds.contract import Check, OracleKind
from gatewright_analysis.kinds.rollout import HoldStatus
from gatewright_analysis.kinds.run import GateRunSpec
from gatewright_analysis.ledger import MOST_DRAWS, Drawn
from gatewright_analysis.ledger.draws import runs_of
from gatewright_analysis.reasons import Reason
from gatewright_analysis.recall import drawn
from gatewright_operator.plan.draft import Draft

Refusal = tuple[Reason, str]


def refusal_of_more_samples(d: Draft, hold: HoldStatus) -> Refusal | None:
    """Why no samples can be added to what is held; None where they can."""
    checks = _blocking(d, hold)
    sampled = [check for check in checks if check.oracle_kind is OracleKind.SAMPLED]
    if not sampled:
        named = ", ".join(check.id for check in checks) or "no check"
        return (
            Reason.NOTHING_TO_RETRY,
            f"Samples are added to sampled checks alone, and what stops this is {named}; order a Retry, or release another version.",
        )
    run = d.s.runs.get(hold.run)
    spent = [found for c in sampled if run is not None and (found := _drawn(d, c, run.spec)) is not None]
    if not spent:
        named = ", ".join(check.id for check in sampled)
        return (
            Reason.NOTHING_TO_RETRY,
            f"No samples of {named} are spent on this artifact; a Retry goes on with those there are.",
        )
    if not any(found.more_may_come for found in spent):
        return (
            Reason.SAMPLES_EXHAUSTED,
            f"All {MOST_DRAWS} attempts on this artifact, contract and world are used up; release another artifact, approve it or reject it.",
        )
    return None


def pooled_for_samples(d: Draft, spec: GateRunSpec) -> tuple[str, ...]:
    """The runs that sampled checks of a run with `moreSamples` go on from."""
    contract = d.s.pinned
    if contract is None or not spec.more_samples:
        return ()
    found = (_drawn(d, check, spec) for check in contract.spec.checks if check.id in spec.checks)
    return runs_of(one for one in found if one is not None and one.more_may_come)


def _drawn(d: Draft, check: Check, spec: GateRunSpec) -> Drawn | None:
    return drawn(check, spec, d.s.memory.draws)


def _blocking(d: Draft, hold: HoldStatus) -> tuple[Check, ...]:
    contract = d.s.pinned
    return () if contract is None else tuple(c for c in contract.spec.checks if c.id in hold.blocking)
