"""Phases Progressing and Paused: the canary's weights and gates, one step after the other."""

from datetime import datetime, timedelta

from gatewright_analysis.kinds.base import format_duration
from gatewright_analysis.kinds.contract import OnBreach
from gatewright_analysis.kinds.review import OrderKind
from gatewright_analysis.kinds.rollout import AfterBack, Gate, Pause, Phase, WeightStatus
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.reasons import Reason
from gatewright_analysis.verdict import Decision, Verdict
from gatewright_operator.plan.actions import CreateCanary, CreateRun, Entry, Plan, ScaleCanary, SetRoute
from gatewright_operator.plan.approvals import lapsed
from gatewright_operator.plan.back import rolling_back
from gatewright_operator.plan.contest import contested
from gatewright_operator.plan.draft import Draft, summary
from gatewright_operator.plan.duties import unseparated
from gatewright_operator.plan.fingerprints import never_known, unpinned
from gatewright_operator.plan.holding import hold, hold_for_lapsed, hold_without_verdict
from gatewright_operator.plan.people import hear
from gatewright_operator.plan.promote import promote
from gatewright_operator.plan.reach import approved_just_now
from gatewright_operator.plan.runspec import bound, gate_spec, run_name
from gatewright_operator.plan.snapshot import Snapshot
from gatewright_operator.plan.widening import late_breach, late_breach_entry
from gatewright_operator.workload import canary_size, canary_size_by_ratio


def progressing(s: Snapshot) -> Plan:
    d = Draft(s)
    return interrupted(d) or unseparated(d) or _step(d)


def paused(s: Snapshot) -> Plan:
    d = Draft(s)
    if (interruption := interrupted(d)) is not None:
        return interruption
    pause = d.spec.steps[d.status.current_step].pause if d.status.current_step < len(d.spec.steps) else None
    if pause is None:
        return _steps_changed(d)
    left = _pause_left(d, pause)
    if left is None or left > 0:
        return d.done(left)
    d.set(phase=Phase.PROGRESSING)
    return next_step(d)


def interrupted(d: Draft) -> Plan | None:
    """What ends or turns a rollout before its own course does; None when nothing does."""
    s, deployment = d.s, d.s.deployment
    canary, stable = d.canary.revision, d.stable.revision
    begun = s.memory.open
    if (begun is None or begun.revision != canary) and not s.ledger_broken:
        # The ledger is read anew after a conflict, and what is watched may lag behind it.
        return d.wait("The ledger is ahead of what is seen here; looking again.", seconds=2.0, since=d.now)
    if (decided := _decided(d)) is not None:
        return decided
    if deployment is None or deployment.deleting:
        d.go_back(
            Reason.WORKLOAD_NOT_FOUND,
            f"Deployment {d.spec.workload_ref.name} is gone; clearing up.",
            then=AfterBack.IDLE,
        )
    elif deployment.revision == stable:
        d.go_back(
            Reason.REVERTED,
            f"The template is that of stable {stable} again; {canary} goes.",
            then=AfterBack.IDLE,
        )
    elif deployment.revision != canary:
        d.go_back(
            Reason.SUPERSEDED,
            f"{deployment.revision} supersedes {canary}; its approvals and evidence are void.",
            then=AfterBack.START,
        )
    elif (breach := _breach(d)) is not None:
        d.set(verdict=summary(breach))
        d.record(_verdict_entry(d, breach, _breach_kind(d)), required=False)
        d.go_back(Reason(breach.reason), breach.message, then=AfterBack.ROLLED_BACK, cause=breach.run_id)
    elif (late := late_breach(d)) is not None:
        d.set(verdict=summary(late))
        d.record(late_breach_entry(d, late), required=False)
        d.go_back(Reason(late.reason), late.message, then=AfterBack.ROLLED_BACK)
    elif (heard := hear_abort(d)) is not None:
        return heard
    elif not deployment.paused and not deployment.in_flight:
        return promote(
            d, Reason.OVERRIDDEN, f"Somebody with the verb override un-paused {canary}; it is promoted."
        )
    else:
        return _unsafe(d) or contested(d)
    return rolling_back(s, d)


