"""What of a result file is wanted."""

from dataclasses import dataclass, fields
from enum import StrEnum

from gatewright_analysis.results.problem import ImportProblem
from gatewright_analysis.results.record import RecordKind


class Format(StrEnum):
    PROMPTFOO = "promptfoo"
    INSPECT = "inspect"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True)
class Options:
    """None: not said. Each is a flag of `gatewright evidence`."""

    kind: RecordKind | None = None
    """What the verdicts are read as; an importer's own default when left out."""
    provider: str | None = None
    prompt: str | None = None
    metric: str | None = None
    scorer: str | None = None
    cluster_by: str | None = None
    revision: str | None = None
    """The commit that the file must be of."""


_ELSEWHERE = {
    Format.PROMPTFOO: ("scorer",),
    Format.INSPECT: ("provider", "prompt", "metric"),
    Format.JSONL: ("provider", "prompt", "metric", "scorer"),
}


def refuse_unused(form: Format, options: Options) -> None:
    """Raises ImportProblem for an option that says nothing about this format: it was meant to choose something."""
    for field in fields(options):
        if field.name in _ELSEWHERE[form] and getattr(options, field.name) is not None:
            raise ImportProblem(f"A file of {form} knows no --{field.name}: leave it out.")
    if form is Format.PROMPTFOO and options.revision is not None:
        raise ImportProblem(
            "A file of promptfoo does not say which commit it ran at, so --revision can't be checked: leave it "
            "out; the image digests say what was evaluated."
        )
