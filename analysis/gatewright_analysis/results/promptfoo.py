"""Result files of promptfoo, version 3 (statistics.md section 9).

A file crosses providers with prompts: `prompts[]` has one column for each pair, and each row names its column by
`promptIdx`. One column is imported.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from gatewright_analysis.results.options import Options
from gatewright_analysis.results.problem import ImportProblem
from gatewright_analysis.results.reading import Part, is_name, parsed, shown
from gatewright_analysis.results.record import Judge, RecordKind, Tool, cluster_key
from gatewright_analysis.results.tally import Reading, Row

_ERROR: Final = 2
"""`failureReason` of a row that got no answer to judge."""
_MAX_DEPTH: Final = 16
_CHOICES: Final = 12


@dataclass(frozen=True, slots=True)
class Column:
    """One provider with one prompt, and how many rows promptfoo counted for it."""

    number: int
    provider: str
    prompt: str
    names: frozenset[str]
    """What --prompt may say: label, id or text."""
    passed: int
    failed: int
    errors: int

    @property
    def rows(self) -> int:
        return self.passed + self.failed + self.errors

    def __str__(self) -> str:
        return f"--provider {shown(self.provider)} --prompt {shown(self.prompt)}"


def read(data: bytes, options: Options) -> Reading:
    """Rows of the chosen column. Raises ImportProblem."""
    file = parsed(data, "the file")
    results = _version_3(file)
    columns = [_column(part, number) for number, part in enumerate(results.at("prompts").elements())]
    found = [(part.at("promptIdx").count(), part) for part in results.at("results").elements()]
    _as_many_as_said(results, columns, len(found))
    column = _chosen(columns, found, options)
    parts = sorted((part for number, part in found if number == column.number), key=_test)
    _counts_agree(column, parts)
    rows = [row for row in _rows(parts, options) if row is not None]
    kind = options.kind or (RecordKind.SAMPLES if options.metric is None else RecordKind.SCORES)
    if options.metric is not None and all(row.value is None for row in rows):
        raise ImportProblem(_no_metric(options.metric, parts))
    metadata = file.at("metadata")
    version = metadata.at("promptfooVersion").optional_name() if metadata.value is not None else None
    return Reading(
        tool=Tool(name="promptfoo", version=version),
        kind=kind,
        rows=tuple(rows),
        expected=column.rows - (len(parts) - len(rows)),
        created_at=results.at("timestamp").moment(),
        judge=_judge(file),
    )


def _version_3(file: Part) -> Part:
    content = file.mapping()
    results = file.at("results")
    inner = results.value if isinstance(results.value, dict) else {}
    if "table" in content or "table" in inner or inner.get("version") == 2:
        raise ImportProblem(
            "It is a promptfoo file of version 2 (with a table), which does not say which rows are errors: evaluate "
            "again with promptfoo 0.118 or newer.",
            "the file.results.version",
        )
    if not inner:
        raise ImportProblem(
            "It is no result file of promptfoo: `results` with version 3 is wanted.", "the file"
        )
    if inner.get("version") != 3 or isinstance(inner.get("version"), bool):
        raise ImportProblem(
            f"It has version {shown(inner.get('version'))}, and 3 is understood: write it with `promptfoo eval -o "
            "results.json`.",
            "the file.results.version",
        )
    return results


def _column(part: Part, number: int) -> Column:
    metrics = part.at("metrics")
    raw, label, name = (part.at(key) for key in ("raw", "label", "id"))
    texts = [each.text() for each in (label, name, raw) if each.value is not None]
    if not any(texts):
        raise ImportProblem("A prompt with neither label nor text.", part.where)
    return Column(
        number=number,
        provider=part.at("provider").text(),
        prompt=next(text for text in texts if text),
        names=frozenset(texts),
        passed=metrics.at("testPassCount").count(),
        failed=metrics.at("testFailCount").count(),
        errors=_or_zero(metrics.at("testErrorCount")),
    )


def _or_zero(part: Part) -> int:
    return 0 if part.value is None else part.count()


def _as_many_as_said(results: Part, columns: list[Column], rows: int) -> None:
    stats = results.at("stats")
    said = sum(stats.at(key).count() for key in ("successes", "failures", "errors"))
    if rows > said or sum(column.rows for column in columns) != said:
        raise ImportProblem(
            f"The statistics speak of {said} rows, the prompts of {sum(column.rows for column in columns)}, and "
            f"there are {rows}: the file was changed after the evaluation.",
            stats.where,
        )


def _chosen(columns: list[Column], rows: list[tuple[int, Part]], options: Options) -> Column:
    names: dict[int, set[str]] = defaultdict(set)
    for number, part in rows:
        if number >= len(columns):
            raise ImportProblem(f"There is no prompt {number}.", f"{part.where}.promptIdx")
        if options.provider is not None:
            provider = part.at("provider")
            names[number] |= {str(provider.at(key).value) for key in ("id", "label")}
    found = [
        column
        for column in columns
        if (options.provider is None or options.provider in {column.provider, *names[column.number]})
        and (options.prompt is None or options.prompt in column.names)
    ]
    if len(found) == 1:
        return found[0]
    choices = "; ".join(str(column) for column in (found or columns)[:_CHOICES])
    if not found:
        raise ImportProblem(f"There are no such rows. There are: {choices}.", "the file.results.prompts")
    raise ImportProblem(
        f"The file crosses {len(found)} providers and prompts; choose one: {choices}.",
        "the file.results.prompts",
    )


def _test(part: Part) -> int:
    return part.at("testIdx").count()


def _counts_agree(column: Column, parts: list[Part]) -> None:
    """A row whose verdict was changed no longer adds up to what promptfoo counted."""
    passed = sum(part.at("success").flag() for part in parts)
    errors = sum(_reason(part) == _ERROR for part in parts)
    failed = len(parts) - passed - errors
    if (passed, failed, errors) != (column.passed, column.failed, column.errors) and (
        len(parts) >= column.rows
        or passed > column.passed
        or failed > column.failed
        or errors > column.errors
    ):
        raise ImportProblem(
            f"{passed} rows pass, {failed} fail and {errors} are errors, where promptfoo counted {column.passed}, "
            f"{column.failed} and {column.errors}: the file was changed after the evaluation.",
            f"the file.results.prompts[{column.number}].metrics",
        )


def _reason(part: Part) -> int:
    return _or_zero(part.at("failureReason"))


def _rows(parts: list[Part], options: Options) -> list[Row | None]:
    """In the order of the tests. None: this test has no assertion under the chosen metric."""
    times: dict[str, int] = defaultdict(int)
    seen: dict[int, str] = {}
    rows: list[Row | None] = []
    for part in parts:
        test = _test(part)
        if test in seen:
            raise ImportProblem(f"Test {test} stands here again, after {seen[test]}.", part.where)
        seen[test] = part.where
        variables = part.at("vars").mapping()
        item = cluster_key(variables)
        times[item] += 1
        cluster = item if options.cluster_by is None else cluster_key(_shared(part, options.cluster_by))
        if options.metric is not None and not _asserts(part, options.metric):
            rows.append(None)
            continue
        rows.append(Row(f"{item}/{times[item]}", cluster, _value(part, options), part.where))
    return rows


def _shared(part: Part, key: str) -> Any:
    """The value under `key` of the row's vars, else of its test's metadata."""
    variables = part.at("vars").mapping()
    if key in variables:
        return variables[key]
    test = part.at("testCase")
    metadata = test.at("metadata").value if test.value is not None else None
    if isinstance(metadata, dict) and key in metadata:
        return metadata[key]
    raise ImportProblem(f"It has no {shown(key)}, neither in vars nor in the test's metadata.", part.where)


def _value(part: Part, options: Options) -> float | None:
    grading = part.at("gradingResult")
    if _reason(part) == _ERROR or (part.at("error").value is not None and grading.value is None):
        return None
    components = [] if grading.value is None else list(_components(grading))
    if any(_is_grader_error(component) for component in components):
        return None
    for component in components:
        if _assertion(component).get("type") == "human":
            raise ImportProblem("It was rated by hand after the evaluation.", component.where)
    if options.metric is None:
        return float(part.at("success").flag())
    own = [each for each in components if _assertion(each).get("metric") == options.metric]
    if options.kind is RecordKind.SAMPLES:
        return float(all(component.at("pass").flag() for component in own)) if own else None
    scores = part.at("namedScores")
    score = scores.at(options.metric) if scores.value is not None else scores
    if score.value is None:
        return None
    if len(own) > 1 and grading.at("namedScoreWeights").value is None:
        # Versions that write no weights (0.118) add the scores of a metric's assertions up.
        return Part(score.number() / len(own), score.where).share()
    return score.share()


def _components(grading: Part, depth: int = _MAX_DEPTH) -> Iterator[Part]:
    """The grading and all its components, sets of assertions included."""
    if depth < 0:
        raise ImportProblem("Its components are nested too deeply.", grading.where)
    grading.mapping()
    yield grading
    inner = grading.at("componentResults")
    if inner.value is not None:
        for component in inner.elements():
            if component.value is not None:
                yield from _components(component, depth - 1)


def _is_grader_error(component: Part) -> bool:
    metadata = component.value.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("graderError"))


def _assertion(component: Part) -> dict[str, Any]:
    assertion = component.value.get("assertion")
    return assertion if isinstance(assertion, dict) else {}


def _asserts(part: Part, metric: str) -> bool:
    """Has the row a score under `metric`, or should it? A row that does not show its assertions should."""
    scores = part.at("namedScores").value
    if isinstance(scores, dict) and metric in scores:
        return True
    test = part.at("testCase").value
    assertions = test.get("assert") if isinstance(test, dict) else None
    return not isinstance(assertions, list) or _declares(assertions, metric)


def _declares(assertions: list[Any], metric: str, depth: int = _MAX_DEPTH) -> bool:
    for assertion in assertions:
        name = assertion.get("metric") if isinstance(assertion, dict) else None
        # A name with a variable in it is only known once it is filled in.
        if name == metric or (isinstance(name, str) and "{{" in name):
            return True
        inner = assertion.get("assert") if isinstance(assertion, dict) else None
        if isinstance(inner, list) and (depth == 0 or _declares(inner, metric, depth - 1)):
            return True
    return False


def _no_metric(metric: str, parts: list[Part]) -> str:
    names = {
        name
        for part in parts
        if isinstance(part.value.get("namedScores"), dict)
        for name in part.value["namedScores"]
    }
    choices = ", ".join(shown(name) for name in sorted(names)[:_CHOICES])
    return f"No row has a verdict under the metric {shown(metric)}. There are: {choices or 'none'}."


def _judge(file: Part) -> Judge | None:
    """The grader that all tests share, where the configuration names one."""
    value = file.value.get("config")
    for key in ("defaultTest", "options", "provider"):
        value = value.get(key) if isinstance(value, dict) else None
    name = value.get("id") if isinstance(value, dict) else value
    return Judge(id=name) if is_name(name) else None
