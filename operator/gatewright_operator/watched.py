"""What the operator watches, and which of it: one list for the watches, the re-lists and the cache."""

from dataclasses import dataclass

from gatewright_analysis.names import GATED_LABEL, ROLLOUT_LABEL
from gatewright_operator.resources import (
    DEPLOYMENTS,
    GATE_CONTRACTS,
    GATE_ORDERS,
    GATE_REVIEWS,
    GATE_RUNS,
    HTTPROUTES,
    METRIC_SOURCES,
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    NOTIFICATION_SINKS,
    PODS,
    ROLLOUTS,
    SERVICES,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
    Resource,
)


@dataclass(frozen=True)
class Watched:
    """A kind, the label selector that the server filters by, and whether a cluster may lack it."""

    resource: Resource
    labels: str = ""
    optional: bool = False


_OF_THE_CHART = "app.kubernetes.io/name=gatewright"

WATCHED = (
    # Rollouts first: what comes after is matched against what they name.
    Watched(ROLLOUTS),
    Watched(GATE_CONTRACTS),
    Watched(METRIC_SOURCES),
    # A cluster whose kinds are those of an older chart tells nobody, and judges all the same.
    Watched(NOTIFICATION_SINKS, optional=True),
    Watched(GATE_RUNS),
    Watched(GATE_REVIEWS),
    Watched(GATE_ORDERS),
    Watched(DEPLOYMENTS, labels=f"{GATED_LABEL} in (true,canary)"),
    Watched(PODS, labels=ROLLOUT_LABEL),
    Watched(SERVICES),
    Watched(HTTPROUTES, optional=True),
    Watched(MUTATING_POLICIES, labels=_OF_THE_CHART, optional=True),
    Watched(MUTATING_BINDINGS, labels=_OF_THE_CHART, optional=True),
    Watched(VALIDATING_POLICIES, labels=_OF_THE_CHART),
    Watched(VALIDATING_BINDINGS, labels=_OF_THE_CHART),
)
