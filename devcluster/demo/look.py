"""One look at a release under way: all that a view shows, read at one moment."""

import time
from dataclasses import dataclass, field
from typing import Any

from devcluster.demo.numbers import ArmCounts, CheckLook, check_looks, gateway_counts
from devcluster.demo.stage import Stage
from devcluster.demo.traffic import lost

STABLE, CANARY = "checkout", "checkout-canary"
"""The Services of the two arms, by which the gateway counts."""


@dataclass(frozen=True)
class Look:
    """Seconds are since the release began; weights are percent of the traffic for the new version."""

    seconds: float
    phase: str
    step: str
    desired: int
    actual: int
    message: str
    checks: tuple[CheckLook, ...] = ()
    arms: dict[str, ArmCounts] = field(default_factory=dict)
    """What the gateway has counted since the release began, by Service."""
    requests: int = 0
    lost: int = 0
    """Failures since the demo began that nobody ordered."""

    @property
    def transition(self) -> tuple[str, str, int, int, str]:
        """What makes a new line where nothing can be drawn in place."""
        return self.phase, self.step, self.desired, self.actual, self.message


class Looker:
    """Takes looks at one release; made when it begins."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._began = time.monotonic()
        self._before = gateway_counts(stage.cluster.gateway_admin_url)

    def look(self, rollout: dict[str, Any]) -> Look:
        """A look, given the Rollout as it stands."""
        stage, status = self._stage, rollout.get("status") or {}
        weight, report = status.get("weight") or {}, stage.traffic.report()
        now = gateway_counts(stage.cluster.gateway_admin_url)
        phase = str(status.get("phase") or "")
        return Look(
            seconds=time.monotonic() - self._began,
            phase=phase,
            step=_step(phase, status, rollout["spec"]["steps"]),
            desired=int(weight.get("desired", 0)),
            actual=int(weight.get("actual", 0)),
            message=str(status.get("message") or ""),
            checks=check_looks(stage.operator.url),
            arms={
                name: now.get(name, ArmCounts()) - self._before.get(name, ArmCounts())
                for name in (STABLE, CANARY)
            },
            requests=report.sent,
            lost=lost(report),
        )


def _step(phase: str, status: dict[str, Any], steps: list[Any]) -> str:
    """Counted from 1, as everywhere where people read."""
    at_a_step = phase in ("Progressing", "Paused", "Held")
    return f"step {int(status.get('currentStep', 0)) + 1} of {len(steps)}" if at_a_step else ""
