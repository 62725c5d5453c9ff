"""What is wrong before a rollout starts, and the sentence that says what to do."""

from typing import Any

import pytest

from gatewright_analysis.feasibility import findings, warnings
from gatewright_analysis.kinds.contract import GateContractSpec
from gatewright_analysis.kinds.rollout import RolloutSpec
from gatewright_analysis.kinds.source import MetricSource
from gatewright_analysis.reasons import Reason
from gatewright_analysis.statistics.wilson import least_samples


def source(name: str = "prometheus", **spec: Any) -> MetricSource:
    base = {
        "address": "https://prometheus",
        "arms": {"by": "PodName", "label": "pod"},
        "producer": "Workload",
        "scrapeInterval": "5s",
    }
    return MetricSource.model_validate({"metadata": {"name": name}, "spec": base | spec})


def check(id_: str = "success", *, stages: tuple[str, ...] = ("Canary",), **fields: Any) -> dict[str, Any]:
    counts = {"source": "prometheus", "bad": ["bad_total"], "total": ["all_total"]}
    base: dict[str, Any] = {
        "id": id_,
        "oracleKind": "Deterministic",
        "limit": {"maxBadRatio": 0.01},
        "evidence": [{"stages": list(stages), "counts": counts}],
    }
    return base | fields


PODS: dict[str, Any] = {"limit": None, "evidence": [{"stages": ["Canary"], "pods": {}}]}


def contract(*checks: dict[str, Any], **spec: Any) -> GateContractSpec:
    return GateContractSpec.model_validate({"checks": list(checks or (check(),))} | spec)


def rollout(*gates: dict[str, Any], weight: int = 5, **spec: Any) -> RolloutSpec:
    steps: list[dict[str, Any]] = []
    for number, gate in enumerate(gates or ({},)):
        steps += [{"setWeight": weight + number}, {"gate": {"duration": "10m"} | gate}]
    base = {
        "workloadRef": {"name": "shop"},
        "contractRef": {"name": "shop"},
        "traffic": {"replicas": {}},
        "steps": steps,
    }
    return RolloutSpec.model_validate(base | spec)


def found(
    judged: GateContractSpec,
    by: RolloutSpec,
    *sources: MetricSource,
    labels: dict[str, str] | None = None,
) -> list[tuple[Reason, str]]:
    named = {s.metadata.name: s for s in sources or (source(),)}
    return [(reason, sentence) for reason, sentence in findings(judged, by, named, labels or {})]


def only(result: list[tuple[Reason, str]], reason: Reason) -> str:
    assert [r for r, _ in result] == [reason], f"expected {reason} alone, got {result}"
    return result[0][1]


def test_nothing_is_found_in_a_sound_rollout() -> None:
    judged = contract(check(stages=("Canary", "Bake"), plannedSamples=400), check("pods", **PODS))
    assert found(judged, rollout({}, {"checks": ["success"]}, bake={"duration": "30m"})) == []


def test_planned_samples_that_can_never_pass_are_found_with_the_number_that_can() -> None:
    sentence = only(found(contract(check(plannedSamples=300)), rollout()), Reason.NEVER_PASSES)
    assert "plans 300 samples" in sentence
    assert f"plan at least {least_samples(0.99)}" in sentence
    assert found(contract(check(plannedSamples=least_samples(0.99))), rollout()) == []


@pytest.mark.parametrize("require", ["NoBreach", "Advisory"])
def test_planned_samples_matter_only_where_a_pass_is_required(require: str) -> None:
    lenient = check("lenient", plannedSamples=40, require=require)
    assert found(contract(check(), lenient), rollout()) == []


def test_a_check_that_judges_nowhere_here_is_nobodys_concern() -> None:
    elsewhere = check("other", plannedSamples=40, evidence=[{"stages": ["Canary"], "counts": {
        "source": "missing", "bad": ["b"], "total": ["t"]}}])  # fmt: skip
    assert found(contract(check(), elsewhere), rollout({"checks": ["success"]})) == []


def test_a_gate_without_evidence_for_its_stage_is_found() -> None:
    sentence = only(found(contract(check(stages=("Bake",))), rollout()), Reason.NO_EVIDENCE_FOR_STAGE)
    assert "stage Canary" in sentence
    assert "the gate at step 1 could never decide" in sentence


def test_a_bake_without_evidence_is_found() -> None:
    sentence = only(found(contract(), rollout(bake={"duration": "30m"})), Reason.NO_EVIDENCE_FOR_STAGE)
    assert "stage Bake" in sentence
    assert "take the bake out of the Rollout" in sentence


def test_a_gate_that_names_a_check_without_evidence_there_is_found() -> None:
    judged = contract(check(), check("later", stages=("Bake",)))
    sentence = only(found(judged, rollout({"checks": ["success", "later"]})), Reason.NO_EVIDENCE_FOR_STAGE)
    assert "The gate at step 1 names the check later" in sentence


def test_a_gate_that_names_an_unknown_check_is_told_the_known_ones() -> None:
    judged = contract(check(), check("latency"))
    sentence = only(found(judged, rollout({"checks": ["success", "sucess"]})), Reason.INVALID_SPEC)
    assert "names the check sucess, which the contract does not have (it has: latency, success)" in sentence


