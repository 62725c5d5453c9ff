"""Conditions, as kstatus reads them: running and held = Reconciling; rolled back or unable = Stalled; stable as desired = Ready."""

from gatewright_analysis.kinds.base import Condition, format_time
from gatewright_analysis.kinds.rollout import OverrideStatus, Phase, RolloutStatus
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.actions import Emit, Plan
from gatewright_operator.plan.budget import attempts
from gatewright_operator.plan.hold_clock import resolved
from gatewright_operator.plan.refusals import decision_rules
from gatewright_operator.plan.snapshot import Snapshot
from gatewright_operator.plan.standing import override_status, paused_status

_OF_TRAFFIC = (Reason.FEASIBLE, Reason.TRAFFIC_TOO_LOW, Reason.RATE_UNKNOWN)
_UNDER_WAY = {
    Phase.PROGRESSING,
    Phase.PAUSED,
    Phase.HELD,
    Phase.PROMOTING,
    Phase.BAKING,
    Phase.RESTORING,
    Phase.ROLLING_BACK,
}
_REASONS = {
    Phase.IDLE: Reason.IDLE,
    Phase.PROGRESSING: Reason.GATE_RUNNING,
    Phase.PAUSED: Reason.PAUSED,
    Phase.HELD: Reason.HELD,
    Phase.PROMOTING: Reason.PROMOTING,
    Phase.BAKING: Reason.BAKING,
    Phase.RESTORING: Reason.RESTORING,
    Phase.ROLLING_BACK: Reason.ROLLING_BACK,
    Phase.ROLLED_BACK: Reason.ROLLED_BACK,
}


def finished(s: Snapshot, plan: Plan) -> RolloutStatus | None:
    """The status to write: the plan's, with conditions and what was observed. None when there is nothing to report."""
    status = plan.status
    if status is None:
        return None
    deployment = s.deployment
    carries = (
        deployment is not None and status.stable is not None and deployment.revision == status.stable.revision
    )
    stuck = plan.problem is not None or status.phase is Phase.ROLLED_BACK
    under_way = status.phase in _UNDER_WAY
    reason = plan.problem or (_REASONS[status.phase] if status.phase else Reason.WORKLOAD_NOT_READY)
    settled = carries and status.phase is Phase.IDLE and plan.problem is None
    wanted = [
        ("Ready", settled, reason, status.message),
        ("Reconciling", under_way and not stuck, reason, status.message),
        (
            "Stalled",
            (stuck and not under_way) or (stuck and plan.problem is not None),
            reason,
            status.message,
        ),
        ("Held", status.hold is not None, _hold_reason(status), _hold_message(status)),
        _contract(s),
        ("Guarded", s.guarded and deployment is not None and deployment.gated, *_guard(s)),
        ("WaiversUnavailable", bool(s.waivers_unavailable), *_waivers(s)),
        _feasible(s),
    ]
    override = override_status(s, status)
    if override is not None:
        wanted.append(("Overridden", True, Reason.OVERRIDDEN, _overridden(override)))
    before = {c.type: c for c in s.rollout.status.conditions}
    conditions = tuple(_condition(s, before.get(w[0]), *w) for w in wanted)
    observed = status.observed_workload_generation
    said = next((action.message for action in plan.actions if isinstance(action, Emit)), status.message)
    return status.model_copy(
        update={
            "conditions": conditions,
            "observed_generation": s.rollout.metadata.generation,
            "observed_workload_generation": deployment.generation if deployment else observed,
            "observed_revision": deployment.revision if deployment else status.observed_revision,
            "attempts": attempts(s),
            "escalation": resolved(s.rollout.status, status, said),
            "paused": paused_status(s, status),
            "override": override,
            "decisions": decision_rules(s),
            "guard": "Admission",
        }
    )


def _overridden(override: OverrideStatus) -> str:
    where = "promotes it" if override.to == "Promote" else f"sends it on to step {int(override.to) + 1}"
    let_be = f" Breaches do not roll back before {format_time(override.expires_at)}."
    return (
        f"An Override of {override.by} {where}: {override.reason}{let_be if override.ignore_breach else ''}"
    )


def _hold_reason(status: RolloutStatus) -> Reason:
    """Escalated outweighs why it is held, which its message says too."""
    if status.hold is None:
        return Reason.NOT_HELD
    return Reason.ESCALATED if status.hold.escalated_at is not None else Reason(status.hold.reason)


def _hold_message(status: RolloutStatus) -> str:
    hold = status.hold
    if hold is None:
        return ""
    parts = [f"Escalated at {format_time(hold.escalated_at)}."] if hold.escalated_at is not None else []
    if hold.clock_stopped_since is not None:
        parts.append(
            f"The wait does not count since {format_time(hold.clock_stopped_since)}: {hold.clock_stopped_by}."
        )
    return " ".join([*parts, hold.message])


def _contract(s: Snapshot) -> tuple[str, bool, Reason, str]:
    if s.contract_problem is not None:
        return ("ContractResolved", False, s.contract_problem.reason, s.contract_problem.message)
    if s.contract is None:
        return ("ContractResolved", False, Reason.CONTRACT_NOT_FOUND, "")
    return ("ContractResolved", True, Reason.RESOLVED, f"{s.contract.name}@{s.contract.generation}")


def _guard(s: Snapshot) -> tuple[Reason, str]:
    if s.guarded:
        return Reason.GUARDED, "New templates are held by the API server (guard Admission)."
    gap = s.guard_gap or "the admission policies are missing or altered"
    return Reason.GUARD_MISSING, f"New templates are not held for certain: {gap}. Install the chart again."


def _waivers(s: Snapshot) -> tuple[Reason, str]:
    if not s.waivers_unavailable:
        return (
            Reason.WAIVERS_AVAILABLE,
            "The API server proves who decides: the policies stand as the chart ships them.",
        )
    return (
        Reason.WAIVERS_UNAVAILABLE,
        f"Approvals and Overrides are refused: {s.waivers_unavailable}. Install the chart again.",
    )


def _feasible(s: Snapshot) -> tuple[str, bool | None, Reason, str]:
    """What stands against a start, else what the traffic says; None is Unknown."""
    if s.findings:
        return ("Feasible", False, s.findings[0].reason, s.findings[0].message)
    if s.forecast is not None:
        status = {"True": True, "False": False, "Unknown": None}[s.forecast.status]
        return ("Feasible", status, s.forecast.reason, s.forecast.message)
    before = next((c for c in s.rollout.status.conditions if c.type == "Feasible"), None)
    if before is not None and before.reason in _OF_TRAFFIC:
        # Asked before a restart, or before the contract changed: it stands until it is asked again.
        status = {"True": True, "False": False}.get(before.status)
        return ("Feasible", status, Reason(before.reason), before.message)
    return ("Feasible", True, Reason.FEASIBLE, "")


def _condition(
    s: Snapshot, before: Condition | None, kind: str, true: bool | None, reason: Reason, message: str
) -> Condition:
    status = "Unknown" if true is None else "True" if true else "False"
    unchanged = before is not None and before.status == status
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message[:1024],
        last_transition_time=before.last_transition_time if unchanged and before else s.now,
        observed_generation=s.rollout.metadata.generation,
    )
