"""`ledger replay`: every verdict given again from the evidence that it rests on."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gatewright_analysis.names import EVIDENCE_LABEL, ROLLOUT_LABEL
from gatewright_cli.errors import Exit, GateError
from gatewright_cli.files import documents, objects
from gatewright_cli.formats import Output, show
from gatewright_cli.kube import Kube, Object, path
from gatewright_cli.ledger import PAGE, Source, verified_entries
from gatewright_cli.output import Style, fold, print_lines

if TYPE_CHECKING:
    from gatewright_analysis.replay import Replayed


def from_file(file: str, rollout: str) -> list[Object]:
    """The evidence ConfigMaps of one Rollout. Raises GateError when there is none."""
    found = [one for one in objects(documents(file)) if _label(one, EVIDENCE_LABEL)]
    if not found:
        raise GateError(
            f"{file} holds no ConfigMap with the label {EVIDENCE_LABEL}: export them with "
            f"`kubectl get configmaps -l {EVIDENCE_LABEL},{ROLLOUT_LABEL}={rollout} -o json`."
        )
    return [one for one in found if _label(one, ROLLOUT_LABEL) in ("", rollout)]


def from_cluster(kube: Kube, source: Source) -> list[Object]:
    """The evidence ConfigMaps beside the ledger, a few at a time: each may hold a MiB."""
    namespace = (
        str(source.config_maps[0]["metadata"]["namespace"]) if source.config_maps else kube.namespace()
    )
    query = f"labelSelector={EVIDENCE_LABEL}%2C{ROLLOUT_LABEL}%3D{source.rollout}"
    return list(kube.list_all(path("configmaps", namespace, query=query), page=PAGE))


def run(source: Source, evidence: Sequence[Object], *, output: Output) -> Exit:
    """Exit code 1 unless every verdict is equal. Raises GateError for a ledger that is broken."""
    from gatewright_analysis.replay import replay

    found = replay(verified_entries(source), evidence)
    wrong = [one for one in found if not one.equal]
    if output.for_programs:
        show({"ok": not wrong, "verdicts": [_wire(one) for one in found]}, output)
    else:
        print_lines(render(found, source.where, Style.of(sys.stdout)))
    return Exit.ERROR if wrong else Exit.OK


def render(found: Sequence["Replayed"], where: str, style: Style) -> list[str]:
    """One line a verdict, and under it each difference."""
    lines = []
    for one in found:
        word = style.paint("equal", "green") if one.equal else style.paint("differs", "red")
        word = style.paint("can't be replayed", "red") if one.problem else word
        lines.append(f"#{one.sequence} {one.run}: {one.decision} {one.reason}: {word}")
        if one.problem:
            lines += fold(f"{one.problem[:1].upper()}{one.problem[1:]}.", indent="    ")
        for difference in one.differences:
            lines += fold(difference, indent="    ")
    wrong = sum(not one.equal for one in found)
    if not found:
        lines.append(f"The ledger of {where} holds no verdict yet; there is nothing to replay.")
    elif not wrong:
        lines.append(f"All {len(found)} verdicts of {where} follow from their evidence.")
    else:
        lines.append(
            f"{wrong} of {len(found)} verdicts of {where} don't follow from the evidence that is there."
        )
    return lines


def _wire(one: "Replayed") -> Object:
    return {
        "sequence": one.sequence,
        "kind": one.kind,
        "run": one.run,
        "step": one.step,
        "attempt": one.attempt,
        "decision": one.decision,
        "reason": one.reason,
        "equal": one.equal,
        "problem": one.problem,
        "differences": list(one.differences),
    }


def _label(config_map: Object, name: str) -> str:
    return str((config_map["metadata"].get("labels") or {}).get(name, ""))
