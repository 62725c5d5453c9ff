"""The command lines of `kubectl gate` and `gatewright`: their words, their help.

argparse and not click: click takes 80 ms more to import, a fifth of what a whole command may take.
"""

import argparse
from typing import TYPE_CHECKING, NoReturn

from gatewright_cli.errors import UsageError
from gatewright_cli.formats import DATA, EXPORTED, HELP, Output

EXIT_CODES = """\
exit codes:
  0 done (with --wait: promoted)   1 error        2 usage      3 rolled back
  4 not allowed                    5 superseded   8 held       124 timed out"""

KUBECTL_FLAGS = """\
kubectl's own flags (-n, --context, --kubeconfig, --as, …) are understood anywhere on the line."""


class Parser(argparse.ArgumentParser):
    """argparse with errors as exceptions, so that there is one place that prints them."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}.", then=f"{self.prog} --help")


def gate_parser(only: str | None = None) -> Parser:
    """All of `kubectl gate`. With `only="status"` no more than that, which is asked most and in scripts: a part of its start
    would go into the others."""
    parser = Parser(
        prog="kubectl gate",
        description="See where a release stands, and decide on those that are held.",
        epilog=f"{KUBECTL_FLAGS}\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    status = command(
        commands,
        "status",
        "where a Rollout stands, on one screen",
        "Where a Rollout stands: step, weight, verdict, checks, hold, ledger.\n\n"
        "--wait returns when there is a verdict on the release that the workload carries at the time of the\n"
        "call, and never answers about the one before. 0 means that it is through its bake and stable; a\n"
        "HOLD returns at once, with 8.",
        formats=(*DATA, Output.WIDE, Output.NAME),
        example="kubectl gate status checkout -n shop --wait --timeout 30m",
    )
    status.add_argument("rollout", metavar="ROLLOUT")
    status.add_argument("-w", "--watch", action="store_true", help="show changes as they come, until Ctrl-C")
    status.add_argument("--wait", action="store_true", help="wait for the verdict; the exit code tells it")
    status.add_argument(
        "--timeout",
        metavar="LENGTH",
        help="with --wait: give up after this long (30s, 10m, 1h30m; default 10m)",
    )
    status.add_argument(
        "--image",
        metavar="IMAGE",
        help="with --wait: first wait until the workload carries this image (or sha256:… digest)",
    )
    if only == "status":
        return parser

    from gatewright_cli.parser_get import add_get

    add_get(command, commands)
    holds = command(
        commands,
        "holds",
        "what waits for a person",
        "What is held, the longest first, and whether you may approve it.",
        formats=(*DATA, Output.WIDE, Output.NAME),
    )
    holds.add_argument("-A", "--all-namespaces", action="store_true", help="in all namespaces")

    review = command(
        commands,
        "review",
        "why a Rollout is held, and what would change it",
        "Why a Rollout is held, who started the change, what blocks it, what would change that, and what\n"
        "approving means.",
    )
    review.add_argument("rollout", metavar="ROLLOUT")

    approve = _decision(
        commands,
        "approve",
        "let a held change go on, by a waiver that expires",
        "Writes a GateReview: a waiver for exactly the evidence that is held now. Needs the verb `approve`\n"
        "on the Rollout.",
        example="kubectl gate approve checkout -n shop --expires 24h --reason 'few requests; logs are clean'",
    )
    approve.add_argument(
        "--expires",
        metavar="WHEN",
        required=True,
        help="when the waiver ends: a length (24h, 3d) or a time in RFC 3339",
    )
    approve.add_argument(
        "--through",
        metavar="STEP",
        help="waive the same checks up to this step too, by its number in `review` (from 1), or `remaining`",
    )
    _decision(
        commands,
        "reject",
        "send a held change back",
        "Writes a GateReview: all traffic goes back to stable. Needs the verb `approve` or `operate` on the\n"
        "Rollout.",
    )
    _decision(
        commands,
        "request-changes",
        "keep a change held, and say what is missing",
        "Writes a GateReview: the change stays held, and your reason becomes its hint. Needs the verb\n"
        "`approve` on the Rollout.",
    )
    _decision(
        commands,
        "abort",
        "send a running release back",
        "Writes a GateOrder: all traffic goes back to stable, and the Deployment keeps the refused template, paused.\n"
        "This is what `kubectl rollout undo` would have done, which is refused on a paused Deployment. Then put the\n"
        "old template back where it came from (Git, the chart): that alone moves no pod. Needs the verb `operate` on\n"
        "the Rollout.",
    )
    _decision(
        commands,
        "retry",
        "try a refused revision again, or a held gate",
        "Writes a GateOrder: a revision that was refused starts again from its first step; one that is held is\n"
        "judged again at its gate. Sampled checks that were judged on this artifact keep their answer. Needs\n"
        "the verb `operate` on the Rollout.",
    )
    _decision(
        commands,
        "more-samples",
        "judge a held gate again with more samples",
        "Writes a GateOrder: the held gate is judged again, and sampled checks that did not pass go on from the\n"
        "samples that they have had. Two times at most for one artifact. Needs the verb `operate` on the Rollout.",
        example="kubectl gate more-samples checkout -n shop --reason 'close to the threshold'",
    )
    _decision(
        commands,
        "escalate",
        "call the next person to a held change now",
        "Writes a GateOrder: what is held is escalated at once, as it would be when hold.escalateAfter is over.\n"
        "It stays held. Once for each hold. Needs the verb `operate` on the Rollout.",
        example="kubectl gate escalate checkout -n shop --reason 'I cannot judge these errors'",
    )

    from gatewright_cli import parser_orders, parser_verbs

    parser_orders.add(commands)
    parser_verbs.add(commands)
    ledger = commands.add_parser(
        "ledger",
        help="what was decided, by whom, on which numbers",
        description="Read the ledger, or prove it unbroken.",
    )
    _ledger(ledger.add_subparsers(dest="action", metavar="ACTION", required=True), offline=False)
    return parser


def gatewright_parser() -> Parser:
    """All of `gatewright`."""
    parser = Parser(prog="gatewright", description="The release gate for Kubernetes.")
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser(
        "operator", help="run the operator (its own options: gatewright operator --help)", add_help=False
    )
    from gatewright_cli import parser_offline
    from gatewright_cli.server import arguments

    arguments.add_server(commands)
    parser_offline.add_backtest(commands)
    parser_offline.add_plan(commands)
    ledger = commands.add_parser("ledger", help="read and verify a ledger from a file, without a cluster")
    _ledger(ledger.add_subparsers(dest="action", metavar="ACTION", required=True), offline=True)
    evidence = commands.add_parser("evidence", help="results of evaluations, as evidence for sampled checks")
    _evidence(evidence.add_subparsers(dest="action", metavar="ACTION", required=True))
    return parser


if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[Parser]


def command(
    commands: "_Commands",
    name: str,
    short: str,
    long: str,
    example: str = "",
    formats: tuple[str, ...] = DATA,
    codes: str = EXIT_CODES,
) -> Parser:
    """A subcommand with the `-o` that it understands."""
    epilog = "\n\n".join(
        part for part in (f"example:\n  {example}" if example else "", KUBECTL_FLAGS, codes) if part
    )
    parser = commands.add_parser(
        name,
        help=short,
        description=long,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    told = "; ".join(f"{each}: {HELP[each]}" for each in formats if each in HELP)
    parser.add_argument("-o", "--output", choices=[str(each) for each in formats], help=told)
    return parser


def _decision(commands: "_Commands", name: str, short: str, long: str, example: str = "") -> Parser:
    parser = command(
        commands,
        name,
        short,
        long,
        example or f"kubectl gate {name} checkout -n shop --reason 'see the error log'",
        formats=(*DATA, Output.NAME),
    )
    parser.add_argument("rollout", metavar="ROLLOUT")
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why; the ledger keeps it")
    parser.add_argument(
        "-y", "--yes", action="store_true", help="do not ask; reviews need it where there is no terminal"
    )
    parser.add_argument(
        "--timeout",
        metavar="LENGTH",
        default="30s",
        help="how long to wait for the operator's answer (default 30s)",
    )
    return parser


def _ledger(actions: "_Commands", *, offline: bool) -> None:
    for name, short in (
        ("show", "the entries, oldest first"),
        ("verify", "walk the hash chain from the first entry; exit code 1 says that it is broken"),
        ("export", "the entries, or in-toto statements of the verdicts, as JSON lines"),
        ("replay", "give every verdict again from its evidence; exit code 1 says that one differs"),
    ):
        formats = {"show": (*DATA, Output.JSONL), "export": EXPORTED}.get(name, DATA)
        parser = command(actions, name, short, short[:1].upper() + short[1:] + ".", formats=formats)
        what = "which of the ledgers in the file" if offline else "not needed with --file"
        parser.add_argument("rollout", metavar="ROLLOUT", nargs="?", help=what)
        parser.add_argument(
            "-f",
            "--file",
            metavar="FILE",
            required=offline,
            help="read this file instead, - for stdin: what `kubectl get configmaps -l gatewright.dev/ledger "
            "-o json` (or yaml) printed",
        )
        if name == "replay":
            parser.add_argument(
                "--evidence",
                metavar="FILE",
                required=offline,
                help="with --file: what `kubectl get configmaps -l gatewright.dev/evidence -o json` printed",
            )
        if name == "verify":
            parser.add_argument(
                "--head",
                metavar="SHA256",
                help="a digest that was seen before (in an Event, an export, a metric) and must still be in it",
            )


def _evidence(actions: "_Commands") -> None:
    for name, short, long in (
        (
            "import",
            "read a result file, and show what would be pushed",
            "Reads a result file of promptfoo (version 3), of Inspect (.json, .eval) or of JSON lines, and shows\n"
            "the record that `push` would make of it. Needs no cluster.",
        ),
        (
            "push",
            "write a result file's record into the cluster, where contracts find it",
            "The same as `import`, and writes the record as an immutable ConfigMap into the namespace. Pushing\n"
            "the same twice changes nothing. Needs the rights to create and get ConfigMaps there.",
        ),
    ):
        pushing = name == "push"
        parser = command(
            actions,
            name,
            short,
            long,
            example="gatewright evidence push results.json --suite faithfulness -n shop \\\n"
            "    --image registry.example/checkout@sha256:… --world model=answers-2026-03"
            if pushing
            else "gatewright evidence import results.json --suite faithfulness",
            formats=(*DATA, "summary"),
        )
        parser.add_argument("file", metavar="FILE", help="the result file, - for stdin")
        parser.add_argument("--suite", metavar="NAME", required=True, help="the suite that contracts ask for")
        parser.add_argument(
            "--format", choices=("promptfoo", "inspect", "jsonl"), help="told by the content when left out"
        )
        parser.add_argument(
            "--kind",
            choices=("samples", "scores"),
            help="count verdicts that are 0 or 1 (samples), or add up scores between them",
        )
        parser.add_argument(
            "--provider", metavar="NAME", help="promptfoo: the provider, where there are several"
        )
        parser.add_argument("--prompt", metavar="NAME", help="promptfoo: the prompt's label, id or text")
        parser.add_argument(
            "--metric", metavar="NAME", help="promptfoo: this named metric, not the whole row"
        )
        parser.add_argument("--scorer", metavar="NAME", help="Inspect: the scorer (or scorer.key)")
        parser.add_argument(
            "--cluster-by",
            metavar="KEY",
            help="what items that belong together share: a variable or metadata key",
        )
        parser.add_argument(
            "--paired-with", metavar="FILE", help="the same items with another version; count wins and losses"
        )
        parser.add_argument(
            "--revision", metavar="SHA", help="refuse a file of another commit, or of a tree with changes"
        )
        parser.add_argument(
            "--image",
            metavar="DIGEST",
            action="append",
            default=[],
            required=pushing,
            help="an image that was evaluated: sha256:… or REF@sha256:… (once for each)",
        )
        parser.add_argument(
            "--world",
            metavar="KEY=VALUE",
            action="append",
            default=[],
            help="what else it ran with, such as a model's id (once for each)",
        )