def _decided(d: Draft) -> Plan | None:
    """A decision that stands in the ledger and was cut short before status could say so: go on with it."""
    begun = d.s.memory.open
    if begun is None or begun.revision != d.canary.revision:
        return None
    if (verdict := d.s.memory.verdict) is not None and verdict.change.revision == begun.revision:
        d.set(verdict=summary(verdict))
    if begun.promoted:
        return promote(
            d, Reason.PROMOTED, f"All gates are passed or waived; {d.canary.revision} is promoted."
        )
    if begun.back is not None:
        d.go_back(Reason(begun.back_reason), begun.back_message, then=begun.back, cause=begun.back_cause)
        return rolling_back(d.s, d)
    return None


def _unsafe(d: Draft) -> Plan | None:
    """What the rollout rests on is gone: it holds where it is until that is mended."""
    if d.status.phase is Phase.HELD:
        return None
    if d.s.ledger_broken or d.s.pinned is None:
        why = d.s.ledger_broken or "the contract that this attempt is judged by is not in it"
        return hold_without_verdict(d, Reason.LEDGER_BROKEN, f"The ledger cannot be relied on: {why}.")
    if not d.s.guarded:
        return hold_without_verdict(
            d,
            Reason.GUARD_MISSING,
            "The admission policies are missing or altered; install the chart again, then retry.",
        )
    if d.s.fingerprints.drifted and not _at_a_gate(d):
        return hold_without_verdict(d, Reason.WORLD_DRIFTED, d.s.fingerprints.drifted)
    return None


def _at_a_gate(d: Draft) -> bool:
    """A gate has begun here, and its own verdict says that the world drifted, with the evidence."""
    return run_name(d) in d.s.runs


def hear_abort(d: Draft) -> Plan | None:
    """An Abort order in force: traffic goes back. Held rollouts listen to reviews as well and do not use this."""
    if d.status.phase is Phase.HELD:
        return None
    heard = hear(d, orders=(OrderKind.ABORT,), revision=d.canary.revision)
    if heard is None or heard.order is None:
        return None
    d.record(heard.entry(d), required=False)
    message = f"{heard.person} aborted {d.canary.revision}: {heard.why}"
    heard.accept(d, Reason.ABORTED, message)
    d.go_back(Reason.ABORTED, message, then=AfterBack.ROLLED_BACK, cause=heard.order.metadata.name)
    return rolling_back(d.s, d)


def _breach(d: Draft) -> Verdict | None:
    """What sends traffic back, whatever else stands in the way: a breach during a HOLD, or the gate's own verdict."""
    run = d.s.runs.get(run_name(d))
    if run is None or not bound(d, run):
        return None
    verdict = run.status.breach or run.status.verdict
    return verdict if verdict is not None and verdict.decision is Decision.ROLLBACK else None


def _breach_kind(d: Draft) -> str:
    """Its kind in the ledger: a verdict that came after the run's HOLD is a Breach."""
    return "Verdict" if d.s.runs[run_name(d)].status.breach is None else "Breach"


def _verdict_entry(d: Draft, verdict: Verdict, kind: str = "Verdict") -> Entry:
    return d.entry(kind, cause=verdict.run_id, body={"verdict": verdict.wire()})


def _steps_changed(d: Draft) -> Plan:
    return hold_without_verdict(
        d,
        Reason.INVALID_SPEC,
        "The Rollout's steps were changed in the middle of a rollout and the present step is no longer there. Retry to begin again, or abort.",
    )


def _step(d: Draft) -> Plan:
    if d.status.current_step >= len(d.spec.steps):
        return _steps_changed(d)
    step = d.spec.steps[d.status.current_step]
    if step.set_weight is not None:
        return set_weight(d, step.set_weight)
    if step.gate is not None:
        return _gate(d, step.gate)
    assert step.pause is not None
    return _enter_pause(d, step.pause)


