"""What the ledger remembers of sampled checks and of revisions in a row, and what a run takes from it."""

from typing import Any

import pytest

from gatewright_analysis.kinds.contract import Stage
from gatewright_analysis.kinds.run import GateRunSpec
from gatewright_analysis.ledger import (
    Draws,
    Entry,
    FamilyKey,
    Ledger,
    LedgerMemory,
    NewEntry,
    artifact_digest,
    config_digest,
    draw_key,
    fold,
    world_snapshot,
)
from gatewright_analysis.recall import drawn, more_may_come, standing, surroundings
from gatewright_analysis.verdict import CheckStatus
from tests import judging
from tests.unit.test_ledger import CANARY, DIGEST, STABLE, T0, key

NEW = "2222222222"
WORLD = "sha256:" + "b" * 64
BASE = "sha256:" + "c" * 64
IMAGE = ("app", "shop@sha256:" + "1" * 64)
ARTIFACT = artifact_digest([IMAGE])


def result(status: str = "below_threshold", **fields: Any) -> dict[str, Any]:
    spent = status == "below_threshold"
    return {
        "id": "faithfulness",
        "oracleKind": "Sampled",
        "require": "Pass",
        "status": status,
        "reason": "Passed" if status == "pass" else "BelowThreshold",
        "message": f"It was {status}.",
        "statistics": {"s": 180, "f": 20, "n": 200, "ticketUsed": spent},
    } | fields


def verdict(
    run: str, *results: dict[str, Any], change: dict[str, Any] | None = None, **fields: Any
) -> NewEntry:
    revision = fields.pop("revision", NEW)
    said = {
        "decision": "HOLD",
        "runId": run,
        "stage": "Canary",
        "step": "1",
        "attempt": 1,
        "startedAt": "2030-01-01T00:00:00Z",
        "finishedAt": "2030-01-01T00:10:00Z",
        "change": {
            "revision": revision,
            "contractDigest": DIGEST,
            "worldSnapshot": WORLD,
            "artifactDigest": ARTIFACT,
            "surroundings": world_snapshot(()),
        }
        | (change or {}),
        "checks": list(results),
        "evidenceDigest": DIGEST,
        "reason": "BelowThreshold",
    } | fields
    uid = said.pop("uid", "u1")
    kind = said.pop("kind", "Verdict")
    at = key(kind, step=said["step"], attempt=said["attempt"], cause=run, rollout_uid=uid, revision=revision)
    return NewEntry(at, T0, {"verdict": said})


def entry(kind: str, revision: str = NEW, body: dict[str, Any] | None = None, **fields: Any) -> NewEntry:
    return NewEntry(key(kind, revision=revision, **fields), T0, body or {})


def order(what: str, revision: str = NEW, **fields: Any) -> NewEntry:
    return entry(
        "Order", revision, {"spec": {"order": what}}, **({"cause": f"uid-{what}-{revision}"} | fields)
    )


def entries(*new: NewEntry) -> tuple[Entry, ...]:
    return Ledger().append(new).ledger.entries


def memory(*new: NewEntry, uid: str = "u1") -> LedgerMemory:
    return fold(entries(*new), rollout_uid=uid)


def spec(**fields: Any) -> GateRunSpec:
    values: dict[str, Any] = {
        "rollout": "shop",
        "rolloutUID": "u1",
        "revision": NEW,
        "step": "1",
        "weight": 50,
        "attempt": 2,
        "stage": "Canary",
        "contract": "shop",
        "contractGeneration": 1,
        "contractDigest": DIGEST,
        "worldSnapshot": WORLD,
        "images": [{"container": IMAGE[0], "image": "shop:2", "digest": IMAGE[1]}],
        "checks": ["faithfulness"],
        "clock": {
            "startsAt": "2030-01-01T00:00:00Z",
            "weightAt": "2030-01-01T00:00:00Z",
            "duration": "10m",
            "maxDuration": "20m",
            "window": "30s",
            "interval": "10s",
        },
        "canary": {"podPrefix": "shop-canary-"},
        "eProcesses": 1,
    }
    return GateRunSpec.model_validate(values | fields)


