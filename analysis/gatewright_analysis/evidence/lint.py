"""What can be said about a check's source before a run starts: for conditions, so each is a fault with a
sentence.
"""

from collections.abc import Mapping

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.promql import Matcher, parse_selector
from gatewright_analysis.evidence.streams import written_selectors
from gatewright_analysis.kinds.contract import Check, Evidence
from gatewright_analysis.kinds.policy import Fingerprint
from gatewright_analysis.kinds.run import ArmRef
from gatewright_analysis.kinds.source import ArmsBy, MetricSource
from gatewright_analysis.reasons import Reason


def source_problems(
    check: Check, sources: Mapping[str, MetricSource], namespace_labels: Mapping[str, str]
) -> tuple[Fault, ...]:
    """Sources that are missing or not for this namespace, and selectors that can't be asked there.

    `sources` are all MetricSources by name, `namespace_labels` the labels of the namespace that holds the
    contract.
    """
    found: list[Fault] = []
    for evidence in check.evidence:
        name = evidence.source
        if name is None:
            continue
        source = sources.get(name)
        if source is None:
            have = ", ".join(sorted(sources)) or "none"
            found.append(
                Fault(
                    Reason.SOURCE_NOT_FOUND,
                    f"check {check.id} reads from the MetricSource {name}, which does not exist (there are: {have})",
                )
            )
        elif not _allowed(source, namespace_labels):
            found.append(
                Fault(
                    Reason.SOURCE_NOT_ALLOWED,
                    f"check {check.id} reads from the MetricSource {name}, whose allowedNamespaces do not select "
                    "this namespace: ask its owner, or use another source",
                )
            )
        else:
            found.extend(_selector_problems(check, evidence, source))
    return tuple(dict.fromkeys(found))


def fingerprint_problem(
    fingerprint: Fingerprint, sources: Mapping[str, MetricSource], namespace_labels: Mapping[str, str]
) -> Fault | None:
    """Why a fingerprint could never be read, None when nothing known stands against it. Parameters as above."""
    name, source = fingerprint.source, sources.get(fingerprint.source)
    reads = f"fingerprint {fingerprint.name} reads from the MetricSource {name}"
    if source is None:
        have = ", ".join(sorted(sources)) or "none"
        return Fault(Reason.SOURCE_NOT_FOUND, f"{reads}, which does not exist (there are: {have})")
    if not _allowed(source, namespace_labels):
        return Fault(
            Reason.SOURCE_NOT_ALLOWED,
            f"{reads}, whose allowedNamespaces do not select this namespace: ask its owner, or use another source",
        )
    if source.spec.address is None:
        return Fault(
            Reason.SOURCE_KIND, f"{reads}, which holds result files: name a MetricSource with an address"
        )
    try:
        parse_selector(fingerprint.series)
    except ValueError as error:
        return Fault(Reason.INVALID_SPEC, f"fingerprint {fingerprint.name}: {error}")
    return None


def arms_problem(source: MetricSource, canary: ArmRef, stable: ArmRef | None) -> Fault | None:
    """Why the source can't tell these two arms apart, None when it can."""
    if source.spec.arms is None:
        return Fault(
            Reason.SOURCE_KIND,
            f"the MetricSource {source.metadata.name} holds result files and tells no arms apart",
        )
    by = source.spec.arms.by
    canary_name, stable_name = _told_by(by, canary), None if stable is None else _told_by(by, stable)
    if canary_name == "" or stable_name == "":
        return Fault(
            Reason.ARMS_NOT_SEPARABLE,
            f"the MetricSource {source.metadata.name} tells arms apart by {by.value}, and this rollout has no "
            f"{by.value} for one of them: use a source that tells arms apart by PodName",
        )
    if canary_name != stable_name:
        return None
    if by is ArmsBy.POD_NAME:
        # Generated pod names are cut to 63 characters, and both arms begin alike.
        sentence = "the names of canary and stable pods begin alike after they are cut: shorten the Deployment's name"
    else:
        sentence = f"canary and stable share the {by.value} {canary_name}: use a source that tells arms apart otherwise"
    return Fault(Reason.ARMS_NOT_SEPARABLE, sentence)


def window_problem(source: MetricSource, window_seconds: float) -> Fault | None:
    """A window must hold two scrapes of the source."""
    interval = source.spec.scrape_interval.total_seconds()
    if window_seconds >= 2 * interval:
        return None
    return Fault(
        Reason.INVALID_SPEC,
        f"the gate's window of {window_seconds:g} s is shorter than two scrape intervals of the MetricSource "
        f"{source.metadata.name} ({2 * interval:g} s): lengthen the window",
    )


def _told_by(by: ArmsBy, arm: ArmRef) -> str:
    return {
        ArmsBy.POD_NAME: arm.pod_prefix,
        ArmsBy.POD_LABEL: arm.revision,
        ArmsBy.SERVICE: arm.service,
        ArmsBy.WORKLOAD: arm.workload,
    }[by]


def _allowed(source: MetricSource, namespace_labels: Mapping[str, str]) -> bool:
    allowed = source.spec.allowed_namespaces
    return allowed is None or all(
        namespace_labels.get(label) == value for label, value in allowed.match_labels.items()
    )


def _selector_problems(check: Check, evidence: Evidence, source: MetricSource) -> list[Fault]:
    arms = source.spec.arms
    if evidence.suite is not None or arms is None:
        return _kind_problems(check, evidence, source)
    if not evidence.from_counters:
        return []
    try:
        for _, selector in written_selectors(evidence):
            selector.with_matchers(Matcher(arms.namespace_label, "=", ""), Matcher(arms.label, "=", ""))
    except ValueError as error:
        return [Fault(Reason.INVALID_SPEC, f"check {check.id}: {error}")]
    return []


def _kind_problems(check: Check, evidence: Evidence, source: MetricSource) -> list[Fault]:
    """Counters are read from an address, result files from a place that they are pushed to."""
    name = source.metadata.name
    if evidence.suite is not None and source.spec.evidence is None:
        sentence = f"check {check.id} reads the suite {evidence.suite} from the MetricSource {name}, which is a Prometheus"
        return [Fault(Reason.SOURCE_KIND, f"{sentence}: name a MetricSource with spec.evidence")]
    if evidence.suite is None and source.spec.arms is None:
        sentence = (
            f"check {check.id} reads {evidence.kind} from the MetricSource {name}, which holds result files"
        )
        return [Fault(Reason.SOURCE_KIND, f"{sentence}: name a MetricSource with an address")]
    return []
