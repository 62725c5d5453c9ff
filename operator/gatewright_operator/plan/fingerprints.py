"""The world that an attempt is bound to: pinned when its first gate begins, the same for all its later gates. Pure."""

from collections.abc import Callable, Mapping

from gatewright_analysis.kinds.base import format_duration
from gatewright_analysis.kinds.rollout import RolloutStatus
from gatewright_analysis.kinds.run import FingerprintValue, GateRun
from gatewright_operator.plan.actions import Plan
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.snapshot import Problem

RETRY_SECONDS = 5.0
"""Until a source that could not be read is asked again."""


def pins_of(
    uid: str, status: RolloutStatus, runs: Mapping[str, GateRun]
) -> tuple[FingerprintValue, ...] | None:
    """What the present attempt is bound to, as its first run says; None while it has begun no gate.

    `uid` is the Rollout's, `runs` are those of the revision at hand.
    """
    canary = status.canary
    if canary is None:
        return None
    wanted = (uid, canary.revision, status.attempt, canary.contract_digest)
    mine = (
        r.spec
        for r in runs.values()
        if (r.spec.rollout_uid, r.spec.revision, r.spec.attempt, r.spec.contract_digest) == wanted
    )
    first = min(mine, key=lambda spec: spec.clock.weight_at, default=None)
    return None if first is None else first.fingerprints


def pins(d: Draft) -> tuple[FingerprintValue, ...]:
    """What a gate that begins now is bound to: the attempt's own values, or those read for its first gate."""
    known = pins_of(d.s.rollout.metadata.uid, d.status, d.s.runs)
    return d.s.fingerprints.values if known is None else known


def unpinned(d: Draft, *, late: Callable[[Problem], Plan]) -> Plan | None:
    """Waits, where the attempt's first gate cannot begin because its world is not known; None: it can begin.

    Beyond `progressDeadline` the wait ends with what `late` says.
    """
    contract, now = d.s.pinned, d.s.fingerprints
    assert contract is not None
    wanted = {one.name for one in contract.spec.world.fingerprints}
    if not wanted or pins_of(d.s.rollout.metadata.uid, d.status, d.s.runs) is not None:
        return None
    if wanted == {one.name for one in now.values}:
        return None
    if now.problem is None:
        # Not looked up yet: this picture was taken for the step before.
        return d.again() if d.status != d.s.rollout.status else d.done(RETRY_SECONDS)
    if d.status.progress_at is not None and d.now - d.status.progress_at > d.spec.progress_deadline:
        return late(now.problem)
    d.problem = now.problem.reason
    name = d.step_name().capitalize()
    return d.wait(
        f"{name}: the gate has not begun yet, because {now.problem.message}",
        seconds=RETRY_SECONDS,
        since=d.status.progress_at,
    )


def never_known(d: Draft, problem: Problem) -> str:
    """The sentence for a wait that has lasted too long."""
    waited = format_duration(d.spec.progress_deadline)
    return (
        f"The gate could not begin for {waited}, because {problem.message} Mend that, then retry; or abort."
    )
