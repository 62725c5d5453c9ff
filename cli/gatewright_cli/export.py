"""`ledger export`: the entries as they are stored, or what they attest, one JSON document a line."""

import json
import sys

from gatewright_cli.errors import Exit, GateError
from gatewright_cli.ledger import Source, verified_entries
from gatewright_cli.output import print_lines

ENTRIES = "jsonl"
IN_TOTO = "in-toto"


def run(source: Source, form: str) -> Exit:
    """Raises GateError for a ledger that is broken, and where no verdict could become a statement."""
    try:
        entries = verified_entries(source)
    except GateError as broken:
        raise GateError(
            f"{broken.sentence} A broken ledger attests nothing.",
            then=f"kubectl gate ledger show {source.rollout} -o jsonl",
        ) from broken
    if form == ENTRIES:
        # Byte for byte: each line has the digest that the next one holds.
        print_lines(entry.text for entry in entries)
        return Exit.OK
    from gatewright_analysis.ledger.statements import Predicate, statements, subjects, verdicts

    kinds = tuple(Predicate) if form == IN_TOTO else (Predicate(form),)
    found = list(statements(entries, kinds))
    print_lines(json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in found)
    judged = [verdict for _, verdict in verdicts(entries)]
    without = sum(not subjects(verdict) for verdict in judged)
    if without:
        told = (
            f"{without} of {len(judged)} verdicts are left out: the digest of an image is not known, and a tag is no "
            "subject of a statement. Name images by digest."
        )
        if without == len(judged):
            raise GateError(told, then=f"kubectl gate ledger show {source.rollout}", reported=True)
        print(f"warning: {told}", file=sys.stderr)
    return Exit.OK
