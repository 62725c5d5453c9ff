"""What a run need not ask again: the results of sampled checks that the ledger remembers for the same artifact,
configuration, contract and world (statistics.md R2, R3, section 8)."""

from gatewright_analysis.explain import clip
from gatewright_analysis.kinds.contract import Check, GateContractSpec, OracleKind
from gatewright_analysis.kinds.policy import ErrorBudget
from gatewright_analysis.kinds.run import GateRunSpec
from gatewright_analysis.ledger import (
    MOST_DRAWS,
    Drawn,
    Draws,
    FamilyKey,
    artifact_digest,
    artifact_of,
    draw_key,
    world_snapshot,
)
from gatewright_analysis.ledger.draws import FAMILY_SIZE, spent
from gatewright_analysis.reasons import Reason
from gatewright_analysis.task import required
from gatewright_analysis.verdict import CheckResult, CheckStatus


def judged_artifact(spec: GateRunSpec) -> str | None:
    """Digest of the images that a run judges; None where no pod has said what it runs: then nothing is the same."""
    if not spec.images:
        return None
    return artifact_digest((i.container, i.digest or i.image) for i in spec.images)


def surroundings(spec: GateRunSpec) -> str:
    """Digest of the world of a run without the version's own images."""
    return world_snapshot((), ((f.name, f.value) for f in spec.fingerprints), spec.world)


def drawn(check: Check, spec: GateRunSpec, draws: Draws, *, but: str = "") -> Drawn | None:
    """What other runs than `but` have drawn for `check` on what the run judges; None for nothing, and for every check
    that is not sampled."""
    entry, artifact = check.evidence_at(spec.stage), judged_artifact(spec)
    if check.oracle_kind is not OracleKind.SAMPLED or entry is None or artifact is None:
        return None
    key = draw_key(
        check.id, artifact_of(artifact, spec.config_digest), spec.contract_digest, spec.world_snapshot
    )
    return draws.on(key, entry.stages, but=but)


def standing(
    check: Check, contract: GateContractSpec, spec: GateRunSpec, draws: Draws, *, run: str
) -> CheckResult | None:
    """The result that stands for `check` at the run named `run` before it looks at anything; None where it may look.

    The run's own verdict is not what it takes its answer from: it goes on judging during its own HOLD.
    """
    found = drawn(check, spec, draws, but=run)
    if found is not None:
        return None if spec.more_samples and found.more_may_come else cached(check, spec, found)
    if contract.attempts.error_budget is ErrorBudget.FAMILY and _family_is_full(check, spec, draws):
        return _exhausted(check, spec)
    return None


def more_may_come(result: CheckResult, found: Drawn | None) -> bool:
    """A person may order more samples of a check with this result; `found` is what was drawn before this run."""
    if result.cached_from:
        return found is not None and found.more_may_come
    before = 0 if found is None else found.attempts
    return spent(result) and result.status is not CheckStatus.PASS and before + 1 < MOST_DRAWS


def cached(check: Check, spec: GateRunSpec, found: Drawn) -> CheckResult:
    """The last draw, as the result of another run."""
    said = f"As {found.last.run} found on the same artifact, contract and world: {found.last.result.message}"
    if found.attempts >= MOST_DRAWS and found.last.result.status is not CheckStatus.PASS:
        said += f" All {MOST_DRAWS} attempts are used up."
    return found.last.result.model_copy(
        update={
            "cached_from": found.last.run,
            "message": clip(said),
            "require": required(check, spec.stage, last_gate=spec.last_gate),
        }
    )


def _family_is_full(check: Check, spec: GateRunSpec, draws: Draws) -> bool:
    artifact = judged_artifact(spec)
    if check.oracle_kind is not OracleKind.SAMPLED or artifact is None:
        return False
    key = FamilyKey(check.id, spec.contract_digest, surroundings(spec))
    return draws.family_is_full(key, artifact_of(artifact, spec.config_digest))


def _exhausted(check: Check, spec: GateRunSpec) -> CheckResult:
    return CheckResult(
        id=check.id,
        oracle_kind=check.oracle_kind,
        require=required(check, spec.stage, last_gate=spec.last_gate),
        tier=check.cost,
        status=CheckStatus.BELOW_THRESHOLD,
        reason=Reason.SAMPLES_EXHAUSTED,
        message=f"{FAMILY_SIZE} other artifacts were judged under this contract and world since the last release that "
        "was completed, and attempts.errorBudget Family lets no more share their chance; a person's Retry opens "
        "another three.",
        fix_hint=check.fix_hint,
    )
