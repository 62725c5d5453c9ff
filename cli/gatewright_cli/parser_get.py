"""The command line of `kubectl gate get`."""

import argparse
from collections.abc import Callable
from typing import Any

from gatewright_cli.formats import DATA, Output


def add_get(command: Callable[..., argparse.ArgumentParser], commands: Any) -> None:
    """`command` is what makes a subcommand with the options that all have."""
    get = command(
        commands,
        "get",
        "Rollouts as trees: steps, and the checks of each gate",
        "A Rollout with its steps, and below each gate its checks: marks, weight, verdict, attempts. Without a\n"
        "name all Rollouts of the namespace, each with the gate that matters now.",
        formats=(*DATA, Output.WIDE, Output.NAME),
        example="kubectl gate get checkout -n shop --watch",
    )
    get.add_argument("rollout", metavar="ROLLOUT", nargs="?")
    get.add_argument("-A", "--all-namespaces", action="store_true", help="in all namespaces")
    get.add_argument(
        "-w",
        "--watch",
        action="store_true",
        help="show changes as they come, until Ctrl-C: on a terminal in place, else a line for each",
    )
