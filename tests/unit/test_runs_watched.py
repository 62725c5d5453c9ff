"""Which GateRuns are looked at, and what may end one, while the Rollout is paused."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gatewright_analysis.kinds.rollout import PausedStatus, Phase, Rollout, RolloutStatus
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.kinds.status import CanaryStatus
from gatewright_operator.runs import NOT_CURRENT_SECONDS, _is_watched, _wanted

NOW = datetime(2030, 1, 1, tzinfo=UTC)
REVISION = "0123456789"


def gate_run(decision: str | None = None, *, step: str = "1", breach: bool = False) -> GateRun:
    verdict: dict[str, Any] = {
        "decision": decision or "ROLLBACK",
        "runId": "checkout-1",
        "stage": "Canary",
        "step": step,
        "attempt": 1,
        "startedAt": NOW,
        "finishedAt": NOW,
        "change": {
            "revision": REVISION,
            "contractDigest": f"sha256:{'0' * 64}",
            "worldSnapshot": f"sha256:{'1' * 64}",
        },
        "reason": "AllChecksPassed",
        "message": "",
    }
    status = ({"verdict": verdict} if decision else {}) | ({"breach": verdict} if breach else {})
    return GateRun.model_validate(
        {
            "metadata": {"name": "checkout-1"},
            "spec": {
                "rollout": "checkout",
                "rolloutUID": "u",
                "revision": REVISION,
                "step": step,
                "weight": 25,
                "eProcesses": 1,
                "attempt": 1,
                "stage": "Canary",
                "contract": "checkout",
                "contractGeneration": 1,
                "contractDigest": f"sha256:{'0' * 64}",
                "worldSnapshot": f"sha256:{'1' * 64}",
                "checks": ["http-success"],
                "clock": {
                    "weightAt": NOW,
                    "startsAt": NOW,
                    "duration": "60s",
                    "maxDuration": "60s",
                    "window": "20s",
                    "interval": "10s",
                },
                "canary": {"podPrefix": "checkout-canary-", "workload": "checkout-canary"},
            },
            "status": status,
        }
    )


def at(phase: Phase, *, step: int = 1, watched: bool = False) -> Rollout:
    paused = PausedStatus(since=NOW, by="sre-a", order="o", run="checkout-1") if watched else None
    status = RolloutStatus(
        phase=phase, attempt=1, current_step=step, canary=CanaryStatus(revision=REVISION), paused=paused
    )
    spec = {
        "workloadRef": {"name": "checkout"},
        "contractRef": {"name": "checkout"},
        "traffic": {"replicas": {}},
        "steps": [{"setWeight": 25}, {"gate": {"duration": "60s"}}],
    }
    return Rollout.model_validate({"metadata": {"name": "checkout", "uid": "u"}, "spec": spec}).model_copy(
        update={"status": status}
    )


@pytest.mark.parametrize("decision", [None, "PROMOTE", "HOLD"])
def test_a_run_that_a_pause_names_is_looked_at_whatever_its_verdict_was(decision: str | None) -> None:
    rollout = at(Phase.PAUSED, step=2, watched=True)
    assert _wanted(gate_run(decision), rollout) is None
    assert _is_watched(gate_run(decision), rollout)


@pytest.mark.parametrize("run", [gate_run("ROLLBACK"), gate_run("HOLD", breach=True)])
def test_one_that_found_a_breach_has_said_all(run: GateRun) -> None:
    assert _wanted(run, at(Phase.PAUSED, watched=True)) == -1.0


def test_after_the_resume_the_gate_goes_on_to_its_verdict() -> None:
    rollout = at(Phase.PROGRESSING)
    assert _wanted(gate_run(), rollout) is None
    assert not _is_watched(gate_run(), rollout)


@pytest.mark.parametrize(("phase", "step"), [(Phase.PROGRESSING, 3), (Phase.BAKING, 1)])
def test_a_gate_that_was_passed_over_is_judged_no_more(phase: Phase, step: int) -> None:
    assert _wanted(gate_run(), at(phase, step=step)) == NOT_CURRENT_SECONDS
