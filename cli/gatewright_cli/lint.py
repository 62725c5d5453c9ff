"""`kubectl gate lint`: manifests checked where there is no cluster, each finding with its file and line."""

from collections.abc import Sequence
from dataclasses import dataclass

from gatewright_cli.errors import Exit, GateError
from gatewright_cli.formats import Output, show
from gatewright_cli.lines import Written, read
from gatewright_cli.output import clean, print_lines


@dataclass(frozen=True)
class Told:
    """One finding: where, how bad, what to do."""

    file: str
    line: int
    error: bool
    sentence: str

    def text(self) -> str:
        return f"{self.file}:{self.line}: {'error' if self.error else 'warning'}: {clean(self.sentence)}"

    def wire(self) -> dict[str, object]:
        severity = "error" if self.error else "warning"
        return {"file": self.file, "line": self.line, "severity": severity, "sentence": self.sentence}


def run(files: Sequence[str], *, output: Output) -> Exit:
    """Exit code 1 when there is an error. Raises GateError for files that can't be read or hold none of our kinds."""
    from gatewright_analysis.linting import Manifest, lint  # the kinds, and the statistics of the plan

    written = [one for file in files for one in read(file)]
    found = lint([Manifest(one.value, str(number)) for number, one in enumerate(written)])
    if not found.seen:
        raise GateError(
            f"{', '.join(files)}: no GateContract, Rollout or MetricSource of gatewright.dev in it, so nothing was checked.",
        )
    told = sorted(
        (_told(written[int(each.manifest)], each.path, each.error, each.sentence) for each in found.findings),
        key=lambda one: (files.index(one.file), one.line),
    )
    told = list(dict.fromkeys(told))
    wrong = sum(one.error for one in told)
    if output.for_programs:
        show({"ok": not wrong, "checked": found.seen, "findings": [one.wire() for one in told]}, output)
    else:
        print_lines([one.text() for one in told])
        word = "object" if found.seen == 1 else "objects"
        print_lines(
            [f"{found.seen} {word}: {_count(wrong, 'error')}, {_count(len(told) - wrong, 'warning')}."]
        )
        print_lines(found.skipped)
    return Exit.ERROR if wrong else Exit.OK


def _count(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"


def _told(where: Written, path: tuple[str | int, ...], error: bool, sentence: str) -> Told:
    return Told(where.file, where.line_of(path), error, sentence)
