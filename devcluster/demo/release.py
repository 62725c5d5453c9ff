"""One release under way: changed by the developer, watched until it ends, and what its ledger says."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from devcluster.demo.look import Looker
from devcluster.demo.stage import Json, Stage
from devcluster.demo.view import View

_LOOK_SECONDS = 0.25


class WrongEnd(Exception):
    """A release did not end as it should have; the message says how it did."""


class Ending(StrEnum):
    """How a release can end, or come to a stand."""

    PROMOTED = "promoted"
    ROLLED_BACK = "rolled back"
    HELD = "held"


class Release:
    """A new version of the service, from the change of its template on."""

    def __init__(self, stage: Stage, view: View, version: str, env: Mapping[str, str]) -> None:
        """Changes the template, as the developer."""
        self.version = version
        self._stage, self._view = stage, view
        self._before: Json = stage.rollout().get("status") or {}
        self._answered: set[str] = set()
        self._looker = Looker(stage)
        self.audit = stage.audit()
        self.began = time.time()
        settings = [f"{key}={value}" for key, value in {"VERSION": version, **env}.items()]
        developer = stage.people.developer
        view.say(f"$ kubectl set env deployment/checkout {' '.join(settings)}    # as {developer.name}")
        developer.kubectl("set", "env", "deployment/checkout", *settings)

    @property
    def seconds(self) -> float:
        """Since the template was changed."""
        return time.time() - self.began

    def wait_for(self, wanted: Ending, *, seconds: float) -> Json:
        """The Rollout's status once the release has come to this end; everything on the way is shown.

        Raises:
            WrongEnd: it came to another end, or to none in this time.
        """
        deadline = time.monotonic() + seconds
        while True:
            rollout = self._stage.rollout()
            status: Json = rollout.get("status") or {}
            if not self._is_of_before(status):
                self._view.show(self._looker.look(rollout))
            ending = self._ending(status)
            if ending is wanted:
                self._view.clear()
                return status
            if ending is not None:
                raise WrongEnd(f"{self.version} should be {wanted}, and is {ending}: {status.get('message')}")
            if time.monotonic() > deadline:
                raise WrongEnd(
                    f"{self.version} should be {wanted} within {seconds:.0f} s, and is {status.get('phase')}: "
                    f"{status.get('message')}"
                )
            time.sleep(_LOOK_SECONDS)

    def decided(self, status: Json) -> None:
        """A person has answered the hold of `status`: from here on it is no end any more."""
        self._answered.add(status["hold"]["run"])

    def run(self, status: Json) -> Json:
        """The verdict that `status` rests on, whole."""
        run = self._stage.run(status["verdict"]["run"]).get("status") or {}
        verdict: Json = run.get("breach") or run["verdict"]
        return verdict

    def expect_in_ledger(self, status: Json, *kinds: str) -> None:
        """Raises WrongEnd unless the ledger has entries of these kinds for this version, in this order."""
        entries = json.loads(self._stage.people.admin.gate("ledger", "show", "checkout", "-o", "json"))
        revision = status["observedRevision"]
        found = [str(entry["key"]["kind"]) for entry in entries if entry["key"]["revision"] == revision]
        if not _in_order(kinds, found):
            raise WrongEnd(
                f"{self.version}: the ledger should tell of {', '.join(kinds)}, and tells of {', '.join(found)}."
            )

    def _is_of_before(self, status: Json) -> bool:
        """Whether it still speaks of the release before."""
        return bool(status.get("observedRevision") == self._before.get("observedRevision"))

    def _ending(self, status: Json) -> Ending | None:
        """None while it is under way."""
        revision = status.get("observedRevision")
        if self._is_of_before(status):
            return None
        match status.get("phase"):
            case "Held" if status["hold"]["run"] not in self._answered:
                return Ending.HELD
            case "RolledBack" if _revision(status, "rejected") == revision:
                return Ending.ROLLED_BACK
            case "Idle" if _revision(status, "stable") == revision:
                return Ending.PROMOTED
            case _:
                return None


def _revision(status: Json, of: str) -> Any:
    return (status.get(of) or {}).get("revision")


def _in_order(wanted: Sequence[str], found: Iterable[str]) -> bool:
    rest = iter(found)
    return all(kind in rest for kind in wanted)
