"""What a verdict rests on, as it is stored: enough to judge again offline, number by number, and nothing else.

Numbers, counts and error classes only, never the body of an answer. The same evidence has the same bytes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gatewright_analysis.evidence.model import (
    Clock,
    Cluster,
    Counts,
    Fault,
    JobFacts,
    JobPhase,
    JudgeIdentity,
    PodFacts,
    Tick,
    Window,
)
from gatewright_analysis.reasons import Reason

Json = dict[str, Any]


class UnreadableRecord(ValueError):
    """The bytes are no evidence record; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class PriorRecord:
    """An earlier attempt whose evidence was counted as well."""

    run: str
    """GateRun whose stored windows it is; empty where that evidence is gone, and `windows` stand for it."""
    ticket_used: bool
    windows: tuple[Window, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """Everything that was collected for one check at one gate."""

    windows: tuple[Window, ...] = ()
    ticks: tuple[Tick, ...] = ()
    pods: PodFacts | None = None
    job: JobFacts | None = None
    fault: Fault | None = None
    """Why the newest reading failed, if it did."""
    window_pending: bool = False
    rendered: str = ""
    """sha256 of the queries as they were asked."""
    files: tuple[str, ...] = ()
    """sha256 of the evidence records that were counted, and of the result files that they were made of."""
    judge: JudgeIdentity | None = None
    """What gave the verdicts in those files; None while none is counted."""
    seed: int | None = None
    """Seed that the items were drawn with, where the files name one and agree."""
    cached_from: str = ""
    """GateRun whose result stands for this one."""
    cached: Mapping[str, Any] | None = None
    """That result as a verdict holds it: nothing else of the evidence could give it again."""
    prior: tuple[PriorRecord, ...] = ()

    @property
    def pooled_windows(self) -> tuple[Window, ...]:
        """What a later attempt adds to: the windows; what a Job reported is one."""
        job = self.job
        if job is not None and job.good is not None and job.bad is not None:
            return (Window(0, Counts(job.good, job.bad)),)
        return self.windows


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One gate: how it was judged, and on what."""

    run: str
    stage: str
    clock: Clock
    e_processes: int
    has_stable: bool
    last_gate: bool
    on_inconclusive: str
    pooled_from: tuple[str, ...] = ()
    """Earlier attempts at this step."""
    earlier_runs: tuple[str, ...] = ()
    """Earlier steps, for checks that pool over the rollout."""
    drifted: str = ""
    """What of the world had changed when the verdict was given; empty when nothing had."""
    expected: tuple[str, ...] = ()
    """Ids of the checks that judge at this gate."""
    evidence_of: Mapping[str, str] = field(default_factory=dict)
    """sha256 of the records of other runs that this one rests on, by run: those that were there."""
    world_unknown: Fault | None = None
    """Why it was not known whether the world was the same; None when it was."""
    checks: Mapping[str, CheckRecord] = field(default_factory=dict)
    at: str = ""
    """When the look was taken, where there are waivers."""
    waivers: tuple[Mapping[str, Any], ...] = ()
    """Those that the run was begun with, as its spec holds them; which of them counted follows from `at`."""


def write(record: RunRecord) -> Json:
    """The record as JSON values."""
    clock = record.clock
    waived = {"at": record.at, "waivers": [dict(own) for own in record.waivers]} if record.waivers else {}
    return waived | {
        "run": record.run,
        "stage": record.stage,
        "clock": {
            "now": clock.now,
            "duration": clock.duration,
            "maxDuration": clock.max_duration,
            "window": clock.window,
        },
        "eProcesses": record.e_processes,
        "hasStable": record.has_stable,
        "lastGate": record.last_gate,
        "onInconclusive": record.on_inconclusive,
        "pooledFrom": list(record.pooled_from),
        "earlierRuns": list(record.earlier_runs),
        "drifted": record.drifted,
        "expected": list(record.expected),
        "evidenceOf": dict(sorted(record.evidence_of.items())),
        "worldUnknown": _fault(record.world_unknown),
        "checks": {check: _write_check(own) for check, own in sorted(record.checks.items())},
    }


def read(data: bytes) -> RunRecord:
    """The record from its stored bytes. Raises UnreadableRecord."""
    try:
        body = json.loads(data)
        clock = body["clock"]
        return RunRecord(
            run=body["run"],
            stage=body["stage"],
            clock=Clock(clock["now"], clock["duration"], clock["maxDuration"], clock["window"]),
            e_processes=body["eProcesses"],
            has_stable=body["hasStable"],
            last_gate=body["lastGate"],
            on_inconclusive=body["onInconclusive"],
            pooled_from=tuple(body["pooledFrom"]),
            earlier_runs=tuple(body["earlierRuns"]),
            drifted=body["drifted"],
            expected=tuple(body.get("expected", body["checks"])),
            evidence_of=dict(body.get("evidenceOf", {})),
            world_unknown=_read_fault(body.get("worldUnknown")),
            checks={check: _read_check(own) for check, own in body["checks"].items()},
            at=body.get("at", ""),
            waivers=tuple(body.get("waivers", ())),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableRecord(f"this is no evidence record: {type(error).__name__}: {error}") from error


def _write_check(record: CheckRecord) -> Json:
    return {
        "windows": [_write_window(window) for window in record.windows],
        "ticks": [[tick.end, _counts(tick.canary), _counts(tick.stable)] for tick in record.ticks],
        "pods": None if record.pods is None else _write_pods(record.pods),
        "job": None if record.job is None else _write_job(record.job),
        "fault": _fault(record.fault),
        "windowPending": record.window_pending,
        "rendered": record.rendered,
        "files": list(record.files),
        "judge": None if record.judge is None else _write_judge(record.judge),
        "seed": record.seed,
        "cachedFrom": record.cached_from,
        "cached": None if record.cached is None else dict(record.cached),
        "prior": [
            [own.run, own.ticket_used, [_write_window(window) for window in own.windows]]
            for own in record.prior
        ],
    }


def _read_check(body: Json) -> CheckRecord:
    return CheckRecord(
        windows=tuple(_read_window(window) for window in body["windows"]),
        ticks=tuple(
            Tick(end, Counts(*canary), _read_counts(stable)) for end, canary, stable in body["ticks"]
        ),
        pods=None if body["pods"] is None else _read_pods(body["pods"]),
        job=None if body["job"] is None else _read_job(body["job"]),
        fault=_read_fault(body["fault"]),
        window_pending=body["windowPending"],
        rendered=body["rendered"],
        files=tuple(body["files"]),
        judge=None if body["judge"] is None else JudgeIdentity(*body["judge"]),
        seed=body["seed"],
        cached_from=body["cachedFrom"],
        cached=body.get("cached"),
        prior=tuple(
            PriorRecord(run, used, tuple(_read_window(window) for window in windows))
            for run, used, windows in body["prior"]
        ),
    )


def _write_judge(judge: JudgeIdentity) -> list[str]:
    return [judge.id, judge.version, judge.fingerprint]


def _write_window(window: Window) -> Json:
    """Fields that say nothing are left out: a record holds thousands of windows."""
    body: Json = {"index": window.index, "canary": _counts(window.canary)}
    rest: Json = {
        "stable": _counts(window.stable),
        "missing": window.missing or None,
        "fault": _fault(window.fault),
        "resets": window.resets or None,
        "clusters": [[own.key, own.good, own.bad, own.missing] for own in window.clusters] or None,
        "scores": list(window.scores) or None,
        "value": window.value,
    }
    return body | {key: value for key, value in rest.items() if value is not None}


def _read_window(body: Json) -> Window:
    return Window(
        index=body["index"],
        canary=Counts(*body["canary"]),
        stable=_read_counts(body.get("stable")),
        missing=body.get("missing", 0),
        fault=_read_fault(body.get("fault")),
        resets=body.get("resets", 0),
        clusters=tuple(Cluster(*own) for own in body.get("clusters", ())),
        scores=tuple(float(score) for score in body.get("scores", ())),
        value=None if body.get("value") is None else float(body["value"]),
    )


def _write_pods(pods: PodFacts) -> Json:
    return {
        "expected": pods.expected,
        "ready": pods.ready,
        "restarts": pods.restarts,
        "failing": list(pods.failing),
        "infrastructure": _fault(pods.infrastructure),
        "readyThroughout": pods.ready_throughout,
    }


def _read_pods(body: Json) -> PodFacts:
    return PodFacts(
        expected=body["expected"],
        ready=body["ready"],
        restarts=body["restarts"],
        failing=tuple(body["failing"]),
        infrastructure=_read_fault(body["infrastructure"]),
        ready_throughout=body["readyThroughout"],
    )


def _write_job(job: JobFacts) -> Json:
    return {
        "name": job.name,
        "phase": job.phase.name,
        "exitCode": job.exit_code,
        "good": job.good,
        "bad": job.bad,
        "trouble": _fault(job.trouble),
    }


def _read_job(body: Json) -> JobFacts:
    return JobFacts(
        name=body["name"],
        phase=JobPhase[body["phase"]],
        exit_code=body["exitCode"],
        good=body["good"],
        bad=body["bad"],
        trouble=_read_fault(body["trouble"]),
    )


def _counts(counts: Counts | None) -> list[int] | None:
    return None if counts is None else [counts.good, counts.bad]


def _read_counts(body: list[int] | None) -> Counts | None:
    return None if body is None else Counts(*body)


def _fault(fault: Fault | None) -> list[str] | None:
    return None if fault is None else [fault.reason.value, fault.detail]


def _read_fault(body: list[str] | None) -> Fault | None:
    return None if body is None else Fault(Reason(body[0]), body[1])
