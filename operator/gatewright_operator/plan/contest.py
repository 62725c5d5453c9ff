"""Another writer changed weight or pin. The canary's weight may always go down to what is wanted or lower, never up."""

from gatewright_analysis.kinds.rollout import Phase, WeightStatus
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.actions import Plan, SetRoute, SetSelector
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.holding import hold_without_verdict
from gatewright_operator.traffic.services import canary_selector, pinned_selector


def contested(d: Draft) -> Plan | None:
    """HOLD(RouteContested) when route or pins are not as we left them; None when they are."""
    s, originals = d.s, d.status.originals
    if d.spec.traffic.gateway_api is None or originals is None or s.route is None:
        return None
    pins = (
        ("stable", s.stable_service, pinned_selector(originals.stable_selector, d.stable.pod_template_hash)),
        ("canary", s.canary_service, canary_selector(s.rollout.metadata.name, d.canary.revision)),
    )
    lost = [
        (which, view, wanted) for which, view, wanted in pins if view is not None and view.selector != wanted
    ]
    percent, allowed = s.route.canary_percent, _allowed(d)
    gone = s.canary is None and d.status.weight.desired > 0
    if not lost and not gone and percent in allowed and not s.route.mixed:
        return None
    mark = d.mark("CONTESTED")
    # Where the rules differ, only 0 is a step up for none of them.
    desired = 0 if lost or gone or s.route.mixed else min(d.status.weight.desired, percent)
    d.decide(mark)
    if percent > desired or s.route.mixed or (s.route.canary_weight is None and s.route.selected_rules):
        d.do(SetRoute(*s.route.weights_for(desired), mark))
    for which, _, wanted in lost:
        d.do(SetSelector("stable" if which == "stable" else "canary", wanted, mark))
    d.set(weight=WeightStatus(desired=desired, actual=desired, since=d.now))
    what = f"the selector of the {lost[0][0]} Service" if lost else f"the canary's weight, to {percent}"
    writer = lost[0][1].last_writer if lost else s.route.last_writer
    if d.status.phase is Phase.HELD:
        return d.done()
    found = "Somebody deleted the canary" if gone else f"{writer} changed {what}"
    return hold_without_verdict(
        d,
        Reason.ROUTE_CONTESTED,
        f"{found}. The weight is {desired} now; make that writer leave it alone, then retry.",
    )


def _allowed(d: Draft) -> set[int]:
    """Weights that are ours: the one in force, and one whose entry stands in the ledger and is being written."""
    written = {
        step.set_weight
        for index, step in enumerate(d.spec.steps)
        if step.set_weight is not None
        and index >= d.status.current_step
        and d.known(d.entry("WeightSet", step=str(index)))
    }
    return {d.status.weight.desired, *written}
