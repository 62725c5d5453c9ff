"""The real operator in a test's cluster: one per cluster, started when a test first asks for it.

keeper = OperatorKeeper(cluster)
keeper.ensure()                  # runs, leads, has seen everything; whatever a test did to it before
keeper.kill()                    # SIGKILL, as a node that dies
keeper.ensure()                  # another process, which waits for the dead one's Lease to end
"""

import signal

from devcluster import Instance
from devcluster.install import Operator, start_operator, wait_until_ready

LEASE_SECONDS = 5.0
"""Short, so that a successor takes over soon; long enough that a busy machine renews in time."""
ARGS = ("--lease-seconds", f"{LEASE_SECONDS:g}")
NAME = "operator"
READY_SECONDS = 120.0


class OperatorKeeper:
    """Starts, ends and replaces the operator of one cluster."""

    def __init__(self, cluster: Instance) -> None:
        self.cluster = cluster
        self._operator: Operator | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process lives (it may be frozen)."""
        part = self.cluster.status().get(NAME)
        return part is not None and part.running

    def start(self) -> Operator:
        """A new process, which may have to wait for the Lease; one that runs is ended in good order."""
        if self.is_running:
            self.cluster.kill_part(NAME, signal.SIGCONT)
        self._operator = start_operator(self.cluster, name=NAME, args=ARGS)
        return self._operator

    def ensure(self) -> Operator:
        """The operator that runs and leads; a new one where a test killed it or ended it."""
        if self._operator is None or not self.is_running:
            self.start()
        assert self._operator is not None
        # A test that failed may have left it frozen.
        self.cluster.kill_part(NAME, signal.SIGCONT)
        wait_until_ready(self.cluster, self._operator, seconds=READY_SECONDS)
        return self._operator

    def kill(self) -> None:
        """SIGKILL: no good-bye, the Lease stays until it ends by itself."""
        self.cluster.kill_part(NAME, signal.SIGKILL)

    def stop(self) -> None:
        """In good order: the Lease is released. Nothing happens when none runs."""
        if self.is_running:
            self.cluster.kill_part(NAME, signal.SIGCONT)
            self.cluster.kill_part(NAME, signal.SIGTERM, wait_seconds=30.0)
