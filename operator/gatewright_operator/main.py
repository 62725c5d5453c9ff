"""The operator's process: options, signals, probes, the Lease, and the terms of leadership."""

import argparse
import asyncio
import importlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from gatewright_operator import logs
from gatewright_operator.api import Api
from gatewright_operator.lease import Elector, LeaseTimes
from gatewright_operator.login import LoginError
from gatewright_operator.metrics import Metrics
from gatewright_operator.probes import CannotListen, Limits, Probes, watch_loop_lag
from gatewright_operator.shipped import AS_THE_CHART, Controllers
from gatewright_operator.term import Build, Term, TermOptions

log = logging.getLogger(__name__)

DRAIN_SECONDS = 15.0
"""How long running reconciles may take to end after SIGTERM; below a pod's grace period of 30 s."""
FLUSH_SECONDS = 2.0
EXIT_LOST = 3
"""Exit code when leadership was lost and work would not end: whoever started us starts us anew."""


@dataclass(frozen=True)
class Options:
    """What the command line and the environment say."""

    kubeconfig: Path | None
    namespaces: tuple[str, ...]
    host: str | None
    port: int
    identity: str
    lease: LeaseTimes
    own_namespace: str
    resync_seconds: float
    workers: int
    log_format: Literal["text", "json"]
    log_level: str
    controllers: Controllers = AS_THE_CHART


def parse(argv: Sequence[str] | None) -> Options:
    """Read the command line; ends the process with a sentence on stderr when it can't be understood."""
    parser = argparse.ArgumentParser(
        prog="gatewright operator", description="Take workloads through their rollouts."
    )
    parser.add_argument(
        "--kubeconfig", type=Path, help="how to log in; without it, the pod's service account"
    )
    parser.add_argument(
        "--namespace",
        "-n",
        action="append",
        default=[],
        help="watch only this one (repeatable); default: all",
    )
    parser.add_argument(
        "--listen", default=":8080", help="HOST:PORT of /healthz, /readyz, /metrics (port 0: any free one)"
    )
    parser.add_argument(
        "--identity", help="name in Lease and Events; default: $POD_NAME, else the host's name"
    )
    parser.add_argument(
        "--lease-seconds", type=float, default=15.0, help="how long a lost leader blocks the next"
    )
    parser.add_argument("--resync-seconds", type=float, default=300.0, help="between full re-lists")
    parser.add_argument("--workers", type=int, default=16, help="reconciles at the same time")
    parser.add_argument("--log-format", choices=("text", "json"), default="text")
    parser.add_argument("--log-level", choices=("DEBUG", "INFO", "WARNING"), default="INFO")
    for work, names in (("deployment", AS_THE_CHART.deployment), ("cleanup", AS_THE_CHART.cleanup)):
        parser.add_argument(
            f"--{work}-controller",
            action="append",
            help="user that the admission policies let through, as the chart's values say (repeatable); "
            f"default: {', '.join(names)}",
        )
    given = parser.parse_args(argv)
    host, separator, port = given.listen.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        parser.error(f"--listen wants HOST:PORT or :PORT, not {given.listen!r}")
    for name in ("lease_seconds", "resync_seconds", "workers"):
        if getattr(given, name) <= 0:
            parser.error(f"--{name.replace('_', '-')} must be above 0")
    return Options(
        kubeconfig=given.kubeconfig,
        namespaces=tuple(given.namespace),
        host=host.strip("[]") or None,
        port=int(port),
        identity=given.identity or os.environ.get("POD_NAME") or socket.gethostname(),
        lease=LeaseTimes.of(given.lease_seconds),
        own_namespace=os.environ.get("POD_NAMESPACE") or "gatewright-system",
        resync_seconds=given.resync_seconds,
        workers=given.workers,
        log_format=given.log_format,
        log_level=given.log_level,
        controllers=Controllers(
            tuple(given.deployment_controller or AS_THE_CHART.deployment),
            tuple(given.cleanup_controller or AS_THE_CHART.cleanup),
        ),
    )


