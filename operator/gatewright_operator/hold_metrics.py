"""What a scrape tells of HOLDs: how long they wait, how often they are escalated, how soon people decide."""

from datetime import UTC, datetime

from gatewright_analysis.kinds.rollout import RolloutStatus
from gatewright_operator.metrics import Metrics
from gatewright_operator.plan.actions import AppendLedger, Entry, Plan
from gatewright_operator.plan.snapshot import Snapshot


def measure_hold(metrics: Metrics, snapshot: Snapshot, plan: Plan, status: RolloutStatus) -> None:
    """After a plan was carried out: gauges by the status that was written, counts by the entries that were."""
    names = {
        "namespace": snapshot.rollout.metadata.namespace,
        "rollout": snapshot.rollout.metadata.name,
    }
    if status.hold is None:
        forget_hold(metrics, **names)
    else:
        metrics.held_since.set(status.hold.since.timestamp(), **names)
        if status.hold.clock_stopped_since is None:
            metrics.hold_clock_stopped.remove(**names)
        else:
            metrics.hold_clock_stopped.set(1, **names)
    before = snapshot.rollout.status.hold
    entries = [e for action in plan.actions if isinstance(action, AppendLedger) for e in action.entries]
    if before is None:
        return
    for entry in entries:
        if (decision := _decision(entry)) is not None:
            spent = (snapshot.now - before.since).total_seconds()
            metrics.time_to_human_decision.observe(max(0.0, spent), decision=decision)
    if before.escalated_at is None and any(entry.kind == "Escalated" for entry in entries):
        ordered = any(_decision(entry) == "Escalate" for entry in entries)
        metrics.escalations.inc(by="order" if ordered else "clock")


def forget_hold(metrics: Metrics, namespace: str, rollout: str) -> None:
    """It is held no more."""
    metrics.held_since.remove(namespace=namespace, rollout=rollout)
    metrics.hold_clock_stopped.remove(namespace=namespace, rollout=rollout)


def oldest_hold_seconds(metrics: Metrics) -> float:
    """Age of the HOLD that has waited longest; 0 when nothing is held."""
    since = min(metrics.held_since.values(), default=None)
    return 0.0 if since is None else max(0.0, datetime.now(UTC).timestamp() - since)


def _decision(entry: Entry) -> str | None:
    """What a person decided, where the entry is one's review or order."""
    if entry.kind not in ("Review", "Order"):
        return None
    spec = entry.body["spec"]
    return str(spec.get("decision") or spec["order"])
