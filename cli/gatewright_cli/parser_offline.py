"""The commands of `gatewright` that judge without a cluster: their words, their help."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gatewright_cli.backtest import Options
    from gatewright_cli.parser import Parser

    _Commands = argparse._SubParsersAction[Parser]

BACKTEST_CODES = """\
exit codes:
  0 PROMOTE   3 ROLLBACK   8 HOLD   1 the contract or the evidence can't be read   2 usage"""


def add_backtest(commands: "_Commands") -> None:
    """`gatewright backtest`."""
    parser = commands.add_parser(
        "backtest",
        help="what a contract would have said of recorded evidence",
        description="Judges recorded evidence look by look, as the operator would have at one gate, and prints the verdict.\n"
        "No cluster is needed. What lacks evidence is a HOLD, never a PROMOTE.",
        epilog="example:\n  gatewright backtest contract.yaml --evidence canary.jsonl --warmup 30s --plot canary.svg\n\n"
        + BACKTEST_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("contract", metavar="CONTRACT", help="file with the GateContract, - for stdin")
    where = parser.add_argument_group("where the evidence is")
    where.add_argument(
        "--evidence", metavar="FILE", help="JSON lines, one for each check and look, - for stdin"
    )
    where.add_argument("--prometheus", metavar="URL", help="a Prometheus that has the counters")
    where.add_argument(
        "--source", metavar="FILE", help="a MetricSource manifest: address, arms, scrape interval"
    )
    where.add_argument(
        "--from", dest="start", metavar="TIME", help="begin of the gate, RFC 3339 or Unix seconds"
    )
    where.add_argument("--to", dest="end", metavar="TIME", help="end of the evidence")
    where.add_argument(
        "--step", metavar="LENGTH", help="length of a window, at least two scrape intervals (30s)"
    )
    where.add_argument("--namespace", metavar="NAME", help="namespace of the pods")
    where.add_argument(
        "--canary",
        "--canary-pods",
        metavar="VALUE",
        help="what tells the canary: by PodName the prefix of its pods",
    )
    where.add_argument(
        "--stable", "--stable-pods", metavar="VALUE", help="the same of stable; none when left out"
    )
    where.add_argument(
        "--arms-by",
        choices=("PodName", "PodLabel", "Service", "Workload"),
        help="what the label holds (default PodName)",
    )
    where.add_argument("--arms-label", metavar="LABEL", help="metric label that tells the arms apart (pod)")
    where.add_argument("--namespace-label", metavar="LABEL", help="metric label of the namespace (namespace)")
    where.add_argument("--scrape-interval", metavar="LENGTH", help="how often it scrapes (default 15s)")
    gate = parser.add_argument_group("the gate")
    gate.add_argument("--stage", choices=("Canary", "Bake"), default="Canary", help="default Canary")
    gate.add_argument("--duration", metavar="LENGTH", help="no pass before it (default: the last t)")
    gate.add_argument("--max-duration", metavar="LENGTH", help="the deadline (default: the last t)")
    gate.add_argument("--warmup", metavar="LENGTH", help="what does not count at the begin (default none)")
    gate.add_argument("--checks", metavar="ID,…", help="only these checks; the sentence names those left out")
    gate.add_argument("--tier", choices=("Fast", "Full"), help="only checks of this tier")
    parser.add_argument("--plot", metavar="FILE", help="draw the looks: FILE.svg or FILE.png")
    parser.add_argument(
        "-o", "--output", choices=("json", "yaml"), help="JSON or YAML for programs, with all looks"
    )


def add_plan(commands: "_Commands") -> None:
    """`gatewright plan`."""
    parser = commands.add_parser(
        "plan",
        help="whether a contract can pass, and how long that takes",
        description="For each check and gate: the least and the planned samples, the probability that a candidate half-way\n"
        "between its limit and perfect passes, and at a rate of requests how long it takes. Says what can never\n"
        "pass, and what no gate of this length can find.",
        epilog="example:\n  gatewright plan contract.yaml --rollout rollout.yaml --rate 1200\n\n"
        "exit codes:\n  0 all can pass   1 something can never pass, or a file can't be read   2 usage",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("contract", metavar="CONTRACT", help="file with the GateContract, - for stdin")
    parser.add_argument("--rollout", metavar="FILE", help="file with the Rollout: its gates and weights")
    parser.add_argument(
        "--rate",
        metavar="R",
        action="append",
        default=[],
        help="requests per minute of the whole service; ID=R: events per minute of one check",
    )
    parser.add_argument("-o", "--output", choices=("json", "yaml"), help="JSON or YAML for programs")


def backtest_options(args: argparse.Namespace) -> "Options":
    """The options of `backtest.run`. Raises UsageError for words that don't go together."""
    from gatewright_cli import durations
    from gatewright_cli.backtest import Options
    from gatewright_cli.errors import UsageError
    from gatewright_cli.formats import Output
    from gatewright_cli.history import Past

    help_ = "gatewright backtest --help"
    from_source = args.prometheus is not None or args.source is not None
    if from_source == (args.evidence is not None):
        raise UsageError(
            "Give the evidence as --evidence FILE, or --prometheus URL (or --source FILE).", then=help_
        )
    of_past = {"--from": args.start, "--to": args.end, "--step": args.step, "--namespace": args.namespace, "--canary": args.canary}  # fmt: skip
    if from_source:
        for option, value in of_past.items():
            if not value:
                raise UsageError(f"{option} is needed to read from a Prometheus.", then=help_)
        arms = (args.arms_by, args.arms_label, args.namespace_label, args.scrape_interval)
        if args.source is not None and any(arms):
            raise UsageError(
                "The MetricSource says how arms are told apart and how often it scrapes.", then=help_
            )
    elif any((*of_past.values(), args.stable, args.arms_by, args.arms_label, args.namespace_label, args.scrape_interval)):  # fmt: skip
        raise UsageError("--from, --to, --step, --namespace and the arms belong to --prometheus.", then=help_)

    def length(text: str | None, option: str) -> float | None:
        return None if text is None else durations.parse(text, option).total_seconds()

    past = None
    if from_source:
        past = Past(
            address=args.prometheus,
            source=args.source,
            start=args.start,
            end=args.end,
            step=durations.parse(args.step, "--step"),
            namespace=args.namespace,
            canary=args.canary,
            stable=args.stable,
            arms_by=args.arms_by or "PodName",
            arms_label=args.arms_label,
            namespace_label=args.namespace_label or "namespace",
            scrape_interval=durations.parse(args.scrape_interval or "15s", "--scrape-interval"),
        )
    return Options(
        contract=args.contract,
        evidence=args.evidence,
        past=past,
        stage=args.stage,
        duration=length(args.duration, "--duration"),
        max_duration=length(args.max_duration, "--max-duration"),
        warmup=0.0 if args.warmup in (None, "0", "0s") else (length(args.warmup, "--warmup") or 0.0),
        checks=tuple(name for name in (args.checks or "").split(",") if name),
        tier=args.tier,
        plot=args.plot,
        output=Output(args.output or ""),
    )
