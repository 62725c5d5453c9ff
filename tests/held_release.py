"""A held release as the operator leaves it: contract, Rollout, GateRun and evidence that belong together."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gatewright_analysis.decide import decide
from gatewright_analysis.evidence.model import Clock, Counts, Window
from gatewright_analysis.evidence.packed import DIGEST_ANNOTATION, encode, pack
from gatewright_analysis.evidence.record import CheckRecord, RunRecord
from gatewright_analysis.judge import CheckEvidence, judge
from gatewright_analysis.kinds.contract import GateContractSpec, Stage
from gatewright_analysis.kinds.run import GateRunSpec, GateRunStatus
from gatewright_analysis.kinds.status import RolloutStatus
from gatewright_analysis.ledger import canonical_contract, digest_of_json
from gatewright_analysis.names import API_VERSION, EVIDENCE_LABEL, ROLLOUT_LABEL
from gatewright_analysis.task import CheckTask
from gatewright_analysis.verdict import CheckResult

Object = dict[str, Any]

CANARY, STABLE = "3f2a9c1d0e", "91bd22ac07"
CONTRACT: Object = {
    "hold": {
        "maxWaiver": "48h",
        "minApprovals": 2,
        "serviceAccounts": ["system:serviceaccount:shop:oncall"],
    },
    "checks": [
        {
            "id": "http-success",
            "oracleKind": "Deterministic",
            "limit": {"maxBadRatio": 0.01},
            "fixHint": "Look at the error log of the canary pods.",
            "evidence": [
                {
                    "stages": ["Canary"],
                    "counts": {
                        "source": "prometheus",
                        "bad": ['http_requests_total{code=~"5.."}'],
                        "total": ["http_requests_total"],
                    },
                }
            ],
        },
        {
            "id": "p99-under-500ms",
            "oracleKind": "Deterministic",
            "onBreach": "Hold",
            "limit": {"minGoodRatio": 0.95},
            "evidence": [
                {
                    "stages": ["Canary"],
                    "latency": {
                        "source": "prometheus",
                        "histogram": "http_request_duration_seconds",
                        "le": 0.5,
                    },
                }
            ],
        },
    ],
}
BAD = (0, 1, 0, 0, 2, 0, 1, 0, 0, 1, 0, 2, 0, 0, 1, 1, 0, 0, 0, 1, 0, 1, 0, 0)
"""Bad requests of each window of 80: close to the limit, so that nothing is proven."""
WORLD = digest_of_json({"world": "tests"})


@dataclass(frozen=True)
class HeldRelease:
    """Manifests; the status of Rollout and run are to be written after the objects."""

    contract: Object
    rollout: Object
    run: Object
    evidence: Object
    results: tuple[CheckResult, ...]


def held_release(
    namespace: str, name: str = "checkout", *, now: datetime | None = None, **hold: Any
) -> HeldRelease:
    """Held at the first of two gates, for two hours; `hold` changes fields of status.hold."""
    now = now or datetime.now(UTC)
    spec = GateContractSpec.model_validate(CONTRACT)
    clock = Clock(720.0, 600.0, 720.0, 30.0)
    run_name = f"{name}-{CANARY}-1-1"
    windows = {
        "http-success": tuple(Window(k, Counts(80 - bad, bad), Counts(1200, 3)) for k, bad in enumerate(BAD)),
        "p99-under-500ms": tuple(Window(k, Counts(79, 1), Counts(1190, 13)) for k in range(len(BAD))),
    }
    record = RunRecord(
        run=run_name,
        stage="Canary",
        clock=clock,
        e_processes=4,
        has_stable=True,
        last_gate=False,
        on_inconclusive="Hold",
        expected=tuple(windows),
        checks={check: CheckRecord(windows=own) for check, own in windows.items()},
    )
    results = tuple(
        judge(
            CheckTask(check, spec, Stage.CANARY, 4, True, last_gate=False),
            CheckEvidence(windows[check.id]),
            clock,
        )
        for check in spec.checks
    )
    outcome = decide(results, spec, clock, expected=tuple(windows), stage=Stage.CANARY, last_gate=False)
    assert outcome.decision == "HOLD", outcome
    raw, digest = encode(record)
    contract_digest = canonical_contract(spec).digest
    began, held_at = now - timedelta(hours=2, minutes=12), now - timedelta(hours=2)

    def named(kind: str, own: str, **more: Any) -> Object:
        return {
            "apiVersion": API_VERSION,
            "kind": kind,
            "metadata": {"name": own, "namespace": namespace, **more},
        }

    run_spec = GateRunSpec.model_validate(
        {
            "rollout": name, "rolloutUID": "uid-1", "revision": CANARY, "step": "1", "weight": 5, "attempt": 1,
            "stage": "Canary", "contract": name, "contractGeneration": 1, "contractDigest": contract_digest,
            "worldSnapshot": WORLD, "checks": list(windows), "canary": {"podPrefix": f"{name}-canary-"},
            "eProcesses": 4, "lastGate": False,
            "clock": {"startsAt": stamp(began), "weightAt": stamp(began), "duration": "10m", "maxDuration": "12m", "window": "30s", "interval": "30s"},
        }
    )  # fmt: skip
    change = {"revision": CANARY, "contractVersion": f"{name}@1", "contractDigest": contract_digest, "worldSnapshot": WORLD}  # fmt: skip
    hints = {check.id: check.fix_hint for check in spec.checks}
    run_status = GateRunStatus.model_validate(
        {
            "phase": "Decided",
            "message": outcome.message,
            "evidence": {"configMap": f"{run_name}-{digest[7:17]}", "digest": digest},
            "verdict": {
                "decision": "HOLD", "runId": run_name, "stage": "Canary", "step": "1", "attempt": 1, "startedAt": stamp(began),
                "finishedAt": stamp(held_at), "change": change, "blocking": list(outcome.blocking), "evidenceDigest": digest,
                "checks": [result.wire() | {"fixHint": hints[result.id]} for result in results],
                "reason": outcome.reason.value, "message": outcome.message,
            },
        }
    )  # fmt: skip
    status = RolloutStatus.model_validate(
        {
            "phase": "Held", "message": f"Held at step 2: {outcome.message}", "currentStep": 1, "attempt": 1, "run": run_name,
            "weight": {"desired": 5, "actual": 5}, "observedRevision": CANARY,
            "stable": {"revision": STABLE, "podTemplateHash": "5d8f", "replicas": 6, "images": [f"shop/{name}:1.7.3"]},
            "canary": {"revision": CANARY, "images": [f"shop/{name}:1.8.0"], "initiator": "dev-1"},
            "attempts": {"used": 0, "budget": 3},
            "hold": {
                "run": run_name, "evidenceDigest": digest, "worldSnapshot": WORLD, "step": "1", "initiator": "dev-1",
                "since": stamp(held_at), "reason": outcome.reason.value, "message": outcome.message,
                "blocking": list(outcome.blocking), "deadline": stamp(now + timedelta(hours=22)), "approvalsNeeded": 2,
                "approvals": [{"reviewer": "reviewer-b", "review": "first", "expiresAt": stamp(now + timedelta(hours=4))}],
                "escalateAt": stamp(now + timedelta(minutes=20)), **hold,
            },
        }
    )  # fmt: skip
    steps = [{"setWeight": 5}, {"gate": {"duration": "10m", "maxDuration": "12m"}}, {"setWeight": 25}, {"gate": {"duration": "10m"}}]  # fmt: skip
    rollout_spec = {"workloadRef": {"name": name}, "contractRef": {"name": name}, "traffic": {"replicas": {}}, "steps": steps}  # fmt: skip
    return HeldRelease(
        named("GateContract", name) | {"spec": CONTRACT},
        named("Rollout", name) | {"spec": rollout_spec, "status": status.wire()},
        named("GateRun", run_name, labels={ROLLOUT_LABEL: name})
        | {"spec": run_spec.wire(), "status": run_status.wire()},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "immutable": True,
            "metadata": {
                "name": f"{run_name}-{digest[7:17]}",
                "namespace": namespace,
                "labels": {EVIDENCE_LABEL: "true", ROLLOUT_LABEL: name},
                "annotations": {DIGEST_ANNOTATION: digest},
            },
            "binaryData": pack(raw, run_name),
        },
        results,
    )


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
