"""The raw objects behind one snapshot: what `apply` writes back, each with the resourceVersion that was planned from."""

from dataclasses import dataclass, field
from typing import Any

from gatewright_analysis.kinds.rollout import Rollout

Json = dict[str, Any]


@dataclass(slots=True)
class World:
    """Read at one moment for one Rollout. `apply` replaces what it wrote by the server's answer, and nothing else does."""

    rollout: Json
    parsed: Rollout
    deployment: Json | None = None
    canary: Json | None = None
    stable_service: Json | None = None
    canary_service: Json | None = None
    route: Json | None = None
    ledger_refused: bool = False
    """The ledger did not take an entry in this reconcile: what else may be late does not try its patience again."""
    finalizers: list[str] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        return self.parsed.metadata.namespace

    @property
    def name(self) -> str:
        return self.parsed.metadata.name
