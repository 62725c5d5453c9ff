"""Rollout: a workload, its contract, its steps, its traffic; and the report on where it stands."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from gatewright_analysis.kinds.base import (
    Duration,
    Label,
    Model,
    Name,
    ObjectMeta,
    PositiveDuration,
    rules,
)
from gatewright_analysis.kinds.status import (
    AfterBack,
    AttemptsStatus,
    BackStatus,
    CanaryStatus,
    DecisionRules,
    EscalationStatus,
    HoldStatus,
    LedgerStatus,
    Originals,
    OverrideStatus,
    PausedStatus,
    Phase,
    RejectedStatus,
    Revision,
    RolloutStatus,
    StableStatus,
    VerdictSummary,
    WeightStatus,
)

Weight = Annotated[
    int,
    Field(
        ge=1,
        le=100,
        json_schema_extra=rules(("self >= 1 && self <= 100", "A weight is a percentage from 1 to 100.")),
    ),
]


class WorkloadRef(Model):
    """The workload that is gated."""

    # An Argo Rollout passes here: the operator answers it with a condition that says what to do instead.
    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.apiVersion == 'apps/v1' && self.kind == 'Deployment' "
                "|| self.apiVersion.startsWith('argoproj.io/') && self.kind == 'Rollout'",
                "Deployments can be gated: set apiVersion: apps/v1 and kind: Deployment, or leave both out.",
            )
        )
    )

    api_version: Annotated[str, Field(max_length=64)] = "apps/v1"
    """apps/v1."""
    kind: Annotated[str, Field(max_length=63)] = "Deployment"
    """Deployment."""
    name: Name
    """Name of the Deployment, in the Rollout's namespace."""


class ContractRef(Model):
    """The contract that judges."""

    name: Name
    """Name of a GateContract in the Rollout's namespace."""


class GatewayAPITraffic(Model):
    """Two backendRefs of one HTTPRoute; only their weights change."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.stableService != self.canaryService",
                "stableService and canaryService must be two Services, or both versions would share one.",
            )
        )
    )

    http_route: Annotated[Name, Field(alias="httpRoute")]
    """Name of the HTTPRoute, in the Rollout's namespace."""
    stable_service: Label
    """Service that serves users now, a backendRef of the route."""
    canary_service: Label
    """Service for the new version, a backendRef of the route that rests at weight: 0."""


class ReplicasTraffic(Model):
    """Traffic follows the number of pods: c / (N + c). Stable is never shrunk, so no weight above 50."""


class Traffic(Model):
    """Exactly one way to move traffic."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.gatewayAPI) != has(self.replicas)",
                "traffic is exactly one of gatewayAPI and replicas: {}.",
            )
        )
    )

    gateway_api: Annotated[GatewayAPITraffic | None, Field(alias="gatewayAPI")] = None
    """Move the weights of two backendRefs of an HTTPRoute."""
    replicas: ReplicasTraffic | None = None
    """Let the number of canary pods make the share; weights up to 50."""


_EACH_ONCE = (("self.all(c, self.exists_one(d, d == c))", "A check is named twice: name it once."),)
_LOOK_IN_EACH_WINDOW = (
    "duration(self.interval) <= duration(self.window)",
    "interval must not be longer than window (30s unless you set it): each window needs a look.",
)
_MORE_THAN_ONE_WINDOW = (
    "duration(self.window) < duration(self.duration)",
    "window (30s unless you set it) must be shorter than duration: one window alone proves nothing.",
)


class Gate(Model):
    """Looks every `interval` at closed windows; no pass before `duration`.

    When samples are short it goes on up to `maxDuration`.
    """

    model_config = ConfigDict(
        json_schema_extra=rules(
            _LOOK_IN_EACH_WINDOW,
            _MORE_THAN_ONE_WINDOW,
            (
                "!has(self.maxDuration) || duration(self.duration) <= duration(self.maxDuration)",
                "maxDuration must not be shorter than duration.",
            ),
        )
    )

    warmup: Duration = timedelta(seconds=30)
    """Time after the weight is in force that does not count: a cold process is not the version."""
    duration: PositiveDuration
    """No check passes before this much time was watched."""
    max_duration: PositiveDuration | None = None
    """Watch on up to here when samples are short; the same as duration when left out."""
    window: PositiveDuration = timedelta(seconds=30)
    """Length of the windows that are counted; at least two scrape intervals of the source."""
    interval: PositiveDuration = timedelta(seconds=10)
    """How often to look at the windows that have closed."""
    checks: Annotated[tuple[Label, ...], Field(max_length=64, json_schema_extra=rules(*_EACH_ONCE))] = ()
    """Ids of the checks that judge here; empty means all that have evidence for the stage."""

    @property
    def deadline(self) -> timedelta:
        """The latest time of a verdict after t0: `maxDuration`, which defaults to `duration`."""
        return self.max_duration or self.duration


class Pause(Model):
    """A wait between two steps."""

    duration: PositiveDuration | None = None
    """How long to wait before the next step; left out, it waits for an order Resume."""


class Step(Model):
    """Exactly one of setWeight, gate and pause."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "[has(self.setWeight), has(self.gate), has(self.pause)].filter(x, x).size() == 1",
                "A step is exactly one of setWeight, gate and pause.",
            )
        )
    )

    set_weight: Weight | None = None
    """Percent of traffic for the new version, 1 to 100; a gate must follow before the next one."""
    gate: Gate | None = None
    """Judge the new version at the present weight."""
    pause: Pause | None = None
    """Wait."""


