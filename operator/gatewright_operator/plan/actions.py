"""What a plan may ask for. Data only; `apply` carries it out in order, each write guarded by the snapshot's resourceVersion."""

from dataclasses import dataclass, field
from typing import Any, Literal

from gatewright_analysis.kinds.review import DecisionStatus
from gatewright_analysis.kinds.rollout import RolloutStatus
from gatewright_analysis.kinds.run import GateRunSpec
from gatewright_analysis.reasons import Reason

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """A ledger entry to be written; its key is (rollout UID, revision, step, attempt, kind, cause)."""

    kind: str
    revision: str
    step: str
    attempt: int
    cause: str
    body: Json
    actor: str = "operator"
    """`operator`, or the user name of the person whose review or order it is."""

    @property
    def key(self) -> tuple[str, str, int, str, str]:
        return (self.revision, self.step, self.attempt, self.kind, self.cause)


@dataclass(frozen=True, slots=True)
class AppendLedger:
    """`required`: nothing after it happens unless it is written. Otherwise it is tried (1 s), and written later as `late`."""

    entries: tuple[Entry, ...]
    required: bool
    late: bool = False
    """What it speaks of has happened already."""


@dataclass(frozen=True, slots=True)
class PatchDeployment:
    """Changes of the user's Deployment by compare-and-swap: only the fields given; None removes an annotation or label."""

    annotations: dict[str, str | None] = field(default_factory=dict)
    labels: dict[str, str | None] = field(default_factory=dict)
    paused: bool | None = None
    replicas: int | None = None
    template: Json | None = None
    required: bool = True
    """False on the way back: a Deployment that refuses the write does not keep traffic on the canary."""


@dataclass(frozen=True, slots=True)
class SetRoute:
    """Weights of the two backends and the decision mark (None: taken off) in one replace."""

    stable_weight: int
    canary_weight: int
    decision: str | None


@dataclass(frozen=True, slots=True)
class SetSelector:
    service: Literal["stable", "canary"]
    selector: dict[str, str]
    decision: str | None


@dataclass(frozen=True, slots=True)
class CreateCanary:
    manifest: Json


@dataclass(frozen=True, slots=True)
class ScaleCanary:
    replicas: int


@dataclass(frozen=True, slots=True)
class DeleteCanary:
    pass


@dataclass(frozen=True, slots=True)
class DeleteReplicaSets:
    """Zero-replica ReplicaSets other than stable's, as (name, resourceVersion): one that has pods by now stays."""

    sets: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DeleteRuns:
    """GateRuns of long ago, as (name, uid); their evidence goes with them, their verdicts stay in the ledger."""

    runs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class StoreTemplate:
    """A revision's template as a ControllerRevision, once."""

    revision: str
    template: Json


@dataclass(frozen=True, slots=True)
class CreateRun:
    name: str
    spec: GateRunSpec


@dataclass(frozen=True, slots=True)
class SetFinalizer:
    present: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a review or an order, written into its status once."""

    kind: Literal["review", "order"]
    name: str
    status: DecisionStatus


@dataclass(frozen=True, slots=True)
class Emit:
    """A Kubernetes Event on the Rollout."""

    warning: bool
    reason: Reason
    message: str


Action = (
    AppendLedger
    | PatchDeployment
    | SetRoute
    | SetSelector
    | CreateCanary
    | ScaleCanary
    | DeleteCanary
    | DeleteReplicaSets
    | DeleteRuns
    | StoreTemplate
    | CreateRun
    | SetFinalizer
    | Answer
    | Emit
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, the status to report when it is done, and when to look again at the latest (seconds; None: on an event)."""

    actions: tuple[Action, ...]
    status: RolloutStatus | None
    """None: nothing to report (a brief wait), or nobody to report to (the Rollout is gone)."""
    requeue_seconds: float | None = None
    problem: Reason | None = None
    """Why the Rollout cannot go on, for its conditions."""
    brief: bool = False
    """A wait that has only just begun: status keeps what it says until it lasts."""
    again: bool = False
    """The transition is done and the next one does not wait for anything: plan again at once."""
