"""The reducer. One `match` over the phase, one function per phase: the state diagram of docs/explanation/design.md, section 4.

Idle → Progressing(step) → [Paused | Held] → Promoting → Baking → Idle
from anywhere before Promoting: RollingBack → RolledBack | Idle (reverted) | Progressing(0) (superseded)
from Promoting and Baking: Restoring → RolledBack
"""

from gatewright_analysis.kinds.rollout import Phase
from gatewright_operator.plan.actions import Plan
from gatewright_operator.plan.adopt import adopting
from gatewright_operator.plan.back import rolling_back
from gatewright_operator.plan.bake import baking
from gatewright_operator.plan.delete import deleting
from gatewright_operator.plan.hold import held
from gatewright_operator.plan.progress import paused, progressing
from gatewright_operator.plan.promote import promoting
from gatewright_operator.plan.rest import idle, rolled_back
from gatewright_operator.plan.restore import restoring
from gatewright_operator.plan.snapshot import Snapshot


def plan(snapshot: Snapshot) -> Plan:
    """The next transition for one Rollout. Total: every snapshot has an answer, and doing it twice changes nothing."""
    if snapshot.rollout.metadata.deletion_timestamp is not None:
        return deleting(snapshot)
    match snapshot.rollout.status.phase:
        case None:
            return adopting(snapshot)
        case Phase.IDLE:
            return idle(snapshot)
        case Phase.PROGRESSING:
            return progressing(snapshot)
        case Phase.PAUSED:
            return paused(snapshot)
        case Phase.HELD:
            return held(snapshot)
        case Phase.PROMOTING:
            return promoting(snapshot)
        case Phase.BAKING:
            return baking(snapshot)
        case Phase.RESTORING:
            return restoring(snapshot)
        case Phase.ROLLING_BACK:
            return rolling_back(snapshot)
        case Phase.ROLLED_BACK:
            return rolled_back(snapshot)
