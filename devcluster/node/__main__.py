"""``python -m devcluster.node --kubeconfig FILE --dir DIR``: run the node agent until it is told to stop."""

import argparse
from pathlib import Path

from devcluster.node.leftovers import start_watchdog


def main() -> None:
    """Parse the options, fork the watchdog while the process is still small, then serve."""
    parser = argparse.ArgumentParser(
        prog="python -m devcluster.node", description="A node made of processes."
    )
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--dir", type=Path, required=True, help="for logs, and DIR/ready while serving")
    parser.add_argument("--node-name", default="devcluster-node")
    parser.add_argument(
        "--backoff-base-seconds", type=float, default=1.0, help="first wait of CrashLoopBackOff"
    )
    parser.add_argument("--backoff-max-seconds", type=float, default=30.0)
    parser.add_argument("--log-level", default="INFO")
    options = parser.parse_args()
    directory = options.dir.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    mark = start_watchdog(str(directory))

    from devcluster.node.serve import serve

    serve(
        options.kubeconfig,
        directory,
        mark,
        node_name=options.node_name,
        backoff_base_seconds=options.backoff_base_seconds,
        backoff_max_seconds=options.backoff_max_seconds,
        log_level=options.log_level,
    )


if __name__ == "__main__":
    main()
