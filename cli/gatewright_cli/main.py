"""The two commands: parse, import what the subcommand needs and nothing else, run it, say what went wrong."""

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise

from gatewright_cli import formats
from gatewright_cli.errors import Exit, GateError, UsageError
from gatewright_cli.flags import KubeFlags, take
from gatewright_cli.formats import Output
from gatewright_cli.parser import gate_parser, gatewright_parser


def kubectl_gate(argv: Sequence[str] | None = None) -> int:
    """Entry point of `kubectl gate` (as `kubectl-gate`)."""
    return _guarded(list(sys.argv[1:] if argv is None else argv), _gate)


def gatewright(argv: Sequence[str] | None = None) -> int:
    """Entry point of `gatewright`: the operator, and what needs no cluster."""
    return _guarded(list(sys.argv[1:] if argv is None else argv), _gatewright)


def _gate(argv: list[str]) -> int:
    flags, rest = take(argv)
    parser = gate_parser(only="status" if rest[:1] == ["status"] else None)
    args = parser.parse_args(rest)
    if args.version:
        return _version()
    if args.command is None:
        parser.print_help()
        return Exit.USAGE
    if args.command == "ledger":
        from gatewright_cli import ledger

        return ledger.run(flags, args.action, *_ledger_arguments(args))
    if args.command == "lint":
        from gatewright_cli import lint

        return lint.run(args.file, output=_output(args))
    return _on_cluster(flags, args)


def _on_cluster(flags: KubeFlags, args: argparse.Namespace) -> int:
    from gatewright_cli.kube import Kube

    kube = Kube.of(flags)
    match args.command:
        case "status":
            from gatewright_cli import durations, status

            if not args.wait and (args.image or args.timeout):
                raise UsageError("--image and --timeout belong to --wait.", then="kubectl gate status --help")
            if args.watch and _output(args) in (Output.NAME, Output.WIDE):
                raise UsageError(
                    "--watch shows text, or JSON or YAML: leave -o out.", then="kubectl gate status --help"
                )
            options = status.Options(
                name=_name(args.rollout),
                wait=args.wait,
                watch=args.watch,
                image=args.image,
                timeout=durations.parse(args.timeout or "10m", "--timeout"),
                output=_output(args),
            )
            return status.run(kube, options)
        case "get":
            from gatewright_cli import get

            if args.rollout and args.all_namespaces:
                raise UsageError(
                    "A name is a name in one namespace: leave -A out.", then="kubectl gate get --help"
                )
            return get.run(
                kube, get.Options(_name(args.rollout), args.all_namespaces, args.watch, _output(args))
            )
        case "holds":
            from gatewright_cli import holds

            return holds.run(kube, everywhere=args.all_namespaces, output=_output(args))
        case "review":
            from gatewright_cli import review

            return review.run(kube, _name(args.rollout), output=_output(args))
        case "explain":
            from gatewright_cli import explain

            rollout, check = explain.split(args.check)
            return explain.run(kube, _name(rollout), check, output=_output(args))
        case "history":
            from gatewright_cli import past

            return past.run(kube, _name(args.rollout), output=_output(args))
        case "can-i":
            from gatewright_cli import can_i

            return can_i.run(kube, _name(args.rollout), args.verb, output=_output(args))
        case verb:
            from gatewright_cli import decide, durations, gatereview

            word = decide.Word(
                verb=verb,
                rollout=_name(args.rollout),
                reason=args.reason,
                expires=getattr(args, "expires", None),
                through=getattr(args, "through", None),
                to=getattr(args, "to", None),
                ignore_breach=getattr(args, "ignore_breach", False),
                yes=args.yes,
                timeout=durations.parse(args.timeout, "--timeout"),
                output=_output(args),
            )
            return gatereview.run(kube, word) if verb in gatereview.DECISIONS else decide.run(kube, word)