def stands(draws: Draws, *, run: str = "run-2", check: dict[str, Any] | None = None, **fields: Any) -> Any:
    contract = judging.contract(check or judging.sampled(), **fields.pop("contract", {}))
    return standing(contract.checks[0], contract, spec(**fields), draws, run=run)


class TestDraws:
    @pytest.mark.parametrize("status", ["pass", "fail", "below_threshold"])
    def test_a_result_that_spent_its_samples_stands_at_every_later_run(self, status: str) -> None:
        draws = memory(verdict("run-1", result(status))).draws
        [draw] = draws.by_key[draw_key("faithfulness", ARTIFACT, DIGEST, WORLD)]
        assert (draw.run, draw.stage, draw.result.status) == ("run-1", Stage.CANARY, CheckStatus(status))
        again = stands(draws, step="3")
        assert (again.status, again.cached_from) == (CheckStatus(status), "run-1")
        assert again.message.startswith("As run-1 found on the same artifact, contract and world: It was")
        assert again.samples == draw.result.samples

    @pytest.mark.parametrize(
        "given",
        [
            result("pending"),
            result("inconclusive"),
            result("below_threshold", statistics={"s": 9, "n": 9, "ticketUsed": False}),
            result("not_proven"),
            result("below_threshold", statistics=None),
            result("pass", cachedFrom="run-0"),
            result("pass", oracleKind="Deterministic"),
        ],
        ids=["pending", "inconclusive", "too few", "not proven", "no samples", "cached", "counted"],
    )
    def test_what_spent_nothing_is_no_draw(self, given: dict[str, Any]) -> None:
        assert stands(memory(verdict("run-1", given)).draws) is None

    @pytest.mark.parametrize(
        "other",
        [
            {"contractDigest": BASE},
            {"worldSnapshot": BASE},
            {"configDigest": BASE},
            {"images": [{"container": "app", "image": "shop:3"}]},
            {"images": []},
        ],
        ids=["contract", "world", "configuration", "images", "no pod yet"],
    )
    def test_on_anything_else_it_says_nothing(self, other: dict[str, Any]) -> None:
        assert stands(memory(verdict("run-1", result())).draws, **other) is None

    def test_a_run_does_not_take_its_answer_from_its_own_verdict(self) -> None:
        draws = memory(verdict("run-1", result())).draws
        assert stands(draws, run="run-1") is None

    def test_a_rollout_made_anew_under_the_same_name_gives_no_fresh_draw(self) -> None:
        assert (
            stands(memory(verdict("run-1", result()), uid="another").draws, rolloutUID="another") is not None
        )

    def test_bake_and_canary_are_one_where_they_have_one_evidence_entry(self) -> None:
        draws = memory(verdict("run-1", result())).draws
        shared = judging.sampled(evidence=[{"stages": ["Canary", "Bake"], **judging.SAMPLES}])
        own = judging.sampled(
            evidence=[{"stages": [stage], **judging.SAMPLES} for stage in ("Canary", "Bake")]
        )
        assert stands(draws, check=shared, stage="Bake", step="bake").cached_from == "run-1"
        assert stands(draws, check=own, stage="Bake", step="bake") is None

    def test_the_breach_of_a_run_is_no_second_draw_of_its_sampled_check(self) -> None:
        draws = memory(
            verdict("run-1", result()), verdict("run-1", result("fail"), kind="Breach", decision="ROLLBACK")
        ).draws
        [draw] = draws.by_key[draw_key("faithfulness", ARTIFACT, DIGEST, WORLD)]
        assert draw.result.status is CheckStatus.BELOW_THRESHOLD

    def test_what_passed_while_the_world_changed_proves_nothing_and_what_failed_is_kept(self) -> None:
        passed = memory(verdict("run-1", result("pass"), reason="WorldDrifted")).draws
        failed = memory(verdict("run-1", result("fail"), reason="WorldDrifted")).draws
        assert stands(passed) is None
        assert stands(failed).status is CheckStatus.FAIL

    def test_the_required_level_is_the_one_of_this_gate(self) -> None:
        draws = memory(verdict("run-1", result("pass", require="Advisory"))).draws
        assert stands(draws).require == "Pass"


