"""The commands of `kubectl gate` that explain and check, and write nothing: their words, their help."""

from typing import TYPE_CHECKING

from gatewright_cli.formats import DATA, Output

if TYPE_CHECKING:
    import argparse

    from gatewright_cli.parser import Parser

    _Commands = argparse._SubParsersAction[Parser]

VERBS = ("approve", "operate", "override")


def add(commands: "_Commands") -> None:
    """explain, history, can-i, lint."""
    from gatewright_cli.parser import command

    explain = command(
        commands,
        "explain",
        "what a check asks for, and what it said lately",
        "What a check of a Rollout's contract means: its limit, where its numbers come from, how sure it is, how\n"
        "many samples it takes, what a breach does, and its last results.",
        example="kubectl gate explain checkout/http-success -n shop",
    )
    explain.add_argument("check", metavar="ROLLOUT/CHECK")
    history = command(
        commands,
        "history",
        "which revisions were tried, what the gates said, and who decided",
        "Every attempt in the ledger, the newest first: images, who started it, verdicts, what people decided and\n"
        "why, and how it ended. Outlives the Rollout.",
        example="kubectl gate history checkout -n shop",
        formats=(*DATA, Output.WIDE),
    )
    history.add_argument("rollout", metavar="ROLLOUT")
    can_i = command(
        commands,
        "can-i",
        "what you may decide on a Rollout, and whether it would count now",
        "Asks the API server for your rights on the Rollout: approve, operate, override; and says whether an\n"
        "approval would count now. Nobody approves a change that they started, and what is not held can't be\n"
        "approved. With a verb, exit code 4 says no.",
        example="kubectl gate can-i approve checkout -n shop",
    )
    can_i.add_argument("verb", metavar="VERB", nargs="?", choices=VERBS, help=f"one of {', '.join(VERBS)}")
    can_i.add_argument("rollout", metavar="ROLLOUT")
    lint = command(
        commands,
        "lint",
        "check contracts, Rollouts and sources in files, without a cluster",
        "Reads manifests as the API server would, and looks at those that belong together as the operator does:\n"
        "unknown and missing fields, checks that can never pass, gates that no check judges, sources that can't\n"
        "serve. Each finding has its file and line; exit code 1 when something is wrong. Rules in CEL are the API\n"
        "server's own: kubectl apply --dry-run=server.",
        example="kubectl gate lint contract.yaml rollout.yaml source.yaml",
        codes="exit codes:\n  0 nothing is wrong (warnings may be)   1 something is   2 usage",
    )
    lint.add_argument("file", metavar="FILE", nargs="+", help="YAML or JSON, - for stdin")
