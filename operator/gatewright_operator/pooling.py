"""Evidence of earlier runs, as a run goes on with it: of earlier attempts, of earlier steps, of earlier draws."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from gatewright_analysis.evidence.model import Counts, Window
from gatewright_analysis.evidence.packed import record_of, windows_of
from gatewright_analysis.kinds.run import GateRunSpec
from gatewright_analysis.ledger import Draw, Drawn
from gatewright_analysis.task import Prior
from gatewright_operator.api import Api
from gatewright_operator.cache import Cache
from gatewright_operator.evidence_store import digest_of
from gatewright_operator.resources import CONFIGMAPS, GATE_RUNS

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stored:
    """By name of the run: the GateRun and its evidence ConfigMap, for runs that left evidence."""

    runs: Mapping[str, tuple[Json, Json]]

    @classmethod
    async def read(cls, api: Api, cache: Cache, namespace: str, names: Iterable[str]) -> Self:
        found: dict[str, tuple[Json, Json]] = {}
        for name in names:
            raw = cache.get(GATE_RUNS, namespace, name)
            reference = ((raw or {}).get("status") or {}).get("evidence")
            stored = await api.get(CONFIGMAPS, namespace, reference["configMap"]) if reference else None
            if raw is not None and stored is not None:
                found[name] = (raw, stored)
        return cls(found)

    @property
    def digests(self) -> dict[str, str]:
        """sha256 of each run's evidence."""
        return {name: digest_of(evidence) for name, (_, evidence) in self.runs.items()}

    def windows(self, check: str) -> tuple[Window, ...]:
        """All closed windows of one check, run after run."""
        return tuple(w for _, evidence in self.runs.values() for w in windows_of(evidence, check))

    def attempts(self, spec: GateRunSpec, check: str) -> tuple[Prior, ...]:
        """What earlier attempts at the step of `spec` saw of one check."""
        return tuple(
            _prior(name, run, evidence, check)
            for name, (run, evidence) in self.runs.items()
            if _same_step(run, spec)
        )

    def draws(self, spec: GateRunSpec, check: str, drawn: Drawn) -> tuple[Prior, ...] | None:
        """What a sampled check's draws rest on, and what attempts saw that were no draw; None where that is lost.

        Where evidence went with its Rollout, the ledger's counts do: the last draw's hold those of all before it.
        """
        runs = {draw.run for draw in drawn.draws}
        if runs <= self.runs.keys():
            others = (
                _prior(name, run, evidence, check)
                for name, (run, evidence) in self.runs.items()
                if name not in runs and _same_step(run, spec)
            )
            spent = (
                Prior.of(record_of(self.runs[d.run][1], check), ticket_used=d.ticket_used, run=d.run)
                for d in drawn.draws
            )
            return (*spent, *others)
        counted = _counts(drawn.last)
        return None if counted is None else (Prior((counted,), ticket_used=True),)


def _counts(draw: Draw) -> Window | None:
    """A draw's samples as one window; None for scores and repeated items, which counts do not tell."""
    found = draw.result.statistics
    if found is None or found.clusters is not None or found.total is not None:
        return None
    return Window(0, Counts(found.s, found.f), missing=found.missing)


def _same_step(run: Json, spec: GateRunSpec) -> bool:
    return (run["spec"]["revision"], run["spec"]["step"]) == (spec.revision, spec.step)


def _prior(name: str, run: Json, evidence: Json, check: str) -> Prior:
    results = run["status"]["verdict"].get("checks", ())
    used = any(r["id"] == check and (r.get("statistics") or {}).get("ticketUsed", False) for r in results)
    return Prior.of(record_of(evidence, check), ticket_used=used, run=name)