def test_a_gate_without_a_check_that_must_pass_is_found() -> None:
    judged = contract(check(), check("shown", require="Advisory"))
    sentence = only(found(judged, rollout({}, {"checks": ["shown"]})), Reason.INVALID_SPEC)
    assert sentence.startswith("The gate at step 3 has no check with require: Pass")


def test_a_bake_may_watch_without_a_check_that_must_pass() -> None:
    judged = contract(check(), check("watch", stages=("Bake",), require="NoBreach"))
    assert found(judged, rollout(bake={"duration": "30m"})) == []


def test_a_source_that_is_missing_or_not_for_this_namespace_is_found() -> None:
    assert "does not exist" in only(found(contract(), rollout(), source("gateway")), Reason.SOURCE_NOT_FOUND)
    private = source(allowedNamespaces={"matchLabels": {"team": "checkout"}})
    refused = found(contract(), rollout(), private, labels={"team": "shop"})
    assert "allowedNamespaces" in only(refused, Reason.SOURCE_NOT_ALLOWED)
    assert found(contract(), rollout(), private, labels={"team": "checkout"}) == []


def test_a_missing_source_is_reported_once_per_check_however_many_gates_there_are() -> None:
    assert len(found(contract(), rollout({}, {}, {}), source("gateway"))) == 1


def test_windows_that_hold_fewer_than_two_scrapes_are_found() -> None:
    slow = source(scrapeInterval="20s")
    sentence = only(found(contract(), rollout(), slow), Reason.INVALID_SPEC)
    assert sentence == (
        "The gate at step 1 has windows of 30 s, and the MetricSource prometheus scrapes every 20 s: "
        "a window must hold two scrapes, so set window to at least 40s."
    )
    assert found(contract(), rollout({"window": "40s"}), slow) == []


def test_weights_above_half_are_out_of_reach_by_replicas() -> None:
    sentence = only(found(contract(), rollout(weight=60)), Reason.WEIGHT_UNREACHABLE)
    assert "Step 0 asks for weight 60" in sentence
    gateway = {"gatewayAPI": {"httpRoute": "a", "stableService": "b", "canaryService": "c"}}
    assert found(contract(), rollout(weight=60, traffic=gateway)) == []


def test_a_contract_that_cannot_be_recorded_is_found() -> None:
    wide = [
        {
            "stages": ["Canary"],
            "counts": {"source": "prometheus", "bad": ["b" * 512] * 8, "total": ["t" * 512] * 8},
        }
    ]
    judged = contract(*(check(f"check-{n}", evidence=wide) for n in range(64)))
    assert "split it into several contracts" in only(found(judged, rollout()), Reason.CONTRACT_TOO_LARGE)


def test_everything_that_is_wrong_is_found_at_once() -> None:
    judged = contract(check(plannedSamples=40))
    result = found(judged, rollout({"checks": ["success", "nope"]}, weight=60), source("gateway"))
    assert {reason for reason, _ in result} == {
        Reason.WEIGHT_UNREACHABLE,
        Reason.INVALID_SPEC,
        Reason.NEVER_PASSES,
        Reason.SOURCE_NOT_FOUND,
    }
    assert all(sentence.endswith(".") for _, sentence in result), result


def test_a_total_failure_too_short_to_be_seen_is_a_warning_and_stops_nothing() -> None:
    slow = {"prometheus": source(scrapeInterval="15s")}
    assert findings(contract(), rollout(), slow, {}) == ()
    ((reason, sentence),) = warnings(contract(), rollout(), slow)
    assert reason is Reason.CONTRACT_INVALID
    assert "Set it to at least 45s" in sentence
    assert warnings(contract(totalFailure={"for": "45s"}), rollout(), slow) == ()
    sampled = contract(check(), check("judged", oracleKind="Sampled"))
    assert warnings(sampled, rollout({"checks": ["judged"]}), slow) == (), (
        "total failure is for deterministic checks"
    )


def test_evidence_for_a_stage_that_is_not_gated_may_have_no_source_yet() -> None:
    for_bake = {"stages": ["Bake"], "counts": {"source": "later", "bad": ["b"], "total": ["t"]}}
    judged = contract(check(evidence=[check()["evidence"][0], for_bake]))
    assert found(judged, rollout()) == []
    assert "later" in only(found(judged, rollout(bake={"duration": "30m"})), Reason.SOURCE_NOT_FOUND)


def _watched(**changes: object) -> GateContractSpec:
    model = {
        "name": "judge-model",
        "source": "judges",
        "series": "judge_info",
        "labels": ["version"],
    } | changes
    return contract(world={"fingerprints": [model]})


