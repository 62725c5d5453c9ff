"""A step's weight: the canary grown and ready first, then its share of the traffic."""

from gatewright_analysis.kinds.base import format_duration
from gatewright_analysis.kinds.contract import OnBreach
from gatewright_analysis.kinds.rollout import AfterBack, WeightStatus
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.actions import CreateCanary, Plan, ScaleCanary, SetRoute
from gatewright_operator.plan.back import rolling_back
from gatewright_operator.plan.breaches import let_be
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.holding import hold_without_verdict
from gatewright_operator.workload import canary_size, canary_size_by_ratio


def set_weight(d: Draft, weight: int) -> Plan | None:
    """Grow the canary, wait until it is ready, write the weight, wait until it is accepted; None when it is in force."""
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
    return None


def is_written(d: Draft, weight: int) -> bool:
    """This step's weight was sent out already: what is left is to wait for it, and no weight rises by that."""
    s = d.s
    if s.canary is None or s.deployment is None or not d.known(d.entry("WeightSet")):
        return False
    if d.spec.traffic.gateway_api is None:
        return s.canary.replicas >= _pods_for(d, weight)
    return s.route is not None and s.route.weights_for(weight) == (
        s.route.stable_weight,
        s.route.canary_weight,
    )


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
        message = (
            f"Canary containers fail again and again before any traffic: {', '.join(s.pods.failing[:3])}."
        )
        if not let_be(d, "pods", Reason.POD_FAILURE, message):
            d.go_back(Reason.POD_FAILURE, message, then=AfterBack.ROLLED_BACK)
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
