"""What a Job and its pods show, for the evidence kind `job`. Pure, on raw objects.

A failure is the version's only where containers that ran to their own end prove it: what the cluster did (no room, no
image, an eviction, a deadline, a deletion) is trouble, and so is everything that is not known.
"""

import json
from collections.abc import Iterable
from typing import Any, Final, NoReturn

from gatewright_analysis.evidence.model import Counts, Fault, JobFacts, JobPhase
from gatewright_analysis.kinds.evidence import JobReport
from gatewright_analysis.reasons import Reason
from gatewright_operator.pods import trouble

Json = dict[str, Any]

MAX_REPORT_BYTES: Final = 4096
"""The kubelet keeps no more of a termination message."""
MAX_COUNT: Final = 1_000_000_000
DEFAULT_BACKOFF_LIMIT: Final = 6
"""What the API server fills in where a Job says nothing."""
_NOT_ITS_OWN_END: Final = {
    "OOMKilled",
    "StartError",
    "ContainerCannotRun",
    "ContainerStatusUnknown",
    "Unknown",
}
"""Reasons of a terminated container that the node gives, not the program."""
_SHOWN = '{"good": 980, "bad": 20}'


def facts(job: Json, pods: Iterable[Json], report: JobReport) -> JobFacts:
    """What has become of `job`; `pods` may hold others than its own, which are left out."""
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    own = [p for p in pods if any(o.get("uid") == uid for o in p["metadata"].get("ownerReferences") or ())]
    conditions = {
        c["type"]: c for c in (job.get("status") or {}).get("conditions") or () if c.get("status") == "True"
    }
    if "Complete" in conditions:
        return _complete(name, job, own, report)
    if "Failed" in conditions:
        return _failed(name, job, own, report, conditions["Failed"])
    if job["metadata"].get("deletionTimestamp"):
        return gone(name)
    if "Suspended" in conditions:
        fault = Fault(
            Reason.JOB_TROUBLE, f"Job {name} is suspended: leave suspend out of the jobTemplate's spec"
        )
        return JobFacts(name, JobPhase.WAITING, trouble=fault)
    running = any((p.get("status") or {}).get("phase") == "Running" for p in own)
    return JobFacts(name, JobPhase.RUNNING if running else JobPhase.WAITING, trouble=_waiting_for(own))


def gone(name: str) -> JobFacts:
    """A Job that was started and is no more, or is on its way out; a second one would be a second draw."""
    fault = Fault(
        Reason.JOB_TROUBLE,
        f"Job {name} was deleted before its result was read, and is not started twice: a Retry starts another",
    )
    return JobFacts(name, JobPhase.FAILED, trouble=fault)


def read_report(text: str) -> Counts | Fault:
    """The counts in a termination message: `{"good": INT, "bad": INT}` and nothing else. No word of it is repeated."""
    if len(text.encode(errors="surrogatepass")) > MAX_REPORT_BYTES:
        return _unreadable(f"is longer than {MAX_REPORT_BYTES} bytes")
    try:
        pairs = json.loads(text, object_pairs_hook=tuple, parse_constant=_no_number)
    except _NoNumber:
        return Fault(
            Reason.NOT_A_NUMBER, f"a count in the termination message is not a number: write {_SHOWN}"
        )
    except (ValueError, RecursionError):
        return _unreadable("is no JSON")
    # An object came as a tuple of its pairs, so that a name that stands there twice is not lost.
    if not isinstance(pairs, tuple) or sorted(key for key, _ in pairs) != ["bad", "good"]:
        return _unreadable("is no object of good and bad, each once")
    counts = dict(pairs)
    for key, value in counts.items():
        if type(value) is not int or not 0 <= value <= MAX_COUNT:
            detail = (
                f"{key} in the termination message is no whole number from 0 to {MAX_COUNT:,}: write {_SHOWN}"
            )
            return Fault(Reason.NOT_A_NUMBER, detail)
    return Counts(counts["good"], counts["bad"])


class _NoNumber(ValueError):
    """NaN or an infinity, which Python would read."""


def _no_number(_: str) -> NoReturn:
    raise _NoNumber


def _unreadable(what: str) -> Fault:
    return Fault(Reason.NO_DATA, f"the termination message {what}: write {_SHOWN}")


