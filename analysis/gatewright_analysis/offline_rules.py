"""The rules that the API server checks in CEL, said again in Python for `lint`, which has no API server. Pure.

The sentences are the kinds' own, word for word; a test finds a rule that has no twin here.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from gatewright_analysis.kinds.base import Model
from gatewright_analysis.kinds.contract import (
    Calibration,
    Check,
    GateContractSpec,
    Limit,
    OnBreach,
    OracleKind,
    Pool,
    Require,
    Stage,
    Tier,
)
from gatewright_analysis.kinds.evidence import (
    BurnRateEvidence,
    Evidence,
    JobReport,
    SamplesEvidence,
    ValueEvidence,
)
from gatewright_analysis.kinds.policy import World
from gatewright_analysis.kinds.rollout import (
    Bake,
    Gate,
    GatewayAPITraffic,
    Rollout,
    RolloutSpec,
    Step,
    Traffic,
    WorkloadRef,
)
from gatewright_analysis.kinds.source import Auth, MetricSourceSpec

Path = tuple[str | int, ...]
Rule = tuple[str, str, Callable[[Any], bool]]
"""(field below the model or "", beginning of the kinds' sentence, what must hold)."""


def _one(*values: object) -> bool:
    return sum(value is not None for value in values) == 1


def _both_or_neither(*values: object) -> bool:
    return len({value is not None for value in values}) == 1


def _distinct(values: Sequence[object]) -> bool:
    return len(set(values)) == len(values)


def _own_limit(entry: Evidence) -> bool:
    by_exit_code = entry.job is not None and entry.job.report is JobReport.EXIT_CODE
    return entry.kind in ("pods", "value", "burnRate") or by_exit_code


def _counts_nothing(entry: Evidence) -> bool:
    return _own_limit(entry) and entry.burn_rate is None


def _counted(entry: Evidence) -> bool:
    return entry.from_counters


def _is_deterministic(check: Check) -> bool:
    return check.oracle_kind is OracleKind.DETERMINISTIC


def _kinds(check: Check) -> set[str]:
    return {entry.kind for entry in check.evidence}


def _weights(spec: RolloutSpec) -> list[int]:
    return [step.set_weight for step in spec.steps if step.set_weight is not None]


def _gate_between(spec: RolloutSpec) -> bool:
    course = [step.set_weight or 0 for step in spec.steps if step.pause is None]
    return all(not (one and other) for one, other in pairwise(course))


RULES: Final[dict[type[Model], tuple[Rule, ...]]] = {
    Limit: (("", "A limit is exactly one of", lambda o: _one(o.max_bad_ratio, o.min_good_ratio)),),
    Calibration: (
        (
            "",
            "A calibration needs samples",
            lambda o: o.passed_good + o.failed_good >= 1 and o.passed_bad + o.failed_bad >= 1,
        ),
    ),
    BurnRateEvidence: (("", "maxBurn times", lambda o: o.max_burn * (1.0 - o.objective) < 1.0),),
    ValueEvidence: (
        ("", "A value needs a limit", lambda o: o.min is not None or o.max is not None),
        ("", "min must be below max", lambda o: o.min is None or o.max is None or o.min < o.max),
        ("query", "The query needs the placeholder $arm", lambda o: "$arm" in o.query),
    ),
    SamplesEvidence: (
        (
            "",
            "Samples come from counters",
            lambda o: _both_or_neither(o.passed, o.total) and (o.suite is None) == (o.passed is not None),
        ),
    ),
    Check: (
        (
            "onBreach",
            "A Sampled check can hold a release",
            lambda o: _is_deterministic(o) or o.on_breach in (None, OnBreach.HOLD),
        ),
        (
            "evidence",
            "Evidence of the kinds samples, scores and paired",
            lambda o: not _is_deterministic(o) or not _kinds(o) & {"samples", "scores", "paired"},
        ),
        (
            "evidence",
            "Evidence of the kinds pods, value and burnRate",
            lambda o: _is_deterministic(o) or not _kinds(o) & {"pods", "value", "burnRate"},
        ),
        (
            "",
            "This check needs a limit",
            lambda o: o.limit is not None or all(_own_limit(e) or e.kind == "paired" for e in o.evidence),
        ),
        (
            "limit",
            "All evidence of this check has a limit of its own",
            lambda o: o.limit is None or not all(map(_own_limit, o.evidence)),
        ),
        (
            "evidence",
            "This check counts no samples",
            lambda o: (
                (o.min_samples or o.planned_samples) is None or not all(map(_counts_nothing, o.evidence))
            ),
        ),
        (
            "versusStable",
            "versusStable compares events",
            lambda o: (
                o.versus_stable is None
                or (
                    _is_deterministic(o)
                    and any(Stage.CANARY in e.stages and e.kind in ("counts", "latency") for e in o.evidence)
                )
            ),
        ),
        (
            "plannedSamples",
            "plannedSamples must not be below minSamples",
            lambda o: (
                o.min_samples is None or o.planned_samples is None or o.min_samples <= o.planned_samples
            ),
        ),
        (
            "spending",
            "spending is for events from counters",
            lambda o: o.spending is None or (o.pool is Pool.STEP and all(map(_counted, o.evidence))),
        ),
        (
            "pool",
            "pool: Rollout adds up",
            lambda o: (
                o.pool is Pool.STEP or any(Stage.CANARY in e.stages and _counted(e) for e in o.evidence)
            ),
        ),
        (
            "calibration",
            "A calibration says how a judge",
            lambda o: o.calibration is None or _kinds(o) == {"samples"},
        ),
        (
            "tier",
            "A Sampled check is never Fast",
            lambda o: _is_deterministic(o) or o.tier in (None, Tier.FULL),
        ),
        (
            "evidence",
            "A stage stands once",
            lambda o: _distinct([stage for entry in o.evidence for stage in entry.stages]),
        ),
    ),
    World: (
        (
            "fingerprints",
            "Two fingerprints have the same name",
            lambda o: _distinct([f.name for f in o.fingerprints]),
        ),
    ),
    GateContractSpec: (
        ("checks", "Two checks have the same id", lambda o: _distinct([check.id for check in o.checks])),
        (
            "checks",
            "At least one check needs require: Pass",
            lambda o: any(check.require is Require.PASS for check in o.checks),
        ),
    ),
    WorkloadRef: (
        (
            "",
            "Deployments can be gated",
            lambda o: (
                (o.api_version, o.kind) == ("apps/v1", "Deployment")
                or (o.api_version.startswith("argoproj.io/") and o.kind == "Rollout")
            ),
        ),
    ),
    GatewayAPITraffic: (
        ("", "stableService and canaryService must be two", lambda o: o.stable_service != o.canary_service),
    ),
    Traffic: (("", "traffic is exactly one of", lambda o: _one(o.gateway_api, o.replicas)),),
    Gate: (
        ("interval", "interval must not be longer than window", lambda o: o.interval <= o.window),
        ("window", "window (30s unless you set it) must be shorter", lambda o: o.window < o.duration),
        (
            "maxDuration",
            "maxDuration must not be shorter",
            lambda o: o.max_duration is None or o.duration <= o.max_duration,
        ),
        ("checks", "A check is named twice", lambda o: _distinct(o.checks)),
    ),
    Step: (("", "A step is exactly one of", lambda o: _one(o.set_weight, o.gate, o.pause)),),
    Bake: (
        ("window", "window (30s unless you set it) must be shorter", lambda o: o.window < o.duration),
        ("interval", "interval must not be longer than duration", lambda o: o.interval <= o.duration),
    ),
    RolloutSpec: (
        (
            "traffic",
            "With traffic by replicas",
            lambda o: o.traffic.replicas is None or all(weight <= 50 for weight in _weights(o)),
        ),
        ("steps", "steps needs at least one setWeight", lambda o: bool(_weights(o))),
        ("steps", "The last step must be a gate", lambda o: o.steps[-1].gate is not None),
        ("steps", "Each setWeight needs a gate", _gate_between),
        (
            "steps",
            "Weights must rise",
            lambda o: all(one < other for one, other in pairwise(_weights(o))),
        ),
    ),
    Rollout: (("metadata", "The name of a Rollout has at most 52", lambda o: len(o.metadata.name) <= 52),),
    Auth: (("", "auth is exactly one of", lambda o: _one(o.bearer, o.basic)),),
    MetricSourceSpec: (
        ("", "A MetricSource is a Prometheus", lambda o: _one(o.address, o.evidence)),
        ("", "arms tell canary and stable apart", lambda o: _both_or_neither(o.address, o.arms)),
        (
            "evidence",
            "Result files are read from",
            lambda o: o.evidence is None or (o.auth is None and o.ca is None),
        ),
        ("auth", "auth is sent over https only", lambda o: o.auth is None or _https(o)),
        ("ca", "ca is for https only", lambda o: o.ca is None or _https(o)),
        ("timeout", "timeout must not be longer than 60s", lambda o: o.timeout.total_seconds() <= 60),
    ),
}


def _https(source: MetricSourceSpec) -> bool:
    return source.address is None or source.address.startswith("https://")


def broken(model: Model, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Each rule that does not hold in `model` or below it: (path of the field, the API server's sentence)."""
    sentences = sentences_of(type(model))
    for field, beginning, holds in RULES.get(type(model), ()):
        if not holds(model):
            where = (*path, field) if field else path
            yield where, next(each for each in sentences if each.startswith(beginning))
    for name, info in type(model).model_fields.items():
        yield from _below(getattr(model, name), (*path, info.alias or name))


def _below(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, Model):
        yield from broken(value, path)
    elif isinstance(value, tuple):
        for number, each in enumerate(value):
            yield from _below(each, (*path, number))


def sentences_of(model: type[Model]) -> tuple[str, ...]:
    """What the API server says of this model and of its fields, as the kinds have it."""
    extras = [
        model.model_config.get("json_schema_extra"),
        *(f.json_schema_extra for f in model.model_fields.values()),
    ]
    extras += [
        getattr(each, "json_schema_extra", None)
        for field in model.model_fields.values()
        for each in field.metadata
    ]
    return tuple(
        str(rule["message"])
        for extra in extras
        if isinstance(extra, dict)
        for rule in extra.get("x-kubernetes-validations", ())  # type: ignore[union-attr]
    )
