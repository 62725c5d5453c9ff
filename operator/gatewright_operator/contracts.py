"""Contracts as a Rollout is judged by them: the present one, the pinned one, and what stands against them."""

import logging
from typing import Any

from pydantic import ValidationError

from gatewright_analysis.feasibility import findings
from gatewright_analysis.kinds.contract import GateContract, GateContractSpec
from gatewright_analysis.kinds.rollout import Rollout
from gatewright_analysis.kinds.source import MetricSource
from gatewright_analysis.ledger import ContractTooLarge, canonical_contract
from gatewright_analysis.names import WRITTEN_BY, is_person
from gatewright_analysis.reasons import Reason
from gatewright_operator.cache import Cache
from gatewright_operator.ledger_store import LedgerStore
from gatewright_operator.plan.snapshot import PinnedContract, Problem
from gatewright_operator.resources import GATE_CONTRACTS, METRIC_SOURCES
from gatewright_operator.world import World

log = logging.getLogger(__name__)

Json = dict[str, Any]


class Contracts:
    """Reads contracts and sources from the cache, pinned contracts from the ledger."""

    def __init__(self, cache: Cache, ledger: LedgerStore) -> None:
        self._cache = cache
        self._ledger = ledger

    def present(self, rollout: Rollout) -> tuple[PinnedContract | None, Problem | None]:
        """The contract as it is now, or why it can't be used."""
        name = rollout.spec.contract_ref.name
        raw = self._cache.get(GATE_CONTRACTS, rollout.metadata.namespace, name)
        if raw is None:
            return None, Problem(
                Reason.CONTRACT_NOT_FOUND,
                f"GateContract {name} does not exist in {rollout.metadata.namespace}; create it or correct contractRef.",
            )
        try:
            parsed = GateContract.model_validate(raw)
            digest = canonical_contract(parsed.spec).digest
        except ContractTooLarge as error:
            return None, Problem(Reason.CONTRACT_TOO_LARGE, str(error))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            return None, Problem(Reason.CONTRACT_INVALID, f"GateContract {name}: {where}: {first['msg']}")
        writer = (raw["metadata"].get("annotations") or {}).get(WRITTEN_BY, "")
        proven = writer if is_person(writer) else ""
        return PinnedContract(name, parsed.metadata.generation, digest, parsed.spec, proven), None

    def pinned(self, world: World, present: PinnedContract | None) -> PinnedContract | None:
        """The contract that the attempt on its way is judged by, whatever became of it since."""
        canary = world.parsed.status.canary
        if canary is None or canary.contract_digest is None:
            return None
        if present is not None and present.digest == canary.contract_digest:
            return present
        return self.by_digest(world.namespace, world.name, canary.contract_digest)

    def by_digest(self, namespace: str, rollout: str, digest: str) -> PinnedContract | None:
        """A contract as the ledger keeps it; titles and hints are not part of it."""
        body = self._ledger.contract(namespace, rollout, digest)
        if body is None:
            return None
        return PinnedContract(
            body["name"], body["generation"], digest, GateContractSpec.model_validate(body["spec"])
        )

    def findings(
        self, contract: PinnedContract, rollout: Rollout, namespace_labels: dict[str, str]
    ) -> tuple[Problem, ...]:
        """What `feasibility` has against starting by this contract."""
        sources = {s.metadata.name: s for s in self._sources()}
        found = findings(contract.spec, rollout.spec, sources, namespace_labels)
        return tuple(Problem(reason, sentence) for reason, sentence in found)

    def _sources(self) -> list[MetricSource]:
        found = []
        for raw in self._cache.all(METRIC_SOURCES):
            try:
                found.append(MetricSource.model_validate(raw))
            except ValidationError as error:
                log.warning(
                    "MetricSource does not parse",
                    extra={"source": raw["metadata"]["name"], "error": str(error)},
                )
        return found
