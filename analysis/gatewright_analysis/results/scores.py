"""Do the metrics that a log of Inspect shows follow from its samples?

Inspect works them out once, at the end of a run. Where a score was changed since, they no longer agree.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from gatewright_analysis.results.problem import ImportProblem
from gatewright_analysis.results.reading import Part

_MEANS: Final = ("accuracy", "mean")
"""Metrics of Inspect's own that are means; others are not worked out again."""
_TOLERANCE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Verdict:
    """The value of one sample as Inspect counts it, also where it failed; `item` is the same for all its epochs."""

    item: str
    value: float | None


def check_metrics(header: Part, scorer: str, verdicts: list[Verdict]) -> None:
    """Raises ImportProblem when a count or a mean of `scorer` is another than its samples have."""
    own = set(_declared(header.at("eval").at("scorers").value))
    values = [verdict.value for verdict in verdicts if verdict.value is not None]
    by_item: dict[str, list[float]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.value is not None:
            by_item[verdict.item].append(verdict.value)
    reduced = [math.fsum(each) / len(each) for each in by_item.values()]
    scores = header.at("results").at("scores")
    for score in () if scores.value is None else scores.elements():
        if not _is_of(score, scorer) or score.at("reducer").value not in (None, "mean"):
            continue
        _check_count(score.at("scored_samples"), len(reduced), len(values))
        metrics = score.at("metrics")
        for name in metrics.mapping():
            metric = metrics.at(name)
            if name in _MEANS and f"inspect_ai/{name}" in own and not metric.at("params").value:
                _check_mean(metric.at("value"), reduced, values, len(values) < len(verdicts))


def _is_of(score: Part, scorer: str) -> bool:
    name, origin = score.at("name").value, score.at("scorer").value
    return name == scorer or f"{origin}.{name}" == scorer


def _check_count(part: Part, items: int, samples: int) -> None:
    if part.value is not None and part.count() not in (items, samples):
        raise ImportProblem(
            f"The log counts {part.count()} scored samples, and {items} are: it was changed after the run; run the "
            "evaluation again.",
            part.where,
        )


def _check_mean(part: Part, reduced: list[float], values: list[float], some_missing: bool) -> None:
    """The mean over the items, each the mean of its epochs; or over all samples where the metric is not reduced.

    Versions of Inspect of 2025 took a score of NaN into the mean, which then is NaN as well.
    """
    said = part.value
    if isinstance(said, bool) or not isinstance(said, int | float):
        raise ImportProblem("It is no number.", part.where)
    if math.isnan(said) and some_missing:
        return
    means = [math.fsum(each) / len(each) for each in (reduced, values) if each]
    if means and not any(math.isclose(said, mean, abs_tol=_TOLERANCE, rel_tol=0) for mean in means):
        raise ImportProblem(
            f"The log says {said:g}, and its samples have {means[0]:g}: a score was changed after the run; run the "
            "evaluation again.",
            part.where,
        )


def _declared(value: Any) -> Iterator[str]:
    """Names of the metrics that the run asked for, from `eval.scorers`; custom ones have another prefix."""
    if isinstance(value, list):
        for each in value:
            yield from _declared(each)
    elif isinstance(value, dict):
        if isinstance(value.get("name"), str):
            yield value["name"]
        for key, inner in value.items():
            if key != "options" and isinstance(inner, list | dict):
                yield from _declared(inner)