async def serve(options: Options, build: Build, *, stop: asyncio.Event) -> None:
    """Run until `stop`: wait for the Lease, lead for a term, and again. Raises LoginError when there is no
    way to log in."""
    metrics = Metrics()
    api = await Api.connect(options.kubeconfig, metrics=metrics)
    elector = Elector(api, namespace=options.own_namespace, identity=options.identity, times=options.lease)
    api.may_write = elector.held
    metrics.leading.read = lambda: float(elector.held())
    probes = Probes(metrics, limits=Limits(watch_age_seconds=2 * options.resync_seconds + 60))
    lag = asyncio.create_task(watch_loop_lag(metrics), name="loop lag")
    try:
        address = await probes.start(options.host, options.port)
        log.info("serving probes", extra={"address": address})
        while await _unless(stop, elector.acquire()):
            metrics.lease_transitions.set(elector.transitions)
            term = Term(api, metrics, build, _term_options(options), identity=elector.identity)
            probes.vitals = term.vitals
            await _lead(term, elector, options.lease, stop=stop)
            probes.vitals = None
    finally:
        lag.cancel()
        await asyncio.gather(lag, return_exceptions=True)
        await probes.stop()
        await api.close()


async def _lead(term: Term, elector: Elector, times: LeaseTimes, *, stop: asyncio.Event) -> None:
    """One term: works until leadership is lost or `stop` is set, then ends it in good order."""
    work = asyncio.create_task(term.run(), name="term")
    keep = asyncio.create_task(elector.keep(), name="lease")
    stopped = asyncio.create_task(stop.wait(), name="stop")
    await asyncio.wait({work, keep, stopped}, return_when=asyncio.FIRST_COMPLETED)
    lost = keep.done()
    # After a loss others may start when our Lease ends: by then our work has ended, or the process does.
    spare = times.duration_seconds - times.renew_deadline_seconds
    drain_seconds = spare * 0.2 if lost else DRAIN_SECONDS
    # A thread, for the case that the event loop itself stands still.
    watchdog = threading.Timer(drain_seconds + spare * 0.6, os._exit, (EXIT_LOST,))
    watchdog.daemon = True
    watchdog.start()
    if not await term.drain(drain_seconds):
        log.error("work would not end; leaving at once")
        os._exit(EXIT_LOST)
    watchdog.cancel()
    if not lost:
        await term.flush(FLUSH_SECONDS)
        keep.cancel()
        await asyncio.gather(keep, return_exceptions=True)
        # Kept until the last reconcile had ended, and only now given to somebody else.
        await elector.release()
    await term.end()
    failed = work.done() and not work.cancelled() and work.exception()
    for task in (work, stopped):
        task.cancel()
    await asyncio.gather(work, stopped, return_exceptions=True)
    if failed:
        raise failed


async def _unless(stop: asyncio.Event, wanted: Coroutine[Any, Any, None]) -> bool:
    """Await `wanted`; False when `stop` is set first."""
    task = asyncio.create_task(wanted)
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
    won = task.done() and not stop.is_set()
    for pending in (task, stopped):
        pending.cancel()
    results = await asyncio.gather(task, stopped, return_exceptions=True)
    if isinstance(results[0], Exception):
        raise results[0]
    return won


def _term_options(options: Options) -> TermOptions:
    return TermOptions(
        namespace=options.own_namespace,
        namespaces=options.namespaces,
        workers=options.workers,
        resync_seconds=options.resync_seconds,
    )


def main(argv: Sequence[str] | None = None, *, build: Build | None = None) -> int:
    """The process; returns its exit code. `build` is replaced by tests that bring their own reconcile."""
    options = parse(argv)
    # While the watches' thread reads its first listings, the workers' loop gets its turn after 1 ms, not 5.
    sys.setswitchinterval(0.001)
    logs.configure(form=options.log_format, level=options.log_level)
    # Here, not above: the kinds, the planner and the statistics under it take a second to import, and --help needs
    # none of them; nor later, when the event loop would stand still for it.
    importlib.import_module("gatewright_operator.notify.notifier")
    if build is None:
        from gatewright_operator.reconcile import build as real

        build = partial(real, controllers=options.controllers)
    try:
        asyncio.run(_until_signal(options, build))
    except (LoginError, CannotListen) as error:
        log.error("cannot start", extra={"error": str(error)})
        return 1
    return 0


async def _until_signal(options: Options, build: Build) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await serve(options, build, stop=stop)
