"""A gauge's query is read only where every selector has `$arm`, and nothing but the arm's matchers gets in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewright_analysis.evidence.armquery import parse_arm_query
from gatewright_analysis.evidence.promql import Matcher

ARM = (Matcher("namespace", "=", "shop"), Matcher("pod", "=~", "checkout-canary-5d9c7-[a-z0-9]{5}"))
IN_BRACES = 'namespace="shop",pod=~"checkout-canary-5d9c7-[a-z0-9]{5}"'


@pytest.mark.parametrize(
    "query",
    [
        "max(process_open_fds{$arm})",
        "queue_depth{$arm}",
        "queue_depth { $arm }",
        'queue_depth{queue="a}b$",$arm,}',
        "queue_depth{queue='x\"y',$arm}",
        "queue_depth{queue=`x\\`,$arm}",
        "sum by (pod) (rate(x_total{$arm}[5m])) / on (pod) group_left limit{$arm}",
        "SUM(a{$arm}) BY (pod, namespace) + 1.5e-3 * 0x1F",
        "max without (pod) (a{$arm}) > bool 5m30s",
        "topk(3, a:b:c{$arm}) # the metric c alone would be read without its arm: {",
        'label_replace(a{$arm}, "x", "$1", "y", "(.*)")',
        "-a{$arm} % -Inf",
        "avg_over_time(a{$arm}[5m:30s]) unless b{$arm}",
        '{"metric.with.dots", $arm, "a label"="x"}',
        "sum{$arm}",
        "Inf and a{$arm} >= bool 1 or nan unless vector(1) atan2 b{$arm}",
    ],
)
def test_a_query_whose_selectors_all_have_the_placeholder_is_read(query: str) -> None:
    read = parse_arm_query(query)
    rendered = read.render(*ARM)
    assert "$arm" not in rendered
    assert rendered.count(IN_BRACES) == query.count("$arm") == len(read.selectors)
    assert rendered.replace(IN_BRACES, "$arm") == query


def test_its_selectors_are_rendered_without_what_stands_around_them() -> None:
    read = parse_arm_query('max(avg_over_time(a{x="1",$arm}[5m])) + b{$arm} + b{$arm}')
    assert read.render_selectors(*ARM) == (f'a{{x="1",{IN_BRACES}}}', f"b{{{IN_BRACES}}}")


def test_a_value_is_escaped_where_it_is_put() -> None:
    odd = Matcher("namespace", "=", 'a"}) or vector(1) #\\')
    assert parse_arm_query("a{$arm}").render(odd) == 'a{namespace="a\\"}) or vector(1) #\\\\"}'


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("queue_depth", "queue_depth has no $arm"),
        ("queue_depth{}", "has no $arm"),
        ('queue_depth{pod="$arm"}', "$arm stands in quotes"),
        ("'$arm' + a{$arm}", "$arm stands in quotes"),
        ("a{$arm} + b", "b has no $arm"),
        ('a{$arm} / b{code="200"}', 'the selector b{code="200"} has no $arm'),
        ("a{$arm} or {job=~'.+'}", "has no $arm"),
        ("$arm", "must stand between the braces"),
        ("a{b} + $arm", "between braces only"),
        ("max(a) $arm", "a has no $arm"),
        ("a[$arm]", "a has no $arm"),
        ("sum(a{$arm}[$arm])", "must stand between the braces"),
        ("sum by ($arm) (a{$arm})", "must stand between the braces"),
        ("a{$arm,$arm}", "more than once"),
        ('a{$arm b="1"}', "a comma is missing"),
        ('a{$arm or pod=~".*"}', "a comma is missing"),
        ('a{pod=~".*" or $arm}', "a comma is missing"),
        ("a{$armed}", "can't be read"),
        ("a{$arm", "a brace is not closed"),
        ("a{$arm,", "a brace is not closed"),
        ("a{$arm}}", "never opened"),
        ('a{$arm, b="', "is a quote not closed"),
        ("a{$arm, b=c}", "must stand in quotes"),
        ('{__name__=~".+",$arm}', "named before the braces"),
        ('{"__name__"=~".+",$arm}', "named before the braces"),
        ("a{$arm} offset 1h", "offset and @ are not allowed"),
        ("a{$arm} @ 1700000000", "offset and @ are not allowed"),
        ("a{$arm} OFFSET 1h", "offset and @ are not allowed"),
        ("time()", "no selector with $arm"),
        ("# a{$arm}", "no selector with $arm"),
        ("a{$arm} + # b\n c", "c has no $arm"),
        ("WITH (x = b) a{$arm} + x", "x has no $arm"),
        ("by + a{$arm}", "by has no $arm"),
        ("and or a{$arm}", "and has no $arm"),
        ("a{$arm} + unless", "unless has no $arm"),
        ("bool == bool a{$arm}", "bool has no $arm"),
        ("a{$arm} + max", "max has no $arm"),
        ("sum by (pod) + a{$arm}[5m", "] is missing"),
        ("", "no selector with $arm"),
        ("a{$arm}; b", "can't be read"),
        ("${x} + a{$arm}", "can't be read"),
    ],
)
def test_a_query_that_would_read_more_than_the_arm_is_refused_with_a_sentence(
    query: str, sentence: str
) -> None:
    with pytest.raises(ValueError, match=r"can't be asked as a gauge: ") as refused:
        parse_arm_query(query)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("query", ['a{pod="x",$arm}', "a{$arm,'namespace'='b'}", 'a{$arm} + b{$arm,pod!=""}'])
def test_a_query_that_sets_a_label_of_the_arm_is_refused(query: str) -> None:
    with pytest.raises(ValueError, match="the query sets the label"):
        parse_arm_query(query).render(*ARM)


WORDS = st.sampled_from(
    ["a", "b", "sum", "by", "{", "}", "(", ")", "[", "]", "$arm", ",", "=", '"x"', '"', "'", "#", "\n", "5m", " ", "or", "x="]
)  # fmt: skip


@given(st.lists(WORDS, max_size=14).map("".join))
def test_any_text_is_read_or_refused_and_what_is_read_has_the_arm_in_every_brace(query: str) -> None:
    try:
        read = parse_arm_query(query)
    except ValueError:
        return
    marked = read.render(Matcher("arm", "=", "here"))
    assert marked.count('arm="here"') == len(read.spots) == len(read.selectors) >= 1
    for start, end in read.selectors:
        assert query[start:end].endswith("}")