class OnInconclusive(StrEnum):
    COMPLETE = "Complete"
    HOLD = "Hold"


class Bake(Model):
    """After 100 %: the promoted pods are watched against the absolute limits; a breach restores the old."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            _MORE_THAN_ONE_WINDOW,
            (
                "duration(self.interval) <= duration(self.duration)",
                "interval must not be longer than duration: the bake needs a look.",
            ),
        )
    )

    warmup: Duration = timedelta(seconds=30)
    """Time after the last old pod is gone that does not count."""
    duration: PositiveDuration
    """How long the new version is watched."""
    window: PositiveDuration = timedelta(seconds=30)
    """Length of the windows that are counted; at least two scrape intervals of the source."""
    interval: PositiveDuration = timedelta(seconds=30)
    """How often to look at the windows that have closed."""
    on_inconclusive: OnInconclusive = OnInconclusive.COMPLETE
    """What happens when the evidence proves nothing. Complete: the release is finished. Hold: a person
    decides."""


_STEP_RULES = (
    (
        "self.exists(s, has(s.setWeight))",
        "steps needs at least one setWeight and a gate after it: "
        "for example {setWeight: 10}, then {gate: {duration: 10m}}.",
    ),
    (
        "self.size() > 0 && has(self[self.size() - 1].gate)",
        "The last step must be a gate: only a verdict promotes.",
    ),
    (
        # The steps as numbers: a weight, or 0 for a gate. The list in a list is CEL's way to give it a name.
        "[self.filter(s, !has(s.pause)).map(s, has(s.setWeight) ? s.setWeight : 0)].all(l, "
        "l.all(w, w == 0 || l.indexOf(w) + 1 == l.size() || l[l.indexOf(w) + 1] == 0))",
        "Each setWeight needs a gate before the next setWeight.",
    ),
    (
        "self.filter(s, has(s.setWeight)).map(s, s.setWeight).isSorted() "
        "&& self.all(s, !has(s.setWeight) "
        "|| self.exists_one(t, has(t.setWeight) && t.setWeight == s.setWeight))",
        "Weights must rise from each setWeight to the next.",
    ),
)


class RolloutSpec(Model):
    """A workload, its contract, its steps, its traffic."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.traffic.replicas) || self.steps.all(s, !has(s.setWeight) || s.setWeight <= 50)",
                "With traffic by replicas the canary's share comes from the number of pods "
                "and can't pass 50 %: use weights up to 50, or traffic by gatewayAPI.",
            )
        )
    )

    workload_ref: WorkloadRef
    """The workload whose new versions are gated."""
    contract_ref: ContractRef
    """The contract that judges them."""
    traffic: Traffic
    """How a share of the traffic reaches the new version; exactly one way."""
    steps: Annotated[
        tuple[Step, ...], Field(min_length=2, max_length=64, json_schema_extra=rules(*_STEP_RULES))
    ]
    """The course of a release: each setWeight is followed by a gate before the next, and the last step is
    a gate."""
    bake: Bake | None = None
    """Watch on after the new version has replaced the old one; a breach restores the old one."""
    progress_deadline: PositiveDuration = timedelta(minutes=10)
    """Time without any progress after which the release stops and asks a person."""

    def weight_at(self, step: int) -> int:
        """The canary's weight in percent at `step`: the last `setWeight` up to it, 0 before the first."""
        weights = [s.set_weight for s in self.steps[: step + 1] if s.set_weight is not None]
        return weights[-1] if weights else 0


_MOVING = "['Progressing', 'Paused', 'Held', 'Promoting', 'Restoring', 'RollingBack', 'Superseded']"
_ROLLOUT_RULES = (
    (
        "size(self.metadata.name) <= 52",
        "The name of a Rollout has at most 52 characters: names of its GateRuns and ledger are made from it.",
    ),
    (
        "!has(oldSelf.status) || !has(oldSelf.status.stable) "
        "|| self.spec.workloadRef == oldSelf.spec.workloadRef",
        "The workload of a Rollout can't change once it is gated: delete this Rollout and create another.",
    ),
    (
        "!has(oldSelf.status) || !has(oldSelf.status.phase) "
        f"|| !(oldSelf.status.phase in {_MOVING}) || self.spec.traffic == oldSelf.spec.traffic",
        "traffic can't change while a release is under way: wait for its end, or abort it first.",
    ),
)


class Rollout(Model):
    """Takes each new version of a workload through steps of traffic, judged at each against a contract."""

    model_config = ConfigDict(json_schema_extra=rules(*_ROLLOUT_RULES))

    metadata: ObjectMeta = ObjectMeta()
    spec: RolloutSpec
    """A workload, its contract, its steps, its traffic."""
    status: RolloutStatus = RolloutStatus()
    """Where it stands; a report that only the operator writes."""


__all__ = [
    "AfterBack",
    "AttemptsStatus",
    "BackStatus",
    "Bake",
    "CanaryStatus",
    "ContractRef",
    "DecisionRules",
    "EscalationStatus",
    "Gate",
    "GatewayAPITraffic",
    "HoldStatus",
    "LedgerStatus",
    "OnInconclusive",
    "Originals",
    "OverrideStatus",
    "Pause",
    "PausedStatus",
    "Phase",
    "RejectedStatus",
    "ReplicasTraffic",
    "Revision",
    "Rollout",
    "RolloutSpec",
    "RolloutStatus",
    "StableStatus",
    "Step",
    "Traffic",
    "VerdictSummary",
    "Weight",
    "WeightStatus",
    "WorkloadRef",
]
