"""`status --wait`: is there a verdict yet on the revision that the workload carries now? Pure.

The trap is the release before: right after `kubectl apply` the Rollout still reports its success. So a status
counts only when it has seen the Deployment's generation that was read here; then all is about that revision.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from gatewright_cli.errors import Exit
from gatewright_cli.kube import Object

STALLED_FOR = timedelta(seconds=10)
"""How long Stalled must stand before waiting is given up: objects applied together appear one by one."""

_GOING_BACK = frozenset(("RollingBack", "Restoring"))


@dataclass(frozen=True)
class Target:
    """What is waited for: the template as it was read, then the revision that the operator calls it by."""

    generation: int
    template: Object
    revision: str = ""


@dataclass(frozen=True)
class Finding:
    """Where the wait stands. `code` None: go on. `provisional`: it ends the wait only if it stays so."""

    code: Exit | None
    sentence: str
    provisional: bool = False


def look(
    target: Target | None, image: str | None, rollout: Object, deployment: Object | None
) -> tuple[Target | None, Finding]:
    """One look. The target is fixed at the first one (with `image`: once the workload carries it)."""
    name = rollout.get("metadata", {}).get("name", "")
    if rollout.get("metadata", {}).get("deletionTimestamp"):
        return target, Finding(Exit.ERROR, f"Rollout {name} is being deleted.")
    if target is None:
        if deployment is None:
            return None, _unless_stalled(rollout, "The workload of this Rollout does not exist.")
        if image is not None and not carries(deployment, image):
            return None, _go_on(f"Waiting for the workload to carry {image}.")
        target = Target(generation_of(deployment), template_of(deployment))
    if not target.revision:
        target, finding = _identify(target, rollout, deployment)
        if finding is not None:
            return target, finding
    return target, judge(target.revision, rollout)


def generation_of(obj: Object) -> int:
    return int(obj.get("metadata", {}).get("generation", 0))


def template_of(deployment: Object) -> Object:
    template: Object = deployment.get("spec", {}).get("template", {})
    return template


def carries(deployment: Object, image: str) -> bool:
    """Does a container of the template run `image`: the same reference, or the same digest?"""
    spec = template_of(deployment).get("spec", {})
    images = [str(container.get("image", "")) for container in spec.get("containers", [])]
    return any(
        each == image or (image.startswith("sha256:") and each.endswith(f"@{image}")) for each in images
    )


def is_current(rollout: Object, generation: int) -> bool:
    """Does the status speak about the workload at `generation` or later, and about the Rollout's own spec?"""
    status = rollout.get("status", {})
    return int(status.get("observedWorkloadGeneration", 0)) >= generation and int(
        status.get("observedGeneration", 0)
    ) >= generation_of(rollout)


def _identify(target: Target, rollout: Object, deployment: Object | None) -> tuple[Target, Finding | None]:
    """Learn the revision's name from the first status that has seen the template; a Finding until then."""
    status = rollout.get("status", {})
    if not is_current(rollout, target.generation) or not status.get("observedRevision"):
        return target, _unless_stalled(
            rollout, "Waiting for the operator to look at the workload as it is now."
        )
    seen = int(status["observedWorkloadGeneration"])
    if seen > target.generation:
        # Scaling and un-pausing count generations too: only another template is another release.
        if deployment is None or generation_of(deployment) < seen:
            return target, _go_on("Waiting for a second look at the workload, which has just changed.")
        if template_of(deployment) != target.template:
            return target, Finding(
                Exit.SUPERSEDED,
                f"Superseded: the workload carries revision {status['observedRevision']} by now, "
                "not what it carried when the wait began.",
            )
    return replace(target, revision=str(status["observedRevision"])), None


def judge(revision: str, rollout: Object) -> Finding:
    """What the status says about `revision`, whatever the workload carries by now."""
    status = rollout.get("status", {})
    phase = status.get("phase", "")
    observed = status.get("observedRevision", "")
    stable = (status.get("stable") or {}).get("revision", "")
    rejected = (status.get("rejected") or {}).get("revision", "")
    message = status.get("message", "")
    if phase in _GOING_BACK:
        return _go_on(message)
    if observed != revision:
        if rejected == revision:
            return Finding(Exit.ROLLED_BACK, _because(f"Revision {revision} was rolled back", rollout))
        return Finding(
            Exit.SUPERSEDED,
            f"Superseded: the workload carries revision {observed or 'unknown'} by now, not {revision}.",
        )
    if phase == "Held":
        hold = status.get("hold") or {}
        why = hold.get("message") or hold.get("reason") or message
        return Finding(Exit.HELD, f"Revision {revision} is held: {why}")
    if phase == "Idle" and stable == revision:
        return Finding(Exit.OK, f"Promoted: revision {revision} is stable.")
    if phase == "RolledBack" or (phase == "Idle" and rejected == revision):
        return Finding(Exit.ROLLED_BACK, _because(f"Revision {revision} was rolled back", rollout))
    return _unless_stalled(rollout, message)


def _because(what: str, rollout: Object) -> str:
    status = rollout.get("status", {})
    rejected = status.get("rejected") or {}
    why = rejected.get("message") or rejected.get("reason") or status.get("message", "")
    return f"{what}: {why}" if why else f"{what}."


def _go_on(sentence: str) -> Finding:
    return Finding(None, sentence)


def _unless_stalled(rollout: Object, sentence: str) -> Finding:
    for condition in rollout.get("status", {}).get("conditions", []):
        if condition.get("type") == "Stalled" and condition.get("status") == "True":
            why = condition.get("message") or condition.get("reason", "")
            return Finding(Exit.ERROR, f"Nothing moves: {why}", provisional=True)
    return _go_on(sentence)
