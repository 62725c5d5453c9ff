"""The Job of one check at one gate, made from a CronJob's template as `kubectl create job --from=cronjob/NAME` does. Pure."""

import copy
import hashlib
from collections.abc import Iterator
from typing import Any

from gatewright_analysis.kinds.evidence import JobReport
from gatewright_analysis.kinds.run import GateRun
from gatewright_analysis.names import CHECK_LABEL, ROLLOUT_LABEL, RUN_LABEL
from gatewright_operator.apply import owner_reference
from gatewright_operator.resources import GATE_RUNS, JOBS

Json = dict[str, Any]

MAX_NAME = 63
"""A Job's name becomes a label of its pods, and a label's value has no more room."""
_HASH_DIGITS = 10


class UnusableTemplate(ValueError):
    """No Job can be made from this template; the message says what to change."""


def bounded(text: str) -> str:
    """`text` where it has at most 63 characters; else its beginning and a hash of the whole."""
    if len(text) <= MAX_NAME:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]
    return f"{text[: MAX_NAME - _HASH_DIGITS - 1].rstrip('-.')}-{digest}"


def job_name(run: str, check: str) -> str:
    """One Job per (GateRun, check): the same name each time it is asked for."""
    return bounded(f"{run}-{check}")


def environment(run: GateRun) -> dict[str, str]:
    """What a Job is told of the gate that it judges at; texts, empty where there is nothing to tell."""
    spec = run.spec
    return {
        "GATEWRIGHT_NAMESPACE": run.metadata.namespace,
        "GATEWRIGHT_ROLLOUT": spec.rollout,
        "GATEWRIGHT_REVISION": spec.revision,
        "GATEWRIGHT_STEP": spec.step,
        "GATEWRIGHT_WEIGHT": str(spec.weight),
        "GATEWRIGHT_CANARY_SERVICE": spec.canary.service,
        "GATEWRIGHT_STABLE_SERVICE": "" if spec.stable is None else spec.stable.service,
    }


def manifest(cron_job: Json, run: GateRun, check: str, report: JobReport) -> Json:
    """The Job of `check` at `run`; the template stays as it is but for the environment. Raises UnusableTemplate."""
    name, template = cron_job["metadata"]["name"], cron_job["spec"]["jobTemplate"]
    spec = copy.deepcopy(template["spec"])
    own = template.get("metadata") or {}
    several = [k for k in ("completions", "parallelism") if (spec.get(k) or 1) > 1]
    if report is JobReport.COUNTS and several:
        raise UnusableTemplate(
            f"CronJob {name} runs several pods ({several[0]}: {spec[several[0]]}), and counts are taken from one: "
            "leave out completions and parallelism, and let one pod report all counts"
        )
    given = environment(run)
    for container in _containers(spec):
        taken = [e["name"] for e in container.get("env") or () if e["name"] in given]
        if taken:
            raise UnusableTemplate(
                f"container {container['name']} of CronJob {name} sets {taken[0]} itself, which Gatewright sets for "
                "each gate: take it out of the template"
            )
        # First, so that the template's own variables may refer to these.
        ours = [{"name": key, "value": value} for key, value in given.items()]
        container["env"] = [*ours, *(container.get("env") or ())]
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": job_name(run.metadata.name, check),
            "namespace": run.metadata.namespace,
            "labels": {
                **(own.get("labels") or {}),
                ROLLOUT_LABEL: run.spec.rollout,
                RUN_LABEL: bounded(run.metadata.name),
                CHECK_LABEL: check,
            },
            "annotations": {
                **(own.get("annotations") or {}),
                "cronjob.kubernetes.io/instantiate": "manual",
            },
            "ownerReferences": [_owner(run)],
        },
        "spec": spec,
    }


def belongs_to(job: Json, run: GateRun) -> bool:
    """Whether it was made for this run: a name alone proves nothing."""
    owners = job["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == run.metadata.uid for owner in owners)


def _owner(run: GateRun) -> Json:
    metadata = {"name": run.metadata.name, "uid": run.metadata.uid}
    return owner_reference(
        {"apiVersion": GATE_RUNS.api_version, "kind": GATE_RUNS.kind, "metadata": metadata}
    )


def _containers(spec: Json) -> Iterator[Json]:
    pod = spec["template"]["spec"]
    yield from pod.get("initContainers") or ()
    yield from pod["containers"]
