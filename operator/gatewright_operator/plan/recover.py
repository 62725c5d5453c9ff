"""A rollout that stands open in the ledger and that status does not know: lost with a wiped status, or begun just before a crash."""

from gatewright_analysis.kinds.rollout import AfterBack, Phase, RejectedStatus
from gatewright_analysis.ledger import OpenRollout
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.actions import Plan
from gatewright_operator.plan.back import rolling_back
from gatewright_operator.plan.draft import Draft


def begun_unnoticed(d: Draft) -> OpenRollout | None:
    """What a crash kept out of the status of a Rollout that seems at rest: a start, or the way back from it."""
    begun = d.s.memory.open
    # Promotions and their undoing are reported before they end; only their last entry can be missing.
    return None if begun is None or begun.promoted or begun.restoring else begun


def recover(d: Draft) -> Plan:
    """Goes on where the ledger ends: finishes a promotion or a way back, and takes everything else back."""
    begun = d.s.memory.open
    assert begun is not None
    lost = d.status.phase is None
    d.set(
        stable=begun.stable if lost else d.stable,
        canary=begun.canary,
        originals=begun.originals,
        attempt=begun.attempt,
        current_step=begun.step,
        progress_at=d.now,
    )
    if begun.restoring:
        d.set(
            phase=Phase.RESTORING,
            previous=begun.stable,
            rejected=RejectedStatus(
                revision=begun.revision, reason=Reason.STATUS_LOST, message="Status was lost.", at=d.now
            ),
        )
        d.say(Reason.RESTORING, f"Status was lost while {begun.stable.revision} was put back. Going on.")
        return d.again()
    if begun.promoted:
        d.set(phase=Phase.PROMOTING, previous=begun.stable)
        d.say(
            Reason.PROMOTING, f"Status was lost; the ledger says that {begun.revision} is promoted. Going on."
        )
        return d.again()
    if begun.back is not None:
        d.go_back(Reason(begun.back_reason), begun.back_message, then=begun.back, cause=begun.back_cause)
    elif lost:
        d.go_back(
            Reason.STATUS_LOST,
            f"Status was lost in the middle of {begun.revision}; going back to {begun.stable.revision} and starting again.",
            then=AfterBack.START,
        )
    elif d.s.rollout.metadata.deletion_timestamp is not None:
        d.go_back(
            Reason.DELETED,
            f"The Rollout was deleted when {begun.revision} had only begun; what was begun is taken back.",
            then=AfterBack.IDLE,
        )
    else:
        d.go_back(
            Reason.SUPERSEDED,
            f"{begun.revision} had only begun when its template went away; what was begun is taken back.",
            then=AfterBack.START,
        )
    return rolling_back(d.s, d)
