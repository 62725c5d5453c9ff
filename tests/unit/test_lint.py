"""What is wrong with a check's source is said before anything runs."""

import pytest

from gatewright_analysis.evidence.lint import arms_problem, source_problems, window_problem
from gatewright_analysis.kinds.base import ObjectMeta
from gatewright_analysis.kinds.contract import Check
from gatewright_analysis.kinds.run import ArmRef
from gatewright_analysis.kinds.source import ArmsBy, LabelSelector, MetricSource
from gatewright_analysis.reasons import Reason
from tests.unit.evidence_world import CANARY, STABLE, source

CHECK = {
    "id": "http-success",
    "oracleKind": "Deterministic",
    "limit": {"maxBadRatio": 0.01},
    "evidence": [
        {
            "stages": ["Canary"],
            "counts": {"source": "pods", "bad": ['m{code=~"5.."}'], "total": ["m"]},
        }
    ],
}
PODS_CHECK = Check.model_validate(
    {"id": "alive", "oracleKind": "Deterministic", "evidence": [{"stages": ["Canary"], "pods": {}}]}
)


def metric_source(by: ArmsBy = ArmsBy.POD_NAME, label: str = "pod", **spec: object) -> MetricSource:
    return MetricSource(metadata=ObjectMeta(name="pods"), spec=source(by, label).model_copy(update=spec))


def check(bad: str = 'm{code=~"5.."}') -> Check:
    document = {
        **CHECK,
        "evidence": [{"stages": ["Canary"], "counts": {"source": "pods", "bad": [bad], "total": ["m"]}}],
    }
    return Check.model_validate(document)


def test_a_source_that_is_there_and_allowed_is_no_problem() -> None:
    assert source_problems(check(), {"pods": metric_source()}, {}) == ()


def test_a_check_of_pods_needs_no_source() -> None:
    assert source_problems(PODS_CHECK, {}, {}) == ()


def test_a_source_that_does_not_exist_is_named_with_those_that_do() -> None:
    (found,) = source_problems(check(), {"gateway": metric_source()}, {})
    assert found.reason is Reason.SOURCE_NOT_FOUND
    assert "pods, which does not exist (there are: gateway)" in found.detail


@pytest.mark.parametrize(
    ("labels", "allowed"),
    [({}, False), ({"team": "b"}, False), ({"team": "a"}, True), ({"team": "a", "x": "y"}, True)],
)
def test_a_source_serves_only_the_namespaces_that_its_owner_selects(
    labels: dict[str, str], allowed: bool
) -> None:
    own = metric_source(allowed_namespaces=LabelSelector(match_labels={"team": "a"}))
    found = source_problems(check(), {"pods": own}, labels)
    assert [fault.reason for fault in found] == ([] if allowed else [Reason.SOURCE_NOT_ALLOWED])


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ("NaN", "is a number in PromQL"),
        ('m{pod="checkout-canary"}', "sets the label 'pod'"),
        ('m{namespace="shop"}', "sets the label 'namespace'"),
    ],
)
def test_a_selector_that_this_source_can_not_be_asked_is_a_problem(bad: str, sentence: str) -> None:
    (found,) = source_problems(check(bad), {"pods": metric_source()}, {})
    assert found.reason is Reason.INVALID_SPEC
    assert "check http-success" in found.detail
    assert sentence in found.detail


@pytest.mark.parametrize(
    ("by", "canary", "stable", "sentence"),
    [
        (ArmsBy.POD_NAME, "x-", "x-", "begin alike after they are cut"),
        (ArmsBy.SERVICE, "checkout", "checkout", "share the Service checkout"),
        (ArmsBy.SERVICE, "checkout", "", "has no Service for one of them"),
    ],
)
def test_arms_with_one_name_are_a_problem_before_they_run(
    by: ArmsBy, canary: str, stable: str, sentence: str
) -> None:
    def arm(name: str, number: int) -> ArmRef:
        prefix = name if by is ArmsBy.POD_NAME else f"{number}-"
        return ArmRef(pod_prefix=prefix, service=name)

    found = arms_problem(metric_source(by), arm(canary, 1), arm(stable, 2))
    assert found is not None
    assert found.reason is Reason.ARMS_NOT_SEPARABLE
    assert sentence in found.detail


@pytest.mark.parametrize("by", [ArmsBy.POD_NAME, ArmsBy.POD_LABEL, ArmsBy.SERVICE])
def test_arms_with_two_names_are_told_apart_and_one_alone_always_is(by: ArmsBy) -> None:
    assert arms_problem(metric_source(by), CANARY, STABLE) is None
    assert arms_problem(metric_source(by), CANARY, None) is None


def test_a_window_must_hold_two_scrapes() -> None:
    assert window_problem(metric_source(), 2.0) is None
    found = window_problem(metric_source(), 1.5)
    assert found is not None
    assert found.reason is Reason.INVALID_SPEC
    assert "lengthen the window" in found.detail


def test_result_files_are_not_scraped_so_any_window_holds_them() -> None:
    files = MetricSource.model_validate({"spec": {"evidence": {}, "producer": "Judge"}})
    assert window_problem(files, 2) is None
