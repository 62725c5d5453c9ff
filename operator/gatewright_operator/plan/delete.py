"""A Rollout that is being deleted: its traffic goes home, its marks come off, and nothing of it blocks a namespace."""

from gatewright_analysis.kinds.rollout import AfterBack, Phase
from gatewright_analysis.names import FINALIZER
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.actions import Plan, SetFinalizer
from gatewright_operator.plan.back import rolling_back
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.marks import unmark_if_deleting
from gatewright_operator.plan.promote import promoting
from gatewright_operator.plan.recover import recover
from gatewright_operator.plan.restore import restoring
from gatewright_operator.plan.snapshot import Snapshot


def deleting(s: Snapshot) -> Plan:
    d = Draft(s)
    if FINALIZER not in s.rollout.metadata.finalizers:
        return Plan((), None)
    if s.namespace_terminating:
        return Plan((SetFinalizer(False),), None)
    match d.status.phase:
        case Phase.PROGRESSING | Phase.PAUSED | Phase.HELD if d.status.originals is not None:
            d.go_back(
                Reason.DELETED,
                f"The Rollout was deleted; {d.canary.revision} goes back to {d.stable.revision}.",
                then=AfterBack.IDLE,
            )
            return rolling_back(s, d)
        case None | Phase.IDLE | Phase.ROLLED_BACK if s.memory.open is not None:
            return recover(d)
        case Phase.ROLLING_BACK:
            return rolling_back(s)
        case Phase.PROMOTING:
            return promoting(s)
        case Phase.RESTORING:
            return restoring(s)
    unmark_if_deleting(d)
    d.do(SetFinalizer(False))
    return Plan(tuple(d.actions), None)
