"""A review in somebody else's name, written past the plugin: what the API server has to refuse."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from devcluster.demo.people import NAMESPACE, Person
from devcluster.demo.release import WrongEnd
from devcluster.demo.stage import Json
from devcluster.errors import DevclusterError


def forge(author: Person, rollout: Json, *, in_the_name_of: str, reason: str) -> str:
    """`author` signs an approval of what is held with another's name; what the API server says to that.

    Raises WrongEnd when it was let through.
    """
    path = author.kubeconfig.parent / f"{author.name}-forged-review.json"
    path.write_text(json.dumps(_review(rollout, in_the_name_of, reason)))
    return refused(author.kubectl, "create", "-f", str(path))


def refused(command: Callable[..., str], *words: str) -> str:
    """What was said to a command that must fail. Raises WrongEnd when it did not."""
    try:
        said = command(*words)
    except DevclusterError as error:
        return str(error)
    raise WrongEnd(f"This should have been refused, and was not: {' '.join(words)}: {said}")


def sentence(complaint: str) -> str:
    """The policy's own sentence in what kubectl printed."""
    return complaint.rpartition("denied request: ")[2].strip()


def _review(rollout: Json, reviewer: str, reason: str) -> Json:
    """All as it should be, but for the name."""
    status = rollout["status"]
    hold = status["hold"]
    return {
        "apiVersion": "gatewright.dev/v1alpha1",
        "kind": "GateReview",
        "metadata": {"generateName": "checkout-", "namespace": NAMESPACE},
        "spec": {
            "rollout": rollout["metadata"]["name"],
            "rolloutUID": rollout["metadata"]["uid"],
            "run": hold["run"],
            "revision": status["canary"]["revision"],
            "step": hold["step"],
            "evidenceDigest": hold["evidenceDigest"],
            "worldSnapshot": hold["worldSnapshot"],
            "checks": hold["blocking"],
            "decision": "Approve",
            "reviewer": reviewer,
            "groups": ["system:authenticated"],
            "reason": reason,
            "expiresAt": (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
    }