def next_step(d: Draft, since: datetime | None = None) -> Plan:
    """The step after this one; after the last, promotion. `since`: when the verdict that leads here was given (default now)."""
    index = d.status.current_step + 1
    if index >= len(d.spec.steps):
        return promote(
            d, Reason.PROMOTED, f"All gates are passed or waived; {d.canary.revision} is promoted."
        )
    d.set(current_step=index, step_started_at=since or d.now, progress_at=since or d.now, run="")
    return _step(d)


def _enter_pause(d: Draft, pause: Pause) -> Plan:
    d.set(phase=Phase.PAUSED)
    until = "until a Resume" if pause.duration is None else f"for {format_duration(pause.duration)}"
    d.say(
        Reason.PAUSED,
        f"{d.step_name().capitalize()}: pausing at weight {d.status.weight.actual} {until}.",
    )
    return d.done(_pause_left(d, pause))


def _pause_left(d: Draft, pause: Pause) -> float | None:
    """Seconds; None: until somebody orders Resume."""
    if pause.duration is None:
        return None
    since = d.status.step_started_at or d.now
    return max(0.0, (since + pause.duration - d.now).total_seconds())


def set_weight(d: Draft, weight: int) -> Plan:
    """Grow the canary, wait until it is ready, write the weight, wait until it is accepted; then the gate begins."""
    s = d.s
    assert s.deployment is not None
    gateway = d.spec.traffic.gateway_api is not None
    size = _pods_for(d, weight)
    if gateway and (s.route is None or not s.route.selected_rules):
        return hold_without_verdict(
            d,
            Reason.ROUTE_UNSUITABLE,
            "The HTTPRoute is gone, or none of its rules has both backends any more; put it back, then retry.",
        )
    if s.canary is None:
        if s.canary_manifest is not None:
            d.do(CreateCanary(s.canary_manifest))
        return d.wait("Creating the canary.", seconds=2.0, since=d.status.progress_at)
    if (stopped := _canary_in_trouble(d)) is not None:
        return stopped
    weight_set = d.entry("WeightSet", body={"weight": weight, "replicas": size})
    mark = d.mark(f"WEIGHT-{weight}")
    if not gateway:
        d.record(weight_set)
        d.decide(mark)
    if s.canary.replicas < size and s.canary.observed_generation >= s.canary.generation:
        d.do(ScaleCanary(size))
    if s.canary.replicas < size or s.pods.ready < size or s.pods.total > s.canary.replicas:
        return d.wait(
            f"{d.step_name().capitalize()}: waiting for {size} ready canary pods before weight {weight}.",
            seconds=5.0,
            since=d.status.progress_at,
        )
    if gateway:
        assert s.route is not None
        d.record(weight_set)
        d.decide(mark)
        if (
            s.route.weights_for(weight) != (s.route.stable_weight, s.route.canary_weight)
            or s.route.decision != mark
        ):
            d.do(SetRoute(*s.route.weights_for(weight), mark))
            return d.wait(f"Setting weight {weight}.", seconds=1.0, since=d.now)
        if not s.route.accepted:
            return d.wait(
                f"Weight {weight} is written; {s.route.refusal}.", seconds=5.0, since=s.route.written_at
            )
        actual = s.route.canary_percent
    else:
        actual = round(100 * size / (s.deployment.replicas + size))
    d.set(weight=WeightStatus(desired=weight, actual=actual, since=d.now))
    return next_step(d)


def _pods_for(d: Draft, weight: int) -> int:
    """How many canary pods a weight needs; none at weight 0."""
    assert d.s.deployment is not None
    size = canary_size if d.spec.traffic.gateway_api is not None else canary_size_by_ratio
    return size(weight, max(1, d.s.deployment.replicas))


