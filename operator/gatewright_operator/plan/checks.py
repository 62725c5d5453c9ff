"""What stands against adopting a workload or starting a rollout: small named predicates, each a reason and what to do."""

from collections.abc import Callable

from gatewright_analysis.names import GATED_LABEL, ROLLOUT_LABEL
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.snapshot import Problem, Snapshot
from gatewright_operator.traffic.services import selects
from gatewright_operator.workload import GENERATE_NAME_LENGTH, canary_name


def _workload_kind(s: Snapshot) -> Problem | None:
    ref = s.rollout.spec.workload_ref
    if ref.api_version.startswith("argoproj.io/"):
        return Problem(
            Reason.WORKLOAD_UNSUPPORTED,
            "An Argo Rollout is not gated yet: name an apps/v1 Deployment in workloadRef, or keep this workload with Argo.",
        )
    if (ref.api_version, ref.kind) != ("apps/v1", "Deployment"):
        return Problem(
            Reason.WORKLOAD_UNSUPPORTED,
            f"workloadRef names {ref.api_version} {ref.kind}; only apps/v1 Deployment can be gated.",
        )
    return None


def _claimed(s: Snapshot) -> Problem | None:
    if not s.rivals:
        return None
    return Problem(
        Reason.WORKLOAD_CLAIMED,
        f"Rollout {s.rivals[0]} is older and gates Deployment {s.rollout.spec.workload_ref.name} already; delete one of the two.",
    )


def _contract(s: Snapshot) -> Problem | None:
    return s.contract_problem


def _workload_exists(s: Snapshot) -> Problem | None:
    if s.deployment is not None and not s.deployment.deleting:
        return None
    return Problem(
        Reason.WORKLOAD_NOT_FOUND,
        f"Deployment {s.rollout.spec.workload_ref.name} does not exist in {s.rollout.metadata.namespace}; create it or correct workloadRef.",
    )


def _strategy(s: Snapshot) -> Problem | None:
    if s.deployment is None or s.deployment.strategy == "RollingUpdate":
        return None
    return Problem(
        Reason.RECREATE_STRATEGY,
        "The Deployment's strategy is Recreate: a promotion would take all pods down at once. Use RollingUpdate.",
    )


def _history(s: Snapshot) -> Problem | None:
    if s.deployment is None or s.deployment.history_limit > 0:
        return None
    return Problem(
        Reason.NO_REVISION_HISTORY,
        "revisionHistoryLimit is 0: nothing would be left to go back to. Set it to 1 or more.",
    )


def _name_length(s: Snapshot) -> Problem | None:
    deployment = s.rollout.spec.workload_ref.name
    if len(canary_name(deployment)) < GENERATE_NAME_LENGTH - 1:
        return None
    return Problem(
        Reason.NAME_TOO_LONG,
        f"The name {deployment} is too long: the API server cuts pod names, and canary and stable could not be told apart by them.",
    )


def _foreign_canary(s: Snapshot) -> Problem | None:
    if s.canary is None or s.canary.labels.get(ROLLOUT_LABEL) == s.rollout.metadata.name:
        return None
    return Problem(
        Reason.FOREIGN_CANARY,
        f"Deployment {s.canary.name} exists and is not this Rollout's (it lacks the label {ROLLOUT_LABEL}); rename or delete it.",
    )


def _route(s: Snapshot) -> Problem | None:
    gateway = s.rollout.spec.traffic.gateway_api
    if gateway is None:
        return None
    if s.route is None:
        return Problem(
            Reason.ROUTE_NOT_FOUND,
            f"HTTPRoute {gateway.http_route} does not exist in {s.rollout.metadata.namespace}; create it or correct traffic.gatewayAPI.",
        )
    if s.route.selected_rules == 0:
        return Problem(
            Reason.ROUTE_UNSUITABLE,
            f"No rule of HTTPRoute {gateway.http_route} has both backends {gateway.stable_service} and {gateway.canary_service}; add the canary backend with weight 0.",
        )
    if s.route.mixed:
        return Problem(
            Reason.ROUTE_UNSUITABLE,
            f"The rules of HTTPRoute {gateway.http_route} give the two backends different weights; make them equal.",
        )
    return None


def _route_at_rest(s: Snapshot) -> Problem | None:
    gateway, in_course = s.rollout.spec.traffic.gateway_api, s.memory.open is not None
    if gateway is None or s.route is None or in_course:
        return None
    if s.route.canary_weight != 0:
        return Problem(
            Reason.CANARY_WEIGHT_AT_REST,
            f"Backend {gateway.canary_service} of HTTPRoute {gateway.http_route} must rest at an explicit weight: 0 (an absent weight means 1).",
        )
    if s.route.third_backend and (s.route.stable_weight or 0) < 100:
        return Problem(
            Reason.ROUTE_UNSUITABLE,
            f"A third backend stands beside the two in HTTPRoute {gateway.http_route}: give {gateway.stable_service} a weight of 100 or more (and the third its share of that), so that percentages can be kept.",
        )
    return None


def _services(s: Snapshot) -> Problem | None:
    gateway = s.rollout.spec.traffic.gateway_api
    if gateway is None:
        return None
    for name, view in (
        (gateway.stable_service, s.stable_service),
        (gateway.canary_service, s.canary_service),
    ):
        if view is None:
            return Problem(
                Reason.SERVICE_NOT_FOUND,
                f"Service {name} does not exist in {s.rollout.metadata.namespace}; create it or correct traffic.gatewayAPI.",
            )
    return None


def _shared_service(s: Snapshot) -> Problem | None:
    gateway = s.rollout.spec.traffic.gateway_api
    if gateway is None or s.deployment is None:
        return None
    labels = s.deployment.template["metadata"].get("labels") or {}
    ours = {gateway.stable_service, gateway.canary_service}
    shared = next((v.name for v in s.services if v.name not in ours and selects(v.selector, labels)), None)
    if shared is None:
        return None
    return Problem(
        Reason.SHARED_SERVICE,
        f"Service {shared} selects the pods of {s.deployment.name} too and would send requests to the canary outside its weight; narrow its selector.",
    )


def _finding(s: Snapshot) -> Problem | None:
    return s.findings[0] if s.findings else None


def _ledger(s: Snapshot) -> Problem | None:
    if not s.ledger_broken:
        return None
    return Problem(
        Reason.LEDGER_BROKEN,
        f"The ledger does not verify: {s.ledger_broken}. Nothing is promoted until its ConfigMaps are put back as they were.",
    )


_CHECKS: tuple[Callable[[Snapshot], Problem | None], ...] = (
    _workload_kind,
    _claimed,
    _workload_exists,
    _strategy,
    _history,
    _name_length,
    _foreign_canary,
    _route,
    _route_at_rest,
    _services,
    _shared_service,
    _contract,
    _finding,
    _ledger,
)


def first_problem(s: Snapshot) -> Problem | None:
    """The first thing that stands against adopting or starting, None when nothing does."""
    return next((problem for check in _CHECKS if (problem := check(s)) is not None), None)


def user_pause(s: Snapshot) -> Problem | None:
    """A Deployment that was paused before it was gated: somebody's wish, which a rollout would have to break."""
    deployment = s.deployment
    if deployment is None or not deployment.paused or deployment.labels.get(GATED_LABEL) == "true":
        return None
    return Problem(
        Reason.WORKLOAD_PAUSED,
        f"Deployment {deployment.name} is paused; resume it (kubectl rollout resume) so that it can be adopted.",
    )
