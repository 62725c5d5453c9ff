"""What `plan` sees: one consistent picture of a Rollout and its world. Frozen, plain values, no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from gatewright_analysis.kinds.contract import GateContractSpec
from gatewright_analysis.kinds.review import GateOrder, GateReview
from gatewright_analysis.kinds.rollout import Rollout
from gatewright_analysis.kinds.run import FingerprintValue, GateRun
from gatewright_analysis.ledger import LedgerMemory
from gatewright_analysis.reasons import Reason
from gatewright_operator.traffic.gateway_api import RouteView
from gatewright_operator.traffic.services import ServiceView
from gatewright_operator.workload import DeploymentView, ReplicaSetView

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a Rollout cannot go on: a reason, and a sentence that says what to do."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """Whether the checks can prove themselves at the present traffic: a condition's status, reason and sentence."""

    status: Literal["True", "False", "Unknown"]
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class PinnedContract:
    """A contract as an attempt judges by it."""

    name: str
    generation: int
    digest: str
    spec: GateContractSpec
    written_by: str = ""
    """Who the API server saw write it last, of the contract as it is now; empty when unproven."""


@dataclass(frozen=True, slots=True)
class CanaryPods:
    """The canary's pods, dead ones not counted. `failing`: containers that exit again and again, as POD/CONTAINER."""

    total: int = 0
    ready: int = 0
    pod_template_hash: str = ""
    images: tuple[tuple[str, str, str], ...] = ()
    """(container, image, imageID) of a ready pod."""
    failing: tuple[str, ...] = ()
    trouble: str = ""
    """Unschedulable, image or quota trouble, in a sentence."""


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """Models and judges, as far as the phase needs them."""

    values: tuple[FingerprintValue, ...] = ()
    """What they say of themselves now; read only where an attempt is about to begin its first gate."""
    problem: Problem | None = None
    """Why that can't be read."""
    drifted: str = ""
    """What is known to differ from what the attempt is bound to, as a sentence; empty when nothing is."""


@dataclass(frozen=True, slots=True)
class RestoreTemplate:
    """A recorded template after a server-side dry run (an upgrade of Kubernetes adds defaults), and its revision now."""

    template: Json
    revision: str


@dataclass(frozen=True, slots=True)
class SourceState:
    """Whether a MetricSource answers, as its own condition Ready says, since when, and in which word."""

    down: bool
    since: datetime
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Authorised:
    """A review or order nobody has answered yet, with what the API server said about its author's right."""

    allowed: bool
    review: GateReview | None = None
    order: GateOrder | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a decision about one Rollout may rest on, read at `now`."""

    now: datetime
    rollout: Rollout
    contract: PinnedContract | None = None
    """The contract as it is now; pinned ones come out of the ledger by digest."""
    pinned: PinnedContract | None = None
    """The contract that the running attempt is judged by."""
    contract_problem: Problem | None = None
    findings: tuple[Problem, ...] = ()
    """What `feasibility` found in contract, steps and sources; stops a start, never a rollout on its way."""
    forecast: Forecast | None = None
    """What the traffic of the last days says of it; stops nothing. None before it was asked."""
    rivals: tuple[str, ...] = ()
    """Older Rollouts that name the same Deployment."""
    services: tuple[ServiceView, ...] = ()
    """All Services of the namespace, to find those that would take canary pods."""
    deployment: DeploymentView | None = None
    replica_sets: tuple[ReplicaSetView, ...] | None = None
    """None where they were not looked up, because the phase does not need them."""
    canary: DeploymentView | None = None
    canary_manifest: Json | None = None
    """The canary that the Deployment's present template would give."""
    pods: CanaryPods = CanaryPods()
    promoted: CanaryPods = CanaryPods()
    """Pods of the new version under the user's own Deployment, while promoting and baking."""
    stable_service: ServiceView | None = None
    canary_service: ServiceView | None = None
    route: RouteView | None = None
    fingerprints: Fingerprints = Fingerprints()
    runs: Mapping[str, GateRun] = field(default_factory=dict)
    old_runs: tuple[tuple[str, str], ...] = ()
    """GateRuns beyond those that are kept, as (name, uid)."""
    sources: Mapping[str, SourceState] = field(default_factory=dict)
    """MetricSources that were asked at least once, by name; looked up only while the Rollout is held."""
    waiting: tuple[Authorised, ...] = ()
    """Reviews and orders without an outcome, oldest first."""
    memory: LedgerMemory = field(default_factory=LedgerMemory)
    """What the ledger remembers; status may be wiped, this may not."""
    ledger_broken: str = ""
    """Why the chain does not verify; empty when it does."""
    guarded: bool = True
    guard_gap: str = ""
    """What is wrong with the policies that hold new templates; empty when nothing is."""
    waivers_unavailable: str = ""
    """What is wrong with the policies that prove who decides; empty when they stand as the chart ships them."""
    proven_since: datetime | None = None
    """When those policies were last written: what was written before, nothing has proven."""
    restore: RestoreTemplate | None = None
    """The recorded template of the version to go back to, while restoring."""
    namespace_terminating: bool = False
