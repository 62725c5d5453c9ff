"""The reference page of reasons, from the enum's own words."""

import ast
import inspect

from gatewright_analysis import reasons

HEAD = """# Reasons

One list of words, used by conditions, Events, metrics, verdicts and the ledger alike. Generated from
`gatewright_analysis.reasons`; change it there.
"""


def page() -> str:
    """Markdown: a table for each group, in the order of the source."""
    source = inspect.getsource(reasons)
    (words,) = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    headings = [
        (number, line.strip().removeprefix("# "))
        for number, line in enumerate(source.splitlines(), 1)
        if line.startswith("    # ")
    ]
    parts = [HEAD]
    for place, (begins, heading) in enumerate(headings):
        ends = headings[place + 1][0] if place + 1 < len(headings) else len(source.splitlines()) + 1
        rows = [
            f"| `{value}` | {sentence} |" for line, value, sentence in _members(words) if begins < line < ends
        ]
        parts.append("\n".join([f"## {heading}\n", "| reason | what it says |", "| --- | --- |", *rows, ""]))
    return "\n".join(parts)


def _members(words: ast.ClassDef) -> list[tuple[int, str, str]]:
    """(line, value, sentence) of each member; one without a sentence stops the generation."""
    found = []
    for node, after in zip(words.body, [*words.body[1:], None], strict=True):
        match node, after:
            case ast.Assign(value=ast.Constant(value=str(value))), ast.Expr(
                value=ast.Constant(value=str(sentence))
            ):
                found.append((node.lineno, value, sentence))
            case ast.Assign(), _:
                raise ValueError(f"line {node.lineno} of reasons.py: give the reason a sentence")
    return found