class TestMoreSamples:
    ATTEMPTS = tuple(verdict(f"run-{n}", result(), attempt=n) for n in (1, 2, 3))

    def test_an_order_lets_a_check_that_did_not_pass_draw_twice_more(self) -> None:
        for used, may in ((1, True), (2, True), (3, False)):
            draws = memory(*self.ATTEMPTS[:used]).draws
            again = stands(draws, run="run-4", moreSamples=True)
            assert (again is None) is may, used
        assert again.message.endswith("All 3 attempts are used up.")

    def test_a_check_that_passed_is_not_drawn_again(self) -> None:
        draws = memory(verdict("run-1", result("pass"))).draws
        assert stands(draws, moreSamples=True).status is CheckStatus.PASS

    def test_the_verdict_offers_more_samples_while_there_are_attempts(self) -> None:
        contract = judging.contract(judging.sampled())
        for used, may in ((1, True), (2, True), (3, False)):
            draws = memory(*self.ATTEMPTS[:used]).draws
            own = draws.by_key[draw_key("faithfulness", ARTIFACT, DIGEST, WORLD)][-1]
            before = drawn(contract.checks[0], spec(), draws, but=own.run)
            assert more_may_come(own.result, before) is may, used
            again = stands(draws)
            assert more_may_come(again, drawn(contract.checks[0], spec(), draws)) is may, used

    def test_the_order_is_for_the_next_attempt_at_that_step_alone(self) -> None:
        started = entry("Started", body={"stable": STABLE, "canary": CANARY, "originals": {}})
        found = memory(started, order("MoreSamples", step="1", attempt=1))
        asked = [
            (step, n) for step in ("0", "1", "3") for n in (1, 2) if found.more_samples_ordered(NEW, step, n)
        ]
        assert asked == [("1", 2)]
        for end in (
            order("Retry", step="1", attempt=2),
            entry("Started", body=dict(started.body), attempt=3),
        ):
            after = memory(started, order("MoreSamples", step="1", attempt=1), end)
            assert not after.more_samples_ordered(NEW, "1", 3), end.key.kind


class TestFamily:
    FAMILY = {"attempts": {"errorBudget": "Family", "budget": 100}}  # noqa: RUF012

    def on(self, n: int, *results: dict[str, Any]) -> NewEntry:
        artifact = artifact_digest([("app", f"shop@sha256:{n:064x}")])
        world = world_snapshot([("app", f"shop@sha256:{n:064x}")])
        change = {"artifactDigest": artifact, "worldSnapshot": world}
        return verdict(f"run-{n}", *(results or (result(),)), change=change, revision=f"{n:010x}")

    def test_the_fourth_artifact_under_one_contract_and_world_is_held(self) -> None:
        draws = memory(*(self.on(n) for n in (7, 8, 9))).draws
        held = stands(draws, contract=self.FAMILY)
        assert (held.status, held.reason) == (CheckStatus.BELOW_THRESHOLD, "SamplesExhausted")
        assert "Retry" in held.message
        assert stands(draws) is None, "errorBudget Artifact has no families"
        assert stands(memory(self.on(7), self.on(8)).draws, contract=self.FAMILY) is None
        assert stands(draws, contract=self.FAMILY, contractDigest=BASE) is None
        changed = [{"name": "judge", "value": "model=new"}]
        assert stands(draws, contract=self.FAMILY, fingerprints=changed) is None

    def test_an_artifact_of_the_family_stays_in_it(self) -> None:
        image = {"container": "app", "image": "shop:9", "digest": f"shop@sha256:{9:064x}"}
        draws = memory(*(self.on(n) for n in (7, 8, 9))).draws
        world = world_snapshot([("app", image["digest"])])
        own = stands(draws, contract=self.FAMILY, images=[image], worldSnapshot=world)
        assert own.cached_from == "run-9"

    def test_a_completed_release_and_a_persons_retry_open_another_family(self) -> None:
        full = [self.on(n) for n in (7, 8, 9)]
        exhausted = self.on(10, result(reason="SamplesExhausted", statistics=None))
        family = FamilyKey("faithfulness", DIGEST, surroundings(spec()))
        assert len(memory(*full, exhausted).draws.families[family]) == 3
        retried = memory(*full, exhausted, order("Retry", f"{10:010x}", step="1"))
        assert family not in retried.draws.families
        assert family in memory(*full, order("Retry", f"{9:010x}", step="1")).draws.families
        assert memory(*full, entry("Completed", f"{9:010x}")).draws.families == {}


