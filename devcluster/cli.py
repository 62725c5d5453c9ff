"""The commands of the development cluster: ``python -m devcluster COMMAND``."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from devcluster import binaries, gomodules
from devcluster.cache import default_instance_dir
from devcluster.errors import DevclusterError
from devcluster.install import install
from devcluster.instance import Instance
from devcluster.processes import kill_if_same
from devcluster.supervision import NotRunning, Supervision, is_locked, read_state


def main(argv: list[str] | None = None) -> int:
    """Runs one command; its exit code: 0 done, 1 failed with a sentence on stderr, 2 wrong usage."""
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        return command(arguments)
    except DevclusterError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # else Python complains again at its exit
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m devcluster",
        description="A real Kubernetes control plane with pods, a gateway and Prometheus, without Docker.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(
        name: str, run: Callable[[argparse.Namespace], int], summary: str, *, dir: bool = True
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=summary, description=summary)
        command.set_defaults(command=run)
        if dir:
            command.add_argument(
                "--dir",
                type=Path,
                default=default_instance_dir(),
                help="the cluster's folder (default: %(default)s)",
            )
        return command

    add("build", _build, "Build the programs that are not at hand, once, into the cache.", dir=False)
    up = add("up", _up, "Start a cluster; it runs until Ctrl-C, or with --detach until `down`.")
    up.add_argument(
        "--detach", action="store_true", help="return when the cluster is ready and leave it running"
    )
    up.add_argument(
        "--scrape-interval",
        type=float,
        default=1.0,
        metavar="SECONDS",
        help="how often Prometheus scrapes (default: 1)",
    )
    user = add(
        "user", _user, "Print the path of the kubeconfig of a user; its rights are what RBAC gives to it."
    )
    user.add_argument("name")
    user.add_argument("--group", action="append", default=[], help="a group the user is in; may be repeated")
    add("install", _install, "Install Gatewright into the cluster and run its operator; may be repeated.")
    logs = add("logs", _logs, "Print what a part or a pod has written; without a name, say what there is.")
    logs.add_argument("name", nargs="?", metavar="POD|PART", help="a part's name, or [NAMESPACE/]POD")
    add("status", _status, "Say whether the cluster and each of its parts runs; exit code 1 when not.")
    add("down", _down, "Stop the cluster. Its data goes when the next one starts in the same folder.")
    return parser


def _build(_: argparse.Namespace) -> int:
    began = time.monotonic()
    for name, path in binaries.ensure(*binaries.PROGRAMS, report=_say).items():
        print(f"{name}: {path}")
    print(f"gateway-api: {gomodules.gateway_api_crds(_say)}")
    print(f"Everything is there ({time.monotonic() - began:.0f} s).")
    return 0


def _up(arguments: argparse.Namespace) -> int:
    began = time.monotonic()
    instance = Instance(arguments.dir, scrape_interval_seconds=arguments.scrape_interval, report=_say)
    # The terminal that closes, and a plain `kill`, end a foreground cluster in the same order as Ctrl-C does; which a
    # shell that started it in the background has switched off.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    instance.start()
    if arguments.detach:
        instance.release()
    for part, seconds in instance.ready_after_seconds.items():
        _say(f"{part} ready after {seconds:.1f} s")
    _say(f"The development cluster is up ({time.monotonic() - began:.1f} s).")
    _print_addresses(instance)
    if arguments.detach:
        return 0
    try:
        _watch(instance)
    except NotRunning:
        _say("The development cluster was stopped from outside.")
        return 0
    finally:
        instance.stop()


def _watch(instance: Instance) -> NoReturn:
    """Tells of each part that ends, for as long as the cluster runs; the others go on, so that one can look."""
    told: set[int] = set()
    while True:
        for name, part in instance.status().items():
            if not part.running and part.pid not in told:
                told.add(part.pid)
                _say(f"{name} has stopped (exit code {part.exit_code}); see {instance.log_path(name)}")
        time.sleep(0.5)


def _print_addresses(instance: Instance) -> None:
    print(f"KUBECONFIG={instance.kubeconfig}")
    print(f"PROMETHEUS={instance.prometheus_url}")
    print(f"GATEWAY={instance.gateway_url}", flush=True)


def _user(arguments: argparse.Namespace) -> int:
    print(Instance.attach(arguments.dir).user(arguments.name, arguments.group))
    return 0


def _install(arguments: argparse.Namespace) -> int:
    install(Instance.attach(arguments.dir), report=_say)
    return 0


def _logs(arguments: argparse.Namespace) -> int:
    folder: Path = arguments.dir
    part_logs = {path.stem: path for path in sorted((folder / "logs").glob("*.log"))}
    pod_logs = sorted((folder / "node" / "logs").glob("*_*_*.log"))
    if not arguments.name:
        for name in part_logs:
            print(name)
        for path in pod_logs:
            namespace, pod, _ = path.stem.split("_")
            print(f"{namespace}/{pod}")
        return 0
    if arguments.name in part_logs:
        found = [part_logs[arguments.name]]
    else:
        namespace, _, pod = arguments.name.rpartition("/")
        found = [
            path
            for path in pod_logs
            if path.stem.split("_")[1] == pod and namespace in ("", path.stem.split("_")[0])
        ]
    if not found:
        raise DevclusterError(
            f"Nothing named {arguments.name} has written anything in {folder}: "
            "`logs` without a name lists what there is."
        )
    for path in found:
        with path.open(errors="replace") as handle:
            for line in handle:
                sys.stdout.write(line)
    return 0


def _status(arguments: argparse.Namespace) -> int:
    instance = Instance.attach(arguments.dir)
    healthy = True
    for name, part in instance.status().items():
        if part.running:
            print(f"{name}: running (process {part.pid})")
        else:
            healthy = False
            print(f"{name}: stopped (exit code {part.exit_code}); see {instance.log_path(name)}")
    _print_addresses(instance)
    return 0 if healthy else 1


def _down(arguments: argparse.Namespace) -> int:
    folder: Path = arguments.dir
    if is_locked(folder):
        Supervision(folder).stop()
        _say(f"The development cluster in {folder} is stopped.")
        return 0
    # Nothing should be left, for the kernel ends the parts with their supervisor. A pid alone proves nothing:
    # it may be anybody's by now, so each process is looked at again before it is ended.
    state = read_state(folder) or {"parts": {}}
    ended = [name for name, part in state["parts"].items() if kill_if_same(part["pid"], part["started"])]
    _say(f"No development cluster runs in {folder}.")
    if ended:
        _say(f"Ended what an earlier one had left: {', '.join(ended)}.")
    return 0


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
