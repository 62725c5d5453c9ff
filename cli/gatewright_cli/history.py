"""Evidence of a backtest from a Prometheus: which one, which arms, which time."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from gatewright_analysis.backtest.lines import Recording
from gatewright_analysis.kinds.contract import GateContractSpec, Stage
from gatewright_cli.errors import GateError, UsageError
from gatewright_cli.output import parse_time

_DEFAULT_LABELS = {"PodName": "pod", "PodLabel": "revision", "Service": "service", "Workload": "workload"}


@dataclass(frozen=True)
class Past:
    """What of which Prometheus; `canary` and `stable` are what the label of `arms_by` holds (a prefix of PodName)."""

    address: str | None
    source: str | None
    start: str
    end: str
    step: timedelta
    namespace: str
    canary: str
    stable: str | None
    arms_by: str = "PodName"
    arms_label: str | None = None
    namespace_label: str = "namespace"
    scrape_interval: timedelta = timedelta(seconds=15)


def recordings(
    past: Past, contract: GateContractSpec, stage: Stage, checks: tuple[str, ...]
) -> Mapping[str, Recording]:
    """Of every check at `stage` that counts events. Raises GateError when the source gives nothing that can be used."""
    # Reading brings in an HTTP client, which a file of evidence has no need of.
    from gatewright_analysis.backtest.history import SourceFailed, Span, read_history
    from gatewright_analysis.kinds.run import ArmRef
    from gatewright_analysis.kinds.source import ArmsBy, MetricSourceSpec
    from gatewright_analysis.providers.prometheus import PrometheusReader

    source = _source(past)
    if not isinstance(source, MetricSourceSpec) or source.address is None or source.arms is None:
        raise UsageError("A backtest reads counters: the MetricSource needs an address and arms.")
    by = source.arms.by
    try:
        span = Span(_unix(past.start, "--from"), _unix(past.end, "--to"), past.step.total_seconds())
    except ValueError as error:
        raise UsageError(f"{error}."[:1].upper() + f"{error}."[1:]) from error

    def arm(value: str) -> ArmRef:
        field = {ArmsBy.POD_NAME: "pod_prefix", ArmsBy.POD_LABEL: "revision", ArmsBy.SERVICE: "service"}
        given = {"pod_prefix": value, field.get(by, "workload"): value}
        return ArmRef(**given)

    if stage is Stage.BAKE and past.stable is not None:
        raise UsageError("At the stage Bake no stable version serves: leave out --stable.")
    if past.stable == past.canary:
        raise UsageError("--canary and --stable are the same, so nothing tells the arms apart.")
    timeout = source.timeout.total_seconds()
    reader = PrometheusReader(source.address, timeout_seconds=timeout)
    found = {}
    try:
        for check in contract.checks:
            entry = check.evidence_at(stage)
            if entry is None or not entry.from_counters or (checks and check.id not in checks):
                continue
            try:
                found[check.id] = read_history(
                    entry,
                    source,
                    namespace=past.namespace,
                    canary=arm(past.canary),
                    stable=None if past.stable is None else arm(past.stable),
                    span=span,
                    for_seconds=contract.total_failure.for_.total_seconds(),
                    read=reader.read,
                )
            except ValueError as error:
                raise GateError(f"The check {check.id} can't be read: {str(error).rstrip('.')}.") from error
            except SourceFailed as error:
                raise GateError(f"{source.address} gave no evidence of {check.id}: {error}") from error
    finally:
        reader.close()
    return found


def _source(past: Past) -> object:
    from pydantic import ValidationError

    from gatewright_analysis.kinds.source import MetricSourceSpec
    from gatewright_analysis.manifests import UnreadableManifest, source_of
    from gatewright_cli.files import manifest

    if past.source is not None:
        try:
            spec = source_of(manifest(past.source, "MetricSource"))
        except UnreadableManifest as error:
            raise GateError(f"{past.source} can't be used: {error}") from error
        if spec.auth is not None or spec.ca is not None:
            raise UsageError(
                f"The MetricSource in {past.source} logs in by Secrets, which only the operator reads: give the address "
                "of a Prometheus that needs none (kubectl port-forward) with --prometheus, and take auth and ca out."
            )
        return spec if past.address is None else spec.model_copy(update={"address": past.address})
    try:
        return MetricSourceSpec.model_validate(
            {
                "address": past.address,
                "scrapeInterval": past.scrape_interval,
                "producer": "Workload",
                "arms": {
                    "by": past.arms_by,
                    "label": past.arms_label or _DEFAULT_LABELS[past.arms_by],
                    "namespaceLabel": past.namespace_label,
                },
            }
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise UsageError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.") from error


def _unix(text: str, option: str) -> float:
    try:
        value = float(text)
    except ValueError:
        moment = parse_time(text)
        if moment is None:
            raise UsageError(
                f"{option} {text!r} is no time: write 2026-03-01T10:00:00Z, or Unix seconds."
            ) from None
        return moment.timestamp()
    if not 0 < value < 1e11:
        raise UsageError(f"{option} {text!r} is no time in Unix seconds.")
    return value