class TestLineage:
    def tried(self, *new: NewEntry, uid: str = "u1") -> tuple[str, ...]:
        return memory(entry("Adopted", "0" * 10, {"stable": STABLE}, attempt=0), *new, uid=uid).lineage.tried

    def begun(self, revision: str, **fields: Any) -> NewEntry:
        return entry("Started", revision, {"stable": STABLE, "canary": CANARY, "originals": {}}, **fields)

    def back(self, revision: str, then: str) -> tuple[NewEntry, ...]:
        return self.begun(revision), entry("Back", revision, {"then": then}), entry("RolledBack", revision)

    def test_what_was_sent_back_or_judged_counts_once(self) -> None:
        assert self.tried(*self.back("1" * 10, "RolledBack")) == ("1" * 10,)
        assert self.tried(*self.back("1" * 10, "Start")) == (), "superseded before anything was said of it"
        judged = (
            self.begun("1" * 10),
            verdict("run-1", revision="1" * 10),
            *self.back("1" * 10, "Start")[1:],
        )
        assert self.tried(*judged) == ("1" * 10,)
        assert self.tried(*judged, self.begun("1" * 10, attempt=2)) == ("1" * 10,)
        assert self.tried(*judged, *self.back("2" * 10, "RolledBack")) == ("1" * 10, "2" * 10)
        assert self.tried(self.begun("3" * 10), entry("Restored", "3" * 10, {"to": STABLE})) == ("3" * 10,)

    def test_only_a_completed_release_or_a_persons_retry_begins_anew(self) -> None:
        two = (*self.back("1" * 10, "RolledBack"), *self.back("2" * 10, "RolledBack"))
        again = entry("Adopted", "0" * 10, {"stable": STABLE}, attempt=0, rollout_uid="u2")
        assert len(self.tried(*two, again)) == 2, "a Rollout made anew has no other budget"
        assert len(self.tried(*two, again, uid="u2")) == 2
        assert len(self.tried(*two, order("MoreSamples", "2" * 10))) == 2
        assert len(self.tried(*two, order("Abort", "2" * 10))) == 2
        assert self.tried(*two, order("Retry", "2" * 10)) == ()
        assert self.tried(*two, self.begun("3" * 10), entry("Completed", "3" * 10)) == ()
        other = entry("Adopted", "4" * 10, {"stable": STABLE}, attempt=0, rollout_uid="u2")
        assert self.tried(*two, other) == (), "another version was released past the gate"

    def test_since_when_it_is_held_is_remembered_until_a_retry(self) -> None:
        held = entry("Held", "5" * 10, cause="AttemptsExhausted", attempt=0)
        assert memory(held).lineage.held_at == T0
        assert memory(held, order("Retry", "5" * 10)).lineage.held_at is None
        assert memory(entry("Held", "5" * 10, cause="sha256:1")).lineage.held_at is None


def test_the_configuration_is_what_the_containers_are_told_besides_their_images() -> None:
    told = {"containers": [{"name": "app", "image": "shop:1", "env": [{"name": "MODEL", "value": "a"}]}]}
    other_image = {"containers": [told["containers"][0] | {"image": "shop:2"}]}
    other_model = {"containers": [told["containers"][0] | {"env": [{"name": "MODEL", "value": "b"}]}]}
    assert config_digest(told) == config_digest(other_image)
    assert config_digest(told) != config_digest(other_model)
