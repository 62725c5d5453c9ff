"""A plan under construction: actions in order, the next status, and the sentence that both status and Events carry."""

from datetime import datetime, timedelta
from typing import Any

from gatewright_analysis.explain import clip
from gatewright_analysis.kinds.rollout import (
    AfterBack,
    BackStatus,
    CanaryStatus,
    Phase,
    RolloutSpec,
    RolloutStatus,
    StableStatus,
    VerdictSummary,
)
from gatewright_analysis.names import DECISION
from gatewright_analysis.reasons import Reason
from gatewright_analysis.verdict import Verdict
from gatewright_operator.plan.actions import Action, AppendLedger, Emit, Entry, PatchDeployment, Plan
from gatewright_operator.plan.snapshot import Snapshot

PROPAGATION = timedelta(seconds=3)
"""From a weight's acceptance until every proxy obeys it; no sample before counts, no pod behind it goes."""
PROPAGATION_TO_THE_SECOND = PROPAGATION + timedelta(seconds=1)
"""The same from the time of a write, which is known to the second only."""
BRIEF_SECONDS = 5.0
"""Waits shorter than this are not written into status: they are over before anybody reads them."""


def summary(verdict: Verdict) -> VerdictSummary:
    """A verdict as a Rollout's status shows it; the whole of it stands in its GateRun and in the ledger."""
    return VerdictSummary(
        decision=verdict.decision,
        run=verdict.run_id,
        step=verdict.step,
        reason=verdict.reason,
        message=verdict.message,
        at=verdict.finished_at,
    )


class Draft:
    """Collects what to do. Created per plan, thrown away after; the only mutable thing in the planner."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.s = snapshot
        self.status: RolloutStatus = snapshot.rollout.status
        self.actions: list[Action] = []
        self.problem: Reason | None = None
        self._entries = frozenset(key.local for key in snapshot.memory.keys)
        self._pending: tuple[Entry, ...] = ()

    @property
    def spec(self) -> RolloutSpec:
        return self.s.rollout.spec

    @property
    def now(self) -> datetime:
        return self.s.now

    @property
    def canary(self) -> CanaryStatus:
        """The version under judgement. Raises AssertionError outside a rollout: a planner's bug, never a user's."""
        assert self.status.canary is not None, f"phase {self.status.phase} without a canary"
        return self.status.canary

    @property
    def stable(self) -> StableStatus:
        assert self.status.stable is not None, f"phase {self.status.phase} without a stable version"
        return self.status.stable

    def step_key(self) -> str:
        """The step's name in runs, reviews and ledger: its index, or `bake` after 100 %, also while that is held."""
        hold = self.status.hold
        baking = self.status.phase is Phase.BAKING or (hold is not None and hold.step == "bake")
        return "bake" if baking else str(self.status.current_step)

    def step_name(self) -> str:
        """The step as people count: `step 2 of 4`."""
        if self.step_key() == "bake":
            return "the bake"
        return f"step {self.status.current_step + 1} of {len(self.spec.steps)}"

    def do(self, *actions: Action) -> None:
        self.actions.extend(actions)

    def set(self, **changes: Any) -> None:
        if "message" in changes:
            # Longer than the field, the whole status would be refused, a hold among it.
            changes["message"] = clip(changes["message"])
        self.status = self.status.model_copy(update=changes)

    def say(self, reason: Reason, message: str, *, warning: bool = False) -> None:
        """A transition: into the status, and as an Event."""
        self.set(message=message)
        self.do(Emit(warning, reason, message))

    def known(self, entry: Entry) -> bool:
        return entry.key in self._entries

    def entry(
        self,
        kind: str,
        *,
        cause: str = "",
        step: str | None = None,
        revision: str | None = None,
        attempt: int | None = None,
        actor: str = "operator",
        body: dict[str, Any] | None = None,
    ) -> Entry:
        """An entry about the present step of the version under judgement, unless told otherwise."""
        return Entry(
            kind=kind,
            revision=revision
            or (self.status.canary.revision if self.status.canary else self.stable.revision),
            step=self.step_key() if step is None else step,
            attempt=self.status.attempt if attempt is None else attempt,
            cause=cause,
            body=body or {},
            actor=actor,
        )

    @property
    def waits_for_its_end(self) -> bool:
        """Whether a release is over only when its end stands in the ledger: not where that could never be, or nobody comes back."""
        return not self.s.ledger_broken and self.s.rollout.metadata.deletion_timestamp is None

    def record_with_next(self, entry: Entry) -> None:
        """An entry that may wait a moment for the one of the effect that follows from it, so that both are one write.

        It is in any case written before that effect, and before any status that rests on it.
        """
        self._pending = (*self._pending, entry)

    def record(self, *entries: Entry, required: bool = True, late: bool = False) -> None:
        """Writes the entries that the ledger does not hold yet; one append for all of them."""
        new = tuple(e for e in (*self._pending, *entries) if not self.known(e))
        self._pending = ()
        if not new:
            return
        self._entries |= {e.key for e in new}
        last = self.actions[-1] if self.actions else None
        if isinstance(last, AppendLedger) and (last.required, last.late) == (required, late):
            self.actions[-1] = AppendLedger((*last.entries, *new), required, late)
        else:
            self.do(AppendLedger(new, required, late))

    def decide(self, mark: str, *, required: bool = True, **changes: Any) -> None:
        """Puts the decision mark on the Deployment by compare-and-swap, with other changes in the same write."""
        deployment = self.s.deployment
        if deployment is None:
            return
        annotations = dict(changes.pop("annotations", {}))
        if deployment.decision != mark:
            annotations = {DECISION: mark, **annotations}
        if annotations or changes:
            self.do(PatchDeployment(annotations=annotations, required=required, **changes))

    def mark(self, verdict: str) -> str:
        """`revision/attempt/step/verdict`, the fence that a stale decision runs into."""
        return f"{self.canary.revision}/{self.status.attempt}/{self.step_key()}/{verdict}"

    def go_back(self, reason: Reason, message: str, *, then: AfterBack, cause: str = "") -> None:
        """Decides that all traffic returns to stable. Nothing has moved yet; `back.rolling_back` moves it, in the same plan."""
        self.set(
            phase=Phase.ROLLING_BACK,
            back=BackStatus(reason=reason, message=message[:1024], then=then, cause=cause, at=self.now),
            hold=None,
            progress_at=self.now,
        )
        self.say(reason, message, warning=then is AfterBack.ROLLED_BACK)

    def wait(self, message: str, *, seconds: float | None = None, since: datetime | None = None) -> Plan:
        """Nothing more can be done now. A wait that began only just now (`since`) is not reported yet."""
        same_phase = self.status.phase is self.s.rollout.status.phase
        if since is not None and same_phase and (self.now - since).total_seconds() < BRIEF_SECONDS:
            return Plan(
                tuple(self.actions),
                None,
                min(seconds or BRIEF_SECONDS, BRIEF_SECONDS),
                self.problem,
                brief=True,
            )
        self.set(message=message)
        return self.done(seconds)

    def done(self, seconds: float | None = None) -> Plan:
        self.record()
        return Plan(tuple(self.actions), self.status, seconds, self.problem)

    def again(self) -> Plan:
        """This transition is complete; the next one can be planned at once from the world as it then is."""
        self.record()
        return Plan(tuple(self.actions), self.status, 0.0, self.problem, again=True)
