"""Selectors are read strictly, and what is inserted can't change what they mean."""

import pytest

from gatewright_analysis.evidence.promql import (
    Matcher,
    Selector,
    arm_matchers,
    escape,
    escape_regex,
    parse_selector,
)
from gatewright_analysis.kinds.run import ArmRef
from gatewright_analysis.kinds.source import Arms, ArmsBy

CANARY = ArmRef(
    pod_prefix="checkout-canary-5d9c7-", revision="0123456789", service="checkout-canary", workload="checkout"
)


@pytest.mark.parametrize(
    ("text", "metric", "matchers"),
    [
        ("http_requests_total", "http_requests_total", ()),
        ("http_requests_total{}", "http_requests_total", ()),
        (" job:errors:total ", "job:errors:total", ()),
        ('m{a="b"}', "m", (Matcher("a", "=", "b"),)),
        ("m { a = \"b\" , c =~ 'd|e' , }", "m", (Matcher("a", "=", "b"), Matcher("c", "=~", "d|e"))),
        ('m{a!="b",c!~`\\d+`}', "m", (Matcher("a", "!=", "b"), Matcher("c", "!~", "\\d+"))),
        ('m{a="q\\"q\\\\n\\n\\u00e9"}', "m", (Matcher("a", "=", 'q"q\\n\né'),)),
        ('m{a="} offset 5m"}', "m", (Matcher("a", "=", "} offset 5m"),)),
        ("m{\n  a=''\n}", "m", (Matcher("a", "=", ""),)),
    ],
)
def test_a_raw_selector_is_read_as_prometheus_reads_it(
    text: str, metric: str, matchers: tuple[Matcher, ...]
) -> None:
    assert parse_selector(text) == Selector(metric, matchers)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "must begin with the name of a metric"),
        ("{a='b'}", "must begin with the name of a metric"),
        ("5", "must begin with the name of a metric"),
        ("NaN", "is a number in PromQL"),
        ("rate(http_requests_total[5m])", "functions and aggregations are not allowed"),
        ("sum by (code) (m)", "functions and aggregations are not allowed"),
        ("http_requests_total[5m]", "a range is not allowed"),
        ('m{a="b"}[5m:1m]', "a range is not allowed"),
        ("m offset 5m", "offset and @ are not allowed"),
        ("m @ 1700000000", "offset and @ are not allowed"),
        ("m{} @start()", "offset and @ are not allowed"),
        ("m + n", "no arithmetic"),
        ("m or vector(0)", "no arithmetic"),
        ("m > 3", "no arithmetic"),
        ("m{a='b'} n", "no arithmetic"),
        ("m}", "a brace is closed that was never opened"),
        ("m{a='b'", "a brace is not closed"),
        ("m{", "a brace is not closed"),
        ("m{a='b", "the quote of the label a is not closed"),
        ("m{a='b\n'}", "the quote of the label a is not closed"),
        ("m{a=b}", "must stand in quotes"),
        ("m{a}", "needs one of =, !=, =~ or !~"),
        ("m{a=='b'}", "must stand in quotes"),
        ("m{a='b' c='d'}", "a comma is missing after the label a"),
        ("m{,}", "a label name was expected"),
        ("m{'a.b'='c'}", "a label name was expected"),
        ("m{__name__='n'}", "not by __name__"),
        ("m{a='\\d'}", "an escape that PromQL does not know"),
        ("m{a='\\xff'}", "an escape that PromQL does not know"),
        ("m{a='\\ud800'}", "an escape that PromQL does not know"),
        ("m{a='\\", "an escape that PromQL does not know"),
        ("m{a='" + "b" * 600 + "'}", "may have 512 characters"),
        ("m # comment", "no arithmetic"),
    ],
)
def test_anything_but_a_raw_selector_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        parse_selector(text)
    assert sentence in str(refused.value)


def test_a_rendered_selector_has_the_arm_the_namespace_and_a_range_in_milliseconds() -> None:
    selector = parse_selector('http_requests_total{code=~"5.."}')
    arms = Arms(by=ArmsBy.POD_NAME, label="pod")
    rendered = selector.with_matchers(*arm_matchers(arms, CANARY, "shop")).range(2.5)
    assert rendered == (
        'http_requests_total{code=~"5..",namespace="shop",pod=~"checkout-canary-5d9c7-[a-z0-9]{5}"}[2500ms]'
    )


@pytest.mark.parametrize(
    ("by", "matcher"),
    [
        (ArmsBy.POD_NAME, Matcher("arm", "=~", "checkout-canary-5d9c7-[a-z0-9]{5}")),
        (ArmsBy.POD_LABEL, Matcher("arm", "=", "0123456789")),
        (ArmsBy.SERVICE, Matcher("arm", "=", "checkout-canary")),
        (ArmsBy.WORKLOAD, Matcher("arm", "=", "checkout")),
    ],
)
def test_an_arm_is_picked_by_what_its_source_tells_arms_apart_by(by: ArmsBy, matcher: Matcher) -> None:
    found = arm_matchers(Arms(by=by, label="arm", namespace_label="ns"), CANARY, "shop")
    assert found == (Matcher("ns", "=", "shop"), matcher)


def test_an_arm_without_what_the_source_tells_by_is_refused() -> None:
    bare = ArmRef(pod_prefix="checkout-")
    with pytest.raises(ValueError, match="tells arms apart by Service, and this rollout has none"):
        arm_matchers(Arms(by=ArmsBy.SERVICE, label="service"), bare, "shop")


def test_one_label_for_arm_and_namespace_is_refused() -> None:
    with pytest.raises(ValueError, match="they must differ"):
        arm_matchers(Arms(by=ArmsBy.POD_NAME, label="x", namespace_label="x"), CANARY, "shop")


@pytest.mark.parametrize("text", ['m{pod="checkout-canary-1"}', 'm{pod!=""}', 'm{namespace="other"}'])
def test_a_selector_that_tells_the_arms_apart_itself_is_refused(text: str) -> None:
    added = arm_matchers(Arms(by=ArmsBy.POD_NAME, label="pod"), CANARY, "shop")
    with pytest.raises(ValueError, match="leave it out"):
        parse_selector(text).with_matchers(*added)


@pytest.mark.parametrize("value", ['a"b', "a\\b", "a\nb", 'x"} or up{y="', "\r", "a\\", "é", "`'"])
def test_a_label_value_can_not_leave_its_quotes(value: str) -> None:
    rendered = Selector("m", (Matcher("a", "=", value),)).render()
    assert parse_selector(rendered) == Selector("m", (Matcher("a", "=", value),))
    assert "\n" not in escape(value)


def test_a_pod_prefix_with_a_dot_matches_itself_only() -> None:
    assert escape_regex("shop.v1-") == "shop\\.v1-"


def test_a_range_shorter_than_a_millisecond_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one millisecond"):
        Selector("m").range(0.0001)


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ('m{code=~"5..",route!="/healthz"}', {"code"}),
        ('m{a="",b=~".*",c=~"x|"}', set()),
        ('m{a=~"[[:alpha:]"}', {"a"}),
    ],
)
def test_only_matchers_that_need_their_label_require_it(text: str, labels: set[str]) -> None:
    assert parse_selector(text).required_labels == labels
