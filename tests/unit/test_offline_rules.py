"""The rules of the API server said again in Python: none is forgotten, and each can refuse."""

from typing import Any

import pytest
import yaml

from gatewright_analysis.crd import KINDS, crd
from gatewright_analysis.kinds.base import Model
from gatewright_analysis.linting import LintFinding, Manifest, lint
from gatewright_analysis.offline_rules import RULES, sentences_of

ELSEWHERE = {
    # Types and bounds, which the models themselves refuse.
    "A share lies between 0 and 1, both excluded: write 1 % as 0.01.",
    "A duration longer than 0s is needed here.",
    "A weight is a percentage from 1 to 100.",
    "address is an http or https URL without credentials, query and fragment, for example https://prometheus.monitoring:9090.",
    # Said by `linting`, before rules that need to know which kind an entry has.
    "An evidence entry has exactly one of counts, latency, burnRate, value, samples, scores, paired, pods and job: write "
    "one entry per kind, each with its own stages.",
    # Changes of an object that is there already.
    "The workload of a Rollout can't change once it is gated: delete this Rollout and create another.",
    "traffic can't change while a release is under way: wait for its end, or abort it first.",
}


def said_by_the_api_server(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return {sentence for each in schema for sentence in said_by_the_api_server(each)}
    if not isinstance(schema, dict):
        return set()
    own = {rule["message"] for rule in schema.get("x-kubernetes-validations", ()) if isinstance(rule, dict)}
    return own | {sentence for each in schema.values() for sentence in said_by_the_api_server(each)}


@pytest.mark.parametrize("name", ["GateContract", "Rollout", "MetricSource"])
def test_every_rule_of_the_api_server_has_a_twin(name: str) -> None:
    [kind] = [each for each in KINDS if each.name == name]
    schema = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    wanted = said_by_the_api_server(schema["spec"]) | said_by_the_api_server(
        crd(kind)["spec"]["versions"][0]["schema"]
    )
    said = said_by_the_api_server(schema.get("status", {}))
    beginnings = tuple(beginning for rules in RULES.values() for _, beginning, _ in rules)
    missing = {each for each in wanted - said - ELSEWHERE if not each.startswith(beginnings)}
    # A selector's own grammar is parsed where it is used.
    assert {each for each in missing if "selector" not in each.lower()} == set()


@pytest.mark.parametrize("model", list(RULES), ids=lambda model: model.__name__)
def test_every_twin_has_the_sentence_of_its_kind(model: type[Model]) -> None:
    for _, beginning, _ in RULES[model]:
        assert len([each for each in sentences_of(model) if each.startswith(beginning)]) == 1, beginning


CONTRACT = """
apiVersion: gatewright.dev/v1alpha1
kind: GateContract
metadata: {name: checkout, namespace: shop}
spec:
  checks:
  - id: http
    oracleKind: Deterministic
    limit: {maxBadRatio: 0.01}
    evidence:
    - stages: [Canary, Bake]
      counts: {source: prometheus, bad: ['http_requests_total{code=~"5.."}'], total: [http_requests_total]}
"""
ROLLOUT = """
apiVersion: gatewright.dev/v1alpha1
kind: Rollout
metadata: {name: checkout, namespace: shop}
spec:
  workloadRef: {name: checkout}
  contractRef: {name: checkout}
  traffic: {replicas: {}}
  steps: [{setWeight: 10}, {gate: {duration: 10m}}, {setWeight: 50}, {gate: {duration: 10m}}]
  bake: {duration: 10m}
"""
SOURCE = """
apiVersion: gatewright.dev/v1alpha1
kind: MetricSource
metadata: {name: prometheus}
spec:
  address: https://prometheus.example
  scrapeInterval: 5s
  producer: Platform
  arms: {by: PodName, label: pod}
"""


def found(*texts: str) -> list[LintFinding]:
    return list(
        lint([Manifest(yaml.safe_load(text), str(number)) for number, text in enumerate(texts)]).findings
    )


def errors(*texts: str) -> list[str]:
    return [f"{'.'.join(map(str, each.path))}: {each.sentence}" for each in found(*texts) if each.error]


def test_what_is_right_has_no_finding() -> None:
    result = lint([Manifest(yaml.safe_load(text), "x") for text in (CONTRACT, ROLLOUT, SOURCE)])
    assert result.seen == 3
    assert [each.sentence for each in result.findings if each.error] == []
    assert result.skipped == ()


@pytest.mark.parametrize(
    ("text", "old", "new", "path", "sentence"),
    [
        (CONTRACT, "maxBadRatio: 0.01", "maxBadRatio: 0.01, minGoodRatio: 0.9", "spec.checks.0.limit", "exactly one of"),
        (CONTRACT, "    limit: {maxBadRatio: 0.01}\n", "", "spec.checks.0", "This check needs a limit"),
        (CONTRACT, "Deterministic", "Sampled", None, None),
        (CONTRACT, "Deterministic", "Sampled\n    onBreach: Rollback", "spec.checks.0.onBreach", "never roll it back"),
        (CONTRACT, "Deterministic", "Sampled\n    tier: Fast", "spec.checks.0.tier", "never Fast"),
        (CONTRACT, "[Canary, Bake]", "[Canary, Canary]", "spec.checks.0.evidence", "A stage stands once"),
        (CONTRACT, "- id: http\n", "- id: http\n    require: NoBreach\n", "spec.checks", "At least one check needs"),
        (CONTRACT, "maxBadRatio: 0.01", "maxBadRatio: '0.01'", "spec.checks.0.limit.maxBadRatio", "valid number"),
        (CONTRACT, "maxBadRatio: 0.01", "maxBad: 0.01", "spec.checks.0.limit.maxBad", "Nobody reads the field maxBad"),
        (CONTRACT, "  checks:", "  hold: {maxWaiver: 3 days}\n  checks:", "spec.hold.maxWaiver", "is not a duration"),
        (CONTRACT, "counts:", "pods: {}\n      counts:", "spec.checks.0.evidence.0", "exactly one kind"),
        (CONTRACT, "v1alpha1", "v2", "apiVersion", "is no version of GateContract"),
        (CONTRACT, "GateContract", "Gate", "kind", "has no kind Gate that people write"),
        (CONTRACT, "{name: checkout, namespace: shop}", "{}", "metadata", "needs metadata.name"),
        (ROLLOUT, "{setWeight: 50}, ", "{setWeight: 10}, ", "spec.steps", "Weights must rise"),
        (ROLLOUT, "{gate: {duration: 10m}}, {setWeight: 50}", "{setWeight: 50}", "spec.steps", "Each setWeight needs a gate"),
        (ROLLOUT, ", {gate: {duration: 10m}}]", "]", "spec.steps", "The last step must be a gate"),
        (ROLLOUT, "{setWeight: 50}", "{setWeight: 60}", "spec.traffic", "can't pass 50 %"),
        (ROLLOUT, "{replicas: {}}", "{}", "spec.traffic", "traffic is exactly one of"),
        (ROLLOUT, "bake: {duration: 10m}", "bake: {duration: 30s}", "spec.bake.window", "must be shorter than duration"),
        (ROLLOUT, "name: checkout, namespace", f"name: {'c' * 53}, namespace", "metadata", "at most 52 characters"),
        (SOURCE, "https://", "http://user@", "spec.address", "pattern"),
        (SOURCE, "  producer", "  timeout: 90s\n  producer", "spec.timeout", "longer than 60s"),
        (SOURCE, "  arms: {by: PodName, label: pod}\n", "", "spec", "arms tell canary and stable apart"),
    ],
)  # fmt: skip
def test_what_the_api_server_would_refuse_is_found_at_its_field(
    text: str, old: str, new: str, path: str | None, sentence: str | None
) -> None:
    assert old in text
    said = errors(text.replace(old, new))
    if path is None or sentence is None:
        assert said == []
    else:
        assert len(said) == 1 or "Nobody reads" in sentence, said
        assert said[0].startswith(f"{path}: ")
        assert sentence in said[0]


@pytest.mark.parametrize(
    ("contract", "rollout", "source", "where", "sentence"),
    [
        ("", "name: cart", "", None, None),
        ("prometheus|graphite", "", "", ("0", "spec.checks.0"), "which does not exist (there are: prometheus)"),
        ("", "duration: 10m}}, {setWeight|duration: 10m, checks: [cart]}}, {setWeight", "", ("1", "spec.steps.1"), "names the check cart"),
        ("[Canary, Bake]|[Canary]", "", "", ("1", "spec.bake"), "No check of the contract has evidence for the stage Bake"),
        ("", "", "scrapeInterval: 5s|scrapeInterval: 20s", ("1", "spec.steps.1"), "a window must hold two scrapes"),
        ("limit: {maxBadRatio: 0.01}|limit: {maxBadRatio: 0.01}\n    plannedSamples: 50", "", "", ("0", "spec.checks.0"), "plan at least"),
    ],
)  # fmt: skip
def test_what_only_shows_together_is_found_too(
    contract: str, rollout: str, source: str, where: tuple[str, str] | None, sentence: str | None
) -> None:
    def changed(text: str, change: str) -> str:
        old, _, new = change.partition("|")
        assert old in text or not new
        return text.replace(old, new) if new else text

    seen = found(changed(CONTRACT, contract), changed(ROLLOUT, rollout), changed(SOURCE, source))
    said = [(each.manifest, ".".join(map(str, each.path)), each.sentence) for each in seen if each.error]
    if where is None or sentence is None:
        assert said == []
    else:
        assert any((manifest, path) == where and sentence in text for manifest, path, text in said), said


def test_numbers_of_the_workload_alone_are_a_warning() -> None:
    own = found(CONTRACT, ROLLOUT, SOURCE.replace("Platform", "Workload"))
    [warning] = [each for each in own if "the workload itself produces" in each.sentence]
    assert (warning.error, warning.manifest) == (False, "0")
    assert not any(
        "the workload itself produces" in each.sentence for each in found(CONTRACT, ROLLOUT, SOURCE)
    )


def test_what_could_not_be_checked_is_said() -> None:
    alone = lint([Manifest(yaml.safe_load(ROLLOUT), "r")])
    assert alone.skipped == ("Rollout checkout: its GateContract checkout is not among these files.",)
    without = lint([Manifest(yaml.safe_load(CONTRACT), "c")])
    assert [each.split(":")[0] for each in without.skipped] == ["No MetricSource is among these files"]


def test_objects_of_others_are_left_alone() -> None:
    argo = "{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: x}, spec: {strategy: {}}}"
    assert lint([Manifest(yaml.safe_load(argo), "x")]).seen == 0
