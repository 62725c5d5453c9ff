"""Logs of Inspect, `.json` and `.eval` (statistics.md section 9).

A log is evidence as the run left it. One with invalidated samples or edits by hand is refused, and so is one whose
numbers no longer follow from its samples.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from gatewright_analysis.results.archive import Archive
from gatewright_analysis.results.options import Options
from gatewright_analysis.results.problem import ImportProblem
from gatewright_analysis.results.reading import Part, is_name, parsed, same_commit, shown
from gatewright_analysis.results.record import Judge, RecordKind, Revision, Tool, cluster_key
from gatewright_analysis.results.scores import Verdict, check_metrics
from gatewright_analysis.results.tally import Reading, Row

ZIP_MAGIC: Final = b"PK"
_LETTERS: Final = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_EDIT_EVENT: Final = "score_edit"
_RUN_AGAIN: Final = "run the evaluation again"


@dataclass(frozen=True, slots=True)
class Sample:
    """What is kept of a sample: the rest of it (messages, events) is let go of at once."""

    id: str | int
    epoch: int
    failed: bool
    scores: dict[str, Part]
    cluster: str
    where: str


def read(data: bytes, options: Options) -> Reading:
    """Rows of the chosen scorer. Raises ImportProblem."""
    header, parts = _opened(data)
    _finished(header)
    revision = _revision(header.at("eval").at("revision"), options.revision)
    samples = [_sample(part, options.cluster_by) for part in parts]
    scorer = _chosen([str(name) for sample in samples for name in sample.scores], samples, options.scorer)
    verdicts = [Verdict(cluster_key(sample.id), _value(sample, scorer)) for sample in samples]
    expected = _expected(header, samples)
    check_metrics(header, scorer, verdicts)
    rows = [
        Row(
            f"{verdict.item}/{sample.epoch}",
            sample.cluster,
            None if sample.failed else verdict.value,
            sample.where,
        )
        for sample, verdict in zip(samples, verdicts, strict=True)
    ]
    spec = header.at("eval")
    packages = spec.at("packages").value
    version = packages.get("inspect_ai") if isinstance(packages, dict) else None
    shuffle = spec.at("config").at("sample_shuffle").value
    return Reading(
        tool=Tool(name="inspect", version=version if is_name(version) else None),
        kind=options.kind or RecordKind.SAMPLES,
        rows=tuple(rows),
        expected=expected,
        created_at=spec.at("created").moment(),
        revision=revision,
        judge=_judge(spec, scorer),
        seed=shuffle if isinstance(shuffle, int) and not isinstance(shuffle, bool) else None,
    )


def _opened(data: bytes) -> tuple[Part, Iterable[Part]]:
    """The log without its samples, and the samples, one by one."""
    if not data.startswith(ZIP_MAGIC):
        log = parsed(data, "the log", nan=True)
        if log.at("samples").value is None:
            raise ImportProblem(
                "The log has no samples: run without --no-log-samples; metrics alone can't be judged.",
                log.where,
            )
        return log, log.at("samples").elements()
    archive = Archive.of(data)
    if "header.json" not in archive.members:
        raise ImportProblem(f"The archive has no header.json: the run did not come to its end; {_RUN_AGAIN}.")
    header = parsed(archive.read("header.json"), "header.json", nan=True)
    names = [name for name in archive.members if name.startswith("samples/") and name.endswith(".json")]
    return header, _members(archive, names)


def _members(archive: Archive, names: list[str]) -> Iterator[Part]:
    for name in names:
        yield parsed(archive.read(name), name, nan=True)


def _finished(header: Part) -> None:
    """Raises ImportProblem for a run that did not succeed, and for a log that was changed afterwards."""
    status = header.at("status").text()
    if header.at("version").count() != 2:
        raise ImportProblem("Logs of version 2 are understood.", f"{header.where}.version")
    if status != "success":
        raise ImportProblem(
            f"The run ended as {shown(status)}, and only a successful one is evidence: {_RUN_AGAIN}.",
            f"{header.where}.status",
        )
    if header.at("invalidated").value not in (None, False):
        raise ImportProblem(
            f"Samples of the log were invalidated: {_RUN_AGAIN}.", f"{header.where}.invalidated"
        )
    if header.at("log_updates").value:
        raise ImportProblem(
            "The log was edited after the run (tags or metadata): import the log as the run wrote it.",
            f"{header.where}.log_updates",
        )


def _revision(part: Part, wanted: str | None) -> Revision | None:
    """The commit that the log names. With `wanted` it must be that one, and the tree clean."""
    if part.value is None:
        if wanted is not None:
            raise ImportProblem(
                f"The log names no commit, so it can't be of {wanted}: evaluate in a Git work tree.",
                part.where,
            )
        return None
    commit, dirty = part.at("commit").name(), part.at("dirty")
    revision = Revision(commit=commit, dirty=None if dirty.value is None else dirty.flag())
    if wanted is not None and not same_commit(commit, wanted):
        raise ImportProblem(
            f"The log is of commit {shown(commit)}, not of {wanted}: evaluate that commit.",
            f"{part.where}.commit",
        )
    if wanted is not None and revision.dirty is not False:
        state = "had changes that are not in" if revision.dirty else "may have had changes that are not in"
        raise ImportProblem(
            f"The work tree {state} {wanted}: evaluate a clean checkout.", f"{part.where}.dirty"
        )
    return revision


def _sample(part: Part, cluster_by: str | None) -> Sample:
    name = part.at("id")
    if isinstance(name.value, bool) or not isinstance(name.value, str | int):
        raise ImportProblem(
            f"The id of a sample is a string or a whole number, not {shown(name.value)}.", name.where
        )
    if part.at("invalidation").value is not None:
        raise ImportProblem(f"The sample was invalidated: {_RUN_AGAIN}.", part.where)
    scores = part.at("scores")
    found = {} if scores.value is None else {key: scores.at(key) for key in scores.mapping()}
    for score in found.values():
        if score.at("history").value:
            raise ImportProblem(
                "The score was edited after the run: import the log as the run wrote it.", score.where
            )
    events = part.at("events").value
    if isinstance(events, list) and any(
        isinstance(e, dict) and e.get("event") == _EDIT_EVENT for e in events
    ):
        raise ImportProblem(
            "A score was edited after the run: import the log as the run wrote it.", part.where
        )
    return Sample(
        id=name.value,
        epoch=part.at("epoch").count(),
        failed=part.at("error").value is not None,
        scores={key: score.at("value") for key, score in found.items()},
        cluster=cluster_key(name.value if cluster_by is None else _shared(part, cluster_by)),
        where=part.where,
    )


def _shared(part: Part, key: str) -> Any:
    metadata = part.at("metadata").value
    if not isinstance(metadata, dict) or key not in metadata:
        raise ImportProblem(f"The sample has no {shown(key)} in its metadata.", part.where)
    return metadata[key]


def _chosen(names: list[str], samples: list[Sample], wanted: str | None) -> str:
    """The scorer, or `scorer.key` of one that gives several values."""
    several = {
        name: sorted(str(key) for key in part.value)
        for sample in samples
        for name, part in sample.scores.items()
        if isinstance(part.value, dict)
    }
    choices = sorted({*names} - several.keys()) + [
        f"{name}.{key}" for name in several for key in several[name]
    ]
    told = ", ".join(shown(choice) for choice in sorted(choices))
    if not choices:
        raise ImportProblem("No sample has a score: the log can't be judged.")
    if wanted is None and len(choices) == 1:
        return choices[0]
    if wanted is None:
        raise ImportProblem(f"The log has several scores; choose one with --scorer: {told}.")
    if wanted not in choices:
        raise ImportProblem(f"No sample has a score {shown(wanted)}. There are: {told}.")
    return wanted


def _value(sample: Sample, scorer: str) -> float | None:
    """1 for C and true, 0.5 for P, 0 for I, N and false, numbers as they are; None without a verdict."""
    part = sample.scores.get(scorer)
    if part is None:
        name, _, key = scorer.rpartition(".")
        whole = sample.scores.get(name)
        part = whole.at(key) if whole is not None and isinstance(whole.value, dict) else None
    if part is None:
        return None
    match part.value:
        case bool():
            return float(part.value)
        case str() if part.value in _LETTERS:
            return _LETTERS[part.value]
        case float() if math.isnan(part.value):
            return None
        case int() | float():
            return part.share()
        case other:
            raise ImportProblem(
                f"The score is {shown(other)}; C, I, P, N, a number, true or false is wanted.", part.where
            )


def _expected(header: Part, samples: list[Sample]) -> int:
    """`results.total_samples`, which counts each epoch; it must be what the data set and the epochs make."""
    results = header.at("results")
    total, completed = results.at("total_samples").count(), results.at("completed_samples").count()
    spec = header.at("eval")
    ids = spec.at("dataset").at("sample_ids").value
    epochs = spec.at("config").at("epochs")
    planned = len(ids) * (1 if epochs.value is None else epochs.count()) if isinstance(ids, list) else None
    if planned is not None and planned != total:
        raise ImportProblem(
            f"The log speaks of {total} samples, and its data set makes {planned}: samples were added or taken away "
            f"after the run; {_RUN_AGAIN}.",
            f"{results.where}.total_samples",
        )
    whole = sum(not sample.failed for sample in samples)
    if whole != completed and (len(samples) == total or whole > completed):
        raise ImportProblem(
            f"{whole} samples of the log are without an error, where it counted {completed}: it was changed after the "
            f"run; {_RUN_AGAIN}.",
            f"{results.where}.completed_samples",
        )
    return total


def _judge(spec: Part, scorer: str) -> Judge | None:
    """The grader's model, where the log names it: that of the scorer, or of the role `grader`."""
    scorers = spec.at("scorers").value
    name = scorer.partition(".")[0]
    for entry in scorers if isinstance(scorers, list) else []:
        if (
            isinstance(entry, dict)
            and entry.get("name") in (scorer, name)
            and isinstance(entry.get("options"), dict)
        ):
            found = _model(entry["options"].get("model"))
            if found is not None:
                return found
    roles = spec.at("model_roles").value
    return _model(roles.get("grader")) if isinstance(roles, dict) else None


def _model(value: Any) -> Judge | None:
    name = value.get("model") if isinstance(value, dict) else value
    return Judge(id=name) if is_name(name) else None