def _canary_in_trouble(d: Draft) -> Plan | None:
    """A canary that can't come up: containers that fail again and again are a breach where a `pods` check says so."""
    s = d.s
    late = d.status.progress_at is not None and d.now - d.status.progress_at > d.spec.progress_deadline
    if s.pods.failing and (late or _pods_check_rolls_back(d)):
        d.go_back(
            Reason.POD_FAILURE,
            f"Canary containers fail again and again before any traffic: {', '.join(s.pods.failing[:3])}.",
            then=AfterBack.ROLLED_BACK,
        )
        return rolling_back(s, d)
    if late:
        # An unready pod uses up a PodDisruptionBudget; those that have traffic stay.
        in_force = max(d.status.weight.desired, s.route.canary_percent if s.route is not None else 0)
        keep = _pods_for(d, in_force)
        if s.canary is not None and s.canary.replicas > keep:
            d.do(ScaleCanary(keep))
        refusal = s.route.refusal if s.route is not None else ""
        why = s.pods.trouble or refusal or "its pods are not ready"
        return hold_without_verdict(
            d,
            Reason.PROGRESS_DEADLINE,
            f"The canary made no progress for {format_duration(d.spec.progress_deadline)}: {why}. It is scaled to {keep}; retry when that is mended.",
        )
    return None


def _pods_check_rolls_back(d: Draft) -> bool:
    contract = d.s.pinned
    return contract is not None and any(
        e.pods is not None and contract.spec.on_breach(c) is OnBreach.ROLLBACK
        for c in contract.spec.checks
        for e in c.evidence
    )


def _gate(d: Draft, gate: Gate) -> Plan:
    name = run_name(d)
    run = d.s.runs.get(name)
    if run is None and approved_just_now(d):
        return d.again()
    if run is None:
        waits = unpinned(
            d, late=lambda problem: hold_without_verdict(d, problem.reason, never_known(d, problem))
        )
        if waits is not None:
            return waits
        # What the run takes from the ledger must stand there before it begins.
        d.record()
        d.do(CreateRun(name, gate_spec(d, gate)))
        d.set(run=name)
        span = (
            f"{format_duration(gate.duration)}"
            if gate.deadline == gate.duration
            else f"{format_duration(gate.duration)} to {format_duration(gate.deadline)}"
        )
        return d.wait(f"{d.step_name().capitalize()}: gate at weight {d.status.weight.actual}, {span}.")
    if not bound(d, run):
        return d.wait(f"GateRun {name} belongs to another rollout; waiting until it is deleted.", seconds=5.0)
    verdict = run.status.verdict
    if verdict is None:
        return d.done(_gate_patience(run))
    d.set(verdict=summary(verdict))
    entry = _verdict_entry(d, verdict)
    match verdict.decision:
        case Decision.PROMOTE if not d.known(entry) and (ended := lapsed(d, name)):
            return hold_for_lapsed(d, run, verdict, ended)
        case Decision.PROMOTE if d.s.fingerprints.drifted:
            d.record(entry)
            return hold_without_verdict(d, Reason.WORLD_DRIFTED, d.s.fingerprints.drifted)
        case Decision.PROMOTE:
            passed = f"{d.canary.revision} passed {d.step_name()} at weight {d.status.weight.actual}: {verdict.message}"
            if d.status.current_step + 1 == len(d.spec.steps):
                d.record(entry)
                return promote(d, Reason.PROMOTED, f"{passed} It is promoted.")
            if not d.known(entry):
                d.say(Reason.STEP_PROMOTED, passed)
            d.record_with_next(entry)
            return next_step(d, since=verdict.finished_at)
        case Decision.HOLD:
            d.record(entry)
            return hold(d, run, verdict)
        case Decision.ROLLBACK:
            d.record(entry, required=False)
            d.go_back(Reason(verdict.reason), verdict.message, then=AfterBack.ROLLED_BACK, cause=name)
            return rolling_back(d.s, d)


def _gate_patience(run: GateRun) -> float:
    """The verdict arrives as an event; this is only how long to wait for one that was missed."""
    return max(30.0, (run.spec.clock.interval + timedelta(seconds=5)).total_seconds())
