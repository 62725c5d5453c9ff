"""`gatewright backtest`: what a contract would have said of evidence that was recorded."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gatewright_analysis.backtest.fold import Backtest, NothingToJudge, Settings, backtest
from gatewright_analysis.backtest.lines import Recording, UnreadableEvidence, read_lines
from gatewright_analysis.kinds.contract import GateContractSpec, Stage, Tier
from gatewright_analysis.manifests import UnreadableManifest, contract_of
from gatewright_analysis.verdict import CheckResult, Decision
from gatewright_cli.errors import Exit, GateError, UsageError
from gatewright_cli.files import manifest, opened
from gatewright_cli.formats import Output, show
from gatewright_cli.history import Past
from gatewright_cli.output import Style, fold, print_lines, share, table

CODES = {Decision.PROMOTE: Exit.OK, Decision.HOLD: Exit.HELD, Decision.ROLLBACK: Exit.ROLLED_BACK}
_LOOKS = {"PROMOTE": "green", "HOLD": "yellow", "ROLLBACK": "red", "pass": "green", "fail": "red"}


@dataclass(frozen=True)
class Options:
    """What was asked for; lengths in seconds, None where nothing was said."""

    contract: str
    evidence: str | None
    past: Past | None
    stage: str = "Canary"
    duration: float | None = None
    max_duration: float | None = None
    warmup: float = 0.0
    checks: tuple[str, ...] = ()
    tier: str | None = None
    plot: str | None = None
    output: Output = Output.TEXT


def run(options: Options) -> Exit:
    """Raises GateError for what can't be read, UsageError for what makes no sense."""
    contract = load_contract(options.contract)
    stage = Stage(options.stage)
    settings = _settings(options, contract, stage)
    if options.plot is not None:
        from gatewright_cli.plot import check_name

        check_name(options.plot)
    recordings = _recordings(options, contract, stage)
    try:
        found = backtest(
            contract, recordings, settings, keep_looks=options.output.for_programs or options.plot is not None
        )
    except NothingToJudge as error:
        raise UsageError(str(error)) from error
    if options.plot is not None:
        from gatewright_cli.plot import draw

        draw(found, options.plot)
    if options.output is Output.JSON:
        _print(found.wire())
    elif options.output is Output.YAML:
        show(found.wire(), options.output)
    else:
        print_lines(render(found, Style.of(sys.stdout)))
    return CODES[found.ended.decision]


def _print(body: dict[str, Any]) -> None:
    """JSON with one line a look: a hundred thousand of them, indented, take longer to write than to judge."""
    looks = body.pop("looks")
    head = json.dumps(body, indent=2, ensure_ascii=False).removesuffix("\n}")
    rows = ",\n".join(f"    {json.dumps(look, ensure_ascii=False)}" for look in looks)
    sys.stdout.write(f'{head},\n  "looks": [' + (f"\n{rows}\n  " if rows else "") + "]\n}\n")
    sys.stdout.flush()


def load_contract(file: str) -> GateContractSpec:
    try:
        return contract_of(manifest(file, "GateContract", "ClusterGateContract"))
    except UnreadableManifest as error:
        raise GateError(f"{file} is no contract that could judge: {error}") from error


def _settings(options: Options, contract: GateContractSpec, stage: Stage) -> Settings:
    known = {check.id: check for check in contract.checks}
    for name in options.checks:
        if name not in known:
            raise UsageError(f"The contract has no check {name}; it has {', '.join(sorted(known))}.")
        if known[name].evidence_at(stage) is None:
            raise UsageError(
                f"The check {name} has no evidence for the stage {stage}: judge another --stage."
            )
    if (
        options.duration is not None
        and options.max_duration is not None
        and options.max_duration < options.duration
    ):
        raise UsageError("--max-duration is the deadline: it must not be shorter than --duration.")
    return Settings(
        stage=stage,
        duration=options.duration,
        max_duration=options.max_duration,
        warmup=options.warmup,
        checks=options.checks,
        tier=None if options.tier is None else Tier(options.tier),
    )


def _recordings(options: Options, contract: GateContractSpec, stage: Stage) -> Mapping[str, Recording]:
    if options.past is not None:
        from gatewright_cli.history import recordings

        return recordings(options.past, contract, stage, options.checks)
    assert options.evidence is not None
    try:
        with opened(options.evidence) as lines:
            return read_lines(lines, contract, stage)
    except UnreadableEvidence as error:
        raise GateError(
            f"{options.evidence}, {error}", then="see the file format in docs/reference/backtest.md"
        ) from error


def render(found: Backtest, style: Style) -> list[str]:
    """The verdict, the sentence, one row a check."""
    ended = found.ended
    decision = style.paint(ended.decision.value, "bold", _LOOKS[ended.decision.value])
    lines = [f"{decision}  {ended.reason.value}, after {ended.at_seconds:g} s", ""]
    lines += fold(ended.message)
    if found.breach is not None:
        lines += ["", *fold(f"While it was held, after {found.breach.at_seconds:g} s, it would have gone back: "
                            f"{found.breach.message}")]  # fmt: skip
    titles = ("CHECK", "STATUS", "SEEN", "LOWER BOUND", "THRESHOLD", "SAMPLES", "WHY")
    rows = [[style.paint(title, "dim") for title in titles]]
    rows += [_row(check, style) for check in found.checks]
    return [*lines, "", *table(rows)]


def _row(check: CheckResult, style: Style) -> list[str]:
    threshold = check.threshold
    samples = "–" if not check.samples and threshold is None else f"{check.samples:,}"
    return [
        check.id,
        style.paint(check.status.value, _LOOKS.get(check.status.value, "")),
        share(check.score, threshold),
        share(check.ci_lower, threshold),
        share(threshold),
        samples,
        check.message,
    ]
