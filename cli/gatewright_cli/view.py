"""What `status` and `review` look at: a Rollout with its workload and its gate run, read through kubectl."""

from dataclasses import dataclass
from typing import Any

from gatewright_cli.errors import GateError, NotFound
from gatewright_cli.kube import Kube, Object, path
from gatewright_cli.wait import generation_of, is_current

UNPROVEN = "unproven"


@dataclass(frozen=True)
class View:
    """`deployment` and `run` are None where there is none, or where it can't be read (`unread` says why)."""

    rollout: Object
    deployment: Object | None = None
    run: Object | None = None
    unread: tuple[str, ...] = ()

    @property
    def status(self) -> Object:
        status: Object = self.rollout.get("status") or {}
        return status

    @property
    def spec(self) -> Object:
        spec: Object = self.rollout.get("spec") or {}
        return spec

    @property
    def name(self) -> str:
        return str(self.rollout["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.rollout["metadata"]["namespace"])

    @property
    def phase(self) -> str:
        return str(self.status.get("phase") or "")

    @property
    def hold(self) -> Object | None:
        """The hold in force, None when nothing is held now."""
        hold: Object | None = self.status.get("hold") if self.phase == "Held" else None
        return hold or None

    @property
    def up_to_date(self) -> bool | None:
        """Has the operator seen the workload as it is now? None when we could not read the workload."""
        return None if self.deployment is None else is_current(self.rollout, generation_of(self.deployment))

    @property
    def checks(self) -> list[Object]:
        return checks_of(self.run)


class Reader:
    """Reads a View again and again; from the second time on, all objects at once."""

    def __init__(self, kube: Kube, name: str) -> None:
        self._kube = kube
        self._name = name
        self._last: Object | None = None

    def read(self) -> View:
        """Raises GateError when the Rollout itself can't be read; the others may be missing."""
        if self._last is None:
            rollout = self._kube.rollout(self._name)
            others = self._kube.get_all(self._paths(rollout))
        else:
            namespace = self._last["metadata"]["namespace"]
            answers = self._kube.get_all([path("rollouts", namespace, self._name), *self._paths(self._last)])
            if isinstance(answers[0], GateError):
                raise answers[0]
            rollout, others = answers[0], answers[1:]
        self._last = rollout
        deployment = others[0]
        run = others[1] if len(others) > 1 else None
        unread = [
            each.sentence for each in others if isinstance(each, GateError) and not isinstance(each, NotFound)
        ]
        return View(
            rollout,
            None if isinstance(deployment, GateError) else deployment,
            None if isinstance(run, GateError) else run,
            tuple(unread),
        )

    @staticmethod
    def _paths(rollout: Object) -> list[str]:
        namespace = rollout["metadata"]["namespace"]
        paths = [path("deployments", namespace, rollout["spec"]["workloadRef"]["name"])]
        run = run_name(rollout.get("status") or {})
        return [*paths, path("gateruns", namespace, run)] if run else paths


def run_name(status: Object) -> str:
    """The run that matters now: what is held, else what runs, else what gave the last verdict."""
    hold = (status.get("hold") or {}) if status.get("phase") == "Held" else {}
    verdict = status.get("verdict") or {}
    return str(hold.get("run") or status.get("run") or verdict.get("run") or "")


def checks_of(run: Object | None) -> list[Object]:
    """The checks of a run's verdict, or of a breach or of more that blocks, which came after it. Empty while it has none."""
    if run is None:
        return []
    status = run.get("status") or {}
    verdict = status.get("breach") or status.get("held") or status.get("verdict") or {}
    checks: list[Object] = verdict.get("checks") or []
    return checks


def proven(initiator: object) -> str:
    """Who started a change, or `unproven`: a service account or a controller acted for somebody unknown."""
    name = str(initiator or "")
    return UNPROVEN if not name or name.startswith("system:") else name


def step_word(steps: list[Any], key: object) -> str:
    """The human word for a step key: `step 2 of 6`, `bake`."""
    text = str(key)
    return f"step {int(text) + 1} of {len(steps)}" if text.isdecimal() else text


def good_ratio(check: Object) -> float | None:
    """The share of good events or samples as estimated, in 0..1; None when there is none."""
    score = check.get("score")
    if isinstance(score, int | float) and not isinstance(score, bool):
        return float(score)
    statistics = check.get("statistics") or {}
    count = statistics.get("n") or 0
    return statistics.get("s", 0) / count if count else None
