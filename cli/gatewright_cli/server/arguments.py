"""The command line of `gatewright server`. Light: every command of `gatewright` imports it at its start."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gatewright_cli.parser import Parser

    _Commands = argparse._SubParsersAction[Parser]


def add_server(commands: "_Commands") -> None:
    """`gatewright server`."""
    parser = commands.add_parser(
        "server",
        help="serve the review page: what is held, and why (it changes nothing)",
        description="Serves a web page that shows what is held and on which evidence, to people whom the API server knows and\n"
        "who may read it there. It changes nothing in the cluster; decisions are commands to copy.",
        epilog="example:\n  gatewright server --kubeconfig page.kubeconfig --listen 127.0.0.1:8443 --tls-cert page.crt --tls-key page.key",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="how the page itself logs in (a pod's service account when left out)",
    )
    parser.add_argument(
        "--listen", metavar="ADDRESS:PORT", default="127.0.0.1:8443", help="default 127.0.0.1:8443"
    )
    parser.add_argument(
        "--tls-cert",
        metavar="FILE",
        help="certificate chain (PEM); without it something in front must end TLS",
    )
    parser.add_argument("--tls-key", metavar="FILE", help="the certificate's key (PEM)")
    parser.add_argument(
        "--namespace",
        metavar="NAME",
        action="append",
        default=[],
        help="show only this namespace (once for each; all when left out)",
    )
