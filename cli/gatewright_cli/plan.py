"""`gatewright plan`: whether a contract can pass, and how long that takes."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from gatewright_analysis.kinds.contract import GateContractSpec
from gatewright_analysis.kinds.evidence import Evidence
from gatewright_analysis.kinds.rollout import RolloutSpec
from gatewright_analysis.manifests import UnreadableManifest, rollout_of
from gatewright_analysis.planning.model import CheckPlan, GatePlan, Plan
from gatewright_analysis.planning.plan import plan_contract
from gatewright_analysis.planning.problems import length, rate_text
from gatewright_cli.backtest import load_contract
from gatewright_cli.errors import Exit, GateError, UsageError
from gatewright_cli.files import manifest
from gatewright_cli.formats import Output, show
from gatewright_cli.output import Style, fold, print_lines, share, table


@dataclass(frozen=True)
class Options:
    """What was asked for; `rates` as they were typed, `R` or `ID=R`."""

    contract: str
    rollout: str | None
    rates: tuple[str, ...]
    output: Output = Output.TEXT


def run(options: Options) -> Exit:
    """Exit code 1 when something can never pass. Raises GateError and UsageError."""
    contract = load_contract(options.contract)
    rollout = None if options.rollout is None else _rollout(options.rollout)
    if rollout is None and options.rates:
        raise UsageError("A rate tells minutes only where the weights are known: give --rollout FILE, too.")
    found = plan_contract(contract, rollout, rates_of(options.rates, contract))
    if options.output.for_programs:
        show(found.wire(), options.output)
    else:
        print_lines(render(found, Style.of(sys.stdout)))
    return Exit.ERROR if found.never_passes else Exit.OK


def _rollout(file: str) -> RolloutSpec:
    try:
        return rollout_of(manifest(file, "Rollout"))
    except UnreadableManifest as error:
        raise GateError(f"{file} is no Rollout that could be planned: {error}") from error


def rates_of(words: tuple[str, ...], contract: GateContractSpec) -> Mapping[str, float]:
    """Events a minute by check: `R` is requests, so it speaks of checks that count them; `ID=R` of one check."""
    known = {check.id: check for check in contract.checks}
    rates: dict[str, float] = {}
    for word in sorted(words, key=lambda word: "=" in word):
        name, equals, number = word.rpartition("=")
        try:
            rate = float(number)
        except ValueError:
            rate = math.nan
        if not 0 <= rate < 1e12:
            raise UsageError(f"--rate {word!r} is no number of events a minute: write 1200, or ID=30.")
        if equals and name not in known:
            raise UsageError(f"The contract has no check {name}; it has {', '.join(sorted(known))}.")
        ids = (name,) if equals else tuple(c.id for c in contract.checks if any(map(_by_request, c.evidence)))
        rates |= dict.fromkeys(ids, rate)
    return rates


def _by_request(entry: Evidence) -> bool:
    return entry.counted


def render(found: Plan, style: Style) -> list[str]:
    """A table a gate, the joint power, and what somebody should know."""
    lines: list[str] = []
    for gate in found.gates:
        lines += [
            style.paint(_title(gate), "bold"),
            *table([_head(style), *map(_row, gate.checks)], "  "),
            "",
        ]
    if found.joint_power is not None:
        lines.append(f"Joint power of the checks that must pass: {share(found.joint_power)}")
    for problem in found.problems:
        word = style.paint("never:", "red") if problem.never else style.paint("note: ", "yellow")
        first, *rest = fold(problem.sentence, indent="       ")
        lines += [f"{word} {first.strip()}", *rest]
    return lines


def _title(gate: GatePlan) -> str:
    text = gate.name[:1].upper() + gate.name[1:]
    if gate.weight is not None and gate.max_minutes is not None and gate.minutes is not None:
        until = "" if gate.minutes == gate.max_minutes else f" to {length(gate.max_minutes)}"
        text += f": {gate.weight} % of the traffic, {length(gate.minutes)}{until}"
    return text


def _head(style: Style) -> list[str]:
    titles = (
        "CHECK",
        "REQUIRE",
        "THRESHOLD",
        "LEAST",
        "PLANNED",
        "POWER",
        "A MINUTE",
        "TAKES",
        "IN THE GATE",
    )
    return [style.paint(title, "dim") for title in titles]


def _row(check: CheckPlan) -> list[str]:
    in_gate = "–"
    if check.expected is not None:
        in_gate = f"{check.expected:,} samples, power {share(check.power_in_gate)}"
    return [
        check.check,
        check.require.value,
        share(check.threshold),
        "–" if check.n_min is None else f"{check.n_min:,}",
        "–" if check.planned is None else f"{check.planned:,}",
        share(check.power),
        "–" if check.per_minute is None else rate_text(check.per_minute),
        "–" if check.minutes is None else length(check.minutes),
        in_gate,
    ]
