"""What sampled checks have come to: samples that were spent are spent, under whatever Rollout, step or attempt
(statistics.md R2, R3, section 8).

A draw is one result of a sampled check that rests on its own samples. On the same artifact, configuration, contract
and world it stands for every later question; more samples come by a person's order alone, and are added to it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from gatewright_analysis.kinds.contract import OracleKind, Stage
from gatewright_analysis.reasons import Reason
from gatewright_analysis.verdict import Change, CheckResult, CheckStatus, Verdict

MOST_DRAWS: Final = 3
"""Attempts on one artifact, contract and world: one planned look, and twice more samples."""
FAMILY_SIZE: Final = 3
"""Artifacts that share one chance of a false promotion where `attempts.errorBudget` is Family."""


class DrawKey(NamedTuple):
    """What a draw was made on. Change one of them, and it says nothing of what is there now."""

    check: str
    artifact: str
    contract: str
    world: str


class FamilyKey(NamedTuple):
    """What the artifacts of one family have in common: the check, the contract, the world but for their images."""

    check: str
    contract: str
    surroundings: str


@dataclass(frozen=True, slots=True)
class Draw:
    """One result of a sampled check that its own samples were spent on."""

    result: CheckResult
    run: str
    stage: Stage
    ticket_used: bool


@dataclass(frozen=True, slots=True)
class Drawn:
    """All draws on one key that count at one place, oldest first; never empty."""

    draws: tuple[Draw, ...]

    @property
    def last(self) -> Draw:
        """It rests on the samples of all before it, too."""
        return self.draws[-1]

    @property
    def attempts(self) -> int:
        return len(self.draws)

    @property
    def ticket_used(self) -> bool:
        return any(draw.ticket_used for draw in self.draws)

    @property
    def more_may_come(self) -> bool:
        """A person may order more samples: it has not passed, and there are attempts left."""
        return self.last.result.status is not CheckStatus.PASS and self.attempts < MOST_DRAWS


@dataclass(frozen=True, slots=True)
class Draws:
    """The draws that a ledger remembers, of all Rollouts that have had its name."""

    by_key: Mapping[DrawKey, tuple[Draw, ...]] = field(default_factory=dict)
    families: Mapping[FamilyKey, tuple[str, ...]] = field(default_factory=dict)
    """Artifacts that were drawn on, since the last release that was completed or the last person's order."""

    def on(self, key: DrawKey, stages: Collection[Stage], *, but: str = "") -> Drawn | None:
        """What was drawn on `key` with the evidence of these stages, other than by the run `but`; None for nothing.

        Canary and Bake are one where the contract gives them the same evidence entry.
        """
        found = tuple(d for d in self.by_key.get(key, ()) if d.stage in stages and d.run != but)
        return Drawn(found) if found else None

    def family_is_full(self, key: FamilyKey, artifact: str) -> bool:
        """As many other artifacts were drawn on as may share one chance."""
        return len([other for other in self.families.get(key, ()) if other != artifact]) >= FAMILY_SIZE

    def judged(self, verdict: Verdict) -> "Draws":
        """With the draws of a verdict, or of a breach after it: what a run spent first is what it spent.

        What passed while the world changed proves nothing of the one that the run was bound to; what failed is kept.
        """
        change, drifted = verdict.change, verdict.reason == Reason.WORLD_DRIFTED
        if change.artifact_digest is None:
            return self
        artifact = artifact_of(change.artifact_digest, change.config_digest)
        by_key, families = dict(self.by_key), dict(self.families)
        for result in (given.without_waiver for given in verdict.checks):
            if not spent(result) or (drifted and result.status is CheckStatus.PASS):
                continue
            key = draw_key(result.id, artifact, change.contract_digest, change.world_snapshot)
            before = by_key.get(key, ())
            if any(draw.run == verdict.run_id for draw in before):
                continue
            used = result.statistics is not None and result.statistics.ticket_used
            by_key[key] = (*before, Draw(result, verdict.run_id, verdict.stage, used))
            family = family_key(result.id, change)
            known = families.get(family, ())
            families[family] = known if artifact in known else (*known, artifact)
        return replace(self, by_key=by_key, families=families)

    def completed(self) -> "Draws":
        """A release is over: what comes next is another family. Draws stay what they are."""
        return replace(self, families={})

    def reopened(self, verdict: Verdict) -> "Draws":
        """A person orders another attempt at what was held because a family was full."""
        full = {
            family_key(r.id, verdict.change)
            for r in verdict.checks
            if r.without_waiver.reason == Reason.SAMPLES_EXHAUSTED
        }
        return (
            replace(self, families={k: v for k, v in self.families.items() if k not in full})
            if full
            else self
        )


def draw_key(check: str, artifact: str, contract: str, world: str) -> DrawKey:
    """The key of a draw: id of the check, `artifact_of` the version, contract digest, world snapshot."""
    return DrawKey(check, artifact, contract, world)


def artifact_of(artifact_digest: str, config_digest: str | None) -> str:
    """What is judged: the images, and what the template tells them besides (statistics.md section 8)."""
    return f"{artifact_digest}+{config_digest}" if config_digest else artifact_digest


def family_key(check: str, change: Change) -> FamilyKey:
    return FamilyKey(check, change.contract_digest, change.surroundings or "")


def spent(result: CheckResult) -> bool:
    """Samples of its own have decided it: passed, failed, or its one planned look proved neither."""
    if result.oracle_kind is not OracleKind.SAMPLED or result.cached_from or result.statistics is None:
        return False
    if result.status in (CheckStatus.PASS, CheckStatus.FAIL):
        return True
    return result.status is CheckStatus.BELOW_THRESHOLD and result.statistics.ticket_used


def runs_of(found: Iterable[Drawn]) -> tuple[str, ...]:
    """The runs that drew, oldest first, each once."""
    return tuple(dict.fromkeys(draw.run for one in found for draw in one.draws))
