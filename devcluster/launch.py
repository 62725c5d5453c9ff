"""From a folder to a running cluster: programs, seed, supervisor, keys, parts; on other ports if some are taken."""

import signal
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devcluster import binaries, gomodules
from devcluster.cache import Report
from devcluster.errors import DevclusterError
from devcluster.identities import server_url, write_identities
from devcluster.layout import Layout, Ports, claim_folder, clear_folder
from devcluster.parts import API_SERVER, ETCD, PROGRAM_OF
from devcluster.ports import free_ports
from devcluster.seed import ensure_seed, plant, seed_folder
from devcluster.startup import PortTaken, Startup
from devcluster.supervision import Supervision

_ATTEMPTS = 4
_SEED_STOP_SECONDS = 60.0


@dataclass(frozen=True)
class Wanted:
    """What kind of cluster it is to be."""

    parts: frozenset[str]
    gateway_api: bool
    scrape_interval_seconds: float
    timeout_seconds: float


@dataclass(frozen=True)
class Running:
    """A cluster whose parts are all ready; seconds count from the start of etcd."""

    supervision: Supervision
    ports: Ports
    ready_after_seconds: Mapping[str, float]


def launch(layout: Layout, wanted: Wanted, report: Report) -> Running:
    """Starts a cluster in ``layout.folder`` that is owned by this process; on failure nothing is left running.

    Raises:
        DevclusterError: a program could not be built, the folder is not ours or in use, or a part failed.
    """
    names = {PROGRAM_OF[part] for part in wanted.parts if part in PROGRAM_OF}
    programs = binaries.ensure(*sorted(names), report=report)
    crds = gomodules.gateway_api_crds(report) if wanted.gateway_api else None
    seed = _seed(wanted, programs, crds, report) if API_SERVER in wanted.parts else None
    return _launch(layout, wanted, programs, crds, seed)


def _launch(
    layout: Layout, wanted: Wanted, programs: Mapping[str, Path], crds: Path | None, seed: Path | None
) -> Running:
    claim_folder(layout.folder)
    attempt = 1
    while True:
        # Refused where another cluster runs: from here on it is ours, and so is its end.
        supervision = Supervision.spawn(layout.folder)
        try:
            clear_folder(layout.folder)
            ports = Ports(*free_ports(6))
            write_identities(layout, server_url(ports))
            if seed is not None:
                plant(seed, layout.data / ETCD)
            startup = Startup(
                layout=layout,
                ports=ports,
                supervision=supervision,
                programs=programs,
                wanted=wanted.parts,
                crds=crds,
                seeded=seed is not None,
                scrape_interval_seconds=wanted.scrape_interval_seconds,
                timeout_seconds=wanted.timeout_seconds,
            )
            startup.run()
        except PortTaken:
            supervision.stop()
            if attempt == _ATTEMPTS:
                raise
            attempt += 1
        except BaseException:
            supervision.stop()
            raise
        else:
            return Running(supervision, ports, startup.ready_after_seconds)


def _seed(wanted: Wanted, programs: Mapping[str, Path], crds: Path | None, report: Report) -> Path:
    def make(target: Path) -> None:
        bare = Wanted(frozenset({ETCD, API_SERVER}), crds is not None, 1.0, wanted.timeout_seconds)
        with tempfile.TemporaryDirectory(prefix="devcluster-seed-") as folder:
            layout = Layout(Path(folder))
            supervision = _launch(layout, bare, programs, crds, seed=None).supervision
            try:
                # In this order, and politely, so that nothing is half written.
                for part in (API_SERVER, ETCD):
                    supervision.signal(part, signal.SIGTERM)
                    if supervision.wait_for_exit(part, _SEED_STOP_SECONDS) is None:
                        raise DevclusterError(f"{part} did not stop after an empty cluster was prepared.")
                plant(layout.data / ETCD, target)
            finally:
                supervision.stop()

    return ensure_seed(seed_folder(programs, crds), make, report)