def test_a_fingerprint_needs_a_source_that_exists_and_is_for_this_namespace_and_answers_queries() -> None:
    here = source()
    assert (
        "fingerprint judge-model reads from the MetricSource judges, which does not exist".casefold()
        in only(found(_watched(), rollout(), here), Reason.SOURCE_NOT_FOUND).casefold()
    )
    private = source("judges", allowedNamespaces={"matchLabels": {"team": "q"}})
    assert "allowedNamespaces" in only(found(_watched(), rollout(), here, private), Reason.SOURCE_NOT_ALLOWED)
    files = MetricSource.model_validate(
        {"metadata": {"name": "judges"}, "spec": {"evidence": {}, "producer": "Judge"}}
    )
    assert "holds result files" in only(found(_watched(), rollout(), here, files), Reason.SOURCE_KIND)
    assert found(_watched(), rollout(), here, source("judges")) == []


def test_a_selector_of_a_fingerprint_that_cannot_be_asked_is_found() -> None:
    missing_comma = _watched(series='judge_info{a="1" b="2"}')
    sentence = only(found(missing_comma, rollout(), source(), source("judges")), Reason.INVALID_SPEC)
    assert "Fingerprint judge-model:" in sentence
    assert "a comma is missing" in sentence


VALUE: dict[str, Any] = {"source": "prometheus", "query": "max(heap{$arm})", "max": 1e9}
BURN: dict[str, Any] = {
    "source": "prometheus",
    "bad": ["b"],
    "total": ["t"],
    "objective": 0.999,
    "maxBurn": 10,
}


def facts(kind: str, body: dict[str, Any], **fields: Any) -> dict[str, Any]:
    own = {
        "limit": None,
        "evidence": [{"stages": ["Canary", "Bake"], kind: body}],
    }
    return check(kind.lower(), **own | fields)


def test_a_gauge_that_needs_more_readings_than_there_is_time_for_is_found() -> None:
    judged = contract(check(), facts("value", VALUE | {"spacing": "45s"}))
    sentence = only(found(judged, rollout({"duration": "5m", "window": "30s"})), Reason.NEVER_PASSES)
    # Windows of 30 s are read at every second one.
    assert "needs 10 readings, and the gate at step 1 has time for 5: watch for at least 570s" in sentence
    assert found(judged, rollout({"duration": "5m", "maxDuration": "570s", "window": "30s"})) == []
    by_bake = found(contract(check(), facts("value", VALUE)), rollout(bake={"duration": "2m"}))
    assert [s for r, s in by_bake if r is Reason.NEVER_PASSES and "the bake has time for 4" in s]
    assert (
        found(contract(check(), facts("value", VALUE, require="Advisory")), rollout({"duration": "1m"})) == []
    )


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "heap + x{$arm}",
            "heap has no $arm, so it would read the series of all namespaces: write heap{$arm}",
        ),
        ('heap{pod="a",$arm}', "the query sets the label 'pod'"),
        ("max(heap{$arm} offset 5m)", "offset and @ are not allowed"),
    ],
)
def test_a_gauge_that_reads_beside_its_arm_is_found_before_the_start(query: str, said: str) -> None:
    judged = contract(check(), facts("value", VALUE | {"query": query}))
    sentence = only(found(judged, rollout()), Reason.INVALID_SPEC)
    assert sentence.startswith("Check value: ")
    assert said in sentence


def test_a_burn_rate_plans_for_the_limit_that_follows_from_it() -> None:
    judged = contract(facts("burnRate", BURN, plannedSamples=300))
    sentence = only(found(judged, rollout()), Reason.NEVER_PASSES)
    assert f"could not prove 0.99: plan at least {least_samples(0.99)}" in sentence
    assert found(contract(facts("burnRate", BURN, plannedSamples=400)), rollout()) == []


def test_a_gauge_has_no_total_failure_to_warn_of() -> None:
    sources = {"prometheus": source(scrapeInterval="10s"), "slow": source("slow", scrapeInterval="10s")}
    judged = contract(check(), facts("value", VALUE | {"source": "slow"}))
    assert [w.sentence for w in warnings(judged, rollout(), sources) if "slow" in w.sentence] == []


def test_a_judge_no_better_than_a_coin_proves_nothing() -> None:
    coin = {"passedGood": 5, "failedGood": 5, "passedBad": 5, "failedBad": 5}
    files = source("results", address=None, arms=None, evidence={})
    samples = {"source": "results", "suite": "s"}
    judged = check(
        "judged",
        oracleKind="Sampled",
        calibration=coin,
        evidence=[{"stages": ["Canary", "Bake"], "samples": samples}],
    )
    sentence = only(found(contract(judged), rollout(), files), Reason.NEVER_PASSES)
    assert "judged can never pass" in sentence
    assert "no better than a coin" in sentence


def test_what_could_prove_a_limit_depends_on_the_confidence() -> None:
    usual = contract(check(limit={"maxBadRatio": 0.05}, plannedSamples=80))
    assert found(usual, rollout(), source()) == []
    strict = contract(check(limit={"maxBadRatio": 0.05}, plannedSamples=80, confidence=0.99))
    assert "plan at least 127" in only(found(strict, rollout(), source()), Reason.NEVER_PASSES)


def test_a_schedule_that_can_not_be_worked_out_is_found() -> None:
    spending = {"looks": 5, "function": "Pocock"}
    judged = contract(check(spending=spending, plannedSamples=60_000))
    assert "50,000 at most" in only(found(judged, rollout(), source()), Reason.NEVER_PASSES)