def _gatewright(argv: list[str]) -> int:
    if argv[:1] == ["operator"]:
        # Not an import: the command line knows nothing of the operator. And exec: signals reach it directly.
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-m", "gatewright_operator", *argv[1:]])
    # Only `evidence push` speaks to a cluster; elsewhere kubectl's flags are refused as unknown.
    flags, rest = take(argv) if argv[:1] == ["evidence"] else (KubeFlags(), argv)
    parser = gatewright_parser()
    args = parser.parse_args(rest)
    if args.version:
        return _version()
    if args.command is None:
        parser.print_help()
        return Exit.USAGE
    if args.command == "server":
        from gatewright_cli.server import run as server

        named = (args.kubeconfig, args.listen, args.tls_cert, args.tls_key, tuple(args.namespace))
        return server.run(server.Options(*named))
    if args.command == "backtest":
        from gatewright_cli import backtest, parser_offline

        return backtest.run(parser_offline.backtest_options(args))
    if args.command == "plan":
        from gatewright_cli import plan

        return plan.run(plan.Options(args.contract, args.rollout, tuple(args.rate), _output(args)))
    if args.command == "evidence":
        from gatewright_cli import evidence

        return evidence.run(flags, args)
    from gatewright_cli import ledger

    return ledger.run(flags, args.action, *_ledger_arguments(args))


def _ledger_arguments(
    args: argparse.Namespace,
) -> tuple[str, str | None, str | None, str | None, str | None]:
    head, evidence = getattr(args, "head", None), getattr(args, "evidence", None)
    return _name(args.rollout), args.file, head, args.output, evidence


def _name(text: str | None) -> str:
    """`checkout`, also when it is written as kubectl prints it: `rollout.gatewright.dev/checkout`."""
    kind, slash, name = (text or "").rpartition("/")
    if slash and kind not in (
        "rollout",
        "rollouts",
        "gwr",
        "rollout.gatewright.dev",
        "rollouts.gatewright.dev",
    ):
        raise UsageError(f"{text!r} is not a Rollout.", then="kubectl get rollouts.gatewright.dev")
    if text is not None and not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", name):
        raise UsageError(f"{name!r} is no name of a Rollout.", then="kubectl get rollouts.gatewright.dev")
    return name


def _output(args: argparse.Namespace) -> Output:
    return Output(args.output or "")


def _version() -> int:
    from importlib.metadata import version

    print(f"gatewright {version('gatewright')}")
    return Exit.OK


def _guarded(argv: list[str], command: Callable[[list[str]], int]) -> int:
    try:
        return int(command(argv))
    except GateError as error:
        if isinstance(error, UsageError) and not error.then:
            error.then = _help_of(argv, command)
        return _complain(error, argv)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader went (`| head`), so nobody is there to be told; Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.ERROR


def _help_of(argv: list[str], command: Callable[[list[str]], int]) -> str:
    """The help of the subcommand that was meant."""
    parser = gate_parser() if command is _gate else gatewright_parser()
    known = {
        name for action in parser._actions for name in (action.choices or ()) if action.dest == "command"
    }
    meant = next((word for word in argv if word in known), "")
    return " ".join(filter(None, (parser.prog, meant, "--help")))


def _complain(error: GateError, argv: list[str]) -> int:
    """The sentence on standard error; for programs that asked for data also as data on standard output."""
    wanted = _wanted(argv)
    if not error.reported and wanted is not None:
        said = {
            "code": int(error.code),
            "name": error.code.name.lower(),
            "sentence": error.sentence,
            "then": error.then,
        }
        if wanted is Output.YAML:
            formats.show({"error": said}, wanted)
        else:
            print(json.dumps({"error": said}, ensure_ascii=False))
    print(f"error: {error.sentence}", file=sys.stderr)
    if error.then:
        print(f"try:   {error.then}", file=sys.stderr)
    return int(error.code)


def _wanted(argv: list[str]) -> Output | None:
    """The data format that was asked for, also on a line that could not be parsed; None for text."""
    for form in formats.DATA:
        attached = any(word in (f"-o{form}", f"-o={form}", f"--output={form}") for word in argv)
        if attached or any(pair in (("-o", form), ("--output", form)) for pair in pairwise(argv)):
            return form
    return None
