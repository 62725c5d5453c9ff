"""What the API server says to good and bad specs. Each refusal is asserted with the sentence people read."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devcluster import Instance
from tests.cluster.support import apply, kubectl

Manifest = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
DIGEST = "sha256:" + "0" * 64


def object_of(kind: str, spec: Manifest, name: str = "shop") -> Manifest:
    metadata = {"name": name} | (
        {} if kind in ("MetricSource", "NotificationSink") else {"namespace": "default"}
    )
    return {"apiVersion": "gatewright.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def counts(**fields: Any) -> Manifest:
    body = {
        "source": "prometheus",
        "bad": ['http_requests_total{code=~"5.."}'],
        "total": ["http_requests_total"],
    }
    return {"stages": ["Canary"], "counts": body | fields}


def check(**fields: Any) -> Manifest:
    body = {
        "id": "success",
        "oracleKind": "Deterministic",
        "limit": {"maxBadRatio": 0.01},
        "evidence": [counts()],
    }
    return without_none(body | fields)


def contract(*checks: Manifest, **fields: Any) -> Manifest:
    return object_of("GateContract", {"checks": list(checks) or [check()]} | fields)


def entry(kind: str, body: Manifest, fields: Manifest) -> Manifest:
    return {"stages": ["Canary"], kind: without_none(body | fields)}


def job(**fields: Any) -> Manifest:
    return entry("job", {"cronJob": "smoke", "report": "ExitCode"}, fields)


def value(**fields: Any) -> Manifest:
    body = {"source": "prometheus", "query": "max(heap_bytes{$arm})", "max": 5}
    return entry("value", body, fields)


def burn_rate(**fields: Any) -> Manifest:
    body = {"source": "prometheus", "bad": ["bad"], "total": ["all"], "objective": 0.999, "maxBurn": 14.4}
    return entry("burnRate", body, fields)


def suite(kind: str) -> Manifest:
    return entry(kind, {"source": "results", "suite": "faithfulness"}, {})


def fingerprint(**fields: Any) -> Manifest:
    return {
        "name": "model",
        "source": "prometheus",
        "series": "model_info",
        "labels": ["model", "version"],
    } | fields


def gate(**fields: Any) -> Manifest:
    return {"gate": {"duration": "10m"} | fields}


def weight(value: int) -> Manifest:
    return {"setWeight": value}


GATEWAY = {"gatewayAPI": {"httpRoute": "shop", "stableService": "shop", "canaryService": "shop-canary"}}


def rollout(*steps: Manifest, name: str = "shop", **fields: Any) -> Manifest:
    spec = {
        "workloadRef": {"name": "shop"},
        "contractRef": {"name": "shop"},
        "traffic": GATEWAY,
        "steps": list(steps) or [weight(5), gate(), weight(50), gate()],
    }
    return object_of("Rollout", without_none(spec | fields), name)


def source(**fields: Any) -> Manifest:
    spec = {
        "address": "https://prometheus.monitoring:9090",
        "arms": {"by": "PodName", "label": "pod"},
        "producer": "Workload",
    }
    return object_of("MetricSource", spec | fields)


def sink(**fields: Any) -> Manifest:
    spec = {"webhook": {}, "address": "https://hooks/gate", "secretRef": {"name": "sinks", "key": "hook"}}
    return object_of("NotificationSink", without_none(spec | fields))


def review(**fields: Any) -> Manifest:
    spec = {
        "rollout": "shop",
        "rolloutUID": "6a1f",
        "run": "shop-run",
        "revision": "0123456789",
        "step": "1",
        "evidenceDigest": DIGEST,
        "decision": "Approve",
        "reviewer": "reviewer-a",
        "reason": "known and harmless",
        "worldSnapshot": DIGEST,
        "checks": ["http-success"],
        "expiresAt": "2030-01-01T00:00:00Z",
    }
    return object_of("GateReview", without_none(spec | fields))


def order(**fields: Any) -> Manifest:
    spec = {
        "rollout": "shop",
        "rolloutUID": "6a1f",
        "revision": "0123456789",
        "order": "Retry",
        "orderedBy": "sre-1",
        "reason": "the database is back",
    }
    return object_of("GateOrder", spec | fields)


def run(**fields: Any) -> Manifest:
    spec = {
        "rollout": "shop",
        "rolloutUID": "6a1f",
        "revision": "0123456789",
        "step": "1",
        "weight": 5,
        "attempt": 1,
        "stage": "Canary",
        "contract": "shop",
        "contractGeneration": 1,
        "contractDigest": DIGEST,
        "worldSnapshot": DIGEST,
        "checks": ["success"],
        "clock": {
            "startsAt": "2030-01-01T00:00:30Z",
            "weightAt": "2030-01-01T00:00:00Z",
            "duration": "10m",
            "maxDuration": "10m",
            "window": "30s",
            "interval": "10s",
        },
        "canary": {"podPrefix": "shop-canary-5f7d8c9b6-"},
        "eProcesses": 4,
    }
    return object_of("GateRun", spec | fields)


def without_none(spec: Manifest) -> Manifest:
    return {key: value for key, value in spec.items() if value is not None}


POD_EVIDENCE = {"stages": ["Canary"], "pods": {}}
SAMPLES = {
    "stages": ["Canary"],
    "samples": {"source": "prometheus", "passed": ['judged_total{verdict="ok"}'], "total": ["judged_total"]},
}
LATENCY_BODY = {"source": "prometheus", "histogram": 'request_seconds{route!="/healthz"}', "le": 0.5}
LATENCY: Manifest = {"stages": ["Canary"], "latency": LATENCY_BODY}
RAW = "A raw selector is wanted: a metric name and, if needed, matchers in braces"
SHARE = "A share lies between 0 and 1, both excluded: write 1 % as 0.01."
LONGER_THAN_ZERO = "A duration longer than 0s is needed here."
KIND_SENTENCE = "An evidence entry has exactly one of counts, latency, burnRate, value, samples, scores, paired, pods and job"

REFUSED: dict[str, tuple[Manifest, str]] = {
    # GateContract: checks
    "two checks with one id": (
        contract(check(), check()),
        "Two checks have the same id: each needs its own.",
    ),
    "no checks": (object_of("GateContract", {"checks": []}), "At least one check needs require: Pass"),
    "no check with require Pass": (
        contract(check(require="NoBreach"), check(id="b", require="Advisory")),
        "At least one check needs require: Pass, or nothing would have to be proven.",
    ),
    "a check id that is no DNS label": (
        contract(check(id="HTTP success")),
        "spec.checks[0].id in body should match",
    ),
    "a Sampled check that may roll back": (
        contract(check(oracleKind="Sampled", onBreach="Rollback")),
        "A Sampled check can hold a release but never roll it back: set onBreach: Hold, or leave it out.",
    ),
    "samples for a Deterministic check": (
        contract(check(evidence=[SAMPLES])),
        "Evidence of the kinds samples, scores and paired is a judge's word or a sample: set oracleKind: Sampled.",
    ),
    "pods for a Sampled check": (
        contract(check(oracleKind="Sampled", limit=None, evidence=[POD_EVIDENCE])),
        "Evidence of the kinds pods, value and burnRate is facts, not samples: set oracleKind: Deterministic.",
    ),
    "an unknown oracle kind": (
        contract(check(oracleKind="Guess")),
        'supported values: "Deterministic", "Sampled"',
    ),
    "plannedSamples below minSamples": (
        contract(check(minSamples=500, plannedSamples=400)),
        "plannedSamples must not be below minSamples",
    ),
    "fewer than 40 samples": (contract(check(minSamples=39)), "should be greater than or equal to 40"),
    "versusStable for a Sampled check": (
        contract(check(oracleKind="Sampled", versusStable={})),
        "versusStable compares events of canary and stable: it needs oracleKind: Deterministic",
    ),
    "versusStable without events to compare": (
        contract(check(), check(id="pods", limit=None, evidence=[POD_EVIDENCE], versusStable={})),
        "versusStable compares events of canary and stable",
    ),
    "versusStable where there is no stable any more": (
        contract(check(evidence=[counts() | {"stages": ["Bake"]}], versusStable={})),
        "counts or latency evidence for the stage Canary.",
    ),
    # GateContract: limits
    "a limit of 0": (contract(check(limit={"maxBadRatio": 0})), SHARE),
    "a limit of 1": (contract(check(limit={"minGoodRatio": 1})), SHARE),
    "a limit in percent": (contract(check(limit={"minGoodRatio": 99.5})), SHARE),
    "a negative limit": (contract(check(limit={"maxBadRatio": -0.1})), SHARE),
    "minIncrease in percent": (contract(check(versusStable={"minIncrease": 5})), SHARE),
    "two limits": (
        contract(check(limit={"maxBadRatio": 0.1, "minGoodRatio": 0.9})),
        "A limit is exactly one of maxBadRatio and minGoodRatio.",
    ),
    "an empty limit": (contract(check(limit={})), "A limit is exactly one of maxBadRatio and minGoodRatio."),
    "no limit": (contract(check(limit=None)), "This check needs a limit: maxBadRatio or minGoodRatio."),
    "no limit beside pods": (
        contract(check(limit=None, evidence=[POD_EVIDENCE, counts() | {"stages": ["Bake"]}])),
        "This check needs a limit: maxBadRatio or minGoodRatio.",
    ),
    "a limit for pods": (
        contract(check(evidence=[POD_EVIDENCE])),
        "All evidence of this check has a limit of its own (maxRestarts, min and max, maxBurn, the exit code): leave out limit",
    ),
    "a limit for an exit code": (
        contract(check(), check(id="smoke", evidence=[job()])),
        "All evidence of this check has a limit of its own",
    ),
    "a limit for a burn rate": (
        contract(check(), check(id="burn", evidence=[burn_rate()])),
        "All evidence of this check has a limit of its own",
    ),
    "minSamples for a value": (
        contract(check(), check(id="heap", limit=None, minSamples=50, evidence=[value()])),
        "This check counts no samples: leave out minSamples and plannedSamples.",
    ),
    "confidence below 90 %": (contract(check(confidence=0.5)), "should be greater than or equal to 0.9"),
    "a Sampled check that is Fast": (
        contract(check(oracleKind="Sampled", tier="Fast")),
        "A Sampled check is never Fast: set tier: Full, or leave it out.",
    ),
    "spending on result files": (
        contract(
            check(
                oracleKind="Sampled", spending={"looks": 5, "function": "Pocock"}, evidence=[suite("samples")]
            )
        ),
        "spending is for events from counters at one step",
    ),
    "pool over pods": (
        contract(check(), check(id="pods", limit=None, pool="Rollout", evidence=[POD_EVIDENCE])),
        "pool: Rollout adds up events of several steps",
    ),
    "a calibration for counters of requests": (
        contract(check(calibration={"passedGood": 90, "failedGood": 10, "passedBad": 5, "failedBad": 95})),
        "it needs evidence of the kind samples",
    ),
    "a calibration without bad samples": (
        contract(
            check(
                oracleKind="Sampled",
                evidence=[suite("samples")],
                calibration={"passedGood": 90, "failedGood": 10, "passedBad": 0, "failedBad": 0},
            )
        ),
        "A calibration needs samples that people found good and samples that they found bad.",
    ),
    "an attempts budget of 0": (contract(attempts={"budget": 0}), "should be greater than or equal to 1"),
    "two fingerprints of one name": (
        contract(world={"fingerprints": [fingerprint(), fingerprint()]}),
        "Two fingerprints have the same name: each needs its own.",
    ),
    # GateContract: evidence
    "a value without a limit": (
        contract(check(), check(id="heap", limit=None, evidence=[value(max=None)])),
        "A value needs a limit: min, max, or both.",
    ),
    "a value with min above max": (
        contract(check(), check(id="heap", limit=None, evidence=[value(min=9)])),
        "min must be below max, or every value would be outside.",
    ),
    "a value without $arm": (
        contract(check(), check(id="heap", limit=None, evidence=[value(query="max(heap_bytes)")])),
        "The query needs the placeholder $arm between braces",
    ),
    "a value for a Sampled check": (
        contract(check(), check(id="heap", limit=None, oracleKind="Sampled", evidence=[value()])),
        "Evidence of the kinds pods, value and burnRate is facts, not samples",
    ),
    "a burn rate that can't happen": (
        contract(check(), check(id="burn", limit=None, evidence=[burn_rate(objective=0.9, maxBurn=11)])),
        "maxBurn times (1 - objective) must stay below 1",
    ),
    "samples from counters and from files": (
        contract(
            check(oracleKind="Sampled", evidence=[SAMPLES | {"samples": SAMPLES["samples"] | {"suite": "s"}}])
        ),
        "Samples come from counters (passed and total) or from result files (suite): give one of both.",
    ),
    "samples from nowhere": (
        contract(check(oracleKind="Sampled", evidence=[SAMPLES | {"samples": {"source": "ci"}}])),
        "Samples come from counters (passed and total) or from result files (suite): give one of both.",
    ),
    "scores for a Deterministic check": (
        contract(check(evidence=[suite("scores")])),
        "Evidence of the kinds samples, scores and paired is a judge's word or a sample",
    ),
    "a Job without a report": (
        contract(
            check(),
            check(id="smoke", limit=None, evidence=[{"stages": ["Canary"], "job": {"cronJob": "smoke"}}]),
        ),
        "report: Required value",
    ),
    "two kinds in one evidence entry": (contract(check(evidence=[counts() | LATENCY])), KIND_SENTENCE),
    "no kind in an evidence entry": (contract(check(evidence=[{"stages": ["Canary"]}])), KIND_SENTENCE),
    "a stage in two evidence entries": (
        contract(check(evidence=[counts(), LATENCY | {"stages": ["Bake", "Canary"]}])),
        "A stage stands once in one evidence entry of a check: take it out of the other, or make two checks.",
    ),
    "a stage twice in one entry": (
        contract(check(evidence=[counts() | {"stages": ["Canary", "Canary"]}])),
        "A stage stands once in one evidence entry of a check",
    ),
    "an unknown stage": (
        contract(check(evidence=[counts() | {"stages": ["Merge"]}])),
        'supported values: "Canary", "Bake"',
    ),
    "a rate where a raw selector is wanted": (
        contract(check(evidence=[counts(bad=["rate(errors_total[5m])"])])),
        RAW,
    ),
    "a sum in total": (contract(check(evidence=[counts(total=["sum(requests_total)"])])), RAW),
    "a range": (contract(check(evidence=[counts(total=["requests_total[5m]"])])), RAW),
    "an offset": (contract(check(evidence=[counts(total=["requests_total offset 5m"])])), RAW),
    "arithmetic": (contract(check(evidence=[counts(bad=["a_total - b_total"])])), RAW),
    "an unclosed quote": (contract(check(evidence=[counts(bad=['a_total{code="5}'])])), RAW),
    "an empty selector": (contract(check(evidence=[counts(bad=[""])])), RAW),
    "a function of a histogram": (
        contract(check(evidence=[LATENCY | {"latency": LATENCY_BODY | {"histogram": "rate(h_bucket[1m])"}}])),
        RAW,
    ),
    "a selector too long": (contract(check(evidence=[counts(bad=["a" * 513])])), "may not be more than 512"),
    "nine selectors": (contract(check(evidence=[counts(bad=["a_total"] * 9)])), "must have at most 8 items"),
    # GateContract: hold
    "a hold without time": (contract(hold={"timeout": "0s"}), LONGER_THAN_ZERO),
    "waivers without time": (contract(hold={"maxWaiver": "0m"}), LONGER_THAN_ZERO),
    "a total failure without time": (contract(totalFailure={"for": "0ms"}), LONGER_THAN_ZERO),
    "a hold that promotes by itself": (
        contract(hold={"onTimeout": "Promote"}),
        'supported values: "Rollback", "Hold"',
    ),
    "a duration in words": (contract(hold={"timeout": "one day"}), "spec.hold.timeout in body should match"),
    # Rollout: steps
    "no steps": (rollout(steps=[]), "steps needs at least one setWeight and a gate after it"),
    "steps left out": (rollout(steps=None), "spec.steps: Required value"),
    "a single gate": (rollout(gate()), "steps needs at least one setWeight and a gate after it"),
    "a weight of 0": (rollout(weight(0), gate()), "A weight is a percentage from 1 to 100."),
    "a weight of 101": (rollout(weight(101), gate()), "A weight is a percentage from 1 to 100."),
    "falling weights": (
        rollout(weight(50), gate(), weight(20), gate()),
        "Weights must rise from each setWeight to the next.",
    ),
    "the same weight twice": (
        rollout(weight(20), gate(), weight(20), gate()),
        "Weights must rise from each setWeight to the next.",
    ),
    "two weights without a gate between": (
        rollout(weight(5), weight(20), gate()),
        "Each setWeight needs a gate before the next setWeight.",
    ),
    "only a pause between two weights": (
        rollout(weight(5), {"pause": {"duration": "5m"}}, weight(20), gate()),
        "Each setWeight needs a gate before the next setWeight.",
    ),
    "a weight at the end": (
        rollout(weight(5), gate(), weight(20)),
        "The last step must be a gate: only a verdict",
    ),
    "a pause at the end": (
        rollout(weight(5), gate(), {"pause": {"duration": "5m"}}),
        "The last step must be a gate: only a verdict promotes.",
    ),
    "a step of two kinds": (
        rollout(weight(5) | gate(), gate()),
        "A step is exactly one of setWeight, gate and pause.",
    ),
    "an empty step": (rollout(weight(5), {}, gate()), "A step is exactly one of setWeight, gate and pause."),
    "a pause without time": (rollout(weight(5), {"pause": {"duration": "0s"}}, gate()), LONGER_THAN_ZERO),
    "too many steps": (rollout(*[weight(5), gate()] * 33), "must have at most 64 items"),
    # Rollout: gates and bake
    "an interval longer than the window": (
        rollout(weight(5), gate(interval="31s")),
        "interval must not be longer than window (30s unless you set it)",
    ),
    "a window as long as the gate": (
        rollout(weight(5), gate(duration="30s")),
        "window (30s unless you set it) must be shorter than duration",
    ),
    "a maxDuration shorter than duration": (
        rollout(weight(5), gate(maxDuration="9m59s")),
        "maxDuration must not be shorter than duration.",
    ),
    "a gate that never looks": (rollout(weight(5), gate(interval="0s")), LONGER_THAN_ZERO),
    "a check twice in a gate": (
        rollout(weight(5), gate(checks=["a", "a"])),
        "A check is named twice: name it once.",
    ),
    "a bake as short as its window": (
        rollout(bake={"duration": "30s"}),
        "window (30s unless you set it) must be shorter than duration",
    ),
    "a bake with too rare looks": (
        rollout(bake={"duration": "30m", "interval": "31m"}),
        "interval must not be longer than duration: the bake needs a look.",
    ),
    "a bake that reverts without data": (
        rollout(bake={"duration": "30m", "onInconclusive": "Rollback"}),
        'supported values: "Complete", "Hold"',
    ),
    "no progress deadline": (rollout(progressDeadline="0s"), LONGER_THAN_ZERO),
    # Rollout: the rest
    "a name too long": (rollout(name="n" * 53), "The name of a Rollout has at most 52 characters"),
    "two ways of traffic": (
        rollout(traffic=GATEWAY | {"replicas": {}}),
        "traffic is exactly one of gatewayAPI and replicas: {}.",
    ),
    "no way of traffic": (rollout(traffic={}), "traffic is exactly one of gatewayAPI and replicas: {}."),
    "one Service for both versions": (
        rollout(traffic={"gatewayAPI": GATEWAY["gatewayAPI"] | {"canaryService": "shop"}}),
        "stableService and canaryService must be two Services, or both versions would share one.",
    ),
    "replicas above half": (
        rollout(weight(25), gate(), weight(60), gate(), traffic={"replicas": {}}),
        "use weights up to 50, or traffic by gatewayAPI.",
    ),
    "a StatefulSet": (
        rollout(workloadRef={"kind": "StatefulSet", "name": "shop"}),
        "Deployments can be gated: set apiVersion: apps/v1 and kind: Deployment, or leave both out.",
    ),
    "a Deployment of another group": (
        rollout(workloadRef={"apiVersion": "extensions/v1beta1", "name": "shop"}),
        "Deployments can be gated: set apiVersion: apps/v1 and kind: Deployment, or leave both out.",
    ),
    # GateReview, GateOrder
    "an approval without end": (
        review(expiresAt=None),
        "An approval is a waiver and needs expiresAt, the time at which it ends.",
    ),
    "a review without a reason": (
        review(reason="  "),
        "Say why, in at least 10 characters: the reason stands in the ledger.",
    ),
    "an order without a reason": (
        order(reason=""),
        "Say why, in at least 10 characters: the reason stands in the ledger.",
    ),
    "an order nobody knows": (order(order="Promote"), 'supported values: "Retry", "Abort"'),
    "a review of no evidence": (review(evidenceDigest="latest"), "spec.evidenceDigest in body should match"),
    # MetricSource
    "an address that is no URL": (
        source(address="prometheus:9090"),
        "address is an http or https URL without credentials, query and fragment",
    ),
    "credentials in the address": (
        source(address="https://user:secret@prometheus"),
        "address is an http or https URL without credentials, query and fragment",
    ),
    "a password in the clear": (
        source(address="http://prometheus", auth={"bearer": {"name": "token", "key": "token"}}),
        "auth is sent over https only: give an https address, or leave auth out.",
    ),
    "two ways to log in": (
        source(
            auth={
                "bearer": {"name": "a", "key": "a"},
                "basic": {"username": {"name": "a", "key": "a"}, "password": {"name": "a", "key": "a"}},
            }
        ),
        "auth is exactly one of bearer and basic; leave auth out for none.",
    ),
    "a CA without TLS": (
        source(address="http://prometheus", ca={"name": "ca", "key": "ca.crt"}),
        "ca is for https only: give an https address, or leave ca out.",
    ),
    "an endless timeout": (source(timeout="61s"), "timeout must not be longer than 60s"),
    "a source without arms": (
        object_of("MetricSource", {"address": "https://p", "producer": "Judge"}),
        "arms tell canary and stable apart at an address: give both, or neither.",
    ),
    "arms by something else": (source(arms={"by": "Colour", "label": "pod"}), 'supported values: "PodName"'),
    "a source that is both": (
        source(evidence={}),
        "A MetricSource is a Prometheus (address) or a place of result files (evidence): give one of both.",
    ),
    "a source that is neither": (
        object_of("MetricSource", {"producer": "Judge"}),
        "A MetricSource is a Prometheus (address) or a place of result files (evidence): give one of both.",
    ),
    "result files with a login": (
        object_of(
            "MetricSource",
            {"evidence": {}, "producer": "Judge", "auth": {"bearer": {"name": "token", "key": "token"}}},
        ),
        "Result files are read from the API server: leave out auth and ca.",
    ),
    # NotificationSink
    "a sink that is two": (
        sink(slack={}),
        "A sink is exactly one of slack, webhook, pagerDuty and cloudEvents.",
    ),
    "a sink that is none": (
        sink(webhook=None),
        "A sink is exactly one of slack, webhook, pagerDuty and cloudEvents.",
    ),
    "a webhook to nowhere": (sink(address=None), "webhook and cloudEvents need an address to post to."),
    "a webhook without a key": (sink(secretRef=None), "secretRef is needed: Slack's webhook URL or token"),
    "a routing key in the clear": (
        sink(webhook=None, pagerDuty={}, address="http://proxy/enqueue"),
        "The secret of this sink is sent along: give an https address, or one on localhost.",
    ),
    "a token in the clear": (
        sink(webhook=None, cloudEvents={}, address="http://localhost.example.com/"),
        "The secret of this sink is sent along: give an https address, or one on localhost.",
    ),
    "credentials in a sink's address": (
        sink(address="https://user:secret@hooks"),
        "address is an http or https URL without credentials and fragment",
    ),
    "a sink's CA without TLS": (
        sink(address="http://hooks", ca={"name": "ca", "key": "ca.crt"}),
        "ca is for an https address: give one, or leave ca out.",
    ),
    "a pager for good news": (
        sink(webhook=None, pagerDuty={}, notices=["Held", "Promoted"]),
        "A pager is for what waits for a person",
    ),
    "a sink that never ends": (sink(timeout="61s"), "timeout must not be longer than 60s"),
    "news of nothing": (sink(notices=[]), "spec.notices in body should have at least 1 items"),
    # GateRun
    "a run of a wrong digest": (run(contractDigest="sha256:12"), "spec.contractDigest in body should match"),
}

ACCEPTED: dict[str, Manifest] = {
    "the smallest contract": contract(),
    "a Sampled check that holds": contract(check(oracleKind="Sampled", onBreach="Hold", evidence=[SAMPLES])),
    "counts for a Sampled check": contract(check(oracleKind="Sampled")),
    "one check with Pass among others": contract(check(), check(id="b", require="Advisory")),
    "pods without a limit": contract(check(), check(id="pods", limit=None, evidence=[POD_EVIDENCE])),
    "two kinds for two stages": contract(check(evidence=[LATENCY, counts() | {"stages": ["Bake"]}])),
    "one kind for both stages": contract(check(evidence=[counts() | {"stages": ["Canary", "Bake"]}])),
    "versusStable on counts": contract(check(versusStable={"maxRatio": 1.5, "minIncrease": 0.001})),
    "equal minSamples and plannedSamples": contract(check(minSamples=400, plannedSamples=400)),
    "a selector with everything": contract(
        check(
            evidence=[
                counts(bad=[r'job:errors:total{path=~"/a\\(b|c\\)[0-9]+", le!="+Inf", q="say \"x\"", }'])
            ]
        )
    ),
    "other quotes": contract(check(evidence=[counts(bad=["a{b='c\"'}", "a{b=`c\\d`, e='f'}"])])),
    "eight selectors of 512 characters": contract(check(evidence=[counts(bad=["a" * 512] * 8)])),
    "64 checks with all the evidence they can have": contract(
        *(
            check(
                id=f"check-{n}",
                evidence=[
                    counts(bad=[f"bad_{k}" for k in range(8)], total=[f"all_{k}" for k in range(8)]),
                    LATENCY | {"stages": ["Bake"]},
                ],
            )
            for n in range(64)
        )
    ),
    "every kind of evidence": contract(
        check(confidence=0.99, tier="Full", pool="Rollout"),
        check(id="burn", limit=None, evidence=[burn_rate()]),
        check(
            id="heap", limit=None, evidence=[value(min=1, aggregate="Max", scope="Workload", spacing="1s")]
        ),
        check(id="smoke", limit=None, evidence=[job()]),
        check(id="load", evidence=[job(report="Counts")]),
        check(id="faithful", oracleKind="Sampled", evidence=[suite("samples")]),
        check(id="rubric", oracleKind="Sampled", evidence=[suite("scores")]),
        check(id="better", oracleKind="Sampled", limit=None, evidence=[suite("paired")]),
        check(
            id="judged",
            oracleKind="Sampled",
            evidence=[suite("samples")],
            calibration={"passedGood": 90, "failedGood": 10, "passedBad": 5, "failedBad": 95},
        ),
        check(id="scheduled", spending={"looks": 5, "function": "OBrienFleming"}),
        attempts={"budget": 5, "errorBudget": "Family"},
        world={"fingerprints": [fingerprint(), fingerprint(name="judge")]},
    ),
    "a webhook": sink(),
    "a webhook without TLS": sink(address="http://hooks.ops/gate"),
    "Slack": sink(webhook=None, slack={}, address=None),
    "a pager": sink(webhook=None, pagerDuty={}, address=None, notices=["Held", "Escalated", "SourceDown"]),
    "a pager's sidecar": sink(webhook=None, pagerDuty={}, address="http://127.0.0.1:8080/v2"),
    "events without a login": sink(webhook=None, cloudEvents={}, address="http://broker", secretRef=None),
    "a source of result files": object_of(
        "MetricSource", {"evidence": {"namespace": "results"}, "producer": "Judge"}
    ),
    "a rollout": rollout(),
    "a pause between gate and weight": rollout(
        weight(5), gate(), {"pause": {"duration": "5m"}}, weight(6), gate()
    ),
    "a pause between weight and gate": rollout(weight(5), {"pause": {"duration": "5m"}}, gate()),
    "two gates at one weight": rollout(weight(5), gate(), gate(duration="1h")),
    "a gate before any weight": rollout(gate(checks=["pods"]), weight(100), gate()),
    "64 steps": rollout(*(step for n in range(1, 33) for step in (weight(n), gate()))),
    "interval = window, duration = maxDuration": rollout(
        weight(5), gate(interval="30s", window="30s", maxDuration="10m", warmup="0s")
    ),
    "durations in other units": rollout(weight(5), gate(duration="1m500ms", window="0h1m", interval="999ms")),
    "replicas up to half": rollout(weight(25), gate(), weight(50), gate(), traffic={"replicas": {}}),
    "a name of 52 characters": rollout(name="n" * 52),
    "a bake that is looked at every other window": rollout(bake={"duration": "30m", "interval": "1m"}),
    "a bake": rollout(bake={"duration": "30m", "interval": "10s", "onInconclusive": "Hold"}),
    "an Argo Rollout, for the operator to answer": rollout(
        workloadRef={"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "shop"}
    ),
    "an approval": review(),
    "a rejection without end": review(decision="Reject", expiresAt=None),
    "an order": order(),
    "a run": run(),
    "a source": source(),
    "a source in the clear": source(address="http://prometheus.monitoring:9090/prefix"),
    "a source with all it can have": source(
        auth={"bearer": {"name": "token", "key": "token"}},
        ca={"name": "ca", "key": "ca.crt"},
        timeout="60s",
        allowedNamespaces={"matchLabels": {"team": "shop"}},
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_the_api_server_refuses(what: str, api_only: Instance) -> None:
    manifest, sentence = REFUSED[what]
    answer = apply(manifest, api_only.kubeconfig, "--dry-run=server")
    assert not answer.ok, f"{what}: it was accepted, but should have been refused with: {sentence}"
    assert sentence in answer.err, f"{what}: the sentence {sentence!r} is not in the refusal: {answer.err}"


@pytest.mark.parametrize("what", ACCEPTED)
def test_the_api_server_accepts(what: str, api_only: Instance) -> None:
    answer = apply(ACCEPTED[what], api_only.kubeconfig, "--dry-run=server")
    assert answer.ok, f"{what}: it should be accepted, but: {answer.err}"


@pytest.mark.parametrize("command", [["apply", "--server-side"], ["create", "--validate=strict"]])
def test_an_unknown_field_is_refused_and_named(command: list[str], api_only: Instance) -> None:
    misspelt = contract(check(treshold=0.9))
    answer = kubectl([*command, "--dry-run=server", "-f", "-"], api_only.kubeconfig, manifest=misspelt)
    assert not answer.ok, "a misspelt field was accepted; it would silently not apply"
    assert "treshold" in answer.err, f"the refusal does not name the field: {answer.err}"


def change(kind: str, name: str, patch: str, kubeconfig: Path, *extra: str) -> tuple[bool, str]:
    answer = kubectl(["patch", kind, name, "--type=merge", "-p", patch, *extra], kubeconfig)
    return answer.ok, answer.err


@pytest.mark.parametrize(
    ("make", "kind", "patch", "sentence"),
    [
        (review, "gatereview", '{"spec":{"reason":"other"}}', "A review can't be changed: create another."),
        (review, "gatereview", '{"spec":{"expiresAt":null}}', "A review can't be changed: create another."),
        (order, "gateorder", '{"spec":{"order":"Abort"}}', "An order can't be changed: create another."),
        (run, "gaterun", '{"spec":{"eProcesses":1}}', "A GateRun can't be changed"),
    ],
)
def test_a_record_cannot_be_changed(
    make: Callable[..., Manifest], kind: str, patch: str, sentence: str, api_only: Instance
) -> None:
    record = make()
    record["metadata"]["name"] = f"fixed-{kind}"
    apply(record, api_only.kubeconfig)
    ok, refusal = change(kind, f"fixed-{kind}", patch, api_only.kubeconfig)
    assert not ok, f"{kind}: {patch} was accepted, but a record must not change"
    assert sentence in refusal, f"{kind}: the refusal should say {sentence!r}, but says: {refusal}"


def test_the_workload_can_change_until_it_is_gated(api_only: Instance) -> None:
    kubeconfig = api_only.kubeconfig
    apply(rollout(name="moving"), kubeconfig)
    other = '{"spec":{"workloadRef":{"name":"NAME"}}}'
    assert change("rollouts.gatewright.dev", "moving", other.replace("NAME", "a"), kubeconfig)[0], (
        "nothing is gated yet, so a typo in the workload's name can be mended"
    )
    gated = '{"status":{"stable":{"revision":"0123456789","podTemplateHash":"5f7d8c9b6","replicas":3}}}'
    ok, refusal = change("rollouts.gatewright.dev", "moving", gated, kubeconfig, "--subresource=status")
    assert ok, refusal
    ok, refusal = change("rollouts.gatewright.dev", "moving", other.replace("NAME", "b"), kubeconfig)
    assert not ok, "the marks on the gated Deployment would be left behind"
    assert "The workload of a Rollout can't change once it is gated" in refusal


def test_traffic_cannot_change_while_a_release_is_under_way(api_only: Instance) -> None:
    kubeconfig = api_only.kubeconfig
    apply(rollout(name="under-way"), kubeconfig)
    other = '{"spec":{"traffic":{"gatewayAPI":{"httpRoute":"other"}}}}'
    for phase, free in (("Progressing", False), ("Held", False), ("RolledBack", True), ("Idle", True)):
        ok, refusal = change(
            "rollouts.gatewright.dev",
            "under-way",
            f'{{"status":{{"phase":"{phase}"}}}}',
            kubeconfig,
            "--subresource=status",
        )
        assert ok, refusal
        ok, refusal = change("rollouts.gatewright.dev", "under-way", other, kubeconfig, "--dry-run=server")
        assert ok is free, (
            f"in phase {phase} a change of traffic should be {'free' if free else 'refused'}: {refusal}"
        )
        if not free:
            assert "traffic can't change while a release is under way" in refusal


def test_defaults_are_written_into_the_object(api_only: Instance) -> None:
    stored = apply(rollout(), api_only.kubeconfig, "--dry-run=server", "-o", "json").json["spec"]
    assert stored["steps"][1]["gate"] == {
        "duration": "10m",
        "interval": "10s",
        "warmup": "30s",
        "window": "30s",
    }
    assert stored["workloadRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
    stored = apply(contract(), api_only.kubeconfig, "--dry-run=server", "-o", "json").json["spec"]
    assert stored["hold"] == {
        "escalateAfter": "15m",
        "timeout": "24h",
        "onTimeout": "Hold",
        "maxWaiver": "72h",
        "minApprovals": 1,
        "separationOfDuties": "Disclose",
    }
    assert stored["totalFailure"] == {"badRatio": 0.5, "for": "15s"}
    assert stored["checks"][0]["require"] == "Pass"


def test_the_crds_pass_strict_validation(api_only: Instance) -> None:
    answer = kubectl(
        ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", str(ROOT / "crds")],
        api_only.kubeconfig,
    )
    assert answer.ok, answer.err
    found = kubectl(["get", "crd", "-o", "json"], api_only.kubeconfig, check=True).json["items"]
    for crd in found:
        states = {c["type"]: c for c in crd["status"]["conditions"]}
        assert "NonStructuralSchema" not in states, states.get("NonStructuralSchema")
        assert states["NamesAccepted"]["status"] == "True", states["NamesAccepted"]


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("rollouts.gatewright.dev.spec.steps.gate", "No check passes before this much time was watched."),
        (
            "rollouts.gatewright.dev.status.hold",
            "Digest of the evidence that was judged; a GateReview names it.",
        ),
        ("gatecontracts.spec.checks", "What it takes to promote."),
        ("gatecontracts.spec.checks.evidence.counts.bad", "Raw counter selectors of the bad events"),
        ("gatereviews.spec.decision", "Approve: a waiver, go on."),
        ("gateorders.spec", "send all traffic back to stable."),
        ("gateruns.status.verdict.checks.statistics", "Lower Wilson bound of the good ratio."),
        ("metricsources.spec.arms", "Metric label that tells canary from stable"),
        ("notificationsinks.spec", "The sink's secret, in the operator's namespace."),
    ],
)
def test_kubectl_explain_tells_what_a_field_is_for(field: str, words: str, api_only: Instance) -> None:
    text = kubectl(["explain", field], api_only.kubeconfig, check=True).out
    assert words in " ".join(text.split()), f"kubectl explain {field} should say {words!r}, but says: {text}"


def test_get_tells_what_a_rollout_is_doing_and_why(api_only: Instance) -> None:
    kubeconfig = api_only.kubeconfig
    apply(rollout(name="shown"), kubeconfig)
    status = (
        '{"status":{"phase":"Held","message":"Held at step 3: http-success is not proven.","currentStep":3,'
        '"weight":{"desired":25,"actual":25},"verdict":{"decision":"HOLD","run":"shown-r","step":"3",'
        '"reason":"LowTraffic","at":"2030-01-01T00:00:00Z"}}}'
    )
    ok, refusal = change("rollouts.gatewright.dev", "shown", status, kubeconfig, "--subresource=status")
    assert ok, refusal
    head, row = kubectl(["get", "gwr", "shown"], kubeconfig, check=True).out.splitlines()
    assert head.split() == ["NAME", "PHASE", "STEP", "WEIGHT", "VERDICT", "AGE", "MESSAGE"]
    assert row.split()[1:5] == ["Held", "3", "25", "HOLD"]
    assert row.endswith("Held at step 3: http-success is not proven.")
    listed = kubectl(
        ["get", "gwr", "--field-selector", "status.phase=Held", "-o", "name"], kubeconfig, check=True
    ).out.split()
    assert listed == ["rollout.gatewright.dev/shown"], "a list can be filtered by phase on the server"


@pytest.mark.parametrize(
    ("resource", "manifest", "columns"),
    [
        ("gct", contract(), ["NAME", "BREACH", "HOLD", "THEN", "WAIVER", "VERSION", "AGE"]),
        ("gr", run(), ["NAME", "ROLLOUT", "STEP", "ATTEMPT", "PHASE", "VERDICT", "REASON", "AGE"]),
        ("grv", review(), ["NAME", "ROLLOUT", "STEP", "DECISION", "REVIEWER", "EXPIRES", "OUTCOME", "AGE"]),
        ("gord", order(), ["NAME", "ROLLOUT", "ORDER", "BY", "OUTCOME", "AGE"]),
        ("gns", sink(), ["NAME", "READY", "SENT", "WAITING", "GIVEN-UP", "LAST", "AGE"]),
        ("gms", source(), ["NAME", "ADDRESS", "ARMS", "PRODUCER", "SCRAPE", "READY", "AGE"]),
    ],
)
def test_get_shows(resource: str, manifest: Manifest, columns: list[str], api_only: Instance) -> None:
    named = copy.deepcopy(manifest)
    named["metadata"]["name"] = "columns"
    apply(named, api_only.kubeconfig)
    shown = kubectl(["get", resource, "columns"], api_only.kubeconfig, check=True).out
    assert shown.splitlines()[0].split() == columns


def test_the_category_lists_all_kinds(api_only: Instance) -> None:
    names = kubectl(
        ["api-resources", "--categories=gatewright", "-o", "name", "--cached=false"],
        api_only.kubeconfig,
        check=True,
    ).out.split()
    assert sorted(names) == sorted(
        f"{plural}.gatewright.dev"
        for plural in (
            "gatecontracts",
            "rollouts",
            "gateruns",
            "gatereviews",
            "gateorders",
            "metricsources",
            "notificationsinks",
        )
    )