def _complete(name: str, job: Json, pods: list[Json], report: JobReport) -> JobFacts:
    if not (job.get("status") or {}).get("succeeded"):
        # `completions: 0` is complete at once, and nothing has run.
        detail = f"Job {name} is complete without a pod that succeeded: set completions in its template to 1"
        return JobFacts(name, JobPhase.FAILED, trouble=Fault(Reason.JOB_TROUBLE, detail))
    if report is JobReport.EXIT_CODE:
        return JobFacts(name, JobPhase.SUCCEEDED)
    found = _reported(pods)
    if isinstance(found, Fault):
        return JobFacts(name, JobPhase.SUCCEEDED, trouble=Fault(found.reason, f"Job {name}: {found.detail}"))
    return JobFacts(name, JobPhase.SUCCEEDED, good=found.good, bad=found.bad)


def _reported(pods: list[Json]) -> Counts | Fault:
    """What the container that ended last wrote. Ends are known to the second only."""
    succeeded = [p for p in pods if (p.get("status") or {}).get("phase") == "Succeeded"]
    if len(succeeded) != 1:
        detail = f"{len(succeeded)} of its pods are there with a report, where one is meant: let one pod report all"
        return Fault(Reason.NO_DATA, detail)
    ends = [end for status in _statuses(succeeded[0]) if (end := _terminated(status)) is not None]
    newest = max((str(end.get("finishedAt") or "") for end in ends), default="")
    said = [text for end in ends if (end.get("finishedAt") or "") == newest and (text := end.get("message"))]
    if not said:
        return Fault(
            Reason.NO_DATA, f"the container that ended last wrote no termination message: write {_SHOWN}"
        )
    if len(said) > 1:
        return Fault(
            Reason.NO_DATA, "several containers ended last and wrote a termination message: let one do it"
        )
    return read_report(said[0])


def _failed(name: str, job: Json, pods: list[Json], report: JobReport, condition: Json) -> JobFacts:
    why = str(condition.get("reason") or "no reason")
    failed = sorted(
        (p for p in pods if (p.get("status") or {}).get("phase") == "Failed"),
        key=lambda p: str(p["metadata"].get("creationTimestamp")),
    )
    codes = [code for pod in failed if (code := _own_exit_code(pod)) is not None]
    if report is JobReport.EXIT_CODE and _proven(why, job, failed, len(codes)):
        return JobFacts(name, JobPhase.FAILED, exit_code=codes[-1])
    code = codes[-1] if codes else None
    if report is JobReport.COUNTS and code is not None:
        detail = f"Job {name} ended with exit code {code} instead of reporting counts; see its log"
    else:
        detail = f"Job {name} failed ({why}), and no exit code of its own proves that the version did; see its Events"
    return JobFacts(name, JobPhase.FAILED, exit_code=code, trouble=Fault(Reason.JOB_TROUBLE, detail))


def _proven(why: str, job: Json, failed: list[Json], by_exit_code: int) -> bool:
    """Whether exit codes alone made the Job fail, whatever else the cluster did meanwhile."""
    match why:
        case "BackoffLimitExceeded":
            limit = job["spec"].get("backoffLimit")
            return by_exit_code > (DEFAULT_BACKOFF_LIMIT if limit is None else limit)
        case "PodFailurePolicy":
            return bool(failed) and _own_exit_code(failed[-1]) is not None
        case _:
            return False


def _own_exit_code(pod: Json) -> int | None:
    """The exit code with which a pod failed by itself: of the container that failed first. None where the cluster ended it."""
    status = pod.get("status") or {}
    disrupted = any(
        c["type"] == "DisruptionTarget" and c["status"] == "True" for c in status.get("conditions") or ()
    )
    # A reason of the pod's own is Evicted, Preempting, NodeLost, DeadlineExceeded, …
    if pod["metadata"].get("deletionTimestamp") or disrupted or status.get("reason"):
        return None
    ends = [end for one in _statuses(pod, init=True) if (end := _terminated(one)) is not None]
    if any(end.get("reason") in _NOT_ITS_OWN_END for end in ends):
        return None
    bad = [end for end in ends if end.get("exitCode", 0) != 0]
    return int(min(bad, key=lambda end: str(end.get("finishedAt") or ""))["exitCode"]) if bad else None


def _waiting_for(pods: list[Json]) -> Fault | None:
    pending = [p for p in pods if (p.get("status") or {}).get("phase", "Pending") == "Pending"]
    return next((fault for p in pending if (fault := trouble(p)) is not None), None)


def _statuses(pod: Json, *, init: bool = False) -> list[Json]:
    status = pod.get("status") or {}
    first = (status.get("initContainerStatuses") or ()) if init else ()
    return [*first, *(status.get("containerStatuses") or ())]


def _terminated(status: Json) -> Json | None:
    ended: Json | None = (status.get("state") or {}).get("terminated")
    return ended
