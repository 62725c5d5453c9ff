"""Orders that stand in the ledger and count now: a Pause, and an Override that lets breaches be. Pure readings."""

from gatewright_analysis.kinds.contract import Stage
from gatewright_analysis.kinds.rollout import OverrideStatus, PausedStatus, Phase, RolloutStatus
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.ledger import GivenOverride, StandingPause
from gatewright_analysis.waiver import waiver_in_force
from gatewright_operator.plan.snapshot import Snapshot

_BEFORE_ITS_END = (Phase.PROGRESSING, Phase.PAUSED, Phase.HELD, Phase.PROMOTING)
_ON_ITS_WAY = (*_BEFORE_ITS_END, Phase.BAKING)


def pause_in_force(s: Snapshot, status: RolloutStatus) -> StandingPause | None:
    """The Pause that keeps the version on its way from going further. Status shows it; only the ledger makes it count."""
    pause, canary = s.memory.orders.pause, status.canary
    return pause if pause is not None and canary is not None and pause.revision == canary.revision else None


def override_given(s: Snapshot, status: RolloutStatus) -> GivenOverride | None:
    """The last Override of the version on its way, ended or not."""
    given, canary = s.memory.orders.override, status.canary
    return given if given is not None and canary is not None and given.revision == canary.revision else None


def ignoring_breaches(s: Snapshot, status: RolloutStatus) -> GivenOverride | None:
    """The Override in force under which breaches do not roll back."""
    given = override_given(s, status)
    if given is None or not given.ignore_breach:
        return None
    return given if waiver_in_force(given.at, given.expires_at, s.now) else None


def watched_run(s: Snapshot, status: RolloutStatus) -> GateRun | None:
    """The last gate's run of this release, which goes on looking for a breach while nothing moves: a canary that has
    traffic is never unwatched. None before the first gate has begun."""
    begun, canary = s.memory.open, status.canary
    if begun is None or canary is None:
        return None
    runs = [
        run
        for run in s.runs.values()
        if run.spec.stage is Stage.CANARY
        and run.spec.clock.weight_at >= begun.started_at
        and (run.spec.rollout_uid, run.spec.revision, run.spec.contract_digest)
        == (s.rollout.metadata.uid, canary.revision, canary.contract_digest)
    ]
    return max(runs, key=lambda run: (run.spec.attempt, int(run.spec.step)), default=None)


def paused_status(s: Snapshot, status: RolloutStatus) -> PausedStatus | None:
    """What status says of a Pause, or of a step that waits; None while nothing is paused."""
    if status.phase not in _BEFORE_ITS_END:
        return None
    pause, run = pause_in_force(s, status), watched_run(s, status)
    watch = "" if run is None else run.metadata.name
    if pause is not None:
        return PausedStatus(
            by=pause.by, reason=pause.why[:1024], since=pause.at, order=pause.order, run=watch
        )
    if status.phase is Phase.PAUSED:
        return PausedStatus(since=status.step_started_at or s.now, run=watch)
    return None


def override_status(s: Snapshot, status: RolloutStatus) -> OverrideStatus | None:
    """What status says of an Override, as long as the version is on its way."""
    given = override_given(s, status)
    if given is None or status.phase not in _ON_ITS_WAY:
        return None
    return OverrideStatus(
        by=given.by,
        reason=given.why[:1024],
        at=given.at,
        order=given.order,
        to=given.to,
        ignore_breach=given.ignore_breach,
        expires_at=given.expires_at,
    )
